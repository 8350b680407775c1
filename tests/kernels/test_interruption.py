"""Ctrl-C inside one long call of a kernel: it ends the call, and the next one is whole."""

import signal
import threading
import time
from collections import Counter
from types import CodeType

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.sequences import Sequences
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.inference.gibbs import gibbs_sample
from fieldfit.models.potts_blocks_problem import PottsBlocksProblem

MODEL = ff.BoltzmannMachine(30, biases=True)


@pytest.fixture
def handler():
    """SIGALRM raises, as Ctrl-C does, and counts how often."""
    calls = []

    def raising(number, frame):
        calls.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raising)
    yield calls
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def fields():
    """Triples of 30 variables for thousands of samples: a good part of a second for each evaluation."""
    values = np.random.default_rng(0).integers(0, 2, (10_000, 30))
    selection = ff.Policy.parse("PL3").bind(MODEL.structure()).draw(0, 0, len(values))
    problem = MODEL.compile(MODEL.read(values), selection)
    return problem, np.zeros(MODEL.n_parameters)


def triples():
    """A second-order chain of 20 labels, every triple allowed: a good part of a second for each evaluation."""
    K, n = 20, 40_000
    labels = np.random.default_rng(0).integers(0, K, n).astype(np.int32)
    data = Sequences(np.arange(0, n + 1, 50), np.arange(n + 1), labels, None, labels, K, K)
    model = ff.ChainCRF(K, K, order=2).observe(data)
    selection = ff.Policy.parse("FL").bind(model.structure(data)).draw(0, 0, data.n)
    return model.compile(data, selection), np.zeros(model.n_parameters)


@pytest.mark.slow
@pytest.mark.parametrize("make", [fields, triples])
def test_signals_are_handled_while_a_problem_is_evaluated(make):
    """Signals during a call that does not look are handled once, after it; here several are, at one instruction."""
    problem, theta = make()
    places: Counter[tuple[CodeType, int]] = Counter()
    before = signal.signal(signal.SIGALRM, lambda number, frame: places.update([(frame.f_code, frame.f_lasti)]))
    try:
        with ff.use_threads(2):
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            problem.value_grad(theta)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert max(places.values()) > 1


@pytest.mark.slow
@pytest.mark.parametrize("make", [pytest.param(fields, marks=pytest.mark.slow), triples])
def test_one_evaluation_is_interrupted(handler, make):
    problem, theta = make()
    with ff.use_threads(2):
        whole = problem.value_grad(theta)
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with pytest.raises(KeyboardInterrupt):
            problem.value_grad(theta)
        assert len(handler) == 1
        again = problem.value_grad(theta)
    assert again[0] == whole[0]
    assert again[1].tobytes() == whole[1].tobytes()


def potts_blocks():
    """Pairs of 24 sites with 6 states: a good part of a second for each evaluation."""
    model = ff.Potts(24, 6)
    values = np.random.default_rng(0).integers(0, 6, (6_000, 24))
    selection = ff.Policy.parse("PL2").bind(model.structure()).draw(0, 0, len(values))
    problem = model.compile(model.read(values), selection)
    assert isinstance(problem, PottsBlocksProblem)
    return problem, np.zeros(model.n_parameters)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["value_grad", "row_values"])
def test_signals_are_handled_while_potts_blocks_are_evaluated(method):
    problem, theta = potts_blocks()
    places: Counter[tuple[CodeType, int]] = Counter()
    before = signal.signal(signal.SIGALRM, lambda number, frame: places.update([(frame.f_code, frame.f_lasti)]))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        getattr(problem, method)(theta)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert max(places.values()) > 1


@pytest.mark.slow
def test_one_evaluation_of_potts_blocks_is_interrupted(handler):
    problem, theta = potts_blocks()
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    with pytest.raises(KeyboardInterrupt):
        problem.value_grad(theta)
    assert len(handler) == 1
    # The next call is whole: without couplings and fields every state of a block has the same probability.
    assert problem.value_grad(theta)[0] == pytest.approx(-6_000 * 276 * 2 * np.log(6), rel=1e-12)


@pytest.mark.slow
def test_python_threads_are_left_alone(handler):
    problem, theta = fields()
    found = []
    worker = threading.Thread(target=lambda: found.append(problem.value_grad(theta)[0]))
    worker.start()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    with pytest.raises(KeyboardInterrupt):
        time.sleep(120)
    worker.join()
    assert found == [problem.value_grad(theta)[0]]


@pytest.mark.parametrize("sweeps", [{"burn_in": 10**9, "thin": 1}, {"burn_in": 0, "thin": 10**9}])
@pytest.mark.parametrize(
    ("states", "scopes"),
    [(2, [(0, 1), (1, 2)]), (3, [(0, 1), (1, 2)]), (2, [(0, 1, 2)])],
    ids=["binary", "pairs", "triples"],
)
def test_one_long_run_of_gibbs_sweeps_is_interrupted(handler, states, scopes, sweeps):
    """In the burn-in as well as between two draws, which would take minutes."""
    graph = FactorGraph((states,) * 3, scopes)
    gibbs_sample(graph, np.zeros(graph.table_size), 8, 0, burn_in=0, thin=1)  # imports what it needs
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    with pytest.raises(KeyboardInterrupt):
        gibbs_sample(graph, np.zeros(graph.table_size), 8, 0, **sweeps)
    assert len(handler) == 1

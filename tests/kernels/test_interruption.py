"""Ctrl-C inside one long call of a kernel: it ends the call, and the next one is whole."""

import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

import fieldfit as ff

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
    """Triples of 30 variables for thousands of samples: seconds for each evaluation."""
    values = np.random.default_rng(0).integers(0, 2, (30_000, 30))
    selection = ff.Policy.parse("PL3").bind(MODEL.structure()).draw(0, 0, len(values))
    problem = MODEL.compile(MODEL.read(values), selection)
    return problem, np.zeros(MODEL.n_parameters)


def test_signals_are_handled_while_a_field_is_evaluated():
    """Signals during a call that does not look are handled once, after it; here several are, at one instruction."""
    problem, theta = fields()
    places = Counter()
    before = signal.signal(signal.SIGALRM, lambda number, frame: places.update([(frame.f_code, frame.f_lasti)]))
    try:
        with ff.use_threads(2):
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            problem.value_grad(theta)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert max(places.values()) > 1


def test_one_evaluation_of_a_field_is_interrupted(handler):
    problem, theta = fields()
    with ff.use_threads(2):
        whole = problem.value_grad(theta)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            problem.value_grad(theta)
        assert len(handler) == 1
        again = problem.value_grad(theta)
    assert again[0] == whole[0]
    assert again[1].tobytes() == whole[1].tobytes()


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

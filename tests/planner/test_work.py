"""Counted work and the calibration's cache."""

import json
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.samples import Table
from fieldfit.models.field_problem import FieldProblem
from fieldfit.planner import calibration as calibrating
from fieldfit.planner.costs import policy_work
from fieldfit.policies import Policy


def table(model, n, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, c, n) for c in model.graph.cardinalities], axis=1).astype(np.int32)
    return Table(codes, model.names, model.states)


@pytest.mark.parametrize("text", ["PL2", "0.3*PL2", "Partition(3)", "0.2*PL2/row", "0.2*PL1"])
@pytest.mark.parametrize(("m", "n"), [(6, 4000), (24, 700)])
def test_counted_blocks_are_those_that_the_kernel_gets(m, n, text):
    model = ff.BoltzmannMachine(m)
    data = table(model, n)
    work = policy_work(model, data, text, np.zeros(model.n_parameters))
    problem: Any = model.compile(data, Policy.parse(text).bind(model.structure()).draw(3, 0, n))
    layout = problem._layout
    entries = sum(amount for kind, amount in work.items() if kind.startswith("entry"))
    assert entries == pytest.approx(len(layout.entry_component), rel=0.08)
    lanes = -(-layout.n // 64) * 64  # the kernel's tiles
    assert work["dense"] == pytest.approx(lanes * (16 if m == 6 else 32) * 32, rel=0.08)


def test_counted_configurations_are_those_of_the_compiled_problem():
    model = ff.Potts.grid(3, 3, 3)
    data = table(model, 500)
    for text in ("PL1", "0.4*PL1", "FL"):
        work = policy_work(model, data, text, np.zeros(model.n_parameters))
        problem = model.compile(data, Policy.parse(text).bind(model.structure()).draw(1, 0, data.n))
        assert isinstance(problem, FieldProblem)
        assert work["setup_configuration"] == pytest.approx(problem.configurations.count, rel=0.05)
        factors = [len(program.factors) for program in problem.programs.programs]
        assert work["configuration"] == pytest.approx(np.diff(problem.configurations.config_ptr) @ factors, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["0.2*PL1/row", "0.15*PL2/row + 0.1*PL1/row", "0.01*PL1"])
@pytest.mark.parametrize("m", [5, 30])
def test_samples_without_components_are_left_out_and_change_nothing(m, text):
    model = ff.BoltzmannMachine(m, biases=True, states=(-1, 1))
    data = table(model, 900)
    rng = np.random.default_rng(2)
    theta, v = rng.normal(size=(2, model.n_parameters)) * 0.2
    weight = rng.uniform(0.5, 2, data.n)
    selection = Policy.parse(text).bind(model.structure()).draw(7, 0, data.n)
    fast: Any = model.compile(data, selection)
    slow = FieldProblem(model.field_arrays, data.codes, selection)
    assert fast._layout.n < 0.5 * data.n
    for own in (None, weight):
        for left, right in zip(fast.value_grad(theta, own), slow.value_grad(theta, own), strict=True):
            np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(
            fast.hessian_product(theta, v, own), slow.hessian_product(theta, v, own), rtol=1e-10, atol=1e-9
        )
    np.testing.assert_allclose(fast.row_values(theta), slow.row_values(theta), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fast.row_products(theta, v), slow.row_products(theta, v), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fast.scores(theta, 10, 40), slow.scores(theta, 10, 40), rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_calibration_is_cached_and_read_again(measured, tmp_path, monkeypatch):
    runs = calibrating.runs()
    monkeypatch.setattr(calibrating, "runs", lambda: [runs[0], runs[14], runs[17]])
    monkeypatch.setattr(calibrating, "_MOST_WAITED", np.inf)
    monkeypatch.setattr(calibrating, "_WORTH_KEEPING", np.inf)
    first = calibrating.calibration(ff.fit)
    assert first.source == "measured now"
    files = list((tmp_path / "cache").glob("*.json"))
    assert len(files) == 1
    calibrating._KNOWN.clear()
    again = calibrating.calibration(ff.fit)
    assert again.source == str(files[0])
    assert dict(again.rates) == pytest.approx(dict(first.rates))
    for damage in (
        "",
        "[]",
        '{"rates": {}}',
        '{"rates": {"call": "x"}, "error": 0}',
        '{"rates": {"call": -1}, "error": 0}',
    ):
        files[0].write_text(damage)
        calibrating._KNOWN.clear()
        assert calibrating.calibration(ff.fit).source == "measured now"
        assert json.loads(files[0].read_text())["rates"]


def test_a_cache_that_cannot_be_written_is_no_error(measured, tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("FIELDFIT_CACHE", str(blocked))
    runs = calibrating.runs()
    monkeypatch.setattr(calibrating, "runs", lambda: [runs[0]])
    assert calibrating.calibration(ff.fit).source == "measured now"
    assert blocked.read_text() == "not a folder"


@pytest.mark.parametrize(
    ("error", "waited", "threads", "kept"),
    [(0.05, 0.1, 2, True), (0.6, 0.1, 1, False), (0.05, 2.0, 2, False), (0.05, 2.0, 1, True)],
)
def test_what_threads_bring_on_a_busy_machine_is_not_kept(
    measured, tmp_path, monkeypatch, error, waited, threads, kept
):
    found = calibrating.Calibration({"call": 1e-5}, error, "measured now", threads=threads, waited=waited)
    monkeypatch.setattr(calibrating, "measure", lambda fit: found)
    assert calibrating.calibration(ff.fit) is found
    assert calibrating.calibration(ff.fit) is found  # known to the process
    assert len(list((tmp_path / "cache").glob("*.json"))) == int(kept)


def test_threads_share_tasks_and_nothing_else():
    rates = {"call": 1.0, "dense": 1.0, "eliminate8": 1.0}
    work = {"call": 1.0, "dense": 8.0, "eliminate8": 6.0, "pairwise_tasks": 4.0, "elimination_tasks": 1.0}
    one = calibrating.Calibration(rates, 0.0, "")
    assert one.evaluation_seconds(work) == pytest.approx(15)
    two = calibrating.Calibration(rates, 0.0, "", threads=2, gain=1.0, fork=0.5)
    assert two.evaluation_seconds(work) == pytest.approx(1 + 4 + 0.5 + 6)
    three = calibrating.Calibration(rates, 0.0, "", threads=3, gain=0.5)
    # Four tasks on three threads take two rounds: twice as fast at best, half of that gain is reached.
    assert three.evaluation_seconds(work) == pytest.approx(1 + 8 / 1.5 + 6)


def test_sequences_are_timed_as_a_line_with_a_share_that_selection_does_not_save():
    from fieldfit.models.work import Line, TimedWork
    from fieldfit.policies.laws.base import Share

    line = Line.through(100, 3.0, 50, 2.0)
    assert line.at(200) == pytest.approx(5.0)
    assert Line.through(100, 1.0, 50, 2.0).at(200) == pytest.approx(1.0)  # noise: nothing for each sample
    assert Line.through(100, 1.0, 50, 0.0).at(200) == pytest.approx(2.0)  # noise: nothing fixed
    work = TimedWork(200, line, Line(0.0, 0.01), base=0.5)
    assert work.work(Share(1.0, 1.0))["seconds"] == pytest.approx(5.0)
    assert work.work(Share(0.5, 1.0))["seconds"] == pytest.approx(line.at(150))
    assert work.work(Share(0.5, 0.5, together=True))["seconds"] == pytest.approx(line.at(100))


def test_each_family_is_fitted_for_its_own_number_of_evaluations():
    from fieldfit.planner.convergence import maximise, penalised, steps_of

    model = ff.BoltzmannMachine.grid(4, 4)
    theta = np.random.default_rng(3).normal(size=model.n_parameters)
    data = model.read(model.sample(theta, 400, random_state=0).values)
    found = {}
    for text in ("PL1", "FL"):
        problem = model.compile(data, Policy.parse(text).bind(model.structure()).draw(0, 0, data.n))
        steps = steps_of(penalised(problem))
        solution = maximise(penalised(problem))
        assert steps.converged
        assert steps.count == solution.evaluations + solution.hessian_products
        assert steps.equivalents > solution.evaluations
        found[text] = steps
    # PL1 has a preconditioner, FL takes many Hessian products.
    assert found["FL"].count > 2 * found["PL1"].count


def test_a_long_sum_is_priced_as_it_was_timed():
    from fieldfit.models.work import TimedSum
    from fieldfit.policies.laws.base import Share

    class Counted:
        def __init__(self, tasks):
            self.tasks = tasks

        def work(self, share):
            return {"call": 1.0, "eliminate1": 1e6, "setup_map": 5.0, "elimination_tasks": self.tasks}

    share = Share(1.0, 1.0)
    rates = calibrating.Calibration({"call": 1e-3, "eliminate1": 1e-9, "setup_map": 1e-3, "seconds": 1.0}, 0.0, "")
    work = TimedSum(Counted(1.0), 0.06).work(share)
    assert rates.evaluation_seconds(work) == pytest.approx(0.061)
    assert rates.setup_seconds(work) == pytest.approx(0.005)
    several = Counted(4.0)
    assert TimedSum(several, 0.06).work(share) == several.work(share)

"""``A >> optimal`` of samples in shards: the estimate of one machine, with the same bits wherever the shards are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.data.samples import Table
from fieldfit.refinement.estimating import SampleConditions
from fieldfit.refinement.local_refined import LocalRefined
from fieldfit.refinement.sharded_conditions import ShardedConditions, some_samples
from fieldfit.refinement.stacking import stack
from fieldfit.shards.backend import LocalBackend

MODEL = ff.BoltzmannMachine.grid(2, 3, states=(-1, 1))
TRUTH = np.array([0.9, -0.7, 0.8, 0.6, -0.9, 0.7, 0.8])
CASES = [
    ("PL1 >> optimal(2)", {}),
    ("PL1 >> optimal(2)", {"sigma2": 0.5}),
    ("0.5*PL1 >> optimal(1)", {"random_state": 5}),
    pytest.param("0.7*PL1 + 0.3*PL2 >> optimal(1)", {"random_state": 5}, marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def frame():
    drawn = pd.DataFrame(MODEL.sample(TRUTH, 900, random_state=1).values, columns=list(MODEL.names))
    weight = np.random.default_rng(0).integers(0, 4, len(drawn))
    weight[:150] = 0  # the first of seven shards has no sample that counts
    return drawn.assign(w=weight)


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    for number in range(3):
        frame[300 * number : 300 * number + 300].to_csv(folder / f"{number}.csv", index=False)
    return str(folder / "*.csv")


@pytest.mark.parametrize(("policy", "options"), CASES)
@pytest.mark.parametrize("weight_kind", [None, "importance", "counts"])
def test_the_estimate_of_one_machine(frame, files, policy, options, weight_kind):
    if weight_kind is not None:
        options = {**options, "sample_weight": "w", "weight_kind": weight_kind}
    pieces = ff.fit(MODEL, files, policy, tol=1e-10, **options)
    whole = ff.fit(MODEL, frame if weight_kind else frame.drop(columns="w"), policy, tol=1e-10, **options)
    assert pieces.refinement.accepted
    one, other = (vars(fit.refinement.account) for fit in (pieces, whole))
    assert [one[key] for key in ("ridge", "conditions")] == [other[key] for key in ("ridge", "conditions")]
    assert np.abs(pieces.theta - pieces.refinement.first_theta).max() > 1e-3  # the second stage did something
    np.testing.assert_allclose(pieces.theta, whole.theta, atol=1e-6)
    np.testing.assert_allclose(pieces.standard_errors(), whole.standard_errors(), rtol=1e-5)
    np.testing.assert_allclose(pieces.standard_errors("model"), whole.standard_errors("model"), rtol=1e-5)
    if "sigma2" not in options and weight_kind is None:
        np.testing.assert_allclose(
            pieces.specification_test().statistic, whole.specification_test().statistic, rtol=1e-4
        )


@pytest.mark.slow
def test_the_same_bits_wherever_the_shards_are(frame, files):
    policy = "0.5*PL1 >> optimal(2)"
    pieces = ff.fit(MODEL, files, policy)
    shards = ff.fit(MODEL, frame.drop(columns="w"), policy, shards=3)
    reread = ff.fit(MODEL, files, policy, backend=LocalBackend(keep=0))
    for other in (shards, reread):
        assert other.theta.tobytes() == pieces.theta.tobytes()
        assert other.standard_errors().tobytes() == pieces.standard_errors().tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["PL1 >> optimal(2)", "PL1 >> 0.3*FL", "PL1 >> FL~1000", "local"])
def test_the_same_bits_on_workers(files, policy, monkeypatch):
    distributed = pytest.importorskip("distributed")
    if policy == "local":
        monkeypatch.setattr("fieldfit.refinement.local.MOST_CONDITIONS", 3)
        policy = "PL1 >> optimal"
    here = ff.fit(MODEL, files, policy)
    for workers in (1, 2):
        with distributed.Client(
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as client:
            there = ff.fit(MODEL, files, policy, backend=client)
            assert there.standard_errors().tobytes() == here.standard_errors().tobytes()
        assert there.theta.tobytes() == here.theta.tobytes()


@pytest.mark.parametrize("policy", ["PL1", "0.5*PL1", pytest.param("0.7*PL1 + 0.3*PL2", marks=pytest.mark.slow)])
def test_sums_are_those_of_all_samples(frame, policy):
    table = MODEL.read(frame, sample_weight="w")
    fit = ff.fit(MODEL, frame, policy, sample_weight="w", shards=7, random_state=2)
    prepared, random = fit.prepared, np.random.default_rng(1)
    conditions = stack(MODEL, prepared.bound, 2)
    problem: Any = prepared.problem
    there = ShardedConditions(
        problem, conditions.conditions, table.sample_weight, table.codes[:5], conditions.masking
    )
    here = SampleConditions(
        conditions.conditions, table.codes, conditions.mask(prepared.selection), table.sample_weight
    )
    matrix = random.normal(size=(4, conditions.conditions.size))
    assert (there.n, there.total) == (900, here.total)
    np.testing.assert_allclose(there.mean(TRUTH), here.mean(TRUTH), atol=1e-12)
    np.testing.assert_allclose(there.derivative(TRUTH), here.derivative(TRUTH), atol=1e-12)
    np.testing.assert_allclose(there.covariance(TRUTH, matrix), here.covariance(TRUTH, matrix), atol=1e-10)
    for groups in (None, random.integers(0, 50, 900)):
        variance = ScoreVariance(table.sample_weight, False, groups, np.full(4, 0.1))
        np.testing.assert_allclose(
            there.meat(TRUTH, matrix, variance), here.meat(TRUTH, matrix, variance), rtol=1e-10, atol=1e-8
        )
    blocks = [block for _, block in there.scores(TRUTH, matrix)]
    np.testing.assert_allclose(
        np.concatenate(blocks), np.concatenate([b for _, b in here.scores(TRUTH, matrix)]), atol=1e-12
    )
    rows = random.permutation(900)[:40]
    some, expected = there.subset(rows), here.subset(rows)
    np.testing.assert_array_equal(some.codes, expected.codes)
    np.testing.assert_array_equal(some.weight, expected.weight)
    if policy != "PL1":
        np.testing.assert_array_equal(some.mask, expected.mask)


def test_some_samples_are_spread_over_all_shards(monkeypatch, frame):
    monkeypatch.setattr("fieldfit.refinement.sharded_conditions._AT_HAND", 31)
    fit = ff.fit(MODEL, frame.drop(columns="w"), "PL1", shards=4)
    some, whole = some_samples(fit.prepared.problem, MODEL), MODEL.read(frame.drop(columns="w"))  # type: ignore[arg-type]
    assert isinstance(some, Table)
    np.testing.assert_array_equal(some.codes, whole.codes[np.linspace(0, 899, 31).astype(int)])


@pytest.mark.parametrize("options", [{}, {"sigma2": 0.5}, {"sample_weight": "w"}])
def test_local_weights_are_those_of_one_machine(monkeypatch, frame, files, options):
    monkeypatch.setattr("fieldfit.refinement.local.MOST_CONDITIONS", 3)
    data = frame if "sample_weight" in options else frame.drop(columns="w")
    pieces = ff.fit(MODEL, files, "PL1 >> optimal", tol=1e-10, **options)
    whole = ff.fit(MODEL, data, "PL1 >> optimal", tol=1e-10, **options)
    shards = ff.fit(MODEL, data, "PL1 >> optimal", tol=1e-10, shards=3, **options)
    assert pieces.refinement.accepted
    assert "local regressions" in vars(pieces.refinement.account)["source"]
    np.testing.assert_allclose(pieces.theta, whole.theta, atol=1e-6)
    assert pieces.theta.tobytes() == shards.theta.tobytes()
    np.testing.assert_allclose(pieces.standard_errors(), whole.standard_errors(), rtol=1e-5)
    monkeypatch.setattr("fieldfit.refinement.local_refined.MOST_COVARIANCE_PARAMETERS", 3)
    monkeypatch.setattr("fieldfit.api.accuracies.MOST_COVARIANCE_PARAMETERS", 3)
    sparse = []
    for fit in (pieces, whole):
        stage = fit.refinement.working
        assert isinstance(stage, LocalRefined)
        sparse.append(replace(fit, refinement=replace(fit.refinement, working=replace(stage))))
    few = [fit.standard_errors(parameters=[0, 4]) for fit in sparse]
    np.testing.assert_allclose(few[0], few[1], rtol=1e-5)
    np.testing.assert_allclose(few[0], whole.standard_errors()[[0, 4]], rtol=1e-3)
    np.testing.assert_allclose(
        pieces.influence(parameters=[0])[:, 0], whole.influence(parameters=[0])[:, 0], atol=1e-8
    )


@pytest.mark.slow
@pytest.mark.parametrize(("second", "options"), [("0.3*FL", {}), ("0.3*FL/row", {"sigma2": 0.5}), ("FL~3000", {})])
@pytest.mark.parametrize("weight_kind", [None, "importance", "counts"])
def test_control_variates_and_draws_are_those_of_one_machine(frame, files, second, options, weight_kind):
    data = frame if weight_kind else frame.drop(columns="w")
    options = {**options, "tol": 1e-10, "random_state": 3}
    if weight_kind is not None:
        options |= {"sample_weight": "w", "weight_kind": weight_kind}
    pieces = ff.fit(MODEL, files, f"PL1 >> {second}", **options)
    whole = ff.fit(MODEL, data, f"PL1 >> {second}", **options)
    if weight_kind == "counts" and second.startswith("0.3"):
        # Every copy is a sample with a selection of its own, and the files have different numbers of copies.
        shards = ff.fit(MODEL, files, f"PL1 >> {second}", **options)
        copies = data.loc[np.repeat(data.index, data["w"].astype(int))].drop(columns="w")
        single = ff.fit(MODEL, copies, f"PL1 >> {second}", tol=1e-10, random_state=3, sigma2=options.get("sigma2"))
        np.testing.assert_allclose(single.theta, whole.theta, atol=1e-8)
    else:
        shards = ff.fit(MODEL, data, f"PL1 >> {second}", shards=3, **options)
    assert pieces.theta.tobytes() == shards.theta.tobytes()
    assert np.abs(pieces.theta - pieces.refinement.first_theta).max() > 1e-3
    np.testing.assert_allclose(pieces.theta, whole.theta, atol=1e-6)
    for kind in ("robust", "model"):
        assert pieces.standard_errors(kind).tobytes() == shards.standard_errors(kind).tobytes()
        np.testing.assert_allclose(pieces.standard_errors(kind), whole.standard_errors(kind), rtol=1e-5)
    np.testing.assert_allclose(pieces.influence(rows=[0, 500]), whole.influence(rows=[0, 500]), atol=1e-7)


@pytest.mark.slow
def test_model_based_errors_are_simulated_where_the_samples_are(frame, files, monkeypatch):
    monkeypatch.setattr("fieldfit.asymptotics.expectations.MOST_ENUMERATED_STATES", 3)
    fits = [
        ff.fit(MODEL, data, "0.7*PL1", tol=1e-10, random_state=2, **options)  # type: ignore[arg-type]
        for data, options in ((files, {}), (frame.drop(columns="w"), {"shards": 3}), (frame.drop(columns="w"), {}))
    ]
    pieces, shards, whole = (fit.standard_errors("model") for fit in fits)
    assert "simulated datasets of 900 samples" in fits[0].accuracy("model").method
    assert pieces.tobytes() == shards.tobytes()
    # 23 datasets of 900 samples each: the ratio of two such errors has a standard deviation of about 1%.
    np.testing.assert_allclose(pieces, whole, rtol=0.05)
    monkeypatch.undo()
    again = [ff.fit(MODEL, data, "0.7*PL1", tol=1e-10, random_state=2) for data in (files, frame.drop(columns="w"))]
    exact = [fit.standard_errors("model") for fit in again]
    np.testing.assert_allclose(exact[0], exact[1], rtol=1e-6)
    np.testing.assert_allclose(pieces, exact[0], rtol=0.05)

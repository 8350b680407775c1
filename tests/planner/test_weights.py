"""Sample weights in plans: counts are repeated rows, importance weights are in bread and meat as in a fit."""

import json
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics import ScoreVariance, robust_moments
from fieldfit.cli import main
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.planner import moments as gathering
from fieldfit.planner import pilot as piloting
from fieldfit.policies import Policy
from fieldfit.types import DataError

POLICIES = ["PL1", "PL2", "FL", "Partition(2)", "0.5*PL1 + 0.3*PL2@0.2", "0.2*PL1/row"]


def counted(five, n=700, seed=0):
    model, _, x = five
    return model, x[:n], np.random.default_rng(seed).integers(0, 4, n)


def columns(plan, name="variance"):
    return plan.table.set_index("policy")[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("enumerated", "dense"), [(1 << 12, 120), *(pytest.param(0, dense, marks=pytest.mark.slow) for dense in (120, 5))]
)
def test_counts_are_repeated_rows(five, monkeypatch, enumerated, dense):
    model, x, counts = counted(five)
    monkeypatch.setattr(gathering, "MOST_PLANNED_STATES", enumerated)
    monkeypatch.setattr(piloting, "MOST_DENSE_MOMENTS", dense)
    short = ff.plan(model, x, policies=POLICIES, sample_weight=counts, weight_kind="counts")
    long = ff.plan(model, np.repeat(x, counts, axis=0), policies=POLICIES)
    assert short.n == long.n == counts.sum()
    np.testing.assert_allclose(short.theta, long.theta, rtol=1e-9)
    np.testing.assert_allclose(columns(short), columns(long)[columns(short).index], rtol=1e-9)


def test_counts_are_repeated_rows_where_the_pilot_is_a_part(five):
    model, x, counts = counted(five, 2500)
    assert counts.sum() > 3000  # the pilot has 2,000
    short = ff.plan(model, x, policies=["PL1", "FL"], sample_weight=counts, weight_kind="counts")
    long = ff.plan(model, np.repeat(x, counts, axis=0), policies=["PL1", "FL"])
    np.testing.assert_allclose(short.theta, long.theta, rtol=1e-9)
    np.testing.assert_allclose(columns(short), columns(long)[columns(short).index], rtol=1e-9)


def test_a_fit_of_everything_sees_rows_and_one_with_random_selection_copies(five):
    model, x, _ = counted(five)
    counts = np.full(len(x), 5)
    plan = ff.plan(model, x, policies=["PL1", "0.5*PL1"], sample_weight=counts, weight_kind="counts")
    flops = columns(plan, "flops")
    assert flops["0.5*PL1"] == pytest.approx(0.5 * 5 * flops["PL1"])
    for policy in ("PL1", "0.5*PL1"):
        fit = ff.fit(model, x, policy, sample_weight=counts, weight_kind="counts")
        assert flops[policy] == pytest.approx(fit.cost.flops * plan.evaluations, rel=0.05)


def weights_of(x):
    """Weights that depend on the values, and so change ratios of variances; the weighted law is in the family."""
    return np.exp(
        0.8 * x[:, 0] * x[:, 3] + 0.6 * x[:, 1] * x[:, 2] + np.random.default_rng(2).normal(size=len(x)) * 0.5
    )


@pytest.mark.slow
@pytest.mark.parametrize("scale", [pytest.param(1.0, marks=pytest.mark.slow), 40.0])
def test_importance_weights_give_the_sandwich_of_the_fit(five, scale):
    model, _, x = five
    x = x[:1000]  # the pilot and the moments have all of them
    weight = scale * weights_of(x)
    name = model.with_names([f"x{k}" for k in range(5)]).parameter_names[4]
    plan = ff.plan(model, x, policies=["PL1", "PL2", "FL"], sample_weight=weight)
    table = model.read(x)
    covariance, bread = {}, {}
    for text in ("PL1", "PL2", "FL"):
        problem = model.compile(table, Policy.parse(text).bind(model.structure()).draw(0, 0, table.n))
        H, M = robust_moments(problem, plan.theta, ScoreVariance(weight))
        covariance[text], bread[text] = np.linalg.solve(H, np.linalg.solve(H, M).T), H
    for text in ("PL1", "PL2"):
        ratio = np.trace(bread["FL"] @ covariance[text]) / np.trace(bread["FL"] @ covariance["FL"])
        assert columns(plan)[text] == pytest.approx(ratio, rel=1e-8)
    # The weights matter: without them the ratio is another one.
    assert abs(columns(ff.plan(model, x, policies=["PL1", "PL2", "FL"]))["PL1"] / columns(plan)["PL1"] - 1) > 0.01
    named = ff.plan(model, x, policies=["PL1", "FL"], sample_weight=weight, functionals=[name])
    fits = {text: ff.fit(model, x, text, sample_weight=weight) for text in ("PL1", "FL")}
    variance = {text: fit.standard_errors(kind="robust")[4] ** 2 for text, fit in fits.items()}
    assert columns(named)["PL1"] == pytest.approx(variance["PL1"] / variance["FL"], rel=0.05)


@pytest.mark.slow
def test_selection_noise_has_squared_weights(five):
    model, _, x = five
    x = x[:1000]
    weight = weights_of(x)
    plan = ff.plan(model, x, policies=["PL1", "0.4*PL1", "0.4*PL1/row", "Partition(2)", "FL"], sample_weight=weight)
    H = robust_moments(
        model.compile(model.read(x), Policy.parse("FL").bind(model.structure()).draw(0, 0, len(x))),
        plan.theta,
        ScoreVariance(weight),
    )[0]

    def trace(text, seeds):
        found = [ff.fit(model, x, text, sample_weight=weight, random_state=seed) for seed in range(seeds)]
        return np.mean([np.trace(H @ fit.covariance(kind="robust")) for fit in found])

    for text in ("0.4*PL1", "0.4*PL1/row", "Partition(2)"):
        expected = trace(text, 8) / trace("FL", 1)
        assert columns(plan)[text] == pytest.approx(expected, rel=0.12)


def test_rows_of_weight_zero_say_nothing(five):
    model, _, x = five
    x = x[:800]
    weight = weights_of(x)
    weight[::3] = 0
    some = ff.plan(model, x, policies=["PL1", "FL"], sample_weight=weight)
    kept = weight > 0
    without = ff.plan(model, x[kept], policies=["PL1", "FL"], sample_weight=weight[kept])
    np.testing.assert_allclose(columns(some), columns(without)[columns(some).index], rtol=1e-9)


def sentences(n=60, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(2, 8, n))))
    tokens = int(offsets[-1])
    indices = rng.integers(0, 4, tokens).astype(np.int32)
    labels = ((indices + rng.integers(0, 2, tokens)) % 3).astype(np.int32)
    return Sequences(offsets, np.arange(tokens + 1), indices, None, labels, 4, 3)


@pytest.mark.slow
def test_sentences_with_counts_and_with_importance():
    data = sentences()
    model = ChainCRF(3, 4).observe(data)
    counts = np.random.default_rng(1).integers(0, 3, len(data))
    options: dict[str, Any] = {"policies": ["PL1", "PL2", "FL", "0.3*PL1/sentence"], "sigma2": 10.0}
    short = ff.plan(model, data, sample_weight=counts, weight_kind="counts", **options)
    long = ff.plan(model, data.subset(np.repeat(np.arange(len(data)), counts)), **options)
    np.testing.assert_allclose(columns(short), columns(long)[columns(short).index], rtol=1e-6)
    weighted = ff.plan(model, data, sample_weight=np.random.default_rng(2).uniform(0.2, 3, len(data)), **options)
    assert "Importance weights" in weighted.explain()
    assert (columns(weighted) >= 1 - 1e-6).all()


def test_too_few_counted_samples_are_refused(five):
    model, _, x = five
    with pytest.raises(DataError, match="at least 10"):
        ff.plan(model, x[:20], sample_weight=np.r_[np.ones(9), np.zeros(11)], weight_kind="counts")


@pytest.mark.slow
def test_the_command_takes_the_weights_of_fit(five, tmp_path, capsys):
    _, x, counts = counted(five, 300)
    for name, rows in (("short", np.c_[x, counts]), ("long", np.repeat(np.c_[x, counts], counts, axis=0))):
        np.savetxt(tmp_path / f"{name}.csv", rows, fmt="%d", delimiter=",", header="a,b,c,d,e,w", comments="")
    common = ["--columns", "a,b,c,d,e", "-p", "PL1", "-p", "FL", "--json"]
    weights = ["--sample-weight", "w", "--weight-kind", "counts"]
    assert main(["plan", str(tmp_path / "short.csv"), *weights, *common]) == 0
    short = json.loads(capsys.readouterr().out)
    assert main(["plan", str(tmp_path / "long.csv"), *common]) == 0
    long = json.loads(capsys.readouterr().out)
    variance = [{own["policy"]: own["variance"] for own in plan["policies"]} for plan in (short, long)]
    assert variance[0] == pytest.approx(variance[1], rel=1e-9)
    assert main(["plan", str(tmp_path / "short.csv"), "--sample-weight", "w", *common]) == 0
    assert "Importance weights" in json.loads(capsys.readouterr().out)["explanation"]

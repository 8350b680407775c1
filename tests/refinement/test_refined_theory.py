"""Asymptotic efficiency of refined pseudo-likelihood, against an enumeration that shares nothing with the library."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.policies import Policy
from fieldfit.refinement.optimal import model_weights
from fieldfit.types import ModelError, PolicyError


def grid(rows: int, columns: int) -> list[tuple[int, int]]:
    across = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    down = [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]
    return across + down


def signs(n: int) -> np.ndarray:
    """A fixed pattern of −1 and +1: the parity of the bits of 5k + 3."""
    return np.array([1.0 if bin(5 * k + 3).count("1") % 2 else -1.0 for k in range(n)])


def by_enumeration(m, edges, couplings, biases, states, distance, tied=False):
    """(det^(1/r), trace/r) of optimal(distance): residuals x_j − E[x_j | x_−j] times variables within the distance.

    ``tied``: one coupling for all edges, and one bias for all variables.
    """
    low, high = states
    x = np.array(list(itertools.product(states, repeat=m)), dtype=float)
    f = np.stack([x[:, a] * x[:, b] for a, b in edges], 1)
    theta, h = np.asarray(couplings, float), np.zeros(m)
    if biases is not None:
        h = np.asarray(biases, float)
        f, theta = np.concatenate([f, x], 1), np.r_[theta, h]
    p = np.exp(f @ theta)
    p /= p.sum()
    information = (f * p[:, None]).T @ f - np.outer(p @ f, p @ f)
    J = np.zeros((m, m))
    for (a, b), value in zip(edges, couplings, strict=True):
        J[a, b] = J[b, a] = value
    up = 1 / (1 + np.exp(-(high - low) * (x @ J + h)))
    residual, variance = x - low - (high - low) * up, (high - low) ** 2 * up * (1 - up)
    near = [{b for e in edges for b in e if j in e and b != j} for j in range(m)]
    g, D = [], []
    for j in range(m):
        reached = {j}
        for _ in range(distance):
            reached |= set().union(*(near[k] for k in reached))
        for k in ([] if biases is None else [None]) + sorted(reached - {j}):
            instrument = np.ones(len(x)) if k is None else x[:, k]
            g.append(residual[:, j] * instrument)
            row = np.zeros(len(theta))
            for place, (a, b) in enumerate(edges):
                if j in (a, b):
                    row[place] = -np.sum(p * variance[:, j] * instrument * x[:, b if a == j else a])
            if biases is not None:
                row[len(edges) + j] = -np.sum(p * variance[:, j] * instrument)
            D.append(row)
    G, slope = np.stack(g, 1), np.array(D)
    V = (G * p[:, None]).T @ G
    tie = np.eye(len(theta))
    if tied:
        tie = np.zeros((len(theta), 2))
        tie[: len(edges), 0] = tie[len(edges) :, 1] = 1
    information, slope = tie.T @ information @ tie, slope @ tie
    ratio = information @ np.linalg.inv(slope.T @ np.linalg.pinv(V, rcond=1e-11) @ slope)
    return np.linalg.det(ratio) ** (1 / len(ratio)), np.trace(ratio) / len(ratio)


CASES = {
    "five nodes": (5, list(itertools.combinations(range(5), 2)), np.repeat([-1.0, 1.0], 5), None, (0, 1)),
    "chain": (8, [(k, k + 1) for k in range(7)], np.where(np.arange(7) % 2, 1.0, -1.0), None, (-1, 1)),
    "grid": (9, grid(3, 3), 0.8 * signs(12), None, (-1, 1)),
    "grid with biases": (9, grid(3, 3), 0.8 * signs(12), 0.5 * signs(9), (-1, 1)),
    "tied": (9, grid(3, 3), np.full(12, 0.4), np.full(9, 0.05), (-1, 1)),
    "larger grid": (16, grid(4, 4), 0.8 * signs(24), None, (-1, 1)),
    "larger grid with biases": (16, grid(4, 4), 0.8 * signs(24), 0.5 * signs(16), (-1, 1)),
    "larger grid, equal biases 0.2": (16, grid(4, 4), np.full(24, 0.4), np.full(16, 0.2), (-1, 1)),
    "larger grid, tied, 0.2": (16, grid(4, 4), np.full(24, 0.2), np.full(16, 0.05), (-1, 1)),
    "larger grid, tied, 0.4": (16, grid(4, 4), np.full(24, 0.4), np.full(16, 0.05), (-1, 1)),
    "larger grid, tied, 0.44": (16, grid(4, 4), np.full(24, 0.44), np.full(16, 0.05), (-1, 1)),
}
#: det^(1/r) and tr(I Cov)/r that were published for these fields, to four digits.
PUBLISHED = {
    ("five nodes", 1): (1.0098, 1.0102),
    ("chain", 1): (1.0000, 1.0000),
    ("grid", 1): (1.0570, 1.0671),
    ("grid", 2): (1.0000, 1.0000),
    ("larger grid", 2): (1.0161, 1.0166),
    ("larger grid with biases", 1): (1.1592, 1.1874),
    ("larger grid with biases", 2): (1.0497, 1.0554),
    ("larger grid with biases", 3): (1.0376, 1.0415),
    ("larger grid, equal biases 0.2", 2): (1.0041, 1.0041),
    ("larger grid, tied, 0.2", 2): (1.0004, 1.0004),
    ("larger grid, tied, 0.4", 1): (1.2956, 1.3084),
    ("larger grid, tied, 0.4", 2): (1.0780, 1.0802),
    ("larger grid, tied, 0.4", 3): (1.0691, 1.0712),
    ("larger grid, tied, 0.44", 2): (1.1594, 1.1692),
}


def distances(name: str) -> tuple[int, ...]:
    """All of them for small fields and for one large one of each kind."""
    return (1, 2, 3) if "larger" not in name or name.endswith((" biases", "0.4")) else (2,)


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        pytest.param(name, distance, marks=[pytest.mark.slow] if "larger" in name else [])
        for name in CASES
        for distance in distances(name)
    ],
)
def test_equal_to_enumeration(name: str, distance: int) -> None:
    (m, edges, couplings, biases, states), tied = CASES[name], "tied" in name
    groups: dict[str, Any] = {"edge_groups": [0] * len(edges), "bias_groups": [0] * m} if tied else {}
    model = ff.BoltzmannMachine(m, edges, biases is not None, states, **groups)
    theta = couplings if biases is None else np.r_[couplings, biases]
    if tied:
        theta = np.array([couplings[0], biases[0]])
    theory = ff.theory(model, theta, f"PL1 >> optimal({distance})")
    assert theory.mle_covariance is not None
    information = np.linalg.inv(theory.mle_covariance)
    ours = theory.efficiency("root"), float(np.sum(information * theory.covariance)) / len(theta)
    np.testing.assert_allclose(ours, by_enumeration(*CASES[name], distance, tied), rtol=0, atol=1e-8)
    if (name, distance) in PUBLISHED:
        np.testing.assert_allclose(ours, PUBLISHED[name, distance], atol=6e-5)


def test_never_worse_than_the_first_stage() -> None:
    model = ff.Potts.grid(2, 3, 3, tied=True)
    theta = np.random.default_rng(1).normal(size=model.n_parameters) * 0.5
    first = ff.theory(model, theta, "PL1").efficiency()
    refined = ff.theory(model, theta, "PL1 >> optimal").efficiency()
    assert 1 - 1e-9 <= refined < first - 0.003
    assert ff.theory(model, theta, "PL1 + FL >> optimal").efficiency() == pytest.approx(1.0, abs=1e-9)


def test_selection_noise_is_in_the_weights() -> None:
    model = ff.BoltzmannMachine(5)
    theta = np.repeat([-1.0, 1.0], 5)
    first = ff.theory(model, theta, "0.5*PL1").efficiency()
    refined = ff.theory(model, theta, "0.5*PL1 >> optimal").efficiency()
    assert ff.theory(model, theta, "PL1 >> optimal").efficiency() < refined < first


def test_simulated_theory_is_near_the_exact_one() -> None:
    model = ff.BoltzmannMachine(9, grid(3, 3), states=(-1, 1))
    theta = 0.8 * signs(12)
    exact = ff.theory(model, theta, "PL1 >> optimal(1)").efficiency()
    drawn = ff.theory(model, theta, "PL1 >> optimal(1)", method="simulation", n_simulated=20_000).efficiency()
    assert abs(drawn - exact) < 0.01


def test_refused_with_a_sentence() -> None:
    model, theta = ff.BoltzmannMachine(3), np.zeros(3)
    with pytest.raises(PolicyError, match="not defined for a second stage"):
        ff.theory(model, theta, "PL1 >> optimal", formula="published")
    with pytest.raises(PolicyError, match="depends on the number of samples"):
        ff.theory(model, theta, "PL1 >> FL~1000")
    large = ff.BoltzmannMachine.grid(5, 5)
    with pytest.raises(ModelError, match="too many joint states"):
        ff.theory(large, np.zeros(large.n_parameters), "PL1 >> optimal", method="enumeration")


@pytest.mark.parametrize("distance", [1, 2])
def test_predicted_variances_of_draws_are_near_the_exact_ones(distance: int) -> None:
    """The weights of 8,000 draws on a 3×3 grid: 12 variances are known to about 2%, their ratios better."""
    model = ff.BoltzmannMachine.grid(3, 3, states=(-1, 1))
    theta = 0.8 * signs(12)
    bound = Policy.parse("PL1").bind(model.structure())
    _, exact, _, _ = model_weights(model, theta, bound, distance=distance)
    _, drawn, _, _ = model_weights(model, theta, bound, distance=distance, draws=8_000)
    assert exact.noise == 0.0
    assert abs(drawn.noise) < 0.01
    assert drawn.first == pytest.approx(exact.first, abs=0.05)
    assert drawn.predicted == pytest.approx(exact.predicted, abs=0.03)


def test_weights_that_draws_do_not_support_are_the_first_stages() -> None:
    """60 draws for 80 conditions: no weights from one half gain in the other half; 4,000 draws show the gain."""
    model = ff.BoltzmannMachine.grid(5, 5, tied=True, states=(-1, 1))
    theta, bound = np.full(model.n_parameters, 0.35), Policy.parse("PL1").bind(model.structure())
    stack, few, _, _ = model_weights(model, theta, bound, distance=1, draws=60)
    assert np.isinf(few.ridge)
    assert few.predicted == few.first
    np.testing.assert_array_equal(few.matrix, stack.first)
    _, many, _, _ = model_weights(model, theta, bound, distance=1, draws=4_000)
    assert np.isfinite(many.ridge)
    assert many.predicted < many.first


@pytest.mark.slow
def test_plans_summaries_and_theory_have_one_criterion() -> None:
    model = ff.BoltzmannMachine.grid(3, 3)
    x = model.sample(np.resize([0.8, -0.8], 12), 1000, random_state=0).values
    first, refined = ff.fit(model, x, "PL1"), ff.fit(model, x, "PL1 >> optimal")
    theory = [ff.theory(model, first.theta, policy) for policy in ("PL1", "PL1 >> optimal")]
    line = next(line for line in refined.summary().splitlines() if "predicted variance" in line)
    assert "relative to maximum likelihood, det^(1/r): " in line
    shown = re.findall(r"\d\.\d{3}", line)
    assert [float(number) for number in shown] == pytest.approx(
        [part.efficiency() for part in theory][::-1], abs=6e-4
    )
    plan = ff.plan(model, x, policies=["PL1", "PL1 >> optimal"])
    assert plan.kind == "det^(1/r) of the covariance"
    variance = plan.table.set_index("policy")["variance"]
    assert [variance["PL1"], variance["PL1 >> optimal"]] == pytest.approx([t.efficiency() for t in theory], abs=1e-3)
    information = np.linalg.inv(theory[0].mle_covariance)
    assert theory[0].efficiency("mean") == pytest.approx(np.sum(information * theory[0].covariance) / 12, rel=1e-10)

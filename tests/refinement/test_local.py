"""Local weights: nearly as good as dense ones, honest errors, and any number of parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.api.refine import StageSettings, _first
from fieldfit.policies import Policy
from fieldfit.refinement import local_refined
from fieldfit.refinement.local import _local_conditions, clusters, refine_locally
from fieldfit.refinement.regression import Ridge
from fieldfit.types import ModelError, PolicyError

GRID = ff.BoltzmannMachine.grid(5, 5, states=(-1, 1))
THETA = 0.7 * np.where(np.arange(GRID.n_parameters) % 3, 1.0, -1.0)


def test_every_parameter_has_a_cluster_with_its_neighbours() -> None:
    free = np.ones(GRID.n_parameters, dtype=bool)
    free[3] = False
    found = clusters(GRID, free)
    parameters = np.sort(np.concatenate([one.parameters for one in found]))
    np.testing.assert_array_equal(parameters, np.flatnonzero(free))
    for one in found:
        for parameter in one.parameters:
            a, b = GRID.edges[parameter]
            assert {a, b, *GRID.graph.neighbours[a], *GRID.graph.neighbours[b]} <= set(one.nodes.tolist())


@pytest.mark.slow
def test_as_accurate_as_dense_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 fits: the local estimate is near the dense one and more accurate than the first stage."""
    gaps, errors = [], np.zeros((2, 20))
    for seed in range(20):
        x = np.asarray(GRID.sample(THETA, 1000, seed).values)
        first = ff.fit(GRID, x, "PL1")
        dense = ff.refine(first, "optimal(2)")
        with monkeypatch.context() as patched:
            patched.setattr("fieldfit.refinement.stages.optimal.needs_local", lambda *_: True)
            near = ff.refine(first, "optimal(2)")
        assert near.refined
        gaps.append(np.sqrt(np.mean(((near.theta - dense.theta) / dense.standard_errors("model")) ** 2)))
        errors[:, seed] = np.sum((first.theta - THETA) ** 2), np.sum((near.theta - THETA) ** 2)
    assert np.mean(gaps) < 0.35
    assert errors[1].mean() < 0.97 * errors[0].mean()


@pytest.mark.slow
def test_honest_errors_by_matrices_and_by_sparse_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard errors agree with the dense ones to 15%."""
    first = ff.fit(GRID, np.asarray(GRID.sample(THETA, 1000, 19).values), "PL1")
    dense = ff.refine(first, "optimal(2)")
    with monkeypatch.context() as patched:
        patched.setattr("fieldfit.refinement.stages.optimal.needs_local", lambda *_: True)
        near = ff.refine(first, "optimal(2)")
    np.testing.assert_allclose(near.standard_errors(), dense.standard_errors(), rtol=0.15)
    influence = near.influence()
    np.testing.assert_allclose(influence.sum(axis=0), 0.0, atol=1e-3)
    with pytest.raises(PolicyError, match="Hansen's test needs"):
        near.specification_test()
    assert "local regressions" in near.summary()
    # Above the size of matrices: the same numbers by sparse solves.
    monkeypatch.setattr(local_refined, "MOST_COVARIANCE_PARAMETERS", 5)
    with monkeypatch.context() as patched:
        patched.setattr("fieldfit.refinement.stages.optimal.needs_local", lambda *_: True)
        sparse = ff.refine(first, "optimal(2)")
    one = sparse.functional(sparse.parameter_names[7]).standard_error
    assert one == pytest.approx(near.standard_errors()[7], rel=1e-6)
    np.testing.assert_allclose(sparse.influence(parameters=[7])[:, 0], influence[:, 7], atol=1e-9)
    with pytest.raises(PolicyError, match="effective number of parameters"):
        sparse.effective_parameters()


def test_refused_with_a_sentence() -> None:
    x = np.asarray(GRID.sample(THETA, 200, 0).values)
    half = Policy.parse("0.5*PL1").bind(GRID.structure())
    first = replace(_first(ff.fit(GRID, x, "PL1"), StageSettings()), bound=half)
    with pytest.raises(PolicyError, match="all components selected"):
        refine_locally(first, GRID, 1)
    tied = ff.BoltzmannMachine.grid(5, 5, tied=True, states=(-1, 1))
    with pytest.raises(ModelError, match="Tied parameters"):
        clusters(tied, np.ones(2, dtype=bool))


@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_units_of_conditions_change_nothing(ridge: float) -> None:
    """The ridge is relative to the variance of each condition, however small that is."""
    random = np.random.default_rng(0)
    g, y = random.normal(size=(500, 6)), random.normal(size=(500, 2))
    unit = np.array([1.0, 1e-9, 1e6, 1.0, 1e-4, 1e3])
    plain = Ridge(g.T @ g).solve(g.T @ y, ridge)
    scaled = Ridge((g * unit).T @ (g * unit)).solve((g * unit).T @ y, ridge)
    np.testing.assert_allclose(scaled * unit[:, None], plain, rtol=1e-9)
    V = g.T @ g
    np.testing.assert_allclose(plain, np.linalg.solve(V + ridge * np.diag(np.diag(V)), g.T @ y), rtol=1e-9)


def test_a_variable_with_many_neighbours_takes_a_smaller_distance() -> None:
    star = ff.BoltzmannMachine(60, [(0, k) for k in range(1, 60)], states=(-1, 1))
    conditions, reach = _local_conditions(star, None, np.ones(59, dtype=bool))
    assert reach == 1
    assert conditions.size == 118
    with pytest.raises(PolicyError, match="smaller graph distance"):
        _local_conditions(star, 2, np.ones(59, dtype=bool))

"""Local weights: ``A >> optimal`` for fields with more conditions than dense algebra can take.

The score of the full likelihood in one parameter is predicted from the conditions near that parameter only: those of the
variables of its factors and of their neighbours. Parameters are taken in clusters of a few neighbouring variables, so that
one regression serves several of them, and the cost grows linearly with the number of parameters. All equations
A ḡ(θ) = 0 are then solved together; A and the derivative are sparse.

Half of the draws make the weights; a cluster whose weights predict the score of the other half worse than the first stage's
own scores do keeps those.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.policies.policy import BoundPolicy
from fieldfit.refinement.conditions import NodeConditions, balls
from fieldfit.refinement.course import Course
from fieldfit.refinement.local_refined import LocalRefined, sparse_bread
from fieldfit.refinement.model_moments import Points, drawn_points
from fieldfit.refinement.optimal import MOST_CONDITIONS, STABLE_STEP, MomentEquations, Solve, newton_root, no_root
from fieldfit.refinement.refined import Account
from fieldfit.refinement.regression import Ridge
from fieldfit.refinement.second_stage import FirstFit
from fieldfit.refinement.sharded_conditions import conditions_of, samples_at_hand
from fieldfit.refinement.stacking import only_nodes
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, IntArray, ModelError, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.data.table import Table

#: Variables in a cluster, and conditions of a cluster at most.
_CLUSTER_VARIABLES, _MOST_CLUSTER_CONDITIONS = 4, 1_500
#: Draws for each of a cluster's conditions, at least and at most.
_DRAWS_PER_CONDITION, _FEWEST_CLUSTER_DRAWS, _MOST_CLUSTER_DRAWS = 12, 2_000, 6_000
#: The ridge, relative to the variance of each condition.
_RIDGE = 0.01
#: Default graph distance of the instruments.
_DISTANCE = 2


def needs_local(model: FieldModel, bound: BoundPolicy, distance: int | None) -> bool:
    """Whether the conditions up to this distance (1 where it is open) are too many for dense algebra."""
    if not only_nodes(bound):
        return False
    structure = model.structure()
    per_variable = [int(model.graph.cardinalities[v]) - 1 for v in range(model.m)]
    total = 0
    for node in structure.free:
        around = balls(structure, node, distance or 1)
        total += per_variable[node] * (1 + sum(per_variable[v] for v in around))
        if total > MOST_CONDITIONS:
            return True
    return False


@dataclass(frozen=True)
class ParameterCluster:
    """Parameters whose scores are predicted together from the conditions of ``nodes``."""

    parameters: IntArray
    nodes: IntArray


def clusters(model: FieldModel, free: BoolArray) -> list[ParameterCluster]:
    """All free parameters in clusters of neighbouring variables; each cluster's nodes are theirs and one ring around."""
    graph, features = model.graph, model.features.tocsc()
    neighbours = graph.neighbours
    home = np.full(model.m, -1, dtype=np.int64)
    count = 0
    for start in range(model.m):
        if home[start] >= 0:
            continue
        members, frontier = [start], [start]
        home[start] = count
        while frontier and len(members) < _CLUSTER_VARIABLES:
            for other in neighbours[frontier.pop(0)]:
                if home[other] < 0 and len(members) < _CLUSTER_VARIABLES:
                    home[other] = count
                    members.append(int(other))
                    frontier.append(int(other))
        count += 1
    factor_of_entry = np.repeat(np.arange(len(graph.scopes)), graph.table_sizes)
    parameters: list[list[int]] = [[] for _ in range(count)]
    scopes: list[set[int]] = [set() for _ in range(count)]
    for parameter in np.flatnonzero(free).tolist():
        rows = features.indices[features.indptr[parameter] : features.indptr[parameter + 1]]
        factors = np.unique(factor_of_entry[rows])
        scope = {int(v) for factor in factors.tolist() for v in graph.scopes[factor]}
        if len(scope) > 2 * _CLUSTER_VARIABLES:
            raise ModelError(
                f"The parameter {model.parameter_names[parameter]} belongs to factors of {len(scope):,} variables. Tied "
                f"parameters of this extent need dense weights: use optimal(1), a smaller field, or untied parameters."
            )
        cluster = int(home[min(scope)])
        parameters[cluster].append(parameter)
        scopes[cluster] |= scope
    all_clusters = []
    observed = set(model.observed)
    for cluster_parameters, scope in zip(parameters, scopes, strict=True):
        if cluster_parameters:
            ring = scope | {int(w) for v in scope for w in neighbours[v]}
            all_clusters.append(ParameterCluster(np.array(cluster_parameters), np.array(sorted(ring - observed))))
    return all_clusters


def local_weights(
    model: FieldModel,
    theta: FloatArray,
    conditions: NodeConditions,
    free: BoolArray,
    dataset: Table | None,
    seed: int,
) -> tuple[csr_array, int, int, FloatArray]:
    """A (r, p), the number of draws, how many clusters kept own scores, and the variances of the statistics (r,)."""
    from scipy.sparse import coo_array

    all_clusters = clusters(model, free)
    place = {int(node): slice_ for node, slice_ in zip(conditions.nodes.tolist(), conditions.slices, strict=True)}
    sizes = _cluster_sizes(all_clusters, conditions)
    size = int(min(_MOST_CLUSTER_DRAWS, max(_FEWEST_CLUSTER_DRAWS, _DRAWS_PER_CONDITION * max(sizes, default=0))))
    points = drawn_points(model, theta, dataset, size, seed, 0, only_gibbs=True)
    evaluated = conditions.evaluate(points.codes, theta)
    half = len(points.codes) // 2
    coefficients = conditions.score_coefficients.tocsr()
    rows, columns, values, kept = [], [], [], 0
    variances = np.ones(conditions.n_parameters)
    for cluster in all_clusters:
        index = np.concatenate(
            [np.arange(place[v].start, place[v].stop) for v in cluster.nodes.tolist() if v in place]
        )
        g = (
            evaluated.residuals[:, conditions.residual[index]]
            * evaluated.instruments[:, conditions.instrument[index]]
        )
        f = _statistics(model, points, cluster.parameters)
        f -= f.mean(axis=0)
        variances[cluster.parameters] = f.var(axis=0)
        first = coefficients[cluster.parameters][:, index].toarray()
        psi = g @ first.T
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where((psi**2).sum(axis=0) > 0, (psi * f).sum(axis=0) / (psi**2).sum(axis=0), 0.0)
        start = first * scale[:, None]
        remainder = f - g @ start.T

        first_half, second_half = (slice(0, half), slice(half, None))
        V, explained = (
            [g[part].T @ g[part] for part in (first_half, second_half)],
            [g[part].T @ remainder[part] for part in (first_half, second_half)],
        )
        trial = Ridge(V[0]).solve(explained[0], _RIDGE)
        # What is left of the remainder in the other half: Σ(y − tg)² − Σy² = tVtᵀ − 2tGᵀy.
        gain = np.sum(trial * (V[1] @ trial), axis=0) - 2 * np.sum(trial * explained[1], axis=0)
        worse = gain >= 0
        kept += int(worse.any())
        both = Ridge(V[0] + V[1]).solve(explained[0] + explained[1], _RIDGE)
        block = start + np.where(worse, 0.0, both).T
        rows.append(np.repeat(cluster.parameters, len(index)))
        columns.append(np.tile(index, len(cluster.parameters)))
        values.append(block.ravel())
    shape = (conditions.n_parameters, conditions.size)
    matrix = coo_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    return matrix.tocsr(), len(points.codes), kept, variances


def _cluster_sizes(all_clusters: list[ParameterCluster], conditions: NodeConditions) -> list[int]:
    """The number of conditions of each cluster."""
    count = np.bincount(conditions.nodes[conditions.component], minlength=conditions.model.m)
    return [int(count[cluster.nodes].sum()) for cluster in all_clusters]


def _local_conditions(model: FieldModel, distance: int | None, free: BoolArray) -> tuple[NodeConditions, int]:
    """The conditions and their graph distance: 2 where it is open, or 1 where clusters would be too large for that."""
    all_clusters = clusters(model, free)
    for reach in (_DISTANCE, 1) if distance is None else (distance,):
        conditions = NodeConditions(model, model.structure().free, reach)
        largest = max(_cluster_sizes(all_clusters, conditions), default=0)
        if largest <= _MOST_CLUSTER_CONDITIONS:
            return conditions, reach
    instead = "Use a smaller graph distance: optimal(1)." if reach > 1 else "Use one stage, or 'PL1 >> FL~10000'."
    raise PolicyError(
        f"A few neighbouring variables have {largest:,} moment conditions; local weights take at most "
        f"{_MOST_CLUSTER_CONDITIONS:,}. {instead}"
    )


def _statistics(model: FieldModel, points: Points, parameters: IntArray) -> FloatArray:
    """The sufficient statistics of some parameters (n, parameters)."""
    columns = model.features[:, parameters].tocsc()
    graph = model.graph
    factor_of_entry = np.searchsorted(graph.offsets, np.unique(columns.indices), side="right") - 1
    factors = np.unique(factor_of_entry)
    entries = graph.entries(points.codes, factors)
    dense = columns.tocsr()
    totals = np.zeros((len(points.codes), len(parameters)))
    for column in range(len(factors)):
        start, stop = int(graph.offsets[factors[column]]), int(graph.offsets[factors[column] + 1])
        totals += dense[start:stop].toarray()[entries[:, column] - start]
    return totals


def refine_locally(first: FirstFit, model: FieldModel, distance: int | None) -> LocalRefined:
    """The refined estimate with local weights; for first stages of single variables that select everything."""
    began, bound, free, precision = time.perf_counter(), first.bound, first.free, first.penalty.precision
    if not only_nodes(bound) or not bound.everything:
        raise PolicyError(
            f"'{bound.policy} >> optimal' has too many moment conditions for dense weights, and local weights are for PL1 "
            f"with all components selected. Use 'PL1 >> optimal'."
        )
    with one_blas_thread(with_scipy=True):
        conditions, reach = _local_conditions(model, distance, free)
        dataset = samples_at_hand(first, model)
        matrix, draws, kept, variances = local_weights(
            model, first.theta, conditions, free, dataset, first.random_state
        )
        samples = conditions_of(first, conditions, dataset.codes)
        equations = MomentEquations(samples, matrix[np.flatnonzero(free)], free, precision)
        theta, converged, steps = _solve(equations, matrix, first.theta, variances, first.course)
    message = "" if converged else no_root(first.course)
    source = f"{draws:,} draws of the model, local regressions" + (
        f" ({kept:,} clusters keep some of the first stage's scores)" if kept else ""
    )
    account = Account(
        distance=reach,
        conditions=conditions.size,
        draws=draws,
        source=source,
        ridge=_RIDGE,
        predicted=float("nan"),
        first=float("nan"),
        accepted=converged,
        steps=steps,
        seconds=time.perf_counter() - began,
        message=message,
    )
    return LocalRefined(theta if converged else first.theta, account, samples, matrix, free, precision)


def _solve(
    equations: MomentEquations, matrix: csr_array, theta: FloatArray, variances: FloatArray, course: Course
) -> tuple[FloatArray, bool, int]:
    """θ that solves the equations, by sparse factorisations."""
    from scipy.sparse.linalg import splu

    samples = equations.samples

    def solver_at(at: FloatArray) -> Solve:
        factor = splu(sparse_bread(samples, matrix, at, equations.free, equations.precision))
        return lambda value: np.asarray(factor.solve(value))

    def length_of(move: FloatArray) -> float:
        return float(np.sqrt(np.mean(move**2 * variances[equations.keep]) * samples.total))

    return newton_root(equations, theta, solver_at, length_of, STABLE_STEP, course)

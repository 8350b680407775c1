"""Directions of θ whose variance counts: functionals that a user names, or random ones that stand for a trace.

With many parameters nothing of size r × r is made: for directions a (the functionals, or random ones with E aaᵀ = J of the
reference: the scores of all components with random signs) u = J_f⁻¹a comes from conjugate gradients for each family f, and
the moments are projected on the span of all u (Galerkin): exact for each family alone, close for mixtures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from fieldfit.asymptotics.criterion import Criterion, LogTrace
from fieldfit.asymptotics.mixture_moments import MixtureMoments, whitening
from fieldfit.asymptotics.moments import expected_problem
from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Model
from fieldfit.models.problem import Problem
from fieldfit.models.work import clock
from fieldfit.optim.cg import conjugate_gradients
from fieldfit.planner.ingredients import Ingredient
from fieldfit.policies import Policy
from fieldfit.types import FloatArray, ModelError

#: Relative residual of a solve, and its fewest steps, also after its deadline: a few more hardly change a ratio of
#: variances, many fewer do.
_SOLVE_RESIDUAL, _FEWEST_CG_STEPS = 1e-3, 12
#: Directions up to which a search uses all of them, and random directions that it uses else.
_MANY_DIRECTIONS, _SEARCHED = 60, 6
#: Information of the reference on a direction, relative to that of all families together, below which it is left out.
_LEAST_INFORMATION = 1e-5


def named_metric(criterion: Criterion, directions: FloatArray, reference: int) -> FloatArray:
    """The metric (d, d) of the mean variance of named functionals, each relative to that of the reference."""
    unit = np.eye(criterion.moments.count)[reference]
    bread, meat = criterion.bread_meat(unit, unit)
    solved = np.linalg.lstsq(bread, directions.T, rcond=None)[0]
    variance = np.maximum(np.einsum("dq,de,eq->q", solved, meat, solved), 1e-300)
    scaled = directions / np.sqrt(variance * len(directions))[:, None]
    return np.asarray(scaled.T @ scaled)


def search_criterion(criterion: Criterion, reference: int) -> Criterion:
    """A criterion of few directions for searches, near one of many: evaluating that takes milliseconds.

    Random directions stand for the metric, and the moments are projected on their solutions for each term alone.
    """
    if not isinstance(criterion.size, LogTrace) or criterion.rank <= _MANY_DIRECTIONS:
        return criterion
    values, vectors = np.linalg.eigh(criterion.size.metric)
    random = np.random.default_rng(0x97).normal(size=(_SEARCHED, len(values))) / math.sqrt(_SEARCHED)
    chosen = random @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    columns = []
    for J in {J.tobytes(): J for J in criterion.moments.J}.values():
        bread = J if criterion.penalty is None else J + criterion.penalty
        ridge = 1e-9 * float(np.trace(bread)) / len(bread)
        columns.append(np.linalg.solve(bread + ridge * np.eye(len(bread)), chosen.T))
    basis = _orthonormal(np.concatenate(columns, axis=1))
    projected = chosen @ basis
    moments = criterion.moments.projected(basis)
    penalty, prior = (None if P is None else basis.T @ P @ basis for P in (criterion.penalty, criterion.prior))
    few = Criterion(moments, LogTrace(projected.T @ projected), moments.information, 0.0, penalty, prior)
    return few.relative_to(reference)


def random_directions(
    reference: Ingredient, model: Model, rows: Dataset, theta: FloatArray, count: int, random_state: int
) -> FloatArray:
    """Directions a (count, r) with E aaᵀ = Σ_ij w_i E ∇S_ij ∇S_ijᵀ/n: each component of each sample with a random sign.

    A random half of the components counts twice, minus all of them once; without a free λ samples have random signs. The
    samples are simulated at θ, apart from those that the moments come from: directions made of the same scores would
    make their variance look larger than it is.
    """
    n = rows.n
    seeds = np.random.SeedSequence([random_state, 0x9B]).generate_state(count + 1)
    try:
        others = model.simulate(rows, theta, int(seeds[-1]))
    except ModelError:
        others = rows
    weight = rows.relative_weight
    root = np.ones(n) if weight is None else np.sqrt(weight)
    structure = model.structure(others)
    compile_problem = partial(model.compile, others)
    whole = expected_problem(Policy((reference.law,)).bind(structure), n, compile_problem)
    total = whole.value_grad(theta, root)[1]
    directions = []
    for seed in seeds[:-1].tolist():
        if reference.free:
            half = Policy((reference.law.at(0.5, 1.0),)).bind(structure).draw(seed, 0, n)
            directions.append(2 * compile_problem(half).value_grad(theta, root)[1] - total)
        else:
            signs = np.random.default_rng(seed).choice((-1.0, 1.0), n)
            directions.append(whole.value_grad(theta, signs * root)[1])
    return np.stack(directions) / math.sqrt(n)


def solved_basis(
    problems: Sequence[Problem],
    theta: FloatArray,
    directions: FloatArray,
    weight: FloatArray | None,
    *,
    ridge: FloatArray | None = None,
    steps: int,
    deadline: float = math.inf,
) -> tuple[FloatArray, int]:
    """An orthonormal basis of (J_f + P)⁻¹a over all directions and families, and the products it took.

    P = ``ridge`` (r,) is the penalty of the fit to come, for each sample: where it and not the data decides about a
    parameter, a direction hardly moves it, and the solves are shorter.

    Each solve gets at most ``steps`` steps, and fewer where the clock (`fieldfit.models.work.clock`) would pass the
    deadline. It starts from the same direction's solution for the family before (cheap ones come first), which is nearly
    that of this one up to its length: what is left takes few steps.
    """
    problems = list({id(problem): problem for problem in problems}.values())
    columns: list[FloatArray] = []
    known: list[FloatArray | None] = [None] * len(directions)
    products, left, seconds = 0, len(problems) * len(directions), 0.0
    for problem in problems:
        diagonal = problem.hessian_diagonal(theta, weight)
        scale = np.ones(len(theta)) if diagonal is None else diagonal / problem.n_samples
        # A trace of a ridge: parameters that the samples never show have no curvature.
        least = np.full(len(theta), 1e-6 * float(scale.max()))
        added = least if ridge is None else np.maximum(ridge, least)

        def curvature(v: FloatArray, problem: Problem = problem, added: FloatArray = added) -> FloatArray:
            nonlocal seconds
            began = clock()
            image = -problem.hessian_product(theta, v, weight) / problem.n_samples + added * v
            seconds = clock() - began
            return np.asarray(image)

        for place, direction in enumerate(directions):
            start, rest = known[place], direction
            if start is not None:
                image = curvature(start)
                bent = float(start @ image)
                length = float(start @ direction) / bent if bent > 0 else 0.0
                start, rest = length * start, direction - length * image
            slot = (deadline - clock()) / left
            most = steps
            if math.isfinite(slot) and seconds > 0:
                most = min(steps, max(_FEWEST_CG_STEPS, int(slot / seconds)))
            far = float(np.linalg.norm(rest)) / max(float(np.linalg.norm(direction)), 1e-300)
            more, account = conjugate_gradients(
                curvature,
                rest,
                tol=min(_SOLVE_RESIDUAL / max(far, 1e-300), 1.0),
                max_iter=most,
                preconditioner=scale + added,
            )
            solution = more if start is None else start + more
            known[place] = solution
            columns.append(solution)
            products += account.products + 1
            left -= 1
    return _orthonormal(np.stack(columns, axis=1)), products


def _orthonormal(matrix: FloatArray) -> FloatArray:
    """An orthonormal basis of the columns' span."""
    sizes = np.linalg.norm(matrix, axis=0)
    left_vectors, spread, _ = np.linalg.svd(matrix / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
    return np.ascontiguousarray(left_vectors[:, spread > 1e-6 * spread[0]])


def determined(moments: MixtureMoments, reference: int) -> FloatArray:
    """The combinations (d, k) of a basis that the reference has information on, compared with all families together.

    They are whitened: there the sum of all J_f/tr J_f is the identity.
    """
    whitened, _ = whitening(moments.J)
    shares, turned = np.linalg.eigh(whitened.T @ moments.J[reference] @ whitened)
    return np.asarray(whitened @ turned[:, shares > _LEAST_INFORMATION * max(float(shares[-1]), 0.0)])

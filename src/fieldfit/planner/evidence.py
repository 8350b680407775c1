"""Moments of the ingredients at the pilot's θ̂, and the criterion that they allow.

| model                                   | expectations over X             | criterion                                   |
|-----------------------------------------|---------------------------------|---------------------------------------------|
| at most 4,096 states, nothing missing   | sums over all states            | det (root), or the functionals named        |
| at most 120 parameters                  | means over the pilot's samples  | trace with the reference's information      |
| more parameters                         | the same, on a few directions   | the same trace from random directions       |

With many parameters nothing of size r × r is made: for directions a (named parameters, or random ones with E aaᵀ = J of
PL1: the scores of all components with random signs) u = J_f⁻¹a comes from conjugate gradients for each family f, and the
moments are projected on the span of all u (Galerkin): exact for each family alone, close for mixtures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fieldfit.asymptotics.family_moments import FamilyMoments, family_moments
from fieldfit.asymptotics.sandwich import hessian_matrix
from fieldfit.data.samples import Table
from fieldfit.models.base import Model, Problem
from fieldfit.models.field import FieldModel
from fieldfit.planner.criterion import Criterion
from fieldfit.planner.ingredients import Ingredient, everything, n_samples
from fieldfit.policies import Policy
from fieldfit.types import FloatArray, ModelError

MOST_ENUMERATED = 1 << 12
MOST_DENSE = 120
_PROBES, _CG_STEPS = 6, 40
#: From this many parameters on half the directions and half the steps must do.
_VERY_MANY = 20_000
_DRAWS = 2  # drawn selections for the noise of a partition


@dataclass(frozen=True)
class Evidence:
    """The criterion at θ̂, how expectations were taken, and the scores that its error comes from."""

    criterion: Criterion
    names: tuple[str, ...]
    reference: str  # the policy that has C = 1: "FL" or "PL1"
    kind: str  # what C is, in words
    method: str
    evaluations: float  # evaluations of all ingredients that were spent, in samples × passes
    scores: FloatArray | None = None  # (families, samples, d)
    notes: tuple[str, ...] = ()
    adjusted: bool = False  # FL's scores are control variates

    def error(self, lam: FloatArray, beta: FloatArray) -> float:
        """Relative standard error of C from the samples; 0 where expectations are sums over all states."""
        if self.scores is None or self.criterion.metric is None:
            return 0.0
        bread = self.criterion.moments.moments(lam[None, :], beta[None, :])[0][0]
        composite = np.einsum("f,fid->id", lam * beta, self.scores)
        try:
            solved = np.linalg.solve(bread, composite.T).T
        except np.linalg.LinAlgError:
            return math.nan
        if self.adjusted:
            full = self.names.index("FL")
            away = solved - np.linalg.lstsq(self.criterion.moments.J[full], self.scores[full].T, rcond=None)[0].T
            extra = np.einsum("id,de,ie->i", away, self.criterion.metric, away)
            total = math.exp(self.criterion.value(lam, beta) + self.criterion.reference)
            return float(extra.std() / math.sqrt(len(extra)) / total)
        own = np.einsum("id,de,ie->i", solved, self.criterion.metric, solved)
        base = self._reference_rows
        # C is a ratio of two means over the same samples. What selection adds is taken to vary as the rest does.
        away = own / own.mean() - base / base.mean()
        return float(away.std() / math.sqrt(len(own)))

    @cached_property
    def _reference_rows(self) -> FloatArray:
        """What each sample adds to the criterion of the reference."""
        assert self.scores is not None
        assert self.criterion.metric is not None
        place = self.names.index(self.reference)
        solved = np.linalg.solve(self.criterion.moments.J[place], self.scores[place].T).T
        return np.asarray(np.einsum("id,de,ie->i", solved, self.criterion.metric, solved))


def gather(
    ingredients: Sequence[Ingredient],
    model: Model,
    rows: Any,
    theta: FloatArray,
    functionals: Sequence[str] | None,
    random_state: int,
    simulated: bool = False,
) -> Evidence:
    """The evidence about these ingredients at θ, by the first line of the table above that applies.

    ``simulated`` says that ``rows`` were drawn from the model at θ.
    """
    names = tuple(one.name for one in ingredients)
    directions = None if functionals is None else _unit_rows(model, functionals)
    reference = names.index("FL") if "FL" in names else names.index("PL1") if "PL1" in names else 0
    r = len(theta)
    if _few_states(model, rows):
        assert isinstance(model, FieldModel)
        codes, probability = model.joint_probabilities(theta)
        table = Table(codes, model.names, model.states)
        found = family_moments(names, model.structure(), lambda z: model.compile(table, z), theta, probability)
        basis = found.range_basis()
        reduced = found if basis.shape[0] == basis.shape[1] else found.projected(basis)
        criterion = Criterion(reduced)
        kind = "det^(1/r) of the covariance"
        if directions is not None:
            criterion, kind = _named(criterion, directions @ basis, reference, functionals or ())
        spent = len(probability) * (r + 2.0)
        method = f"sums over all {len(probability)} states at the pilot's θ"
        return Evidence(criterion.relative_to(reference), names, names[reference], kind, method, spent)
    samples = n_samples(rows)
    if r <= MOST_DENSE:
        basis, notes = np.eye(r), []
        found, scores = _sampled(ingredients, model, rows, theta, None, random_state)
        span = found.range_basis()
        if span.shape[1] < r:
            found, scores, basis = found.projected(span), scores @ span, span
            notes.append(f"{r - span.shape[1]} directions that no sample says anything about are left out.")
        metric = found.J[reference]
        passes = 2.0 * r
    else:
        chosen = directions
        if chosen is None:
            chosen = _probes(ingredients[names.index(names[reference])], model, rows, theta, random_state)
        basis, steps = _krylov_basis(ingredients, theta, chosen, samples)
        found, scores = _sampled(ingredients, model, rows, theta, basis, random_state)
        projected = chosen @ basis
        metric = projected.T @ projected / len(chosen)
        passes = float(steps + 2 * basis.shape[1])
        notes = [f"{r:,} parameters: {len(chosen)} directions, {basis.shape[1]} solves by conjugate gradients."]
    adjusted = simulated and "FL" in names
    if adjusted:
        found = _with_full_scores(found, names.index("FL"))
    criterion = Criterion(found, metric)
    kind = f"tr(J·covariance) with J the information of {names[reference]}"
    if directions is not None:
        criterion, kind = _named(criterion, directions @ basis, reference, functionals or ())
    method = f"means over {samples:,} samples at the pilot's θ"
    spent = samples * passes
    return Evidence(
        criterion.relative_to(reference),
        names,
        names[reference],
        kind,
        method,
        spent,
        scores,
        tuple(notes),
        adjusted,
    )


def _with_full_scores(moments: FamilyMoments, full: int) -> FamilyMoments:
    """K with the scores s of FL as control variates, for samples drawn from the model itself.

    There E s sᵀ = I and E s s_fᵀ = J_f, so Cov = I⁻¹ + Var(Υψ − I⁻¹s): only the second term is taken from the samples. As
    a form in w = βλ that is K̃_fg = K_fg − K_fF I⁻¹ J_g − J_f I⁻¹ K_Fg + J_f I⁻¹ (K_FF + I) I⁻¹ J_g.
    """
    information = moments.J[full]
    turned = np.stack([np.linalg.lstsq(information, J, rcond=None)[0] for J in moments.J])  # I⁻¹ J_f
    K = moments.K.copy()
    for f in range(len(K)):
        for g in range(len(K)):
            K[f, g] += turned[f].T @ (moments.K[full, full] + information) @ turned[g]
            K[f, g] -= moments.K[f, full] @ turned[g] + turned[f].T @ moments.K[full, g]
    K = (K + K.transpose(0, 1, 3, 2)) / 2
    N = np.stack([K[f, f] if "/" in name else moments.N[f] for f, name in enumerate(moments.names)])
    return replace(moments, K=K, N=N)


def evidence_passes(model: Model, rows: Any, directions: int | None) -> float:
    """About how many evaluations on the pilot's samples the moments of one family take."""
    r = model.n_parameters
    if _few_states(model, rows):
        assert isinstance(model, FieldModel)
        return (r + 3.0) * math.prod(model.graph.cardinalities) / n_samples(rows)
    if r <= MOST_DENSE:
        return r + 5.0
    many = r >= _VERY_MANY
    probes = directions or (_PROBES // 2 if many else _PROBES)
    return 1.2 * probes * (_CG_STEPS // 2 if many else _CG_STEPS) * 0.6


def _few_states(model: Model, rows: Any) -> bool:
    if not isinstance(model, FieldModel) or model.observed or rows.has_missing or model.n_parameters > MOST_DENSE:
        return False
    return math.prod(model.graph.cardinalities) <= MOST_ENUMERATED


def _unit_rows(model: Model, names: Sequence[str]) -> FloatArray:
    place = {name: index for index, name in enumerate(model.parameter_names)}
    unknown = [name for name in names if name not in place]
    if unknown or not names:
        raise ModelError(
            f"functionals names {unknown[0]!r}, which is no parameter; the first ones are {list(place)[:5]}."
            if unknown
            else "functionals is empty; name at least one parameter, or leave it out."
        )
    unit = np.zeros((len(names), model.n_parameters))
    unit[np.arange(len(names)), [place[name] for name in names]] = 1.0
    return unit


def _named(
    criterion: Criterion, directions: FloatArray, reference: int, names: Sequence[str]
) -> tuple[Criterion, str]:
    """The mean variance of the named functionals, each relative to that of the reference."""
    unit = np.eye(len(criterion.moments.names))[reference]
    bread, meat = (found[0] for found in criterion.moments.moments(unit[None, :], unit[None, :]))
    solved = np.linalg.lstsq(bread, directions.T, rcond=None)[0]
    variance = np.maximum(np.einsum("dq,de,eq->q", solved, meat, solved), 1e-300)
    scaled = directions / np.sqrt(variance * len(directions))[:, None]
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return Criterion(criterion.moments, scaled.T @ scaled), f"mean variance of {shown}"


def _sampled(
    ingredients: Sequence[Ingredient],
    model: Model,
    rows: Any,
    theta: FloatArray,
    basis: FloatArray | None,
    random_state: int,
) -> tuple[FamilyMoments, FloatArray]:
    """Moments as means over samples, in all coordinates or on a basis (r, d), and the scores (f, n, d)."""
    n = n_samples(rows)
    known: dict[int, tuple[FloatArray, FloatArray]] = {}
    Js, scores = [], []
    for one in ingredients:
        key = id(one.problem)
        if key not in known:
            known[key] = _bread(one.problem, theta, basis) / n, _scores(one.problem, theta, basis)
        Js.append(known[key][0])
        scores.append(known[key][1])
    J, S = np.stack(Js), np.stack(scores)
    K = np.einsum("fid,gie->fgde", S, S, optimize=True) / n
    K = (K + K.transpose(0, 1, 3, 2)) / 2
    N, O = J.copy(), np.zeros_like(J)  # noqa: E741
    for f, one in enumerate(ingredients):
        if one.law == "whole":
            N[f] = K[f, f]
        elif one.law == "partition":
            for draw in range(_DRAWS):
                seed = int(np.random.SeedSequence([random_state, 0x9A, f, draw]).generate_state(1)[0])
                drawn = model.compile(rows, Policy.parse(one.name).bind(model.structure(rows)).draw(seed, 0, n))
                away = _scores(drawn, theta, basis) - S[f]
                O[f] += away.T @ away / n / _DRAWS
    return FamilyMoments(tuple(one.name for one in ingredients), J, K, N, O), S


def _bread(problem: Problem, theta: FloatArray, basis: FloatArray | None) -> FloatArray:
    if basis is None:
        return -hessian_matrix(problem, theta)
    products = np.stack([problem.hessian_product(theta, np.ascontiguousarray(column)) for column in basis.T], axis=1)
    matrix = -basis.T @ products
    return np.asarray((matrix + matrix.T) / 2)


def _scores(problem: Problem, theta: FloatArray, basis: FloatArray | None) -> FloatArray:
    if basis is None:
        return np.concatenate([block for _, block in problem.score_blocks(theta)])
    return np.stack([problem.row_products(theta, np.ascontiguousarray(column)) for column in basis.T], axis=1)


def _probes(one: Ingredient, model: Model, rows: Any, theta: FloatArray, random_state: int) -> FloatArray:
    """Directions a (q, r) with E aaᵀ = Σ_ij E ∇S_ij ∇S_ijᵀ/n: each component of each sample with a random sign.

    A random half of the components counts twice, minus all of them once. The samples are simulated at θ, apart from those
    that the moments come from: directions made of the same scores would make their variance look larger than it is.
    """
    n = n_samples(rows)
    seeds = np.random.SeedSequence([random_state, 0x9B]).generate_state(_PROBES + 1)
    try:
        others = model.simulate(rows, theta, int(seeds[-1]))
    except ModelError:
        others = rows
    structure = model.structure(others)
    half = Policy.parse("0.5*" + one.name).bind(structure)
    total = model.compile(others, everything(Policy.parse(one.name).bind(structure), n)).value_grad(theta)[1]
    found = []
    for probe in range(_PROBES if len(theta) < _VERY_MANY else _PROBES // 2):
        drawn = model.compile(others, half.draw(int(seeds[probe]), 0, n)).value_grad(theta)[1]
        found.append((2 * drawn - total) / math.sqrt(n))
    return np.stack(found)


def _krylov_basis(
    ingredients: Sequence[Ingredient], theta: FloatArray, directions: FloatArray, n: int
) -> tuple[FloatArray, int]:
    """An orthonormal basis of J_f⁻¹a over all directions and families, and the products it took."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import LinearOperator, cg

    r = len(theta)
    columns: list[FloatArray] = []
    steps = 0
    seen: set[int] = set()
    for one in ingredients:
        if id(one.problem) in seen:
            continue
        seen.add(id(one.problem))
        problem = one.problem
        diagonal = problem.hessian_diagonal(theta)
        scale = np.ones(r) if diagonal is None else diagonal / n
        # A trace of a ridge: parameters that the pilot's samples never show have no curvature.
        ridge = 1e-6 * float(scale.max())

        def product(v: FloatArray, problem: Problem = problem, ridge: float = ridge) -> FloatArray:
            nonlocal steps
            steps += 1
            return -problem.hessian_product(theta, np.ascontiguousarray(v.ravel())) / n + ridge * v.ravel()

        operator = LinearOperator((r, r), matvec=product, dtype=np.float64)
        inverse = 1 / (scale + ridge)
        preconditioner = diags_array(inverse)
        for direction in directions:
            columns.append(
                cg(
                    operator,
                    direction,
                    rtol=1e-3,
                    maxiter=_CG_STEPS if r < _VERY_MANY else _CG_STEPS // 2,
                    M=preconditioner,
                )[0]
            )
    matrix = np.stack(columns, axis=1)
    left, sizes, _ = np.linalg.svd(matrix / np.linalg.norm(matrix, axis=0), full_matrices=False)
    return np.ascontiguousarray(left[:, sizes > 1e-6 * sizes[0]]), steps

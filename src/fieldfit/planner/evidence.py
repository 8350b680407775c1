"""What is known about the variance of policies at the pilot's θ̂: moments of the ingredients, and the criterion they allow.

| model                                     | expectations over X             | criterion                                 |
|-------------------------------------------|---------------------------------|-------------------------------------------|
| at most 4,096 states, nothing missing, no | sums over all states            | det (root), or the functionals named      |
| importance weights                        |                                 |                                           |
| at most 120 parameters                    | means over the pilot's samples  | trace with the reference's information    |
| more parameters                           | the same, on a few directions   | the same trace from random directions     |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fieldfit.asymptotics.family_moments import family_moments
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.planner.criterion import Criterion
from fieldfit.planner.directions import Functionals, determined, named_criterion, random_directions, solved_basis
from fieldfit.planner.effort import MOST_DENSE, Effort, moment_passes
from fieldfit.planner.ingredients import Ingredient
from fieldfit.planner.sampled_moments import Sampled, sampled_moments
from fieldfit.planner.weighting import importance, n_samples, total_weight
from fieldfit.types import FloatArray

MOST_ENUMERATED = 1 << 12


@dataclass(frozen=True)
class Evidence:
    """The criterion at θ̂, how expectations were taken, and the samples that its error comes from."""

    criterion: Criterion
    names: tuple[str, ...]
    reference: str  # the policy that has C = 1: "FL" or "PL1"
    kind: str  # what C is, in words
    method: str
    evaluations: float  # evaluations of all ingredients that were spent, in samples × passes
    sampled: Sampled | None = None
    notes: tuple[str, ...] = ()
    adjusted: bool = False  # FL's scores are control variates
    probes: FloatArray | None = None  # (q, d) random directions that stand for a trace

    def error(self, lam: FloatArray, beta: FloatArray) -> float:
        """Relative standard error of C, from the samples and from random directions; 0 where C is exact."""
        if self.sampled is None or self.criterion.metric is None:
            return 0.0
        if self.criterion.penalty is not None:
            beta = beta / max(float(beta.max()), 1e-300)
        return math.hypot(self._sample_error(lam, beta), self._direction_error(lam, beta))

    def _direction_error(self, lam: FloatArray, beta: FloatArray) -> float:
        """The part that comes from looking in a few random directions: C is a ratio of two means over them."""
        if self.probes is None or len(self.probes) < 2:
            return 0.0
        unit = np.eye(len(self.names))[self.names.index(self.reference)]
        try:
            own, base = self._along_probes(lam, beta), self._along_probes(unit, unit)
        except np.linalg.LinAlgError:
            return math.nan
        ratio = own / own.mean() - base / base.mean()
        return float(ratio.std(ddof=1) / math.sqrt(len(ratio)))

    def _along_probes(self, lam: FloatArray, beta: FloatArray) -> FloatArray:
        """The variance of each direction."""
        assert self.probes is not None
        bread, meat = self.criterion.bread_meat(lam, beta)
        solved = np.linalg.solve(bread, self.probes.T)
        return np.asarray(np.einsum("dq,de,eq->q", solved, meat, solved))

    def _sample_error(self, lam: FloatArray, beta: FloatArray) -> float:
        """The part that comes from the samples."""
        assert self.sampled is not None
        assert self.criterion.metric is not None
        scores, metric = self.sampled.scores, self.criterion.metric
        bread = self.criterion.bread_meat(lam, beta)[0]
        composite = np.einsum("f,fid->id", lam * beta, scores)
        try:
            if self.adjusted:
                full = self.names.index("FL")
                information = self.sampled.information
                own = np.einsum("f,fde->de", lam * beta, information)
                composite = composite - np.linalg.lstsq(information[full], scores[full].T, rcond=None)[0].T @ own
                away = np.linalg.solve(bread, composite.T).T
                extra = np.einsum("id,de,ie->i", away, metric, away)
                total = math.exp(self.criterion.value(lam, beta) + self.criterion.reference)
                return float(extra.std() / math.sqrt(len(extra)) / total)
            solved = np.linalg.solve(bread, composite.T).T
        except np.linalg.LinAlgError:
            return math.nan
        each = np.einsum("id,de,ie->i", solved, metric, solved)
        base = self._reference_rows
        # C is a ratio of two means over the same samples. What selection adds is taken to vary as the rest does; what a
        # penalty adds does not vary.
        ratio = each / each.mean() - base / base.mean()
        share = 1.0
        if self.criterion.prior is not None:
            own = np.linalg.solve(bread, np.linalg.solve(bread, self.criterion.prior).T)
            share = float(each.mean() / (each.mean() + np.sum(own * metric)))
        return float(share * ratio.std() / math.sqrt(len(each)))

    @cached_property
    def _reference_rows(self) -> FloatArray:
        """What each sample adds to the criterion of the reference."""
        assert self.sampled is not None
        assert self.criterion.metric is not None
        place = self.names.index(self.reference)
        unit = np.eye(len(self.names))[place]
        solved = np.linalg.solve(self.criterion.bread_meat(unit, unit)[0], self.sampled.scores[place].T).T
        return np.asarray(np.einsum("id,de,ie->i", solved, self.criterion.metric, solved))


@dataclass(frozen=True)
class Penalty:
    """What the penalty of the fit to come adds to the diagonals of bread and meat (r,), for each sample."""

    bread: FloatArray
    meat: FloatArray

    @classmethod
    def of(cls, precision: FloatArray | None, dataset: Any) -> Penalty | None:
        """From 1/σ² of each parameter; with importance weights the bread has their sum, the meat that of their squares."""
        if precision is None or not precision.any():
            return None
        total = total_weight(dataset)
        share = precision / total
        used = dataset.sample_weight
        scale = 1.0 if used is None or dataset.weight_kind == "counts" else np.count_nonzero(used) / total
        return cls(share, share * scale)


def gather(
    ingredients: Sequence[Ingredient],
    model: Model,
    rows: Any,
    theta: FloatArray,
    effort: Effort,
    *,
    functionals: Functionals | None = None,
    penalty: Penalty | None = None,
    random_state: int = 0,
    simulated: bool = False,
    deadline: float = math.inf,
) -> Evidence:
    """The evidence about these ingredients at θ, by the first line of the table above that applies.

    ``simulated`` says that ``rows`` were drawn from the model at θ; solves get fewer steps where ``deadline`` is near.
    """
    names = tuple(one.name for one in ingredients)
    shown, directions = (None, None) if functionals is None else functionals(theta)
    reference = names.index("FL") if "FL" in names else names.index("PL1") if "PL1" in names else 0
    if few_states(model, rows):
        found = _enumerated(names, reference, model, theta)
        basis: FloatArray = np.eye(len(theta)) if found.basis is None else found.basis
        evidence = found.evidence
    else:
        found = _means(
            ingredients,
            reference,
            model,
            rows,
            theta,
            effort,
            directions,
            None if penalty is None else penalty.bread,
            random_state,
            simulated,
            deadline,
        )
        basis, evidence = np.asarray(found.basis), found.evidence
    criterion, kind = evidence.criterion, evidence.kind
    if penalty is not None:
        bread, meat = ((basis * own[:, None]).T @ basis for own in (penalty.bread, penalty.meat))
        criterion, kind = replace(criterion, penalty=bread, prior=meat), kind.replace("covariance", "squared error")
    if directions is not None:
        criterion, kind = named_criterion(criterion, directions @ basis, reference, shown or ())
    return replace(evidence, criterion=criterion.relative_to(reference), kind=kind)


@dataclass(frozen=True)
class _Found:
    """Evidence whose criterion has no reference yet, and the basis (r, d) that its moments are on; None is all of θ."""

    evidence: Evidence
    basis: FloatArray | None


def _enumerated(names: tuple[str, ...], reference: int, model: Model, theta: FloatArray) -> _Found:
    """Sums over all states."""
    assert isinstance(model, FieldModel)
    codes, probability = model.joint_probabilities(theta)
    table = Table(codes, model.names, model.states)
    found = family_moments(names, model.structure(), lambda z: model.compile(table, z), theta, probability)
    basis = found.range_basis()
    reduced = found if basis.shape[0] == basis.shape[1] else found.projected(basis)
    spent = len(probability) * (len(theta) + 2.0)
    method = f"sums over all {len(probability)} states at the pilot's θ"
    kind = "det^(1/r) of the covariance"
    return _Found(Evidence(Criterion(reduced), names, names[reference], kind, method, spent), basis)


def _means(
    ingredients: Sequence[Ingredient],
    reference: int,
    model: Model,
    rows: Any,
    theta: FloatArray,
    effort: Effort,
    directions: FloatArray | None,
    ridge: FloatArray | None,
    random_state: int,
    simulated: bool,
    deadline: float,
) -> _Found:
    """Means over samples, in all coordinates or on the solutions of a few directions."""
    names = tuple(one.name for one in ingredients)
    r, samples = len(theta), n_samples(rows)
    probes = None
    if r <= MOST_DENSE:
        basis, notes = np.eye(r), []
        found = sampled_moments(ingredients, model, rows, theta, None, random_state)
        span = found.moments.range_basis()
        if span.shape[1] < r:
            found, basis = found.projected(span), span
            notes.append(f"{r - span.shape[1]} directions that no sample says anything about are left out.")
        metric, passes = found.moments.J[reference], 2.0 * r
    else:
        chosen = directions
        if chosen is None:
            chosen = random_directions(ingredients[reference], model, rows, theta, effort.probes, random_state)
        basis, products = solved_basis(
            ingredients, theta, chosen, importance(rows), ridge=ridge, steps=effort.cg_steps, deadline=deadline
        )
        found = sampled_moments(ingredients, model, rows, theta, basis, random_state)
        kept = determined(found.moments, reference)
        if kept.shape[1] < basis.shape[1]:
            found, basis = found.projected(kept), basis @ kept
        projected = chosen @ basis
        probes = projected if directions is None else None
        metric = projected.T @ projected / len(chosen)
        passes = float(products + 2 * basis.shape[1])
        notes = [f"{r:,} parameters: {len(chosen)} directions, {basis.shape[1]} solves by conjugate gradients."]
    adjusted = simulated and "FL" in names
    if adjusted:
        found = found.with_full_scores(names.index("FL"))
    evidence = Evidence(
        criterion=Criterion(found.moments, metric),
        names=names,
        reference=names[reference],
        kind=f"tr(J·covariance) with J the information of {names[reference]}",
        method=f"means over {samples:,} samples at the pilot's θ",
        evaluations=samples * passes,
        sampled=found,
        notes=tuple(notes),
        adjusted=adjusted,
        probes=probes,
    )
    return _Found(evidence, basis)


def evidence_passes(model: Model, rows: Any, effort: Effort, directions: int | None) -> float:
    """About how many evaluations on the pilot's samples the moments of one family take."""
    r = model.n_parameters
    if few_states(model, rows):
        assert isinstance(model, FieldModel)
        return (r + 3.0) * math.prod(model.graph.cardinalities) / n_samples(rows)
    return moment_passes(r, directions or effort.probes, effort.cg_steps)


def few_states(model: Model, rows: Any) -> bool:
    """Whether expectations are sums over all states; importance weights belong to samples, not to states."""
    if not isinstance(model, FieldModel) or model.observed or rows.has_missing or model.n_parameters > MOST_DENSE:
        return False
    return importance(rows) is None and math.prod(model.graph.cardinalities) <= MOST_ENUMERATED

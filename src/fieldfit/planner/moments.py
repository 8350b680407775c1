"""The moments of ingredients and refined estimators at the pilot's θ̂, and the criterion that they allow.

| model                                     | expectations over X             | criterion                                 |
|-------------------------------------------|---------------------------------|-------------------------------------------|
| at most 4,096 states, nothing missing, no | sums over all states            | det (root), or the functionals named      |
| importance weights                        |                                 |                                           |
| where Hessians are cheap as matrices      | means over the pilot's samples  | trace with the reference's information    |
| else                                      | the same, on a few directions   | the same trace from random directions     |

Sums over all states assume that the model is right. They are compared with means over the pilot's samples; where the two
disagree, the means are used, which hold for any distribution (`MISSPECIFIED`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Model
from fieldfit.planner import pilot as piloting
from fieldfit.planner.directions import determined, named_metric, random_directions, solved_basis
from fieldfit.planner.ingredients import Ingredient
from fieldfit.planner.pilot import PILOT_POLICY, Pilot
from fieldfit.planner.refined import FULL, OwnTerm, RefinedTerm, own_terms
from fieldfit.planner.request import Request
from fieldfit.policies import Policy
from fieldfit.types import FloatArray
from fieldfit.variance.criterion import Criterion, LogDeterminant, LogTrace
from fieldfit.variance.mixture_moments import MixtureMoments
from fieldfit.variance.sampled_moments import SampledMoments, sampled_moments

#: Joint states up to which expectations are sums over all of them.
MOST_PLANNED_STATES = 1 << 12
#: Standard errors, and relative difference, from which on means over samples and sums over states disagree.
_DISAGREE_ERRORS, _DISAGREE = 5.0, 0.05
#: Fewest samples for that comparison, in all and for each parameter.
_FEWEST_COMPARED, _FOR_EACH_PARAMETER = 300, 20
#: Directions from which on errors come from a part of the samples, and about how many.
_MANY_DIRECTIONS, _ERROR_ROWS = 60, 250
MISSPECIFIED = (
    "The pilot's samples do not follow the model: variances that assume it differ from those of the samples by up to "
    "{percent:.0f}%. Variances are therefore means over the samples (robust)."
)


@dataclass(frozen=True)
class PilotMoments:
    """The criterion at θ̂, how expectations were taken, and the samples that its error comes from."""

    criterion: Criterion
    raw: MixtureMoments | None  # in all coordinates of θ, where they are matrices
    reference: int  # the term that has C = 1
    full: int | None  # the place of maximum likelihood
    kind: str  # description of C
    method: str
    evaluations: float  # evaluations of each ingredient that were made, in samples × passes
    sampled: SampledMoments | None = None
    notes: tuple[str, ...] = ()
    adjusted: bool = False  # FL's scores are control variates
    probes: FloatArray | None = None  # (q, d) random directions that stand for a trace
    robust: bool = False  # the samples contradict the model

    def error(self, lam: FloatArray, beta: FloatArray, value: float) -> float:
        """Relative standard error of C = exp(``value``), from the samples and from random directions; 0 where exact."""
        if self.sampled is None or not isinstance(self.criterion.size, LogTrace):
            return 0.0
        if self.criterion.penalty is not None:
            beta = beta / max(float(beta.max()), 1e-300)
        metric = self.criterion.size.metric
        return math.hypot(self._sample_error(lam, beta, metric, value), self._direction_error(lam, beta))

    def _direction_error(self, lam: FloatArray, beta: FloatArray) -> float:
        """The part that comes from a few random directions: C is a ratio of two means over them."""
        if self.probes is None or len(self.probes) < 2:
            return 0.0
        unit = np.eye(self.criterion.moments.count)[self.reference]
        try:
            variances, base = self._along_probes(lam, beta), self._along_probes(unit, unit)
        except np.linalg.LinAlgError:
            return math.nan
        ratio = variances / variances.mean() - base / base.mean()
        return float(ratio.std(ddof=1) / math.sqrt(len(ratio)))

    def _along_probes(self, lam: FloatArray, beta: FloatArray) -> FloatArray:
        """The variance of each direction."""
        assert self.probes is not None
        bread, meat = self.criterion.bread_meat(lam, beta)
        solved = np.linalg.solve(bread, self.probes.T)
        return np.asarray(np.einsum("dq,de,eq->q", solved, meat, solved))

    def _sample_error(self, lam: FloatArray, beta: FloatArray, metric: FloatArray, value: float) -> float:
        """The part that comes from the samples."""
        assert self.sampled is not None
        # A standard deviation is known well enough from a few hundred samples.
        n = self.sampled.n
        some = slice(None, None, max(1, n // _ERROR_ROWS) if len(metric) > _MANY_DIRECTIONS else 1)
        bread = self.criterion.bread_meat(lam, beta)[0]
        used = np.flatnonzero(lam * beta)
        composite = self.sampled.scores(lam * beta, some)
        try:
            if self.adjusted and self.full is not None:
                mixed = np.tensordot((lam * beta)[used], self.sampled.information[used], 1)
                composite = composite - self._full_rows[some] @ mixed
                extra = _lengths(np.linalg.solve(bread, composite.T).T, metric)
                total = math.exp(value + self.criterion.reference)
                return float(extra.std() / math.sqrt(n) / total)
            each = _lengths(np.linalg.solve(bread, composite.T).T, metric)
        except np.linalg.LinAlgError:
            return math.nan
        base = self._reference_rows[some]
        # C is a ratio of two means over the same samples. What selection adds is taken to vary as the rest does; what a
        # penalty adds does not vary.
        ratio = each / each.mean() - base / base.mean()
        share = 1.0
        if self.criterion.prior is not None:
            prior = np.linalg.solve(bread, np.linalg.solve(bread, self.criterion.prior).T)
            share = float(each.mean() / (each.mean() + np.sum(prior * metric)))
        return float(share * ratio.std() / math.sqrt(n))

    @cached_property
    def _full_rows(self) -> FloatArray:
        """I⁻¹ times the scores of maximum likelihood (n, d)."""
        assert self.sampled is not None
        assert self.full is not None
        scores = self.sampled.scores(np.eye(len(self.sampled.names))[self.full], slice(None))
        return np.asarray(scores @ np.linalg.pinv(self.sampled.information[self.full], hermitian=True))

    @cached_property
    def _reference_rows(self) -> FloatArray:
        """What each sample adds to the criterion of the reference."""
        assert self.sampled is not None
        assert isinstance(self.criterion.size, LogTrace)
        unit = np.eye(self.criterion.moments.count)[self.reference]
        bread = self.criterion.bread_meat(unit, unit)[0]
        solved = np.linalg.solve(bread, self.sampled.scores(unit, slice(None)).T).T
        return _lengths(solved, self.criterion.size.metric)


def _lengths(rows: NDArray[np.floating[Any]], metric: FloatArray) -> FloatArray:
    """xᵀ R x of each row."""
    return np.asarray(np.sum((rows @ metric) * rows, axis=1))


@dataclass(frozen=True)
class Penalty:
    """What the penalty of the fit to come adds to the diagonals of bread and meat (r,), for each sample."""

    bread: FloatArray
    meat: FloatArray

    @classmethod
    def of(cls, request: Request) -> Penalty | None:
        """From 1/σ² of each parameter; with importance weights the bread has their sum, the meat that of their squares."""
        precision, dataset = request.precision, request.dataset
        if precision is None or not precision.any():
            return None
        total = dataset.total_weight
        share = precision / total
        used = dataset.sample_weight
        scale = 1.0 if used is None or dataset.has_counts else np.count_nonzero(used) / total
        return cls(share, share * scale)


@dataclass(frozen=True)
class _Reduced:
    """Moments whose criterion has neither penalty nor reference yet, and the basis (r, d) that they are on."""

    moments: PilotMoments
    basis: FloatArray


def gather(
    request: Request,
    ingredients: Sequence[Ingredient],
    refined: Sequence[RefinedTerm],
    pilot: Pilot,
    rows: Dataset,
    *,
    simulated: bool,
    enumerated: bool,
    compare: bool = True,
    deadline: float = math.inf,
) -> PilotMoments:
    """The moments of these ingredients and refined estimators at the pilot's θ̂.

    ``simulated`` says that ``rows`` were drawn from the model, ``enumerated`` that expectations are sums over all states,
    and ``compare`` that these are compared with means over the samples. Solves get fewer steps where ``deadline`` is near.
    """
    laws = [part.law for part in ingredients]
    shown, directions = (None, None) if request.functionals is None else request.functionals(pilot.theta)
    full, plain = (laws.index(policy.laws[0]) if policy.laws[0] in laws else None for policy in (FULL, PILOT_POLICY))
    reference = full if full is not None else plain or 0
    penalty = Penalty.of(request)
    what = "covariance" if penalty is None else "squared error"
    gathering = _Gathering(request, ingredients, own_terms(refined), reference, full, pilot, rows, simulated, what)
    if enumerated:
        reduced = gathering.enumerated()
        if not simulated and rows.n >= fewest_to_compare(len(pilot.theta)) and compare:
            reduced = gathering.robust_if_needed(reduced)
    else:
        reduced = gathering.means(directions, None if penalty is None else penalty.bread, deadline)
    basis, moments = reduced.basis, reduced.moments
    criterion, kind = moments.criterion, moments.kind
    if penalty is not None:
        bread, meat = ((basis * diagonal[:, None]).T @ basis for diagonal in (penalty.bread, penalty.meat))
        criterion = replace(criterion, penalty=bread, prior=meat)
    if directions is not None:
        criterion = replace(criterion, size=LogTrace(named_metric(criterion, directions @ basis, reference)))
        kind = "mean variance of " + ", ".join((shown or ())[:3]) + (", …" if len(shown or ()) > 3 else "")
    return replace(moments, criterion=criterion.relative_to(reference), kind=kind)


@dataclass(frozen=True)
class _Gathering:
    """What all ways of taking moments need."""

    request: Request
    ingredients: Sequence[Ingredient]
    own: Sequence[OwnTerm]  # estimating functions of second stages
    reference: int
    full: int | None
    pilot: Pilot
    rows: Dataset
    simulated: bool
    what: str  # "covariance" or "squared error"

    def enumerated(self) -> _Reduced:
        """Sums over all states."""
        model, theta = self.request.model, self.pilot.theta
        samples, probability = model.weighted_samples(theta)
        moments = MixtureMoments.enumerated(
            [Policy((part.law,)) for part in self.ingredients],
            model.structure(samples),
            lambda z: model.compile(samples, z),
            theta,
            probability,
        )
        basis, _ = moments.whitening()
        breads, meats = ([term.limit.under_model()[place] for term in self.own] for place in (0, 1))
        raw = moments.with_alone([term.name for term in self.own], breads, meats)
        projected = raw.projected(basis)
        own = PilotMoments(
            criterion=Criterion(projected, LogDeterminant(basis.shape[1]), projected.information),
            raw=raw,
            reference=self.reference,
            full=self.full,
            kind=f"det^(1/r) of the {self.what}",
            method=f"sums over all {len(probability)} states at the pilot's θ",
            evaluations=len(probability) * (len(theta) + 2.0),
        )
        return _Reduced(own, basis)

    def robust_if_needed(self, exact: _Reduced) -> _Reduced:
        """Means over the samples where they contradict the sums over states, which assume the model.

        Both are compared in the same form, tr(J·covariance) of each ingredient alone relative to the reference, in the
        mean over Z: the selection noise of a few draws has an error of its own, and says nothing about the model.
        """
        robust = self._dense_means(inside=False)
        by_samples = _in_the_mean(robust.moments.criterion).relative_to(self.reference)
        metric = exact.moments.criterion.moments.J[self.reference]
        by_states = replace(_in_the_mean(exact.moments.criterion), size=LogTrace(metric)).relative_to(self.reference)
        sampled = replace(robust.moments, criterion=by_samples)
        largest = 0.0
        for unit in np.eye(by_samples.moments.count)[: len(self.ingredients)]:
            value = by_samples.value(unit, unit)
            difference = abs(math.expm1(value - by_states.value(unit, unit)))
            error = sampled.error(unit, unit, value)
            if math.isfinite(difference) and difference > max(_DISAGREE_ERRORS * error, _DISAGREE):
                largest = max(largest, difference)
        spent = exact.moments.evaluations + robust.moments.evaluations
        if largest == 0.0:
            return replace(exact, moments=replace(exact.moments, evaluations=spent))
        note = MISSPECIFIED.format(percent=100 * largest)
        return replace(robust, moments=replace(robust.moments, notes=(note,), evaluations=spent, robust=True))

    def means(self, directions: FloatArray | None, ridge: FloatArray | None, deadline: float) -> _Reduced:
        """Means over samples, in all coordinates or on the solutions of a few directions."""
        if self.pilot.effort.dense is not None:
            return self._dense_means(inside=True)
        request, theta, rows, effort = self.request, self.pilot.theta, self.rows, self.pilot.effort
        chosen = directions
        if chosen is None:
            chosen = random_directions(
                self.ingredients[self.reference], request.model, rows, theta, effort.probes, request.random_state
            )
        basis, products = solved_basis(
            self.ingredients,
            theta,
            chosen,
            rows.relative_weight,
            ridge=ridge,
            steps=effort.cg_steps,
            deadline=deadline,
        )
        sampled = self._sampled(basis, inside=True)
        kept = determined(sampled.moments, self.reference)
        sampled, basis = sampled.projected(kept), basis @ kept
        projected = chosen @ basis
        return self._reduced(
            sampled,
            basis,
            projected.T @ projected / len(chosen),
            float(products + 2 * basis.shape[1]),
            f"{len(theta):,} parameters; directions: {len(chosen)}, solves: {basis.shape[1]}.",
            probes=projected if directions is None else None,
        )

    def _dense_means(self, *, inside: bool) -> _Reduced:
        """Means over samples in all coordinates; ``inside`` assumes that the samples follow the model."""
        r = len(self.pilot.theta)
        sampled = self._sampled(None, inside=inside)
        raw = sampled.moments
        basis, _ = raw.subset(range(len(self.ingredients))).whitening()
        sampled = sampled.projected(basis)
        lost = r - basis.shape[1]
        note = f"{lost} directions without information in the samples are excluded." if lost else ""
        return self._reduced(sampled, basis, sampled.J[self.reference], 2.0 * r, note, raw=raw)

    def _sampled(self, basis: FloatArray | None, *, inside: bool) -> SampledMoments:
        return sampled_moments(
            [*self.ingredients, *(replace(term, follows_model=inside) for term in self.own)],
            self.pilot.theta,
            weight=self.rows.relative_weight,
            basis=basis,
            random_state=self.request.random_state,
            inside=inside,
        )

    def _reduced(
        self,
        sampled: SampledMoments,
        basis: FloatArray,
        metric: FloatArray,
        passes: float,
        note: str,
        probes: FloatArray | None = None,
        raw: MixtureMoments | None = None,
    ) -> _Reduced:
        adjusted = self.simulated and self.full is not None
        if self.simulated and self.full is not None:
            sampled = replace(sampled, full=self.full)
        reference = self.ingredients[self.reference].name
        simulated = " simulated" if self.simulated else ""
        own = PilotMoments(
            criterion=Criterion(sampled.moments, LogTrace(metric), sampled.moments.information),
            raw=raw,
            reference=self.reference,
            full=self.full,
            kind=f"tr(J·{self.what}) with J the information of {reference}",
            method=f"means over {self.rows.n:,} samples{simulated} at the pilot's θ",
            evaluations=self.rows.n * passes,
            sampled=sampled,
            notes=(note,) if note else (),
            adjusted=adjusted,
            probes=probes,
        )
        return _Reduced(own, basis)


def fewest_to_compare(r: int) -> int:
    """Samples from which on their moments say whether the model is right: with fewer θ̂ has adapted to them."""
    return max(_FEWEST_COMPARED, _FOR_EACH_PARAMETER * r)


def can_enumerate(model: Model, rows: Dataset) -> bool:
    """Whether expectations can be sums over all states; importance weights belong to samples, not to states."""
    if rows.has_missing or rows.relative_weight is not None or model.n_parameters > piloting.MOST_DENSE_PARAMETERS:
        return False
    return model.n_states <= MOST_PLANNED_STATES


def _in_the_mean(criterion: Criterion) -> Criterion:
    """The same without the noise of laws that have no free λ."""
    moments = criterion.moments
    return replace(criterion, moments=replace(moments, O=np.zeros_like(moments.O)))

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

import numpy as np
from numpy.typing import NDArray

from fieldfit.asymptotics.criterion import ROOT, Criterion, LogDeterminant, LogTrace, mean_words
from fieldfit.asymptotics.mixture_moments import MixtureMoments, whitening
from fieldfit.asymptotics.sampled_moments import Control, SampledMoments, sampled_moments
from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Model
from fieldfit.planner import pilot as piloting
from fieldfit.planner.directions import determined, named_metric, random_directions, solved_basis
from fieldfit.planner.ingredients import Ingredient
from fieldfit.planner.pilot import FULL, PILOT_POLICY, Pilot
from fieldfit.planner.request import Request
from fieldfit.policies import Policy
from fieldfit.properties import cached_property
from fieldfit.refinement.planned import PlannedStage
from fieldfit.refinement.planned_conditions import PlannedConditions
from fieldfit.types import FloatArray

#: Joint states up to which expectations are sums over all of them.
MOST_PLANNED_STATES = 1 << 12
#: Standard errors, and relative difference, from which on means over samples and sums over states disagree.
_DISAGREE_ERRORS, _DISAGREE = 5.0, 0.05
#: Fewest samples for that comparison.
_FEWEST_COMPARED = 300
#: Directions from which on errors come from a part of the samples, and about how many.
_MANY_DIRECTIONS, _ERROR_ROWS = 60, 125
MISSPECIFIED = (
    "The pilot's samples do not follow the model: variances that assume it differ from those of the samples by up to "
    "{percent:.0f}%. Variances are therefore means over the samples (robust)."
)


@dataclass(frozen=True)
class PilotMoments:
    """The criterion at θ̂, how expectations were taken, and the samples that its error comes from."""

    criterion: Criterion
    basis: FloatArray  # (r, d) the directions of θ that the criterion is on
    raw: MixtureMoments | None  # in all coordinates of θ, where they are matrices
    reference: int  # the term that has C = 1
    full: int | None  # the place of maximum likelihood
    kind: str  # description of C
    method: str
    evaluations: float  # evaluations of each ingredient that were made, in samples × passes
    sampled: SampledMoments | None = None
    notes: tuple[str, ...] = ()
    probes: FloatArray | None = None  # (q, d) random directions that stand for a trace
    robust: bool = False  # the samples contradict the model

    def error(self, lam: FloatArray, beta: FloatArray, value: float) -> float:
        """Relative standard error of C = exp(``value``), from the samples and from random directions; 0 where exact."""
        criterion, sampled = self.criterion, self.sampled
        if sampled is None or not isinstance(criterion.size, LogTrace):
            return 0.0
        if criterion.penalty is not None:
            beta = beta / max(float(beta.max()), 1e-300)
        metric, weight = criterion.size.metric, lam * beta
        bread, meat = criterion.bread_meat(lam, beta)
        few = self._few
        assert few is not None
        counts, composite = few.counts, few.scores(weight)
        unit = np.eye(criterion.moments.count)[self.reference]
        try:
            by_direction = 0.0
            if self.probes is not None and len(self.probes) > 1:
                # C is a ratio of two means over the directions.
                along, base = _along(self.probes, bread, meat), _along(self.probes, *criterion.bread_meat(unit, unit))
                ratio = along / along.mean() - base / base.mean()
                by_direction = float(ratio.std(ddof=1) / math.sqrt(len(ratio)))
            if sampled.full is not None:
                extra = _lengths(np.linalg.solve(bread, composite.T).T, metric)
                total = math.exp(value + criterion.reference)
                return math.hypot(_deviation(extra, counts) / math.sqrt(sampled.n) / total, by_direction)
            each = _lengths(np.linalg.solve(bread, composite.T).T, metric)
        except np.linalg.LinAlgError:
            return math.nan
        # C is a ratio of two means over the same samples. What selection adds is taken to vary as the rest does; what a
        # penalty adds does not vary.
        base, share = self._reference_rows, 1.0
        if criterion.prior is not None:
            prior = np.linalg.solve(bread, np.linalg.solve(bread, criterion.prior).T)
            mean = np.average(each, weights=counts)
            share = float(mean / (mean + np.sum(prior * metric)))
        ratio = each / np.average(each, weights=counts) - base / np.average(base, weights=counts)
        by_sample = _deviation(ratio, counts) / math.sqrt(sampled.n)
        return math.hypot(share * by_sample, by_direction)

    @cached_property
    def _few(self) -> SampledMoments | None:
        """The samples that errors come from: a standard deviation is known to 10% from a hundred."""
        sampled = self.sampled
        if sampled is None or self.criterion.rank <= _MANY_DIRECTIONS:
            return sampled
        return sampled.every(max(1, len(sampled.counts) // _ERROR_ROWS))

    @cached_property
    def _reference_rows(self) -> FloatArray:
        """What each of these samples adds to the criterion of the reference."""
        assert self._few is not None
        assert isinstance(self.criterion.size, LogTrace)
        unit = np.eye(self.criterion.moments.count)[self.reference]
        bread = self.criterion.bread_meat(unit, unit)[0]
        return _lengths(np.linalg.solve(bread, self._few.scores(unit).T).T, self.criterion.size.metric)


def _along(directions: FloatArray, bread: FloatArray, meat: FloatArray) -> FloatArray:
    """The variance along each direction (q, d)."""
    solved = np.linalg.solve(bread, directions.T)
    return np.asarray(np.einsum("dq,de,eq->q", solved, meat, solved))


def _lengths(rows: NDArray[np.floating], metric: FloatArray) -> FloatArray:
    """xᵀ R x of each row."""
    return np.asarray(np.sum((rows @ metric) * rows, axis=1))


def _deviation(values: FloatArray, counts: FloatArray) -> float:
    """The standard deviation of values that occur ``counts`` times."""
    mean = np.average(values, weights=counts)
    return float(np.sqrt(np.average((values - mean) ** 2, weights=counts)))


def can_enumerate(model: Model, rows: Dataset) -> bool:
    """Whether expectations can be sums over all states; importance weights belong to samples, not to states."""
    if rows.has_missing or rows.relative_weight is not None or model.n_parameters > piloting.MOST_DENSE_MOMENTS:
        return False
    return model.n_states <= MOST_PLANNED_STATES


@dataclass(frozen=True)
class Gathering:
    """Takes the moments of ingredients and of the terms that second stages bring over the pilot's ``samples``.

    Solves get fewer steps where ``deadline`` is near.
    """

    request: Request
    pilot: Pilot
    ingredients: Sequence[Ingredient]
    stages: Sequence[PlannedStage]
    deadline: float

    @cached_property
    def _penalty(self) -> tuple[FloatArray, FloatArray] | None:
        """What the penalty of the fit to come adds to the diagonals of bread and meat (r,), for each sample.

        With importance weights the bread has their sum, the meat that of their squares.
        """
        precision, dataset = self.request.precision, self.request.dataset
        if precision is None or not precision.any():
            return None
        total, used = dataset.total_weight, dataset.sample_weight
        scale = 1.0 if used is None or dataset.has_counts else np.count_nonzero(used) / total
        return precision / total, precision / total * scale

    @property
    def _limits(self) -> list[PlannedConditions]:
        """The second stages with moments of their own."""
        return [limit for limit in (stage.limit for stage in self.stages) if not isinstance(limit, int)]

    def _place(self, policy: Policy) -> int | None:
        laws = [part.law for part in self.ingredients]
        return laws.index(policy.laws[0]) if policy.laws[0] in laws else None

    @cached_property
    def reference(self) -> int:
        """The place of FL, else of PL1."""
        full = self._place(FULL)
        return full if full is not None else self._place(PILOT_POLICY) or 0

    def gather(self, *, enumerated: bool, compare: bool) -> PilotMoments:
        """The moments, from sums over states if ``enumerated``; ``compare``: these are compared with means over samples."""
        request, theta = self.request, self.pilot.theta
        shown, directions = ((), None) if request.functionals is None else request.functionals(theta)
        enough = max(_FEWEST_COMPARED, piloting.UNADAPTED * len(theta))
        if enumerated:
            moments = self._enumerated()
            if compare and not self.pilot.simulated and self.pilot.samples.n >= enough:
                moments = self._robust_if_needed(moments)
        elif self.pilot.effort.dense:
            moments = self._dense_means(inside=True)
        else:
            moments = self._directed_means(directions)
        criterion, kind = moments.criterion, moments.kind
        if self._penalty is not None:
            bread, meat = ((moments.basis * diagonal[:, None]).T @ moments.basis for diagonal in self._penalty)
            criterion = replace(criterion, penalty=bread, prior=meat)
        if directions is not None:
            metric = named_metric(criterion, directions @ moments.basis, self.reference)
            criterion = replace(criterion, size=LogTrace(metric))
            kind = "mean variance of " + ", ".join(shown[:3]) + (", …" if len(shown) > 3 else "")
        return replace(moments, criterion=criterion.relative_to(self.reference), kind=kind)

    @property
    def _what(self) -> str:
        return "covariance" if self._penalty is None else "squared error"

    def _enumerated(self) -> PilotMoments:
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
        basis, _ = whitening(moments.J)
        raw = moments.with_alone([(str(limit.staged), *limit.under_model()) for limit in self._limits])
        projected = raw.projected(basis)
        return PilotMoments(
            criterion=Criterion(projected, LogDeterminant(basis.shape[1]), projected.information),
            basis=basis,
            raw=raw,
            reference=self.reference,
            full=self._place(FULL),
            kind=f"{ROOT} of the {self._what}",
            method=f"sums over all {len(probability)} states at the pilot's θ",
            evaluations=len(probability) * (len(theta) + 2.0),
        )

    def _robust_if_needed(self, exact: PilotMoments) -> PilotMoments:
        """Means over the samples where they contradict the sums over states, which assume the model.

        Both are compared in the same form, tr(J·covariance) of each ingredient alone relative to the reference, in the
        mean over Z: the selection noise of a few draws has an error of its own, and says nothing about the model.
        """
        policies = replace(self, stages=())
        robust, known = (
            policies._dense_means(inside=False),
            exact.criterion.subset(list(range(len(self.ingredients)))),
        )
        by_samples, by_states = (
            replace(criterion, moments=replace(criterion.moments, O=np.zeros_like(criterion.moments.O)))
            for criterion in (robust.criterion, replace(known, size=LogTrace(known.moments.J[self.reference])))
        )
        by_samples, by_states = (criterion.relative_to(self.reference) for criterion in (by_samples, by_states))
        sampled = replace(robust, criterion=by_samples)
        largest = 0.0
        for unit in np.eye(by_samples.moments.count):
            value = by_samples.value(unit, unit)
            difference = abs(math.expm1(value - by_states.value(unit, unit)))
            if difference > max(_DISAGREE_ERRORS * sampled.error(unit, unit, value), _DISAGREE):
                largest = max(largest, difference if math.isfinite(difference) else 0.0)
        spent = exact.evaluations + robust.evaluations
        if largest == 0.0:
            return replace(exact, evaluations=spent)
        robust = self._dense_means(inside=False) if self.stages else robust
        return replace(robust, notes=(MISSPECIFIED.format(percent=100 * largest),), evaluations=spent, robust=True)

    def _dense_means(self, *, inside: bool) -> PilotMoments:
        """Means over samples in all coordinates; ``inside`` assumes that the samples follow the model."""
        sampled = self._sampled(None, inside=inside)
        raw, r = sampled.moments, len(self.pilot.theta)
        basis, _ = whitening(raw.J[: len(self.ingredients)])
        sampled, lost = sampled.projected(basis), r - basis.shape[1]
        note = f"{lost} directions without information in the samples are excluded." if lost else ""
        metric = sampled.moments.J[self.reference]
        return self._means(sampled, basis, metric, 2.0 * r, note, raw=raw)

    def _directed_means(self, directions: FloatArray | None) -> PilotMoments:
        """Means over samples on the solutions of a few directions: those named, or random ones."""
        request, theta, rows, effort = self.request, self.pilot.theta, self.pilot.samples, self.pilot.effort
        chosen = directions
        if chosen is None:
            reference = self.ingredients[self.reference]
            chosen = random_directions(reference, request.model, rows, theta, effort.probes, request.random_state)
        basis, products = solved_basis(
            [part.problem for part in self.ingredients],
            theta,
            chosen,
            rows.relative_weight,
            ridge=None if self._penalty is None else self._penalty[0],
            steps=effort.cg_steps,
            deadline=self.deadline,
        )
        sampled = self._sampled(basis, inside=True)
        kept = determined(sampled.moments, self.reference)
        sampled, basis = sampled.projected(kept), basis @ kept
        projected, solves = chosen @ basis, basis.shape[1]
        note = (
            f"{len(theta):,} parameters: variances are estimated in {len(chosen)} directions, with {solves} solves."
        )
        moments = self._means(
            sampled, basis, projected.T @ projected / len(chosen), float(products + 2 * solves), note
        )
        return moments if directions is not None else replace(moments, probes=projected)

    def _control(self) -> Control | None:
        """PL1, where there are more simulated samples than Hessians are taken of."""
        place, few = self._place(PILOT_POLICY), self.pilot.effort.hessian_rows(self.pilot.samples.n)
        if not self.pilot.simulated or place is None or few == self.pilot.samples.n:
            return None
        full = self._place(FULL)
        return Control(self.ingredients[place].problem, few, None if full is None else self.ingredients[full].problem)

    def _sampled(self, basis: FloatArray | None, *, inside: bool) -> SampledMoments:
        sampled = sampled_moments(
            [*(part.sampled for part in self.ingredients), *(limit.sampled(inside) for limit in self._limits)],
            self.pilot.theta,
            weight=self.pilot.samples.relative_weight,
            basis=basis,
            random_state=self.request.random_state,
            inside=inside,
            control=self._control() if inside and basis is None else None,
        )
        full = self._place(FULL)
        if inside and basis is None and full is not None and self.pilot.samples.relative_weight is None:
            breads = sampled.breads.copy()
            for place, limit in enumerate(self._limits, len(self.ingredients)):
                breads[sampled.part(place)] = limit.bread(breads[sampled.part(full)])
            sampled = replace(sampled, breads=breads, squared=breads)
        return sampled.controlled(full) if self.pilot.simulated and full is not None else sampled

    def _means(
        self,
        sampled: SampledMoments,
        basis: FloatArray,
        metric: FloatArray,
        passes: float,
        note: str,
        raw: MixtureMoments | None = None,
    ) -> PilotMoments:
        full = self._place(FULL)
        simulated = " simulated" if self.pilot.simulated else ""
        return PilotMoments(
            criterion=Criterion(sampled.moments, LogTrace(metric), sampled.moments.information),
            basis=basis,
            raw=raw,
            reference=self.reference,
            full=full,
            kind=f"{mean_words(self._what)} with I the information of {self.ingredients[self.reference].name}",
            method=f"means over {self.pilot.samples.n:,} samples{simulated} at the pilot's θ",
            evaluations=self.pilot.samples.n * passes,
            sampled=sampled,
            notes=(note,) if note else (),
        )

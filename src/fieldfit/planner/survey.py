"""All that recommendations for a model and its samples are made of, and the policies that it compares for a target.

Compared are pure policies, mixtures, partitions, parts of the data, joint optima under budgets, and refined estimators.
All variances are for the given sample: a policy that uses a fifth of it has λ = 0.2, and a larger variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit.models.work import clock
from fieldfit.planner.candidates import Candidate, Origin, beyond_noise, by_cost
from fieldfit.planner.costs import FitCost, FitCosts
from fieldfit.planner.directions import search_criterion
from fieldfit.planner.ingredients import Ingredient, PolicyTerms, mixture_text, placed
from fieldfit.planner.moments import PilotMoments
from fieldfit.planner.pilot import FULL, PILOT_POLICY, Pilot
from fieldfit.planner.request import Request, Target
from fieldfit.planner.search import Mixture, Search
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.properties import cached_property
from fieldfit.refinement.planned import PlannedStage, SkippedError
from fieldfit.refinement.staged import Staged
from fieldfit.types import FieldfitError, FloatArray

#: Directions up to which all pairs of ingredients are searched.
_MOST_THOROUGH_DIRECTIONS = 30
#: Shares of the most expensive pure policy's cost at which the joint optimum is computed, to draw the frontier.
_SHOWN_BUDGET_SHARES = (0.05, 0.15, 0.4, 0.8)
#: Log ratio to the variance of the first stage from which a refined estimator's predicted variance is not shown.
_IMPLAUSIBLE_LOG_VARIANCE = 0.05
#: Standard errors by which a variance is clearly below that of maximum likelihood.
_CLEARLY_BELOW_ERRORS = 3.0
#: Share of a budget in seconds that the search may take.
_SEARCH_SHARE = 0.03


@dataclass(frozen=True)
class RefinedTerm:
    """An estimator with a second stage: λ of its first one, the place of its moments, and what the second stage costs."""

    stage: PlannedStage
    lam: FloatArray
    place: int
    cost: FitCost


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The ingredients of a plan with what is known about their variance and cost, and the target of the plan."""

    request: Request
    target: Target
    asked: tuple[PolicyTerms, ...] | None  # the policies that were requested
    pilot: Pilot
    ingredients: list[Ingredient]
    refined: list[RefinedTerm]
    skipped: dict[Law | Staged, SkippedError]
    moments: PilotMoments
    costs: FitCosts
    pilot_flops: float  # of pilot and moments
    began: float  # when the survey began, by this thread's clock
    drift: str = ""  # how samples of the pilot's field drift away from the data

    @property
    def n(self) -> int:
        """Samples, with their counts."""
        return self.request.dataset.n_copies

    @property
    def not_compared(self) -> list[str]:
        """Refined estimators and families that were skipped although a fit can have them."""
        names = [str(what) for what, skipped in self.skipped.items() if skipped.usable]
        return [*names, *self._withheld]

    @property
    def weighted(self) -> bool:
        """Whether samples have importance weights."""
        return self.request.dataset.relative_weight is not None

    @property
    def floor(self) -> float | None:
        """By how many standard errors a variance must be below that of maximum likelihood to count as such.

        Infinite where none is; the best of many policies must be so by three. None: there is no maximum likelihood.
        """
        return None if self.moments.full is None else math.inf if self.is_bounded else _CLEARLY_BELOW_ERRORS

    @property
    def is_bounded(self) -> bool:
        """Whether no variance is below that of maximum likelihood.

        No estimator has a smaller variance than maximum likelihood where the model is right, for any functional; with a
        penalty, none has a smaller squared error under the penalty's prior (van Trees). Importance weights of the data may
        depend on the values of their samples.
        """
        dependent = self.weighted and not self.pilot.simulated
        return not (self.moments.full is None or self.moments.robust or dependent)

    @property
    def reference(self) -> str:
        """The policy with variance 1."""
        return self.ingredients[self.moments.reference].name

    def spent(self) -> float:
        """The cost of reading, pilot and moments up to now, in the unit of the budget."""
        if self.target.pilot_spent:
            return 0.0
        return self.request.reading + clock() - self.began if self.target.unit == "seconds" else self.pilot_flops

    def notes(self) -> tuple[str, ...]:
        """What the reader of a plan should know besides."""
        notes = list(self.moments.notes)
        if not self.pilot.converged:
            notes.append("The pilot was stopped early and extrapolated, so the number of evaluations is uncertain.")
        if self.moments.criterion.penalty is not None:
            notes.append("The comparison includes the penalty: squared error when θ has the prior N(0, σ²).")
        if self.weighted:
            told = "The values of the pilot's samples are simulated, and weights are treated as independent of them."
            notes.append("Importance weights enter bread and meat." + (f" {told}" if self.pilot.simulated else ""))
        if self.request.dataset.has_missing and not self.pilot.samples.has_missing:
            notes.append("Variances and costs are those of complete samples; the others make FL and blocks slower.")
        for what, skipped in self.skipped.items():
            if skipped.usable:
                notes.append(str(skipped))
            elif what == FULL.laws[0]:
                notes.append(f"{what}: skipped. {skipped}")
        notes += self._withheld.values()
        if self.asked is None and not self.pilot.effort.dense:
            notes.append(
                "The model has too many parameters for this plan to compare second stages, such as 'PL1 >> optimal'. A fit "
                "can still use them."
            )
        if self.moments.full is None:
            notes.append(f"Variances are relative to {self.reference}, not to maximum likelihood.")
        return tuple(dict.fromkeys(notes))

    @cached_property
    def search(self) -> Search:
        """The search for mixtures of the ingredients, with costs in the unit of the budget."""
        criterion = self.moments.criterion.subset(list(range(len(self.ingredients))))
        fixed, alone = (
            frozenset(place for place, part in enumerate(self.ingredients) if part.noise is noise)
            for noise in (Noise.FIXED, Noise.TOGETHER)
        )
        cost = self.costs.flops if self.target.unit == "flops" else self.costs.seconds
        return Search(criterion, search_criterion(criterion, self.moments.reference), cost, fixed, alone)

    @cached_property
    def units(self) -> FloatArray:
        """λ or β of each ingredient alone (ingredients, ingredients)."""
        return np.eye(len(self.ingredients))

    @property
    def singles(self) -> list[int]:
        """The ingredients whose components are drawn one by one."""
        return [place for place, part in enumerate(self.ingredients) if part.noise is Noise.EACH]

    @property
    def _search_seconds(self) -> float:
        """Seconds that the search for mixtures may take."""
        hurried = self.target.seconds is not None and not self.target.pilot_spent
        return _SEARCH_SHARE * self.target.limit if hurried else math.inf

    @cached_property
    def _withheld(self) -> dict[str, str]:
        """Refined estimators whose variance cannot be predicted, each with a sentence.

        A fit keeps the first estimate where the refined one would be less accurate over the data. So a predicted variance
        far above the first stage's shows only that the pilot's samples do not determine it. A stage without moments of
        its own, such as ``>> FL``, has the variance of a policy that the plan compares anyway.
        """
        if self.moments.sampled is None or self.moments.robust:  # sums over all states, or many samples of few states
            return {}
        return {
            str(term.stage.staged): (
                f"{term.stage.staged}: skipped, its variance cannot be predicted from this pilot. It would be larger than "
                f"that of {term.stage.staged.first}, whose estimate a fit keeps in this case."
            )
            for term in self.refined
            if not isinstance(term.stage.limit, int)
            and not self._log_variance(term) <= self._first_stage(term) + _IMPLAUSIBLE_LOG_VARIANCE
        }

    def _first_stage(self, term: RefinedTerm) -> float:
        """The log variance of the first stage alone."""
        lam = np.zeros(self.moments.criterion.moments.count)
        lam[: len(term.lam)] = term.lam
        return self.moments.criterion.value(lam, np.ones_like(lam))

    def _log_variance(self, term: RefinedTerm) -> float:
        """The log variance of a refined estimator.

        Where the information of maximum likelihood is not there to correct the bread of rare statistics, that of the first
        stage and what the weights gain over it in draws of the model.
        """
        limit, unit = term.stage.limit, np.eye(self.moments.criterion.moments.count)[term.place]
        alone = self.moments.full is None and self.moments.criterion.penalty is None
        if not isinstance(limit, int) and alone and self.request.functionals is None and not self.weighted:
            return self._first_stage(term) + limit.log_gain
        return self.moments.criterion.value(unit, unit)

    def candidates(self) -> list[Candidate]:
        """One candidate for each policy's text, by cost."""
        search, by_text = self.search, dict[str, Candidate]()
        if self.asked is not None:
            mixtures = [
                (Mixture(lam, beta, search.criterion.value(lam, beta), search.cost(lam)), Origin.ASKED)
                for lam, beta in (placed(terms, self.ingredients) for terms in self.asked)
            ]
        else:
            mixtures = [usual for usual in self._usual() if math.isfinite(usual[0].value)]
            if not mixtures:
                raise FieldfitError(
                    "The policies cannot be compared: none has a finite variance at the pilot's estimate, because the data "
                    "do not determine all parameters without a penalty. Give a penalty (sigma2)."
                )
            mixtures += self._joint([mixture for mixture, _ in mixtures])
        for mixture, origin in mixtures:
            # All of the data is no part of it: the family itself is in the list.
            whole = origin is not Origin.ASKED and any(mixture.lam[place] == 1.0 for place in search.alone)
            text = mixture_text(self.ingredients, mixture.lam, mixture.beta)
            if whole or not text or text in by_text:
                continue
            more = np.zeros(self.moments.criterion.moments.count - len(mixture.lam))
            lam, beta = (np.concatenate([numbers, more]) for numbers in (mixture.lam, mixture.beta))
            error = self.moments.error(lam, beta, mixture.value)
            by_text[text] = self._candidate(text, mixture.lam, mixture.value, error, origin, beta=mixture.beta)
        for term in self.refined:
            unit = np.eye(self.moments.criterion.moments.count)[term.place]
            value, name = self._log_variance(term), str(term.stage.staged)
            if name in self._withheld:
                if self.asked is None:
                    continue
                value = math.inf
            origin = Origin.REFINED if self.asked is None else Origin.ASKED
            error = self.moments.error(unit, unit, value)
            by_text[name] = self._candidate(name, term.lam, value, error, origin, refined=term)
        return by_cost(list(by_text.values()))

    def _candidate(
        self,
        policy: str,
        lam: FloatArray,
        value: float,
        error: float,
        origin: Origin,
        *,
        beta: FloatArray | None = None,
        refined: RefinedTerm | None = None,
    ) -> Candidate:
        """A policy with these λ and β, or a first stage with these λ and its second stage."""
        if refined is None:
            cost = self.costs.of(lam)
        else:
            cost = self.costs.of(lam, refined.cost, as_start=refined.stage.staged.second.only_starts)
        variance = math.exp(min(value, 700.0)) if math.isfinite(value) else math.inf
        samples, n_terms, n_numbers = float(self.n), 1, 0
        if beta is not None:
            used, numbers = np.flatnonzero(lam * beta), np.concatenate([lam, beta])
            # n times the largest λ, or the share of samples of a law without one.
            shares = [
                float(lam[k])
                if self.ingredients[k].free
                else max(s.any_drawn for s in self.ingredients[k].bound.shares())
                for k in used
            ]
            samples, n_terms = self.n * max(shares, default=0.0), len(used)
            n_numbers = int(np.count_nonzero((numbers > 0) & (numbers != 1)))
        return Candidate(
            policy=policy,
            cost=cost.flops if self.target.unit == "flops" else cost.seconds,
            seconds=cost.seconds,
            flops=cost.flops,
            operations=cost.operations,
            evaluations=cost.evaluations,
            variance=beyond_noise(variance, error, self.floor),
            error=error,
            affordable=False,
            origin=origin,
            samples=samples,
            n_terms=n_terms,
            n_numbers=n_numbers,
            second_stage="" if refined is None else refined.stage.sentence,
        )

    def _usual(self) -> Iterator[tuple[Mixture, Origin]]:
        """Pure policies, partitions, parts of the data, and mixtures with the best weights for their λ.

        No more mixtures are computed once half of the search's seconds have passed.
        """
        deadline = clock() + self._search_seconds / 2
        search, units, singles = self.search, self.units, self.singles
        for part, unit in zip(self.ingredients, units, strict=True):
            shares: tuple[float, ...] = (1.0,)
            origin = Origin.PARTITION if part.noise is Noise.FIXED else Origin.EVERYTHING
            if part.noise is Noise.TOGETHER:
                shares, origin = (0.1, 0.2, 0.5), Origin.PART
            yield from ((search.written(share * unit, unit), origin) for share in shares)
            if part.law == PILOT_POLICY.laws[0]:
                yield from ((search.written(share * unit, unit), Origin.ONE_BY_ONE) for share in (0.2, 0.5))
        for low, high in [(a, b) for k, a in enumerate(singles) for b in singles[k + 1 :]]:
            for share in (0.1, 0.3):
                if clock() <= deadline:
                    yield search.best_weights(units[low] + share * units[high]), Origin.MIXED

    def _joint(self, known: Sequence[Mixture]) -> list[tuple[Mixture, Origin]]:
        """Joint optima at the budget and at others below and above it, so that the frontier can be seen."""
        search, target, allowed = self.search, self.target, self._search_seconds
        mixtures: list[tuple[Mixture, Origin]] = []

        def add(mixture: Mixture | None, origin: Origin) -> None:
            if mixture is not None:
                mixtures.append((mixture, origin))

        small, hurried = search.quick.rank <= _MOST_THOROUGH_DIRECTIONS, math.isfinite(allowed)
        largest = max(mixture.cost for mixture in known)
        began, ran = clock(), 0
        shown = _SHOWN_BUDGET_SHARES if small else () if hurried else _SHOWN_BUDGET_SHARES[1::2]
        for share in shown:
            if clock() - began < allowed / 2:
                add(search.joint(share * largest, thorough=False), Origin.JOINT)
                ran += 1
        each = (clock() - began) / max(ran, 1)
        # All pairs take about eight times as long as those with the first ingredient.
        thorough = small and 8 * each < allowed
        left = target.limit - self.spent()
        if hurried:
            left -= (16 if thorough else 3) * each + 0.02 if ran else allowed  # what this search will take itself
        if math.isfinite(left) and left > 0:
            add(search.joint(left, thorough=thorough), Origin.AT_BUDGET)
            # The rest of the budget may be enough for a part of the data only.
            for place in range(len(self.ingredients)):
                add(search.filled(place, left), Origin.FILLED)
        if target.efficiency is not None:
            # Bisect the budget whose joint optimum just reaches the variance that is wanted.
            wanted, compared = math.log(target.efficiency), [*known, *(mixture for mixture, _ in mixtures)]
            enough = [mixture.cost for mixture in compared if mixture.value <= wanted]
            low, high = math.log(min(mixture.cost for mixture in compared) / 50), math.log(min(enough, default=1.0))
            for _ in range(7 if enough else 0):
                middle = (low + high) / 2
                best = search.joint(math.exp(middle), thorough=False)
                if best is not None and best.value <= wanted:
                    mixtures.append((best, Origin.CHEAPEST))
                    high = math.log(best.cost)
                else:
                    low = middle
        return mixtures

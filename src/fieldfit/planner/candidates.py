"""The policies that a plan compares, and which of them it recommends.

Compared are pure policies, mixtures, partitions, parts of the data, joint optima under budgets, and refined estimators.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

import numpy as np

from fieldfit.planner.costs import FitCosts
from fieldfit.planner.directions import search_criterion
from fieldfit.planner.ingredients import Ingredient, Term, mixture_text, placed
from fieldfit.planner.moments import PilotMoments
from fieldfit.planner.pilot import ENOUGH_SAMPLES, PILOT_POLICY
from fieldfit.planner.refined import NO_SECOND_STAGE, RefinedTerm
from fieldfit.planner.refined import Cost as SecondCost
from fieldfit.planner.request import Target
from fieldfit.planner.search import Cost, Freedom, Mixture, best_weights, fill_budget, joint_optimum, rounded
from fieldfit.policies.laws.base import Noise
from fieldfit.report.frontier_chart import MixtureTable
from fieldfit.types import FieldfitError, FloatArray
from fieldfit.variance.criterion import Criterion

#: Directions up to which all pairs of ingredients are searched.
_THOROUGH = 30
#: Shares of the most expensive pure policy's cost at which the joint optimum is computed, to draw the frontier.
_BUDGETS = (0.05, 0.15, 0.4, 0.8)
#: Share of a budget in seconds that the search may take.
SEARCH_SHARE = 0.05
#: Relative difference in variance that is not worth a more complicated policy.
ENOUGH = 0.005
#: The same where the pilot's samples cannot tell two variances apart. A larger error is no reason to take the cheaper one:
#: it may as well be worse.
_AT_MOST = 0.02
#: Costs of second stages are multiplied by this where policies are equally accurate.
_SECOND_STAGE = 1.15
#: The grid of mixtures that a page has sliders for, the families it has, and the largest log variance on it.
_LAMS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
_BETAS = tuple(k / 10 for k in range(11))
_MOST_TABLES, _LARGEST = 4, 20.0


class Origin(Enum):
    """Why a policy is among the candidates."""

    ASKED = "asked for"
    EVERYTHING = "everything selected"
    PARTITION = "random partition"
    PART = "a part of the data"
    ONE_BY_ONE = "one by one"
    MIXED = "mixed, best weights"
    JOINT = "joint optimum"
    AT_BUDGET = "joint optimum at the budget"
    FILLED = "as much as the budget allows"
    CHEAPEST = "cheapest that is accurate enough"
    REFINED = "second stage"

    @property
    def searched(self) -> bool:
        """Whether it comes from a search: then it is shown only on the frontier."""
        return self in (Origin.JOINT, Origin.AT_BUDGET, Origin.FILLED, Origin.CHEAPEST)


@dataclass(frozen=True)
class Candidate:
    """A policy: what a whole fit with it costs, and its variance (relative to the plan's reference)."""

    policy: str
    cost: float  # in the budget's unit, without the pilot
    seconds: float
    flops: float
    operations: float
    evaluations: float  # of a fit, everything that the optimiser does counted in them (timed)
    variance: float
    error: float  # standard error of the variance from the pilot's samples, relative
    affordable: bool
    origin: Origin
    samples: float = math.inf  # about as many are used
    n_terms: int = 1
    n_numbers: int = 0  # λ and β other than 1 in its text
    on_frontier: bool = False
    second_stage: str = ""  # what the second stage of a refined estimator does, as a sentence

    @property
    def why(self) -> str:
        """Why it is among the candidates, as text."""
        return self.origin.value


@dataclass(frozen=True)
class Comparison:
    """The ingredients with what is known about their variance and cost."""

    ingredients: Sequence[Ingredient]
    refined: Sequence[tuple[RefinedTerm, SecondCost]]
    moments: PilotMoments
    costs: FitCosts
    unit: str  # of the budget: "seconds" or "flops"
    n: int

    @property
    def cost(self) -> Cost:
        """The cost of a mixture in the budget's unit."""
        return self.costs.flops if self.unit == "flops" else self.costs.seconds

    @cached_property
    def criterion(self) -> Criterion:
        """log C(λ, β) of mixtures."""
        return self.moments.criterion.subset(list(range(len(self.ingredients))))

    @cached_property
    def searched(self) -> Criterion:
        """The same, or one near it where that takes long to evaluate."""
        return search_criterion(self.criterion, self.moments.reference)

    @property
    def freedom(self) -> Freedom:
        """What can be chosen about each ingredient."""
        return Freedom.of(self.ingredients)

    @property
    def _singles(self) -> list[int]:
        """The ingredients whose components are drawn one by one."""
        return [place for place, part in enumerate(self.ingredients) if part.noise is Noise.EACH]

    def placed(self, terms: Sequence[Term]) -> Mixture:
        """The mixture that a policy says, as it is written."""
        lam, beta = placed(terms, self.ingredients)
        return Mixture(lam, beta, self.criterion.value(lam, beta), self.cost(lam))

    def usual(self, deadline: float = math.inf) -> list[tuple[Mixture, Origin]]:
        """Pure policies, partitions, parts of the data, and mixtures with the best weights for their λ.

        No more mixtures are computed once the clock (`time.perf_counter`) has passed the deadline.
        """
        criterion, cost = self.criterion, self.cost
        mixtures: list[tuple[Mixture, Origin]] = []
        units = np.eye(len(self.ingredients))
        for part, unit in zip(self.ingredients, units, strict=True):
            shares: tuple[float, ...] = (1.0,)
            origin = Origin.PARTITION if part.noise is Noise.FIXED else Origin.EVERYTHING
            if part.noise is Noise.TOGETHER:
                shares, origin = (0.1, 0.2, 0.5), Origin.PART
            mixtures += [(rounded(share * unit, unit, criterion, cost), origin) for share in shares]
            if part.law == PILOT_POLICY.laws[0]:
                mixtures += [
                    (rounded(share * unit, unit, criterion, cost), Origin.ONE_BY_ONE) for share in (0.2, 0.5)
                ]
        singles = self._singles
        for low, high in [(a, b) for k, a in enumerate(singles) for b in singles[k + 1 :]]:
            for share in (0.1, 0.3):
                if time.perf_counter() > deadline:
                    break
                lam = units[low] + share * units[high]
                mixtures.append((self.exactly(best_weights(lam, self.searched, cost)), Origin.MIXED))
        return [(mixture, origin) for mixture, origin in mixtures if math.isfinite(mixture.value)]

    def exactly(self, mixture: Mixture) -> Mixture:
        """A mixture that was found with the criterion of searches, with its variance."""
        if self.searched is self.criterion:
            return mixture
        return replace(mixture, value=self.criterion.value(mixture.lam, mixture.beta))

    def curves(self) -> list[tuple[str, str, float, float]]:
        """Variance against λ for every family that is drawn one by one: (family, policy, λ, variance)."""
        criterion = self.criterion
        units = np.eye(len(self.ingredients))
        singles = self._singles
        rows = []
        for high in singles:
            name = self.ingredients[high].name
            for share in np.linspace(0.05, 1.0, 20).round(2):
                rows.append((name, f"λ*{name}", float(share), criterion.value(share * units[high], units[high])))
            if high == singles[0]:
                continue
            low, first = singles[0], self.ingredients[singles[0]].name
            for share in np.linspace(0.05, 1.0, 20).round(2):
                lam = units[low] + share * units[high]
                equal = criterion.value(lam, units[low] + units[high])
                rows.append((name, f"{first} + λ*{name}", float(share), equal))
                best = self.exactly(best_weights(lam, self.searched, lambda _: 0.0)).value
                rows.append((name, f"{first} + λ*{name}, best weights", float(share), best))
        return [(name, policy, lam, math.exp(value)) for name, policy, lam, value in rows if math.isfinite(value)]

    def mixture_tables(self) -> list[MixtureTable]:
        """Mixtures of the first family with λ of each other one that is drawn one by one, over a grid of (λ, β).

        The weights of the two are 1 − β and β.
        """
        units = np.eye(len(self.ingredients))
        singles = self._singles
        tables = []
        for high in singles[1 : 1 + _MOST_TABLES]:
            lines = [
                [
                    rounded(
                        units[singles[0]] + lam * units[high],
                        (1 - beta) * units[singles[0]] + beta * units[high],
                        self.searched,
                        self.cost,
                    )
                    for beta in _BETAS
                ]
                for lam in _LAMS
            ]
            tables.append(
                MixtureTable(
                    self.ingredients[high].name,
                    _LAMS,
                    _BETAS,
                    [[mixture_text(self.ingredients, m.lam, m.beta) or "nothing" for m in line] for line in lines],
                    [[m.cost for m in line] for line in lines],
                    [[math.exp(m.value) if m.value < _LARGEST else math.inf for m in line] for line in lines],
                )
            )
        return tables

    def joint(
        self, spent: Callable[[], float], target: Target, known: Sequence[Mixture]
    ) -> list[tuple[Mixture, Origin]]:
        """Joint optima at the budget and at others below and above it, so that the frontier can be seen."""
        criterion, cost, freedom = self.criterion, self.cost, self.freedom
        small = self.searched.rank <= _THOROUGH
        mixtures: list[tuple[Mixture, Origin]] = []

        def add(budget: float, origin: Origin, *, thorough: bool) -> None:
            best = joint_optimum(self.searched, cost, budget, freedom, thorough=thorough)
            if best is not None:
                mixtures.append((self.exactly(best), origin))

        largest = max(mixture.cost for mixture in known)
        began = time.perf_counter()
        hurried = target.seconds is not None and not target.pilot_spent
        allowed = SEARCH_SHARE * target.limit if hurried else math.inf
        ran = 0
        for share in _BUDGETS if small else _BUDGETS[1::2]:
            if time.perf_counter() - began < allowed / 2:
                add(share * largest, Origin.JOINT, thorough=False)
                ran += 1
        each = (time.perf_counter() - began) / max(ran, 1)
        # All pairs take about eight times as long as those with the first ingredient.
        thorough = small and 8 * each < allowed
        left = target.limit - spent()
        if hurried:
            left -= (16 if thorough else 3) * each + 0.02  # what this search will take itself
        if math.isfinite(left) and left > 0:
            add(left, Origin.AT_BUDGET, thorough=thorough)
            # The rest of the budget may be enough for a part of the data only.
            for place in range(len(self.ingredients)):
                filled = fill_budget(place, criterion, cost, left, freedom)
                if filled is not None:
                    mixtures.append((filled, Origin.FILLED))
        if target.efficiency is not None:
            mixtures += self._cheapest(math.log(target.efficiency), [*(mixture for mixture, _ in mixtures), *known])
        return mixtures

    def _cheapest(self, wanted: float, known: Sequence[Mixture]) -> list[tuple[Mixture, Origin]]:
        """Bisect the budget whose joint optimum just reaches the variance that is wanted."""
        enough = [mixture.cost for mixture in known if mixture.value <= wanted]
        if not enough:
            return []
        mixtures = []
        low, high = math.log(min(mixture.cost for mixture in known) / 50), math.log(min(enough))
        for _ in range(7):
            middle = (low + high) / 2
            best = joint_optimum(self.searched, self.cost, math.exp(middle), self.freedom, thorough=False)
            if best is not None and best.value <= wanted:
                mixtures.append((self.exactly(best), Origin.CHEAPEST))
                high = math.log(best.cost)
            else:
                low = middle
        return mixtures

    def listed(self, mixtures: Sequence[tuple[Mixture, Origin]]) -> list[Candidate]:
        """One candidate for each policy's text, by cost, with those on the frontier marked."""
        by_text: dict[str, Candidate] = {}
        whole = self.freedom.alone
        for mixture, origin in mixtures:
            # All of the data is no part of it: the family itself is in the list.
            if origin is not Origin.ASKED and any(mixture.lam[place] == 1.0 for place in whole):
                continue
            text = mixture_text(self.ingredients, mixture.lam, mixture.beta)
            if not text or text in by_text:
                continue
            numbers = np.concatenate([mixture.lam, mixture.beta])
            by_text[text] = self._candidate(
                text,
                mixture.lam,
                mixture.value,
                self._error(mixture.lam, mixture.beta, mixture.value),
                origin,
                samples=self._samples(mixture),
                n_terms=int(np.count_nonzero(mixture.lam * mixture.beta)),
                n_numbers=int(np.count_nonzero((numbers > 0) & (numbers != 1))),
            )
        asked = bool(mixtures) and mixtures[0][1] is Origin.ASKED
        for term, second in self.refined:
            unit = np.eye(self.moments.criterion.moments.count)[term.place]
            value = self.moments.criterion.value(unit, unit)
            by_text[term.name] = self._candidate(
                term.name,
                term.first.lam,
                value,
                self.moments.error(unit, unit, value),
                Origin.ASKED if asked else Origin.REFINED,
                second,
                samples=float(self.n),
                second_stage=term.stage.sentence,
            )
        ordered = sorted(by_text.values(), key=lambda candidate: (candidate.cost, candidate.variance))
        least = math.inf
        marked = []
        for candidate in ordered:
            marked.append(replace(candidate, on_frontier=candidate.variance < least * (1 - 1e-9)))
            least = min(least, candidate.variance)
        return marked

    def _candidate(
        self,
        policy: str,
        lam: FloatArray,
        value: float,
        error: float,
        origin: Origin,
        second: SecondCost = NO_SECOND_STAGE,
        *,
        samples: float,
        n_terms: int = 1,
        n_numbers: int = 0,
        second_stage: str = "",
    ) -> Candidate:
        """A policy with these λ, or a first stage with them and what its second stage costs."""
        seconds, flops = self.costs.seconds(lam) + second.seconds, self.costs.flops(lam) + second.flops
        return Candidate(
            policy=policy,
            cost=flops if self.unit == "flops" else seconds,
            seconds=seconds,
            flops=flops,
            operations=self.costs.operations(lam),
            evaluations=self.costs.steps(lam) + second.evaluations,
            variance=math.exp(min(value, 700.0)) if math.isfinite(value) else math.inf,
            error=error,
            affordable=False,
            origin=origin,
            samples=samples,
            n_terms=n_terms,
            n_numbers=n_numbers,
            second_stage=second_stage,
        )

    def _error(self, lam: FloatArray, beta: FloatArray, value: float) -> float:
        more = np.zeros(self.moments.criterion.moments.count - len(lam))
        return self.moments.error(np.concatenate([lam, more]), np.concatenate([beta, more]), value)

    def _samples(self, mixture: Mixture) -> float:
        """About how many samples a fit uses: n times the largest λ, or the share of samples of a law without one."""
        used = [0.0]
        for part, lam, beta in zip(self.ingredients, mixture.lam, mixture.beta, strict=True):
            if lam > 0 and beta > 0:
                used.append(float(lam) if part.free else max(share.any_drawn for share in part.bound.shares()))
        return self.n * max(used)


def thinned(candidates: list[Candidate]) -> list[Candidate]:
    """Without joint optima and fillings that lie behind the frontier."""
    most = 12 * min(candidate.variance for candidate in candidates)
    return [
        candidate
        for candidate in candidates
        if not candidate.origin.searched or (candidate.on_frontier and candidate.variance <= most)
    ]


def choose(
    candidates: Sequence[Candidate], target: Target, n_parameters: int = 0, least: float = 0.0
) -> tuple[Candidate, str]:
    """The recommendation and why. Policies with fewer than five samples for each parameter are the last resort.

    ``least`` is the smallest variance that is possible: what lies below it does so by the noise of the pilot's samples.
    """
    usable = [candidate for candidate in candidates if math.isfinite(candidate.variance)]
    if not usable:
        raise FieldfitError("None of the policies determines the parameters. Add PL1, which covers all variables.")
    enough = [candidate for candidate in usable if candidate.samples >= ENOUGH_SAMPLES * n_parameters]
    if target.efficiency is not None:
        good = [candidate for candidate in usable if candidate.variance <= target.efficiency * (1 + 1e-9)]
        if not good:
            best = min(usable, key=lambda candidate: candidate.variance)
            return (
                best,
                f"no policy compared has at most {target.efficiency:g} times the variance of maximum likelihood",
            )
        return _cheapest(good), "the cheapest that is accurate enough"
    affordable = [candidate for candidate in enough if candidate.affordable]
    affordable = affordable or [candidate for candidate in usable if candidate.affordable]
    if not affordable:
        usable = enough or usable
        near = [candidate for candidate in usable if candidate.cost <= 0.1 * target.limit]
        if near:
            why = "the pilot has used the budget, and this fit needs less than a tenth of it in addition"
            return _most_accurate(near, least), why
        if min(candidate.cost for candidate in usable) <= target.limit:
            return _cheapest(
                usable
            ), "too little of the budget is left after the pilot: the most accurate of the cheapest"
        return _cheapest(usable), "the budget is too small for any policy: the most accurate of the cheapest"
    best = _most_accurate(affordable, least)
    among = f"of the {len(candidates)} policies compared" if math.isinf(target.limit) else "within the budget"
    if best.variance > (1 + ENOUGH) * min(candidate.variance for candidate in affordable):
        return best, f"none {among} is clearly more accurate"
    return best, f"the most accurate {among}"


def _most_accurate(candidates: Sequence[Candidate], least: float) -> Candidate:
    """The most accurate; of those within half a percent, or what the pilot's sample can tell apart, the simplest.

    Fewer terms come first, then the cheaper. A second stage must be clearly cheaper than what is as accurate without it.
    """
    leading = min(candidates, key=lambda candidate: candidate.variance)
    accurate = max(leading.variance, least)
    close = [
        rival
        for rival in candidates
        if rival.variance <= accurate * (1 + min(max(ENOUGH, 2 * max(rival.error, leading.error)), _AT_MOST))
    ]
    return min(close, key=lambda rival: (rival.n_terms, rival.cost * (_SECOND_STAGE if rival.second_stage else 1)))


def _cheapest(candidates: Sequence[Candidate]) -> Candidate:
    """The most accurate of those that cost at most a tenth more than the cheapest.

    Costs are not known better than that, and fixed costs make small parts of the data nearly as expensive as larger ones.
    """
    least = min(candidate.cost for candidate in candidates)
    cheap = (candidate for candidate in candidates if candidate.cost <= 1.1 * least)
    return min(cheap, key=lambda candidate: candidate.variance)

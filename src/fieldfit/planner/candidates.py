"""The policies that a plan compares, and which of them it recommends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from fieldfit.asymptotics.meat import ENOUGH_FOR_PARAMETER
from fieldfit.planner.request import Target
from fieldfit.types import FieldfitError

#: A policy counts as better if its variance is at least this much lower.
BETTER_VARIANCE = 0.01
#: Relative difference in variance that is not worth a more complicated policy.
ENOUGH = 0.005
#: The same where the pilot's samples cannot tell two variances apart. A larger error is no reason to take the cheaper one:
#: it may as well be worse.
_AT_MOST = 0.02
#: Relative difference in variance that counts where the more accurate policy is the cheaper one as well, and from which a
#: policy is not called the most accurate.
_NOTICEABLE = 0.001
#: Costs of second stages are multiplied by this where policies are equally accurate.
_SECOND_STAGE = 1.15


class Origin(Enum):
    """Why a policy is among the candidates."""

    ASKED = "requested"
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
    """A policy of a plan: what a whole fit with it costs, and its variance.

    Parameters
    ----------
    policy : str
        The policy as text.
    cost : float
        Cost of a fit in the unit of the budget, without the pilot.
    seconds, flops, operations : float
        Cost of a fit in seconds, in the paper's FLOPs and in operations of the kernels.
    evaluations : float
        Evaluations of the objective in a fit, with everything that the optimiser does counted in them.
    variance : float
        Variance relative to the reference of the plan.
    error : float
        Relative standard error of the variance, from the samples of the pilot.
    affordable : bool
        Whether the budget allows it.
    origin : Origin
        Why it is among the candidates; `why` has it as text.
    samples : float, default: inf
        About how many samples the fit uses.
    n_terms : int, default: 1
        Number of terms of the policy.
    n_numbers : int, default: 0
        How many λ and β other than 1 its text has.
    on_frontier : bool, default: False
        Whether no candidate that costs less is as accurate.
    second_stage : str, default: ""
        What the second stage of a refined estimator does, as a sentence.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> x = np.repeat([[1, 1], [1, 0], [0, 0], [0, 1]], [40, 20, 30, 10], axis=0)
    >>> fit = ff.fit(ff.BoltzmannMachine(2, biases=True), x)
    >>> plan = ff.plan(fit.model, x)
    >>> candidate = next(known for known in plan.candidates if known.policy == "FL")
    >>> candidate.affordable, candidate.why
    (True, 'everything selected')
    """

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


def by_cost(candidates: Sequence[Candidate]) -> list[Candidate]:
    """By cost, with those on the frontier marked: none that costs less is as accurate."""
    least, marked = math.inf, []
    for candidate in sorted(candidates, key=lambda candidate: (candidate.cost, candidate.variance)):
        marked.append(replace(candidate, on_frontier=candidate.variance < least * (1 - 1e-9)))
        least = min(least, candidate.variance)
    return marked


def thinned(candidates: list[Candidate]) -> list[Candidate]:
    """Without joint optima and fillings that lie behind the frontier."""
    most = 12 * min(candidate.variance for candidate in candidates)
    return [
        candidate
        for candidate in candidates
        if not candidate.origin.searched or (candidate.on_frontier and candidate.variance <= most)
    ]


def choose(candidates: Sequence[Candidate], target: Target, n_parameters: int = 0) -> tuple[Candidate, str]:
    """The recommendation and why. Policies with fewer than five samples for each parameter are the last resort."""
    usable = [candidate for candidate in candidates if math.isfinite(candidate.variance)]
    if not usable:
        raise FieldfitError("None of the policies determines the parameters. Add PL1, which covers all variables.")
    if target.efficiency is not None:
        good = [candidate for candidate in usable if candidate.variance <= target.efficiency * (1 + 1e-9)]
        if good:
            return _cheapest(good), "the cheapest that is accurate enough"
        why = f"no policy compared has at most {target.efficiency:g} times the variance of maximum likelihood"
        return min(usable, key=lambda candidate: candidate.variance), why
    enough = [candidate for candidate in usable if candidate.samples >= ENOUGH_FOR_PARAMETER * n_parameters]
    affordable = [candidate for candidate in enough if candidate.affordable]
    affordable = affordable or [candidate for candidate in usable if candidate.affordable]
    if not affordable:
        usable = enough or usable
        near = [candidate for candidate in usable if candidate.cost <= 0.1 * target.limit]
        if near:
            why = "the pilot has used the budget, and this fit needs less than a tenth of it in addition"
            return _most_accurate(near), why
        why = "the budget is too small for any policy: the most accurate of the cheapest"
        if min(candidate.cost for candidate in usable) <= target.limit:
            why = "too little of the budget is left after the pilot: the most accurate of the cheapest"
        return _cheapest(usable), why
    best = _most_accurate(affordable)
    among = f"of the {len(candidates)} policies compared" if math.isinf(target.limit) else "within the budget"
    if best.variance > (1 + _NOTICEABLE) * min(candidate.variance for candidate in affordable):
        return best, f"none {among} is clearly more accurate"
    return best, f"the most accurate {among}"


def beyond_noise(variance: float, error: float, floor: float | None) -> float:
    """The variance, or 1 if it is below that of maximum likelihood by less than ``floor`` standard errors.

    The noise of the pilot's samples has made it so then. None: there is no maximum likelihood.
    """
    if floor is None or (math.isfinite(floor) and variance * (1 + floor * error) < 1.0):
        return variance
    return max(variance, 1.0)


def _most_accurate(candidates: Sequence[Candidate]) -> Candidate:
    """The most accurate; of those within half a percent, or what the pilot's sample can tell apart, the simplest.

    Fewer terms come first, then the cheaper. A second stage must be clearly cheaper than what is as accurate without it.
    What costs more and is less accurate than another one with as many terms is passed over.
    """
    leading = min(candidates, key=lambda candidate: candidate.variance)
    close = [
        rival
        for rival in candidates
        if rival.variance <= leading.variance * (1 + min(max(ENOUGH, 2 * max(rival.error, leading.error)), _AT_MOST))
    ]
    close = [rival for rival in close if not any(_dominates(other, rival) for other in close)]
    return min(close, key=lambda rival: (rival.n_terms, rival.cost * (_SECOND_STAGE if rival.second_stage else 1)))


def _dominates(other: Candidate, rival: Candidate) -> bool:
    """Whether another policy costs less and is more accurate, beyond the noise of the pilot's samples, and as simple."""
    apart = max(_NOTICEABLE, 2 * max(other.error, rival.error))
    better = other.variance * (1 + apart) < rival.variance
    return better and other.cost <= rival.cost and other.n_terms <= rival.n_terms


def _cheapest(candidates: Sequence[Candidate]) -> Candidate:
    """The most accurate of those that cost at most a tenth more than the cheapest.

    Costs are not known better than that, and fixed costs make small parts of the data nearly as expensive as larger ones.
    """
    least = min(candidate.cost for candidate in candidates)
    cheap = (candidate for candidate in candidates if candidate.cost <= 1.1 * least)
    return min(cheap, key=lambda candidate: candidate.variance)

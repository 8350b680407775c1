"""Which of the candidates answers the target."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fieldfit.planner.result import Candidate
from fieldfit.planner.target import NO_EFFICIENCY, Target
from fieldfit.types import FieldfitError

#: Variances closer than this (relative) are not worth a more complicated policy; where the pilot's sample cannot tell
#: them apart up to the second number. A larger error is no reason to take the cheaper one: it may as well be worse.
ENOUGH, _AT_MOST = 0.005, 0.02


def choose(candidates: Sequence[Candidate], target: Target, reference: str) -> tuple[Candidate, str]:
    """The recommendation and why."""
    usable = [own for own in candidates if math.isfinite(own.variance)]
    if not usable:
        raise FieldfitError("None of the policies determines the parameters. Add PL1, which covers all variables.")
    if target.efficiency is not None:
        if reference != "FL":
            raise FieldfitError(NO_EFFICIENCY)
        good = [own for own in usable if own.variance <= target.efficiency * (1 + 1e-9)]
        if not good:
            best = min(usable, key=lambda own: own.variance)
            return best, f"nothing reaches {target.efficiency:g} times the variance of maximum likelihood"
        return _cheapest(good), "the cheapest that is accurate enough"
    affordable = [own for own in usable if own.affordable]
    if not affordable:
        near = [own for own in usable if own.cost <= 0.1 * target.limit]
        if near:
            best = min(near, key=lambda own: own.variance)
            return best, "the pilot has used up the budget, and this takes less than a tenth of it more"
        if min(own.cost for own in usable) <= target.limit:
            return _cheapest(usable), "the pilot has left too little of the budget: the most accurate of the cheapest"
        return _cheapest(usable), "the budget is too small for any of them: the most accurate of the cheapest"
    leading = min(affordable, key=lambda own: own.variance)
    least = leading.variance
    # Within half a percent of the best, or what the pilot's sample can tell apart: fewer terms first, then the cheaper.
    close = [
        own
        for own in affordable
        if own.variance <= least * (1 + min(max(ENOUGH, 2 * max(own.error, leading.error)), _AT_MOST))
    ]
    why = "the most accurate that the budget allows"
    if math.isinf(target.limit):
        why = "the most accurate of those that were looked at"
    return min(close, key=lambda own: (own.policy.count("+"), own.cost)), why


def _cheapest(candidates: Sequence[Candidate]) -> Candidate:
    """The most accurate of those that cost at most a tenth more than the cheapest.

    That is hardly dearer: costs are not known better, and fixed costs make small parts of the data nearly as dear as larger
    ones.
    """
    least = min(own.cost for own in candidates)
    return min((own for own in candidates if own.cost <= 1.1 * least), key=lambda own: own.variance)

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
        return min(good, key=lambda own: own.cost), "the cheapest that is accurate enough"
    affordable = [own for own in usable if own.affordable]
    if not affordable:
        near = [own for own in usable if own.cost <= 0.1 * target.limit]
        if near:
            best = min(near, key=lambda own: own.variance)
            return best, "the pilot has used up the budget, and this takes less than a tenth of it more"
        # A tenth more is hardly dearer: fixed costs make small parts of the data nearly as dear as larger ones.
        least_cost = min(own.cost for own in usable)
        cheap = [own for own in usable if own.cost <= 1.1 * least_cost]
        best = min(cheap, key=lambda own: own.variance)
        return best, "the budget is too small for any of them: the most accurate of the cheapest"
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

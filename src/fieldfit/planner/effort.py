"""How much a plan looks before it recommends: with a budget, about a fifth of it at most.

    pilot      fits of PL1 to `rows` samples (and to a quarter of them, for sequences)
    moments    Hessian products of each family on `moment_rows` samples: `probes` directions × `cg_steps` where there are
               many parameters, one for each parameter where there are few

Both are predicted before they are begun, from two short timings of PL1 or from its FLOPs, and made smaller until they fit.
A budget in seconds that is too small for the smallest of them is refused: nothing is known then that a recommendation
could rest on.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldfit.models.base import Model
from fieldfit.models.work import Line
from fieldfit.planner.weighting import n_samples
from fieldfit.policies import Policy
from fieldfit.types import FieldfitError

#: Shares of a budget: for the pilot, for the moments, and for both with all that is timed beside them.
PILOT, MOMENTS, SURVEY = 0.06, 0.08, 0.2
#: Seconds for the families beside the first where the budget is not in seconds.
UNHURRIED = 10.0
#: Parameters up to which the moments are matrices; from the second number on half the directions and steps must do.
MOST_DENSE, VERY_MANY = 120, 20_000
#: Seconds of a plan that no effort saves.
_FIXED = 0.02
#: Evaluations that a fit of PL1 is expected to take with few parameters (Newton's method) and with many; families that
#: moments are taken of, in units of PL1.
_FEW_EVALUATIONS, _EVALUATIONS, _FAMILIES = 30, 100, 6.0
#: Fewest samples of a pilot and of moments, and fewest steps of a solve; steps that one usually takes.
_FEWEST, _FEWEST_STEPS, _USUAL_STEPS = 40, 20, 50


@dataclass(frozen=True)
class Effort:
    """Samples and directions of a survey."""

    rows: int
    moment_rows: int
    probes: int
    cg_steps: int


def usual_effort(r: int) -> Effort:
    """What is enough for a percent or two where time does not matter: few samples where an evaluation is dear."""
    many = r >= VERY_MANY
    rows = 400 if many else 1000 if r > 1_500 else 2000
    return Effort(rows, 1000 if r <= 1_500 else 500, 3 if many else 6, 40 if many else 120)


def affordable_effort(r: int, total: int, budget: float, speed: Line, directions: int | None) -> Effort:
    """The most that a budget allows; ``speed`` is the cost of an evaluation of PL1 in its unit, by the number of samples.

    ``directions`` is the number of functionals that were named: they are the directions then.
    """
    best = usual_effort(r)
    rows = _largest(
        min(best.rows, total),
        lambda n: pilot_evaluations(r) * (speed.at(n) + 0.6 * speed.at(n / 4)) <= PILOT * budget,
    )
    for part in (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1):
        moment_rows = max(_FEWEST, round(best.moment_rows * part))
        probes = best.probes if part > 0.6 else max(2, best.probes // 2)
        # A solve that is cut short makes PL1 look worse than it is; fewer samples only make it less sure.
        steps = best.cg_steps if part > 0.6 else max(_FEWEST_STEPS, 2 * best.cg_steps // 3)
        needed = _FAMILIES * moment_passes(r, directions or probes, steps) * speed.at(moment_rows)
        if needed <= MOMENTS * budget:
            return Effort(rows, moment_rows, probes, steps)
    return Effort(rows, _FEWEST, 1, _FEWEST_STEPS)


def pilot_evaluations(r: int) -> int:
    """Evaluations that a fit of PL1 is expected to take."""
    return _FEW_EVALUATIONS if r <= MOST_DENSE else _EVALUATIONS


def moment_passes(r: int, probes: int, cg_steps: int) -> float:
    """About how many evaluations on their samples the moments of one family take."""
    if r <= MOST_DENSE:
        return r + 5.0
    # A Hessian product is two evaluations, and most solves end before their last step; then a Hessian product and the
    # scores' product for each of the solutions of all families.
    return probes * (1.4 * min(cg_steps, _USUAL_STEPS) + 12)


def refuse_if_too_small(effort: Effort, r: int, seconds: float, speed: Line, gone: float) -> None:
    """FieldfitError where a plan with the smallest effort would take more than a quarter of the budget."""
    pilot = pilot_evaluations(r) * speed.at(effort.rows)
    moments = moment_passes(r, effort.probes, effort.cg_steps) * speed.at(effort.moment_rows)
    least = gone + _FIXED + pilot + moments
    if least > 0.3 * seconds:
        raise FieldfitError(
            f"The budget of {seconds:.3g} s is too small for a plan: looking would take at least {least:.2g} s of it. Fit "
            "PL1 at once; or plan without a budget and ask plan.within(…) what the fit alone can buy; or give "
            f"{4 * least:.2g} s or more."
        )


def evaluation_speed(model: Model, rows: Any) -> Line:
    """Seconds of an evaluation of PL1 by the number of samples, from two short runs on the wall's clock."""
    sizes = sorted({min(n_samples(rows), 40), min(n_samples(rows), 160)})
    theta = np.zeros(model.n_parameters)
    found = []
    for size in sizes:
        some = rows.subset(np.arange(size))
        problem = model.compile(some, Policy.parse("PL1").bind(model.structure(some)).draw(0, 0, size))
        problem.value_grad(theta)
        times: list[float] = []
        while len(times) < 2 or (len(times) < 5 and sum(times) < 0.01):
            began = time.perf_counter()
            problem.value_grad(theta)
            times.append(time.perf_counter() - began)
        found.append(min(times))
    if len(sizes) == 1:
        return Line(0.0, found[0] / max(sizes[0], 1))
    return Line.through(sizes[1], found[1], sizes[0], found[0])


def _largest(most: int, fits: Any) -> int:
    """The largest of ``most``, 0.8·``most``, … that fits, or the fewest."""
    n = most
    while n > _FEWEST and not fits(n):
        n = max(math.floor(0.8 * n), _FEWEST)
    return min(n, most)

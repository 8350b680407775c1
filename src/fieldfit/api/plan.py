"""`plan`: which policy buys the most accuracy for a budget, before the money is spent."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.objective import precision_of
from fieldfit.planner.planning import Target, make_plan
from fieldfit.planner.result import Plan
from fieldfit.policies import Policy
from fieldfit.types import FieldfitError

_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def plan(
    model: Model,
    data: Any,
    budget: str | float | None = None,
    *,
    flops: float | None = None,
    efficiency: float | None = None,
    policies: Sequence[Policy | str] | None = None,
    functionals: Sequence[str] | None = None,
    sigma2: Any = None,
    random_state: int = 0,
) -> Plan:
    """Compare what policies cost and how accurate they would be, and recommend one.

    Parameters
    ----------
    model, data : as for `fit`
    budget : time for everything, the pilot included: ``"10s"``, ``"500ms"``, ``"2min"`` or a number of seconds
    flops : the same in the paper's FLOPs
    efficiency : instead of a budget, the variance relative to maximum likelihood that is good enough, such as 1.1
    policies : the policies to compare; None is pure, mixed and partition policies, parts of the data, and the joint
        optimum over (λ, β)
    functionals : names of parameters whose variance counts; None is all of them together
    sigma2 : the penalty of the fit to come, for the pilot; it is not a part of the variance
    random_state : the seed of the pilot's sample

    Give one of ``budget``, ``flops`` and ``efficiency``; with none of them the most accurate policy is recommended.
    """
    given = [value for value in (budget, flops, efficiency) if value is not None]
    if len(given) > 1:
        raise FieldfitError("Give one of budget, flops and efficiency, not several: each of them decides alone.")
    target = Target(
        None if budget is None else parse_seconds(budget),
        None if flops is None else _positive(flops, "flops"),
        None if efficiency is None else _positive(efficiency, "efficiency"),
    )
    if efficiency is not None and efficiency < 1:
        raise FieldfitError(f"efficiency is {efficiency:g}; nothing is better than maximum likelihood, which has 1.")
    began = time.perf_counter()
    dataset = model.read(data)
    reading = time.perf_counter() - began
    if isinstance(model, FieldModel) and not model.named:
        model = model.with_names(dataset.names)
    precision = None if sigma2 is None else precision_of(sigma2, model.parameter_names)
    return make_plan(
        model,
        dataset,
        target,
        policies=policies,
        functionals=functionals,
        precision=precision,
        random_state=random_state,
        reading=reading,
    )


def parse_seconds(text: str | float) -> float:
    """``10s``, ``500ms``, ``2min``, ``1h`` or a number of seconds."""
    if not isinstance(text, str):
        return _positive(text, "budget")
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?\d+)?)\s*([a-z]*)\s*", text)
    if match is None or (match[2] or "s") not in _UNITS:
        raise FieldfitError(f"budget is {text!r}; write a time such as 10s, 500ms, 2min or 1h.")
    return _positive(float(match[1]) * _UNITS[match[2] or "s"], "budget")


def _positive(value: float, name: str) -> float:
    number = float(value)
    if not 0 < number < float("inf"):
        raise FieldfitError(f"{name} is {value!r}; it must be a positive number.")
    return number

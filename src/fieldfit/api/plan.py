"""`plan`: which policy buys the most accuracy for a budget, before the money is spent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.objective import precision_of
from fieldfit.planner.planning import make_plan
from fieldfit.planner.result import Plan
from fieldfit.planner.target import Target
from fieldfit.policies import Policy


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
    target = Target.of(budget, flops, efficiency)
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

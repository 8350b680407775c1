"""`plan`: which policy is the most accurate for a budget, before the fit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldfit.api.contrasts import NamedFunctionals
from fieldfit.api.prepare import refuse_constant
from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.models.work import clock
from fieldfit.objective import precision_of
from fieldfit.planner.planning import check_enough, make_plan
from fieldfit.planner.request import Request, Target
from fieldfit.planner.result import Plan
from fieldfit.policies import Policy, as_policy


def plan(
    model: Model,
    data: Any,
    budget: str | float | None = None,
    *,
    flops: float | None = None,
    efficiency: float | None = None,
    policies: Sequence[Policy | str] | Policy | str | None = None,
    functionals: Any = None,
    sigma2: Any = None,
    sample_weight: Any = None,
    weight_kind: str = "importance",
    tol: float = 1e-6,
    random_state: int = 0,
    reading: float = 0.0,
) -> Plan:
    """Compare what policies cost and how accurate they would be, and recommend one.

    Parameters
    ----------
    model, data : as for `fit`
    budget : time for everything, the pilot included: ``"10s"``, ``"500ms"``, ``"2min"``, or a number of seconds (``10``
        and ``"10"`` are ten seconds)
    flops : the same in the paper's FLOPs
    efficiency : instead of a budget, the variance relative to maximum likelihood that is good enough, such as 1.1
    policies : the policies to compare; None is pure, mixed and partition policies, parts of the data, and the joint
        optimum over (λ, β)
    functionals : whose variance counts: a list of names of parameters, contrasts (``"a - b"``, ``"2*a + b"``), mappings
        {parameter: coefficient}, vectors of coefficients or functions of θ (their gradient is that at the pilot's θ̂); a
        mapping from names to any of these; None is all parameters together
    sigma2 : the penalty of the fit to come; policies are then compared by their squared error under its prior N(0, σ²)
    sample_weight, weight_kind : a weight for each sample, as in `fit`
    tol : the tolerance of the fit to come
    random_state : the seed of the pilot's sample
    reading : seconds that reading the data took before this call, if it did: every fit pays them, and this budget did

    Give one of ``budget``, ``flops`` and ``efficiency``; with none of them the most accurate policy is recommended.
    """
    target = Target.of(budget, flops, efficiency)
    started, began = time.perf_counter(), clock()
    dataset = model.read(data, sample_weight=sample_weight, weight_kind=weight_kind)
    model = model.complete(dataset)
    seconds = clock() - began
    names = model.parameter_names
    chosen = None if functionals is None else NamedFunctionals(functionals, names)
    precision = None if sigma2 is None else precision_of(sigma2, names)
    check_enough(dataset.n_copies)
    if isinstance(model, FieldModel) and (precision is None or not np.all(precision > 0)):
        free = np.ones(len(names), dtype=bool) if precision is None else precision == 0
        refuse_constant(model, dataset, free)
    compared = [policies] if isinstance(policies, str | Policy) else policies
    return make_plan(
        Request(
            model=model,
            dataset=dataset,
            target=target,
            policies=None if compared is None else tuple(as_policy(policy) for policy in compared),
            functionals=chosen,
            n_functionals=None if chosen is None else len(chosen),
            precision=precision,
            tol=tol,
            random_state=random_state,
            reading=reading + seconds,
            began=started - reading,
        )
    )

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
    """Compare the cost and the accuracy of policies, and recommend one.

    Give one of ``budget``, ``flops`` and ``efficiency``. With none of them the most accurate policy is recommended.

    Parameters
    ----------
    model : Model
        The model of the fit to come.
    data : object
        The samples, as for `fit`.
    budget : str or float, optional
        Time for everything, including the pilot: ``"10s"``, ``"500ms"``, ``"2min"``, or a number of seconds.
    flops : float, optional
        The same in the paper's FLOPs.
    efficiency : float, optional
        The largest variance relative to maximum likelihood that is accurate enough, such as 1.1.
    policies : str, Policy or sequence of these, optional
        The policies to compare, with any law of Z. Default: pure, mixed and partition policies, parts of the data, and
        the joint optimum over (λ, β).
    functionals : object, optional
        The functions of θ whose variance counts: a list of parameter names, contrasts (``"a - b"``, ``"2*a + b"``),
        mappings {parameter: coefficient}, vectors of coefficients or functions of θ (with their gradient at the pilot's
        θ̂), or a mapping from names to any of these. Default: all parameters together.
    sigma2 : float or mapping, optional
        The penalty of the fit to come. Policies are then compared by their squared error under its prior N(0, σ²).
    sample_weight : array_like of shape (n,), optional
        A weight for each sample, as in `fit`.
    weight_kind : {"importance", "counts"}, default: "importance"
        What the weights are.
    tol : float, default: 1e-6
        The tolerance of the fit to come.
    random_state : int, default: 0
        The seed of the pilot's sample.
    reading : float, default: 0.0
        Seconds that reading the data took before this call. They count for this budget and for every fit.

    Returns
    -------
    Plan
        The compared policies and the recommendation, ``plan.best``.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(4)
    >>> x = model.sample([1.0, -0.5, 0.3, 0.8, -1.0, 0.2], 1000, random_state=0).values
    >>> ff.plan(model, x, policies=["PL1", "0.5*PL1", "FL"]).best
    'FL'
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

"""Do the samples of a plan separate? Then fits have their optimum at infinity, and second stages are refused.

A pilot with all of the samples is judged as a fit is. The samples of a smaller pilot may separate where all of them do not:
then only joint states count that never occur in all of the samples.
"""

from __future__ import annotations

from functools import partial
from itertools import compress

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.models.problem import Problem
from fieldfit.models.work import least_seconds
from fieldfit.objective import Objective
from fieldfit.planner.request import Request
from fieldfit.types import FloatArray
from fieldfit.variance.separation import concerned_by, separated_parameters


def separated_samples(
    request: Request, rows: Dataset, problem: Problem, theta: FloatArray, *, dense: bool, seconds: float
) -> tuple[str, ...]:
    """The unpenalised parameters whose optimum lies at infinity for all samples.

    ``problem`` is PL1 on the pilot's samples ``rows`` with the estimate ``theta``. Curvatures are computed where its
    Hessian is cheap (``dense``), and all samples are searched where that takes at most ``seconds``.
    """
    model, dataset = request.model, request.dataset
    r, names = model.n_parameters, model.parameter_names
    precision = np.zeros(r) if request.precision is None else request.precision
    open_ = precision == 0
    if not open_.any():
        return ()
    seen, complete = set[str](), rows.n == dataset.n_copies
    if complete and dense:
        free = np.ones(r, dtype=bool)
        objective = Objective(problem, precision, np.zeros(r), free, rows.sample_weight, model.feature_units)
        seen.update(
            separated_parameters(
                objective.hessian_product, free, theta, ~open_, names, model.feature_units, model.determined_contrasts
            )
        )
    search = partial(model.boundary_directions, rows)
    concerned = concerned_by(search(), open_, open_)
    if concerned.any() and not complete:
        if least_seconds(search, 1) * dataset.n / rows.n > seconds:
            return ()
        concerned = concerned_by(model.boundary_directions(dataset), open_, open_)
    seen.update(compress(names, concerned))
    return tuple(name for name in names if name in seen) if seen else ()

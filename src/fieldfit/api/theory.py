"""`asymptotics`: how accurate a policy is at a given θ, before any data are seen."""

from __future__ import annotations

import math

import numpy as np

from fieldfit.asymptotics import Asymptotics, sandwich, theory_moments
from fieldfit.asymptotics.sandwich import efficiency, hessian_matrix, pseudo_inverse
from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy, as_policy
from fieldfit.policies.families import Full
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import FloatArray, Int32Array, ModelError, WidthError

#: Joint states up to which expectations over X are exact sums.
MOST_STATES = 1 << 16
SIMULATED = 20_000
_BATCHES = 10


def asymptotics(
    model: FieldModel,
    theta: object,
    policy: Policy | str,
    *,
    formula: str = "exact",
    method: str = "auto",
    n_simulated: int = SIMULATED,
    random_state: int = 0,
) -> Asymptotics:
    """Bread, meat and covariance of √n(θ̂ − θ) for ``policy`` when the data come from the model at ``theta``.

    ``formula="exact"`` has the second moments E[ZZᵀ] of the selection (Corollary 1); ``"published"`` is Proposition 2 as
    printed, which leaves the selection noise out. Expectations over X are sums over all states where there are
    at most 65,536 of them (``method="enumeration"``), else means over ``n_simulated`` exact draws (``"simulation"``),
    with their Monte Carlo error.
    """
    if not isinstance(model, FieldModel) or model.observed:
        raise ModelError("asymptotics needs a model of all its variables; a conditional model needs observed data.")
    vector = model.check_theta(theta)
    bound = as_policy(policy).bind(model.structure())
    states = math.prod(model.graph.cardinalities)
    if method not in ("auto", "enumeration", "simulation"):
        raise ModelError(f"method is {method!r}; it must be 'auto', 'enumeration' or 'simulation'.")
    if method == "enumeration" and states > MOST_STATES:
        raise ModelError(f"The model has {states:.3g} joint states; enumeration stops at {MOST_STATES:,}.")
    reference, why = _mle_covariance(model, vector)

    def moments(codes: Int32Array, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        table = Table(codes, model.names, model.states)
        found = theory_moments(bound, lambda chosen: model.compile(table, chosen), vector, weight, formula)
        return found.bread, found.meat

    if method == "enumeration" or (method == "auto" and states <= MOST_STATES):
        codes, probability = _all_states(model, vector)
        bread, meat = moments(codes, probability)
        covariance = sandwich(bread, meat)
        return Asymptotics(bread, meat, covariance, reference, formula, f"enumeration of {states} states", None, why)

    draws = model.sample(vector, n_simulated, random_state)
    size = n_simulated // _BATCHES
    batches = [draws.codes[b * size : (b + 1) * size] for b in range(_BATCHES)]
    parts = [moments(np.ascontiguousarray(codes), np.full(size, 1.0 / size)) for codes in batches]
    bread = np.mean([part[0] for part in parts], axis=0)
    meat = np.mean([part[1] for part in parts], axis=0)
    covariance = sandwich(bread, meat)
    error = None
    if reference is not None:
        error = {kind: _jackknife_error(parts, reference, kind) for kind in ("det", "root", "trace")}
    return Asymptotics(
        bread, meat, covariance, reference, formula, f"{size * _BATCHES} draws ({draws.method})", error, why
    )


def _jackknife_error(parts: list[tuple[FloatArray, FloatArray]], reference: FloatArray, kind: str) -> float:
    """Standard error of the efficiency from leaving out one batch of draws at a time."""
    breads, meats = sum(p[0] for p in parts), sum(p[1] for p in parts)
    count = len(parts)
    values = [
        efficiency(sandwich((breads - bread) / (count - 1), (meats - meat) / (count - 1)), reference, kind)
        for bread, meat in parts
    ]
    return float(np.sqrt((count - 1) * np.var(values)))


def _all_states(model: FieldModel, theta: FloatArray) -> tuple[Int32Array, FloatArray]:
    """Every joint state and its probability."""
    shape = model.graph.cardinalities
    codes = np.ascontiguousarray(np.indices(shape, dtype=np.int32).reshape(len(shape), -1).T)
    logs = model.log_tables(theta)[model.graph.entries(codes)].sum(axis=1)
    weights = np.exp(logs - logs.max())
    return codes, weights / weights.sum()


def _mle_covariance(model: FieldModel, theta: FloatArray) -> tuple[FloatArray | None, str]:
    """I(θ)⁻¹ by elimination: the Hessian of log Z, which needs no samples."""
    family = model.structure().bind_family(Full())
    anything = Table(np.zeros((1, model.m), dtype=np.int32), model.names, model.states)
    try:
        problem = model.compile(anything, Selection(1, (FamilySelection(family, 1.0),)))
    except WidthError as error:
        return None, str(error)
    inverse, _ = pseudo_inverse(-hessian_matrix(problem, theta))
    return inverse, ""

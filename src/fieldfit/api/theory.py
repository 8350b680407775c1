"""`asymptotics`: how accurate a policy is at a given θ, before any data are seen."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fieldfit.asymptotics import Asymptotics, sandwich, theory_moments
from fieldfit.asymptotics.sandwich import efficiency, hessian_matrix, pseudo_inverse
from fieldfit.data.samples import Table
from fieldfit.models.base import Problem
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
    full, why = _full_likelihood(model)

    def moments(codes: Int32Array, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        table = Table(codes, model.names, model.states)
        found = theory_moments(bound, lambda chosen: model.compile(table, chosen), vector, weight, formula)
        return found.bread, found.meat

    if method == "enumeration" or (method == "auto" and states <= MOST_STATES):
        codes, probability = model.joint_probabilities(vector)
        bread, meat = moments(codes, probability)
        covariance = sandwich(bread, meat)
        # The Hessian of log Z needs no samples.
        one = None if full is None else full(np.zeros((1, model.m), dtype=np.int32))
        reference = None if one is None else pseudo_inverse(-hessian_matrix(one, vector))[0]
        return Asymptotics(bread, meat, covariance, reference, formula, f"enumeration of {states} states", None, why)

    draws = model.sample(vector, n_simulated, random_state)
    size = n_simulated // _BATCHES
    if size < 1:
        raise ModelError(f"n_simulated is {n_simulated}; it must be at least {_BATCHES}.")
    batches = [np.ascontiguousarray(draws.codes[b * size : (b + 1) * size]) for b in range(_BATCHES)]
    parts = [moments(codes, np.full(size, 1.0 / size)) for codes in batches]
    # The MLE's information from the same draws: what is rare in them is then rare on both sides of the ratio.
    information = None if full is None else [_score_moments(full(codes), vector) for codes in batches]
    everything = np.ones(_BATCHES)
    bread, meat, reference = _mean_moments(parts, information, everything)
    covariance = sandwich(bread, meat)
    error = None
    if reference is not None:
        leave_one_out = [_mean_moments(parts, information, everything - unit) for unit in np.eye(_BATCHES)]
        error = {kind: _jackknife_error(leave_one_out, kind) for kind in ("det", "root", "trace")}
        hidden = np.linalg.matrix_rank(model.interactions[0].toarray()) - np.linalg.matrix_rank(bread, hermitian=True)
        if hidden > 0:
            reference = None
            why = (
                f"the {size * _BATCHES} draws do not show {hidden} directions of θ at all (states that are too rare). "
                f"Simulate more (n_simulated), or leave those parameters out of the model."
            )
    return Asymptotics(
        bread, meat, covariance, reference, formula, f"{size * _BATCHES} draws ({draws.method})", error, why
    )


Moments = tuple[FloatArray, FloatArray]


def _mean_moments(
    parts: list[Moments], information: list[FloatArray] | None, weight: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Bread, meat and the MLE's covariance, as weighted means over batches of draws."""
    share = weight / weight.sum()
    bread = np.einsum("b,brs->rs", share, np.array([part[0] for part in parts]))
    meat = np.einsum("b,brs->rs", share, np.array([part[1] for part in parts]))
    if information is None:
        return bread, meat, None
    return bread, meat, pseudo_inverse(np.einsum("b,brs->rs", share, np.array(information)))[0]


def _jackknife_error(parts: list[tuple[FloatArray, FloatArray, FloatArray | None]], kind: str) -> float:
    """Standard error of the efficiency from leaving out one batch of draws at a time."""
    values = [efficiency(sandwich(bread, meat), mle, kind) for bread, meat, mle in parts if mle is not None]
    return float(np.sqrt((len(values) - 1) * np.var(values)))


def _score_moments(problem: Problem, theta: FloatArray) -> FloatArray:
    """Mean of ψψᵀ over the samples of a problem."""
    total = np.zeros((len(theta), len(theta)))
    for _, block in problem.score_blocks(theta):
        total += block.T @ block
    return total / problem.n_samples


def _full_likelihood(model: FieldModel) -> tuple[Callable[[Int32Array], Problem] | None, str]:
    """The full likelihood as a problem for any samples, or None and why not (it is too wide)."""
    selected = FamilySelection(model.structure().bind_family(Full()), 1.0)

    def compiled(codes: Int32Array) -> Problem:
        return model.compile(Table(codes, model.names, model.states), Selection(len(codes), (selected,)))

    try:
        compiled(np.zeros((1, model.m), dtype=np.int32))
    except WidthError as error:
        return None, str(error)
    return compiled, ""

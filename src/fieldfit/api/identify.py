"""Does a policy determine the parameters? (Definition 3)

For components with B = Aᶜ the answer is algebra: such a component sees exactly those interactions of the model that
involve a variable of A. Components that sum variables out are looked at numerically: the expected information at a
generic θ has no null space beyond the model's own gauge freedom (the directions of θ that change no probability).
"""

from __future__ import annotations

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.policies.field_families import SubsetsFamily
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import BoolArray, FloatArray, IdentifiabilityError

#: Parameters up to which null spaces are computed.
_MOST_PARAMETERS = 3_000
_MOST_COMPONENTS = 20_000


def check_identified(
    model: FieldModel,
    policy: BoundPolicy,
    fixed: BoolArray,
    remedy: str = "fix those parameters, or give a penalty (sigma2)",
) -> None:
    """Raise IdentifiabilityError with the parameters' names where the policy leaves some of them open.

    ``fixed`` (r,) marks parameters that are not estimated; ``remedy`` is what else than another policy would help.
    """
    seen: set[int] = set()
    everything = set(range(model.m)) - set(model.observed)
    summed_out = False
    for family, lam in zip(policy.families, policy.lams(), strict=True):
        if isinstance(family, SubsetsFamily) and np.min(lam) > 0:
            return  # all blocks of k variables cover every variable
        for index in range(min(family.size or 0, _MOST_COMPONENTS)):
            if np.broadcast_to(lam, family.size or 0)[index] <= 0:
                continue
            component = family.component(index)
            if len(component.target) + len(component.given) == model.m:
                seen.update(component.target)
            else:
                summed_out = True
    if seen >= everything or model.n_parameters > _MOST_PARAMETERS:
        return
    matrix, variables = model.interactions
    dense = matrix.toarray()[:, ~fixed]
    gauge = _null_space(dense)
    touched = np.array([bool(seen.intersection(v)) for v in variables])
    open_directions = _null_space(dense[touched]) if touched.any() else np.eye(dense.shape[1])
    if summed_out:
        open_directions = _numerically_open(model, policy, ~fixed)
    # What is open beyond the gauge: the part of each direction orthogonal to the gauge.
    extra = open_directions - gauge @ (gauge.T @ open_directions)
    concerned = np.flatnonzero(np.abs(extra).max(axis=1, initial=0.0) > 1e-6)
    if len(concerned):
        free = np.flatnonzero(~fixed)
        names = [model.parameter_names[free[place]] for place in concerned]
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        raise IdentifiabilityError(
            f"The policy '{policy.policy}' does not determine {len(names)} of {model.n_parameters} parameters: {shown}. "
            f"Add components that involve their variables (PL1 covers all of them), {remedy}."
        )


def _null_space(matrix: FloatArray) -> FloatArray:
    """Orthonormal basis (columns) of the null space."""
    if matrix.shape[0] == 0:
        return np.eye(matrix.shape[1])
    _, values, rows = np.linalg.svd(matrix, full_matrices=True)
    rank = int(np.sum(values > 1e-9 * max(values[0], 1e-300)))
    return rows[rank:].T


def _numerically_open(model: FieldModel, policy: BoundPolicy, free: BoolArray) -> FloatArray:
    """Null space of the expected information of the policy's components at a generic θ."""
    random = np.random.default_rng(0)
    theta = random.normal(scale=0.5, size=model.n_parameters)
    draws = model.sample(theta, 400, 1)
    table = Table(draws.codes, model.names, model.states)
    parts = []
    for family, lam in zip(policy.families, policy.lams(), strict=True):
        weight = 1.0 if isinstance(lam, float) else (np.asarray(lam) > 0).astype(float)
        parts.append(FamilySelection(family, weight))
    problem = model.compile(table, Selection(len(draws.codes), tuple(parts)))
    # With sums over hidden variables the Hessian has no sign, but E ψψᵀ has the information's null space.
    information = np.zeros((model.n_parameters, model.n_parameters))
    for _, block in problem.score_blocks(theta):
        information += block.T @ block
    return _null_space(information[np.ix_(free, free)])

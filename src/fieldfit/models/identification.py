"""Do the samples and the policy determine the parameters? (Definition 3)

For components with B = Aᶜ the answer is algebraic: such a component depends exactly on the interactions that involve
a variable of A. Components that sum variables out are checked numerically: the expected information at a generic θ
has no null space beyond the model's own gauge freedom (the directions of θ that change no probability).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table, as_table, constant_columns
from fieldfit.policies.field_families import FieldFamily, SubsetsFamily
from fieldfit.policies.policy import BoundPolicy, Policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import BoolArray, DataError, FloatArray, IdentifiabilityError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.inference import FactorGraph
    from fieldfit.models.field import FieldModel

#: Most parameters for which null spaces are computed.
_MOST_CHECKED_PARAMETERS = 3_000
_MOST_CHECKED_COMPONENTS = 20_000
#: Most parameters of an over-complete model that is checked by its interactions.
_MOST_CONTRASTED_PARAMETERS = 500


def check_estimable(model: FieldModel, dataset: Dataset, bound: BoundPolicy, estimated: BoolArray) -> None:
    """Raise an error if unpenalised parameters (``estimated``) have no finite, unique estimate."""
    if estimated.any():
        refuse_constant(model, dataset, estimated)
        check_identified(model, bound, ~estimated)


def refuse_constant(model: FieldModel, dataset: Dataset, unpenalised: BoolArray) -> None:
    """Raise DataError if a constant column belongs to a factor with an unpenalised parameter of that factor alone.

    Parameters that factors share are estimated from all of them: in one image, which is one sample, all columns are
    constant.
    """
    table = as_table(dataset)
    constant = constant_columns(table)
    if not constant:
        return
    named = set(constant)
    still = np.array([name in named for name in table.names])
    scopes = model.graph.scope_matrix
    touching = np.any(np.where(scopes >= 0, still[scopes], False), axis=1)
    factor_of = np.repeat(np.arange(len(touching)), model.graph.table_sizes)
    columns = model.features.tocsc()
    columns.sort_indices()
    # Sorted entries of a column: it belongs to one factor where the first and the last entry do. An empty column has none.
    filled = np.diff(columns.indptr) > 0
    ends = factor_of[columns.indices[np.where(filled, columns.indptr[:-1], 0)]]
    alone = ends == factor_of[columns.indices[columns.indptr[1:] - 1]]
    if np.any(unpenalised & (~filled | (alone & touching[ends]))):
        shown = ", ".join(map(str, constant[:10])) + (", …" if len(constant) > 10 else "")
        raise DataError(
            f"{len(constant)} column{'s' if len(constant) > 1 else ''} never change{'' if len(constant) > 1 else 's'}: "
            f"{shown}. Without a penalty the parameters there have no finite estimate: leave constant columns out or "
            "give sigma2."
        )


def check_identified(
    model: FieldModel,
    policy: BoundPolicy,
    fixed: BoolArray,
    remedy: str = "fix those parameters, or give a penalty (sigma2)",
) -> None:
    """Raise IdentifiabilityError with the names of the parameters that the policy does not determine, up to gauge
    freedom.

    Only components with λβ > 0 count: a component that is never selected, or has weight 0, determines nothing.

    ``fixed`` (r,) marks parameters that are not estimated; ``remedy`` says what helps apart from another policy.
    """
    directions = open_directions(model, policy, fixed)
    if directions is None:
        return
    concerned = np.flatnonzero(~fixed)[beyond(directions, null_space(interactions(model)[:, ~fixed]))]
    if len(concerned):
        names = [model.parameter_names[place] for place in concerned.tolist()]
        raise IdentifiabilityError(
            f"The policy '{policy.policy}' does not determine {len(names)} of {model.n_parameters} parameters: "
            f"{listed(names)}. Add components that involve their variables (PL1 covers all of them), {remedy}."
        )


def with_open_weights(policy: Policy, by: str) -> Policy:
    """The policy with every weight positive that automatic weights may change (``by`` term or component).

    Weights inside a term stay in proportion, so a list keeps its zeros unless each component has a weight.
    """
    return policy.with_betas(
        [beta if by == "term" and isinstance(beta, tuple) and max(beta) > 0 else 1.0 for beta in policy.betas]
    )


def interactions(model: FieldModel) -> FloatArray:
    """The model's interactions as a linear map of θ in units of the features (interactions, r)."""
    matrix: FloatArray = model.interactions[0].toarray()
    return matrix if model.feature_units is None else matrix / model.feature_units


def determined_contrasts(model: FieldModel) -> FloatArray | None:
    """The interactions of an over-complete model as a map of θ (interactions, r); None where θ itself is determined."""
    # Few parameters are shared by many factors; only single factors are over-complete.
    if model.n_parameters > _MOST_CONTRASTED_PARAMETERS or model.n_parameters < len(model.graph.scopes):
        return None
    matrix = interactions(model)
    return matrix if null_space(matrix).shape[1] else None


def beyond(directions: FloatArray, gauge: FloatArray) -> BoolArray:
    """Which parameters have a part in the directions (r, k) that is orthogonal to the gauge (r, g)."""
    extra = directions - gauge @ (gauge.T @ directions)
    concerned: BoolArray = np.abs(extra).max(axis=1, initial=0.0) > 1e-6
    return concerned


def open_directions(model: FieldModel, policy: BoundPolicy, fixed: BoolArray) -> FloatArray | None:
    """Orthonormal basis (free parameters, k) of what the policy does not determine; None if that is the gauge only.

    Directions are those of θ in units of the features.
    """
    seen: set[int] = set()
    everything = set(range(model.m)) - set(model.observed)
    summed_out = False
    for family, weight in zip(policy.families, _weights(policy), strict=True):
        if isinstance(family, SubsetsFamily) and np.min(weight) > 0:
            return None  # all blocks of k variables cover every variable
        counts = np.broadcast_to(np.asarray(weight) > 0, family.size or 0)
        if isinstance(family, FieldFamily) and family.conditions_on_rest:
            seen.update(family.blocks(np.flatnonzero(counts))[1].tolist())
            continue
        for index in np.flatnonzero(counts[:_MOST_CHECKED_COMPONENTS]):
            component = family.component(int(index))
            if len(component.target) + len(component.given) == model.m:
                seen.update(component.target)
            else:
                summed_out = True
    if seen >= everything or model.n_parameters > _MOST_CHECKED_PARAMETERS:
        return None
    if summed_out:
        return _numerically_open(model, policy, ~fixed)
    touched = np.array([bool(seen.intersection(v)) for v in model.interactions[1]], dtype=bool)
    return null_space(interactions(model)[touched][:, ~fixed])


def listed(names: Sequence[str]) -> str:
    """The first dozen names in a sentence."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _weights(policy: BoundPolicy) -> list[float | FloatArray]:
    """λβ of each family: one number, or one for each component."""
    return [lam * beta for lam, beta in zip(policy.lams(), policy.betas, strict=True)]


def null_space(matrix: FloatArray) -> FloatArray:
    """Orthonormal basis (columns) of the null space."""
    entries = matrix != 0
    if (entries.sum(axis=1) <= 1).all():
        # Each row has one nonzero column, as in a Boltzmann machine: columns without a nonzero entry are free.
        return np.ascontiguousarray(np.eye(matrix.shape[1])[:, ~entries.any(axis=0)])
    # With more rows than columns the small form has all of the right singular vectors.
    _, values, rows = np.linalg.svd(matrix, full_matrices=matrix.shape[0] < matrix.shape[1])
    rank = int(np.sum(values > 1e-9 * max(values[0], 1e-300)))
    return rows[rank:].T


def _numerically_open(model: FieldModel, policy: BoundPolicy, free: BoolArray) -> FloatArray:
    """Null space of the expected information of the policy's components at a generic θ."""
    random = np.random.default_rng(0)
    units = np.ones(model.n_parameters) if model.feature_units is None else model.feature_units
    theta = random.normal(scale=0.5, size=model.n_parameters) / units
    draws = model.sample(theta, 400, 1)
    table = Table(draws.codes, model.names, model.states)
    parts = []
    for family, weight in zip(policy.families, _weights(policy), strict=True):
        if np.max(weight) > 0:
            parts.append(FamilySelection(family, 1.0 if isinstance(weight, float) else (weight > 0).astype(float)))
    problem = model.compile(table, Selection(len(draws.codes), tuple(parts)))
    # With sums over hidden variables the Hessian is indefinite, but E ψψᵀ has the null space of the information.
    information = np.zeros((model.n_parameters, model.n_parameters))
    for _, block in problem.score_blocks(theta):
        scaled = block / units
        information += scaled.T @ scaled
    return null_space(information[np.ix_(free, free)])


def interaction_transform(graph: FactorGraph) -> tuple[csr_array, tuple[tuple[int, ...], ...]]:
    """Entries of the log tables ↦ interaction coefficients with state 0 as reference, and the variables of each."""
    from scipy.sparse import csr_array

    rows, columns, values = [], [], []
    keys: dict[tuple[tuple[int, int], ...], int] = {}
    for factor, scope in enumerate(graph.scopes):
        shape = [graph.cardinalities[v] for v in scope]
        for flat in range(int(np.prod(shape))):
            states = np.unravel_index(flat, shape)
            entry = int(graph.offsets[factor]) + flat
            # Möbius inversion: entry x contributes to every interaction y that agrees with x where x is not 0.
            free = [a for a, s in enumerate(states) if s == 0 and shape[a] > 1]
            for choice in np.ndindex(*[shape[a] for a in free]):
                full = list(map(int, states))
                for a, s in zip(free, choice, strict=True):
                    full[a] = s
                key = tuple((scope[a], s) for a, s in enumerate(full) if s)
                key = tuple(sorted(key))
                sign = (-1.0) ** sum(1 for s in choice if s)
                if key:
                    rows.append(keys.setdefault(key, len(keys)))
                    columns.append(entry)
                    values.append(sign)
    shape2 = (len(keys), graph.table_size)
    transform = csr_array((values, (rows, columns)), shape=shape2)
    variables = tuple(tuple(v for v, _ in key) for key in keys)
    return transform, variables

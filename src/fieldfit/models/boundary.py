"""Directions of θ along which the likelihood grows without bound, because some joint state never occurs in the samples.

If two variables are never 1 together, the likelihood grows without bound as the log-potential of that joint state falls.
Without a penalty the estimate is at infinity. With one it is finite, but the samples do not vary along the direction,
so there is no standard error. Which parameters are affected depends on the parametrisation: with states 0 and 1,
"both are 1" is the coupling alone, and "only the first is 1" is the coupling and a bias.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table, as_table
from fieldfit.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.models.field import FieldModel

#: Most table entries (rows × factors) in one lookup.
_MOST_TABLE_ENTRIES = 4_000_000
#: Samples in the first lookup; each further lookup takes four times as many.
_FIRST_ROWS = 256
#: Most parameters of an over-complete model for which joint states are expressed in its parameters.
_MOST_SOLVED_PARAMETERS = 600
#: Most numbers in the matrix of these directions.
_MOST_BOUNDARY_NUMBERS = 20_000_000
#: Most factors of a model with shared parameters for which its interactions are listed.
_MOST_SHARING = 20_000
#: Smaller entries of a direction, as a share of the largest one, are rounding.
_ROUNDING = 1e-9


def boundary_directions(model: FieldModel, dataset: Dataset) -> csr_array | None:
    """Directions (k, r) of θ, one a row: of joint states that never occur, and of statistics that never vary.

    Parameters are in units of their features, so that the sizes of entries can be compared.
    None if every joint state of every factor occurs. Factors with a variable that is missing in some sample are
    skipped: summed over it, the likelihood may have a maximum.
    """
    observed, variables = np.zeros(model.graph.table_size, dtype=bool), np.ones(model.m, dtype=bool)
    for packed, known in dataset.by_piece(partial(_occurring, model)):
        observed |= np.unpackbits(packed, count=len(observed)).astype(bool)
        variables &= known
    if observed.all():
        return None
    from scipy.sparse import csr_array, vstack

    complete: BoolArray = np.append(variables, True)[model.graph.scope_matrix].min(axis=1, initial=True)
    constant = np.flatnonzero(_constant(model, observed, complete))
    units = csr_array(
        (np.ones(len(constant)), (np.arange(len(constant)), constant)), shape=(len(constant), model.n_parameters)
    )
    # A factor that shares all its parameters cannot express a joint state.
    possible = np.repeat(complete & _with_own_parameters(model), model.graph.table_sizes)
    if model.offset is not None:
        possible &= np.isfinite(model.offset)
    empty = np.flatnonzero(~observed & possible)
    states = _of_states(model, empty) if len(empty) else None
    return units if states is None else vstack([units, states]).tocsr()


def _occurring(model: FieldModel, dataset: Dataset) -> tuple[NDArray[np.uint8], BoolArray]:
    """The observed entries as packed bits, and which variables (m,) are never missing."""
    table = as_table(dataset)
    known: BoolArray = np.all(table.codes >= 0, axis=0)
    return np.packbits(_observed_entries(model, table)), known


def _of_states(model: FieldModel, entries: IntArray) -> csr_array | None:
    """The joint states ``entries`` as directions of θ (k, r); those that the model cannot express are left out."""
    from scipy.sparse import csr_array, diags_array

    shared = model.n_parameters < len(model.graph.scopes)
    if model.n_parameters * len(entries) > _MOST_BOUNDARY_NUMBERS or (
        shared and len(model.graph.scopes) > _MOST_SHARING
    ):
        return None
    transform, variables = model.interaction_transform
    given = set(model.observed)
    # What depends on given variables only cancels.
    matters = np.array([not given.issuperset(scope) for scope in variables], dtype=bool)
    if shared and transform.shape[0] * (model.n_parameters + len(entries)) > _MOST_BOUNDARY_NUMBERS:
        return None
    map_of_theta = (transform @ model.features).tocsr()[matters]
    if model.feature_units is not None:
        map_of_theta = (map_of_theta @ diags_array(1.0 / model.feature_units)).tocsr()
    wanted = transform[:, entries].toarray()[matters]
    if np.diff(map_of_theta.indptr).max(initial=0) <= 1 and np.diff(map_of_theta.tocsc().indptr).max(initial=0) <= 1:
        solution = np.zeros((model.n_parameters, len(entries)))
        filled = np.flatnonzero(np.diff(map_of_theta.indptr))
        solution[map_of_theta.indices] = wanted[filled] / map_of_theta.data[:, None]
        written = ~np.delete(wanted, filled, axis=0).any(axis=0)
    elif model.n_parameters <= _MOST_SOLVED_PARAMETERS:
        dense: FloatArray = map_of_theta.toarray()
        solution = np.linalg.pinv(dense, rcond=1e-10) @ wanted
        written = np.abs(dense @ solution - wanted).max(axis=0, initial=0.0) < 1e-8
    else:
        return None
    solution = solution[:, written].T
    largest = np.abs(solution).max(axis=1, initial=0.0)
    solution = solution[largest > 0]
    solution[np.abs(solution) < _ROUNDING * largest[largest > 0][:, None]] = 0.0
    return csr_array(solution)


def _with_own_parameters(model: FieldModel) -> BoolArray:
    """Which factors have a parameter that no other factor has."""
    graph, features = model.graph, model.features.tocsc()
    features.sort_indices()
    used = np.flatnonzero(np.diff(features.indptr))
    ends = features.indices[[features.indptr[used], features.indptr[used + 1] - 1]]
    first, last = np.searchsorted(graph.offsets, ends, side="right") - 1
    alone = np.zeros(len(graph.scopes), dtype=bool)
    alone[first[first == last]] = True
    return alone


def _constant(model: FieldModel, observed: BoolArray, complete: BoolArray) -> BoolArray:
    """Parameters (r,) whose features are constant over the samples, but not over all joint states.

    All factors of a parameter count together: in one lattice with shared parameters the feature varies over the sites.
    """
    graph, features = model.graph, model.features.tocsc()
    factor_of = np.repeat(np.arange(len(graph.scopes)), graph.table_sizes)
    counts = np.bincount(factor_of[observed], minlength=len(graph.scopes))
    parameter = np.repeat(np.arange(model.n_parameters), np.diff(features.indptr))
    filled = features.data != 0
    entry, parameter, value = features.indices[filled], parameter[filled], features.data[filled]
    pairs, place = np.unique(parameter * len(graph.scopes) + factor_of[entry], return_inverse=True)
    factors, owners = pairs % len(graph.scopes), pairs // len(graph.scopes)
    seen = observed[entry]

    def spread(of_factor: IntArray, used: BoolArray) -> BoolArray:
        # Entries of a factor without a feature of the parameter have the value 0.
        zeros = of_factor[factors] - np.bincount(place[used], minlength=len(pairs))
        has_zero = np.bincount(owners, weights=zeros, minlength=model.n_parameters) > 0
        lowest, highest = np.where(has_zero, 0.0, np.inf), np.where(has_zero, 0.0, -np.inf)
        np.minimum.at(lowest, parameter[used], value[used])
        np.maximum.at(highest, parameter[used], value[used])
        wide: BoolArray = lowest < highest
        return wide

    known = np.bincount(owners, weights=~complete[factors], minlength=model.n_parameters) == 0
    constant: BoolArray = known & ~spread(counts, seen) & spread(graph.table_sizes, np.ones_like(seen))
    return constant


def _observed_entries(model: FieldModel, table: Table) -> BoolArray:
    """Which entries of the factors' tables occur in some sample of positive weight without missing values there."""
    graph, codes = model.graph, table.codes
    if table.sample_weight is not None:
        codes = codes[table.sample_weight > 0]
    observed = np.zeros(graph.table_size, dtype=bool)
    open_factors: IntArray = np.arange(len(graph.scopes))
    # The first samples contain most joint states, so few factors remain for the others.
    start, size = 0, _FIRST_ROWS
    while start < len(codes) and len(open_factors):
        rows = codes[start : start + max(1, min(size, _MOST_TABLE_ENTRIES // len(open_factors)))]
        start, size = start + len(rows), 4 * size
        scopes, strides = graph.scope_matrix[open_factors].T, graph.stride_matrix[open_factors].T
        # By factor: whole lines are copied and multiplied, not single numbers.
        lines = np.ascontiguousarray(rows.T, dtype=np.int64)
        entries = np.repeat(graph.offsets[:-1][open_factors][:, None], len(rows), axis=1)
        for scope, stride in zip(scopes, strides, strict=True):
            entries += lines[scope] * stride[:, None]
        if table.has_missing:
            entries = entries[((lines[scopes] >= 0) | (scopes < 0)[:, :, None]).all(axis=0)]
        observed[entries] = True
        missed = np.add.reduceat(~observed, graph.offsets[:-1], dtype=np.int64)
        open_factors = open_factors[missed[open_factors] > 0]
    return observed

"""How strongly variables, or neighbouring labels, are coupled: one number for each pair.

Let t be the sum of the tables of two variables' common factors. Their coupling is t without its row and column means,
which belong to the single variables. Two binary variables have one such number with a sign, t₀₀ − t₀₁ − t₁₀ + t₁₁,
the log odds ratio given all others, here divided by (s₁ − s₀)² for states s that are numbers: θ of a Boltzmann
machine. For more states the coupling is the Frobenius norm of the centred table.

A forbidden pair of states, t = −∞, makes the coupling infinite. States that a table forbids whatever the other variable
is belong to the single variable: their rows and columns are left out, and a variable with one state left has no coupling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.types import FloatArray, ModelError

if TYPE_CHECKING:
    from fieldfit.inference import FactorGraph


@dataclass(frozen=True, eq=False)
class Couplings:
    """Couplings of all pairs.

    Parameters
    ----------
    names : tuple of str
        The variables of a field, or the labels of a chain.
    values : ndarray of shape (m, m)
        A number for each pair, 0 where there is none. Symmetric, unless ``directed``.
    what : str
        What the numbers are.
    signed : bool, default: True
        Whether the numbers have a sign. Norms have none.
    directed : bool, default: False
        Whether row and column are the label before and the label after.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> x = np.repeat([[1, 1], [1, 0], [0, 0], [0, 1]], [40, 20, 30, 10], axis=0)
    >>> fit = ff.fit(ff.BoltzmannMachine(2, biases=True), x)
    >>> fit.model.coupling_matrix(fit.theta).values.round(2)
    array([[0.  , 1.79],
           [1.79, 0.  ]])
    """

    names: tuple[str, ...]
    values: FloatArray
    what: str
    signed: bool = True
    directed: bool = False


def pair_couplings(
    graph: FactorGraph, log_tables: FloatArray, names: tuple[str, ...], unit: float = 1.0
) -> Couplings:
    """The couplings of a field with factors of at most two variables; ``unit`` divides those of binary variables."""
    m = graph.n_variables
    tables: dict[tuple[int, int], FloatArray] = {}
    for factor, scope in enumerate(graph.scopes):
        if len(scope) > 2:
            shown = ", ".join(names[v] for v in scope)
            raise ModelError(
                f"The model has a factor of {len(scope)} variables ({shown}); couplings are for fields of pairs."
            )
        if len(scope) < 2:
            continue
        shape = tuple(graph.cardinalities[v] for v in scope)
        table = log_tables[graph.offsets[factor] : graph.offsets[factor + 1]].reshape(shape)
        j, k = scope
        if j > k:
            j, k, table = k, j, table.T
        tables[j, k] = tables.get((j, k), 0.0) + table
    binary = all(states == 2 for states in graph.cardinalities)
    values = np.zeros((m, m))
    for (j, k), table in tables.items():
        values[j, k] = values[k, j] = _coupling(table, unit if binary else None)
    what = "coupling" if binary else "strength of the coupling (Frobenius norm)"
    return Couplings(names, values, what, signed=binary)


def _coupling(table: FloatArray, unit: float | None) -> float:
    """The coupling of a table of log values: with a sign, divided by ``unit``, for two binary variables; else its norm."""
    possible = table > -np.inf
    table = table[np.ix_(possible.any(axis=1), possible.any(axis=0))]
    if min(table.shape) < 2:
        return 0.0
    if unit is not None:
        return float(table[0, 0] - table[0, 1] - table[1, 0] + table[1, 1]) / unit
    if not np.isfinite(table).all():
        return np.inf
    left = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    return float(np.sqrt(np.square(left).sum()))

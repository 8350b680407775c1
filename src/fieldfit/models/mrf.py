"""Markov random fields in general: any discrete variables, any cliques, tables or real features, tied parameters.

p_θ(x) = exp( Σ_C Σ_l θ_{C,l} f_{C,l}(x_C) − log Z(θ) )                                          (Equation 19)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit.inference import FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.models.field import FieldModel
from fieldfit.types import FloatArray, ModelError


@dataclass(frozen=True)
class Factor:
    """A clique and its features.

    Parameters
    ----------
    scope : the variables of the clique, by number
    features : f_C as an array with one axis for each variable of the scope and, if there are several features, a last
        axis for them. None is a table: one indicator for each joint state (an over-complete parametrisation).
    parameters : a name for each feature; features of any factors with the same name share one parameter. None makes new
        parameters for this factor.
    log_offset : a fixed log table that is added (−inf forbids a joint state)
    """

    scope: tuple[int, ...]
    features: Any = None
    parameters: tuple[str, ...] | str | None = None
    log_offset: Any = None


class MarkovRandomField(FieldModel):
    """A field over variables with ``cardinalities`` states each, given by its factors.

    ``given`` are variables that the model conditions on. ``states`` are the values of each variable (0, 1, … by
    default), ``names`` their names.
    """

    kind = "mrf"

    def __init__(
        self,
        cardinalities: Sequence[int],
        factors: Sequence[Factor | Sequence[int]],
        *,
        names: Sequence[str] | None = None,
        states: Sequence[Sequence[Any]] | None = None,
        given: Sequence[int] = (),
        largest_table: int = LARGEST_TABLE,
    ) -> None:
        from scipy.sparse import csr_array

        cards = tuple(int(c) for c in cardinalities)
        self.factors = tuple(f if isinstance(f, Factor) else Factor(tuple(f)) for f in factors)
        if not self.factors:
            raise ModelError("A Markov random field needs at least one factor.")
        graph = FactorGraph(cards, tuple(tuple(int(v) for v in f.scope) for f in self.factors))
        if states is None:
            states = [tuple(range(c)) for c in cards]
        if len(states) != len(cards) or any(len(s) != c for s, c in zip(states, cards, strict=True)):
            raise ModelError(
                f"states needs one tuple for each of the {len(cards)} variables, as long as it has states."
            )
        labels = tuple(names) if names is not None else tuple(f"x{v}" for v in range(len(cards)))
        rows, columns, values = [], [], []
        self._parameters: dict[str, int] = {}
        offset = np.zeros(graph.table_size)
        for index, factor in enumerate(self.factors):
            shape = tuple(cards[v] for v in factor.scope)
            matrix, parameter_names = _features(index, factor, shape, [labels[v] for v in factor.scope], states)
            entry, feature = np.nonzero(matrix)
            numbers = np.array([self._parameters.setdefault(n, len(self._parameters)) for n in parameter_names])
            rows.append(graph.offsets[index] + entry)
            columns.append(numbers[feature])
            values.append(matrix[entry, feature])
            if factor.log_offset is not None:
                offset[graph.offsets[index] : graph.offsets[index + 1]] = _offset(index, factor, shape)
        features = csr_array(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
            shape=(graph.table_size, len(self._parameters)),
        )
        super().__init__(
            graph,
            features,
            offset if np.any(offset) else None,
            names=names,
            states=states,
            observed=given,
            largest_table=largest_table,
        )

    @classmethod
    def from_networkx(cls, graph: Any, states: int = 2, **options: Any) -> MarkovRandomField:
        """A table for every node and every edge of an undirected networkx graph."""
        from fieldfit.models.graphs import networkx_edges

        edges, names = networkx_edges(graph)
        options.setdefault("names", names)
        scopes: list[tuple[int, ...]] = [(v,) for v in range(len(names))] + [*edges]
        return cls([states] * len(names), [Factor(scope) for scope in scopes], **options)

    @classmethod
    def from_uai(cls, path: str | Path, **options: Any) -> tuple[MarkovRandomField, FloatArray]:
        """The field in a UAI file and the θ at which it has the file's tables. Entries of 0 stay forbidden."""
        from fieldfit.data.uai import read_uai

        field = read_uai(path)
        factors, theta = [], []
        for scope, table in zip(field.scopes, field.tables, strict=True):
            with np.errstate(divide="ignore"):
                logs = np.log(np.asarray(table, dtype=float))
            forbidden = np.isneginf(logs)
            factors.append(Factor(scope, log_offset=np.where(forbidden, -np.inf, 0.0) if forbidden.any() else None))
            theta.append(np.where(forbidden, 0.0, logs).ravel())
        return cls(field.cardinalities, factors, **options), np.concatenate(theta)

    @property
    def parameter_names(self) -> Sequence[str]:
        """The names of the features, in order of first appearance."""
        return list(self._parameters)

    def with_names(self, names: Sequence[str]) -> MarkovRandomField:
        """The same model with other names for its variables."""
        header, arrays = self.specification()
        return MarkovRandomField.from_specification(header | {"names": list(names)}, arrays)

    def specification(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Scopes and names as JSON, features and offsets as arrays."""
        factors, arrays = [], {}
        for index, factor in enumerate(self.factors):
            tied = factor.parameters
            factors.append({"scope": list(factor.scope), "parameters": tied if tied is None else list(_names(tied))})
            if factor.features is not None:
                arrays[f"features{index}"] = np.asarray(factor.features, dtype=float)
            if factor.log_offset is not None:
                arrays[f"offset{index}"] = np.asarray(factor.log_offset, dtype=float)
        header: dict[str, Any] = {
            "cardinalities": list(self.graph.cardinalities),
            "factors": factors,
            "names": list(self.names) if self.named else None,
            "states": [list(s) for s in self.states],
            "given": list(self.observed),
            "largest_table": self.largest_table,
        }
        return header, arrays

    @classmethod
    def from_specification(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> MarkovRandomField:
        """The model that `specification` describes."""
        factors = [
            Factor(
                tuple(item["scope"]),
                arrays.get(f"features{index}"),
                None if item["parameters"] is None else tuple(item["parameters"]),
                arrays.get(f"offset{index}"),
            )
            for index, item in enumerate(header["factors"])
        ]
        return cls(
            header["cardinalities"],
            factors,
            names=header["names"],
            states=[tuple(s) for s in header["states"]],
            given=header["given"],
            largest_table=header["largest_table"],
        )


def _names(parameters: tuple[str, ...] | str) -> tuple[str, ...]:
    return (parameters,) if isinstance(parameters, str) else tuple(parameters)


def _features(
    index: int, factor: Factor, shape: tuple[int, ...], labels: list[str], states: Sequence[Sequence[Any]]
) -> tuple[FloatArray, list[str]]:
    """Features of one factor as a matrix (table entries, features) and the names of their parameters."""
    size = int(np.prod(shape))
    if factor.features is None:
        matrix = np.eye(size)
        default = [
            ":".join(f"{label}={states[v][s]}" for label, v, s in zip(labels, factor.scope, joint, strict=True))
            for joint in np.ndindex(*shape)
        ]
    else:
        array = np.asarray(factor.features, dtype=float)
        if array.shape == shape:
            array = array[..., None]
        if array.shape[:-1] != shape:
            raise ModelError(
                f"Factor {index} over variables {factor.scope} has features of shape {np.shape(factor.features)}; "
                f"expected {shape}, or {shape} and a last axis with one entry for each feature."
            )
        if not np.all(np.isfinite(array)):
            raise ModelError(f"Factor {index} over variables {factor.scope} has a feature that is not finite.")
        matrix = array.reshape(size, -1)
        own = ":".join(labels)
        default = [own] if matrix.shape[1] == 1 else [f"{own}#{k}" for k in range(matrix.shape[1])]
    if factor.parameters is None:
        return matrix, default
    names = list(_names(factor.parameters))
    if len(names) != matrix.shape[1]:
        raise ModelError(f"Factor {index} has {matrix.shape[1]} features but {len(names)} parameter names.")
    return matrix, names


def _offset(index: int, factor: Factor, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(factor.log_offset, dtype=float)
    if array.shape != shape:
        raise ModelError(f"Factor {index} has a log_offset of shape {array.shape}; expected {shape}.")
    if np.any(np.isnan(array)) or np.any(array == np.inf):
        raise ModelError(
            f"Factor {index} has a log_offset that is NaN or +inf; −inf is allowed, for forbidden states."
        )
    return array.ravel()

"""Markov random fields in general: any discrete variables, any cliques, tables or real features, tied parameters.

p_θ(x) = exp( Σ_C Σ_l θ_{C,l} f_{C,l}(x_C) − log Z(θ) )                                          (Equation 19)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import count_of, real_array, sequence_of
from fieldfit.inference import FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.models.field import FieldModel, checked_names
from fieldfit.models.memory import LARGEST_NUMBER, refuse_parameters
from fieldfit.named import variables_of
from fieldfit.types import Arrays, FloatArray, IntArray, ModelError, Plain

if TYPE_CHECKING:
    import networkx

#: Bytes of a parameter of a free table: its name, and its place by that name.
_BYTES_OF_NAMED = 150


@dataclass(frozen=True)
class Factor:
    """A clique of variables and its features.

    Parameters
    ----------
    scope : tuple of int or str
        Variables of the clique, by number or name.
    features : array_like or None, default: None
        Features f_C: an array with one axis for each variable of the scope and, for several features, a last axis
        for them. None: a free table with one indicator for each joint state (an over-complete parametrisation).
    parameters : str, tuple of str or None, default: None
        A name for each feature. Features with the same name share one parameter, also in different factors. None:
        new parameters for this factor, named after its variables: ``x0:x1`` for one feature, ``x0:x1#0``,
        ``x0:x1#1``, … for several, ``x0=0:x1=1`` for an entry of a table. If another parameter has such a name,
        ``#2`` (or ``#3``, …) is added.
    log_offset : array_like or None, default: None
        A fixed log table that is added to the features' sum. −inf forbids a joint state.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> agree = np.eye(3)
    >>> factors = [ff.Factor((0, 1), agree, "similar"), ff.Factor((1, 2), agree, "similar")]
    >>> ff.MarkovRandomField([3, 3, 3], factors).parameter_names
    ['similar']
    """

    scope: tuple[int, ...]  # the field converts names to numbers
    features: ArrayLike | None = None
    parameters: tuple[str, ...] | str | None = None
    log_offset: ArrayLike | None = None


class _Options(TypedDict, total=False):
    """The optional parameters of a field with given states."""

    names: Sequence[str] | None
    given: Sequence[int | str] | str
    largest_table: int


class _StateOptions(_Options, total=False):
    """The same, and the values of the states."""

    states: Sequence[Sequence[object]] | None


class MarkovRandomField(FieldModel):
    """Markov random field with any discrete variables and any cliques.

    Parameters
    ----------
    cardinalities : sequence of int
        Number of states of each variable.
    factors : sequence of Factor or of scopes
        A scope (a tuple of variables) is short for a `Factor` with a free table.
    names : sequence of str or None, default: None
        Names of the variables. None: the names of the data's columns, or x0, x1, …
    states : sequence of sequences or None, default: None
        Values of the states of each variable. None: 0, 1, …
    given : str or sequence of str or int, default: ()
        Variables that the model conditions on, by name or number.
    largest_table : int, default: 4194304
        Largest number of table entries in exact sums.

    Notes
    -----
    The distribution is p_θ(x) = exp(Σ_C Σ_l θ_{C,l} f_{C,l}(x_C) − log Z(θ)) (Equation 19 of the paper). θ contains
    the parameters in order of first appearance.

    Examples
    --------
    >>> import fieldfit as ff
    >>> field = ff.MarkovRandomField([2, 2], [(0, 1), ff.Factor((1,), [0.0, 1.0], "bias")])
    >>> field.parameter_names
    ['x0=0:x1=0', 'x0=0:x1=1', 'x0=1:x1=0', 'x0=1:x1=1', 'bias']
    """

    kind = "mrf"

    def __init__(
        self,
        cardinalities: Sequence[int],
        factors: Sequence[Factor | Sequence[int]],
        *,
        names: Sequence[str] | None = None,
        states: Sequence[Sequence[object]] | None = None,
        given: Sequence[int | str] | str = (),
        largest_table: int = LARGEST_TABLE,
    ) -> None:
        from scipy.sparse import csr_array

        counts = sequence_of(cardinalities, "cardinalities", "a list with the number of states of each variable")
        cards = tuple(count_of(c, "A number of states") for c in counts)
        labels = checked_names(names, len(cards)) if names is not None else tuple(f"x{v}" for v in range(len(cards)))
        wanted = "a tuple with the variables of the factor, by name or number"
        whole = [
            f if isinstance(f, Factor) else Factor(cast("tuple[int, ...]", sequence_of(f, "A factor", wanted)))
            for f in sequence_of(factors, "factors", "a list of factors")
        ]
        self.factors = tuple(replace(f, scope=variables_of(f.scope, labels)) for f in whole)
        if not self.factors:
            raise ModelError("A Markov random field needs at least one factor.")
        graph = FactorGraph(cards, tuple(f.scope for f in self.factors))
        entries = sum(math.prod(cards[v] for v in f.scope) for f in self.factors if f.features is None)
        refuse_parameters(entries, "A Markov random field with these free tables", _BYTES_OF_NAMED)
        if states is None:
            states = [tuple(range(c)) for c in cards]
        lists = sequence_of(states, "states", "a list with the states of each variable")
        sizes = [len(sequence_of(labels, "An entry of states", "a list of labels")) for labels in lists]
        if sizes != list(cards):
            raise ModelError(
                f"states needs one tuple for each of the {len(cards)} variables, with one value for each of its states."
            )
        rows, columns, values = [], [], []
        self._parameters: dict[str, int] = {}
        # Only names given by the user tie parameters, in any order of the factors.
        given_names = {name for f in self.factors if f.parameters is not None for name in _names(f.parameters)}
        offset = np.zeros(graph.table_size)
        for index, factor in enumerate(self.factors):
            shape = tuple(cards[v] for v in factor.scope)
            entry, feature, size, parameter_names = _features(
                index, factor, shape, [labels[v] for v in factor.scope], states
            )
            if factor.parameters is None:
                parameter_names = _new_names(parameter_names, given_names, self._parameters)
            numbers = np.array([self._parameters.setdefault(n, len(self._parameters)) for n in parameter_names])
            rows.append(graph.offsets[index] + entry)
            columns.append(numbers[feature])
            values.append(size)
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
            observed=variables_of(given, labels),
            largest_table=largest_table,
        )

    @property
    def mean_groups(self) -> IntArray | None:
        """One group for each variable if each is in a free table, which determines the frequencies of its states."""
        free = [factor.scope for factor in self.factors if factor.features is None and factor.parameters is None]
        covered = {int(v) for scope in free for v in scope}
        return np.arange(self.m) if len(covered) == self.m else None

    @classmethod
    def from_networkx(cls, graph: networkx.Graph, states: int = 2, **options: Unpack[_Options]) -> MarkovRandomField:
        """Build a field with a free table for every node and every edge of an undirected networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            Its nodes are the variables.
        states : int, default: 2
            Number of states of each variable.
        **options
            Other parameters of `MarkovRandomField`.

        Returns
        -------
        MarkovRandomField

        Examples
        --------
        >>> import networkx as nx
        >>> import fieldfit as ff
        >>> ff.MarkovRandomField.from_networkx(nx.path_graph(2)).parameter_names
        ['0=0', '0=1', '1=0', '1=1', '0=0:1=0', '0=0:1=1', '0=1:1=0', '0=1:1=1']
        """
        from fieldfit.models.graphs import networkx_edges

        edges, names = networkx_edges(graph)
        options.setdefault("names", names)
        scopes: list[tuple[int, ...]] = [(v,) for v in range(len(names))] + [(j, k) for j, k in edges.tolist()]
        return cls([states] * len(names), [Factor(scope) for scope in scopes], **options)

    @classmethod
    def from_uai(cls, path: str | Path, **options: Unpack[_StateOptions]) -> tuple[MarkovRandomField, FloatArray]:
        r"""Read a field from a UAI file. Entries of 0 stay forbidden.

        Parameters
        ----------
        path : str or Path
            The file, plain or gzip.
        **options
            Other parameters of `MarkovRandomField`.

        Returns
        -------
        model : MarkovRandomField
        theta : ndarray
            The parameters with which the model has the file's tables.

        Examples
        --------
        >>> from pathlib import Path
        >>> import fieldfit as ff
        >>> _ = Path("two.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n\n4\n 4 1 1 4\n")
        >>> model, theta = ff.MarkovRandomField.from_uai("two.uai")
        >>> model.marginals(theta, {"x0": 1})[1]
        array([0.2, 0.8])
        """
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
        """Names of the features, in order of first appearance."""
        return list(self._parameters)

    def with_names(self, names: Sequence[str]) -> MarkovRandomField:
        """Return the same model with other names for its variables."""
        header, arrays = self.specification()
        return MarkovRandomField.from_specification(header | {"names": list(checked_names(names, self.m))}, arrays)

    def specification(self) -> tuple[Plain, Arrays]:
        """Describe the model: scopes and names as JSON values, features and offsets as arrays."""
        factors, arrays = [], {}
        for index, factor in enumerate(self.factors):
            tied = factor.parameters
            factors.append({"scope": list(factor.scope), "parameters": tied if tied is None else list(_names(tied))})
            if factor.features is not None:
                arrays[f"features{index}"] = np.asarray(factor.features, dtype=float)
            if factor.log_offset is not None:
                arrays[f"offset{index}"] = np.asarray(factor.log_offset, dtype=float)
        header: Plain = {
            "cardinalities": list(self.graph.cardinalities),
            "factors": factors,
            "names": list(self.names) if self.named else None,
            "states": [list(s) for s in self.states],
            "given": list(self.observed),
            "largest_table": self.largest_table,
        }
        return header, arrays

    @classmethod
    def from_specification(cls, header: Plain, arrays: Arrays) -> MarkovRandomField:
        """Build the model that `specification` describes."""
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
    wanted = "a name, a tuple of names, or None"
    names = (
        (parameters,) if isinstance(parameters, str) else sequence_of(parameters, "parameters of a factor", wanted)
    )
    if not all(isinstance(name, str) for name in names):
        raise ModelError(f"parameters of a factor is {parameters!r:.80}; it must be {wanted}.")
    return cast("tuple[str, ...]", names)


def _new_names(names: list[str], given: Collection[str], made: Collection[str]) -> list[str]:
    """The names; if one is taken, all with the first suffix of #2, #3, … that makes them unique."""
    number, new = 1, names
    while any(name in given or name in made for name in new):
        number += 1
        new = [f"{name}#{number}" for name in names]
    return new


def _features(
    index: int, factor: Factor, shape: tuple[int, ...], labels: list[str], states: Sequence[Sequence[object]]
) -> tuple[IntArray, IntArray, FloatArray, list[str]]:
    """Features of one factor that are not 0 (table entry, feature, value), and the names of their parameters."""
    if factor.features is None:
        count = math.prod(shape)
        entry = feature = np.arange(count)
        values = np.ones(count)
        default = [
            ":".join(f"{label}={states[v][s]}" for label, v, s in zip(labels, factor.scope, joint, strict=True))
            for joint in np.ndindex(*shape)
        ]
    else:
        array = _real(factor.features, index, "features")
        if array.shape == shape:
            array = array[..., None]
        if array.shape[:-1] != shape:
            raise ModelError(
                f"Factor {index} over variables {factor.scope} has features of shape {np.shape(factor.features)}; "
                f"expected {shape}, or {shape} and a last axis with one entry for each feature."
            )
        if not np.all(np.isfinite(array)):
            raise ModelError(f"Factor {index} over variables {factor.scope} has a feature that is not finite.")
        if np.abs(array).max(initial=0.0) > LARGEST_NUMBER:
            raise ModelError(
                f"Factor {index} over variables {factor.scope} has a feature beyond ±{LARGEST_NUMBER:g}."
            )
        count = array.shape[-1]
        matrix = array.reshape(math.prod(shape), count)
        entry, feature = np.nonzero(matrix)
        values = matrix[entry, feature]
        joined = ":".join(labels)
        default = [joined] if count == 1 else [f"{joined}#{k}" for k in range(count)]
    if factor.parameters is None:
        return entry, feature, values, default
    names = list(_names(factor.parameters))
    if len(names) != count:
        raise ModelError(f"Factor {index} has {count} features but {len(names)} parameter names.")
    return entry, feature, values, names


def _real(values: object, index: int, what: str) -> FloatArray:
    try:
        return real_array(values)
    except (TypeError, ValueError):
        raise ModelError(f"The {what} of factor {index} must be real numbers; got {values!r:.80}.") from None


def _offset(index: int, factor: Factor, shape: tuple[int, ...]) -> FloatArray:
    array = _real(factor.log_offset, index, "log_offset")
    if array.shape != shape:
        raise ModelError(f"Factor {index} has a log_offset of shape {array.shape}; expected {shape}.")
    if np.any(np.isnan(array)) or np.any(array == np.inf):
        raise ModelError(
            f"Factor {index} has a log_offset that is NaN or +inf; −inf is allowed, for forbidden states."
        )
    if np.abs(array[np.isfinite(array)]).max(initial=0.0) > LARGEST_NUMBER:
        raise ModelError(f"Factor {index} has a log_offset beyond ±{LARGEST_NUMBER:g}; −inf is for forbidden states.")
    return array.ravel()

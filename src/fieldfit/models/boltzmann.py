"""The Boltzmann machine: binary variables, a coupling for each edge and optionally a bias for each variable.

    p_θ(x) = exp( Σ_{(j,k)∈E} θ_jk x_j x_k + Σ_j b_j x_j − log Z(θ) ),    x_j ∈ {s_0, s_1}          (Section 7.1)

θ holds the couplings in the order of the edges (all pairs, row-major, by default) and then the biases. Couplings or
biases in one group share a parameter.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, SupportsFloat, SupportsIndex, TypedDict, Unpack, cast

import numpy as np

from fieldfit.arguments import count_of, is_complex, sequence_of, truth_value
from fieldfit.data.dataset import Dataset
from fieldfit.data.memory import memory_limit
from fieldfit.data.samples import Table, as_table
from fieldfit.inference import FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.ragged import Ragged
from fieldfit.models.field import FieldModel
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.graphs import (
    BYTES_OF_EDGE,
    MOST_VARIABLES,
    check_edges,
    grid_edges,
    grid_size,
    networkx_edges,
    pairwise_scopes,
)
from fieldfit.models.pairwise import PairwiseProblem, pairwise_supports
from fieldfit.models.pairwise_missing import MissingPairwiseProblem, sums_states
from fieldfit.models.pairwise_parameters import PairwiseParameters
from fieldfit.models.problem import Problem
from fieldfit.models.rows_problem import compile_apart
from fieldfit.models.sum_problem import compile_by
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.properties import cached_property
from fieldfit.types import Arrays, DataError, FloatArray, Int32Array, IntArray, ModelError, Plain

if TYPE_CHECKING:
    import networkx
    from scipy.sparse import csr_array


#: Limits on the larger state in absolute value. Within them, sums of fourth powers of states neither overflow nor
#: underflow.
_SMALLEST_STATE, _LARGEST_STATE = 1e-50, 1e50
#: Fewest bytes of a fit for each parameter: PL1 of 1,500 and 3,000 variables, all pairs, took 460 to 550.
_BYTES_OF_PARAMETER = 400
#: Fewest variables from which one block of all of them is left to the general problem: with 9 both take the same time.
_LARGE_FIELD = 10


def _two_numbers(states: Sequence[object]) -> bool:
    try:
        first, second = (
            float(state)
            for state in states
            if isinstance(state, SupportsFloat | SupportsIndex) and not is_complex(state)
        )
    except (TypeError, ValueError, OverflowError):
        return False
    ordered = not isinstance(states, Set | Mapping | bytes | bytearray)
    return ordered and len(states) == 2 and bool(np.isfinite([first, second]).all()) and first != second


class _Options(TypedDict, total=False):
    """The optional parameters of a machine on a given graph."""

    biases: bool
    states: tuple[object, object]
    edge_groups: Sequence[Hashable] | None
    bias_groups: Sequence[Hashable] | None
    names: Sequence[str] | None
    largest_table: int


class BoltzmannMachine(FieldModel):
    """Boltzmann machine: a pairwise field over binary variables. With ``states=(-1, 1)`` it is the Ising model.

    Parameters
    ----------
    m : int
        Number of variables.
    edges : sequence of pairs or None, default: None
        Pairs of variables with a coupling. None: all pairs, in row-major order.
    biases : bool, default: False
        Whether each variable has a bias.
    states : tuple of two numbers, default: (0, 1)
        The two values of a variable.
    edge_groups : sequence or None, default: None
        A label for each edge. Edges with equal labels share one coupling.
    bias_groups : sequence or None, default: None
        A label for each variable. Variables with equal labels share one bias.
    names : sequence of str or None, default: None
        Names of the variables. None: the names of the data's columns, or x0, x1, …
    largest_table : int, default: 4194304
        Largest number of table entries in exact sums.

    Notes
    -----
    The distribution is p_θ(x) = exp(Σ_{(j,k)∈E} θ_jk x_j x_k + Σ_j b_j x_j − log Z(θ)). θ contains the couplings in
    the order of the edges, then the biases.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3, biases=True)
    >>> model.parameter_names
    ['x0:x1', 'x0:x2', 'x1:x2', 'x0', 'x1', 'x2']
    """

    kind = "boltzmann"

    def __init__(
        self,
        m: int,
        edges: Sequence[object] | IntArray | None = None,
        biases: bool = False,
        states: tuple[object, object] = (0, 1),
        *,
        edge_groups: Sequence[Hashable] | None = None,
        bias_groups: Sequence[Hashable] | None = None,
        names: Sequence[str] | None = None,
        largest_table: int = LARGEST_TABLE,
    ) -> None:
        m = count_of(m, "The number of variables m", 1, MOST_VARIABLES)
        if not _two_numbers(states):
            raise ModelError(
                f"The states of a Boltzmann machine are two different finite numbers; got {states!r:.80}."
            )
        self.values: FloatArray = np.asarray(states, dtype=np.float64)  # of the states 0 and 1
        if not _SMALLEST_STATE <= np.abs(self.values).max() <= _LARGEST_STATE:
            raise ModelError(
                f"The states are {states!r:.80}; the larger one must be from {_SMALLEST_STATE:g} to {_LARGEST_STATE:g} in "
                "absolute value. Rescale them."
            )
        self.edge_array = check_edges(int(m), edges)
        self.biases = truth_value(biases, "biases")
        self.edge_parameter, self._edge_labels = _groups(edge_groups, len(self.edge_array), "edges")
        n_couplings = len(self._edge_labels) if self._edge_labels is not None else len(self.edge_array)
        self.bias_parameter: Int32Array | None = None
        self._bias_labels: tuple[Hashable, ...] | None = None
        if self.biases:
            local, self._bias_labels = _groups(bias_groups, int(m), "variables")
            self.bias_parameter = (local + n_couplings).astype(np.int32)
        elif bias_groups is not None:
            raise ModelError("bias_groups needs biases=True.")
        scopes = Ragged(*pairwise_scopes(self.edge_array, int(m) if self.biases else 0))
        super().__init__(
            FactorGraph((2,) * int(m), scopes),
            None,
            None,
            names=names,
            states=[tuple(states)] * int(m),
            largest_table=largest_table,
        )

    def sizes(self) -> dict[str, int]:
        """Variables, couplings and biases; parameters where some are shared."""
        parts = {"couplings": len(self.edge_array), "biases": self.m if self.biases else 0}
        shared = {} if sum(parts.values()) == self.n_parameters else {"parameters": self.n_parameters}
        return {"variables": self.m, **parts, **shared}

    def refuse_size(self, n: int) -> None:
        """Raise DataError if a fit does not fit into this machine's memory, whatever the number of samples n is."""
        edges, memory = len(self.edge_array), memory_limit()
        needed = BYTES_OF_EDGE * edges + _BYTES_OF_PARAMETER * self.n_parameters
        if memory is not None and needed > memory:
            raise DataError(
                f"A fit of {self.m:,} variables with {edges:,} edges needs at least {needed:,} bytes beside its samples, "
                f"and there are {memory:,} bytes of memory. Use fewer edges, or let edges share parameters (edge_groups)."
            )

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""
        last = self.edge_parameter if self.bias_parameter is None else self.bias_parameter
        return int(last.max(initial=-1)) + 1

    @cached_property
    def features(self) -> csr_array:
        """Table entries × parameters: products of the states for couplings, the states themselves for biases."""
        from scipy.sparse import csr_array

        values = self.values
        columns = np.repeat(self.edge_parameter, 4)
        data = np.tile(np.outer(values, values).ravel(), len(self.edge_array))
        if self.bias_parameter is not None:
            columns = np.concatenate([columns, np.repeat(self.bias_parameter, 2)])
            data = np.concatenate([data, np.tile(values, self.m)])
        features = csr_array((data, (np.arange(len(data)), columns)), shape=(len(data), self.n_parameters))
        features.eliminate_zeros()
        return features

    def determined_contrasts(self) -> FloatArray | None:
        """None: couplings are interactions and biases are main effects, so that all parameters are determined."""
        return None

    @property
    def mean_groups(self) -> IntArray | None:
        """The bias of each variable, as a number from 0; None without biases."""
        if self.bias_parameter is None:
            return None
        return np.unique(self.bias_parameter, return_inverse=True)[1].astype(np.int64)

    @property
    def coupling_unit(self) -> float:
        """(s₁ − s₀)²: divided by it, a coupling is the parameter θ_jk."""
        return float(self.values[1] - self.values[0]) ** 2

    @cached_property
    def feature_units(self) -> FloatArray | None:
        """The power of two nearest to the largest absolute value of each feature; None where all are 1."""
        largest = float(np.abs(self.values).max())
        sizes = np.full(self.n_parameters, largest)
        sizes[self.edge_parameter] = largest**2
        units: FloatArray = np.exp2(np.round(np.log2(sizes)))
        return units if np.any(units != 1.0) else None

    @classmethod
    def grid(
        cls, rows: int, columns: int, *, neighbours: int = 4, tied: bool = False, **options: Unpack[_Options]
    ) -> BoltzmannMachine:
        """Build the machine of a rectangular grid.

        Parameters
        ----------
        rows : int
            Number of rows.
        columns : int
            Number of columns.
        neighbours : {4, 8}, default: 4
            Neighbours of an inner site. With 8, diagonal neighbours are connected too.
        tied : bool, default: False
            Whether all edges of one direction share a coupling, and all sites share a bias.
        **options
            Other parameters of `BoltzmannMachine`.

        Returns
        -------
        BoltzmannMachine
            With the names r0c0, r0c1, …

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine.grid(8, 8).n_parameters
        112
        >>> ff.BoltzmannMachine.grid(8, 8, tied=True, biases=True).parameter_names
        ['horizontal', 'vertical', 'bias']
        """
        rows, columns = grid_size(rows, columns)
        edges, directions = grid_edges(rows, columns, neighbours)
        if truth_value(tied, "tied"):
            options["edge_groups"] = directions
            if options.get("biases"):
                options["bias_groups"] = ["bias"] * (rows * columns)
        options.setdefault("names", [f"r{i}c{j}" for i in range(rows) for j in range(columns)])
        return cls(rows * columns, edges, **options)

    @classmethod
    def from_networkx(cls, graph: networkx.Graph, **options: Unpack[_Options]) -> BoltzmannMachine:
        """Build the machine of an undirected networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            Its nodes are the variables, and its edges have couplings.
        **options
            Other parameters of `BoltzmannMachine`.

        Returns
        -------
        BoltzmannMachine

        Examples
        --------
        >>> import networkx as nx
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine.from_networkx(nx.cycle_graph(3)).parameter_names
        ['0:1', '0:2', '1:2']
        """
        edges, names = networkx_edges(graph)
        options.setdefault("names", names)
        return cls(len(names), edges, **options)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The pairs (j, k), j < k, that have a coupling; `edge_array` holds the same as an array (edges, 2)."""
        return tuple((j, k) for j, k in self.edge_array.tolist())

    @property
    def parameter_names(self) -> Sequence[str]:
        """``a:b`` for the coupling of a and b, ``a`` for a bias, or the label of the group for shared parameters."""
        if self._edge_labels is not None:
            couplings = [str(label) for label in self._edge_labels]
        else:
            couplings = [f"{self.names[j]}:{self.names[k]}" for j, k in self.edges]
        if not self.biases:
            return couplings
        if self._bias_labels is not None:
            return couplings + [str(label) for label in self._bias_labels]
        return couplings + list(self.names)

    def statistics(self, codes: Int32Array) -> FloatArray:
        """Products of the states of each edge, then the states, summed over edges or variables that share a parameter."""
        # Transposed, so that copies and products work on contiguous rows.
        x: FloatArray = self.values[np.ascontiguousarray(codes.T)]
        values: FloatArray = x[self.edge_array[:, 0]]
        values *= x[self.edge_array[:, 1]]
        parameter = self.edge_parameter
        if self.bias_parameter is not None:
            values = np.concatenate([values, x])
            parameter = np.concatenate([parameter, self.bias_parameter])
        if np.array_equal(parameter, np.arange(self.n_parameters)):
            return values.T
        totals = np.zeros((self.n_parameters, len(codes)))
        np.add.at(totals, parameter, values)
        return totals.T

    def state_functions(self) -> tuple[FloatArray, ...]:
        """The numeric state of each variable, as one function (2, 1)."""
        return (self.values[:, None],) * self.m

    @cached_property
    def _pairwise_parameters(self) -> PairwiseParameters:
        return PairwiseParameters(
            self.m, self.values, self.edge_array, self.edge_parameter, self.bias_parameter, self.n_parameters
        )

    def compile(self, dataset: Dataset, selection: Selection) -> Problem:
        """Compile model, data and selection. The pairwise kernels handle blocks given the rest.

        With missing values they handle single variables of dense graphs, and the complete samples of other components. The
        general problem handles the rest.
        """
        table = as_table(dataset)
        codes, missing = table.codes, table.has_missing
        kernel = MissingPairwiseProblem if missing else PairwiseProblem

        def is_fast(part: FamilySelection) -> bool:
            if self.observed:
                return False
            return sums_states(self, codes, [part]) if missing else pairwise_supports(part) and not is_whole(part)

        def is_whole(part: FamilySelection) -> bool:
            # One block of all variables is the same sum for all samples, and the general problem remembers it.
            return self.m >= _LARGE_FIELD and cast(FieldFamily, part.family).block_size == self.m

        fast = is_fast, lambda some: kernel(codes, self._pairwise_parameters, some.parts)

        def general(part: Table, some: Selection) -> Problem:
            return FieldProblem(self.field_arrays, part.codes, some)

        apart = (
            lambda part: missing and not self.observed and pairwise_supports(part),
            lambda some: compile_apart(table, some, self.compile, general, self.largest_table),
        )
        return compile_by([fast, apart], lambda some: general(table, some), selection)

    def specification(self) -> tuple[Plain, Arrays]:
        """Describe the model: m, biases, states, names and groups, and the edges as an array."""
        header: Plain = {
            "m": self.m,
            "biases": self.biases,
            "states": list(self.states[0]),
            "names": list(self.names) if self.named else None,
            "edge_labels": None if self._edge_labels is None else [str(s) for s in self._edge_labels],
            "bias_labels": None if self._bias_labels is None else [str(s) for s in self._bias_labels],
            "largest_table": self.largest_table,
        }
        arrays: Arrays = {"edges": self.edge_array}
        if self._edge_labels is not None:
            arrays["edge_parameter"] = self.edge_parameter
        if self._bias_labels is not None and self.bias_parameter is not None:
            arrays["bias_parameter"] = self.bias_parameter - self.bias_parameter.min()
        return header, arrays

    @classmethod
    def from_specification(cls, header: Plain, arrays: Arrays) -> BoltzmannMachine:
        """Build the model that `specification` describes."""

        def labels(key: str, parameter: str) -> list[str] | None:
            return None if header[key] is None else [header[key][p] for p in arrays[parameter]]

        return cls(
            header["m"],
            arrays["edges"],
            header["biases"],
            (header["states"][0], header["states"][1]),
            edge_groups=labels("edge_labels", "edge_parameter"),
            bias_groups=labels("bias_labels", "bias_parameter"),
            names=header["names"],
            largest_table=header["largest_table"],
        )


def _groups(
    groups: Sequence[Hashable] | None, size: int, what: str
) -> tuple[Int32Array, tuple[Hashable, ...] | None]:
    """A parameter number for each edge or variable, and the labels of the groups in order of appearance."""
    if groups is None:
        return np.arange(size, dtype=np.int32), None
    groups = sequence_of(groups, f"The groups of {what}", "a list with a label for each")
    # Lists, masked entries, and records of NumPy, whose method for it refuses
    wrong = [label for label in groups if not isinstance(label, Hashable) or isinstance(label, np.void)]
    if wrong:
        raise ModelError(f"A group of {what} is {wrong[0]!r:.80}; labels of groups are numbers or texts.")
    if len(groups) != size:
        raise ModelError(f"There are {size} {what} but {len(groups)} group labels; give one label for each.")
    labels = tuple(dict.fromkeys(groups))
    place = {label: index for index, label in enumerate(labels)}
    return np.array([place[label] for label in groups], dtype=np.int32), labels

"""The Potts model: a table of couplings for each edge and a field for each site, with q states per site.

    p_θ(x) = exp( Σ_{(j,k)∈E} J_jk(x_j, x_k) + Σ_j h_j(x_j) − log Z )

With ``couplings="table"`` every J_jk is a free q × q table. This is over-complete: constants can move between J and
h (the gauge freedom of the model), which does not prevent a fit. With ``couplings="agree"``, J_jk is θ_jk [x_j =
x_k].
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import count_of, one_of, sequence_of, truth_value
from fieldfit.data.alphabet import LazyNames
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import as_table
from fieldfit.inference import FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.ragged import Ragged
from fieldfit.models.field import FieldModel
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.graphs import MOST_VARIABLES, check_edges, grid_edges, grid_size, networkx_edges, pairwise_scopes
from fieldfit.models.memory import refuse_parameters, refuse_tables
from fieldfit.models.potts_blocks import blocks_are_worth_a_kernel, blocks_support
from fieldfit.models.potts_blocks_problem import PottsBlocksProblem
from fieldfit.models.potts_memory import bytes_of_sites, refuse_too_large
from fieldfit.models.potts_problem import PottsProblem, potts_supports, worth_a_kernel
from fieldfit.models.potts_tables import PottsTables
from fieldfit.models.problem import Problem
from fieldfit.models.sum_problem import compile_by
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.properties import cached_property
from fieldfit.types import Arrays, FloatArray, IntArray, ModelError, Plain

if TYPE_CHECKING:
    import networkx
    from scipy.sparse import csr_array


class _Options(TypedDict, total=False):
    """The optional parameters of a Potts model on a grid."""

    couplings: str
    fields: bool
    states: Sequence[object] | None
    names: Sequence[str] | None
    largest_table: int
    precision: str


class _TiedOptions(_Options, total=False):
    """The same on another graph."""

    tied: bool | Sequence[Hashable]


class Potts(FieldModel):
    """Potts model: a pairwise field over sites with q states.

    Parameters
    ----------
    m : int
        Number of sites.
    q : int
        Number of states per site.
    edges : sequence of pairs or None, default: None
        Pairs of sites with couplings. None: all pairs.
    couplings : {"table", "agree"}, default: "table"
        ``"table"`` gives each edge q² parameters. ``"agree"`` gives it one, which counts if both sites have the
        same state.
    fields : bool, default: True
        Whether each site has a field (q parameters).
    tied : bool or sequence, default: False
        True: all edges share their couplings, and all sites share a field. A sequence has a label for each edge;
        edges with equal labels share their couplings.
    states : sequence or None, default: None
        Values of the states. None: 0, 1, …, q − 1.
    names : sequence of str or None, default: None
        Names of the sites. None: the names of the data's columns, or x0, x1, …
    largest_table : int, default: 4194304
        Largest number of table entries in exact sums.
    precision : {"double", "single"}, default: "double"
        Precision of the conditional probabilities of single sites in a fit. ``"single"`` is faster. Its gradient is
        right to about 1e-6 for each sample, so a smaller ``tol`` brings nothing. With a larger one θ differs from the
        estimate in double precision by less than that ``tol`` allows. Log-likelihoods are summed in double precision
        either way.

    Notes
    -----
    The distribution is p_θ(x) = exp(Σ_{(j,k)∈E} J_jk(x_j, x_k) + Σ_j h_j(x_j) − log Z(θ)). With tables, constants
    can move between J and h: single parameters are not identified, but differences that change probabilities are.

    Examples
    --------
    >>> import fieldfit as ff
    >>> list(ff.Potts(3, 2, couplings="agree").parameter_names)
    ['x0:x1', 'x0:x2', 'x1:x2', 'x0=0', 'x0=1', 'x1=0', 'x1=1', 'x2=0', 'x2=1']
    """

    kind = "potts"

    def __init__(
        self,
        m: int,
        q: int,
        edges: Sequence[object] | IntArray | None = None,
        *,
        couplings: str = "table",
        fields: bool = True,
        tied: bool | Sequence[Hashable] = False,
        states: Sequence[object] | None = None,
        names: Sequence[str] | None = None,
        largest_table: int = LARGEST_TABLE,
        precision: str = "double",
    ) -> None:
        m, q = (
            count_of(m, "The number of sites m", 1, MOST_VARIABLES),
            count_of(q, "The number of states q", 2, 10**6),
        )
        one_of(couplings, "couplings", ("table", "agree"), ModelError)
        self.precision = one_of(precision, "precision", ("double", "single"), ModelError)
        states = (
            tuple(range(q)) if states is None else sequence_of(states, "states", f"a list of {q} states, or None")
        )
        if len(states) != q:
            raise ModelError(f"The sites have {q} states, but {len(states)} state values were given.")
        self.q = q
        self.edge_array = check_edges(m, edges)
        self.couplings = couplings
        self.fields = truth_value(fields, "fields")
        self.tied = tied is not False
        n_edges = len(self.edge_array)
        self.edge_labels: tuple[str, ...] | None = None
        self._groups: tuple[str, ...] | None = None
        self.edge_group: IntArray = np.arange(n_edges)
        if tied is not False:
            every = f"True, False or a list of {n_edges} labels, one for each edge"
            labels = [""] * n_edges if tied is True else list(map(str, sequence_of(tied, "tied", every)))
            if len(labels) != n_edges:
                raise ModelError(f"There are {n_edges} edges but {len(labels)} labels; give one for each edge.")
            self.edge_labels, self._groups = tuple(labels), tuple(dict.fromkeys(labels))
            place = {label: index for index, label in enumerate(self._groups)}
            self.edge_group = np.array([place[label] for label in labels], dtype=np.int64)
        refuse_parameters(
            self._count_parameters(m), f"A Potts model of {m:,} sites with {q:,} states and {n_edges:,} edges"
        )
        scopes = Ragged(*pairwise_scopes(self.edge_array, m if self.fields else 0))
        graph = FactorGraph((q,) * m, scopes)
        super().__init__(graph, None, None, names=names, states=[states] * m, largest_table=largest_table)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The pairs (j, k), j < k, that have couplings; `edge_array` holds the same as an array (edges, 2)."""
        return tuple((j, k) for j, k in self.edge_array.tolist())

    @property
    def block(self) -> int:
        """Parameters of one set of couplings: q², or 1 where only agreement counts."""
        return self.q**2 if self.couplings == "table" else 1

    @property
    def mean_groups(self) -> IntArray | None:
        """The field of each site, as a number; None without fields."""
        if self.fields:
            return np.zeros(self.m, dtype=np.int64) if self.tied else np.arange(self.m)
        return None

    @property
    def n_couplings(self) -> int:
        """Number of couplings; in θ the fields follow them."""
        return self.block * (len(self.edge_array) if self._groups is None else len(self._groups))

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""
        return self._count_parameters(self.m)

    def _count_parameters(self, m: int) -> int:
        return self.n_couplings + (self.q * (1 if self.tied else m) if self.fields else 0)

    @property
    def feature_units(self) -> None:
        """None: all features are indicators, of size 1."""

    @cached_property
    def features(self) -> csr_array:
        """Table entries × parameters. Each row has one 1; if only agreement counts, rows of unequal states have none."""
        from scipy.sparse import csr_array

        q, n_edges = self.q, len(self.edge_array)
        entry = np.arange(q * q) if self.couplings == "table" else np.arange(q) * (q + 1)
        feature = np.arange(q * q) if self.couplings == "table" else np.zeros(q, dtype=np.int64)
        rows = [(np.arange(n_edges)[:, None] * q * q + entry).ravel()]
        columns = [(self.edge_group[:, None] * self.block + feature).ravel()]
        if self.fields:
            rows.append(n_edges * q * q + np.arange(self.m * q))
            field_parameter = np.tile(np.arange(q), self.m) if self.tied else np.arange(self.m * q)
            columns.append(self.n_couplings + field_parameter)
        row, column = np.concatenate(rows), np.concatenate(columns)
        shape = (self.graph.table_size, self.n_parameters)
        return csr_array((np.ones(len(row)), (row, column)), shape=shape)

    def log_tables(self, theta: ArrayLike) -> FloatArray:
        """Compute the logarithms of all factor tables, one after the other: couplings, then fields.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.

        Returns
        -------
        ndarray of shape (table entries,)
            θ itself where no tables are shared.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.Potts(2, 2, fields=False).log_tables([0.5, 0.0, 0.0, 1.5])
        array([0.5, 0. , 0. , 1.5])
        """
        checked = self.check_theta(theta)
        if not self.tied and self.couplings == "table":
            return checked
        refuse_tables(self.graph.table_size)
        couplings, fields = self.tables.to_tables(checked)
        return np.concatenate([couplings, fields]) if self.fields else couplings

    @classmethod
    def grid(
        cls, rows: int, columns: int, q: int, *, neighbours: int = 4, tied: bool = False, **options: Unpack[_Options]
    ) -> Potts:
        """Build the model of a rectangular grid.

        Parameters
        ----------
        rows : int
            Number of rows.
        columns : int
            Number of columns.
        q : int
            Number of states per site.
        neighbours : {4, 8}, default: 4
            Neighbours of an inner site. With 8, diagonal neighbours are connected too.
        tied : bool, default: False
            Whether all edges of one direction share their couplings, and all sites share a field.
        **options
            Other parameters of `Potts`.

        Returns
        -------
        Potts
            With the names r0c0, r0c1, …

        Examples
        --------
        >>> import fieldfit as ff
        >>> list(ff.Potts.grid(4, 4, 3, couplings="agree", fields=False, tied=True).parameter_names)
        ['horizontal.agree', 'vertical.agree']
        """
        rows, columns = grid_size(rows, columns)
        edges, directions = grid_edges(rows, columns, neighbours)
        options.setdefault("names", [f"r{i}c{j}" for i in range(rows) for j in range(columns)])
        return cls(rows * columns, q, edges, tied=directions if truth_value(tied, "tied") else False, **options)

    @classmethod
    def from_networkx(cls, graph: networkx.Graph, q: int, **options: Unpack[_TiedOptions]) -> Potts:
        """Build the model of an undirected networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            Its nodes are the sites, and its edges have couplings.
        q : int
            Number of states per site.
        **options
            Other parameters of `Potts`.

        Returns
        -------
        Potts

        Examples
        --------
        >>> import networkx as nx
        >>> import fieldfit as ff
        >>> list(ff.Potts.from_networkx(nx.path_graph(3), 2, couplings="agree", fields=False).parameter_names)
        ['0:1', '1:2']
        """
        edges, names = networkx_edges(graph)
        options.setdefault("names", names)
        return cls(len(names), q, edges, **options)

    @property
    def parameter_names(self) -> Sequence[str]:
        """``a=s:b=t`` for the couplings of sites a and b, ``a=s`` for fields."""
        return PottsNames(self)

    @cached_property
    def tables(self) -> PottsTables:
        """How θ becomes a table of couplings for each edge and a line of fields for each site."""
        return PottsTables(
            m=self.m,
            q=self.q,
            edges=np.ascontiguousarray(self.edge_array, dtype=np.int32),
            edge_group=self.edge_group,
            n_groups=len(self.edge_array) if self._groups is None else len(self._groups),
            agree=self.couplings == "agree",
            fields=self.fields,
            tied=self.tied,
        )

    def refuse_size(self, n: int) -> None:
        """Raise DataError if one evaluation with n samples does not fit into this machine's memory."""
        refuse_too_large(n, self.tables, bytes_of_sites(n, self.tables))

    def compile(self, dataset: Dataset, selection: Selection) -> Problem:
        """Return the problem of one fit. The Potts kernels handle sites and blocks given the rest if they are faster."""
        codes, tables = as_table(dataset).codes, self.tables
        large = (
            not dataset.has_missing and self.q <= 256 and worth_a_kernel(dataset.n, self.m, self.q, self.edge_array)
        )
        single = self.precision == "single"

        def takes_blocks(part: FamilySelection) -> bool:
            supported = large and blocks_support(part, self.q)
            return supported and blocks_are_worth_a_kernel(part, self.q, self.m, dataset.n)

        sites = (
            lambda part: large and potts_supports(part),
            lambda some: PottsProblem(codes, tables, some.parts, single=single),
        )
        blocks = takes_blocks, lambda some: PottsBlocksProblem(codes, tables, some.parts)
        return compile_by([sites, blocks], lambda some: FieldProblem(self.field_arrays, codes, some), selection)

    def specification(self) -> tuple[Plain, Arrays]:
        """Describe the model: the constructor's arguments, and the edges as an array."""
        header: Plain = {
            "m": self.m,
            "q": self.q,
            "couplings": self.couplings,
            "fields": self.fields,
            "edge_labels": None if self.edge_labels is None else list(self.edge_labels),
            "states": list(self.states[0]),
            "names": list(self.names) if self.named else None,
            "largest_table": self.largest_table,
            "precision": self.precision,
        }
        return header, {"edges": self.edge_array}

    @classmethod
    def from_specification(cls, header: Plain, arrays: Arrays) -> Potts:
        """Build the model that `specification` describes."""
        return cls(
            header["m"],
            header["q"],
            arrays["edges"],
            couplings=header["couplings"],
            fields=header["fields"],
            tied=False if header["edge_labels"] is None else header["edge_labels"],
            states=header["states"],
            names=header["names"],
            largest_table=header["largest_table"],
            precision=header["precision"],
        )


class PottsNames(LazyNames):
    """The names of a Potts model's parameters, each created on access: an alignment of proteins has millions."""

    def __init__(self, model: Potts) -> None:
        self._model = model

    def __len__(self) -> int:
        return self._model.n_parameters

    def at(self, place: int) -> str:
        """The name of one parameter."""
        model = self._model
        q, values = model.q, model.states[0]
        if place >= model.n_couplings:
            site, state = divmod(place - model.n_couplings, q)
            return f"{'site' if model.tied else model.names[site]}={values[state]}"
        group, entry = divmod(place, model.block)
        if model._groups is not None:
            label = model._groups[group]
            left, right, whole = f"{label}.a", f"{label}.b", f"{label}.agree"
        else:
            left, right = (model.names[site] for site in model.edge_array[group])
            whole = f"{left}:{right}"
        return whole if model.couplings == "agree" else f"{left}={values[entry // q]}:{right}={values[entry % q]}"

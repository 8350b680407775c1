"""Fields on any graph whose cliques share parameters, with covariates: textures, and conditional fields on graphs.

A group of cliques of one shape has feature functions f_1, …, f_F of their states and covariates z_1, …, z_A of each clique;
its parameters are one weight for each pair of a function and a covariate:

    p_θ(y) = exp( Σ_groups Σ_C Σ_{l,a} θ_{l,a} z_{C,a} f_l(y_C) − log Z(θ) )

The model is conditional on the covariates. θ does not depend on the graph, so that
`TiedField.on` has the same parameters on another graph or with other covariates. Without covariates it is a texture.
Blocks given all the rest are evaluated state by state (`state_problem.py`), everything else by exact elimination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import count_of, has_entries, one_of, real_array, sequence_of, truth_value
from fieldfit.data.dataset import Dataset
from fieldfit.data.labels import checked_states, label_of
from fieldfit.data.samples import as_table
from fieldfit.inference import FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.ragged import Ragged
from fieldfit.models.field import FieldModel
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.graphs import MOST_VARIABLES, check_edges, grid_edges, grid_size
from fieldfit.models.memory import LARGEST_NUMBER
from fieldfit.models.problem import Problem
from fieldfit.models.state_problem import StateProblem, state_supports
from fieldfit.models.sum_problem import compile_by
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.properties import cached_property
from fieldfit.types import Arrays, FloatArray, IntArray, ModelError, Plain

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Cliques:
    """Cliques of one shape that share parameters.

    Parameters
    ----------
    scopes : array_like of int of shape (cliques, k)
        Variables of each clique.
    features : array_like
        Feature functions of the states of a clique: k axes with one entry for each state, and for several functions a
        last axis for them.
    parameters : str or sequence of str
        Names of the parameters: for each function, one for each covariate. Equal names share one parameter.
    covariates : array_like of shape (cliques, covariates) or None, default: None
        Numbers that multiply the functions. None: one covariate, 1.

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> bias = ff.Cliques([[0], [1], [2]], [0.0, 1.0], ["bias", "slope"], [[1, 0.5], [1, 2.0], [1, 0.1]])
    >>> agree = ff.Cliques([[0, 1], [1, 2]], np.eye(2), "agree")
    >>> ff.TiedField(3, [bias, agree]).parameter_names
    ['bias', 'slope', 'agree']
    """

    scopes: Any
    features: Any
    parameters: Sequence[str] | str
    covariates: Any = None

    @property
    def table(self) -> FloatArray:
        """The functions by joint state of a clique, the last variable fastest (q^k, F)."""
        features = np.asarray(self.features)
        return features.reshape(-1, features.shape[-1])


class _Options(TypedDict, total=False):
    """The optional parameters of a field with given cliques."""

    names: Sequence[str] | None
    largest_table: int


class _GridOptions(_Options, total=False):
    """The same, and the names and covariates that `TiedField.pairwise` takes."""

    covariate_names: Sequence[str] | None
    edge_covariates: ArrayLike | None
    edge_covariate_names: Sequence[str] | None


class TiedField(FieldModel):
    """Field on any graph whose cliques share parameters, with or without covariates.

    Parameters
    ----------
    m : int
        Number of variables (sites).
    cliques : sequence of Cliques
        Groups of cliques with their features, covariates and parameters.
    states : sequence, default: (0, 1)
        Values of the states, the same for every variable.
    names : sequence of str or None, default: None
        Names of the variables. None: the names of the data's columns, or x0, x1, …
    largest_table : int, default: 4194304
        Largest number of table entries in exact sums.

    Notes
    -----
    A sample is one labelling of the whole graph, so one image or one field is one row of data. Several graphs are one
    graph in several pieces. See `pairwise` and `grid` for the usual cases.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.TiedField.grid(8, 8)
    >>> model.parameter_names
    ['bias', 'horizontal', 'vertical']
    >>> image = model.sample([-1.0, 0.5, 0.5], 1, random_state=0)
    >>> ff.fit(model, image, "PL1").theta.shape
    (3,)
    """

    kind = "tied"

    def __init__(
        self,
        m: int,
        cliques: Sequence[Cliques],
        states: Sequence[object] = (0, 1),
        *,
        names: Sequence[str] | None = None,
        largest_table: int = LARGEST_TABLE,
    ) -> None:
        m = count_of(m, "The number of variables m", 1, MOST_VARIABLES)
        values = _values(states)
        self.n_labels = len(values)
        if not has_entries(cliques) or not all(isinstance(group, Cliques) for group in cliques):
            raise ModelError(
                f"cliques is {cliques!r:.80}; it must be a list of fieldfit.Cliques, or use TiedField.grid or .pairwise."
            )
        self.groups = tuple(_checked(group, self.n_labels) for group in cliques)
        if not self.groups:
            raise ModelError("A tied field needs at least one group of cliques.")
        self._parameters: dict[str, int] = {}
        #: The parameters of each group (functions, covariates).
        self.numbers: tuple[IntArray, ...] = tuple(
            np.array([self._parameters.setdefault(name, len(self._parameters)) for name in group.parameters]).reshape(
                group.features.shape[-1], group.covariates.shape[1]
            )
            for group in self.groups
        )
        lengths = np.concatenate([np.full(len(g.scopes), g.scopes.shape[1]) for g in self.groups])
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        scopes = Ragged(indptr, np.concatenate([g.scopes.ravel() for g in self.groups]))
        super().__init__(
            FactorGraph((self.n_labels,) * m, scopes),
            None,
            None,
            names=names,
            states=[values] * m,
            largest_table=largest_table,
        )

    @property
    def mean_groups(self) -> IntArray | None:
        """One group of all sites if a group of single sites has a constant and a function for each state but one."""
        for group in self.groups:
            everywhere = group.scopes.shape[1] == 1 and len(np.unique(group.scopes)) == self.m
            if everywhere and (group.covariates == 1.0).all(axis=0).any():
                functions = np.column_stack([np.ones(self.n_labels), group.features.reshape(self.n_labels, -1)])
                if np.linalg.matrix_rank(functions) == self.n_labels:
                    return np.zeros(self.m, dtype=np.int64)
        return None

    # --- the usual graphs ---------------------------------------------------------------------------------------

    @classmethod
    def pairwise(
        cls,
        edges: ArrayLike,
        covariates: ArrayLike | None = None,
        *,
        m: int | None = None,
        states: Sequence[object] = (0, 1),
        coupling: str = "agree",
        covariate_names: Sequence[str] | None = None,
        edge_covariates: ArrayLike | None = None,
        edge_covariate_names: Sequence[str] | None = None,
        edge_groups: Sequence[str] | None = None,
        **options: Unpack[_Options],
    ) -> Self:
        """Build the conditional field of a graph: covariates on its nodes and on its edges.

        Parameters
        ----------
        edges : array_like of int of shape (n_edges, 2)
            Pairs of nodes.
        covariates : array_like of shape (m, covariates) or None, default: None
            Covariates of the nodes. Each state but the first has a bias and a weight for each covariate.
        m : int or None, default: None
            Number of nodes. None: the number of rows of ``covariates``.
        states : sequence, default: (0, 1)
            Values of the states.
        coupling : {"agree", "product"}, default: "agree"
            Feature of an edge: 1 where both states are equal, or the product of two numbers.
        covariate_names, edge_covariate_names : sequence of str or None, default: None
            Names of the covariates. None: z0, z1, … and e0, e1, …
        edge_covariates : array_like of shape (n_edges, covariates) or None, default: None
            Covariates of the edges. The coupling of an edge is a constant plus their weighted sum.
        edge_groups : sequence of str or None, default: None
            A label for each edge. Edges with equal labels share their parameters. None: all edges do.
        **options
            Other parameters of `TiedField`.

        Returns
        -------
        TiedField

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.TiedField.pairwise([(0, 1), (1, 2)], [[0.2], [1.0], [0.4]], covariate_names=["water"])
        >>> model.parameter_names
        ['bias', 'water', 'agree']
        """
        states = _values(states)
        nodes = None if covariates is None else _columns(covariates, "covariates")
        if m is None:
            if nodes is None:
                raise ModelError("Give the number of nodes m, or covariates with one row for each node.")
            m = len(nodes)
        m = count_of(m, "The number of nodes m")
        if nodes is not None and len(nodes) != m:
            raise ModelError(f"The covariates have {len(nodes)} rows; expected one for each of the {m} nodes.")
        pairs = check_edges(m, edges)
        node_names = _covariate_names(covariate_names, 0 if nodes is None else nodes.shape[1], "z", "covariate_names")
        with_one = np.ones((m, 1)) if nodes is None else np.column_stack([np.ones(m), nodes])
        names = ["bias", *node_names]
        if len(states) > 2:
            names = [f"{name}={state}" for state in tuple(states)[1:] for name in names]
        groups = [Cliques(np.arange(m)[:, None], np.eye(len(states))[:, 1:], names, with_one)]
        between = np.ones((len(pairs), 1))
        edge_names = [""]
        if edge_covariates is not None:
            extra = _columns(edge_covariates, "edge_covariates")
            if len(extra) != len(pairs):
                raise ModelError(
                    f"edge_covariates has {len(extra)} rows; expected one for each of {len(pairs)} edges."
                )
            between = np.column_stack([between, extra])
            edge_names += [
                f"*{name}"
                for name in _covariate_names(edge_covariate_names, extra.shape[1], "e", "edge_covariate_names")
            ]
        table = _coupling(coupling, states)
        given = [coupling] * len(pairs) if edge_groups is None else _texts(edge_groups, "edge_groups")
        if len(given) != len(pairs):
            raise ModelError(f"edge_groups has {len(given)} labels; expected one for each of the {len(pairs)} edges.")
        labels = np.array(given, dtype=object)
        kinds = list(dict.fromkeys(labels.tolist()))
        _refuse_repeated([*names, *(label + name for label in kinds for name in edge_names)])
        for label in kinds:
            here = labels == label
            groups.append(Cliques(pairs[here], table, [label + name for name in edge_names], between[here]))
        return cls(m, groups, states, **options)

    @classmethod
    def grid(
        cls,
        rows: int,
        columns: int,
        covariates: ArrayLike | None = None,
        *,
        neighbours: int = 4,
        directions: bool = True,
        triples: bool = False,
        states: Sequence[object] = (0, 1),
        coupling: str = "agree",
        **options: Unpack[_GridOptions],
    ) -> Self:
        """Build the field of a rectangular grid: an image or a field with covariates.

        Parameters
        ----------
        rows, columns : int
            Size of the grid. Site (i, j) is variable i · columns + j.
        covariates : array_like of shape (rows, columns, covariates) or (sites, covariates), or None, default: None
            Covariates of the sites.
        neighbours : {4, 8}, default: 4
            Neighbours of an inner site.
        directions : bool, default: True
            Whether each direction has its own coupling. If not, all directions share one.
        triples : bool, default: False
            Whether each three sites in a row, horizontally and vertically, have a parameter: 1 where all are equal, or
            the product of the three.
        states, coupling, **options
            As in `pairwise`.

        Returns
        -------
        TiedField
            With the names r0c0, r0c1, …

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.TiedField.grid(64, 64, states=(-1, 1), coupling="product", triples=True).parameter_names
        ['bias', 'horizontal', 'vertical', 'triple']
        """
        rows, columns = grid_size(rows, columns)
        directions, triples = truth_value(directions, "directions"), truth_value(triples, "triples")
        edges, labels = grid_edges(rows, columns, neighbours)
        if covariates is not None:
            array = _array(covariates, "covariates must be numbers, code categories as 0 and 1 first")
            covariates = array.reshape(rows * columns, -1) if array.shape[:2] == (rows, columns) else array
        options.setdefault("names", [f"r{i}c{j}" for i in range(rows) for j in range(columns)])
        names, largest = options.pop("names"), options.pop("largest_table", LARGEST_TABLE)
        model = cls.pairwise(
            edges,
            covariates,
            m=rows * columns,
            states=states,
            coupling=coupling,
            edge_groups=labels if directions else None,
            **options,
        )
        groups = list(model.groups)
        if triples:
            sites = np.arange(rows * columns).reshape(rows, columns)
            lines = [(sites[:, :-2], sites[:, 1:-1], sites[:, 2:]), (sites[:-2], sites[1:-1], sites[2:])]
            scopes = np.concatenate([np.stack([part.ravel() for part in line], axis=1) for line in lines])
            _refuse_repeated([*model.parameter_names, "triple"])
            groups.append(Cliques(scopes, _coupling(coupling, states, 3), "triple"))
        return cls(rows * columns, groups, states, names=names, largest_table=largest)

    def as_tied(self, what: str) -> TiedField:
        """The model itself."""
        del what
        return self

    def on(self, m: int, cliques: Sequence[Cliques]) -> TiedField:
        """Build the field with the same parameters and states on another graph, or with other covariates.

        Parameters
        ----------
        m : int
            Number of variables.
        cliques : sequence of Cliques
            Groups of cliques. Their parameters must be those of this field.

        Returns
        -------
        TiedField
            Its θ is in the order of this field's.

        Examples
        --------
        >>> import fieldfit as ff
        >>> small = ff.TiedField.grid(3, 3)
        >>> large = ff.TiedField.grid(30, 30)
        >>> small.on(900, large.groups).parameter_names
        ['bias', 'horizontal', 'vertical']
        """
        other = TiedField(m, cliques, self.states[0], largest_table=self.largest_table)
        foreign = [name for name in other._parameters if name not in self._parameters]
        if foreign:
            raise ModelError(
                f"The other graph has the parameter {foreign[0]!r:.80}, which this field does not: it has "
                f"{', '.join(self._parameters)}."
            )
        other._order(self._parameters)
        return other

    def _order(self, parameters: Mapping[str, int]) -> None:
        """Number the parameters as in another field, which may have more."""
        rank = np.array([parameters[name] for name in self._parameters], dtype=np.int64)
        self.numbers = tuple(rank[numbers] for numbers in self.numbers)
        self._parameters = dict(parameters)

    # --- features -----------------------------------------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""
        return len(self._parameters)

    @property
    def parameter_names(self) -> Sequence[str]:
        """Names of the parameters, in order of first appearance."""
        return list(self._parameters)

    @cached_property
    def features(self) -> csr_array:
        """Table entries × parameters: functions times covariates."""
        from scipy.sparse import coo_array

        rows, columns, values = [], [], []
        start = 0
        for group, numbers in zip(self.groups, self.numbers, strict=True):
            table = group.table
            entry, function = np.nonzero(table)
            # (cliques, entries, covariates)
            shape = (len(group.scopes), len(entry), group.covariates.shape[1])
            first = start + len(table) * np.arange(len(group.scopes))
            rows.append(np.broadcast_to((first[:, None] + entry)[:, :, None], shape).ravel())
            columns.append(np.broadcast_to(numbers[function], shape).ravel())
            values.append((table[entry, function][None, :, None] * group.covariates[:, None, :]).ravel())
            start += len(table) * len(group.scopes)
        flat = (np.concatenate(rows), np.concatenate(columns))
        matrix = coo_array((np.concatenate(values), flat), shape=(start, self.n_parameters)).tocsr()
        matrix.eliminate_zeros()
        return matrix

    @cached_property
    def feature_units(self) -> FloatArray | None:
        """The power of two nearest to the largest absolute value of each feature; None where all are 1."""
        sizes = np.zeros(self.n_parameters)
        for group, numbers in zip(self.groups, self.numbers, strict=True):
            functions = np.abs(group.table).max(axis=0)
            covariates = np.abs(group.covariates).max(axis=0, initial=0.0)
            np.maximum.at(sizes, numbers, np.outer(functions, covariates))
        units: FloatArray = np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0))))
        return units if np.any(units != 1.0) else None

    # --- problems -----------------------------------------------------------------------------------------------

    def compile(self, dataset: Dataset, selection: Selection) -> Problem:
        """Compile model, data and selection: small blocks given the rest state by state, all else by elimination."""
        codes = as_table(dataset).codes

        def is_fast(part: FamilySelection) -> bool:
            return not dataset.has_missing and state_supports(part, self.n_labels)

        kernels = [(is_fast, partial(StateProblem, self, codes))]
        return compile_by(kernels, lambda some: FieldProblem(self.field_arrays, codes, some), selection)

    # --- files --------------------------------------------------------------------------------------------------

    def specification(self) -> tuple[Plain, Arrays]:
        """Describe the model: states and names as JSON values, cliques as arrays."""
        arrays: Arrays = {}
        for index, group in enumerate(self.groups):
            arrays[f"scopes{index}"] = group.scopes
            arrays[f"features{index}"] = group.features
            arrays[f"covariates{index}"] = group.covariates
        header: Plain = {
            "m": self.m,
            "states": list(self.states[0]),
            "parameters": [list(group.parameters) for group in self.groups],
            "order": list(self._parameters),
            "names": list(self.names) if self.named else None,
            "largest_table": self.largest_table,
        }
        return header, arrays

    @classmethod
    def from_specification(cls, header: Plain, arrays: Arrays) -> TiedField:
        """Build the model that `specification` describes."""
        groups = [
            Cliques(arrays[f"scopes{index}"], arrays[f"features{index}"], names, arrays[f"covariates{index}"])
            for index, names in enumerate(header["parameters"])
        ]
        model = cls(
            header["m"], groups, header["states"], names=header["names"], largest_table=header["largest_table"]
        )
        order = {name: number for number, name in enumerate(header["order"])}
        if len(order) != len(header["order"]) or not all(isinstance(name, str) for name in order):
            raise ModelError("The order of the parameters has a name twice, or one that is not text.")
        model._order(order)
        return model


def _checked(group: Cliques, q: int) -> Cliques:
    """Check the group and convert it to arrays: scopes (C, k), features (q, …, q, F), covariates (C, A), F·A names."""
    if not has_entries(group.parameters):
        raise ModelError(
            f"A group of cliques has the parameters {group.parameters!r:.80}; give a name or a list of names."
        )
    names = (group.parameters,) if isinstance(group.parameters, str) else tuple(map(str, group.parameters))
    title = f"The cliques of {names[0]!r}" if names else "A group of cliques"
    scopes = _array(group.scopes, f"{title} have scopes that are not a table of integers")
    if not np.array_equal(scopes, np.rint(scopes)):
        raise ModelError(f"{title} have scopes that are not integers; a scope is the numbers of its variables.")
    scopes = scopes.astype(np.int64)
    if scopes.ndim != 2 or scopes.shape[1] < 1:
        raise ModelError(f"{title} have scopes of shape {scopes.shape}; expected (cliques, variables of each).")
    k = scopes.shape[1]
    features = _array(group.features, f"{title} have features that are not a table of numbers")
    if features.shape[:k] != (q,) * k or features.ndim > k + 1:
        raise ModelError(
            f"{title} have features of shape {features.shape}; with {q} states and {k} variables expected "
            f"{(q,) * k}, or {(q,) * k} and a last axis for the functions."
        )
    features = features.reshape(*(q,) * k, -1)
    covariates = np.ones((len(scopes), 1))
    if group.covariates is not None:
        covariates = _array(group.covariates, f"{title} have covariates that are not a table of numbers")
    if covariates.ndim == 1:
        covariates = covariates[:, None]
    if covariates.ndim != 2 or len(covariates) != len(scopes):
        raise ModelError(
            f"{title} have covariates of shape {covariates.shape}; expected one row for each of the {len(scopes)} "
            "cliques."
        )
    if not (np.isfinite(features).all() and np.isfinite(covariates).all()):
        raise ModelError(f"{title} have a feature or covariate that is not finite. Drop or impute missing ones.")
    if float(np.abs(features).max(initial=0.0)) * float(np.abs(covariates).max(initial=0.0)) > LARGEST_NUMBER:
        raise ModelError(
            f"{title} have a feature times a covariate beyond ±{LARGEST_NUMBER:g}. Give smaller numbers."
        )
    if len(names) != features.shape[-1] * covariates.shape[1]:
        raise ModelError(
            f"{title} have {features.shape[-1]} functions and {covariates.shape[1]} covariates but {len(names)} names "
            "of parameters; give one for each pair, the covariate fastest."
        )
    return Cliques(scopes, features, names, np.ascontiguousarray(covariates))


def _values(states: Sequence[object]) -> tuple[object, ...]:
    """The values of the states."""
    if isinstance(states, str) or not has_entries(states):
        raise ModelError(f"states is {states!r:.80}; it must be a list of values, such as (0, 1).")
    return checked_states(states, "a tied field")


def _array(values: ArrayLike, problem: str) -> FloatArray:
    """Convert numbers to an array, or raise ModelError."""
    try:
        return real_array(values)
    except (TypeError, ValueError):
        raise ModelError(f"{problem}; got {values!r:.80}.") from None


def _columns(values: ArrayLike, what: str) -> FloatArray:
    """Covariates as a matrix (rows, covariates)."""
    array = _array(values, f"{what} must be numbers, code categories as 0 and 1 first")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise ModelError(f"{what} has shape {array.shape}; expected one row for each node or edge.")
    return array


def _covariate_names(names: Sequence[str] | None, count: int, letter: str, what: str) -> list[str]:
    if names is None:
        return [f"{letter}{number}" for number in range(count)]
    texts = _texts(names, what)
    if len(texts) != count or len(set(texts)) != count:
        raise ModelError(f"{what} has {len(texts)} names; expected {count}, all different.")
    return texts


def _texts(values: object, what: str) -> list[str]:
    """Names or labels as texts; lists and other things that have no plain text are none."""
    return [_text(value, what) for value in sequence_of(values, what, "a list of names")]


def _text(value: object, what: str) -> str:
    try:
        label = label_of(value)
    except ValueError as error:
        raise ModelError(f"{what} has {value!r:.80}: {error}.") from None
    if label is None:
        raise ModelError(f"{what} has {value!r:.80}; names are texts or numbers.")
    return str(label)


def _refuse_repeated(names: Sequence[str]) -> None:
    """Raise ModelError if two parameters have the same name, which would tie them."""
    if len(set(names)) < len(names):
        name = next(name for place, name in enumerate(names) if name in names[:place])
        raise ModelError(
            f"Two parameters have the name {name!r:.80}: a covariate, the bias, or a group of edges. Rename the "
            "covariate or the group."
        )


def _coupling(coupling: str, states: Sequence[object], k: int = 2) -> FloatArray:
    """The feature of k sites: 1 where their states are equal, or the product of the states."""
    if one_of(coupling, "coupling", ("agree", "product"), ModelError) == "agree":
        digits = np.indices((len(states),) * k)
        return np.asarray((digits == digits[0]).all(axis=0), dtype=np.float64)
    if not all(isinstance(state, int | float | np.integer | np.floating) for state in states):
        raise ModelError(f"A coupling 'product' needs states that are numbers; got {list(states)}. Use 'agree'.")
    values = np.array(states, dtype=np.float64)
    product = values
    for _ in range(k - 1):
        product = np.multiply.outer(product, values)
    return product

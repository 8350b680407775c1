"""Discrete fields: everything that any Markov random field on tables can do, exactly where the width allows.

    p_θ(x) = exp( Σ_C log φ_C(x_C) − log Z(θ) ),    log φ = F θ + offset                          (Section 5)

Every field model (`MarkovRandomField`, `BoltzmannMachine`, `Potts`) builds its factor graph and its feature matrix F
(table entries × parameters) and inherits the rest; what it can do faster, it overrides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldfit.arguments import count_of, seed
from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import fingerprint
from fieldfit.data.outline import TableOutline
from fieldfit.data.samples import Table, as_table
from fieldfit.inference import ExactInference, FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.gibbs import BURN_IN, CHAINS, THIN, gibbs_sample
from fieldfit.inference.ragged import Ragged
from fieldfit.models import cost, field_candidates, identification
from fieldfit.models.base import Draws, Model, Problem
from fieldfit.models.boundary import boundary_directions
from fieldfit.models.couplings import Couplings, pair_couplings
from fieldfit.models.field_compiler import FieldArrays
from fieldfit.models.field_expectations import expected_states
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.located import LocatedScores
from fieldfit.named import variables_of
from fieldfit.policies.families import Components
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import FieldStructure
from fieldfit.types import Array, BoolArray, DataError, FloatArray, Int32Array, IntArray, ModelError, WidthError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def _checked_labels(labels: Sequence[object]) -> tuple[object, ...]:
    """The labels of a variable's states as given; ModelError where they are not plain and different."""
    if isinstance(labels, str) or not all(
        isinstance(label, str | bool | int | float | np.generic) for label in labels
    ):
        raise ModelError(f"The states of a variable are numbers or texts; got {labels!r:.80}.")
    return tuple(labels)


def checked_names(names: object, m: int) -> tuple[str, ...]:
    """One name for each of ``m`` variables, all different."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ModelError(f"names must be a list with one name for each of the {m} variables; got {names!r}.")
    checked = tuple(map(str, names))
    if len(checked) != m or len(set(checked)) != m:
        raise ModelError(f"The {m} variables need {m} different names; got {list(checked)}.")
    return checked


class FieldModel(Model):
    """A discrete Markov random field: the base class of `BoltzmannMachine`, `Potts` and `MarkovRandomField`.

    ``observed`` are the variables that the model conditions on. A model that makes its features only when the
    general engine needs them passes None for ``features`` and overrides the property.
    """

    def __init__(
        self,
        graph: FactorGraph,
        features: csr_array | None,
        offset: FloatArray | None,
        *,
        names: Sequence[str] | None,
        states: Sequence[Sequence[object]],
        observed: Sequence[int] = (),
        largest_table: int = LARGEST_TABLE,
    ) -> None:
        self.graph = graph
        self._features = features
        self.offset = offset
        self.observed = tuple(sorted(observed))
        self.largest_table = count_of(largest_table, "largest_table")
        self.m = graph.n_variables  # the number of variables
        # All variables may share one list, which is checked once.
        distinct = {id(labels): labels for labels in states}
        checked = {key: _checked_labels(labels) for key, labels in distinct.items()}
        self.states = tuple(checked[id(labels)] for labels in states)
        self._name(names if names is not None else [f"x{v}" for v in range(self.m)])
        self.named = names is not None
        for variable in self.observed:
            if not 0 <= variable < self.m:
                raise ModelError(
                    f"The model conditions on variable {variable}, but the variables are 0 to {self.m - 1}."
                )

    def sizes(self) -> dict[str, int]:
        """Variables, those that are observed, and parameters."""
        observed = {"observed": len(self.observed)} if self.observed else {}
        return {"variables": self.m, **observed, **super().sizes()}

    def _name(self, names: Sequence[str]) -> None:
        self.names = checked_names(names, self.m)
        self.named = True

    def with_names(self, names: Sequence[str]) -> Self:
        """Return the same model with other names for its variables.

        Parameters
        ----------
        names : sequence of str
            One name for each variable, all different.

        Returns
        -------
        FieldModel

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2).with_names(["age", "vote"]).parameter_names
        ['age:vote']
        """
        named = copy(self)
        named._name(names)
        return named

    @cached_property
    def features(self) -> csr_array:
        """The feature matrix F (table entries, parameters)."""
        assert self._features is not None
        return self._features

    @property
    def n_parameters(self) -> int:
        """Number of parameters r, the length of θ."""
        return int(self.features.shape[1])

    @cached_property
    def feature_units(self) -> FloatArray | None:
        """The power of two nearest to the largest absolute value of each feature; None where all are 1."""
        sizes = np.zeros(self.n_parameters)
        np.maximum.at(sizes, self.features.indices, np.abs(self.features.data))
        units: FloatArray = np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0))))
        return units if np.any(units != 1.0) else None

    # --- data ---------------------------------------------------------------------------------------------------

    def read(
        self,
        data: object,
        *,
        sample_weight: ArrayLike | str | None = None,
        weight_kind: str = "importance",
        groups: ArrayLike | str | None = None,
    ) -> Table:
        """Read a table of samples and check its values against the variables and states of the model.

        Parameters
        ----------
        data : array_like, DataFrame, str, Path or Table
            Samples in rows and variables in columns. A string is the path of a CSV or TSV file. NaN is missing.
        sample_weight : array_like, str or None, default: None
            Weight of each row, or the name of the column with the weights.
        weight_kind : {"importance", "counts"}, default: "importance"
            Whether a weight multiplies the log-likelihood of the row or is a number of copies.
        groups : array_like, str or None, default: None
            Group of each row, or the name of the column with the groups. Samples of one group may depend on each other.

        Returns
        -------
        Table
            Codes of the states; −1 is missing.

        Examples
        --------
        >>> import fieldfit as ff
        >>> table = ff.BoltzmannMachine(2, states=(-1, 1)).read([[-1, 1], [1, 1]])
        >>> table.codes.tolist()
        [[0, 1], [1, 1]]
        """
        from fieldfit.data.table import read_table

        return read_table(
            data,
            states=self.states,
            names=self.names if self.named else None,
            sample_weight=sample_weight,
            weight_kind=weight_kind,
            groups=groups,
            rename=False,
        )

    def read_new(self, data: object) -> Table:
        """Read samples that are not used in a fit. A variable may be missing in all of them.

        Parameters
        ----------
        data : array_like, DataFrame, str, Path or Table
            Samples, as in `read`.

        Returns
        -------
        Table
            Codes of the states; −1 is missing.

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2).read_new([[0, np.nan]]).codes.tolist()
        [[0, -1]]
        """
        from fieldfit.data.table import read_table

        names = self.names if self.named else None
        return read_table(data, states=self.states, names=names, allow_missing_columns=True, rename=False)

    def read_file(
        self,
        path: Path,
        *,
        sample_weight: str | None = None,
        weight_kind: str = "importance",
        groups: str | None = None,
        header: bool | None = None,
    ) -> Table:
        """Read a CSV or TSV file. ``sample_weight`` and ``groups`` name columns.

        ``header`` says whether line 1 has names (None: auto-detect).
        """
        from fieldfit.data.table import read_table

        return read_table(
            path,
            states=self.states,
            names=self.names if self.named else None,
            sample_weight=sample_weight,
            weight_kind=weight_kind,
            groups=groups,
            header=header,
            rename=False,
        )

    def read_piece(self, data: object, *, sample_weight: str | None, weight_kind: str) -> Table:
        """The samples of one piece, with the model's states, or as they are where they have them."""
        from fieldfit.data.table import read_table

        if isinstance(data, Table) and data.states == tuple(map(tuple, self.states)) and not self.named:
            return data
        return read_table(
            data,
            states=self.states,
            names=self.names if self.named else None,
            sample_weight=sample_weight,
            weight_kind=data.weight_kind if isinstance(data, Table) else weight_kind,
            part=True,
            rename=False,
        )

    def outline(self, dataset: Dataset) -> TableOutline:
        """Names, states and ranges of the columns."""
        return TableOutline.of(as_table(dataset))

    def as_field(self, what: str) -> FieldModel:
        """The model itself."""
        del what
        return self

    def state_functions(self) -> tuple[FloatArray, ...]:
        """For each variable the functions (states, k) of its state that span all functions, together with 1."""
        return tuple(np.eye(cardinality)[:, 1:] for cardinality in self.graph.cardinalities)

    def statistics(self, codes: Int32Array) -> FloatArray:
        """The sufficient statistics Σ_C f_C(x_C) of complete states ``codes`` (n, m): (n, n_parameters)."""
        from scipy.sparse import csr_array

        entries = self.graph.entries(codes)
        pointer = np.arange(len(codes) + 1) * entries.shape[1]
        shape = (len(codes), self.graph.table_size)
        counts = csr_array((np.ones(entries.size), entries.ravel(), pointer), shape=shape)
        totals: FloatArray = (counts @ self.features).toarray()
        return totals

    @property
    def joint(self) -> bool:
        """Whether the model conditions on no variable."""
        return not self.observed

    def all_samples(self, most: int) -> Table | None:
        """Every possible joint state, the last variable fastest; None with more than ``most`` states."""
        if math.prod(self.graph.cardinalities) > most:
            return None
        return Table(self.possible_states(), self.names, self.states)

    def possible_states(self) -> Int32Array:
        """The codes of all joint states that the model does not forbid, the last variable fastest."""
        codes = self.graph.all_states()
        if self.offset is None or np.isfinite(self.offset).all():
            return codes
        return np.ascontiguousarray(codes[np.isfinite(self.offset[self.graph.entries(codes)]).all(axis=1)])

    def expected_states(
        self, theta: FloatArray, dataset: Dataset, most: int
    ) -> tuple[Table, FloatArray, FloatArray] | None:
        """All states given what is observed of each sample, with the sums of w p and of w² p."""
        return expected_states(self, theta, dataset, most)

    selection_cost = cost.selection_cost
    sample_flops = cost.sample_flops
    candidate_policies = field_candidates.candidate_policies
    states_at_once = field_candidates.states_at_once
    refuse_constant = identification.refuse_constant
    check_estimable = identification.check_estimable
    determined_contrasts = identification.determined_contrasts

    def boundary_directions(self, dataset: Dataset) -> csr_array | None:
        """Directions of θ (k, r) along which the samples never turn back; None without any, and for samples in pieces."""
        return None if dataset.in_pieces else boundary_directions(self, as_table(dataset))

    @property
    def n_states(self) -> float:
        """The number of joint states; infinite where the model conditions on some variables."""
        return math.prod(map(float, self.graph.cardinalities)) if self.joint else math.inf

    def weighted_samples(self, theta: FloatArray) -> tuple[Table, FloatArray]:
        """Every joint state with its probability."""
        codes, probability = self.joint_probabilities(theta)
        return Table(codes, self.names, self.states), probability

    def complete(self, dataset: Dataset) -> Self:
        """Return the model with the names of the data's columns, unless it has names already."""
        return self if self.named else self.with_names(as_table(dataset).names)

    def structure(self, dataset: Dataset | None = None) -> FieldStructure:
        """Return the variables, the graph and the conditioning variables, as policies need them."""
        return FieldStructure(self.m, self.graph.neighbours, self.observed)

    def fingerprint(self, dataset: Dataset) -> str:
        """Return a short name for what the model explains of the samples: not what it conditions on."""
        return fingerprint(dataset, given=self.observed)

    def compile(self, dataset: Dataset, selection: Selection) -> Problem:
        """Compile model, data and selection to read-only arrays. Supports any component and missing values."""
        problem = FieldProblem(self.field_arrays, as_table(dataset).codes, selection)
        problem.refuse_forbidden()
        return problem

    @property
    def has_free_tables(self) -> bool:
        """Whether each parameter is one entry of one table."""
        return bool(self.features.nnz == self.n_parameters)

    @property
    def has_graph(self) -> bool:
        """Always."""
        return True

    def located_scores(
        self, problem: Problem, dataset: Dataset, selection: Selection, theta: FloatArray
    ) -> tuple[LocatedScores, Ragged]:
        """Terms from ``problem``, or from the general one where it does not know them one by one."""
        found = problem.located_scores(theta)
        if found is None:
            found = FieldProblem(self.field_arrays, as_table(dataset).codes, selection).located_scores(theta)
        return found, self.graph.neighbours

    @cached_property
    def field_arrays(self) -> FieldArrays:
        """Graph and features in the form of the general problem."""
        return FieldArrays(self.graph, self.features, self.offset, self.largest_table)

    # --- exact inference ----------------------------------------------------------------------------------------

    @cached_property
    def exact(self) -> ExactInference:
        """Exact inference over the whole graph. Raises WidthError if the graph is too wide."""
        return ExactInference(self.graph, name="The full field", largest_table=self.largest_table)

    def log_tables(self, theta: ArrayLike) -> FloatArray:
        """Compute log φ at θ, the log tables of all factors in one array.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.

        Returns
        -------
        ndarray of shape (table entries,)

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2).log_tables([1.5])
        array([0. , 0. , 0. , 1.5])
        """
        return self.field_arrays.log_tables(self.check_theta(theta))

    def coupling_matrix(self, theta: ArrayLike) -> Couplings:
        """Compute how strongly each pair of variables is coupled; see `Couplings`."""
        return pair_couplings(self.graph, self.log_tables(theta), tuple(self.names), self.coupling_unit)

    @property
    def coupling_parameters(self) -> BoolArray:
        """Which parameters (r,) belong to factors of at least two variables."""
        sizes = np.array([len(scope) for scope in self.graph.scopes])
        entries = np.repeat(sizes > 1, np.diff(self.graph.offsets))
        used = self.features[np.flatnonzero(entries)].indices
        return np.bincount(used, minlength=self.n_parameters) > 0

    @property
    def coupling_groups(self) -> IntArray:
        """The table of couplings that each parameter (r,) belongs to, as a number; −1 for biases and fields.

        Parameters of one factor of at least two variables are in one table, and so are factors that share a parameter.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        factors = len(self.graph.scopes)
        factor = np.repeat(np.arange(factors), np.diff(self.graph.offsets))
        entries = self.features.tocoo()
        owner, parameter = factor[entries.row], entries.col
        kept = np.array([len(scope) for scope in self.graph.scopes])[owner] > 1
        pairs = np.ones(int(kept.sum()), dtype=np.int8), (owner[kept], factors + parameter[kept])
        size = factors + self.n_parameters
        groups = connected_components(csr_array(pairs, shape=(size, size)), directed=False)[1][factors:]
        return np.where(self.coupling_parameters, groups, -1).astype(np.int64)

    @property
    def coupling_unit(self) -> float:
        """What a coupling of two binary variables is divided by: 1, so that it is a log odds ratio."""
        return 1.0

    def log_partition(self, theta: ArrayLike, evidence: object = None) -> float:
        """Compute the log-partition function log Z(θ).

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        evidence : dict, sequence or None, default: None
            A mapping from variables (names or numbers) to states, or one state (None if free) for each variable.
            The sum is then over the states that agree with the evidence.

        Returns
        -------
        float

        Raises
        ------
        WidthError
            If the graph is too wide for exact sums.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(2)
        >>> round(model.log_partition([1.0]), 4), round(model.log_partition([1.0], {"x0": 1}), 4)
        (1.7437, 1.3133)
        """
        return self.exact.log_partition(self.log_tables(theta), self._evidence(evidence))

    def joint_probabilities(self, theta: ArrayLike) -> tuple[Int32Array, FloatArray]:
        """List all joint states with their probabilities. For small models.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.

        Returns
        -------
        codes : ndarray of shape (states, m)
            All joint states that the model does not forbid.
        probabilities : ndarray of shape (states,)

        Examples
        --------
        >>> import fieldfit as ff
        >>> codes, probabilities = ff.BoltzmannMachine(2).joint_probabilities([1.0])
        >>> codes.tolist(), probabilities.round(3).tolist()
        ([[0, 0], [0, 1], [1, 0], [1, 1]], [0.175, 0.175, 0.175, 0.475])
        """
        codes = self.possible_states()
        logs = self.log_tables(theta)[self.graph.entries(codes)].sum(axis=1)
        weights = np.exp(logs - logs.max())
        return codes, weights / weights.sum()

    def marginals(self, theta: ArrayLike, evidence: object = None) -> list[FloatArray]:
        """Compute p(x_j | evidence) for every variable.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        evidence : dict, sequence or None, default: None
            Known states, as in `log_partition`.

        Returns
        -------
        list of ndarray
            For each variable, the probability of each state.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(2)
        >>> [p.round(3).tolist() for p in model.marginals([1.0], {"x0": 1})]
        [[0.0, 1.0], [0.269, 0.731]]
        """
        tables, clamped = self.log_tables(theta), self._evidence(evidence)
        flat = self.exact.marginals(tables, clamped)
        result = []
        for variable, cardinality in enumerate(self.graph.cardinalities):
            if clamped is not None and clamped[variable] >= 0:
                vector = np.zeros(cardinality)
                vector[clamped[variable]] = 1.0
            elif self.graph.factors_of[variable]:
                factor = self.graph.factors_of[variable][0]
                scope = self.graph.scopes[factor]
                table = flat[self.graph.offsets[factor] : self.graph.offsets[factor + 1]]
                shaped = table.reshape([self.graph.cardinalities[v] for v in scope])
                vector = shaped.sum(axis=tuple(a for a, v in enumerate(scope) if v != variable))
            else:
                vector = np.full(cardinality, 1.0 / cardinality)
            result.append(vector)
        return result

    def clique_marginals(self, theta: ArrayLike, evidence: object = None) -> list[FloatArray]:
        """Compute p(x_C | evidence) for every factor.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        evidence : dict, sequence or None, default: None
            Known states, as in `log_partition`.

        Returns
        -------
        list of ndarray
            For each factor, an array with one axis for each variable of its scope.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2).clique_marginals([1.0])[0].round(3)
        array([[0.175, 0.175],
               [0.175, 0.475]])
        """
        flat = self.exact.marginals(self.log_tables(theta), self._evidence(evidence))
        return [
            flat[self.graph.offsets[f] : self.graph.offsets[f + 1]].reshape(
                [self.graph.cardinalities[v] for v in scope]
            )
            for f, scope in enumerate(self.graph.scopes)
        ]

    def map_state(self, theta: ArrayLike, evidence: object = None) -> Array:
        """Find the most probable joint state given the evidence.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        evidence : dict, sequence or None, default: None
            Known states, as in `log_partition`.

        Returns
        -------
        ndarray of shape (m,)
            In the values of the states, not codes.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2, states=(-1, 1)).map_state([-2.0], {"x0": 1})
        array([ 1, -1])
        """
        codes, _ = self.exact.best_state(self.log_tables(theta), self._evidence(evidence))
        values: Array = self.decode(codes[None, :])[0]
        return values

    def conditional(
        self,
        theta: ArrayLike,
        x: object,
        target: Sequence[int | str] | str,
        given: Sequence[int | str] | str = (),
    ) -> FloatArray:
        """Compute the log-likelihood component S_θ(A, B) = log p_θ(x_A | x_B) of each sample.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        x : array_like, DataFrame or Table
            Samples, as in `read`.
        target : str or sequence of str or int
            The variables A, by name or number.
        given : str or sequence of str or int, default: ()
            The variables B. Variables in neither set are summed out.

        Returns
        -------
        ndarray of shape (n,)

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2).conditional([1.0], [[0, 1], [1, 1]], target="x0", given="x1").round(4)
        array([-1.3133, -0.3133])
        """
        theta = self.check_theta(theta)
        table = self.read_new(x)
        component = (variables_of(target, self.names), variables_of(given, self.names))
        family = self.structure().bind_family(Components((component,)))
        selection = Selection(len(table.codes), (FamilySelection(family, 1.0),))
        return FieldProblem(self.field_arrays, table.codes, selection).row_values(theta)

    def sample(
        self,
        theta: ArrayLike,
        n: int,
        random_state: int = 0,
        *,
        evidence: object = None,
        method: str = "auto",
        burn_in: int = BURN_IN,
        thin: int = THIN,
    ) -> Draws:
        """Draw samples from p_θ.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        n : int
            Number of samples.
        random_state : int, default: 0
            Seed.
        evidence : dict, sequence or None, default: None
            Known states, as in `log_partition`. The other variables are drawn given these.
        method : {"auto", "exact", "gibbs"}, default: "auto"
            ``"auto"`` draws exact, independent samples if the graph is narrow enough, and otherwise uses Gibbs
            sampling.
        burn_in : int, default: 1000
            Gibbs sweeps before the first draw of each chain.
        thin : int, default: 10
            Gibbs sweeps between two draws of a chain.

        Returns
        -------
        Draws
            ``values`` has shape (n, m); ``method`` and ``note`` describe how they were drawn.

        Examples
        --------
        >>> import fieldfit as ff
        >>> draws = ff.BoltzmannMachine(2).sample([1.0], 1000, random_state=0)
        >>> draws.method, draws.values.shape
        ('exact', (1000, 2))
        """
        n, random_state = count_of(n, "The number of samples n", 0), seed(random_state)
        tables, clamped = self.log_tables(theta), self._evidence(evidence)
        if method not in ("auto", "exact", "gibbs"):
            raise ModelError(f"The sampling method is {method!r}; it must be 'auto', 'exact' or 'gibbs'.")
        if self.observed and (clamped is None or np.any(clamped[list(self.observed)] < 0)):
            raise ModelError("This model conditions on some variables; give their values as evidence.")
        if method != "gibbs":
            try:
                codes = self.exact.sample(tables, n, random_state, evidence=clamped)
                return Draws(self.decode(codes), codes, "exact", note="independent exact draws")
            except WidthError:
                if method == "exact":
                    raise
        codes = gibbs_sample(self.graph, tables, n, random_state, evidence=clamped, burn_in=burn_in, thin=thin)
        note = f"Gibbs sampling: {min(CHAINS, n)} chains, {burn_in} sweeps of burn-in, a draw every {thin} sweeps"
        return Draws(self.decode(codes), codes, "gibbs", burn_in, note)

    def simulate(self, dataset: Dataset, theta: ArrayLike, random_state: int = 0) -> Table:
        """Draw the modelled variables from p_θ. Conditioning variables and missing values stay the same."""
        from dataclasses import replace

        table, tables = as_table(dataset), self.log_tables(theta)
        missing = table.codes < 0
        codes = np.empty_like(table.codes)
        observed = list(self.observed)
        if not observed:
            codes = self.sample(theta, table.n, random_state).codes.copy()
        else:
            if missing[:, observed].any():
                raise DataError(
                    "Some samples lack a value of a variable that the model conditions on; they cannot be simulated."
                )
            lines, which = np.unique(table.codes[:, observed], axis=0, return_inverse=True)
            evidence = np.full(self.m, -1, dtype=np.int32)
            for number, line in enumerate(lines):
                rows = np.flatnonzero(which.reshape(-1) == number)
                evidence[observed] = line
                codes[rows] = self.exact.sample(tables, len(rows), random_state, stream=number, evidence=evidence)
        codes[missing] = -1
        return replace(table, codes=np.ascontiguousarray(codes))

    # --- states and evidence ------------------------------------------------------------------------------------

    def decode(self, codes: Array) -> Array:
        """Convert codes to the values of the states.

        Parameters
        ----------
        codes : ndarray of shape (n, m)
            Codes of the states, 0, 1, …

        Returns
        -------
        ndarray of shape (n, m)

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2, states=(-1, 1)).decode(np.array([[0, 1]]))
        array([[-1,  1]])
        """
        columns = [np.array(self.states[v])[codes[:, v]] for v in range(self.m)]
        return np.stack(columns, axis=1) if columns else np.empty((len(codes), 0))

    def _evidence(self, evidence: object) -> NDArray[np.int32] | None:
        """Evidence as codes: None, a mapping {name or number: state}, or a sequence with None or NaN where free."""
        if evidence is None:
            return None
        codes = np.full(self.m, -1, dtype=np.int32)
        if isinstance(evidence, dict):
            items = [(variables_of([k], self.names)[0], v) for k, v in evidence.items()]
        else:
            given = list(evidence) if isinstance(evidence, Iterable) else [evidence]
            if len(given) != self.m:
                raise ModelError(
                    f"The evidence has {len(given)} entries for {self.m} variables; use None where free."
                )
            items = [(v, state) for v, state in enumerate(given) if state is not None and state == state]
        for variable, state in items:
            if state not in self.states[variable]:
                raise ModelError(
                    f"The evidence gives {self.names[variable]} the state {state!r}; its states are "
                    f"{list(self.states[variable])}."
                )
            codes[variable] = self.states[variable].index(state)
        return codes

    # --- identifiability ----------------------------------------------------------------------------------------

    @cached_property
    def interactions(self) -> tuple[csr_array, tuple[tuple[int, ...], ...]]:
        """θ ↦ interaction coefficients of Σ_C log φ_C with state 0 as reference, and the variables of each."""
        transform, variables = self.interaction_transform
        return (transform @ self.features).tocsr(), variables

    @cached_property
    def interaction_transform(self) -> tuple[csr_array, tuple[tuple[int, ...], ...]]:
        """Entries of the log tables ↦ interaction coefficients, and the variables of each.

        The log tables add up to a constant exactly where all of them are zero; a component with B = Aᶜ depends on
        those, and only those, whose variables meet A.
        """
        from scipy.sparse import csr_array

        rows, columns, values = [], [], []
        keys: dict[tuple[tuple[int, int], ...], int] = {}
        for factor, scope in enumerate(self.graph.scopes):
            shape = [self.graph.cardinalities[v] for v in scope]
            for flat in range(int(np.prod(shape))):
                states = np.unravel_index(flat, shape)
                entry = int(self.graph.offsets[factor]) + flat
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
        shape2 = (len(keys), self.graph.table_size)
        transform = csr_array((values, (rows, columns)), shape=shape2)
        variables = tuple(tuple(v for v, _ in key) for key in keys)
        return transform, variables

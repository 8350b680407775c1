"""Discrete fields: what any Markov random field on tables can do, exactly if the graph is narrow enough.

    p_θ(x) = exp( Σ_C log φ_C(x_C) − log Z(θ) ),    log φ = F θ + offset                          (Section 5)

Every field model (`MarkovRandomField`, `BoltzmannMachine`, `Potts`) builds its factor graph and its feature matrix F
(table entries × parameters) and inherits the rest. It overrides what it can do faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import count_of, has_entries
from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import fingerprint
from fieldfit.data.outline import TableOutline
from fieldfit.data.samples import Table, as_table
from fieldfit.inference import FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.ragged import Ragged
from fieldfit.models import cost, field_candidates, identification
from fieldfit.models.boundary import boundary_directions
from fieldfit.models.couplings import Couplings, pair_couplings
from fieldfit.models.field_compiler import FieldArrays
from fieldfit.models.field_expectations import expected_states
from fieldfit.models.field_inference import FieldInference
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.located import LocatedScores
from fieldfit.models.problem import Problem
from fieldfit.policies.selection import Selection
from fieldfit.policies.structure import FieldStructure
from fieldfit.properties import cached_property
from fieldfit.types import BoolArray, FloatArray, Int32Array, IntArray, ModelError
from fieldfit.words import has_lone_surrogate

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def _checked_labels(labels: Sequence[object]) -> tuple[object, ...]:
    """Return the labels of a variable's states, or raise ModelError if they are not distinct numbers or strings."""
    if isinstance(labels, str) or not all(
        isinstance(label, str | bool | int | float | np.generic) for label in labels
    ):
        raise ModelError(f"The states of a variable are numbers or texts; got {labels!r:.80}.")
    for label in labels:
        if isinstance(label, str) and has_lone_surrogate(label):
            raise ModelError(f"The state {label!r:.80} is a text with a lone surrogate, which is not a character.")
    return tuple(labels)


def checked_names(names: object, m: int) -> tuple[str, ...]:
    """One name for each of ``m`` variables, all different."""
    if isinstance(names, str) or not has_entries(names):
        raise ModelError(f"names must be a list with one name for each of the {m} variables; got {names!r:.80}.")
    checked = tuple(map(str, names))
    if len(checked) != m or len(set(checked)) != m:
        raise ModelError(f"The {m} variables need {m} different names; got {list(checked)!r:.200}.")
    for name in checked:
        if has_lone_surrogate(name):
            raise ModelError(
                f"The name {name!r:.80} has a lone surrogate, which is not a character. Give another name."
            )
    return checked


class FieldModel(FieldInference):
    """A discrete Markov random field: the base class of `BoltzmannMachine`, `Potts` and `MarkovRandomField`.

    ``observed`` are the variables that the model conditions on. A model that creates its features on demand passes
    None for ``features`` and overrides the property.
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
        lists = tuple(states)  # an array makes new rows each time
        distinct = {id(labels): labels for labels in lists}
        checked = {key: _checked_labels(labels) for key, labels in distinct.items()}
        self.states = tuple(checked[id(labels)] for labels in lists)
        self.names = checked_names([f"x{v}" for v in range(self.m)] if names is None else names, self.m)
        self.named = names is not None
        for variable in self.observed:
            if not 0 <= variable < self.m:
                raise ModelError(
                    f"The model conditions on variable {variable}, but the variables are 0 to {self.m - 1}."
                )

    def sizes(self) -> dict[str, int]:
        """Numbers of variables, observed variables and parameters."""
        observed = {"observed": len(self.observed)} if self.observed else {}
        return {"variables": self.m, **observed, **super().sizes()}

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
        named.names, named.named = checked_names(names, self.m), True
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
        """The power of two nearest to the size of each feature; None where all are 1.

        The size is the largest absolute value, or the largest range in the table of a factor if that is smaller: a constant
        that is added to a table cancels.
        """
        sizes = np.zeros(self.n_parameters)
        values, columns = self.features.data, self.features.indices
        np.maximum.at(sizes, columns, np.abs(values))
        if np.any(values != 1.0):
            rows = np.repeat(np.arange(self.graph.table_size), np.diff(self.features.indptr))
            factors = np.searchsorted(self.graph.offsets, rows, side="right") - 1
            pairs, place, counts = np.unique(
                factors * self.n_parameters + columns, return_inverse=True, return_counts=True
            )
            # An entry that is not stored is 0.
            is_full = counts == np.diff(self.graph.offsets)[pairs // self.n_parameters]
            largest, smallest = (np.where(is_full, extreme, 0.0) for extreme in (-np.inf, np.inf))
            np.maximum.at(largest, place, values)
            np.minimum.at(smallest, place, values)
            ranges = np.zeros(self.n_parameters)
            np.maximum.at(ranges, pairs % self.n_parameters, largest - smallest)
            sizes = np.where(ranges > 0, np.minimum(sizes, ranges), sizes)
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
        """Read a table of samples, and check its values against the variables and states of the model.

        Samples are rows of an array, a DataFrame or a `Table`, or a CSV or TSV file that a path names. NaN is missing, and
        its code is −1. The parameters are those of `Model.read`.
        """
        return self._read(data, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups)

    @property
    def _read(self) -> Callable[..., Table]:
        """`read_table` for the variables and states of the model."""
        from fieldfit.data.table import read_table

        return partial(read_table, states=self.states, names=self.names if self.named else None, rename=False)

    def read_new(self, data: object) -> Table:
        """Read samples that are not used in a fit. A variable may be missing in all of them."""
        return self._read(data, allow_missing_columns=True)

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
        return self._read(path, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups, header=header)

    def read_piece(self, data: object, *, sample_weight: str | None, weight_kind: str) -> Table:
        """Read the samples of one piece with the model's states, unless they are already encoded."""
        if isinstance(data, Table) and data.states == tuple(map(tuple, self.states)) and not self.named:
            return data
        kind = data.weight_kind if isinstance(data, Table) else weight_kind
        return self._read(data, sample_weight=sample_weight, weight_kind=kind, part=True)

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
        """Directions of θ (k, r) along which the likelihood never decreases; None if there are none."""
        return boundary_directions(self, dataset)

    @property
    def n_states(self) -> float:
        """Number of joint states; infinite if the model conditions on some variables."""
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
        """Return a hash of the modelled values, without those that the model conditions on."""
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
        """Terms from ``problem``, or from the general problem if it cannot compute them."""
        located = problem.located_scores(theta)
        if located is None:
            located = FieldProblem(self.field_arrays, as_table(dataset).codes, selection).located_scores(theta)
        return located, self.graph.neighbours

    @cached_property
    def field_arrays(self) -> FieldArrays:
        """Graph and features in the form of the general problem."""
        return FieldArrays(self.graph, self.features, self.offset, self.largest_table)

    # --- couplings ----------------------------------------------------------------------------------------------

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
        """Divisor of a coupling of two binary variables: 1, so that the coupling is a log odds ratio."""
        return 1.0

    # --- identifiability ----------------------------------------------------------------------------------------

    @cached_property
    def interactions(self) -> tuple[csr_array, tuple[tuple[int, ...], ...]]:
        """θ ↦ interaction coefficients of Σ_C log φ_C with state 0 as reference, and the variables of each."""
        transform, variables = self.interaction_transform
        return (transform @ self.features).tocsr(), variables

    @cached_property
    def interaction_transform(self) -> tuple[csr_array, tuple[tuple[int, ...], ...]]:
        """Entries of the log tables ↦ interaction coefficients, and the variables of each.

        The log tables sum to a constant if and only if all coefficients are zero. A component with B = Aᶜ depends
        exactly on the coefficients whose variables meet A.
        """
        return identification.interaction_transform(self.graph)

"""Discrete fields: everything that any Markov random field on tables can do, exactly where the width allows.

    p_θ(x) = exp( Σ_C log φ_C(x_C) − log Z(θ) ),    log φ = F θ + offset                          (Section 5)

Every field model (`MarkovRandomField`, `BoltzmannMachine`, `Potts`) builds its factor graph and its feature matrix F
(table entries × parameters) and inherits the rest; what it can do faster, it overrides.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldfit.inference import ExactInference, FactorGraph
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.gibbs import BURN_IN, CHAINS, THIN, gibbs_sample
from fieldfit.models.base import Draws, Model, Problem
from fieldfit.models.field_compiler import FieldArrays
from fieldfit.models.field_problem import FieldProblem
from fieldfit.policies.families import Components
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import FieldStructure
from fieldfit.types import DataError, FloatArray, Int32Array, ModelError, WidthError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.data.table import Table


class FieldModel(Model):
    """A discrete field given by its graph, its features and the names of its variables, states and parameters.

    ``observed`` are variables that the model conditions on: it describes the others given those.
    """

    def __init__(
        self,
        graph: FactorGraph,
        features: csr_array,
        offset: FloatArray | None,
        *,
        names: Sequence[str] | None,
        states: Sequence[Sequence[Any]],
        observed: Sequence[int] = (),
        largest_table: int = LARGEST_TABLE,
    ) -> None:
        self.graph = graph
        self.features = features
        self.offset = offset
        self.observed = tuple(sorted(observed))
        self.largest_table = largest_table
        self.named = names is not None
        self.names = tuple(map(str, names)) if names is not None else tuple(f"x{v}" for v in range(self.m))
        self.states = tuple(tuple(s) for s in states)
        if len(self.names) != self.m or len(set(self.names)) != self.m:
            raise ModelError(f"The {self.m} variables need {self.m} different names; got {list(self.names)}.")
        for variable in self.observed:
            if not 0 <= variable < self.m:
                raise ModelError(f"The model conditions on variable {variable}, but they are 0 to {self.m - 1}.")

    @abstractmethod
    def with_names(self, names: Sequence[str]) -> FieldModel:
        """The same model with other names for its variables."""

    @property
    def m(self) -> int:
        """The number of variables."""
        return self.graph.n_variables

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""
        return int(self.features.shape[1])

    # --- data ---------------------------------------------------------------------------------------------------

    def read(self, data: Any, *, sample_weight: Any = None, weight_kind: str = "importance") -> Table:
        """A table of samples, its values checked against this model's variables and states."""
        from fieldfit.data.table import read_table

        return read_table(
            data,
            states=self.states,
            names=self.names if self.named else None,
            sample_weight=sample_weight,
            weight_kind=weight_kind,
            rename=False,
        )

    def read_new(self, data: Any) -> Table:
        """A table of samples that are not fitted, in which a variable may be missing everywhere."""
        from fieldfit.data.table import read_table

        names = self.names if self.named else None
        return read_table(data, states=self.states, names=names, allow_missing_columns=True, rename=False)

    def complete(self, dataset: Table) -> FieldModel:
        """The model with the names of the data's columns, unless it has names of its own."""
        return self if self.named else self.with_names(dataset.names)

    def structure(self, dataset: Any = None) -> FieldStructure:
        """Variables and graph, as policies see them."""
        return FieldStructure(self.m, self.graph.neighbours, self.observed)

    def compile(self, dataset: Table, selection: Selection) -> Problem:
        """The general problem: any component, missing values included."""
        problem = FieldProblem(self.field_arrays, dataset.codes, selection)
        problem.refuse_forbidden()
        return problem

    @cached_property
    def field_arrays(self) -> FieldArrays:
        """The graph and features as the general problem takes them."""
        return FieldArrays(self.graph, self.features, self.offset, self.largest_table)

    # --- exact inference ----------------------------------------------------------------------------------------

    @cached_property
    def exact(self) -> ExactInference:
        """Exact inference over the whole graph; WidthError where that is too wide."""
        return ExactInference(self.graph, name="The full field", largest_table=self.largest_table)

    def log_tables(self, theta: Any) -> FloatArray:
        """Flat log φ at θ."""
        return self.field_arrays.log_tables(self.check_theta(theta))

    def log_partition(self, theta: Any, evidence: Any = None) -> float:
        """log Z(θ); with evidence (a state or None for each variable), the sum over the states that agree with it."""
        return self.exact.log_partition(self.log_tables(theta), self._evidence(evidence))

    def joint_probabilities(self, theta: Any) -> tuple[Int32Array, FloatArray]:
        """Every joint state that the model does not forbid, as codes (states, m), and its probability: small models."""
        codes = self.graph.all_states()
        logs = self.log_tables(theta)[self.graph.entries(codes)].sum(axis=1)
        allowed = logs > -np.inf
        codes, logs = np.ascontiguousarray(codes[allowed]), logs[allowed]
        weights = np.exp(logs - logs.max())
        return codes, weights / weights.sum()

    def marginals(self, theta: Any, evidence: Any = None) -> list[FloatArray]:
        """p(x_j | evidence) of every variable: a list of vectors, one probability for each state."""
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

    def clique_marginals(self, theta: Any, evidence: Any = None) -> list[FloatArray]:
        """p(x_C | evidence) of every factor, shaped by the states of its scope."""
        flat = self.exact.marginals(self.log_tables(theta), self._evidence(evidence))
        return [
            flat[self.graph.offsets[f] : self.graph.offsets[f + 1]].reshape(
                [self.graph.cardinalities[v] for v in scope]
            )
            for f, scope in enumerate(self.graph.scopes)
        ]

    def map_state(self, theta: Any, evidence: Any = None) -> NDArray[Any]:
        """The most probable state given the evidence, in the states' own values."""
        codes, _ = self.exact.best_state(self.log_tables(theta), self._evidence(evidence))
        values: NDArray[Any] = self.decode(codes[None, :])[0]
        return values

    def conditional(self, theta: Any, x: Any, target: Sequence[int], given: Sequence[int] = ()) -> FloatArray:
        """log p_θ(x_A | x_B) for each sample of ``x``, everything else summed out: the likelihood object S_θ(A, B)."""
        theta = self.check_theta(theta)
        table = self.read_new(x)
        family = self.structure().bind_family(Components(((tuple(map(int, target)), tuple(map(int, given))),)))
        selection = Selection(len(table.codes), (FamilySelection(family, 1.0),))
        return FieldProblem(self.field_arrays, table.codes, selection).row_values(theta)

    def sample(
        self,
        theta: Any,
        n: int,
        random_state: int = 0,
        *,
        evidence: Any = None,
        method: str = "auto",
        burn_in: int = BURN_IN,
        thin: int = THIN,
    ) -> Draws:
        """``n`` draws: exact and independent where the width allows, else by Gibbs sampling; the result says which."""
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

    def simulate(self, dataset: Table, theta: Any, random_state: int = 0) -> Table:
        """The same observed variables and missing values, everything else drawn from p_θ."""
        from dataclasses import replace

        tables = self.log_tables(theta)
        missing = dataset.codes < 0
        codes = np.empty_like(dataset.codes)
        observed = list(self.observed)
        if not observed:
            codes = self.sample(theta, dataset.n, random_state).codes.copy()
        else:
            if missing[:, observed].any():
                raise DataError(
                    "Some samples lack a value of a variable that the model conditions on; those cannot be simulated."
                )
            lines, which = np.unique(dataset.codes[:, observed], axis=0, return_inverse=True)
            evidence = np.full(self.m, -1, dtype=np.int32)
            for number, line in enumerate(lines):
                rows = np.flatnonzero(which.reshape(-1) == number)
                evidence[observed] = line
                codes[rows] = self.exact.sample(tables, len(rows), random_state, stream=number, evidence=evidence)
        codes[missing] = -1
        return replace(dataset, codes=np.ascontiguousarray(codes))

    # --- states and evidence ------------------------------------------------------------------------------------

    def decode(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Codes (n, m) as the states' own values."""
        columns = [np.array(self.states[v])[codes[:, v]] for v in range(self.m)]
        return np.stack(columns, axis=1) if columns else np.empty((len(codes), 0))

    def _evidence(self, evidence: Any) -> NDArray[np.int32] | None:
        """Evidence as codes: None, a mapping {name or number: state}, or a sequence with None or NaN where free."""
        if evidence is None:
            return None
        codes = np.full(self.m, -1, dtype=np.int32)
        if isinstance(evidence, dict):
            items = [(self.names.index(k) if isinstance(k, str) else int(k), v) for k, v in evidence.items()]
        else:
            if len(evidence) != self.m:
                raise ModelError(
                    f"The evidence has {len(evidence)} entries for {self.m} variables; use None where free."
                )
            items = [(v, state) for v, state in enumerate(evidence) if state is not None and state == state]
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
        """θ ↦ interaction coefficients of Σ_C log φ_C with state 0 as reference, and the variables of each.

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
        return (transform @ self.features).tocsr(), variables

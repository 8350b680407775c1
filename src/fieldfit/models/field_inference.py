"""Inference in a discrete field at given parameters: exact sums if the graph is narrow enough, else Gibbs sampling."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldfit.arguments import count_of, has_entries, one_of, seed
from fieldfit.data.dataset import Dataset
from fieldfit.data.labels import label_of
from fieldfit.data.samples import Table, as_table
from fieldfit.inference import ExactInference, FactorGraph
from fieldfit.inference.gibbs import BURN_IN, CHAINS, THIN, gibbs_sample
from fieldfit.models.base import Draws, Model
from fieldfit.models.field_compiler import FieldArrays
from fieldfit.models.field_problem import FieldProblem
from fieldfit.named import variables_of
from fieldfit.policies.families import Components
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import FieldStructure
from fieldfit.properties import cached_property
from fieldfit.types import Array, DataError, FloatArray, Int32Array, IntArray, ModelError, WidthError

#: Stands for values that can be no label of a state.
_NO_LABEL = object()
_NOTHING_TO_DRAW = (
    "There is nothing to draw: every joint state with the given values has the probability 0. Check log_offset and "
    "given."
)
_NOTHING_FOUND = (
    "Gibbs sampling drew a joint state of probability 0. Either every joint state has the probability 0 (check log_offset "
    "and given), or forbidden states keep the chains from a possible one: use method='exact'."
)
#: Entries of tables that are looked up at a time.
_CHECKED_ENTRIES = 4_000_000


class FieldInference(Model):
    """The computations of `FieldModel` at a given θ."""

    graph: FactorGraph
    names: tuple[str, ...]
    states: tuple[tuple[object, ...], ...]
    observed: tuple[int, ...]
    m: int
    largest_table: int

    @abstractmethod
    def structure(self, dataset: Dataset | None = None) -> FieldStructure:
        """The variables and the graph."""

    @abstractmethod
    def possible_states(self) -> Int32Array:
        """All joint states as codes."""

    @property
    @abstractmethod
    def field_arrays(self) -> FieldArrays:
        """Graph and features in the form of the general problem."""

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

    def log_partition(self, theta: ArrayLike, given: object = None) -> float:
        """Compute the log-partition function log Z(θ).

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        given : dict, sequence or None, default: None
            A mapping from variables (names or numbers) to states, or one state (None if free) for each variable.
            The sum is then over the joint states that agree with these.

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
        return self.exact.log_partition(self.log_tables(theta), self._codes_of(given))

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

    def marginals(self, theta: ArrayLike, given: object = None) -> list[FloatArray]:
        """Compute p(x_j | given) for every variable.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        given : dict, sequence or None, default: None
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
        tables, clamped = self.log_tables(theta), self._codes_of(given)
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

    def clique_marginals(self, theta: ArrayLike, given: object = None) -> list[FloatArray]:
        """Compute p(x_C | given) for every factor.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        given : dict, sequence or None, default: None
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
        flat = self.exact.marginals(self.log_tables(theta), self._codes_of(given))
        return [
            flat[self.graph.offsets[f] : self.graph.offsets[f + 1]].reshape(
                [self.graph.cardinalities[v] for v in scope]
            )
            for f, scope in enumerate(self.graph.scopes)
        ]

    def map_state(self, theta: ArrayLike, given: object = None) -> Array:
        """Find the most probable joint state, if some states are given.

        Parameters
        ----------
        theta : array_like of shape (r,)
            Parameters.
        given : dict, sequence or None, default: None
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
        codes, _ = self.exact.best_state(self.log_tables(theta), self._codes_of(given))
        values: Array = self.decode(codes[None, :])[0]
        return values

    def conditional(
        self,
        theta: ArrayLike,
        x: object,
        target: Sequence[int | str] | IntArray | str,
        given: Sequence[int | str] | IntArray | str = (),
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
        codes = as_table(self.read_new(x)).codes
        component = (variables_of(target, self.names), variables_of(given, self.names))
        family = self.structure().bind_family(Components((component,)))
        selection = Selection(len(codes), (FamilySelection(family, 1.0),))
        return FieldProblem(self.field_arrays, codes, selection).row_values(theta)

    def sample(
        self,
        theta: ArrayLike,
        n: int,
        random_state: int = 0,
        *,
        given: object = None,
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
        given : dict, sequence or None, default: None
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

        Raises
        ------
        ModelError
            If every joint state has the probability 0, or Gibbs sampling does not find one that has not.

        Examples
        --------
        >>> import fieldfit as ff
        >>> draws = ff.BoltzmannMachine(2).sample([1.0], 1000, random_state=0)
        >>> draws.method, draws.values.shape
        ('exact', (1000, 2))
        """
        n, random_state = count_of(n, "The number of samples n", 0), seed(random_state)
        burn_in, thin = count_of(burn_in, "burn_in", 0), count_of(thin, "thin")
        tables, clamped = self.log_tables(theta), self._codes_of(given)
        one_of(method, "The sampling method", ("auto", "exact", "gibbs"), ModelError)
        if self.observed and (clamped is None or np.any(clamped[list(self.observed)] < 0)):
            raise ModelError("This model conditions on some variables; give their values (given=).")
        if method != "gibbs":
            try:
                codes = self.exact.sample(tables, n, random_state, given=clamped)
                self._refuse_impossible(codes, tables, _NOTHING_TO_DRAW)
                return Draws(self.decode(codes), codes, "exact", note="independent exact draws")
            except WidthError:
                if method == "exact":
                    raise
        codes = gibbs_sample(self.graph, tables, n, random_state, given=clamped, burn_in=burn_in, thin=thin)
        self._refuse_impossible(codes, tables, _NOTHING_FOUND)
        note = f"Gibbs sampling: {min(CHAINS, n)} chains, {burn_in} sweeps of burn-in, a draw every {thin} sweeps"
        return Draws(self.decode(codes), codes, "gibbs", burn_in, note)

    def _refuse_impossible(self, codes: Int32Array, tables: FloatArray, why: str) -> None:
        """Refuse draws (n, m) of which one has the probability 0: factors forbid it."""
        if np.isfinite(tables).all():
            return
        step = max(1, _CHECKED_ENTRIES // max(1, len(self.graph.scopes)))
        for first in range(0, len(codes), step):
            if np.isneginf(tables[self.graph.entries(codes[first : first + step])]).any():
                raise ModelError(why)

    def simulate(self, dataset: Dataset, theta: ArrayLike, random_state: int = 0) -> Table:
        """Draw the modelled variables from p_θ. Conditioning variables and missing values stay the same."""
        from dataclasses import replace

        random_state = seed(random_state)
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
            known = np.full(self.m, -1, dtype=np.int32)
            for number, line in enumerate(lines):
                rows = np.flatnonzero(which.reshape(-1) == number)
                known[observed] = line
                codes[rows] = self.exact.sample(tables, len(rows), random_state, stream=number, given=known)
                self._refuse_impossible(codes[rows], tables, _NOTHING_TO_DRAW)
        codes[missing] = -1
        return replace(table, codes=np.ascontiguousarray(codes))

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

    def _codes_of(self, given: object) -> NDArray[np.int32] | None:
        """Given states as codes: None, a mapping {name or number: state}, or a sequence with None or NaN where free."""
        if given is None:
            return None
        codes = np.full(self.m, -1, dtype=np.int32)
        if isinstance(given, dict):
            items = [(variables_of([k], self.names)[0], v) for k, v in given.items()]
            outside = [variable for variable, _ in items if not 0 <= variable < self.m]
            if outside:
                raise ModelError(f"given has the variable {outside[0]}; variables are 0 to {self.m - 1}, or names.")
        else:
            entries = list(given) if has_entries(given) else [given]
            if len(entries) != self.m:
                raise ModelError(f"given has {len(entries)} entries for {self.m} variables; use None where free.")
            items = list(enumerate(entries))
        for variable, value in items:
            state = _state_of(value)
            if state is None and not isinstance(given, dict):
                continue
            if state not in self.states[variable]:
                raise ModelError(
                    f"given sets {self.names[variable]} to {value!r:.80}; its states are {list(self.states[variable])}."
                )
            codes[variable] = self.states[variable].index(state)
        return codes


def _state_of(value: object) -> object:
    """The label of a state, None where it is missing."""
    try:
        return label_of(value)
    except ValueError:
        return _NO_LABEL

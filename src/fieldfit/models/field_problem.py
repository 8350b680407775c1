"""Any policy on any discrete field, exactly: the general Problem.

For a component (A, B) let U be the connected pieces of the graph without B that meet A. Then

    log p(x_A | x_B) = Σ_{C inside A ∪ B} log φ_C(x_C) + log Z(U∖A | x_A, x_B) − log Z(U | x_B)

where the sum is over the factors that touch U and have no free variable, and Z(S | ·) sums the factors that touch S
over the variables in S. A missing variable is removed from A or B. Both log Z depend on a sample only through the few
clamped variables next to U, so samples that agree there share one *configuration*: the full likelihood has one for
all samples, a pseudo-likelihood on a binary 4-neighbour grid at most sixteen per site.

With O (samples × table entries, counts of the fixed factors) and R (samples × configurations, +β or −β):

    m_θ(X_i, Z_i) = (O log φ)_i + (R log Z)_i,    Σ_i w_i ψ_i = Fᵀ (Oᵀ w + Σ_c (Rᵀ w)_c μ_c)

where log φ = F θ + offset and μ_c are the marginals of configuration c.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.inference import Configurations, Program, ProgramSet, check_tables
from fieldfit.models.equal_samples import equal_samples
from fieldfit.models.field_compiler import FieldArrays, FieldCompiler, Group, collect, too_wide, wide_rows
from fieldfit.models.field_information import (
    MOST_STATE_ENTRIES,
    SMALL,
    Lattice,
    SmallSums,
    lattice_of,
    small_covariances,
    state_entries,
)
from fieldfit.models.joint_sums import Runs, is_joint, joint_marginals
from fieldfit.models.located import LocatedScores
from fieldfit.models.problem import Problem
from fieldfit.models.work import FamilyWork
from fieldfit.policies.selection import Selection
from fieldfit.policies.structure import BoundFamily
from fieldfit.properties import cached_property
from fieldfit.types import Array, DataError, FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Most entries of the expectations of the features by configuration as a dense matrix.
_MOST_EXPECTED_ENTRIES = 4_000_000
#: Number of products of table entries that take as long as starting a run of the programs.
_RUN = 20_000


class FieldProblem(Problem):
    """See the module. ``codes`` (n, m) has −1 for missing values."""

    def __init__(self, arrays: FieldArrays, codes: Int32Array, selection: Selection) -> None:
        self.arrays = arrays
        self.n_samples = len(codes)
        self.n_parameters = int(arrays.features.shape[1])
        self.n_families = len(selection.parts)
        self._betas = np.array([1.0 if isinstance(p.beta, np.ndarray) else p.beta for p in selection.parts])
        compiler = FieldCompiler(arrays, codes)
        wide = np.any([wide_rows(compiler, part, selection.n) for part in selection.parts], axis=0)
        if wide.any():
            raise too_wide(np.flatnonzero(wide), len(codes), arrays.largest_table)
        collected = [collect(compiler, part, selection.n) for part in selection.parts]
        self.programs = ProgramSet(arrays.graph, compiler.programs)
        codes_of = [np.array(lines, dtype=np.int32) for lines in compiler.matrices]
        self.configurations = self.programs.configure(codes_of)
        self._assemble(collected)
        self._short: dict[int, tuple[IntArray | None, Lattice | None]] = {}
        self._codes, self._parts = codes, selection.parts
        self._weigh()

    def _weigh(self) -> None:
        """The families together, each with its β, and the configurations that they use."""
        total_o, total_r = self._family_counts[0] * self._betas[0], self._family_usage[0] * self._betas[0]
        for beta, counts, usage in zip(self._betas[1:], self._family_counts[1:], self._family_usage[1:], strict=True):
            if beta != 0:
                total_o, total_r = total_o + beta * counts, total_r + beta * usage
        self._counts, self._usage = total_o.tocsr(), total_r.tocsr()
        self._counts.eliminate_zeros()  # 0 · (−inf) would be NaN
        self._used, self._needed = self.configurations, np.arange(self.configurations.count)
        if not self._betas.all():
            self._usage.eliminate_zeros()
            needed = np.unique(self._usage.indices)
            if len(needed) < self.configurations.count:
                self._used, self._needed = self._subset(needed, self._program_of(needed))[0], needed
                self._usage = self._usage[:, needed]
        self._runs = Runs(self._used, self.arrays.sums)
        self._count_total = np.asarray(self._counts.sum(axis=0)).ravel()
        self._usage_total = np.asarray(self._usage.sum(axis=0)).ravel()

    def with_betas(self, betas: FloatArray) -> FieldProblem:
        """The same samples and programs with other weights of the families; lists of weights are multiplied."""
        other = copy(self)
        other._betas = np.array(betas, dtype=np.float64)
        other._weigh()
        return other

    def _assemble(self, collected: list[list[Group]]) -> None:
        from scipy.sparse import coo_array

        start = self.configurations.config_ptr
        self._family_counts, self._family_usage = [], []
        for groups in collected:
            count_rows, count_columns, count_values = [], [], []
            usage_rows, usage_columns, usage_values = [], [], []
            for group in groups:
                if group.fixed.size:
                    count_rows.append(np.repeat(group.rows, group.fixed.shape[1]))
                    count_columns.append(group.fixed.ravel())
                    count_values.append(np.full(group.fixed.size, group.weight))
                for place, configs, sign in group.sums:
                    usage_rows.append(group.rows)
                    usage_columns.append(start[place] + configs)
                    usage_values.append(np.full(len(group.rows), sign * group.weight))
            shape = (self.n_samples, self.arrays.graph.table_size)
            self._family_counts.append(
                coo_array((_cat(count_values, float), (_cat(count_rows), _cat(count_columns))), shape=shape).tocsr()
            )
            shape = (self.n_samples, self.configurations.count)
            self._family_usage.append(
                coo_array((_cat(usage_values, float), (_cat(usage_rows), _cat(usage_columns))), shape=shape).tocsr()
            )

    def refuse_forbidden(self) -> None:
        """Raise an error for samples in forbidden states (offset −inf): their likelihood is 0 for every θ."""
        offset = self.arrays.offset
        if offset is None or np.all(np.isfinite(offset)):
            return
        rows = np.flatnonzero(self._counts @ np.isneginf(offset).astype(float))
        if len(rows):
            shown = ", ".join(map(str, rows[:20])) + (", …" if len(rows) > 20 else "")
            raise DataError(
                f"{len(rows)} of {self.n_samples} samples are in a state that the model forbids (log_offset −inf): rows "
                f"{shown}. Leave them out, or allow those states."
            )

    @property
    def betas(self) -> FloatArray:
        """The weight β of each family."""
        return self._betas

    def configuration_use(self) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, FloatArray]:
        """For each configuration, the share of the samples that use it and its sum; for each sum, its cost, cells and
        factors.

        The cost is in products over entries of the sum's tables for one configuration, cells are numbers held at once
        (infinity: a sum whose tables are not held).
        """
        uses = sum(np.diff(usage.tocsc().indptr) for usage in self._family_usage)
        share: FloatArray = np.asarray(uses, dtype=np.float64) / max(self.n_samples, 1)
        programs = self.programs.programs
        counts = np.diff(self.configurations.config_ptr)
        cost = [p.cost + p.template.products + len(p.entry_offset) for p in programs]
        cells = [np.inf if p.template.wide else int(p.template.arrays["cell_count"][0]) for p in programs]
        factors = [len(p.factors) for p in programs]
        sums = np.array([cost, cells, factors], dtype=np.float64).reshape(3, len(programs))
        return share, np.repeat(np.arange(len(programs)), counts), sums[0], sums[1], sums[2]

    @property
    def fixed_entries(self) -> int:
        """Table entries of fixed factors over all samples and components."""
        return sum(int(counts.nnz) for counts in self._family_counts)

    def _log_tables(self, theta: FloatArray) -> FloatArray:
        return check_tables(self.arrays.graph, self.arrays.log_tables(theta))

    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient."""
        log_tables = self._log_tables(theta)
        counts, usage = self._weighted(row_weight)
        log_z = np.empty(self._used.count)
        expected = np.zeros(self.arrays.graph.table_size)
        self._runs.run(log_tables, weight=usage, log_z=log_z, marginals=expected)
        used = counts != 0
        value = float(counts[used] @ log_tables[used] + usage @ log_z)
        return value, self.arrays.transposed @ (counts + expected)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v: the derivative of the marginals along F v."""
        log_tables = self._log_tables(theta)
        _, usage = self._weighted(row_weight)
        change = np.zeros(self.arrays.graph.table_size)
        self._runs.run(log_tables, weight=usage, direction=self.arrays.features @ v, marginal_slope=change)
        result: FloatArray = self.arrays.transposed @ change
        return result

    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""
        log_tables = self._log_tables(theta)
        log_z = np.empty(self._used.count)
        self._runs.run(log_tables, log_z=log_z)
        result: FloatArray = self._counts @ log_tables + self._usage @ log_z
        return result

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""
        log_tables = self._log_tables(theta)
        direction = self.arrays.features @ v
        slope = np.empty(self._used.count)
        self._runs.run(log_tables, direction=direction, slope=slope)
        result: FloatArray = self._counts @ direction + self._usage @ slope
        return result

    def family_work(self, family: BoundFamily, dataset: Dataset) -> FamilyWork:
        """The counted work of one family on ``dataset``."""
        from fieldfit.models.elimination_work import EliminationWork

        return EliminationWork.of(self, family, dataset.n)

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) = Σ_c (Rᵀ w)_c Cov_c(F) as a dense matrix.

        Sums over few states are computed state by state (`field_information`); of the others it is the derivative of
        the marginals along every column of F.
        """
        log_tables = self._log_tables(theta)
        _, usage = self._weighted(row_weight)
        result, left = self._covariances(log_tables, usage)
        if len(left):
            needed = self._needed[left]
            chosen = self._subset(needed, self._program_of(needed))[0]
            result += self._slopes(log_tables, chosen, usage[left])
        return (result + result.T) / 2

    @property
    def hessian_evaluations(self) -> float:
        """One or more for sums over a lattice, three for sums over few states; else two for each parameter."""

        def evaluations(place: int) -> float:
            program = self.programs.programs[place]
            if math.prod(program.template.cardinalities) <= SMALL:
                return 3.0
            if program.boundary or not self._finite_offset or self._short_sums(place)[1] is None:
                return math.inf
            return max(1.0, _lattice_evaluations(program))

        most = max(map(evaluations, range(len(self.programs.programs))), default=3.0)
        return min(most, super().hessian_evaluations)

    @cached_property
    def _finite_offset(self) -> bool:
        offset = self.arrays.offset
        return offset is None or bool(np.isfinite(offset).all())

    def _covariances(self, log_tables: FloatArray, usage: FloatArray) -> tuple[FloatArray, IntArray]:
        """Σ_c u_c Cov_c(F) over the configurations with short sums, and the places of all others in ``usage``."""
        result = np.zeros((self.n_parameters, self.n_parameters))
        small: list[SmallSums] = []
        left, numbers = [], 0
        program_of = self._program_of(self._needed)
        for place in np.unique(program_of[usage != 0]).tolist():
            of_program = np.flatnonzero((program_of == place) & (usage != 0))
            program = self.programs.programs[place]
            which, _ = self._short_sums(place)
            if which is not None and numbers + which.size * len(of_program) <= MOST_STATE_ENTRIES:
                numbers += which.size * len(of_program)
                block = self._bases_of(place)[self._needed[of_program] - self.configurations.config_ptr[place]]
                small.append(SmallSums(which, self.programs.entries(place, block), usage[of_program]))
            elif is_joint(program):
                result += usage[of_program].sum() * self._joint_covariance(place, log_tables)
            else:
                left.append(of_program)
        if small:
            result += small_covariances(small, log_tables, self.arrays.features)
        return result, np.concatenate(left) if left else np.empty(0, dtype=np.int64)

    def _joint_covariance(self, place: int, log_tables: FloatArray) -> FloatArray:
        """Cov(F) of a joint program, over its lattice or as derivatives of the marginals."""
        program, (_, lattice) = self.programs.programs[place], self._short_sums(place)

        def make() -> FloatArray:
            if lattice is not None and np.isfinite(log_tables).all():
                return lattice.covariance(log_tables)
            return self._slopes(log_tables, self.configurations.only(place), np.ones(1))

        return self.arrays.sums.at(log_tables, "covariance", program, make)

    def _short_sums(self, place: int) -> tuple[IntArray | None, Lattice | None]:
        """A program's sum state by state, and as a lattice; kept, because they do not depend on θ."""
        if place not in self._short:
            program = self.programs.programs[place]
            which = state_entries(program)
            # In a sparse graph the derivatives along all columns of F take less than a sum over all states.
            short = which is None and _lattice_evaluations(program) <= 2.0 * self.n_parameters
            lattice = None
            if short and not program.boundary:
                graph, features = self.arrays.graph, self.arrays.features
                lattice = self.arrays.sums.lattice(program, lambda: lattice_of(graph, program, features))
            self._short[place] = which, lattice
        return self._short[place]

    def _bases_of(self, place: int) -> IntArray:
        """The bases of all configurations of one program (configurations, factors)."""
        counts = np.diff(self.configurations.config_ptr)
        sizes = counts * np.array([len(program.factors) for program in self.programs.programs], dtype=np.int64)
        start = int(sizes[:place].sum())
        return self.configurations.bases[start : start + int(sizes[place])].reshape(int(counts[place]), -1)

    def _slopes(self, log_tables: FloatArray, chosen: Configurations, usage: FloatArray) -> FloatArray:
        """Σ_c u_c Cov_c(F) as derivatives of the marginals, one column of F after the other."""
        columns = self.arrays.features.tocsc()
        r, table_size = self.n_parameters, self.arrays.graph.table_size
        result = np.empty((r, r))
        direction = np.zeros(table_size)
        size = max(1, 8_000_000 // max(1, table_size))
        for start in range(0, r, size):
            change = np.zeros((min(size, r - start), table_size))
            for line, slope in enumerate(change, start):
                entries = slice(columns.indptr[line], columns.indptr[line + 1])
                direction[columns.indices[entries]] = columns.data[entries]
                self.programs.run(log_tables, chosen, weight=usage, direction=direction, marginal_slope=slope)
                direction[columns.indices[entries]] = 0.0
            result[start : start + len(change)] = change @ self.arrays.features
        return result

    def information_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """−Σ_c (Rᵀ w)_c Var_c(F_l) from the marginals of the configurations.

        The entries of one table exclude each other, so E F_l² = Σ_e F_el² μ_e where all entries of parameter l are in
        one table. None where a parameter has entries in several.
        """
        if not self._one_table_each:
            return None
        from scipy.sparse import csr_array

        _, usage = self._weighted(row_weight)
        marginals = self._config_marginals(self._log_tables(theta), self._needed)
        features = csr_array(self.arrays.features)
        mean = csr_array(marginals @ features)
        squares = np.asarray((usage @ marginals) @ features.multiply(features)).ravel()
        result: FloatArray = usage @ mean.multiply(mean) - squares
        return np.asarray(result, dtype=np.float64).ravel()

    @cached_property
    def _one_table_each(self) -> bool:
        """Whether no parameter has entries in two tables."""
        columns = self.arrays.features.tocsc()
        table = np.repeat(np.arange(len(self.arrays.graph.table_sizes)), self.arrays.graph.table_sizes)[
            columns.indices
        ]
        first = np.repeat(table[np.minimum(columns.indptr[:-1], len(table) - 1)], np.diff(columns.indptr))
        return bool(np.array_equal(table, first))

    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family."""
        return self._scores(theta, np.arange(start, min(stop, self.n_samples)))

    @cached_property
    def equal_samples(self) -> tuple[IntArray, IntArray] | None:
        """Groups of equal samples with equal rows of Z, if that saves half of the work."""
        return equal_samples(self._codes, self._parts)

    def family_scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """Scores of some samples by family."""
        return self._scores(theta, rows)

    def _scores(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        log_tables = self._log_tables(theta)
        usages = [usage[rows] for usage in self._family_usage]
        needed = np.unique(np.concatenate([usage.indices for usage in usages]))
        expected = self._config_marginals(log_tables, needed) @ self.arrays.features
        if expected.shape[0] * expected.shape[1] <= _MOST_EXPECTED_ENTRIES:
            expected = expected.toarray()
        result = np.empty((len(rows), self.n_families, self.n_parameters))
        for family, usage in enumerate(usages):
            observed = self._family_counts[family][rows] @ self.arrays.features
            block = usage[:, needed] @ expected
            result[:, family] = observed.toarray() + (block if isinstance(block, np.ndarray) else block.toarray())
        return result

    def _config_marginals(self, log_tables: FloatArray, needed: IntArray) -> csr_array:
        """Marginals of the chosen configurations as a sparse matrix (configurations, table_size)."""
        from scipy.sparse import csr_array

        program_of = self._program_of(needed)
        chosen, entries = self._subset(needed, program_of)
        lengths = self.programs.entry_counts[program_of]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        each = np.empty(int(indptr[-1]))
        joint = [place for place in np.unique(program_of).tolist() if is_joint(self.programs.programs[place])]
        for place in joint:
            program, single = self.programs.programs[place], self.configurations.only(place)
            marginals = joint_marginals(self.arrays.sums, program, single, log_tables)[1:]
            line = int(np.searchsorted(program_of, place))
            each[indptr[line] : indptr[line + 1]] = marginals[entries[indptr[line] : indptr[line + 1]]]
        clamped = ~np.isin(program_of, joint)
        if clamped.any():
            starts = indptr[:-1][clamped].astype(np.int64)
            self.programs.run(log_tables, chosen.without(joint), each=each, each_start=starts)
        return csr_array((each, entries, indptr), shape=(len(needed), self.arrays.graph.table_size))

    def _program_of(self, needed: IntArray) -> IntArray:
        """The program of each of these configurations."""
        return np.searchsorted(self.configurations.config_ptr, needed, side="right") - 1

    def _subset(self, needed: IntArray, program_of: IntArray) -> tuple[Configurations, IntArray]:
        """Some of the configurations, and the flat table entries of their reduced factors in kernel order."""
        bases, entries = [], []
        base_start = 0
        config_ptr = self.configurations.config_ptr
        counts = []
        for place, program in enumerate(self.programs.programs):
            of_program = needed[program_of == place] - config_ptr[place]
            n_factors = len(program.factors)
            count = int(config_ptr[place + 1] - config_ptr[place])
            size = count * n_factors  # 0 for a variable in no factor
            block = self.configurations.bases[base_start : base_start + size].reshape(count, n_factors)[of_program]
            base_start += size
            counts.append(len(of_program))
            bases.append(block.ravel())
            entries.append(self.programs.entries(place, block).ravel())
        pointer = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return Configurations(self.programs, pointer, _cat(bases)), _cat(entries)

    def located_scores(self, theta: FloatArray) -> LocatedScores:
        """The terms of the score by factor: its features times the difference of observed and expected values.

        Each is located at the factor's first variable.
        """
        from scipy.sparse import csr_array

        graph, log_tables = self.arrays.graph, self._log_tables(theta)
        shape = (len(graph.scopes), graph.table_size)
        terms = []
        for sample in range(self.n_samples):
            counts, usage = self._weighted(np.eye(1, self.n_samples, sample).ravel())
            expected = np.zeros(graph.table_size)
            self._runs.run(log_tables, weight=usage, marginals=expected)
            residual = csr_array((counts + expected, np.arange(graph.table_size), graph.offsets), shape=shape)
            terms.append((residual @ self.arrays.features).toarray())
        first, factors = graph.scope_matrix[:, 0], len(graph.scopes)
        samples = np.repeat(np.arange(self.n_samples), factors)
        return LocatedScores(np.concatenate(terms), np.tile(first, self.n_samples), samples)

    def _weighted(self, row_weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Oᵀ w and Rᵀ w."""
        if row_weight is None:
            return self._count_total, self._usage_total
        return self._counts.T @ row_weight, self._usage.T @ row_weight


def _lattice_evaluations(program: Program) -> float:
    """About how many evaluations of value and gradient of a program take as long as its covariance over a lattice."""
    cards = program.template.cardinalities
    return math.prod(float(card) for card in cards) * len(cards) / (program.cost + program.template.products + _RUN)


def _cat(parts: list[Array], kind: type[np.generic] | type[float] = np.int64) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype=kind)

"""From components and samples to sums: which exact sums a selection needs, and which samples share them.

`collect` goes through the components of a family, with the missing values of each sample taken out of A and B, and
collects programs, their configurations and the entries of the factors that are fixed; field_problem.py says what they
mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fieldfit.inference import FactorGraph, ProgramCompiler
from fieldfit.inference.programs import Program
from fieldfit.models.joint_sums import JointSums
from fieldfit.policies.field_families import FieldFamily
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import Component
from fieldfit.properties import cached_property
from fieldfit.types import Array, BoolArray, DataError, FloatArray, Int32Array, IntArray, WidthError

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

#: Most combinations of a component and a pattern of missing values that one problem may compile.
MOST_PATTERNS = 100_000
#: Most bytes of the compiled programs of one problem.
MOST_MEMORY_BYTES = 2 << 30


@dataclass(frozen=True)
class FieldArrays:
    """The parts of a model that the problem needs: the graph, log φ = F θ + offset, and the limit on tables."""

    graph: FactorGraph
    features: csr_array  # F (table_size, r)
    offset: FloatArray | None
    largest_table: int

    @cached_property
    def transposed(self) -> csc_array:
        """Fᵀ, computed once: for a small field SciPy's transpose takes as long as the product."""
        return self.features.T

    @cached_property
    def sums(self) -> JointSums:
        """Sums that depend on θ only, for all problems of the model in this process."""
        return JointSums()

    def log_tables(self, theta: FloatArray) -> FloatArray:
        """Flat log tables at θ."""
        tables: FloatArray = self.features @ theta
        return tables if self.offset is None else tables + self.offset


class FieldCompiler:
    """Collects programs, configurations and counts in a loop over the components."""

    def __init__(self, arrays: FieldArrays, codes: Int32Array) -> None:
        self.arrays = arrays
        self.codes = codes
        self.programs: list[Program] = []
        self.places: dict[frozenset[int], int] = {}
        self.lines: list[dict[bytes, int]] = []  # configurations seen of each program
        self.matrices: list[list[Array]] = []
        self.compiler = ProgramCompiler(arrays.graph, largest_table=arrays.largest_table)
        self.members = 0

    def program(self, free: frozenset[int], name: str) -> int:
        """The number of the program that sums over ``free``, compiled if it is new."""
        place = self.places.get(free)
        if place is None:
            place = len(self.programs)
            self.places[free] = place
            program = self.compiler.compile(free, name=name)
            self.members += len(program.entry_offset)
            if self.compiler.memory + 16 * self.members > MOST_MEMORY_BYTES:
                raise DataError(
                    f"Compiling {name} takes the exact sums of this fit past {MOST_MEMORY_BYTES >> 30} GiB after "
                    f"{place} different sums (missing values give each pattern its own). Use smaller blocks, fewer "
                    f"components, or drop or impute the rows that miss most."
                )
            self.programs.append(program)
            self.lines.append({})
            self.matrices.append([])
        return place

    def configure(self, place: int, rows: IntArray) -> IntArray:
        """The configuration (counted within its program) of each of these samples."""
        boundary = list(self.programs[place].boundary)
        seen, matrices = self.lines[place], self.matrices[place]
        if not boundary:
            if not seen:
                seen[b""] = 0
                matrices.append(np.zeros(self.codes.shape[1], dtype=np.int32))
            return np.zeros(len(rows), dtype=np.int64)
        values = np.ascontiguousarray(self.codes[rows[:, None], boundary])
        distinct, inverse = _distinct_lines(values, [self.arrays.graph.cardinalities[v] for v in boundary])
        numbers = np.empty(len(distinct), dtype=np.int64)
        for index, line in enumerate(distinct):
            key = line.tobytes()
            number = seen.get(key)
            if number is None:
                number = len(seen)
                seen[key] = number
                full = np.zeros(self.codes.shape[1], dtype=np.int32)
                full[boundary] = line
                matrices.append(full)
            numbers[index] = number
        return numbers[inverse]


def _distinct_lines(values: Int32Array, cardinalities: list[int]) -> tuple[Int32Array, IntArray]:
    """Distinct lines of a matrix of states and, for each line, which one it is."""
    if np.log2(np.array(cardinalities, dtype=float)).sum() < 62:
        key = np.zeros(len(values), dtype=np.int64)
        for column, cardinality in enumerate(cardinalities):
            key = key * cardinality + values[:, column]
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(values, axis=0, return_index=True, return_inverse=True)
    return values[first], inverse.reshape(-1)


def _relevant(graph: FactorGraph, target: frozenset[int], given: frozenset[int]) -> frozenset[int]:
    """The variables connected to ``target`` by a path that avoids ``given``, with ``target`` itself."""
    reached, frontier = set(target), list(target)
    while frontier:
        for other in graph.neighbours[frontier.pop()]:
            if other not in reached and other not in given:
                reached.add(other)
                frontier.append(other)
    return frozenset(reached)


@dataclass(frozen=True)
class Group:
    """Samples that select one component and have the same missing values in it."""

    rows: IntArray
    weight: float
    fixed: IntArray  # (rows, fixed factors) flat entries
    sums: tuple[tuple[int, IntArray, float], ...]  # (program, configuration of each row, +1 or −1)


def collect(compiler: FieldCompiler, part: FamilySelection, n: int) -> list[Group]:
    """Yield the selected components of one family, grouped by the samples' missing values."""
    family = part.family
    pointer, samples = part.component_rows(n)
    missing = compiler.codes < 0
    patterns = _pattern_numbers(missing) if missing.any() else None
    groups: list[Group] = []
    size = family.size
    if size is None:
        raise DataError(f"The family {family.name} belongs to sequences, not to a field with fixed variables.")
    if patterns is not None:
        _check_patterns(family.name, pointer, samples, patterns)
    for index in range(size):
        rows = samples[pointer[index] : pointer[index + 1]]
        if not len(rows):
            continue
        weight = float(part.beta[index]) if isinstance(part.beta, np.ndarray) else 1.0
        if patterns is None and isinstance(family, FieldFamily) and family.conditions_on_rest:
            # Given all the rest, only the block is free, so its complement is not listed.
            block = frozenset(family.blocks(np.array([index]))[1].tolist())
            groups.append(_group(compiler, block, block, rows, weight, family.name, index))
            continue
        component = family.component(index)
        if patterns is None:
            groups.append(_component_group(compiler, component, rows, weight, family.name, index))
            continue
        for number in np.unique(patterns[rows]):
            same = rows[patterns[rows] == number]
            seen = _seen(component, missing[same[0]])
            if not seen.target:
                continue  # log p of nothing is 0
            groups.append(_component_group(compiler, seen, same, weight, family.name, index))
    return groups


def wide_rows(compiler: FieldCompiler, part: FamilySelection, n: int) -> BoolArray:
    """Which of the n samples miss too many values of a selected component to sum out.

    Nothing is compiled. A sum is over at most the missing values and the component's target, so most patterns fit for
    every graph. For the others the elimination order is computed, until one component of a sample is too wide.
    """
    wide = np.zeros(n, dtype=bool)
    missing = compiler.codes < 0
    size = part.family.size
    if size is None or not missing.any():
        return wide
    graph = compiler.arrays.graph
    numbers = _pattern_numbers(missing)
    patterns = missing[np.unique(numbers, return_index=True)[1]]
    log_states = np.log2(np.array(graph.cardinalities, dtype=np.float64))
    absent, states = patterns.sum(axis=1), patterns @ log_states
    safe = np.log2(compiler.compiler.largest_table)
    suspects: dict[int, BoolArray] = {}
    for index in range(size):
        target = list(part.family.component(index).target)
        # Allow for rounding of the logarithms, so that no sum just above the limit is accepted.
        suspect = (absent > 0) & (states + log_states[target].sum() > safe - 1e-6)
        if suspect.any():
            suspects[index] = suspect
    if not suspects:
        return wide
    pointer, samples = part.component_rows(n)
    for index, suspect in suspects.items():
        rows = samples[pointer[index] : pointer[index + 1]]
        rows = rows[suspect[numbers[rows]] & ~wide[rows]]
        component = part.family.component(index)
        for number in np.unique(numbers[rows]):
            seen = _seen(component, patterns[number])
            if seen.target and seen != component and _too_wide(compiler, seen):
                wide[rows[numbers[rows] == number]] = True
    return wide


def too_wide(rows: IntArray, n: int, largest_table: int) -> WidthError:
    """The error for these rows of n samples, whose missing values cannot be summed out."""
    single = len(rows) == 1
    shown = ", ".join(map(str, rows[:20])) + (", …" if len(rows) > 20 else "")
    return WidthError(
        f"{len(rows)} of {n} samples {'has' if single else 'have'} too many missing values: summing them out needs a table "
        f"of more than {largest_table:,} entries: {'row' if single else 'rows'} {shown}. Leave "
        f'{"that row" if single else "those rows"} out (wide_rows="drop"), impute values, or use a sparser graph.',
        rows,
    )


def _too_wide(compiler: FieldCompiler, component: Component) -> bool:
    target = frozenset(component.target)
    free = _relevant(compiler.arrays.graph, target, frozenset(component.given))
    try:
        compiler.compiler.check(free)
        compiler.compiler.check(free - target)
    except WidthError:
        return True
    return False


def _seen(component: Component, missing: BoolArray) -> Component:
    """The component without the values that are missing."""
    return Component(
        tuple(v for v in component.target if not missing[v]), tuple(v for v in component.given if not missing[v])
    )


def _component_group(
    compiler: FieldCompiler, component: Component, rows: IntArray, weight: float, family: str, index: int
) -> Group:
    target = frozenset(component.target)
    free = _relevant(compiler.arrays.graph, target, frozenset(component.given))
    return _group(compiler, target, free, rows, weight, family, index)


def _group(
    compiler: FieldCompiler,
    target: frozenset[int],
    free: frozenset[int],
    rows: IntArray,
    weight: float,
    family: str,
    index: int,
) -> Group:
    graph = compiler.arrays.graph
    hidden = free - target
    name = f"Component {index} of {family}" if family != "FL" else "FL, the full likelihood,"
    denominator = compiler.program(free, name)
    sums = [(denominator, compiler.configure(denominator, rows), -1.0)]
    if hidden:
        numerator = compiler.program(hidden, name)
        sums.append((numerator, compiler.configure(numerator, rows), 1.0))
    fixed = compiler.programs[denominator].factors
    if hidden:
        inside = np.isin(graph.scope_matrix[fixed], sorted(hidden)).any(axis=1)
        fixed = fixed[~inside]
    entries = graph.entries(compiler.codes[rows], fixed)
    return Group(rows, weight, entries, tuple(sums))


def _check_patterns(name: str, pointer: IntArray, samples: IntArray, patterns: IntArray) -> None:
    """Raise an error before any work if there are more combinations of component and pattern than the limit."""
    component = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
    combinations = len(np.unique(component * (int(patterns.max()) + 1) + patterns[samples]))
    if combinations > MOST_PATTERNS:
        raise DataError(
            f"{name} meets {combinations:,} combinations of a component and a pattern of missing values; the limit is "
            f"{MOST_PATTERNS:,}. Use fewer components, or drop or impute the rows that miss values."
        )


def _pattern_numbers(missing: NDArray[np.bool_]) -> IntArray:
    """Which pattern of missing values each sample has."""
    packed = np.packbits(missing, axis=1)
    _, inverse = np.unique(packed, axis=0, return_inverse=True)
    return inverse.reshape(-1)

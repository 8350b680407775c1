"""Eliminations compiled to flat arrays, and the configurations of clamped variables that run through them.

`compile_program` turns an elimination order into buckets (see kernels/elimination.hpp for the layout and the method);
a `ProgramSet` holds many programs and runs all their configurations in one call of the kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.inference.elimination import LARGEST_TABLE, elimination_order
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, Int32Array, IntArray, ModelError, WidthError

#: Entries that the index maps of one program may have together (4 bytes each).
MOST_MAP_ENTRIES = 1 << 26

_NONE = np.empty(0)
_NO_INDEX = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class PreparedTables:
    """Log tables at one θ, ready for the kernel: the logarithms, and exp(logarithm − largest of the factor)."""

    logarithm: FloatArray
    potential: FloatArray
    shift: FloatArray

    @staticmethod
    def of(graph: FactorGraph, log_tables: FloatArray) -> PreparedTables:
        """Prepare flat log tables (−inf allowed, but not for a whole factor)."""
        if not len(graph.scopes):
            return PreparedTables(log_tables, log_tables, _NONE)
        shift = np.maximum.reduceat(log_tables, graph.offsets[:-1])
        if not np.all(np.isfinite(shift)):
            factor = int(np.flatnonzero(~np.isfinite(shift))[0])
            raise ModelError(
                f"The table of factor {factor} over variables {graph.scopes[factor]} has no finite entry "
                f"(largest log value {shift[factor]}); check the parameters for NaN or infinity."
            )
        potential = np.empty_like(log_tables)
        _kernels.exp_array(log_tables - np.repeat(shift, graph.table_sizes), potential)
        return PreparedTables(log_tables, potential, shift)


@dataclass(frozen=True)
class Program:
    """One elimination: the buckets and reduced factors as arrays that are local to this program."""

    free: tuple[int, ...]
    boundary: tuple[int, ...]  # clamped variables that share a factor with a free one
    factors: Int32Array  # graph factors that touch a free variable
    clamped: tuple[tuple[tuple[int, int], ...], ...]  # for each factor: (clamped variable, stride)
    arrays: dict[str, NDArray[Any]]
    cost: int
    width: int

    @property
    def memory(self) -> int:
        """Bytes of the compiled arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def bases(self, graph: FactorGraph, codes: NDArray[Any]) -> IntArray:
        """Flat index of the entry with all free variables 0, for each line of ``codes`` and each factor."""
        result = np.empty((len(codes), len(self.factors)), dtype=np.int64)
        for column, factor in enumerate(self.factors):
            index = np.full(len(codes), graph.offsets[factor], dtype=np.int64)
            for variable, stride in self.clamped[column]:
                index += codes[:, variable].astype(np.int64) * stride
            result[:, column] = index
        return result


def _index_map(shape: list[int], strides: list[int]) -> Int32Array:
    """Σ digit·stride over all entries of a table with this shape, the last digit fastest."""
    index = np.zeros(1, dtype=np.int32)
    for size, stride in zip(shape, strides, strict=True):
        index = (index[:, None] + np.arange(size, dtype=np.int32)[None, :] * np.int32(stride)).ravel()
    return index


def _steps(cardinalities: list[int]) -> list[int]:
    steps, step = [], 1
    for cardinality in reversed(cardinalities):
        steps.append(step)
        step *= cardinality
    return steps[::-1]


def compile_program(
    graph: FactorGraph, free: frozenset[int], *, name: str = "The sum", largest_table: int = LARGEST_TABLE
) -> Program:
    """Compile the exact sum over ``free``, all other variables being clamped."""
    order = elimination_order(graph, free, name=name, largest_table=largest_table)
    cards = graph.cardinalities
    position = {variable: place for place, variable in enumerate(order.variables)}
    factor_ids = sorted({factor for variable in free for factor in graph.factors_of[variable]})

    inputs: list[list[tuple[int, list[int]]]] = [[] for _ in order.variables]  # (source, variables) of each bucket
    clamped, entry_offsets, factor_sizes = [], [], []
    boundary: set[int] = set()
    for local, factor in enumerate(factor_ids):
        scope, strides = graph.scopes[factor], graph.strides[factor]
        inside = [(v, stride) for v, stride in zip(scope, strides, strict=True) if v in free]
        outside = tuple((v, stride) for v, stride in zip(scope, strides, strict=True) if v not in free)
        clamped.append(outside)
        boundary.update(v for v, _ in outside)
        entry_offsets.append(_index_map([cards[v] for v, _ in inside], [stride for _, stride in inside]))
        factor_sizes.append(len(entry_offsets[-1]))
        inputs[min(position[v] for v, _ in inside)].append((local, [v for v, _ in inside]))
    for bucket, separator in enumerate(order.separators):
        if separator:
            inputs[min(position[v] for v in separator)].append((-1 - bucket, list(separator)))

    tables = [
        math.prod(cards[v] for v in (*separator, variable))
        for variable, separator in zip(order.variables, order.separators, strict=True)
    ]
    entries = sum(size * len(own) for size, own in zip(tables, inputs, strict=True))
    if entries > MOST_MAP_ENTRIES:
        raise WidthError(
            f"{name} sums over {len(free)} variables with a width of {order.width} and {len(factor_ids)} factors: its "
            f"index would have {entries:,} entries, and the limit is {MOST_MAP_ENTRIES:,}. Use smaller blocks (PL1, "
            f"PL2, Partition(2)) or condition on more variables."
        )

    sizes, bucket_cards, sources, input_counts, maps = [], [], [], [], []
    separator_vars: list[int] = []
    separator_strides: list[int] = []
    for bucket, (variable, separator) in enumerate(zip(order.variables, order.separators, strict=True)):
        members = [*separator, variable]
        shape = [cards[v] for v in members]
        sizes.append(math.prod(shape))
        bucket_cards.append(cards[variable])
        input_counts.append(len(inputs[bucket]))
        separator_vars.extend(separator)
        separator_strides.extend(_steps(shape[:-1]))
        for source, variables in inputs[bucket]:
            step = dict(zip(variables, _steps([cards[v] for v in variables]), strict=True))
            sources.append(source)
            maps.append(_index_map(shape, [step.get(v, 0) for v in members]))

    factor_cells = np.concatenate(([0], np.cumsum(factor_sizes)))
    bucket_cells = factor_cells[-1] + np.concatenate(([0], np.cumsum(sizes)))
    messages = [size // card for size, card in zip(sizes, bucket_cards, strict=True)]
    message_cells = bucket_cells[-1] + np.concatenate(([0], np.cumsum(messages)))
    arrays: dict[str, NDArray[Any]] = {
        "factor_size": np.array(factor_sizes, dtype=np.int32),
        "factor_cell": factor_cells[:-1].astype(np.int32),
        "factor_entry": np.concatenate(([0], np.cumsum(factor_sizes)))[:-1].astype(np.int64),
        "entry_offset": _joined(entry_offsets),
        "bucket_size": np.array(sizes, dtype=np.int32),
        "bucket_card": np.array(bucket_cards, dtype=np.int32),
        "bucket_cell": bucket_cells[:-1].astype(np.int64),
        "message_cell": message_cells[:-1].astype(np.int64),
        "input_count": np.array(input_counts, dtype=np.int32),
        "input_source": np.array(sources, dtype=np.int32),
        "input_map": np.concatenate(([0], np.cumsum([len(m) for m in maps])))[:-1].astype(np.int64),
        "maps": _joined(maps),
        "bucket_var": np.array(order.variables, dtype=np.int32),
        "separator_count": np.array([len(s) for s in order.separators], dtype=np.int32),
        "separator_var": np.array(separator_vars, dtype=np.int32),
        "separator_stride": np.array(separator_strides, dtype=np.int32),
    }
    return Program(
        free=tuple(sorted(free)),
        boundary=tuple(sorted(boundary)),
        factors=np.array(factor_ids, dtype=np.int32),
        clamped=tuple(clamped),
        arrays=arrays,
        cost=order.cost,
        width=order.width,
    )


def _joined(parts: list[Int32Array]) -> Int32Array:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def _pointers(counts: list[int]) -> NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


@dataclass(frozen=True)
class Configurations:
    """Configurations of the clamped variables: ``config_ptr`` (programs + 1,), ``bases`` flat (see the kernel)."""

    config_ptr: IntArray
    bases: IntArray

    @property
    def count(self) -> int:
        """How many configurations there are in all."""
        return int(self.config_ptr[-1])


class ProgramSet:
    """Many programs over one graph, as the kernel takes them."""

    def __init__(self, graph: FactorGraph, programs: list[Program]) -> None:
        self.graph = graph
        self.programs = tuple(programs)
        self._kernel_programs = self._join()

    def _join(self) -> _kernels.Programs:
        arrays: dict[str, list[NDArray[Any]]] = {}
        factors = buckets = entries = maps = 0
        for program in self.programs:
            local = program.arrays
            shifted = dict(local)
            source = local["input_source"]
            shifted["input_source"] = np.where(source >= 0, source + factors, source - buckets).astype(np.int32)
            shifted["factor_entry"] = local["factor_entry"] + entries
            shifted["input_map"] = local["input_map"] + maps
            for key, value in shifted.items():
                arrays.setdefault(key, []).append(value)
            factors += len(program.factors)
            buckets += len(local["bucket_size"])
            entries += len(local["entry_offset"])
            maps += len(local["maps"])

        def joined(key: str, kind: type = np.int32) -> NDArray[Any]:
            parts = arrays.get(key)
            return np.concatenate(parts).astype(kind, copy=False) if parts else np.empty(0, dtype=kind)

        def pointers(key: str) -> NDArray[np.int32]:
            return np.concatenate(([0], np.cumsum(joined(key)))).astype(np.int32)

        cells = [
            int(p.arrays["factor_size"].sum())
            + int(p.arrays["bucket_size"].sum())
            + int((p.arrays["bucket_size"] // p.arrays["bucket_card"]).sum())
            for p in self.programs
        ]
        return _kernels.Programs(
            _pointers([len(p.arrays["bucket_size"]) for p in self.programs]),
            _pointers([len(p.factors) for p in self.programs]),
            np.array(cells, dtype=np.int64),
            np.concatenate([p.factors for p in self.programs]) if self.programs else np.empty(0, dtype=np.int32),
            joined("factor_size"),
            joined("factor_cell"),
            joined("factor_entry", np.int64),
            joined("entry_offset"),
            joined("bucket_size"),
            joined("bucket_card"),
            joined("bucket_cell", np.int64),
            joined("message_cell", np.int64),
            pointers("input_count"),
            joined("input_source"),
            joined("input_map", np.int64),
            joined("maps"),
            joined("bucket_var"),
            pointers("separator_count"),
            joined("separator_var"),
            joined("separator_stride"),
        )

    @cached_property
    def _costs(self) -> FloatArray:
        """Rough operations of one configuration of each program."""
        return np.array([10.0 * p.cost for p in self.programs])

    @cached_property
    def entry_counts(self) -> IntArray:
        """Reduced table entries of each program, all factors together."""
        return np.array([int(p.arrays["factor_size"].sum()) for p in self.programs], dtype=np.int64)

    def configure(self, codes: list[NDArray[Any]]) -> Configurations:
        """Clamp each program to the lines of its code matrix (lines, variables)."""
        bases = [
            program.bases(self.graph, lines).ravel() for program, lines in zip(self.programs, codes, strict=True)
        ]
        return Configurations(
            np.concatenate(([0], np.cumsum([len(lines) for lines in codes]))).astype(np.int64),
            np.concatenate(bases) if bases else _NO_INDEX,
        )

    def run(
        self,
        tables: PreparedTables,
        configurations: Configurations,
        *,
        weight: FloatArray | None = None,
        direction: FloatArray | None = None,
        log_z: FloatArray | None = None,
        slope: FloatArray | None = None,
        marginals: FloatArray | None = None,
        marginal_slope: FloatArray | None = None,
        each: FloatArray | None = None,
        each_start: IntArray | None = None,
    ) -> int:
        """Fill the arrays that are given; ``marginals`` and ``marginal_slope`` are added to. See the kernel."""
        if not self.graph.table_size and slope is not None:  # no factors: nothing changes along any direction
            slope[:] = 0.0
            slope = direction = marginal_slope = None
        return _kernels.eliminate(
            self._kernel_programs,
            tables.potential,
            tables.logarithm,
            _NONE if direction is None else direction,
            tables.shift,
            configurations.config_ptr,
            configurations.bases,
            _NONE if weight is None else weight,
            _NONE if log_z is None else log_z,
            _NONE if slope is None else slope,
            _NONE if marginals is None else marginals,
            _NONE if marginal_slope is None else marginal_slope,
            _NONE if each is None else each,
            _NO_INDEX if each_start is None else each_start,
            get_threads(float(self._costs @ np.diff(configurations.config_ptr))),
        )

    def decode(
        self,
        tables: PreparedTables,
        configurations: Configurations,
        states: Int32Array,
        *,
        maximise: bool,
        seed: int = 0,
        stream: int = 0,
        first_row: int = 0,
    ) -> float:
        """Draw (or maximise) the free variables of each line of ``states`` in place; one configuration only."""
        return _kernels.eliminate_decode(
            self._kernel_programs,
            tables.logarithm,
            tables.shift,
            configurations.bases,
            maximise,
            seed,
            stream,
            first_row,
            states,
        )

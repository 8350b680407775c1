"""Compiled eliminations of a graph's variables, and the configurations of clamped variables that run through them.

A `Program` binds a template (see templates.py) to the factors of a graph; programs of the same shape share a template. A
`ProgramSet` holds many programs and runs all their configurations in one call of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.inference.elimination import LARGEST_TABLE
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.inference.templates import EliminationTemplate, TemplateOrder, compile_template, order_template
from fieldfit.properties import cached_property, state_without
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, Int32Array, IntArray, ModelError, WidthError

#: Numbers that the messages of a wide elimination may take together (256 MB) before some are computed twice instead.
MESSAGE_MEMORY = 1 << 25

_NO_INDEX = np.empty(0, dtype=np.int64)
_Index = TypeVar("_Index", np.int32, np.int64)


def check_tables(graph: FactorGraph, log_tables: FloatArray) -> FloatArray:
    """Log tables as the kernel takes them: contiguous, no NaN or +inf, and no factor that forbids every state."""
    tables = np.ascontiguousarray(log_tables, dtype=np.float64)
    if len(graph.scopes):
        largest = np.maximum.reduceat(tables, graph.offsets[:-1])
        if not np.all(np.isfinite(largest)):
            factor = int(np.flatnonzero(~np.isfinite(largest))[0])
            raise ModelError(
                f"The table of factor {factor} over variables {graph.scopes[factor]} has no finite entry "
                f"(largest log value {largest[factor]}); check the parameters for NaN or infinity."
            )
    return tables


@dataclass(frozen=True, eq=False)
class Program:
    """A template with the graph's free variables and factors in the places of its own."""

    template: EliminationTemplate
    free: tuple[int, ...]
    boundary: tuple[int, ...]  # clamped variables that share a factor with a free one
    factors: IntArray  # graph factors that touch a free variable, group by group
    group_member: Int32Array  # (groups + 1) pointers into factors
    member_size: IntArray  # entries of each member's reduced table
    entry_offset: Int32Array  # offset of each of those entries in the factor's table
    clamped: IntArray  # (factors, widest scope): clamped variables, 0 where there is none
    clamped_stride: IntArray  # and their strides, 0 where there is none

    @property
    def width(self) -> int:
        """Variables in the largest table, less one."""
        return self.template.width

    @property
    def cost(self) -> int:
        """Entries of all tables."""
        return self.template.cost

    def bases(self, graph: FactorGraph, codes: Int32Array) -> IntArray:
        """Flat index of the entry with all free variables 0, for each line of ``codes`` and each member factor."""
        result = np.repeat(graph.offsets[self.factors][None, :], len(codes), axis=0)
        for column in range(self.clamped.shape[1]):
            result += codes[:, self.clamped[:, column]] * self.clamped_stride[:, column]
        return result


@dataclass(frozen=True)
class _Reduced:
    """The factors that touch some free variables, grouped by the free variables that they have in common."""

    variables: IntArray
    factors: IntArray
    free_strides: IntArray  # of each factor's free variables in increasing order, padded in front
    outside: NDArray[np.bool_]  # (factors, widest scope): which variables of the scope are clamped
    group_of: IntArray  # the group of each factor
    cardinalities: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]  # the places of their variables in ``variables``


#: Templates in use anywhere in the process. A large sum takes a second to compile, and the sampler of a field and its full
#: likelihood are the same sum.
_IN_USE: WeakValueDictionary[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], EliminationTemplate] = (
    WeakValueDictionary()
)


class ProgramCompiler:
    """Compiles programs over one graph and keeps the templates that they share."""

    def __init__(self, graph: FactorGraph, *, largest_table: int = LARGEST_TABLE) -> None:
        self.graph = graph
        self.largest_table = largest_table
        self.memory = 0  # bytes of all templates so far
        self._templates: dict[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], EliminationTemplate] = {}
        self._orders: dict[tuple[tuple[int, ...], tuple[tuple[int, ...], ...]], TemplateOrder | WidthError] = {}
        self._cards = np.array(graph.cardinalities, dtype=np.int64)

    def check(self, free: frozenset[int], *, name: str = "The sum") -> None:
        """Raise `WidthError` where the sum over ``free`` is too wide. Only the order is found; nothing is compiled."""
        if math.prod(self.graph.cardinalities[v] for v in free) > self.largest_table:
            reduced = self._reduce(free)
            self._order(reduced.cardinalities, reduced.groups, name)

    def compile(self, free: frozenset[int], *, name: str = "The sum") -> Program:
        """Compile the exact sum over ``free``, all other variables being clamped; ``name`` is for error messages."""
        reduced = self._reduce(free)
        groups, touching = reduced.groups, reduced.factors
        template = self._template(reduced.cardinalities, groups, name)
        scopes, strides = self.graph.scope_matrix[touching], self.graph.stride_matrix[touching]
        members = np.argsort(reduced.group_of, kind="stable")
        sorted_strides = reduced.free_strides[members]
        offsets = []
        counts = np.bincount(reduced.group_of, minlength=len(groups))
        pointer = np.concatenate(([0], np.cumsum(counts)))
        for group, scope in enumerate(groups):
            group_strides = sorted_strides[
                pointer[group] : pointer[group + 1], sorted_strides.shape[1] - len(scope) :
            ]
            digits = np.indices([template.cardinalities[v] for v in scope]).reshape(len(scope), -1)
            offsets.append((group_strides @ digits).astype(np.int32).ravel())
        outside = reduced.outside[members]
        return Program(
            template=template,
            free=tuple(int(v) for v in reduced.variables),
            boundary=tuple(int(v) for v in np.unique(scopes[members][outside])),
            factors=touching[members],
            group_member=pointer.astype(np.int32),
            member_size=np.repeat(template.arrays["group_size"].astype(np.int64), counts),
            entry_offset=np.concatenate(offsets) if offsets else np.empty(0, dtype=np.int32),
            clamped=np.where(outside, scopes[members], 0),
            clamped_stride=np.where(outside, strides[members], 0),
        )

    def _reduce(self, free: frozenset[int]) -> _Reduced:
        variables = np.array(sorted(free), dtype=np.int64)
        touching = np.unique(np.array([f for v in variables for f in self.graph.factors_of[v]], dtype=np.int64))
        local = np.full(self.graph.n_variables, -1, dtype=np.int64)
        local[variables] = np.arange(len(variables))
        scopes, strides = self.graph.scope_matrix[touching], self.graph.stride_matrix[touching]
        place = np.where(scopes >= 0, local[scopes], -1)
        inside = place >= 0
        # Free variables of each factor in increasing order, padded in front: equal lines are one group.
        order = np.argsort(np.where(inside, place, -1), axis=1, kind="stable")
        keys = np.take_along_axis(np.where(inside, place, -1), order, axis=1)
        number = np.zeros(len(keys), dtype=np.int64)
        if (len(variables) + 1.0) ** keys.shape[1] < 2**62:
            for column in range(keys.shape[1]):
                number = number * (len(variables) + 1) + keys[:, column] + 1
            _, first, group_of = np.unique(number, return_index=True, return_inverse=True)
        else:
            _, first, group_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        groups = tuple(tuple(int(v) for v in line if v >= 0) for line in keys[first])
        return _Reduced(
            variables,
            touching,
            np.take_along_axis(np.where(inside, strides, 0), order, axis=1),
            ~inside & (scopes >= 0),
            group_of.reshape(-1),
            tuple(int(c) for c in self._cards[variables]),
            groups,
        )

    def _order(self, cards: tuple[int, ...], groups: tuple[tuple[int, ...], ...], name: str) -> TemplateOrder:
        order = self._orders.get((cards, groups))
        if order is None:
            try:
                order = order_template(cards, groups, name=name, largest_table=self.largest_table)
            except WidthError as error:
                order = error
            self._orders[cards, groups] = order
        if isinstance(order, WidthError):
            raise WidthError(str(order))
        return order

    def _template(
        self, cards: tuple[int, ...], groups: tuple[tuple[int, ...], ...], name: str
    ) -> EliminationTemplate:
        key = (cards, groups)
        template = self._templates.get(key)
        if template is None:
            order = self._order(cards, groups, name)
            template = _IN_USE.get(key) or compile_template(cards, groups, order)
            self._templates[key] = _IN_USE[key] = template
            self.memory += template.memory
        return template


@dataclass(frozen=True, eq=False)
class Configurations:
    """Configurations of the clamped variables: ``config_ptr`` (programs + 1,), ``bases`` flat (see the kernel)."""

    programs: ProgramSet
    config_ptr: IntArray
    bases: IntArray

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "kernel")

    @cached_property
    def kernel(self) -> _kernels.Configurations:
        """As the kernel takes them. Their indices are checked here, once."""
        return _kernels.Configurations(
            self.programs.kernel,
            config_ptr=self.config_ptr,
            bases=self.bases,
            table_size=self.programs.graph.table_size,
        )

    @property
    def count(self) -> int:
        """How many configurations there are in all."""
        return int(self.config_ptr[-1])

    @cached_property
    def _base_ptr(self) -> IntArray:
        """Where the bases of each program start."""
        factors = np.array([len(program.factors) for program in self.programs.programs], dtype=np.int64)
        return np.concatenate(([0], np.cumsum(np.diff(self.config_ptr) * factors))).astype(np.int64)

    def only(self, place: int) -> Configurations:
        """Those of one program."""
        counts = np.zeros(len(self.config_ptr) - 1, dtype=np.int64)
        counts[place] = self.config_ptr[place + 1] - self.config_ptr[place]
        bases = self.bases[self._base_ptr[place] : self._base_ptr[place + 1]]
        return Configurations(self.programs, _pointers(counts, np.int64), bases)

    def without(self, places: Sequence[int]) -> Configurations:
        """Those of all other programs; a view of the bases where these are in one piece."""
        counts = np.diff(self.config_ptr)
        counts[list(places)] = 0
        ends = [0, *(end for p in sorted(places) for end in self._base_ptr[p : p + 2].tolist()), len(self.bases)]
        pieces = [self.bases[start:stop] for start, stop in zip(ends[::2], ends[1::2], strict=True) if start < stop]
        return Configurations(self.programs, _pointers(counts, np.int64), _cat(pieces, np.int64))


class ProgramSet:
    """Many programs over one graph, as the kernel takes them."""

    def __init__(self, graph: FactorGraph, programs: list[Program]) -> None:
        self.graph = graph
        self.programs = tuple(programs)
        self.kernel = self._join()

    def __reduce__(self) -> tuple[type[ProgramSet], tuple[FactorGraph, list[Program]]]:
        return ProgramSet, (self.graph, list(self.programs))

    def _join(self) -> _kernels.Programs:
        """All templates and programs as one set of arrays."""
        templates = list({id(p.template): p.template for p in self.programs}.values())
        number = {id(template): index for index, template in enumerate(templates)}
        arrays: dict[str, list[Int32Array | IntArray]] = {}
        groups = buckets = maps = 0
        for template in templates:
            shifted = dict(template.arrays)
            source = shifted["input_source"]
            shifted["input_source"] = np.where(source >= 0, source + groups, source - buckets).astype(np.int32)
            shifted["input_map"] = shifted["input_map"] + maps
            for key, value in shifted.items():
                arrays.setdefault(key, []).append(value)
            groups += len(template.groups)
            buckets += len(shifted["bucket_size"])
            maps += len(shifted["maps"])

        def joined(key: str, kind: type[_Index]) -> NDArray[_Index]:
            return _cat(arrays.get(key, []), kind)

        programs = self.programs
        return _kernels.Programs(
            bucket_ptr=_pointers([len(t.arrays["bucket_size"]) for t in templates], np.int32),
            group_ptr=_pointers([len(t.groups) for t in templates], np.int32),
            cell_count=joined("cell_count", np.int64),
            group_size=joined("group_size", np.int32),
            group_cell=joined("group_cell", np.int64),
            bucket_size=joined("bucket_size", np.int32),
            bucket_card=joined("bucket_card", np.int32),
            bucket_cell=joined("bucket_cell", np.int64),
            message_cell=joined("message_cell", np.int64),
            input_ptr=_pointers(joined("input_count", np.int32), np.int32),
            input_source=joined("input_source", np.int32),
            input_map=joined("input_map", np.int64),
            maps=joined("maps", np.int32),
            bucket_var=joined("bucket_var", np.int32),
            separator_ptr=_pointers(joined("separator_count", np.int32), np.int32),
            separator_var=joined("separator_var", np.int32),
            separator_stride=joined("separator_stride", np.int32),
            wide=joined("wide", np.int32),
            step_ptr=_pointers(joined("step_count", np.int64), np.int64),
            input_step=joined("input_step", np.int64),
            program_template=np.array([number[id(p.template)] for p in programs], dtype=np.int32),
            program_member=_pointers([len(p.factors) for p in programs], np.int64),
            program_group=_pointers([len(p.group_member) for p in programs], np.int64)[:-1],
            group_member=_cat([p.group_member for p in programs], np.int32),
            member_entry=_pointers(_cat([p.member_size for p in programs], np.int64), np.int64)[:-1],
            entry_offset=_cat([p.entry_offset for p in programs], np.int32),
            program_variable=_pointers([len(p.free) for p in programs], np.int64),
            variable=_cat([np.array(p.free, dtype=np.int32) for p in programs], np.int32),
        )

    @cached_property
    def _costs(self) -> FloatArray:
        """Rough operations of one configuration of each program."""
        return np.array([10.0 * p.cost + 2.0 * len(p.entry_offset) for p in self.programs])

    @cached_property
    def entry_counts(self) -> IntArray:
        """Reduced table entries of each program, all members together."""
        return np.array([len(p.entry_offset) for p in self.programs], dtype=np.int64)

    def entries(self, place: int, bases: IntArray) -> IntArray:
        """Flat table entries of configurations of one program in the order of the kernel's ``each``: (n, entries)."""
        program = self.programs[place]
        return np.repeat(bases, program.member_size, axis=1) + program.entry_offset

    def configure(self, codes: list[Int32Array]) -> Configurations:
        """Clamp each program to the lines of its code matrix (lines, variables)."""
        bases = [
            program.bases(self.graph, lines).ravel() for program, lines in zip(self.programs, codes, strict=True)
        ]
        return Configurations(
            self,
            np.concatenate(([0], np.cumsum([len(lines) for lines in codes]))).astype(np.int64),
            np.concatenate(bases) if bases else _NO_INDEX,
        )

    def run(
        self,
        log_tables: FloatArray,
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
            configurations.kernel,
            log_tables,
            direction=direction,
            weight=weight,
            log_z=log_z,
            slope=slope,
            marginals=marginals,
            marginal_slope=marginal_slope,
            each=each,
            each_start=each_start,
            message_memory=MESSAGE_MEMORY,
            n_threads=get_threads(float(self._costs @ np.diff(configurations.config_ptr))),
        )

    def decode(
        self,
        log_tables: FloatArray,
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
            configurations.kernel,
            log_tables,
            maximise=maximise,
            seed=seed,
            stream=stream,
            first_row=first_row,
            states=states,
            message_memory=MESSAGE_MEMORY,
        )


def _cat(parts: Sequence[Int32Array | IntArray], kind: type[_Index]) -> NDArray[_Index]:
    if len(parts) == 1:
        return parts[0].astype(kind, copy=False)  # the maps of one large sum are hundreds of megabytes
    return np.concatenate(parts).astype(kind, copy=False) if parts else np.empty(0, dtype=kind)


def _pointers(counts: Sequence[int] | Int32Array | IntArray, kind: type[_Index]) -> NDArray[_Index]:
    return np.concatenate(([0], np.cumsum(counts))).astype(kind)

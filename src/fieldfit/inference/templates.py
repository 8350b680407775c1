"""The shape of an elimination as flat arrays.

An `EliminationTemplate` is the elimination of variables with given cardinalities whose reduced tables have given scopes,
from any graph; kernels/elimination.hpp describes the layout and the method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fieldfit.inference.elimination import EliminationOrder, elimination_order
from fieldfit.inference.factor_graph import FactorGraph
from fieldfit.types import Int32Array, IntArray

#: Numbers that an elimination may hold at once with all its tables. Larger ones are wide: their tables
#: are not stored (kernels/elimination_wide.hpp).
MOST_MESSAGE_CELLS = 1 << 16


@dataclass(frozen=True, eq=False)
class EliminationTemplate:
    """One shape of elimination: buckets over the free variables 0..k−1, reduced tables over ``groups``."""

    cardinalities: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    arrays: dict[str, Int32Array | IntArray]
    cost: int
    products: int  # inputs of all steps, each counted with the entries of its step's table
    width: int
    wide: bool

    @property
    def memory(self) -> int:
        """Bytes of the compiled arrays."""
        return sum(array.nbytes for array in self.arrays.values())


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


@dataclass(frozen=True)
class TemplateOrder:
    """The order of a template's elimination, with the tables that each step multiplies: cheap, and known to fit."""

    order: EliminationOrder
    inputs: list[list[tuple[int, tuple[int, ...]]]]  # of each step: (source, variables)
    tables: list[int]  # entries of each step's table


def order_template(
    cards: tuple[int, ...], groups: tuple[tuple[int, ...], ...], *, name: str, largest_table: int
) -> TemplateOrder:
    """Find the order in which all variables of a field with these reduced tables are summed out.

    Raises `WidthError` where a table or the index of all tables would be too large.
    """
    order = elimination_order(
        FactorGraph(cards, groups), frozenset(range(len(cards))), name=name, largest_table=largest_table
    )
    position = {variable: place for place, variable in enumerate(order.variables)}
    inputs: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in order.variables]
    for group, scope in enumerate(groups):
        inputs[min(position[v] for v in scope)].append((group, scope))
    for bucket, separator in enumerate(order.separators):
        if separator:
            inputs[min(position[v] for v in separator)].append((-1 - bucket, separator))
    tables = [
        math.prod(cards[v] for v in (*separator, variable))
        for variable, separator in zip(order.variables, order.separators, strict=True)
    ]
    return TemplateOrder(order, inputs, tables)


def compile_template(
    cards: tuple[int, ...], groups: tuple[tuple[int, ...], ...], ordered: TemplateOrder
) -> EliminationTemplate:
    """Compile the elimination of all variables of a field with these reduced tables, in a known order."""
    order, inputs, tables = ordered.order, ordered.inputs, ordered.tables
    group_sizes = [math.prod(cards[v] for v in scope) for scope in groups]
    bucket_cards = [cards[variable] for variable in order.variables]
    group_cells = np.concatenate(([0], np.cumsum(group_sizes)))
    bucket_cells = group_cells[-1] + np.concatenate(([0], np.cumsum(tables)))
    messages = [size // card for size, card in zip(tables, bucket_cards, strict=True)]
    message_cells = bucket_cells[-1] + np.concatenate(([0], np.cumsum(messages)))
    products = sum(size * len(sources) for size, sources in zip(tables, inputs, strict=True))
    wide = int(message_cells[-1]) > MOST_MESSAGE_CELLS
    sources, maps, steps = [], [], []
    separator_vars: list[int] = []
    separator_strides: list[int] = []
    layout: list[tuple[int, ...]] = []  # the variables of each message, the last fastest
    for bucket, (variable, separator) in enumerate(zip(order.variables, order.separators, strict=True)):
        # A wide message has the variable that is summed out next in front.
        layout.append(separator if wide else tuple(sorted(separator)))
        strides = _steps([cards[v] for v in layout[bucket]])
        separator_vars.extend(layout[bucket])
        separator_strides.extend(strides)
        members = (*layout[bucket], variable)
        for source, scope in inputs[bucket]:
            variables = scope if source >= 0 else layout[-1 - source]
            step = dict(zip(variables, _steps([cards[v] for v in variables]), strict=True))
            sources.append(source)
            if wide:
                steps.append([step.get(variable, 0), *(step.get(v, 0) for v in layout[bucket])])
            else:
                maps.append(_index_map([cards[v] for v in members], [step.get(v, 0) for v in members]))
    kept = np.zeros(len(tables), dtype=np.int64)
    arrays: dict[str, Int32Array | IntArray] = {
        "group_size": np.array(group_sizes, dtype=np.int32),
        "group_cell": group_cells[:-1].astype(np.int64),
        "bucket_size": np.array(tables, dtype=np.int32),
        "bucket_card": np.array(bucket_cards, dtype=np.int32),
        "bucket_cell": kept if wide else bucket_cells[:-1].astype(np.int64),
        "message_cell": kept if wide else message_cells[:-1].astype(np.int64),
        "cell_count": (group_cells if wide else message_cells)[-1:].astype(np.int64),
        "input_count": np.array([len(line) for line in inputs], dtype=np.int32),
        "input_source": np.array(sources, dtype=np.int32),
        "input_map": np.concatenate(([0], np.cumsum([len(m) for m in maps])))[: len(sources)].astype(np.int64)
        if maps
        else np.zeros(len(sources), dtype=np.int64),
        "maps": np.concatenate(maps) if maps else np.empty(0, dtype=np.int32),
        "bucket_var": np.array(order.variables, dtype=np.int32),
        "separator_count": np.array([len(s) for s in order.separators], dtype=np.int32),
        "separator_var": np.array(separator_vars, dtype=np.int32),
        "separator_stride": np.array(separator_strides, dtype=np.int32),
        "wide": np.array([wide], dtype=np.int32),
        "step_count": np.array([len(line) for line in steps] if wide else [0] * len(sources), dtype=np.int64),
        "input_step": np.array([step for line in steps for step in line], dtype=np.int64),
    }
    return EliminationTemplate(cards, groups, arrays, order.cost, products, order.width, wide)

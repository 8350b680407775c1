"""Templates applied to codes: what a cell reads at every token, and the features that templates make of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit._kernels import cell_codes
from fieldfit.data.keys import KeySpace, learn_keys
from fieldfit.data.templates import Template, TemplateCell
from fieldfit.types import BoolArray, Int32Array, IntArray

Source = tuple[int, str]
"""A column and a derivation (or ``""``): where a cell's values come from."""


@dataclass(frozen=True, eq=False)
class Block:
    """Templates that share an identifier, and with it their features."""

    templates: tuple[Template, ...]
    space: KeySpace


class Cells:
    """The codes that a cell reads at every token; codes beyond the vocabulary are places outside the sentence."""

    def __init__(
        self,
        offsets: IntArray,
        reach: int,
        codes: Mapping[Source, Int32Array],
        vocabularies: Mapping[Source, Sequence[str]],
    ) -> None:
        self._offsets, self._reach = offsets, reach
        self._codes, self._vocabularies = codes, vocabularies
        self.inner = np.ones(int(offsets[-1]), dtype=bool)  # the tokens with one before them in their sentence
        self.inner[offsets[:-1][np.diff(offsets) > 0]] = False

    def radix(self, cell: TemplateCell) -> int:
        """One more than the largest code that `read` can give."""
        return len(self._vocabularies[cell.column, cell.derivation]) + 2 * self._reach

    def read(self, cell: TemplateCell) -> Int32Array:
        """(n_tokens,) the code in the cell's column ``row`` tokens away, −1 where the value is unknown."""
        source = cell.column, cell.derivation
        return cell_codes(self._offsets, self._codes[source], cell.row, len(self._vocabularies[source]), self._reach)


def group_templates(templates: Iterable[Template]) -> list[tuple[Template, ...]]:
    """Templates with the same identifier together, in order of appearance."""
    groups: dict[tuple[str, ...], list[Template]] = {}
    for template in templates:
        groups.setdefault(template.pieces, []).append(template)
    return [tuple(group) for group in groups.values()]


def learn_blocks(
    templates: Iterable[Template], reader: Cells, min_count: int, where: slice | BoolArray
) -> tuple[tuple[Block, ...], list[Int32Array]]:
    """The features of each group of templates at the tokens ``where``, and each template's codes at all tokens."""
    blocks: list[Block] = []
    columns: list[Int32Array] = []
    for group in group_templates(templates):
        parts, radices = _parts(group, reader, where)
        space, codes = learn_keys(parts, radices, min_count)
        blocks.append(Block(group, space))
        columns.extend(_spread(codes, len(group), reader, where))
    return tuple(blocks), columns


def _parts(group: Sequence[Template], reader: Cells, where: slice | BoolArray) -> tuple[list[Int32Array], list[int]]:
    """For each position of the group's templates the codes there, the templates one after the other."""
    if not group[0].cells:  # a feature that every token has
        count = len(group) * len(reader.inner[where])
        return [np.zeros(count, dtype=np.int32)], [1]
    parts = [
        np.concatenate([reader.read(template.cells[position])[where] for template in group])
        for position in range(len(group[0].cells))
    ]
    return parts, [reader.radix(cell) for cell in group[0].cells]


def _spread(codes: Int32Array, count: int, reader: Cells, where: slice | BoolArray) -> list[Int32Array]:
    """The codes template by template, with −1 at the tokens that ``where`` leaves out."""
    columns = np.split(codes, count)
    if isinstance(where, slice):
        return columns
    result = []
    for column in columns:
        full = np.full(len(reader.inner), -1, dtype=np.int32)
        full[where] = column
        result.append(full)
    return result

r"""Feature templates in CRF++'s language: ``U00:%x[-1,0]`` is the value of column 0 one token back.

Lines that start with U make state features (observation × label), lines that start with B make features of label
pairs; a plain ``B`` stands for the label transitions themselves. Cells outside the sentence read ``_B-1``, ``_B-2``,
… before it and ``_B+1``, … after it. Lines that start with # and blank lines are ignored.

One extension: ``%x[0,0:suffix3]`` reads a derived column (lower, shape, stop, prefixN, suffixN).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from fieldfit.arguments import text_of
from fieldfit.data.derived import parse_derivation
from fieldfit.data.textfile import read_text
from fieldfit.types import DataError

_CELL = re.compile(r"%x\[\s*([+-]?\d{1,18})\s*,\s*(\d{1,18})\s*(?::\s*(\w+)\s*)?\]")
_LONGEST_REACH = 100


@dataclass(frozen=True)
class TemplateCell:
    """One ``%x[row,column:derivation]``: a token relative to the current one, a column, a derivation or ``""``."""

    row: int
    column: int
    derivation: str = ""

    def __str__(self) -> str:
        return f"%x[{self.row},{self.column}{':' + self.derivation if self.derivation else ''}]"


@dataclass(frozen=True)
class Template:
    """A feature's pattern: literal text around cells, ``len(pieces) == len(cells) + 1``."""

    pieces: tuple[str, ...]
    cells: tuple[TemplateCell, ...]

    def __str__(self) -> str:
        return self.pieces[0] + "".join(
            f"{cell}{piece}" for cell, piece in zip(self.cells, self.pieces[1:], strict=True)
        )

    def name(self, values: Sequence[str]) -> str:
        """The feature's name where the cells have these values."""
        return self.pieces[0] + "".join(f"{v}{piece}" for v, piece in zip(values, self.pieces[1:], strict=True))


@dataclass(frozen=True)
class FeatureSpec:
    r"""What to compute for each token.

    Parameters
    ----------
    name : str
        Its name in messages.
    states : tuple of Template
        Templates of features of a label.
    pairs : tuple of Template, default: ()
        Templates of features of two adjacent labels.
    transitions : bool, default: True
        Whether each pair of adjacent labels has a weight of its own.

    Examples
    --------
    >>> from fieldfit.chains import parse_templates
    >>> parse_templates("U00:%x[0,0]\nU01:%x[-1,1]").columns
    (0, 1)
    """

    name: str
    states: tuple[Template, ...]
    pairs: tuple[Template, ...] = ()
    transitions: bool = True

    @property
    def templates(self) -> tuple[Template, ...]:
        """State templates, then label-pair templates."""
        return self.states + self.pairs

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that the templates read, ascending."""
        return tuple(sorted({cell.column for template in self.templates for cell in template.cells}))

    @property
    def reach(self) -> int:
        """How many tokens the farthest cell lies away."""
        return max((abs(cell.row) for template in self.templates for cell in template.cells), default=0)

    @property
    def uses_stop_words(self) -> bool:
        """Whether a cell asks if its word is in the stop list."""
        return any(cell.derivation == "stop" for template in self.templates for cell in template.cells)

    def to_text(self) -> str:
        r"""Return the templates as `parse_templates` reads them.

        Returns
        -------
        str

        Examples
        --------
        >>> from fieldfit.chains import parse_templates
        >>> parse_templates("U00:%x[0,0]\nB").to_text()
        'U00:%x[0,0]\nB\n'
        """
        lines = [str(template) for template in self.templates]
        return "\n".join(lines + ["B"] * self.transitions) + "\n"


def read_templates(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> FeatureSpec:
    r"""Read a template file in CRF++'s format.

    Parameters
    ----------
    path : str or Path
        The file.
    encoding : str, default: "utf-8"
        Its encoding.

    Returns
    -------
    FeatureSpec

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit.chains import read_templates
    >>> size = Path("template").write_text("U00:%x[0,0]\nB\n")
    >>> len(read_templates("template").states)
    1
    """
    return parse_templates(read_text(path, encoding), source=str(path))


def parse_templates(text: str, *, source: str = "templates") -> FeatureSpec:
    r"""Read feature templates in CRF++'s format.

    Parameters
    ----------
    text : str
        A template on each line: U for features of a label, B for features of two adjacent labels, # for a remark.
    source : str, default: "templates"
        Name of the text in error messages.

    Returns
    -------
    FeatureSpec

    Examples
    --------
    >>> from fieldfit.chains import parse_templates
    >>> spec = parse_templates("U00:%x[-1,0]/%x[0,0]\nB")
    >>> spec.reach, spec.transitions
    (1, True)
    """
    text_of(text, source)
    states: dict[Template, None] = {}
    pairs: dict[Template, None] = {}
    transitions = False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if stripped[0] not in "UB":
            raise DataError(
                f"{source}, line {number}: a template starts with U or B (or # for a remark); got {line!r:.80}."
            )
        template = _parse_line(stripped, f"{source}, line {number}")
        if stripped[0] == "U":
            states[template] = None
        elif template.cells:
            pairs[template] = None
        else:
            transitions = True
    if not states and not pairs and not transitions:
        raise DataError(f"{source}: there is no template; write for example U00:%x[0,0] and B.")
    _refuse_shared_names([*states, *pairs], source)
    return FeatureSpec(source, tuple(states), tuple(pairs), transitions)


def _parse_line(line: str, place: str) -> Template:
    pieces: list[str] = []
    cells: list[TemplateCell] = []
    end = 0
    for cell in _CELL.finditer(line):
        pieces.append(line[end : cell.start()])
        end = cell.end()
        cells.append(TemplateCell(int(cell[1]), int(cell[2]), cell[3] or ""))
        parse_derivation(cells[-1].derivation)
        if abs(cells[-1].row) > _LONGEST_REACH:
            raise DataError(f"{place}: {cell[0]} reaches farther than {_LONGEST_REACH} tokens.")
    pieces.append(line[end:])
    if any("%x" in piece for piece in pieces):
        raise DataError(f"{place}: a cell is written %x[row,column], for example %x[-1,0]; got {line!r:.80}.")
    return Template(tuple(pieces), tuple(cells))


def _refuse_shared_names(templates: Sequence[Template], source: str) -> None:
    """Templates with the same text share their features, which makes sense only where they read the same columns."""
    first: dict[tuple[str, ...], Template] = {}
    for template in templates:
        other = first.setdefault(template.pieces, template)
        if [(c.column, c.derivation) for c in other.cells] != [(c.column, c.derivation) for c in template.cells]:
            raise DataError(
                f"{source}: {other} and {template} have the same identifier but read different columns; "
                f"give each a different identifier (U01:, U02:, …)."
            )

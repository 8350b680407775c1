"""Values written as text on the command line: lists of states, θ, edges, given states."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fieldfit.types import DataError, FieldfitError, ModelError, Plain

if TYPE_CHECKING:
    from fieldfit.types import FloatArray

#: Numbers of one option, repeated ones included.
_MOST_LISTED_NUMBERS = 10_000_000
_WHOLE = re.compile(r"\d{1,15}")
_GRID = re.compile(r"grid:(\d{1,9})[x×](\d{1,9})(?::([48]))?")


def as_list(text: str | None) -> list[str] | None:
    """``a,b,c`` as a list; None stays None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def as_states(text: str) -> tuple[str | float, ...]:
    """``0,1`` as numbers; what writes no number stays text."""
    from fieldfit.data.labels import as_number

    states: list[str | float] = []
    for part in as_list(text) or []:
        number = as_number(part)
        states.append(part if number is None else number)
    if len(states) < 2:
        raise ModelError(f"--states {text!r:.80} has {len(states)} states; give at least two, such as 0,1.")
    return tuple(states)


def numbers_from_text(text: str, option: str) -> list[float]:
    """``0.5,1`` as numbers; ``-1x5`` stands for five times −1."""
    numbers: list[float] = []
    for part in re.split(r"[,\s]+", text.strip()):
        value, _, times = part.partition("x")
        try:
            number, count = float(value), int(times) if times else 1
        except ValueError:
            raise FieldfitError(
                f"{option} has {part[:40]!r}, which is not a number; separate numbers by commas, such as -1x5,1,0.5."
            ) from None
        if len(numbers) + count > _MOST_LISTED_NUMBERS:
            raise FieldfitError(f"{option} has more than {_MOST_LISTED_NUMBERS:,} numbers with {part[:40]!r}.")
        numbers += [number] * count
    return numbers


def as_tolerance(text: str) -> float | Literal["statistical"]:
    """A number above 0, or ``statistical``."""
    if text == "statistical":
        return "statistical"
    try:
        tolerance = float(text)
    except ValueError:
        tolerance = 0.0
    if not 0 < tolerance < float("inf"):
        raise FieldfitError(f"--tol is {text[:40]!r}; it must be a number above 0, such as 1e-6, or statistical.")
    return tolerance


def as_theta(text: str) -> FloatArray:
    """θ as a list of numbers, or from a file of numbers (by commas, blanks or lines)."""
    import numpy as np

    path = Path(text)
    is_file = path.suffix != "" and not re.fullmatch(r"[-+0-9.,xeE\s]*", text)
    if is_file or _exists(path):
        from fieldfit.data.textfile import read_text

        return np.array(numbers_from_text(read_text(path), f"The file {text}"))
    return np.array(numbers_from_text(text, "--theta"))


def as_edges(
    text: str | None, names: Sequence[str], kind: str = "variables", advice: str = "Choose them with --columns"
) -> tuple[list[tuple[int, int]] | None, list[str] | None]:
    """Edges and, for grids, their directions: ``grid:8x8``, ``grid:8x8:8`` (8 neighbours), or a file of pairs.

    The file has two variables a line, by name or by number from 0. ``kind`` and ``advice`` are for the message about a
    grid of another size.
    """
    if text is None or text == "complete":
        return None, None
    match = _GRID.fullmatch(text)
    if match:
        from fieldfit.models.graphs import grid_edges

        rows, columns = int(match[1]), int(match[2])
        if rows * columns != len(names):
            raise ModelError(
                f"--edges {text} is a grid of {rows * columns} sites, and the data have {len(names)} {kind}. {advice}, "
                f"or give another grid."
            )
        edges, directions = grid_edges(rows, columns, int(match[3] or 4))
        return [(j, k) for j, k in edges.tolist()], list(directions)
    if text.startswith("grid"):
        raise ModelError(f"--edges {text[:80]!r} is not a grid; write grid:8x8, or grid:8x8:8 for eight neighbours.")
    return _edges_from_file(text, names), None


def graph_variables(text: str | None) -> list[str]:
    """The variables of ``--edges`` where no data name them: sites of a grid, or what a file of pairs mentions."""
    match = _GRID.fullmatch(text or "")
    if match:
        return [f"x{v}" for v in range(int(match[1]) * int(match[2]))]
    if text is None or text.startswith("grid"):
        raise ModelError(f"--edges {text!r:.80} is not a grid; write grid:8x8, or grid:8x8:8 for eight neighbours.")
    pairs = [ends for _, ends in _pairs_in(text)]
    numbered = [ends for ends in pairs if all(_WHOLE.fullmatch(end) for end in ends)]
    if numbered and len(numbered) >= len(pairs) - 1:  # the first line may have the names of the columns
        most = max(int(end) for ends in numbered for end in ends)
        if most >= _MOST_LISTED_NUMBERS:
            raise DataError(
                f"{text} has the variable {most}; variables are numbered from 0 to {_MOST_LISTED_NUMBERS - 1}."
            )
        return [f"x{v}" for v in range(most + 1)]
    return list(dict.fromkeys(end for ends in pairs for end in ends))


def _pairs_in(path: str) -> Iterator[tuple[int, list[str]]]:
    """The number of each line of a file of pairs, and its two entries."""
    from fieldfit.data.textfile import read_text

    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        ends = [end.strip().strip('"') for end in re.split(r"[,;\t]", line)]
        if len(ends) == 1:
            ends = line.split()
        if len(ends) != 2:
            raise DataError(f"{path}, line {number}: {len(ends)} entries, and an edge is two variables. Correct it.")
        yield number, ends


def _edges_from_file(path: str, names: Sequence[str]) -> list[tuple[int, int]]:
    place = {name: number for number, name in enumerate(names)}
    place |= {str(number): number for number in range(len(names)) if str(number) not in place}
    edges = []
    for number, ends in _pairs_in(path):
        unknown = [end for end in ends if end not in place]
        if len(unknown) == 2 and number == 1 and ends[0] != ends[1]:
            continue  # the names of the columns
        if unknown:
            raise DataError(
                f"{path}, line {number}: there is no variable {unknown[0]!r:.80}. Use its name, or numbers from 0 "
                f"to {len(names) - 1}."
            )
        edges.append((place[ends[0]], place[ends[1]]))
    if not edges:
        raise DataError(f"{path} has no edges. Write two variables per line.")
    return edges


def as_given(items: Sequence[str], names: Sequence[str], states: Sequence[Sequence[object]]) -> Plain | None:
    """``name=state`` items as a mapping from names to states."""
    if not items:
        return None
    given: Plain = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        if not equals or name not in names:
            shown = ", ".join(list(names)[:8]) + (", …" if len(names) > 8 else "")
            raise ModelError(f"--given {item!r:.80} does not name a variable; write name=state with one of: {shown}.")
        state_of_text = {str(state): state for state in states[list(names).index(name)]}
        if text not in state_of_text:
            raise ModelError(f"--given {item!r:.80}: the states of {name} are {', '.join(state_of_text)}.")
        given[name] = state_of_text[text]
    return given


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a long list of numbers is no file name
        return False

"""Parameters and variables by their names: patterns, pairs in either order, and the nearest names of a misspelt one."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Sequence

import numpy as np

from fieldfit.arguments import has_entries, is_integer
from fieldfit.types import IntArray, ModelError

#: Names that a misspelt one is compared with.
_MOST_COMPARED_NAMES = 20_000


def places_of(parameters: object, names: Sequence[str]) -> IntArray:
    """Indices of parameters given by names, patterns or numbers, one or many; see `places_of_each`."""
    if isinstance(parameters, str | int | np.integer):
        return places_of_each([parameters], names)[0]
    if has_entries(parameters):
        return np.concatenate([np.empty(0, dtype=np.int64), *places_of_each(list(parameters), names)])
    raise ModelError(
        f"Parameters are names or numbers from 0 to {len(names) - 1}, one or a list; got {parameters!r:.80}."
    )


def places_of_each(items: Sequence[object], names: Sequence[str]) -> list[IntArray]:
    """The places of each item: a name, a number, or a pattern, which may have several.

    A pattern has ``*`` (any text) or ``?`` (any letter): ``"*:*"`` are all couplings of a field, ``"x1:*"`` those of x1. A
    pair may be named in either order.
    """
    r = len(names)
    wanted = {spelling for item in items if isinstance(item, str) for spelling in (item, turned(item))}
    where = {name: place for place, name in enumerate(names) if name in wanted} if wanted else {}
    places_by_key: list[IntArray] = []
    for item in items:
        if isinstance(item, str):
            known = next((where[spelling] for spelling in (item, turned(item)) if spelling in where), None)
            places = _matching(item, names) if known is None else [known]
        elif is_integer(item) and -r <= item < r:
            places = [int(item) % r]
        else:
            raise ModelError(f"A parameter is a name or a number from 0 to {r - 1}; got {item!r:.80}.")
        places_by_key.append(np.array(places, dtype=np.int64))
    return places_by_key


def variables_of(variables: Iterable[int | str] | str, names: Sequence[str]) -> tuple[int, ...]:
    """The numbers of variables given by name or number; numbers are as they are."""
    numbers: list[int] = []
    many = [variables] if isinstance(variables, str) else variables
    if not has_entries(many):
        raise ModelError(f"Variables are a list of names or numbers; got {variables!r:.80}.")
    for item in many:
        if isinstance(item, str) and item not in names:
            raise ModelError(f"There is no variable {item!r:.80}; {nearest_names(item, names)}.")
        if not (isinstance(item, str) or is_integer(item)):
            raise ModelError(f"A variable is a name or a number; got {item!r:.80}.")
        numbers.append(names.index(item) if isinstance(item, str) else int(item))
    return tuple(numbers)


def turned(name: str) -> str:
    """The name of a pair in the other order; other names stay as they are."""
    first, colon, second = name.partition(":")
    return f"{second}:{first}" if colon and ":" not in second else name


def _matching(pattern: str, names: Sequence[str]) -> list[int]:
    """The places of the names that fit a pattern; ModelError, with the nearest names, where there are none."""
    if "*" in pattern or "?" in pattern:
        # Brackets are letters: names of factors have them. ``x1:*`` is every pair with x1, whichever is named first.
        spellings = dict.fromkeys((pattern, turned(pattern)))
        fits = re.compile("|".join(fnmatch.translate(spelling.replace("[", "[[]")) for spelling in spellings)).match
        matching = [place for place, name in enumerate(names) if fits(name)]
        if matching:
            return matching
        raise ModelError(
            f"No parameter has a name like {pattern!r:.80}; {nearest_names(pattern.replace('*', ''), names)}."
        )
    raise ModelError(f"The model has no parameter {pattern!r:.80}; {nearest_names(pattern, names)}.")


def nearest_names(name: str, names: Sequence[str]) -> str:
    """A clause with the names that are spelt most like this one, or the first ones."""
    close = closest_names(name, names)
    if close:
        return f"the nearest names are {', '.join(map(repr, close))}"
    return f"the first ones are {', '.join(repr(names[place]) for place in range(min(len(names), 5)))}"


def closest_names(name: str, names: Sequence[str]) -> list[str]:
    """At most three names that are spelt like this one; a pair in either order."""
    some = [names[place] for place in range(min(len(names), _MOST_COMPARED_NAMES))]
    lowered = {text.lower(): text for text in some}
    if ":" in name:
        lowered = {turned(text): name for text, name in lowered.items()} | lowered
    close = (lowered[text] for text in difflib.get_close_matches(name.lower(), list(lowered), 6, 0.6))
    return list(dict.fromkeys(close))[:3]

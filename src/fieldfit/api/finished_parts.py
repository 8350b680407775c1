"""Finished parts of a long computation in a checkpoint: folds of a cross-validation, batches of resampled networks.

A computation asks for its parts in a fixed order. A part that is in the file is taken from it; the others are computed
and added. A file may have several computations that follow each other, such as the networks of two groups. fieldfit's
warnings of a part are in the file too, and come again with the part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from fieldfit import types
from fieldfit.api.checkpoint import Checkpoint, FileKeeper, as_checkpoint, digest_of
from fieldfit.callers import heard, warn_caller
from fieldfit.data.container import read_container, write_container
from fieldfit.optim.keeping import State
from fieldfit.types import Array, FieldfitError, FieldfitWarning

#: The next part, from the shapes of its arrays (each with at least one axis) and the function that computes it.
Part = Callable[[Mapping[str, tuple[int, ...]], Callable[[], Mapping[str, Array]]], Mapping[str, Array]]


#: The warnings of a part: the name of the category and the text of each.
Said = list[list[str]]

#: Name of the array with the number of finished parts of each computation.
COUNTS = "parts"


class PartsKeeper(FileKeeper):
    """Keeps the finished parts of computations that follow each other.

    Arrays of the same name are one array in the file, ``<computation>.<name>``: the parts along its first axis.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._belongs_to: list[dict[str, str]] = []  # the computations in the file, in their order
        self._counts: list[int] = []  # their finished parts in the file
        self._said: list[list[Said]] = []  # the warnings of these
        self._new: list[list[tuple[Mapping[str, Array], Said]]] = []  # the parts of this process, and their warnings
        self._begun = -1  # the number of the computation
        self._next, self._rows = 0, dict[str, int]()  # its next part, and where that begins in the arrays of the file
        super().__init__(checkpoint, {})

    def begin(self, identity: dict[str, str]) -> None:
        """Begin the next computation. Raises an error if the file has another one in its place."""
        self._begun += 1
        self._next, self._rows = 0, {}
        if self._begun < len(self._belongs_to):
            self._identity = identity
            self._check(self._belongs_to[self._begun])
            if not self._begun:
                self.tell()
            return
        self._new.append([])
        self._said.append([])
        self._counts.append(0)
        self._belongs_to.append(identity)
        self._keep(last=False)

    def part(
        self, shapes: Mapping[str, tuple[int, ...]], compute: Callable[[], Mapping[str, Array]]
    ) -> Mapping[str, Array]:
        """The next part of the computation, from the file or computed."""
        self._next += 1
        if self._next <= self._counts[self._begun]:
            saved = {name: self._saved(f"{self._begun}.{name}", shape) for name, shape in shapes.items()}
            _say_again(self._said[self._begun][self._next - 1])
            return saved
        with heard() as warned:
            made = compute()
        arrays = {name: np.asarray(made[name], dtype=np.float64).reshape(shape) for name, shape in shapes.items()}
        self._new[self._begun].append((arrays, [[kind.__name__, text] for kind, text in warned]))
        self._keep(last=False)
        return arrays

    def finish(self) -> None:
        """Write the parts that are not in the file yet."""
        self._keep(last=True)

    def _saved(self, name: str, shape: tuple[int, ...]) -> Array:
        first = self._rows.get(name, 0)
        self._rows[name] = first + shape[0]
        whole = (self.saved or {}).get(name, np.zeros(0))
        if whole.dtype != np.float64 or whole.ndim == 0 or whole[first : first + shape[0]].shape != shape:
            raise FieldfitError(f"{self._path} is damaged: its array {name!r:.80} is not one of this computation.")
        return whole[first : first + shape[0]]

    def _keep(self, *, last: bool) -> None:
        self.keep(self._state, sum(self._counts) + sum(map(len, self._new)), last=last)

    def _state(self) -> State:
        state = dict(self.saved or {})
        for number, parts in enumerate(self._new):
            for each in parts[0][0] if parts else ():
                name, made = f"{number}.{each}", [part[each] for part, _ in parts]
                state[name] = np.concatenate([state[name], *made] if name in state else made)
        counts = [before + len(parts) for before, parts in zip(self._counts, self._new, strict=True)]
        return state | {COUNTS: np.array(counts, dtype=np.int64)}

    def _check(self, belongs_to: object) -> None:
        for meaning, text in self._identity.items():
            if not isinstance(belongs_to, dict) or belongs_to.get(meaning) != text:
                raise FieldfitError(
                    f"{self._path} is the checkpoint of another computation: it had another {meaning}. Give the same, or "
                    "another file."
                )

    def _write(self, state: State) -> None:
        said = [old + [new for _, new in parts] for old, parts in zip(self._said, self._new, strict=True)]
        header = {"kind": "checkpoint", "belongs_to": list(self._belongs_to), "warnings": said}
        write_container(self._path, header, state)

    def _read(self) -> State | None:
        header, arrays = read_container(self._path, kind="checkpoint")
        belongs_to, counts = header.get("belongs_to"), arrays.get(COUNTS, np.zeros(0))
        known = isinstance(belongs_to, list) and counts.shape == (len(belongs_to),) and counts.dtype == np.int64
        if not known or not belongs_to or (counts < 0).any():
            raise FieldfitError(f"{self._path} has no finished parts: it is of a fit, or damaged. Give another file.")
        self._belongs_to, self._counts, self._new = belongs_to, counts.tolist(), [[] for _ in belongs_to]
        self._said = self._warnings(header.get("warnings"))
        self._written = sum(self._counts)
        return arrays

    def _warnings(self, given: Any) -> list[list[Said]]:
        """The warnings of the parts in the file."""
        known = isinstance(given, list) and len(given) == len(self._counts)
        if not known or not all(_are_warnings(*each) for each in zip(given, self._counts, strict=True)):
            raise FieldfitError(f"{self._path} is damaged: its warnings are not those of its parts.")
        warned: list[list[Said]] = given
        return warned


def _are_warnings(parts: object, count: int) -> bool:
    """Whether these are the warnings of ``count`` parts."""
    return (
        isinstance(parts, list)
        and len(parts) == count
        and all(isinstance(said, list) for said in parts)
        and all(
            isinstance(each, list) and len(each) == 2 and all(isinstance(text, str) for text in each)
            for said in parts
            for each in said
        )
    )


def _say_again(said: Said) -> None:
    for name, text in said:
        category = getattr(types, name, None)
        known = isinstance(category, type) and issubclass(category, FieldfitWarning)
        warn_caller(text, category if known else FieldfitWarning)


#: What `checkpoint=` of a computation with parts may be.
Kept = str | os.PathLike[str] | Checkpoint | PartsKeeper | None


def as_parts(checkpoint: Kept) -> PartsKeeper | None:
    """Convert the argument of a computation that has parts."""
    if checkpoint is None or isinstance(checkpoint, PartsKeeper):
        return checkpoint
    kept = as_checkpoint(checkpoint)
    assert kept is not None
    return PartsKeeper(kept)


@contextmanager
def kept_parts(checkpoint: Kept, *data: Array, **identity: object) -> Iterator[Part]:
    """Yield a function that returns the next part of a computation, from the file or computed.

    ``data`` and ``identity``, all that the parts depend on, identify the computation. Its names are in messages.
    """
    keeper = as_parts(checkpoint)
    if keeper is None:
        yield lambda shapes, compute: compute()
        return
    texts = {name.replace("_", " "): str(value) for name, value in identity.items()}
    keeper.begin({**texts, "set of samples": digest_of("", *data)})
    try:
        yield keeper.part
    finally:
        keeper.finish()

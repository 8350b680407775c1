"""Names and their codes 0, 1, 2, …: labels and attributes, frozen once training has seen them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, overload

import numpy as np

from fieldfit.properties import cached_property
from fieldfit.types import DataError, Int32Array


class Alphabet:
    """A frozen list of different names, all strings or all integers; ``names[code]`` and ``code(name)`` invert.

    ``len(alphabet)`` is the number of names. A name that is not there has the code −1.
    """

    __slots__ = ("__dict__", "names")

    names: tuple[str | int, ...]

    def __init__(self, names: Iterable[str | int]) -> None:
        self.names = tuple(names)
        kinds = set(map(type, self.names))
        if kinds == {str, int}:
            raise DataError("The names of an alphabet must be all strings or all integers, not both.")
        if kinds - {str, int}:
            other = next(name for name in self.names if type(name) not in (str, int))
            raise DataError(
                f"A name must be a string or an integer; got {other!r:.80}. Convert it with str() or int()."
            )
        if len(self.codes) != len(self.names):
            raise DataError("The names of an alphabet must differ from each other.")

    @classmethod
    def sorted(cls, names: Iterable[str | int]) -> Alphabet:
        """The alphabet of the different ``names`` in ascending order; they may come in any order."""
        different = list(dict.fromkeys(names))
        if len({isinstance(name, str) for name in different}) > 1:
            raise DataError("Labels must be all strings or all integers; both were given.")
        return cls(sorted(different))

    @cached_property
    def codes(self) -> Mapping[Hashable, int]:
        """Name → code."""
        return {name: code for code, name in enumerate(self.names)}

    def code(self, name: str | int) -> int:
        """The code of ``name``, or −1 where it is not in the alphabet."""
        return self.codes.get(name, -1) if isinstance(name, Hashable) else -1

    def encode(self, names: Iterable[str | int], count: int = -1) -> Int32Array:
        """The codes of ``names``, −1 where unknown."""
        get = self.codes.get
        return np.fromiter((get(name, -1) for name in names), dtype=np.int32, count=count)

    def decode(self, codes: Iterable[int]) -> list[str | int]:
        """The names of ``codes``; a code that is out of range is refused."""
        listed = np.asarray(codes, dtype=np.int64)
        if listed.size and not (int(listed.min()) >= 0 and int(listed.max()) < len(self.names)):
            raise DataError(f"Codes must lie in 0..{len(self.names) - 1}; they reach {listed.min()}..{listed.max()}.")
        names = self.names
        return [names[code] for code in listed.tolist()]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str | int]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.codes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alphabet) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        shown = ", ".join(repr(name) for name in self.names[:4])
        return f"Alphabet({len(self.names)} names: {shown}{', …' if len(self.names) > 4 else ''})"


class LazyNames(Sequence[str]):
    """A list of names that are created on access."""

    things: ClassVar[str] = "parameters"

    @abstractmethod
    def at(self, place: int) -> str:
        """The name at a place that is known to exist."""

    def of(self, places: Iterable[int]) -> list[str]:
        """The names at these places."""
        return [self.at(place) for place in places]

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self[:5]))
        return f"<{len(self):,} names of {self.things}: {first}{', …' if len(self) > 5 else ''}>"

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self.of(range(*index.indices(len(self))))
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"There are {len(self)} {self.things}; got {index}.")
        return self.at(place)

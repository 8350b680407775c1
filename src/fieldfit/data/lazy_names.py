"""Names that are created on access: a tagger may have millions of parameters and features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, overload


class LazyNames(Sequence[str]):
    """A list of names that are created on access."""

    things: ClassVar[str] = "parameters"

    @abstractmethod
    def at(self, place: int) -> str:
        """The name at a place that is known to exist."""

    def of(self, places: Iterable[int]) -> list[str]:
        """The names at these places."""
        return [self.at(place) for place in places]

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

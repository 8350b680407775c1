"""Families: named groups of components (A, B), before they know the samples that they will be listed for.

| text                          | components                                                                    |
|-------------------------------|-------------------------------------------------------------------------------|
| ``FL``                        | one: all modelled variables given those that the model conditions on          |
| ``PL1``, ``PL2``, ...         | all blocks of k variables in lexicographic order, each given everything else  |
| ``PL2(connected)``            | those of them that are connected in the graph                                 |
| ``Blocks({0,1},{2,3})``       | these blocks, each given everything else                                      |
| ``Components({0}|{1,2},...)`` | these pairs A|B; variables in neither are summed out                          |
| ``PL1[0:5]``, ``PL2[0,3,7]``  | some components of a family, by their numbers in it                           |

`Structure.bind_family` lists the components of FL and PLk, also for sequences.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfit.policies.text import Reader, format_set
from fieldfit.types import PolicyError

if TYPE_CHECKING:
    from fieldfit.policies.structure import BoundFamily, FieldStructure

FAMILY_NAMES = "FL, PL1, PL2, PL2(connected), Blocks({0,1},{2,3}) or Components({0}|{1,2})"


class Family(ABC):
    """A group of components that share one name."""

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def bind_field(self, structure: FieldStructure) -> BoundFamily:
        """List the components over the variables of a field."""


@dataclass(frozen=True)
class Full(Family):
    """``FL``: log p(x_A | x_B), A all modelled variables, B those that the model conditions on."""

    def __str__(self) -> str:
        return "FL"

    def bind_field(self, structure: FieldStructure) -> BoundFamily:
        """One component."""
        from fieldfit.policies.field_families import ListedFamily

        return ListedFamily(str(self), structure, (structure.free,))


@dataclass(frozen=True)
class PseudoLikelihood(Family):
    """``PLk``: log p(x_A | everything else) for all blocks A of k variables, or the connected ones only."""

    k: int
    connected: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise PolicyError(f"PLk needs blocks of at least one variable; k is {self.k!r:.80}.")

    def __str__(self) -> str:
        return f"PL{self.k}(connected)" if self.connected else f"PL{self.k}"

    def bind_field(self, structure: FieldStructure) -> BoundFamily:
        """C(m, k) components, never listed; or the connected ones, listed."""
        from fieldfit.policies.field_families import ListedFamily, SubsetsFamily, connected_subsets

        if self.connected:
            return ListedFamily(str(self), structure, connected_subsets(structure, self.k, str(self)))
        return SubsetsFamily(structure, self.k)


def _check_members(members: tuple[int, ...], owner: str) -> None:
    if len(set(members)) != len(members):
        raise PolicyError(f"{owner} names a variable twice in {format_set(members)}.")
    if any(isinstance(v, bool) or not isinstance(v, int) or v < 0 for v in members):
        raise PolicyError(f"{owner} needs variables as integers from 0; got {members!r:.80}.")


@dataclass(frozen=True)
class Blocks(Family):
    """``Blocks({0,1},{2,3})``: log p(x_A | everything else) for each of these blocks A."""

    blocks: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.blocks:
            raise PolicyError("Blocks(...) needs at least one block.")
        for block in self.blocks:
            if not block:
                raise PolicyError("Blocks(...) has an empty block: every block needs at least one variable.")
            _check_members(block, "Blocks(...)")

    def __str__(self) -> str:
        return "Blocks(" + ",".join(map(format_set, self.blocks)) + ")"

    def bind_field(self, structure: FieldStructure) -> BoundFamily:
        """One component for each block."""
        from fieldfit.policies.field_families import ListedFamily

        return ListedFamily(str(self), structure, self.blocks)


@dataclass(frozen=True)
class Components(Family):
    """``Components({0}|{1,2}, {0,1}|{})``: the user's own pairs (A, B); variables in neither are summed out."""

    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    def __post_init__(self) -> None:
        if not self.pairs:
            raise PolicyError("Components(...) needs at least one pair A|B.")
        for target, given in self.pairs:
            if not target:
                raise PolicyError("Components(...) has a pair with an empty A: a likelihood needs a variable.")
            _check_members(target, "Components(...)")
            _check_members(given, "Components(...)")
            both = sorted(set(target) & set(given))
            if both:
                raise PolicyError(
                    f"Components(...) has variable {both[0]} in both sets of {format_set(target)}|{format_set(given)}"
                    ": A and B must not overlap."
                )

    def __str__(self) -> str:
        return "Components(" + ", ".join(f"{format_set(a)}|{format_set(b)}" for a, b in self.pairs) + ")"

    def bind_field(self, structure: FieldStructure) -> BoundFamily:
        """One component for each pair; observed variables join every B."""
        from fieldfit.policies.field_families import ListedFamily

        return ListedFamily(str(self), structure, tuple(a for a, _ in self.pairs), tuple(b for _, b in self.pairs))


@dataclass(frozen=True)
class Subset(Family):
    """``PL1[0:5]``, ``PL2[0,3,7]``: the components of a family that have these numbers in it."""

    family: Family
    indices: tuple[int, ...] | range

    def __post_init__(self) -> None:
        if isinstance(self.family, Subset):
            raise PolicyError(
                f"{self.family} is a part of a family already: write the numbers in one pair of brackets."
            )
        if isinstance(self.indices, range) and self.indices.stop >= 2**63:
            raise PolicyError(
                f"A part of {self.family} ends at {self.indices.stop}, larger than the size of any family."
            )
        if len(self.indices) == 0:
            raise PolicyError(f"A part of {self.family} is empty: it needs at least one component.")
        if isinstance(self.indices, range):
            if self.indices.step < 1 or self.indices.start < 0:
                raise PolicyError(f"A range of components of {self.family} starts at 0 or later and goes upwards.")
        elif len(set(self.indices)) != len(self.indices) or min(self.indices) < 0:
            raise PolicyError(f"{self} must name components by different numbers from 0.")

    def __str__(self) -> str:
        if isinstance(self.indices, range):
            picks = f"{self.indices.start}:{self.indices.stop}"
            if self.indices.step != 1:
                picks += f":{self.indices.step}"
        else:
            picks = ",".join(map(str, self.indices))
        return f"{self.family}[{picks}]"

    def bind_field(self, structure: FieldStructure) -> BoundFamily:
        """The chosen components of the bound family."""
        from fieldfit.policies.field_families import FieldFamily, PickedFamily

        family = structure.bind_family(self.family)
        if not isinstance(family, FieldFamily):
            raise PolicyError(
                f"The components of {self.family} differ between samples: so a part of it is not defined."
            )
        return PickedFamily(str(self), family, self.indices)


def is_family_name(name: str) -> bool:
    """Whether this word starts a family."""
    return name in ("FL", "Blocks", "Components") or (name.startswith("PL") and name[2:].isdigit())


def read_family(reader: Reader) -> Family:
    """Read a family and the brackets after it, if there are any."""
    start = reader.position
    name = reader.word()
    with reader.blame(start):
        family = _read_named(reader, name, start)
        if not reader.accept("["):
            return family
        return Subset(family, _read_picks(reader))


def _read_named(reader: Reader, name: str | None, start: int) -> Family:
    if name == "FL":
        return Full()
    if name is not None and name.startswith("PL") and name[2:].isdigit():
        connected = False
        if reader.accept("("):
            if reader.word() != "connected":
                reader.fail(f"the only option of {name} is (connected).")
            reader.expect(")", "after 'connected'")
            connected = True
        return PseudoLikelihood(int(name[2:]), connected)
    if name == "Blocks":
        reader.expect("(", "and a list of blocks such as {0,1},{2,3}")
        blocks = [reader.integer_set("a block")]
        while reader.accept(","):
            blocks.append(reader.integer_set("a block"))
        reader.expect(")", "that closes Blocks(")
        return Blocks(tuple(blocks))
    if name == "Components":
        reader.expect("(", "and a list of pairs such as {0}|{1,2}")
        pairs = [_read_pair(reader)]
        while reader.accept(","):
            pairs.append(_read_pair(reader))
        reader.expect(")", "that closes Components(")
        return Components(tuple(pairs))
    return reader.fail(f"expected a family: {FAMILY_NAMES}.", start)


def _read_pair(reader: Reader) -> tuple[tuple[int, ...], tuple[int, ...]]:
    target = reader.integer_set("the set A")
    reader.expect("|", "between the sets A and B")
    return target, reader.integer_set("the set B")


def _read_picks(reader: Reader) -> tuple[int, ...] | range:
    first = reader.integer("the number of a component")
    if reader.accept(":"):
        stop = reader.integer("the end of the range")
        step = reader.integer("the step of the range") if reader.accept(":") else 1
        reader.expect("]", "that closes the range")
        if step < 1:
            reader.fail("the step of a range must be at least 1.")
        return range(first, stop, step)
    picks = [first]
    while reader.accept(","):
        picks.append(reader.integer("the number of a component"))
    reader.expect("]", "that closes the list of components")
    return tuple(picks)

"""What a policy must know of the samples to list its components: the variables, their graph, their lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from fieldfit.properties import cached_property
from fieldfit.types import IntArray

if TYPE_CHECKING:
    from fieldfit.policies.families import Family


class Component(NamedTuple):
    """The m-pair (A, B) of Definition 1; its likelihood object is S_θ(A, B) = log p_θ(x_A | x_B).

    Variables in neither set are summed out.
    """

    target: tuple[int, ...]
    given: tuple[int, ...]


class BoundFamily(Protocol):
    """A family whose components are known: index j of sample i is a component."""

    @property
    def name(self) -> str:
        """The family's text form, for example ``PL2``."""

    @property
    def size(self) -> int | None:
        """The number of components, or None where it depends on the sample (sequences)."""

    def sizes(self, start: int, stop: int) -> IntArray:
        """The number of components of each of the samples start..stop."""

    @property
    def mean_size(self) -> float:
        """The mean number of components of a sample, 1 where no sample has any."""

    def component(self, index: int, row: int = 0) -> Component:
        """The component with this index (of this sample, where it depends on the sample)."""


@runtime_checkable
class Structure(Protocol):
    """A set of samples as the policy sees it. Each kind of sample knows how to list each kind of family."""

    def bind_family(self, family: Family) -> BoundFamily:
        """List the components of ``family`` for these samples."""


@dataclass(frozen=True)
class FieldStructure:
    """Samples of a field: the same variables in every sample, with an undirected graph between them.

    ``observed`` are the variables that the model conditions on: every component has them in B.
    """

    n_variables: int
    neighbours: Sequence[tuple[int, ...]]
    observed: tuple[int, ...] = ()

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The modelled variables, those that are not observed, in increasing order."""
        observed = set(self.observed)
        return tuple(v for v in range(self.n_variables) if v not in observed)

    def rest(self, target: tuple[int, ...]) -> tuple[int, ...]:
        """Every variable outside ``target``, in increasing order."""
        inside = set(target)
        return tuple(v for v in range(self.n_variables) if v not in inside)

    def bind_family(self, family: Family) -> BoundFamily:
        """List the components of ``family`` over these variables."""
        return family.bind_field(self)

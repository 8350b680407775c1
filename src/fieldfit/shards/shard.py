"""One shard: a piece of the samples, read where it is held, and compiled with its part of the drawn Z."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import exact_fingerprint
from fieldfit.models.base import Model
from fieldfit.models.problem import Problem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.shards.room import Fixed, Room
from fieldfit.types import DataError, FloatArray, IntArray, OutOfMemoryError, WidthError

T = TypeVar("T")
#: What a question is given for one shard alone, and what the shard answers.
Argument = TypeVar("Argument")
Reply = TypeVar("Reply")


class Source(Protocol):
    """Where the samples of a shard come from; small, or all that is left of them, because it travels to the worker."""

    @property
    def name(self) -> str:
        """How messages call the samples, as "part 2 of the data"."""

    @property
    def advice(self) -> str:
        """What to do where the memory does not suffice."""

    def read(self) -> Dataset:
        """The samples."""

    def weights(self, dataset: Dataset) -> FloatArray | None:
        """The weights of the samples that were read."""


@dataclass(frozen=True)
class Given:
    """Samples in memory, and their weights, which are separate because all weights of one shard may be 0."""

    dataset: Dataset
    sample_weight: FloatArray | None = None
    name: str = "a part of the data"
    advice: str = "Use more shards, fewer variables or a policy with smaller components, or give it more memory."

    def read(self) -> Dataset:
        """The samples."""
        return self.dataset

    def weights(self, dataset: Dataset) -> FloatArray | None:
        """Their weights."""
        return self.sample_weight


@dataclass(frozen=True)
class Recipe:
    """How the shards become problems.

    Parameters
    ----------
    model, bound
        The model, complete, and the policy bound to all samples.
    seed
        The seed of Z. Draws depend on the number of a sample among all of them, not on its shard.
    starts
        (shards + 1,) the number of the first sample of each shard, and the number of all samples.
    selections
        The selected components of each shard, where they are not drawn by ``seed``.
    drawn_at
        The θ (r,) at which the samples are drawn again before they are compiled, with the same observations, lengths and
        missing values; None: the samples themselves.
    fingerprints
        Those of the samples of each shard when they were first read. A shard whose samples are others is refused. None:
        samples that cannot change.
    """

    model: Model
    bound: BoundPolicy
    seed: int
    starts: IntArray
    selections: tuple[Selection, ...] | None = None
    drawn_at: FloatArray | None = None
    fingerprints: tuple[str, ...] | None = None

    def samples(self, shard: Shard) -> Dataset:
        """The samples of a shard: those that it holds, or others drawn in their place."""
        dataset = shard.dataset if self.fingerprints is None else shard.unchanged(self.fingerprints[shard.number])
        if self.drawn_at is None:
            return dataset
        words = np.random.SeedSequence([self.seed, shard.number]).generate_state(1, np.uint64)
        return self.model.simulate(dataset, self.drawn_at, int(words[0]) >> 1)

    def selection(self, number: int, other: BoundPolicy | None = None) -> Selection:
        """The drawn Z of a shard; of ``other``, a second policy with the same seed, where one is given."""
        if self.selections is not None and other is None:
            return self.selections[number]
        return (other or self.bound).draw(self.seed, int(self.starts[number]), int(self.starts[number + 1]))


class Shard:
    """The samples of one shard and the problems that were compiled from them.

    Where there is ``room``, they stay in memory between questions; otherwise each question reads and compiles them again.
    """

    def __init__(self, number: int, source: Source, room: Room) -> None:
        self.number = number
        self._room = room
        self._source = source
        self._dataset: Dataset | None = None
        self._fingerprint: str | None = None  # of the samples that stay in memory
        self._problems: dict[str, Problem] = {}
        self._made: dict[str, object] = {}
        self._weighted: tuple[str, bytes, Problem] | None = None

    @property
    def dataset(self) -> Dataset:
        """The samples."""
        if self._dataset is not None:
            return self._dataset
        dataset = self._source.read()
        if self._room.for_samples():
            self._dataset = dataset
        return dataset

    def unchanged(self, fingerprint: str) -> Dataset:
        """The samples, if they have this fingerprint; a file may have been written again since they were first read."""
        dataset = self.dataset
        current = self._fingerprint or exact_fingerprint(dataset)
        if self._dataset is not None:
            self._fingerprint = current
        if current != fingerprint:
            raise DataError(
                f"The samples of {self._source.name} have changed since they were first read. Fit "
                "again, and do not change the data during a fit."
            )
        return dataset

    @property
    def sample_weight(self) -> FloatArray | None:
        """The weights of the samples."""
        return self._source.weights(self.dataset)

    def problem(self, key: str, recipe: Recipe, betas: FloatArray | None) -> Problem:
        """The compiled samples, with other weights β of the families where they are given."""
        problem = self._problems.get(key)
        if problem is None:
            problem = self._compiled(recipe)
            if self._room.for_problems():
                self._problems[key] = problem
        if betas is None:
            return problem
        if self._weighted is not None and self._weighted[:2] == (key, betas.tobytes()):
            return self._weighted[2]
        other = problem.with_betas(betas)
        assert other is not None, "asked before, see Report.takes_betas"
        if self._room.for_problems():
            self._weighted = (key, betas.tobytes(), other)
        return other

    def made(self, key: str, make: Callable[[], T]) -> T:
        """What ``make()`` gives, once for each key where the shard stays in memory."""
        if key in self._made:
            return cast(T, self._made[key])
        value = make()
        if self._room.for_problems():
            self._made[key] = value
        return value

    def forget(self, key: str) -> None:
        """Drop what was compiled or made under a key."""
        self._problems.pop(key, None)
        self._made.pop(key, None)
        if self._weighted is not None and self._weighted[0] == key:
            self._weighted = None

    def release(self) -> None:
        """Keep nothing from here on."""
        self._room = Fixed(False)
        self._dataset = self._fingerprint = self._weighted = None
        self._problems.clear()
        self._made.clear()

    def lacks_memory(self) -> OutOfMemoryError:
        """The error of a shard that cannot be worked on in the memory that is left."""
        return OutOfMemoryError(f"There is not enough memory for {self._source.name}. {self._source.advice}")

    def _compiled(self, recipe: Recipe) -> Problem:
        try:
            # The weights of samples are given with each question.
            return recipe.model.compile(recipe.samples(self), recipe.selection(self.number))
        except WidthError as error:
            if error.rows is None:
                raise
            rows = error.rows + int(recipe.starts[self.number])
            shown = ", ".join(map(str, rows[:20])) + (", …" if len(rows) > 20 else "")
            single = len(rows) == 1
            raise WidthError(
                f"In {self._source.name}, {'row' if single else 'rows'} {shown} (of all samples, counting "
                f"from 0) {'has' if single else 'have'} too many missing values to sum out. Other parts may have such rows "
                "too. Leave them out before the fit, impute values, or use a sparser graph.",
                rows,
            ) from None


@dataclass(frozen=True)
class Report:
    """What is known of a compiled shard: what a Problem reports about itself, and the work of its selected components."""

    n_samples: int
    n_parameters: int
    n_families: int
    betas: FloatArray
    takes_betas: bool
    exact_diagonal: bool
    optimiser: str
    value_noise: float
    streams_scores: bool
    selected: int
    components: int
    flops: float | None


#: What all shards share, by key: a `Recipe`, or what another layer makes questions about.
Shared = dict[str, object]
#: A question to a shard, with what it is given, shared by all shards and for this shard alone, and what it answers.
Question = Callable[[Shard, Shared, Argument], Reply]


def answered(
    question: Question[Argument, Reply],
    shards: Mapping[int, Shard],
    number: int,
    shared: Shared,
    argument: Argument,
) -> Reply:
    """The answer of one of the shards here. Where memory runs out, all give up what they keep, and it is asked again."""
    try:
        return question(shards[number], shared, argument)
    except MemoryError:
        pass  # the error keeps what it was working on until this block ends
    for shard in shards.values():
        shard.release()
    gc.collect()
    try:
        return question(shards[number], shared, argument)
    except MemoryError as error:
        raise shards[number].lacks_memory() from error


def held_weight(shard: Shard, weight: FloatArray | bool | None) -> FloatArray | None:
    """The weights of the samples that a question is about: those that it brings, True for the samples' own, or none."""
    if weight is True:
        return shard.sample_weight
    return weight if isinstance(weight, np.ndarray) else None

"""Moment conditions of samples in shards: each shard computes with `SampleConditions` of its own, where it is held.

Sums over shards follow the order of their tree (`fieldfit.shards.tree`), so they have the same bits for any number of
workers. What needs single samples, such as the direction of a step, takes some of them into this process.
"""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Generic

import numpy as np

from fieldfit.data.samples import Table, as_table
from fieldfit.models.field import FieldModel
from fieldfit.policies.policy import BoundPolicy
from fieldfit.refinement.conditions import Conditions
from fieldfit.refinement.estimating import ConditionSums, SampleConditions, evenly_spread
from fieldfit.refinement.second_stage import FirstFit
from fieldfit.refinement.stacking import Masking
from fieldfit.shards.problem import ShardedProblem
from fieldfit.shards.shard import Question, Recipe, Reply, Shard, Shared, held_weight
from fieldfit.threads import one_blas_thread
from fieldfit.types import Array, FloatArray, Int32Array, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


#: Samples in this process for what needs single ones: draws that start from samples, and directions of steps.
_AT_HAND = 4_000


def samples_at_hand(first: FirstFit, model: FieldModel) -> Table:
    """The samples of a first stage, or some of them where they are in shards."""
    problem = first.problem
    return some_samples(problem, model) if isinstance(problem, ShardedProblem) else as_table(first.dataset)


def conditions_of(
    first: FirstFit,
    conditions: Conditions,
    at_hand: Int32Array | None = None,
    masking: Masking | None = None,
    drawn: BoundPolicy | None = None,
) -> ConditionSums:
    """Conditions with the samples of a first stage, wherever these are held.

    ``masking`` makes Z from the selection that the policy ``drawn`` draws, None: from that of the first stage; without
    ``masking`` everything is selected.
    """
    problem, weight = first.problem, first.dataset.sample_weight
    if isinstance(problem, ShardedProblem):
        return ShardedConditions(problem, conditions, weight, at_hand, masking, drawn)
    codes, mask = as_table(first.dataset).codes, None
    if masking is not None:
        mask = masking(first.selection if drawn is None else drawn.draw(first.random_state, 0, len(codes)))
    return SampleConditions.compiled_by(conditions, codes, mask, weight, problem)


def some_samples(problem: ShardedProblem, model: FieldModel) -> Table:
    """Some of the samples in this process, evenly spread, without their weights."""
    codes = _gathered(problem, _codes, evenly_spread(problem.n_samples, _AT_HAND))[0]
    assert codes is not None
    return Table(codes, model.names, model.states)


class ShardedConditions(ConditionSums):
    """Conditions for the shards of ``problem``, A compiled where the samples are held.

    ``weight`` (n,) are the weights that the shards' samples have themselves, and ``at_hand`` some of the samples; if it
    is None, they come here when they are needed. ``masking`` makes the Z of a shard from the selection that is drawn by
    the policy ``drawn``, None: by A.
    """

    def __init__(
        self,
        problem: ShardedProblem,
        conditions: Conditions,
        weight: FloatArray | None,
        at_hand: Int32Array | None = None,
        masking: Masking | None = None,
        drawn: BoundPolicy | None = None,
    ) -> None:
        self.conditions, self.weight = conditions, weight
        self._problem, self._at_hand = problem, at_hand
        self._key = secrets.token_hex(8)
        shared = _Shared(conditions, *problem.about, weight is not None, masking, drawn)
        problem.placed.share(self._key, shared)
        weakref.finalize(self, problem.placed.withdraw, self._key).atexit = False

    @property
    def n(self) -> int:
        """The number of samples."""
        return self._problem.n_samples

    @property
    def at_hand(self) -> Int32Array:
        """Some of the samples."""
        if self._at_hand is None:
            self._at_hand = some_samples(self._problem, self.conditions.model).codes
        return self._at_hand

    def summed(self, question: Callable[..., FloatArray], *arguments: object) -> FloatArray:
        """Sum of the shards' answers."""
        answer = self._problem.placed.total(_Summed(self._key, question, arguments))
        assert answer is not None
        return answer[0]

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """The shards' products, one after the other."""
        return np.concatenate(self._problem.placed.each(_Each(self._key, SampleConditions.row_products, (theta, v))))

    def scores(self, theta: FloatArray, matrix: FloatArray | csr_array) -> Iterator[tuple[slice, FloatArray]]:
        """Stream the scores of one shard after the other."""
        for number, (start, stop) in enumerate(pairwise(self._problem.starts.tolist())):
            asked = _Each(self._key, _scores, (theta, matrix))
            yield slice(start, stop), self._problem.placed.each(asked, shards=[number])[0]

    def subset(self, rows: IntArray) -> SampleConditions:
        """Some of the samples, in this process."""
        codes, mask, weight = _gathered(self._problem, _Each(self._key, _rows), rows)
        assert codes is not None
        return SampleConditions(self.conditions, codes, mask, weight)


def _gathered(
    problem: ShardedProblem, question: Question[IntArray, tuple[Array | None, ...]], rows: IntArray
) -> tuple[Array | None, ...]:
    """What a question answers about some samples, in the order of ``rows``; each shard is given the numbers of its own."""
    starts = problem.starts
    shard = np.searchsorted(starts, rows, side="right") - 1
    by_shard = [rows[shard == number] - starts[number] for number in range(len(starts) - 1)]
    asked = [number for number, mine in enumerate(by_shard) if len(mine)]
    answers = problem.placed.each(question, by_shard, asked)
    place = np.argsort(np.argsort(shard, kind="stable"), kind="stable")
    return tuple(None if parts[0] is None else np.concatenate(parts)[place] for parts in zip(*answers, strict=True))


@dataclass(frozen=True)
class _Shared:
    """What all shards share.

    The conditions, A's recipe by its key with its weights β, whether samples have weights, and how Z is drawn.
    """

    conditions: Conditions
    recipe: str
    betas: FloatArray | None
    weighted: bool
    masking: Masking | None
    drawn: BoundPolicy | None

    def samples(self, shard: Shard, shared: Shared) -> SampleConditions:
        """The conditions of the samples of one shard."""
        recipe, mask = shared[self.recipe], None
        assert isinstance(recipe, Recipe)
        if self.masking is not None:
            mask = self.masking(recipe.selection(shard.number, self.drawn))
        return SampleConditions.compiled_by(
            self.conditions,
            as_table(shard.dataset).codes,
            mask,
            held_weight(shard, self.weighted),
            shard.problem(self.recipe, recipe, self.betas),
        )


def _codes(shard: Shard, shared: Shared, rows: IntArray) -> tuple[Int32Array]:
    """The states of some of the samples of a shard."""
    return (as_table(shard.dataset).codes[rows],)


@dataclass(frozen=True)
class _Asked(Generic[Reply]):
    """A question about a shard's part of the conditions that are shared under ``key``."""

    key: str
    question: Callable[..., Reply]
    arguments: tuple[object, ...] = ()

    def reply(self, shard: Shard, shared: Shared, rows: IntArray | None) -> Reply:
        """What ``question(samples, *arguments)`` answers, or ``question(samples, rows)`` about some of the samples."""
        conditions = shared[self.key]
        assert isinstance(conditions, _Shared)
        samples = shard.made(self.key, partial(conditions.samples, shard, shared))
        with one_blas_thread(with_scipy=True):
            return self.question(samples, *self.arguments, *(() if rows is None else (rows,)))


@dataclass(frozen=True)
class _Each(_Asked[Reply]):
    """A question to each shard."""

    def __call__(self, shard: Shard, shared: Shared, rows: IntArray | None) -> Reply:
        """The answer of one shard."""
        return self.reply(shard, shared, rows)


@dataclass(frozen=True)
class _Summed(_Asked[FloatArray]):
    """A question whose answers are added up."""

    def __call__(self, shard: Shard, shared: Shared, rows: IntArray | None) -> tuple[FloatArray]:
        """The answer of one shard."""
        return (self.reply(shard, shared, rows),)


def _rows(samples: SampleConditions, rows: IntArray) -> tuple[FloatArray | Int32Array | None, ...]:
    """Some of the samples with their Z and weights."""
    chosen = samples.subset(rows)
    return chosen.codes, chosen.mask, chosen.weight


def _scores(samples: SampleConditions, theta: FloatArray, matrix: FloatArray | csr_array) -> FloatArray:
    """A g_i of each sample (samples of the shard, rows of A)."""
    return np.concatenate([block for _, block in samples.scores(theta, matrix)])

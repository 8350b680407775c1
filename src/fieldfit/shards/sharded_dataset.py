"""Samples that are in shards and nowhere else: what must be known of them all, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import exact_fingerprint
from fieldfit.data.outline import Outline
from fieldfit.models.base import Model
from fieldfit.policies.policy import Policy
from fieldfit.policies.selection import Selection
from fieldfit.shards.backend import Backend, Placed
from fieldfit.shards.pieces import Pieces, PieceSource, Reading
from fieldfit.shards.shard import Shard, Shared
from fieldfit.types import DataError, FloatArray, IntArray
from fieldfit.words import counted

T = TypeVar("T")
#: Samples that may come into this process, for what needs single ones.
MOST_GATHERED = 50_000


@dataclass(frozen=True)
class ShardSummary:
    """What is known of the samples of one shard."""

    n: int
    outline: Outline
    missing: bool
    weight: FloatArray | None
    digest: str
    exact: str


def _summary(model: Model, shard: Shard, shared: Shared, argument: object) -> ShardSummary:
    dataset = shard.dataset
    return ShardSummary(
        dataset.n, model.outline(dataset), dataset.has_missing, dataset.sample_weight, model.fingerprint(dataset),
        exact_fingerprint(dataset),
    )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedDataset(Dataset):
    """The samples of all shards.

    Parameters
    ----------
    placed, starts
        The shards, and (shards + 1,) the number of the first sample of each, with the number of all.
    seen
        A small dataset that stands for all samples where models ask about them before a fit (see `fieldfit.data.outline`).
    missing, digest, exact
        Whether any value is missing, and fingerprints of the samples: of what the model explains, and of everything.
    fingerprints
        Those of everything by shard; None for the shards of a folder, which have checksums.
    """

    in_pieces: ClassVar[bool] = True

    placed: Placed
    starts: IntArray
    seen: Dataset
    missing: bool
    digest: str
    exact: str
    fingerprints: tuple[str, ...] | None

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.starts[-1])

    @property
    def has_missing(self) -> bool:
        """Whether any value is missing."""
        return self.missing

    def subset(self, rows: ArrayLike) -> Dataset:  # type: ignore[override]
        """Some of the samples, brought into this process with their weights; more than a few are refused."""
        given = np.asarray(rows)
        numbers = np.flatnonzero(given) if given.dtype == bool else given.astype(np.int64)
        if len(numbers) > MOST_GATHERED:
            raise DataError(
                "This needs single samples, and they are in the shards, on disk or on the workers. Read the samples that "
                "you need into this process: model.read(...)."
            )
        shard = np.searchsorted(self.starts, numbers, side="right") - 1
        by_shard = [numbers[shard == number] - self.starts[number] for number in range(len(self.starts) - 1)]
        asked = [number for number, mine in enumerate(by_shard) if len(mine)]
        parts: list[Dataset] = self.placed.each(_some, by_shard, asked)
        place = np.argsort(np.argsort(shard, kind="stable"), kind="stable")
        return replace(
            parts[0].followed_by(parts[1:]).subset(place),
            sample_weight=None if self.sample_weight is None else self.sample_weight[numbers],
            weight_kind=self.weight_kind,
        )

    def by_piece(self, function: Callable[[Dataset], T]) -> list[T]:
        """What ``function`` gives for the samples of each shard, computed where they are held."""
        return self.placed.each(partial(_of_samples, function))

    def draw(self, most: int, random: np.random.Generator) -> Dataset:  # type: ignore[override]
        """At most ``most`` of the samples, brought into this process."""
        drawn: Dataset = super().draw(most, random)
        return self.subset(np.arange(self.n)) if drawn is self else drawn


def _of_samples(function: Callable[[Dataset], T], shard: Shard, shared: Shared, argument: object) -> T:
    """What a function gives for the samples of a shard."""
    return function(shard.dataset)


def _some(shard: Shard, shared: Shared, rows: IntArray) -> Dataset:
    """Some of the samples of a shard, without weights."""
    return shard.dataset.subset(rows).unweighted()


@dataclass(frozen=True)
class RemoteSelection(Selection):
    """The drawn Z of samples that are in shards, of which only the number of selected components is known here."""

    selected: int = 0

    def count(self) -> int:
        """How many (sample, component) pairs are selected in all."""
        return self.selected


def read_pieces(
    model: Model,
    pieces: Pieces,
    policy: Policy,
    backend: Backend,
    *,
    sample_weight: object,
    weight_kind: str,
    groups: object,
    copies: bool = False,
) -> ShardedDataset:
    """Place the pieces and read them where they are; only their summaries come here.

    With a random policy every copy of a sample with a count becomes a sample, and with ``copies`` in any case.
    """
    if groups is not None or not (sample_weight is None or isinstance(sample_weight, str)):
        raise DataError(
            "For data in several parts, sample_weight must be the name of a column, and groups are not supported. "
            "Read the data into one table instead."
        )
    if pieces.folder is not None and sample_weight is not None:
        raise DataError(
            "The shards of a folder have their weights already: give --sample-weight to `fieldfit shard`."
        )
    if sample_weight is None and pieces.sample_weight is not None:
        sample_weight, weight_kind = pieces.sample_weight, pieces.weight_kind
    kind = pieces.folder.weight_kind if pieces.folder is not None else (weight_kind if sample_weight else None)
    if kind == "counts" and not copies:
        copies = not policy.bind(model.as_field("A count of samples").structure()).everything
    reading = Reading(model, sample_weight, weight_kind, copies)
    sources = [PieceSource(piece, reading, number) for number, piece in enumerate(pieces.pieces)]
    placed = backend.place(sources)
    summaries: list[ShardSummary] = placed.each(partial(_summary, model))
    filled = [number for number, summary in enumerate(summaries) if summary.n]
    if not filled:
        told = "samples" if sample_weight is None else "samples of positive weight"
        raise DataError(f"No rows: the data have {counted(len(sources), 'parts')} without {told}. Give at least one.")
    if len(filled) < len(sources):  # read again: the sums over shards are those of the pieces that have samples
        placed = backend.place([sources[number] for number in filled])
        summaries = [summaries[number] for number in filled]
    outlines = [summary.outline for summary in summaries]
    weights = [summary.weight for summary in summaries if summary.weight is not None]
    return ShardedDataset(
        sample_weight=np.concatenate(weights) if weights else None,
        weight_kind=kind or "importance",
        placed=placed,
        starts=np.concatenate(([0], np.cumsum([summary.n for summary in summaries]))).astype(np.int64),
        seen=outlines[0].joined(outlines),
        missing=any(summary.missing for summary in summaries),
        digest=_joined(summary.digest for summary in summaries),
        exact=_joined(summary.exact for summary in summaries),
        fingerprints=None if pieces.folder is not None else tuple(summary.exact for summary in summaries),
    )


def _joined(digests: Iterable[str]) -> str:
    return blake2b("".join(digests).encode(), digest_size=16).hexdigest()

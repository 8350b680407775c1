"""Samples that are in shards and nowhere else: what must be known of them all, and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table, as_table
from fieldfit.models.base import Model
from fieldfit.models.field import FieldModel
from fieldfit.policies.policy import Policy
from fieldfit.policies.selection import Selection
from fieldfit.shards.backend import Backend, Placed
from fieldfit.shards.pieces import Pieces, PieceSource, Reading
from fieldfit.shards.shard import Shard
from fieldfit.types import DataError, FloatArray, Int32Array, IntArray


@dataclass(frozen=True)
class Summary:
    """What is known of the samples of one shard.

    ``lowest`` and ``highest`` (m,) are the codes of the states that samples of positive weight show; a column without a
    value has a highest code of −1.
    """

    n: int
    names: tuple[str, ...]
    states: tuple[tuple[Any, ...], ...]
    lowest: Int32Array
    highest: Int32Array
    missing: bool
    weight: FloatArray | None
    digest: str


@dataclass(frozen=True)
class Summarised:
    """The question for it."""

    model: Model

    def __call__(self, shard: Shard, shared: dict[str, Any], own: Any) -> Summary:
        """The summary of the shard."""
        table = as_table(shard.dataset)
        codes = table.codes
        if table.sample_weight is not None and not (table.sample_weight > 0).all():
            codes = codes[table.sample_weight > 0]
        highest = codes.max(axis=0, initial=-1)
        lowest = np.where(codes < 0, np.iinfo(np.int32).max, codes).min(axis=0, initial=np.iinfo(np.int32).max)
        return Summary(
            table.n,
            table.names,
            table.states,
            lowest.astype(np.int32),
            highest.astype(np.int32),
            table.has_missing,
            table.sample_weight,
            self.model.fingerprint(table),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedDataset(Dataset):
    """The samples of all shards.

    Parameters
    ----------
    placed, starts
        The shards, and (shards + 1,) the number of the first sample of each, with the number of all.
    extremes
        A table of two rows with the lowest and the highest state of each column: it has the names, the states and the
        constant columns of all samples, which is what models ask of samples before a fit.
    missing, digest
        Whether any value is missing, and a short name for the samples.
    """

    in_pieces: ClassVar[bool] = True

    placed: Placed
    starts: IntArray
    extremes: Table
    missing: bool
    digest: str

    @property
    def n(self) -> int:
        """The number of samples."""
        return int(self.starts[-1])

    @property
    def has_missing(self) -> bool:
        """Whether any value is missing."""
        return self.missing

    def subset(self, rows: ArrayLike) -> NoReturn:
        """Refused: the samples are in the shards."""
        raise DataError(
            "This needs single samples, and they are in the shards, on disk or on the workers. Read the samples that you "
            "need into this process: model.read(...)."
        )


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
    sample_weight: Any,
    weight_kind: str,
    groups: Any,
) -> ShardedDataset:
    """Place the pieces and read them where they are; only their summaries come here."""
    if not isinstance(model, FieldModel):
        raise DataError(f"A {model.kind} model reads its samples in this process: give them as `Sequences`.")
    if groups is not None or not (sample_weight is None or isinstance(sample_weight, str)):
        raise DataError(
            "Data in pieces take sample_weight as the name of a column, and no groups. Read them into one table for more."
        )
    if pieces.folder is not None and sample_weight is not None:
        raise DataError(
            "The shards of a folder have their weights already: give --sample-weight to `fieldfit shard`."
        )
    random = not policy.bind(model.structure()).everything
    kind = pieces.folder.weight_kind if pieces.folder is not None else (weight_kind if sample_weight else None)
    reading = Reading(model, sample_weight, weight_kind, copies=kind == "counts" and random)
    placed = backend.place([PieceSource(piece, reading) for piece in pieces.pieces])
    summaries: list[Summary] = placed.each(Summarised(model))
    first = summaries[0]
    for number, summary in enumerate(summaries):
        if summary.names != first.names:
            raise DataError(f"Piece {number} has the columns {summary.names[:5]}…, and piece 0 {first.names[:5]}….")
    highest = np.max([summary.highest for summary in summaries], axis=0)
    if (highest < 0).any():
        column = first.names[int(np.argmin(highest))]
        raise DataError(f"Missing everywhere: no piece has a value in the column {column!r}. Leave such columns out.")
    lowest = np.minimum(np.min([summary.lowest for summary in summaries], axis=0), highest)
    extremes = Table(np.ascontiguousarray([lowest, highest], dtype=np.int32), first.names, first.states)
    weights = [summary.weight for summary in summaries if summary.weight is not None]
    digest = blake2b("".join(summary.digest for summary in summaries).encode(), digest_size=16)
    return ShardedDataset(
        sample_weight=np.concatenate(weights) if weights else None,
        weight_kind=kind or "importance",
        placed=placed,
        starts=np.concatenate(([0], np.cumsum([summary.n for summary in summaries]))).astype(np.int64),
        extremes=extremes,
        missing=any(summary.missing for summary in summaries),
        digest=digest.hexdigest(),
    )

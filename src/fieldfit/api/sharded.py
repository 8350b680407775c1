"""Samples in shards: the same stages as on one machine, with a problem that is a sum over shards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.prepare import Prepared, draw_samples
from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Cost, Model
from fieldfit.models.problem import Problem
from fieldfit.penalties import Penalties
from fieldfit.policies.policy import BoundPolicy, Policy
from fieldfit.policies.selection import Selection
from fieldfit.shards.backend import Backend, LocalBackend, Placed
from fieldfit.shards.pieces import as_pieces
from fieldfit.shards.problem import ShardedProblem
from fieldfit.shards.shard import Given, Recipe
from fieldfit.shards.sharded_dataset import RemoteSelection, ShardedDataset, read_pieces
from fieldfit.types import BoolArray, DataError, FieldfitError, FloatArray, IntArray

DROPS_IN_ONE_PROCESS = "wide_rows='drop' works in one process only. Drop the samples first, or leave out the backend."
#: Number of shards for few samples, and samples of a shard for many: enough shards for the workers that such data can
#: use.
_FEWEST_SHARDS, _SHARD_SAMPLES = 32, 1 << 18


@dataclass(frozen=True)
class Place:
    """Where the shards are held and how many there are; ``shards`` None leaves that to the number of samples."""

    backend: Backend
    shards: int | None

    @classmethod
    def of(cls, backend: object, shards: int | None) -> Place | None:
        """Convert the arguments of `fit`; None for one process and one piece."""
        if shards is not None and (
            isinstance(shards, bool) or not isinstance(shards, int | np.integer) or shards < 1
        ):
            raise FieldfitError(f"shards is {shards!r:.80}; it must be an integer of at least 1.")
        if backend is None:
            return None if shards is None else cls(LocalBackend(), int(shards))
        return cls(as_backend(backend), None if shards is None else int(shards))

    def starts(self, n: int) -> IntArray:
        """(shards + 1,) the first sample of each shard of n samples, and n; no shard is empty."""
        count = self.shards or max(_FEWEST_SHARDS, -(-n // _SHARD_SAMPLES))
        count = min(count, max(n, 1))
        return np.arange(count + 1, dtype=np.int64) * n // count


def as_backend(backend: object) -> Backend:
    """Return a backend as it is, and wrap a Dask client."""
    if isinstance(backend, Backend):
        return backend
    if type(backend).__module__.partition(".")[0] == "distributed" and hasattr(backend, "scheduler_info"):
        from fieldfit.shards.dask_backend import DaskBackend

        return DaskBackend(backend)
    raise FieldfitError(
        f"backend is a {type(backend).__name__}; it must be a distributed.Client, or a backend of fieldfit.shards. For "
        "workers on this machine use distributed.Client(n_workers=4)."
    )


@dataclass(frozen=True, kw_only=True)
class ShardedPrepared(Prepared):
    """Samples in shards, compiled where they are held."""

    placed: Placed
    starts: IntArray

    @property
    def fingerprint(self) -> str:
        """A hash of the samples and their weights."""
        return self.dataset.digest if isinstance(self.dataset, ShardedDataset) else super().fingerprint

    @property
    def exact_fingerprint(self) -> str:
        """A hash of everything in the samples."""
        return self.dataset.exact if isinstance(self.dataset, ShardedDataset) else super().exact_fingerprint

    @property
    def cost(self) -> Cost | None:
        """The cost of one evaluation."""
        if isinstance(self.problem, ShardedProblem) and isinstance(self.selection, RemoteSelection):
            return self.problem.cost
        return super().cost

    @property
    def division(self) -> str:
        """The sizes of the shards."""
        return " ".join(map(str, np.unique(np.diff(self.starts)))) + f" in {len(self.starts) - 1}"

    @property
    def seen(self) -> Dataset:
        """The samples, or a small dataset that represents samples in pieces."""
        return shown(self.dataset)

    @property
    def drawn(self) -> Selection:
        """The drawn Z. For samples in pieces it is drawn again from their numbers."""
        if isinstance(self.selection, RemoteSelection):
            return self.bound.draw(self.random_state, 0, self.dataset.n)
        return self.selection

    def with_policy(self, bound: BoundPolicy, start: FloatArray) -> ShardedPrepared:
        """The same shards, where they are held, with another policy."""
        recipe = Recipe(self.model, bound, self.random_state, self.starts, fingerprints=fingerprints_of(self.dataset))
        problem = ShardedProblem(self.placed, recipe, self.dataset.sample_weight)
        drawn = RemoteSelection(self.dataset.n, (), selected=problem.n_selected)
        return replace(self, bound=bound, selection=drawn, problem=problem, start=start)

    def compile(self, selection: Selection) -> Problem:
        """The same samples with another selection, cut into the parts of the shards."""
        recipe = Recipe(
            self.model,
            self.bound,
            self.random_state,
            self.starts,
            _cut(selection, self.starts),
            fingerprints=fingerprints_of(self.dataset),
        )
        return ShardedProblem(self.placed, recipe, self.dataset.sample_weight)


def _cut(selection: Selection, starts: IntArray) -> tuple[Selection, ...]:
    """The part of a selection that belongs to each shard."""
    return tuple(selection.between(start, stop) for start, stop in pairwise(starts.tolist()))


def fingerprints_of(dataset: Dataset) -> tuple[str, ...] | None:
    """The fingerprints of samples in pieces by shard; None where they cannot change."""
    return dataset.fingerprints if isinstance(dataset, ShardedDataset) else None


def prepare_shards(
    model: Model,
    dataset: Dataset,
    bound: BoundPolicy,
    *,
    penalty: Penalties,
    start: FloatArray,
    free: BoolArray,
    random_state: int,
    place: Place,
    wide_rows: str = "refuse",
) -> ShardedPrepared:
    """`prepare` for samples in this process that are evaluated in shards."""
    if wide_rows != "refuse":
        raise DataError(DROPS_IN_ONE_PROCESS)
    if isinstance(dataset, ShardedDataset):
        recipe = Recipe(model, bound, int(random_state), dataset.starts, fingerprints=dataset.fingerprints)
        problem = ShardedProblem(dataset.placed, recipe, dataset.sample_weight)
        drawn = RemoteSelection(dataset.n, (), selected=problem.n_selected)
        return ShardedPrepared(
            model, dataset, bound, drawn, problem, penalty, start, free, int(random_state),
            placed=dataset.placed, starts=dataset.starts,
        )  # fmt: skip
    dataset, bound, selection = draw_samples(model, dataset, bound, int(random_state))
    starts = place.starts(dataset.n)
    weight, plain = dataset.sample_weight, replace(dataset, sample_weight=None, groups=None)
    sources = [
        Given(
            plain.subset(np.arange(first, last)),
            None if weight is None else weight[first:last],
            f"part {number} of the data",
        )
        for number, (first, last) in enumerate(pairwise(starts.tolist()), 1)
    ]
    placed = place.backend.place(sources)
    # Counts of drawn Z cannot be drawn again from the numbers of the samples.
    known = _cut(selection, starts) if dataset.has_counts and not bound.everything else None
    problem = ShardedProblem(placed, Recipe(model, bound, int(random_state), starts, known), weight)
    return ShardedPrepared(
        model,
        dataset,
        bound,
        selection,
        problem,
        penalty,
        start,
        free,
        int(random_state),
        placed=placed,
        starts=starts,
    )


def shown(dataset: Dataset) -> Dataset:
    """The samples for models before a fit: the samples themselves, or a small dataset that represents them."""
    return dataset.seen if isinstance(dataset, ShardedDataset) else dataset


def read_placed(
    model: Model,
    data: object,
    policy: Policy,
    *,
    backend: object,
    shards: int | None,
    sample_weight: ArrayLike | str | None,
    weight_kind: str,
    groups: ArrayLike | str | None,
    copies: bool = False,
) -> tuple[Place | None, Dataset]:
    """Read the samples, here or on the workers. Also return the place of their shards; None for one process.

    ``copies``: every copy of a sample with a count becomes a sample.
    """
    place, pieces = Place.of(backend, shards), as_pieces(data)
    if pieces is None:
        dataset = model.read(data, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups)
        return place, dataset.copies() if copies else dataset
    if shards is not None:
        raise FieldfitError(f"shards={shards}: the pieces of the data are the shards. Leave shards out.")
    place = Place(LocalBackend(), None) if place is None else place
    dataset = read_pieces(
        model, pieces, policy, place.backend, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups,
        copies=copies,
    )  # fmt: skip
    return place, dataset

"""What every dataset can do with its sample weights. Samples are rows of a table, or sentences.

*Counts* are integers of copies; each copy is a sample with a selection Z of its own. *Importance* weights w multiply
the scores, so the bread is a sum of w·J and the meat one of w²·ψψᵀ. All that follows from weights is here: how many
samples they stand for, the copies themselves, and random parts of the samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.arguments import array_of, one_of, real_array, unmasked
from fieldfit.types import DataError, FloatArray, IntArray

T = TypeVar("T")


def effective_size(n: int, weight: FloatArray | None, *, counts: bool) -> float:
    """`Dataset.effective_size` of n samples with these weights (n,)."""
    if weight is None:
        return float(n)
    if counts:
        return float(weight.sum())
    # Relative to the largest weight, so that the squares of very small or very large weights are numbers.
    relative = weight / weight.max()
    return float(relative.sum() ** 2 / (relative @ relative))


#: Copies of counted samples that a dataset may be expanded to.
MOST_COPIES = 200_000_000
#: Whole numbers above this are not exact as doubles.
_LARGEST_COUNT = 2**53


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(ABC):
    """Frozen samples of a model with their weights.

    Parameters
    ----------
    sample_weight
        (n,) numbers ≥ 0, or None where every sample counts once.
    weight_kind
        What the weights are: "counts" (numbers of copies) or "importance" (any finite numbers).
    groups
        (n,) the group of each sample, or None where samples are independent. Any labels; they are kept as numbers 0, 1, ….
        Samples of different groups are independent, those of one group need not be.
    """

    #: Whether the samples are in pieces elsewhere, so that only sums over them can be computed.
    in_pieces: ClassVar[bool] = False

    sample_weight: FloatArray | None = None
    weight_kind: str = "importance"
    groups: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_weight", checked_weight(self.sample_weight, self.weight_kind, self.n))
        object.__setattr__(self, "groups", checked_groups(self.groups, self.n))

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of samples, each with one weight."""

    @property
    @abstractmethod
    def has_missing(self) -> bool:
        """Whether any value or label that a model describes is missing."""

    @abstractmethod
    def subset(self, rows: ArrayLike) -> Self:
        """Return some of the samples, with their weights.

        Parameters
        ----------
        rows : array_like of int or bool
            Numbers of the samples, repeats allowed, or a mask.

        Returns
        -------
        Dataset
            In the order of ``rows``.

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.subset([1, 1]).n
        2
        """

    def followed_by(self, others: Sequence[Self]) -> Self:
        """Return these samples and those of other datasets, one after the other.

        Parameters
        ----------
        others : sequence of Dataset
            Datasets of the same kind, encoded in the same way. None of them has weights or groups.

        Returns
        -------
        Dataset

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.followed_by([data]).n
        4
        """
        raise DataError("Samples in pieces are not put one after the other in one process.")

    @property
    def n_groups(self) -> int | None:
        """The number of groups; None where samples are independent."""
        return None if self.groups is None else int(self.groups.max(initial=-1)) + 1

    def grouped(self, groups: ArrayLike | None) -> Self:
        """Return the same samples in groups.

        Parameters
        ----------
        groups : array_like of shape (n,), or None
            The group of each sample. None: those that the samples have.

        Returns
        -------
        Dataset

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.grouped(["a", "a"]).n_groups
        1
        """
        return self if groups is None else replace(self, groups=array_of(groups, name="groups"))

    @property
    def has_counts(self) -> bool:
        """Whether the weights are counts of copies."""
        return self.sample_weight is not None and self.weight_kind == "counts"

    @property
    def total_weight(self) -> float:
        """Σw; n without weights."""
        return float(self.n if self.sample_weight is None else self.sample_weight.sum())

    @property
    def least_weight(self) -> float:
        """The least w that is not 0; 1 without weights."""
        weights = self.sample_weight
        return 1.0 if weights is None else float(weights.min(initial=np.inf, where=weights > 0))

    @property
    def n_copies(self) -> int:
        """The number of samples that a random selection is drawn for: the sum of the counts, else n."""
        return int(self.total_weight) if self.has_counts else self.n

    @property
    def effective_size(self) -> float:
        """The number N of equally weighted samples that these stand for: n, or the sum of the counts.

        For importance weights it is Kish's effective size (Σw)²/Σw²: the number of equally weighted samples whose mean is
        as accurate. It does not change when all weights are multiplied by a constant or when samples of weight 0 are
        added, and is n where the weights are equal.
        """
        return effective_size(self.n, self.sample_weight, counts=self.has_counts)

    @property
    def unit_weight(self) -> float:
        """The weight of one of the `effective_size` samples: Σw/N, which is 1 without weights and for counts."""
        return self.total_weight / self.effective_size

    @property
    def relative_weight(self) -> FloatArray | None:
        """Importance weights scaled to mean 1; None without weights and for counts."""
        if self.sample_weight is None or self.has_counts:
            return None
        return np.asarray(self.sample_weight * (self.n / self.sample_weight.sum()), dtype=np.float64)

    def unweighted(self) -> Self:
        """Return the same samples, each with weight 1.

        Returns
        -------
        Dataset

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.weighted([2, 1]).unweighted().total_weight
        2.0
        """
        return replace(self, sample_weight=None)

    def copies(self) -> Self:
        """Return every copy of a counted sample as a sample without weight.

        Returns
        -------
        Dataset
            The dataset itself where the weights are not counts.

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.weighted([2, 1], "counts").copies().n
        3
        """
        if not self.has_counts:
            return self
        assert self.sample_weight is not None
        if self.n_copies > MOST_COPIES:
            raise DataError(
                f"The counts stand for {self.n_copies:,} samples, and a selection is drawn for each of them, because the "
                f"policy has too many selections to count the copies that have each; the limit is {MOST_COPIES:,} "
                "samples. Use a policy that selects everything (for example PL1 without a selection probability) or draws "
                "at most 20 components of each sample at random, or weight_kind='importance'."
            )
        return self.unweighted().subset(np.repeat(np.arange(self.n), self.sample_weight.astype(np.int64)))

    def equally_weighted(self) -> Self | None:
        """Return the samples without weights, where that changes nothing but the scale.

        Returns
        -------
        Dataset or None
            Counts become copies. Of importance weights that are all equal or 0, the samples with a positive weight
            stay. None for other weights.

        Examples
        --------
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.weighted([2, 0]).equally_weighted().n
        1
        """
        if self.sample_weight is None or self.has_counts:
            return self.copies()
        positive = np.flatnonzero(self.sample_weight > 0)
        if np.ptp(self.sample_weight[positive]) > 1e-12 * float(self.sample_weight.max()):
            return None
        return self.subset(positive).unweighted()

    def by_piece(self, function: Callable[[Dataset], T]) -> list[T]:
        """Compute something from the samples of each piece, where they are held.

        Parameters
        ----------
        function : callable
            Takes a dataset.

        Returns
        -------
        list
            The results, one for each piece; one for all samples unless these are `in_pieces`.

        Examples
        --------
        >>> import fieldfit as ff
        >>> ff.BoltzmannMachine(2).read([[0, 1], [1, 1], [0, 0]]).by_piece(lambda samples: samples.n)
        [3]
        """
        return [function(self)]

    def draw(self, most: int, random: np.random.Generator) -> Self:
        """Draw some of the samples at random, each with the same probability.

        Parameters
        ----------
        most : int
            Number of samples at most.
        random : numpy.random.Generator
            Where the random numbers come from.

        Returns
        -------
        Dataset
            In order. Of counts they are copies, without weights. Samples of weight 0 are never drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from fieldfit.chains import Sequences
        >>> data = Sequences([0, 2, 3], [0, 1, 2, 3], [0, 1, 2], None, [0, 1, 0], 3, 2)
        >>> data.draw(1, np.random.default_rng(0)).n
        1
        """
        weight = self.sample_weight
        if weight is not None and self.has_counts:
            ends = np.cumsum(weight.astype(np.int64))
            copies = _draw_some(int(ends[-1]), most, random)
            return self.subset(np.searchsorted(ends, copies, side="right")).unweighted()
        if weight is not None and not weight.all():
            used = np.flatnonzero(weight)
            return self.subset(used[_draw_some(len(used), most, random)])
        return self if self.n <= most else self.subset(_draw_some(self.n, most, random))


def _draw_some(total: int, most: int, random: np.random.Generator) -> IntArray:
    if total <= most:
        return np.arange(total)
    return np.sort(random.choice(total, most, replace=False))


def checked_weight(weight: ArrayLike | None, kind: str, n: int) -> FloatArray | None:
    """The weights as read-only numbers (n,); DataError with a sentence about what is wrong with them."""
    one_of(kind, "weight_kind", ("counts", "importance"), DataError)
    if weight is None:
        return None
    unmasked(weight, "sample_weight")
    try:
        numbers = np.array(real_array(weight))
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError("sample_weight does not consist of numbers. Give one number ≥ 0 for each row.") from error
    if numbers.shape != (n,):
        raise DataError(
            f"sample_weight has shape {numbers.shape}, and the table has {n} rows. Give one number for each row."
        )
    wrong = ~((numbers >= 0) & np.isfinite(numbers))
    wanted = "a finite number ≥ 0"
    if kind == "counts" and not wrong.any():
        wrong = numbers != np.rint(numbers)
        wanted = "an integer ≥ 0, because weight_kind is 'counts'"
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"sample_weight is {numbers[row]} in row {row} (counting from 0), and must be {wanted}.")
    if n and not numbers.any():
        raise DataError("sample_weight is zero in every row, so no sample counts. Give at least one positive weight.")
    with np.errstate(over="ignore"):
        total = float(numbers.sum())
    if kind == "counts" and total > _LARGEST_COUNT:
        raise DataError(
            f"The counts in sample_weight add up to {total:.3g}; counts up to 2^53 (9.0e15) in all are exact. Use "
            "weight_kind='importance' for larger weights."
        )
    if not np.isfinite(total):
        raise DataError("The sum of sample_weight is not finite. Divide all weights by the largest of them.")
    numbers.setflags(write=False)
    return numbers


def checked_groups(groups: ArrayLike | None, n: int) -> IntArray | None:
    """The groups as read-only numbers 0, 1, … (n,), in the order of their labels; DataError where they do not fit."""
    if groups is None:
        return None
    unmasked(groups, "groups")
    labels = array_of(groups, name="groups")
    if labels.dtype.kind in "UMm":
        labels = labels.astype(object)
    if labels.shape != (n,):
        raise DataError(
            f"groups has shape {labels.shape}, and there are {n} samples. Give one group for each sample."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        raise DataError(f"groups is {labels[row]} in row {row} (counting from 0). Every sample needs a group.")
    if labels.dtype == object:
        missing = [row for row, label in enumerate(labels) if label is None or label != label or label == ""]
        if missing:
            raise DataError(f"groups has no label in row {missing[0]} (counting from 0). Every sample needs a group.")
        labels = np.array([str(label) for label in labels])
    numbers = np.unique(labels, return_inverse=True)[1].reshape(n).astype(np.int64)
    numbers.setflags(write=False)
    return numbers

"""Random partitions: in each sample the variables fall into blocks of k at random, and each block is selected.

``Partition(k)``: m variables give b = ⌊m/k⌋ blocks of k and one of r = m mod k; every variable is in exactly one A,
so there is far less selection noise than in independent draws. Over the blocks A of k (λ = b/C(m,k)) and R of r
(λ = 1/C(m,r)), with A ≠ A′:

    E[Z_A Z_A′] = b(b−1) / (C(m,k) C(m−k,k)) if A and A′ are disjoint, else 0;
    E[Z_A Z_R]  = b / (C(m,r) C(m−r,k))      if A and R are disjoint, else 0.

In factors: 1[A ∩ A′ = ∅] = Σ_T (−1)^|T| 1[T ⊆ A] 1[T ⊆ A′], a sum of squares of S_T = Σ_{A ⊇ T}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, factorial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fieldfit import _kernels
from fieldfit.policies.families import PseudoLikelihood
from fieldfit.policies.field_families import SubsetsFamily
from fieldfit.policies.laws.base import BoundLaw, Factors, Law, Share, Sizes
from fieldfit.policies.patterns import Patterns
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import Structure
from fieldfit.policies.terms import Numbers, as_numbers, check_beta, format_beta, read_beta
from fieldfit.policies.text import Reader
from fieldfit.threads import get_threads
from fieldfit.types import BoolArray, FloatArray, IntArray, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_MOST_PARTITION_ENTRIES = 100_000_000


@dataclass(frozen=True)
class Partition(Law):
    """A uniformly random partition of the variables into blocks of k, each block given the rest."""

    k: int
    beta: float = 1.0
    examples: ClassVar[tuple[str, ...]] = ("Partition(1)", "Partition(2)@0.5", "Partition(3)", "Partition(5)")

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise PolicyError(f"Partition(k) needs blocks of at least one variable; k is {self.k!r:.80}.")
        if isinstance(as_numbers(self.beta), tuple):
            raise PolicyError(f"Partition({self.k}) has one weight β for all its blocks, not a list.")
        check_beta(self.beta, f"Partition({self.k})")

    def __str__(self) -> str:
        return f"Partition({self.k})" + format_beta(self.beta)

    @classmethod
    def read(cls, reader: Reader) -> Partition:
        """Read ``(k)[@β]``."""
        reader.expect("(", "after Partition")
        k = reader.integer("the size of a block")
        reader.expect(")", "that closes Partition(")
        beta = read_beta(reader)
        if isinstance(beta, tuple):
            raise PolicyError(f"Partition({k}) has one weight β for all its blocks, not a list.")
        return cls(k, beta)

    @property
    def lams(self) -> tuple[Numbers | None, ...]:
        """A partition leaves no choice of λ."""
        return (None,)

    @property
    def betas(self) -> tuple[Numbers, ...]:
        """One β for all blocks."""
        return (self.beta,)

    @property
    def term_names(self) -> tuple[str, ...]:
        """``Partition(k)``."""
        return (f"Partition({self.k})",)

    def with_lams(self, lams: tuple[Numbers | None, ...]) -> Partition:
        """The same partition; its λ cannot be set."""
        if lams[0] is not None:
            raise PolicyError(f"The λ of Partition({self.k}) follow from k and cannot be set; pass None for it.")
        return self

    def with_betas(self, betas: tuple[Numbers, ...]) -> Partition:
        """The same partition with another β."""
        beta = as_numbers(betas[0])
        if isinstance(beta, tuple):
            raise PolicyError(f"Partition({self.k}) has one weight β for all its blocks, not a list.")
        return replace(self, beta=beta)

    def bind(self, structure: Structure, stream: int) -> BoundPartition:
        """Families of blocks of k and, if k does not divide m, of what is left."""
        whole = structure.bind_family(PseudoLikelihood(self.k))
        if not isinstance(whole, SubsetsFamily):
            raise PolicyError(f"Partition({self.k}) needs the same variables in every sample, as in a field.")
        left = len(whole.free) % self.k
        families = [whole]
        if left:
            rest = structure.bind_family(PseudoLikelihood(left))
            assert isinstance(rest, SubsetsFamily)
            families.append(rest)
        return BoundPartition(tuple(families), self.beta, stream)


class BoundPartition(BoundLaw):
    """Random partitions of known variables; the second family, if there is one, is the remainder."""

    def __init__(self, families: tuple[SubsetsFamily, ...], beta: float, stream: int) -> None:
        self.families = families
        self.subsets = families
        self.family_terms = (0,) * len(families)
        self.betas = (beta,) * len(families)
        self.stream = stream
        self.m, self.k = len(families[0].free), families[0].block_size
        self.n_blocks, self.left = divmod(self.m, self.k)

    def lams(self, sizes: Sizes) -> tuple[float | FloatArray, ...]:
        """b/C(m,k) and 1/C(m,r)."""
        whole = self.n_blocks / sizes[0]
        return (whole, 1.0 / sizes[1]) if self.left else (whole,)

    def shares(self, sizes: Sizes, lam: float = 1.0) -> tuple[Share, ...]:
        """Every sample has blocks of each family."""
        return tuple(Share(float(np.mean(family_lam)), 1.0, shuffled=True) for family_lam in self.lams(sizes))

    def _joint(self) -> tuple[float, float]:
        """E[Z_A Z_A′] and E[Z_A Z_R] of disjoint blocks."""
        m, k, b, r = self.m, self.k, self.n_blocks, self.left
        pair = b * (b - 1) / (comb(m, k) * comb(m - k, k)) if b > 1 else 0.0
        return pair, b / (comb(m, r) * comb(m - r, k)) if r else 0.0

    def second_moment(self, sizes: Sizes) -> FloatArray:
        """λ on the diagonal, the joint probabilities above where two blocks are disjoint."""
        incidence = np.zeros((sum(sizes), self.m))
        at = 0
        for family, size in zip(self.subsets, sizes, strict=True):
            np.put_along_axis(incidence[at : at + size], self._positions(family), 1, axis=1)
            at += size
        disjoint = incidence @ incidence.T == 0
        pair, mixed = self._joint()
        value = np.full(disjoint.shape, pair)
        if self.left:
            value[: sizes[0], sizes[0] :] = value[sizes[0] :, : sizes[0]] = mixed
            value[sizes[0] :, sizes[0] :] = 0.0
        moment = np.where(disjoint, value, 0.0)
        np.fill_diagonal(moment, self.mean(sizes))
        return moment

    def factors(self, sizes: Sizes) -> Factors:
        """Rows S_T over all sets T of at most k variables, with alternating signs, and the diagonal."""
        from scipy.sparse import csr_matrix, identity, vstack

        entries = sizes[0] * 2**self.k
        if entries > _MOST_PARTITION_ENTRIES:
            raise PolicyError(
                f"The second moment of Partition({self.k}) on {self.m} variables needs {entries:.1e} entries, more "
                f"than {_MOST_PARTITION_ENTRIES:.0e}: use a smaller k, or estimate the meat from drawn samples."
            )
        pair, mixed = self._joint()
        total = sum(sizes)
        rows: list[csr_matrix] = [csr_matrix(identity(total, format="csr"))]
        d = [self.mean(sizes)]
        whole = self._containing(self.subsets[0], 0, total, self.k)
        signs = _signs(self.m, self.k)
        if not self.left:
            rows.append(whole)
            d.append(pair * signs)
        else:
            rest = self._containing(self.subsets[1], sizes[0], total, self.k)
            if pair > 0:
                # p aaᵀ + q (abᵀ + baᵀ) = p (a + b q/p)(a + b q/p)ᵀ − (q²/p) bbᵀ
                rows += [csr_matrix(whole + rest * (mixed / pair)), rest]
                d += [pair * signs, -(mixed**2 / pair) * signs]
            else:
                rows += [csr_matrix(whole + rest), csr_matrix(whole - rest)]
                d += [mixed / 2 * signs, -mixed / 2 * signs]
        C, weights = csr_matrix(vstack(rows, format="csr")), np.concatenate(d)
        used = (np.diff(C.indptr) > 0) & (weights != 0)
        return Factors(csr_matrix(C[used]), weights[used], 0.0)

    def _positions(self, family: SubsetsFamily) -> IntArray:
        """All blocks of the family as positions among the free variables."""
        positions = np.empty((family.size, family.block_size), dtype=np.int64)
        _kernels.unrank_subsets(
            np.arange(family.size),
            self.m,
            family.block_size,
            out=positions,
            n_threads=get_threads(10 * positions.size),
        )
        return positions

    def _containing(self, family: SubsetsFamily, offset: int, total: int, largest: int) -> csr_matrix:
        """1[T ⊆ A]: rows are the sets T of 0 to ``largest`` variables by size, columns offset + number of A."""
        from scipy.sparse import csr_matrix

        blocks = self._positions(family)
        columns = np.arange(offset, offset + family.size)
        row_numbers, first = [], 0
        for size in range(largest + 1):
            if size <= family.block_size:
                for chosen in combinations(range(family.block_size), size):
                    numbers = np.zeros(family.size, dtype=np.int64)
                    if size:
                        subsets = np.ascontiguousarray(blocks[:, chosen])
                        _kernels.rank_subsets(subsets, self.m, out=numbers, n_threads=get_threads(10 * subsets.size))
                    row_numbers.append(first + numbers)
            first += comb(self.m, size)
        row = np.concatenate(row_numbers)
        column = np.tile(columns, len(row_numbers))
        return csr_matrix((np.ones(len(row)), (row, column)), shape=(first, total))

    def n_patterns(self, sizes: Sizes) -> float:
        """m! / (k!^b b! r!)."""
        ways = factorial(self.k) ** self.n_blocks * factorial(self.n_blocks) * factorial(self.left)
        number = factorial(self.m) // ways
        return float(number) if number < _MOST_PARTITION_ENTRIES else np.inf

    def patterns(self, sizes: Sizes) -> Patterns:
        """All partitions, which have the same probability."""
        everything = tuple(range(self.m))
        partitions = [
            (blocks, rest)
            for rest in combinations(everything, self.left)
            for blocks in _partitions(tuple(v for v in everything if v not in rest), self.k)
        ]
        chosen = [np.array([blocks for blocks, _ in partitions], dtype=np.int64)]
        if self.left:
            chosen.append(np.array([[rest] for _, rest in partitions], dtype=np.int64))
        selected = []
        for blocks, size in zip(chosen, sizes, strict=True):
            flat = np.ascontiguousarray(blocks.reshape(-1, blocks.shape[2]))
            numbers = np.empty(len(flat), dtype=np.int64)
            _kernels.rank_subsets(flat, self.m, out=numbers, n_threads=1)
            table = np.zeros((len(partitions), size), dtype=bool)
            np.put_along_axis(table, numbers.reshape(len(partitions), -1), True, axis=1)
            selected.append(table)
        probability = np.full(len(partitions), 1 / len(partitions))
        return Patterns(probability, tuple(selected), (False,) * len(selected))

    def draw(self, seed: int, start: int, stop: int, active: BoolArray | None) -> tuple[FamilySelection, ...]:
        """A shuffle of the variables in each sample, cut into blocks."""
        rows = np.arange(start, stop, dtype=np.int64)
        counts = np.ones(stop - start, dtype=np.int64)
        if active is not None:
            rows, counts = rows[active], active.astype(np.int64)
        blocks = np.empty((len(rows), self.n_blocks), dtype=np.int64)
        remainder = np.empty(len(rows) if self.left else 0, dtype=np.int64)
        _kernels.partition_ranks(
            seed=seed,
            stream=self.stream,
            rows=rows,
            m=self.m,
            k=self.k,
            blocks=blocks,
            remainder=remainder,
            n_threads=get_threads(20 * len(rows) * self.m),
        )
        indptr = np.concatenate(([0], np.cumsum(counts)))
        parts = [
            FamilySelection(
                self.families[0], self.betas[0], indptr=indptr * self.n_blocks, indices=blocks.ravel(), start=start
            )
        ]
        if self.left:
            parts.append(
                FamilySelection(self.families[1], self.betas[1], indptr=indptr, indices=remainder, start=start)
            )
        return tuple(parts)


def _partitions(variables: tuple[int, ...], k: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All partitions into blocks of k: the first variable with each choice of k − 1 others, and partitions of the rest."""
    if not variables:
        yield ()
        return
    first, *others = variables
    for more in combinations(others, k - 1):
        rest = tuple(v for v in others if v not in more)
        for blocks in _partitions(rest, k):
            yield ((first, *more), *blocks)


def _signs(m: int, largest: int) -> FloatArray:
    """(−1)^|T| for all sets T of 0 to ``largest`` of m variables by size."""
    return np.concatenate([np.full(comb(m, size), (-1.0) ** size) for size in range(largest + 1)])

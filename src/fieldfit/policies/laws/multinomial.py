"""Multinomial selection: exactly one component (or, for a /row term, one whole family) in each sample.

``Multinomial(0.6*PL1 + 0.4*PL2)``: a family's λ is its total probability, spread evenly over its components; a list
gives each component its own. E[ZZᵀ] = diag(λ), with λ 11ᵀ for a family that is drawn whole. A sum of several
``Multinomial(...)`` is the paper's product of multinomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fieldfit.policies.laws.base import BoundLaw, Factors, LawOfTerms, Share, Sizes, block_diagonal
from fieldfit.policies.patterns import Patterns
from fieldfit.policies.selection import FamilySelection, one_for_each, row_uniforms
from fieldfit.policies.structure import BoundFamily, Structure
from fieldfit.policies.terms import Numbers, Term, bind_numbers, bind_weights, read_terms
from fieldfit.policies.text import Reader, format_number
from fieldfit.types import BoolArray, FloatArray, IntArray, PolicyError


def _total(lam: Numbers) -> float:
    return math.fsum(lam) if isinstance(lam, tuple) else lam


@dataclass(frozen=True)
class Multinomial(LawOfTerms):
    """Exactly one of the components of these terms in each sample."""

    terms: tuple[Term, ...]
    examples: ClassVar[tuple[str, ...]] = (
        "Multinomial(PL1)",
        "Multinomial(0.6*PL1@2 + 0.4*PL2)",
        "Multinomial(0.5*FL + 0.3*PL1/row + 0.2*PL2)",
        "Multinomial([0.1,0.2,0,0.1,0.1]*PL1@[1,2,3,4,5] + 0.5*FL)",
    )

    def __post_init__(self) -> None:
        self._check_terms()
        total = math.fsum(_total(term.lam) for term in self.terms)
        if abs(total - 1) > 1e-9:
            raise PolicyError(
                f"The λ of Multinomial(...) must sum to 1 (each is the total probability of its family); "
                f"they sum to {format_number(total)}."
            )

    def __str__(self) -> str:
        return "Multinomial(" + " + ".join(map(str, self.terms)) + ")"

    @classmethod
    def read(cls, reader: Reader) -> Multinomial:
        """Read ``(TERM + TERM ...)``."""
        reader.expect("(", "after Multinomial")
        terms = read_terms(reader)
        reader.expect(")", "or '+' after a term of Multinomial(")
        return cls(terms)

    @property
    def lams(self) -> tuple[Numbers | None, ...]:
        """λ of each term."""
        return tuple(term.lam for term in self.terms)

    def with_lams(self, lams: tuple[Numbers | None, ...]) -> Multinomial:
        """The same terms with other λ, which must sum to 1."""
        return Multinomial(
            tuple(t if lam is None else replace(t, lam=lam) for t, lam in zip(self.terms, lams, strict=True))
        )

    def with_betas(self, betas: tuple[Numbers, ...]) -> Multinomial:
        """The same terms with other β."""
        return Multinomial(tuple(replace(t, beta=beta) for t, beta in zip(self.terms, betas, strict=True)))

    def over(self, structure: Structure) -> Multinomial:
        """The law with the mean numbers of components of its ``Mean(...)`` terms."""
        return replace(self, terms=tuple(term.over(structure) for term in self.terms))

    def bind(self, structure: Structure, stream: int) -> BoundMultinomial:
        """The terms over the components of ``structure``."""
        return BoundMultinomial(self.terms, self._bound(structure), stream)


class BoundMultinomial(BoundLaw):
    """Multinomial selection over known components."""

    def __init__(self, terms: tuple[Term, ...], families: tuple[BoundFamily, ...], stream: int) -> None:
        self.families = families
        self.family_terms = tuple(range(len(terms)))
        self.whole = tuple(term.whole for term in terms)
        bound = zip(terms, families, strict=True)
        self.betas = tuple(bind_weights(term, family) for term, family in bound)
        bound = zip(terms, families, strict=True)
        self.probabilities = tuple(bind_numbers(term.lam, family, "probabilities λ") for term, family in bound)
        self.totals = np.array([np.sum(p) for p in self.probabilities])
        self.stream = stream

    def lams(self, sizes: Sizes) -> tuple[float | FloatArray, ...]:
        """A family's λ divided by its size, λ itself for a whole family, or the list."""
        return tuple(
            p if whole or not isinstance(p, float) else p / size
            for p, whole, size in zip(self.probabilities, self.whole, sizes, strict=True)
        )

    def shares(self, sizes: Sizes, lam: float = 1.0) -> tuple[Share, ...]:
        """A family that is drawn whole comes together."""
        return tuple(
            Share(share.lam, share.lam, together=True) if whole else share
            for share, whole in zip(super().shares(sizes, lam), self.whole, strict=True)
        )

    def second_moment(self, sizes: Sizes) -> FloatArray:
        """diag(λ), and λ 11ᵀ for whole families."""
        parts = zip(self.lams(sizes), self.whole, sizes, strict=True)
        return block_diagonal(
            [
                np.full((size, size), lam) if whole else np.diag(np.broadcast_to(lam, (size,)))
                for lam, whole, size in parts
            ]
        )

    def factors(self, sizes: Sizes) -> Factors:
        """The identity with λ, or one row of ones with λ for a whole family."""
        from scipy.sparse import block_diag, csr_matrix, identity

        rows, d = [], []
        for lam, whole, size in zip(self.lams(sizes), self.whole, sizes, strict=True):
            rows.append(csr_matrix(np.ones((1, size))) if whole else identity(size, format="csr"))
            d.append(np.broadcast_to(lam, (1 if whole else size,)))
        return Factors(csr_matrix(block_diag(rows, format="csr")), np.concatenate(d), 0.0)

    def n_patterns(self, sizes: Sizes) -> float:
        """One for each component or whole family, and that of a family without components."""
        return float(sum(1 if whole else max(size, 1) for whole, size in zip(self.whole, sizes, strict=True)))

    def patterns(self, sizes: Sizes) -> Patterns:
        """One component at a time, with its λ; nothing where the family that is chosen has no component."""
        each = [1 if whole or size == 0 else size for whole, size in zip(self.whole, sizes, strict=True)]
        chances = zip(self.probabilities, each, strict=True)
        probability = np.concatenate([np.full(k, p / k) if isinstance(p, float) else p for p, k in chances])
        selected = []
        for family, (size, first) in enumerate(zip(sizes, np.cumsum([0, *each]), strict=False)):
            table = np.zeros((len(probability), 1 if self._at_once(family) else size), dtype=bool)
            if size:
                table[first : first + each[family]] = np.eye(each[family], dtype=bool)
            selected.append(table)
        whole = tuple(map(self._at_once, range(len(sizes))))
        return Patterns(probability, tuple(selected), whole).possible()

    def _at_once(self, family: int) -> bool:
        """Whether a sample has all components of a family or none."""
        return self.whole[family] or self.families[family].size == 1

    def draw(self, seed: int, start: int, stop: int, active: BoolArray | None) -> tuple[FamilySelection, ...]:
        """One uniform number chooses the term, another the component."""
        uniforms = row_uniforms(seed, self.stream, start, stop, 2)
        chosen = _choose(self.totals, uniforms[:, 0])
        parts = []
        for t, (family, beta, lam) in enumerate(zip(self.families, self.betas, self.probabilities, strict=True)):
            rows = chosen == t
            if active is not None:
                rows &= active
            if family.size is None:
                rows &= family.sizes(start, stop) > 0
            if self._at_once(t):
                parts.append(FamilySelection(family, beta, rows=rows, start=start))
                continue
            inside = uniforms[rows, 1]
            if isinstance(lam, float):
                indices = (inside * family.sizes(start, stop)[rows]).astype(np.int64)
            else:
                indices = _choose(lam, inside)
            parts.append(one_for_each(family, beta, rows, indices, start))
        return tuple(parts)


def _choose(weights: FloatArray, uniforms: FloatArray) -> IntArray:
    """Index j with probability weights_j / Σ weights, never one of weight zero."""
    cumulative = np.cumsum(weights)
    last = int(np.flatnonzero(weights > 0)[-1]) if np.any(weights > 0) else 0
    chosen = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    return np.asarray(np.minimum(chosen, last), dtype=np.int64)

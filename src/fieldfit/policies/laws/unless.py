"""Coordination: the other terms are drawn only in samples where the first was not selected.

``Unless(0.2*FL, 0.7*PL1 + 0.3*PL2)``: never a lower-order component where FL was selected. The λ of the others are
conditional on that. With q = P(nothing of the first term is selected) and M₁, M₂ the second moments of the first
term and of the others: E[ZZᵀ] has the blocks M₁ and q M₂ on its diagonal and zeros between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fieldfit.policies.laws.base import (
    BoundLaw,
    Factors,
    Law,
    Share,
    Sizes,
    block_diagonal,
    check_sum,
    read_sum,
    split_by,
    stack_factors,
)
from fieldfit.policies.laws.independent import BoundIndependent, Independent
from fieldfit.policies.patterns import Patterns, joint_patterns
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import Structure
from fieldfit.policies.terms import Numbers, Term, read_term
from fieldfit.policies.text import Reader
from fieldfit.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Unless(Law):
    """``first``, and only in samples where none of its components was selected, the groups of ``others``."""

    first: Term
    others: tuple[Law, ...]
    examples: ClassVar[tuple[str, ...]] = (
        "Unless(0.2*FL, 0.7*PL1 + 0.3*PL2)",
        "Unless(0.1*PL1@2, Partition(2)@3)",
        "Unless(0.3*PL2/row, Multinomial(PL1) + 0.5*FL)",
        "Unless(0.2*FL, Unless(0.5*PL2/row, PL1))",
    )

    def __post_init__(self) -> None:
        check_sum(self.others, "Unless(...)")

    def __str__(self) -> str:
        return f"Unless({self.first}, " + " + ".join(map(str, self.others)) + ")"

    @classmethod
    def read(cls, reader: Reader) -> Unless:
        """Read ``(TERM, GROUP + GROUP ...)``."""
        reader.expect("(", "after Unless")
        first = read_term(reader)
        reader.expect(",", "between the first term of Unless( and the others")
        others = read_sum(reader)
        reader.expect(")", "or '+' after a term of Unless(")
        return cls(first, others)

    @property
    def _groups(self) -> tuple[Law, ...]:
        return (Independent(self.first), *self.others)

    @property
    def lams(self) -> tuple[Numbers | None, ...]:
        """λ of the first term, then those of the others, given that the first is not selected."""
        return tuple(lam for group in self._groups for lam in group.lams)

    @property
    def betas(self) -> tuple[Numbers, ...]:
        """β of each term."""
        return tuple(beta for group in self._groups for beta in group.betas)

    @property
    def term_names(self) -> tuple[str, ...]:
        """Each term without λ and β."""
        return tuple(name for group in self._groups for name in group.term_names)

    @property
    def scales(self) -> tuple[float, ...]:
        """What the weight of each term is multiplied by."""
        return tuple(scale for group in self._groups for scale in group.scales)

    def over(self, structure: Structure) -> Unless:
        """All groups with the mean numbers of their components."""
        return Unless(self.first.over(structure), tuple(law.over(structure) for law in self.others))

    def with_lams(self, lams: tuple[Numbers | None, ...]) -> Unless:
        """The same terms with other λ."""
        pieces = split_by(tuple(len(group.lams) for group in self._groups), lams)
        first, *others = (group.with_lams(piece) for group, piece in zip(self._groups, pieces, strict=True))
        assert isinstance(first, Independent)
        return Unless(first.term, tuple(others))

    def with_betas(self, betas: tuple[Numbers, ...]) -> Unless:
        """The same terms with other β."""
        pieces = split_by(tuple(len(group.betas) for group in self._groups), betas)
        first, *others = (
            group.with_betas(tuple(beta for beta in piece if beta is not None))
            for group, piece in zip(self._groups, pieces, strict=True)
        )
        assert isinstance(first, Independent)
        return Unless(first.term, tuple(others))

    def bind(self, structure: Structure, stream: int) -> BoundUnless:
        """All groups over the components of ``structure``."""
        first = Independent(self.first).bind(structure, stream)
        at = stream + first.n_streams
        others: list[BoundLaw] = []
        for law in self.others:
            others.append(law.bind(structure, at))
            at += others[-1].n_streams
        return BoundUnless(first, tuple(others), tuple(len(law.betas) for law in self.others))


class BoundUnless(BoundLaw):
    """Coordinated selection over known components."""

    def __init__(self, first: BoundIndependent, others: tuple[BoundLaw, ...], term_counts: tuple[int, ...]) -> None:
        self.first, self.others = first, others
        groups = (first, *others)
        self.families = tuple(family for group in groups for family in group.families)
        self.betas = tuple(beta for group in groups for beta in group.betas)
        self.n_streams = sum(group.n_streams for group in groups)
        offsets = np.cumsum((0, 1, *term_counts))
        self.family_terms = tuple(
            int(offset) + term for group, offset in zip(groups, offsets, strict=False) for term in group.family_terms
        )

    def _split(self, sizes: Sizes) -> tuple[Sizes, list[Sizes]]:
        pieces, at = [], 1
        for law in self.others:
            pieces.append(sizes[at : at + len(law.families)])
            at += len(law.families)
        return sizes[:1], pieces

    def lams(self, sizes: Sizes) -> tuple[float | FloatArray, ...]:
        """λ of the first term, q λ of the others."""
        mine, pieces = self._split(sizes)
        q = self.first.none_probability(mine)
        others = (lam for law, piece in zip(self.others, pieces, strict=True) for lam in law.lams(piece))
        return (*self.first.lams(mine), *(q * lam for lam in others))

    def shares(self, sizes: Sizes, lam: float = 1.0) -> tuple[Share, ...]:
        """Those of the first term, and those of the others with q times their probabilities."""
        mine, pieces = self._split(sizes)
        q = self.first.none_probability(mine)
        others = (share for law, piece in zip(self.others, pieces, strict=True) for share in law.shares(piece))
        return (
            *self.first.shares(mine),
            *(replace(share, lam=q * share.lam, any_drawn=q * share.any_drawn) for share in others),
        )

    def second_moment(self, sizes: Sizes) -> FloatArray:
        """The blocks M₁ and q M₂."""
        mine, pieces = self._split(sizes)
        means = [law.mean(piece) for law, piece in zip(self.others, pieces, strict=True)]
        mean = np.concatenate(means)
        moment = np.outer(mean, mean)
        at = 0
        for law, piece in zip(self.others, pieces, strict=True):
            size = sum(piece)
            moment[at : at + size, at : at + size] = law.second_moment(piece)
            at += size
        return block_diagonal([self.first.second_moment(mine), self.first.none_probability(mine) * moment])

    def factors(self, sizes: Sizes) -> Factors:
        """The factors of both blocks, one below the other."""
        from scipy.sparse import block_diag, csr_matrix

        mine, pieces = self._split(sizes)
        first = stack_factors([self.first.factors(mine)], [self.first.mean(mine)])
        others: tuple[csr_matrix, FloatArray] = stack_factors(
            [law.factors(piece) for law, piece in zip(self.others, pieces, strict=True)],
            [law.mean(piece) for law, piece in zip(self.others, pieces, strict=True)],
        )
        C = csr_matrix(block_diag([first[0], others[0]], format="csr"))
        return Factors(C, np.concatenate([first[1], self.first.none_probability(mine) * others[1]]), 0.0)

    def n_patterns(self, sizes: Sizes) -> float:
        """Those of the first term, and those of the others where it is absent."""
        mine, pieces = self._split(sizes)
        others = (law.n_patterns(piece) for law, piece in zip(self.others, pieces, strict=True))
        return self.first.n_patterns(mine) + math.prod(others)

    def patterns(self, sizes: Sizes) -> Patterns:
        """Those of the first term that select something, and those of the others times q."""
        mine, pieces = self._split(sizes)
        first = self.first.patterns(mine)
        others = joint_patterns([law.patterns(piece) for law, piece in zip(self.others, pieces, strict=True)])
        some = first.selected[0].any(axis=1)
        nothing = tuple(np.zeros((int(some.sum()), table.shape[1]), dtype=bool) for table in others.selected)
        present = Patterns(first.probability[some], (first.selected[0][some], *nothing), first.whole + others.whole)
        if some.all():
            return present
        none = Patterns(np.ones(1), (first.selected[0][~some],), first.whole)
        absent = none.with_independent(others).scaled(float(first.probability[~some].sum()))
        return present.below(absent)

    def draw(self, seed: int, start: int, stop: int, active: BoolArray | None) -> tuple[FamilySelection, ...]:
        """The first term, then the others where it is absent."""
        first = self.first.draw(seed, start, stop, active)
        free = ~first[0].any_row(stop - start)
        if active is not None:
            free &= active
        others = (part for law in self.others for part in law.draw(seed, start, stop, free))
        return (*first, *others)

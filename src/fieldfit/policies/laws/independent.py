"""Independent selection: Z_j ~ Bernoulli(λ_j), every component on its own, or one draw for the whole family.

One by one, ``0.3*PL2``: E[ZZᵀ] = λλᵀ + diag(λ(1−λ)). Whole, ``0.3*PL2/row``: E[ZZᵀ] = λ 11ᵀ. ``0.3*PL2/nested`` has
the law of ``0.3*PL2``; what it selects at a smaller λ it also selects at a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fieldfit.policies.laws.base import BoundLaw, Factors, Law, Noise, Share, Sizes
from fieldfit.policies.patterns import Patterns, bernoulli, number_of_subsets, whole_or_nothing
from fieldfit.policies.selection import FamilySelection, draw_bernoulli, draw_nested, nothing, row_uniforms
from fieldfit.policies.structure import BoundFamily, Structure
from fieldfit.policies.terms import Numbers, Term, bind_numbers, bind_weights, read_term
from fieldfit.policies.text import Reader
from fieldfit.types import BoolArray, FloatArray


@dataclass(frozen=True)
class Independent(Law):
    """One term whose components are selected independently; the law of a plain term in a policy."""

    term: Term
    examples: ClassVar[tuple[str, ...]] = (
        "PL1",
        "0.3*PL2@0.5",
        "0.4*PL1/row",
        "0.3*PL2/nested",
        "[0.1,0.9,0.5,0,1]*Mean(PL1)/nested@0.5",
        "0.3*Mean(PL2)@0.5",
        "0.2*FL",
        "[0.1,0.9,0.5,0,1]*PL1@[1,2,1,0,3]",
        "0.6*Blocks({0,1},{2,3,4})",
    )

    def __str__(self) -> str:
        return str(self.term)

    @classmethod
    def read(cls, reader: Reader) -> Independent:
        """Read ``(TERM)``; a plain term means the same and is what is printed."""
        reader.expect("(", "after Independent")
        term = read_term(reader)
        reader.expect(")", "that closes Independent(")
        return cls(term)

    @property
    def lams(self) -> tuple[Numbers | None, ...]:
        """λ of the term."""
        return (self.term.lam,)

    @property
    def betas(self) -> tuple[Numbers, ...]:
        """β of the term."""
        return (self.term.beta,)

    @property
    def term_names(self) -> tuple[str, ...]:
        """The term without λ and β."""
        return (self.term.name,)

    @property
    def scales(self) -> tuple[float, ...]:
        """What β is multiplied by."""
        return (self.term.scale,)

    def over(self, structure: Structure) -> Independent:
        """The term with its mean number of components."""
        return Independent(self.term.over(structure))

    def with_lams(self, lams: tuple[Numbers | None, ...]) -> Independent:
        """The same term with another λ."""
        return self if lams[0] is None else Independent(replace(self.term, lam=lams[0]))

    def with_betas(self, betas: tuple[Numbers, ...]) -> Independent:
        """The same term with another β."""
        return Independent(replace(self.term, beta=betas[0]))

    @property
    def noise(self) -> Noise:
        """λ is free where it and β are single numbers."""
        if isinstance(self.term.lam, tuple) or isinstance(self.term.beta, tuple):
            return Noise.FIXED
        return Noise.TOGETHER if self.term.whole else Noise.EACH

    def unit(self) -> tuple[Law, float, float]:
        """The term with λ = β = 1, and both; lists stay as they are."""
        lam, beta = self.term.lam, self.term.beta
        if isinstance(lam, tuple) or isinstance(beta, tuple):
            return super().unit()
        return Independent(replace(self.term, lam=1.0, beta=1.0)), lam, beta

    def at(self, lam: float, beta: float) -> Law:
        """The term with this λ, and its weight multiplied."""
        if self.noise is Noise.FIXED:
            return super().at(lam, beta)
        return Independent(replace(self.term, lam=lam, beta=beta * float(np.max(self.term.beta))))

    def bind(self, structure: Structure, stream: int) -> BoundIndependent:
        """The term over the components of ``structure``."""
        return BoundIndependent(self.term, structure.bind_family(self.term.family), stream)


class BoundIndependent(BoundLaw):
    """Independent selection over known components."""

    family_terms = (0,)
    constant_lams = True

    def __init__(self, term: Term, family: BoundFamily, stream: int) -> None:
        self.families = (family,)
        self.whole, self.nested = term.whole, term.drawn == "nested"
        self.lam = bind_numbers(term.lam, family, "selection probabilities λ")
        self.betas = (bind_weights(term, family),)
        self.stream = stream

    def lams(self, sizes: Sizes) -> tuple[float | FloatArray, ...]:
        """λ itself."""
        return (self.lam,)

    def second_moment(self, sizes: Sizes) -> FloatArray:
        """λλᵀ + diag(λ(1−λ)), or λ 11ᵀ if the family is drawn whole."""
        lam = self.mean(sizes)
        if self.whole:
            return np.full((len(lam), len(lam)), self.lam)
        moment = np.outer(lam, lam)
        np.fill_diagonal(moment, lam)
        return moment

    def factors(self, sizes: Sizes) -> Factors:
        """The identity with λ(1−λ), beside the mean; or one row of ones with λ."""
        from scipy.sparse import csr_matrix, identity

        lam = self.mean(sizes)
        if self.whole:
            return Factors(csr_matrix(np.ones((1, len(lam)))), np.array([float(self.lam)]), 0.0)
        # Components that are always selected have no noise of their own.
        noisy = (lam > 0) & (lam < 1)
        return Factors(csr_matrix(identity(len(lam), format="csr")[noisy]), (lam * (1 - lam))[noisy], 1.0)

    def shares(self, sizes: Sizes, lam: float = 1.0) -> tuple[Share, ...]:
        """A sample has a component with probability 1 − Π(1−λ_j), or λ if the family is drawn whole."""
        mean = lam * (float(np.mean(self.lam)) if np.size(self.lam) else 0.0)
        if self.whole:
            return (Share(mean, mean, together=True),)
        return (Share(mean, 1 - (1 - mean) ** sizes[0]),)

    def none_probability(self, sizes: Sizes) -> float:
        """Π(1−λ_j), or 1−λ if the family is drawn whole."""
        if self.whole:
            return float(1 - self.lam)
        if isinstance(self.lam, float):
            return float((1 - self.lam) ** sizes[0])
        return float(np.prod(1 - self.lam))

    @property
    def _at_once(self) -> bool:
        """Whether a sample has all components or none."""
        return self.whole or self.families[0].size == 1 or np.min(self.lam) == 1 or np.max(self.lam) == 0

    def n_patterns(self, sizes: Sizes) -> float:
        """All subsets of the components that have 0 < λ < 1."""
        if self._at_once:
            return 2.0
        noisy = (self.lam > 0) & (self.lam < 1)
        return number_of_subsets(sizes[0] if isinstance(self.lam, float) else int(np.count_nonzero(noisy)))

    def patterns(self, sizes: Sizes) -> Patterns:
        """Π λ_j^Z_j (1−λ_j)^(1−Z_j), or λ and 1−λ if the family is drawn whole."""
        return whole_or_nothing(float(np.max(self.lam))) if self._at_once else bernoulli(self.mean(sizes))

    def draw(self, seed: int, start: int, stop: int, active: BoolArray | None) -> tuple[FamilySelection, ...]:
        """Geometric gaps between the selected components of a sample; nested draws have a number for each component."""
        family, beta = self.families[0], self.betas[0]
        if np.min(self.lam) == 1:
            return (FamilySelection(family, beta, rows=active, start=start),)
        if np.max(self.lam) == 0:
            return (nothing(family, beta, start, stop),)
        if self.whole or family.size == 1:
            rows = row_uniforms(seed, self.stream, start, stop, 1)[:, 0] < float(np.max(self.lam))
            return (FamilySelection(family, beta, rows=rows if active is None else rows & active, start=start),)
        if self.nested:
            return (draw_nested(family, beta, self.lam, seed, self.stream, start, stop, active),)
        return (draw_bernoulli(family, beta, self.lam, seed, self.stream, start, stop, active),)

"""Exactly k components of a family in each sample: the skeleton of a law of Z. Copy it to src/fieldfit/policies/laws/.

``Exactly(2*PL1)`` selects 2 of the K components of PL1, all pairs with the same probability:

    E[Z_i] = k / K,    E[Z_i Z_j] = k (k − 1) / (K (K − 1))  for i ≠ j

A law is found by its file: the class Exactly in exactly.py has the text form ``Exactly(...)``. The specification (`Law`)
knows its text; bound to a structure (`BoundLaw`) it draws Z and knows its moments. The contract tests run over `examples`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fieldfit.policies.laws.base import BoundLaw, Factors, Law, Sizes
from fieldfit.policies.selection import FamilySelection, row_uniforms
from fieldfit.policies.structure import BoundFamily, Structure
from fieldfit.policies.terms import Numbers, Term, bind_numbers, read_term
from fieldfit.policies.text import Reader
from fieldfit.types import BoolArray, FloatArray, PolicyError


@dataclass(frozen=True)
class Exactly(Law):
    """``count`` components of one term in each sample, drawn without replacement."""

    count: int
    term: Term
    examples: ClassVar[tuple[str, ...]] = ("Exactly(2*PL1)", "Exactly(3*PL2@0.5)", "Exactly(1*FL)", "Exactly(5*PL1)")

    def __str__(self) -> str:
        return f"Exactly({self.count}*{self.term})"

    @classmethod
    def read(cls, reader: Reader) -> Exactly:
        """Read ``(COUNT*FAMILY)``, where a family may have a weight."""
        reader.expect("(", "after Exactly")
        count = reader.integer("the number of components")
        reader.expect("*", "between the number of components and the family of Exactly(")
        term = read_term(reader)
        reader.expect(")", "after the family of Exactly(")
        if term.lam != 1.0 or count < 1:
            raise PolicyError(f"Exactly(...) takes an integer number of components and a family; got {count}*{term}.")
        return cls(count, term)

    @property
    def lams(self) -> tuple[Numbers | None, ...]:
        """The law leaves no λ to choose."""
        return (None,)

    @property
    def betas(self) -> tuple[Numbers, ...]:
        """β of the term."""
        return (self.term.beta,)

    @property
    def term_names(self) -> tuple[str, ...]:
        """The term without β."""
        return (self.term.name,)

    def with_lams(self, lams: tuple[Numbers | None, ...]) -> Exactly:
        """The same law: None is the only λ that it takes."""
        if any(lam is not None for lam in lams):
            raise PolicyError("The λ of Exactly(...) follow from its number of components; leave them out.")
        return self

    def with_betas(self, betas: tuple[Numbers, ...]) -> Exactly:
        """The same law with another β."""
        return replace(self, term=replace(self.term, beta=betas[0]))

    def bind(self, structure: Structure, stream: int) -> BoundExactly:
        """The law over the components of ``structure``."""
        family = structure.bind_family(self.term.family)
        if family.size is None or family.size < self.count:
            raise PolicyError(f"{self} needs a family with at least {self.count} components in every sample.")
        return BoundExactly(self.count, family, bind_numbers(self.term.beta, family, "weights β"), stream)


class BoundExactly(BoundLaw):
    """The law over known components."""

    def __init__(self, count: int, family: BoundFamily, beta: float | FloatArray, stream: int) -> None:
        self.count, self.stream = count, stream
        self.families, self.betas, self.family_terms = (family,), (beta,), (0,)

    def lams(self, sizes: Sizes) -> tuple[float | FloatArray, ...]:
        """k / K."""
        return (self.count / sizes[0],)

    def _both(self, size: int) -> float:
        """E[Z_i Z_j] of two different components."""
        return self.count * (self.count - 1) / (size * (size - 1)) if size > 1 else 0.0

    def second_moment(self, sizes: Sizes) -> FloatArray:
        """λ on the diagonal, E[Z_i Z_j] elsewhere."""
        moment = np.full((sizes[0], sizes[0]), self._both(sizes[0]))
        np.fill_diagonal(moment, self.count / sizes[0])
        return moment

    def factors(self, sizes: Sizes) -> Factors:
        """(λ − E[Z_i Z_j]) I + (E[Z_i Z_j] / λ²) λλᵀ."""
        from scipy.sparse import csr_matrix, identity

        lam, both = self.count / sizes[0], self._both(sizes[0])
        return Factors(csr_matrix(identity(sizes[0])), np.full(sizes[0], lam - both), both / lam**2)

    def draw(self, seed: int, start: int, stop: int, active: BoolArray | None) -> tuple[FamilySelection, ...]:
        """The k components with the smallest of K uniform numbers, which depend on the seed and the sample alone."""
        (family,), (beta,) = self.families, self.betas
        size = family.size
        assert size is not None
        uniforms = row_uniforms(seed, self.stream, start, stop, size)
        chosen = np.sort(np.argpartition(uniforms, self.count - 1, axis=1)[:, : self.count], axis=1)
        drawn = np.ones(stop - start, dtype=bool) if active is None else active
        if self.count == size:
            return (FamilySelection(family, beta, None if drawn.all() else drawn, start=start),)
        indptr = np.concatenate(([0], np.cumsum(np.where(drawn, self.count, 0)))).astype(np.int64)
        return (FamilySelection(family, beta, None, indptr, chosen[drawn].reshape(-1).astype(np.int64), start),)

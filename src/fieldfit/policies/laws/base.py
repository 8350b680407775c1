"""What a law of Z is: a group of terms that are drawn together, independently of all other groups of the policy.

A `Law` is the specification (frozen, with a text form); bound to a structure it becomes a `BoundLaw`, which draws and
knows its moments. To add a law, write ``laws/NAME.py`` with a class Name that derives from `Law`: the text form
``Name(...)`` then finds it, and the contract tests run over its `examples`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fieldfit.named import closest_names
from fieldfit.policies.families import FAMILY_NAMES, is_family_name
from fieldfit.policies.patterns import Patterns
from fieldfit.policies.selection import FamilySelection
from fieldfit.policies.structure import BoundFamily, Structure
from fieldfit.policies.terms import MEAN, Numbers, Term, check_distinct, read_term
from fieldfit.policies.text import Reader
from fieldfit.types import BoolArray, FloatArray, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Sizes = tuple[int, ...]
_MOST_NESTED = 20


@dataclass(frozen=True)
class Factors:
    """E[ZZᵀ] of one group = Cᵀ diag(d) C + ``mean_coefficient`` · λλᵀ, over the group's components.

    d may have negative entries. The mean is kept apart because it is what groups share: between two groups
    E[Z_i Z_j] = λ_i λ_j.
    """

    C: csr_matrix
    d: FloatArray
    mean_coefficient: float


class Noise(Enum):
    """What the selection of a law adds to the variance, beside that of the mean over Z.

    With ∇S_j the scores of the components and s their sum, at λ = β = 1:
    """

    EACH = "λ(1 − λ) Σ_j E ∇S_j ∇S_jᵀ"
    """Every component is drawn on its own, all with one free λ."""
    TOGETHER = "λ(1 − λ) E s sᵀ"
    """All components of a sample are drawn at once, with one free λ."""
    FIXED = "Var_Z ψ"
    """There is no free λ: the noise is that of the law as it is."""


@dataclass(frozen=True)
class Share:
    """How a law draws one family in a sample: what the work of a fit depends on.

    ``lam`` is E[Z] of a component, ``any_drawn`` the probability that a sample has a component of the family at all.
    ``together``: a sample has all components or none. ``shuffled``: the components come from a shuffle of the variables.
    """

    lam: float
    any_drawn: float
    together: bool = False
    shuffled: bool = False


class Law(ABC):
    """The law of Z over one group of terms, before it knows the samples."""

    examples: ClassVar[tuple[str, ...]] = ()
    """Texts that the contract tests bind to a field of five variables."""

    @abstractmethod
    def __str__(self) -> str: ...

    @classmethod
    @abstractmethod
    def read(cls, reader: Reader) -> Law:
        """Read what follows the name, parentheses included."""

    @property
    @abstractmethod
    def lams(self) -> tuple[Numbers | None, ...]:
        """λ of each term, None where the law leaves no choice."""

    @property
    @abstractmethod
    def betas(self) -> tuple[Numbers, ...]:
        """β of each term."""

    @property
    @abstractmethod
    def term_names(self) -> tuple[str, ...]:
        """Each term without λ and β."""

    @abstractmethod
    def with_lams(self, lams: tuple[Numbers | None, ...]) -> Law:
        """The same law with other λ; None leaves a term's λ as it is."""

    @abstractmethod
    def with_betas(self, betas: tuple[Numbers, ...]) -> Law:
        """The same law with other β."""

    @abstractmethod
    def bind(self, structure: Structure, stream: int) -> BoundLaw:
        """The law over the components of ``structure``; its random numbers have streams from ``stream`` on."""

    @property
    def scales(self) -> tuple[float, ...]:
        """What the weight of each term is multiplied by: 1, or for ``Mean(...)`` 1 over its number of components."""
        return (1.0,) * len(self.betas)

    def over(self, structure: Structure) -> Law:
        """The law with the mean numbers of components of its ``Mean(...)`` terms in these samples."""
        return self

    @property
    def noise(self) -> Noise:
        """What the selection adds to the variance; a law with a free λ says how."""
        return Noise.FIXED

    def unit(self) -> tuple[Law, float, float]:
        """The law with λ = β = 1 where these are free, and their values: ``unit.at(λ, β)`` is the law again.

        Without a free λ the first number is 1. β is taken out where all terms have the same.
        """
        beta = self.betas[0]
        if isinstance(beta, tuple) or beta == 1.0 or any(other != beta for other in self.betas):
            return self, 1.0, 1.0
        return self.with_betas((1.0,) * len(self.betas)), 1.0, beta

    def at(self, lam: float, beta: float) -> Law:
        """The law with this value of a free λ, and all its weights multiplied by ``beta``."""
        if lam != 1.0:
            raise PolicyError(f"'{self}' has no free λ: it cannot be set to {lam}.")
        if beta == 1.0:
            return self
        # Twelve digits, so that products print as short as their factors.
        scaled = [
            [float(f"{beta * value:.12g}") for value in np.atleast_1d(family_beta)] for family_beta in self.betas
        ]
        betas = zip(self.betas, scaled, strict=True)
        return self.with_betas(tuple(tuple(new) if isinstance(old, tuple) else new[0] for old, new in betas))

    def can_select(self) -> bool:
        """Whether any component has a positive probability."""
        return any(lam is None or np.max(lam) > 0 for lam in self.lams)

    def can_count(self) -> bool:
        """Whether any component that can be selected has a positive weight."""
        for lam, beta in zip(self.lams, self.betas, strict=True):
            lams, betas = np.atleast_1d(1.0 if lam is None else lam), np.atleast_1d(beta)
            # Lists of different lengths are refused later, where the components are known.
            if 1 not in (len(lams), len(betas)) and len(lams) != len(betas):
                return True
            if np.any((lams > 0) & (betas > 0)):
                return True
        return False


class LawOfTerms(Law):
    """A law over a list of terms that are drawn together."""

    terms: tuple[Term, ...]

    @property
    def betas(self) -> tuple[Numbers, ...]:
        """β of each term."""
        return tuple(term.beta for term in self.terms)

    @property
    def term_names(self) -> tuple[str, ...]:
        """Each term without λ and β."""
        return tuple(term.name for term in self.terms)

    @property
    def scales(self) -> tuple[float, ...]:
        """What the weight of each term is multiplied by."""
        return tuple(term.scale for term in self.terms)

    def _check_terms(self) -> None:
        """Refuse a law without terms, with one twice, or with nested draws, which single components have."""
        owner = f"{type(self).__name__}(...)"
        for term in self.terms:
            if term.drawn == "nested":
                raise PolicyError(f"{term.name} is drawn by its own λ; it cannot be a term of {owner}.")
        if not self.terms:
            raise PolicyError(f"{owner} has no component: it needs at least one term.")
        check_distinct(self.terms, owner)

    def _bound(self, structure: Structure) -> tuple[BoundFamily, ...]:
        return tuple(structure.bind_family(term.family) for term in self.terms)


class BoundLaw(ABC):
    """A law over known components. ``sizes`` are the numbers of components of the families in one sample."""

    families: tuple[BoundFamily, ...]
    betas: tuple[float | FloatArray, ...]
    family_terms: tuple[int, ...]
    """For each family, the term of the law that it belongs to (a partition's remainder is a family of its own)."""
    n_streams: int = 1
    constant_lams: bool = False
    """Whether `lams` is the same for all sizes."""

    @abstractmethod
    def lams(self, sizes: Sizes) -> tuple[float | FloatArray, ...]:
        """E[Z] of each family: one number, or one for each component."""

    @abstractmethod
    def second_moment(self, sizes: Sizes) -> FloatArray:
        """E[ZZᵀ] over the components of all families in order, dense."""

    @abstractmethod
    def factors(self, sizes: Sizes) -> Factors:
        """E[ZZᵀ] in factors that have few entries."""

    @abstractmethod
    def draw(self, seed: int, start: int, stop: int, active: BoolArray | None) -> tuple[FamilySelection, ...]:
        """Z of the samples start..stop; nothing is selected where ``active`` (stop − start,) is False."""

    def n_patterns(self, sizes: Sizes) -> float:
        """How many values Z can take in a sample, at most; infinite where `patterns` does not list them."""
        return np.inf

    def patterns(self, sizes: Sizes) -> Patterns:
        """The values that Z can take in a sample, where `n_patterns` is finite."""
        raise NotImplementedError

    def mean(self, sizes: Sizes) -> FloatArray:
        """E[Z] over the components of all families in order."""
        parts = [np.broadcast_to(lam, (size,)) for lam, size in zip(self.lams(sizes), sizes, strict=True)]
        return np.concatenate(parts)

    def shares(self, sizes: Sizes, lam: float = 1.0) -> tuple[Share, ...]:
        """How each family is drawn; ``lam`` multiplies a free λ. By default the components never come together."""
        shares = []
        for family_lam, size in zip(self.lams(sizes), sizes, strict=True):
            mean = float(np.mean(family_lam)) if np.size(family_lam) else 0.0
            shares.append(Share(mean, min(mean * size, 1.0)))
        return tuple(shares)

    def none_probability(self, sizes: Sizes) -> float:
        """P(Z = 0)."""
        raise PolicyError("This law cannot stand first in Unless(...).")


def find_law(name: str) -> type[Law] | None:
    """The class with this name in the module of the same name in lower case, or None."""
    module = f"fieldfit.policies.laws.{name.lower()}"
    if name == "Base" or importlib.util.find_spec(module) is None:
        return None
    law = getattr(importlib.import_module(module), name, None)
    return law if isinstance(law, type) and issubclass(law, Law) else None


def law_names() -> list[str]:
    """The names of all laws, found in the files of this folder."""
    package = importlib.import_module("fieldfit.policies.laws")
    names = []
    for entry in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{entry.name}")
        names += [
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Law) and key.lower() == entry.name
        ]
    return sorted(names)


def is_law_name(name: str) -> bool:
    """Whether a group may begin with this word: the name of a family or of a law."""
    return name == MEAN or is_family_name(name) or find_law(name) is not None


def read_law(reader: Reader) -> Law:
    """Read one group: a law by name, or an independent term."""
    from fieldfit.policies.laws.independent import Independent

    start = reader.position
    name = None if reader.at_number() else reader.word()
    if name is None or name == MEAN or is_family_name(name):
        reader.position = start
        return Independent(read_term(reader))
    law = find_law(name)
    if law is not None:
        with reader.blame(start):
            reader.depth += 1
            if reader.depth > _MOST_NESTED:
                reader.fail(f"laws may be nested at most {_MOST_NESTED} deep.", start)
            law_read = law.read(reader)
            reader.depth -= 1
            return law_read
    return reader.fail(
        f"expected a family ({FAMILY_NAMES}) or a law ({', '.join(law_names())}).{_meant(name)}", start
    )


def _meant(name: str) -> str:
    """A question for the nearest family or law; "" if none is spelt like ``name``."""
    near = (
        [name.upper()]
        if is_family_name(name.upper())
        else closest_names(name, ["FL", "PL1", "Blocks", "Components", *law_names()])
    )
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def read_sum(reader: Reader) -> tuple[Law, ...]:
    """Read groups joined by ``+``."""
    laws = [read_law(reader)]
    while reader.accept("+"):
        laws.append(read_law(reader))
    return tuple(laws)


def check_sum(laws: tuple[Law, ...], owner: str) -> None:
    """Refuse a sum without groups, with the same independent term twice, or that never selects anything."""
    from fieldfit.policies.laws.independent import Independent

    if not isinstance(laws, tuple) or not all(isinstance(law, Law) for law in laws):
        raise PolicyError(
            f"The groups of {owner} are {laws!r:.80}; they must be a tuple of laws. Policy.parse reads text."
        )
    if not laws:
        raise PolicyError(f"{owner[0].upper()}{owner[1:]} has no component: it needs at least one term, such as PL1.")
    check_distinct(tuple(law.term for law in laws if isinstance(law, Independent)), owner)
    if not any(law.can_select() for law in laws):
        raise PolicyError(
            f"{owner[0].upper()}{owner[1:]} never selects a component: at least one λ must be positive."
        )


def split_by(counts: tuple[int, ...], values: tuple[Numbers | None, ...]) -> list[tuple[Numbers | None, ...]]:
    """Consecutive pieces of ``values`` of these lengths."""
    pieces, at = [], 0
    for count in counts:
        pieces.append(values[at : at + count])
        at += count
    return pieces


def block_diagonal(blocks: list[FloatArray]) -> FloatArray:
    """The dense matrix with these square blocks on its diagonal."""
    total = sum(len(block) for block in blocks)
    matrix = np.zeros((total, total))
    at = 0
    for block in blocks:
        matrix[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return matrix


def stack_factors(parts: list[Factors], means: list[FloatArray]) -> tuple[csr_matrix, FloatArray]:
    """(C, d) with Cᵀ diag(d) C = E[ZZᵀ] of independent groups together.

    λλᵀ over everything, then for each group its own factors and (mean_coefficient − 1) λλᵀ within it; for a single
    group the two means become one.
    """
    from scipy.sparse import block_diag, csr_matrix, vstack

    inside, d = [], []
    alone = len(parts) == 1
    for part, mean in zip(parts, means, strict=True):
        coefficient = part.mean_coefficient - (0.0 if alone else 1.0)
        rows = [part.C]
        weights = part.d
        if coefficient != 0.0:
            rows.append(csr_matrix(mean[None, :]))
            weights = np.append(weights, coefficient)
        inside.append(vstack(rows, format="csr"))
        d.append(weights)
    C = block_diag(inside, format="csr")
    if alone:
        return csr_matrix(C), d[0]
    return csr_matrix(vstack([csr_matrix(np.concatenate(means)[None, :]), C], format="csr")), np.concatenate(
        [[1.0], *d]
    )

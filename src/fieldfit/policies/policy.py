"""Policies: which components are selected, how often, together with which others, and with which weights.

A policy is a sum of independent groups, each with a law of its own (`fieldfit.policies.laws`): ``PL1 + 0.2*PL2``,
``Multinomial(0.6*PL1 + 0.4*PL2)``, ``Partition(2) + 0.1*FL``. It says P(Z) and β of Definition 2; bound to a
structure it draws Z and knows E[Z] and E[ZZᵀ], from which the asymptotic variance follows:

    Σ = Σ_ij β_i β_j E[Z_i Z_j] E[∇S_i ∇S_jᵀ].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.arguments import has_entries, instance_of
from fieldfit.policies.laws.base import BoundLaw, Law, Share, check_sum, read_sum, split_by, stack_factors
from fieldfit.policies.patterns import Patterns, joint_patterns
from fieldfit.policies.selection import Selection
from fieldfit.policies.structure import BoundFamily, Structure
from fieldfit.policies.terms import Numbers, as_numbers
from fieldfit.policies.text import Reader
from fieldfit.types import FloatArray, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_FIRST_STREAM = 0x5A000000  # away from the streams of samplers, which may share the user's seed
_MOST_MOMENT_COMPONENTS = 5_000
_MOST_LISTED_COMPONENTS = 20_000_000
#: Largest weight of samples and of terms, with its inverse the smallest one: variances have their squares.
LARGEST_WEIGHT = 1e100


@dataclass(frozen=True)
class Policy:
    """Which components are selected, with which probability, and with which weight: a sum of independent groups.

    Use `Policy.parse` to create a policy from text. ``Policy.parse(str(policy)) == policy`` holds for every policy.

    Parameters
    ----------
    laws : tuple of Law
        The groups, each with its own law of Z.

    Examples
    --------
    >>> import fieldfit as ff
    >>> policy = ff.Policy.parse("PL1 + 0.2*PL2@0.5")
    >>> policy.term_names, policy.lams, policy.betas
    (('PL1', 'PL2'), (1.0, 0.2), (1.0, 0.5))
    """

    laws: tuple[Law, ...]

    def __post_init__(self) -> None:
        check_sum(self.laws, "the policy")
        if not any(law.can_count() for law in self.laws):
            raise PolicyError(
                "Every component that the policy can select has the weight 0: at least one β must be positive."
            )

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Read a policy from text.

        Parameters
        ----------
        text : str
            A sum of terms ``[λ*]FAMILY[/row][@β]`` and laws such as ``Partition(2)``. ``Mean(FAMILY)``
            divides the weight of a family by the mean number of its components in a sample.

        Returns
        -------
        Policy

        Raises
        ------
        PolicyError
            If the text is not valid. The message gives the position.

        Examples
        --------
        >>> import fieldfit as ff
        >>> print(ff.Policy.parse("0.7*PL1 + 0.3*PL2@0.5"))
        0.7*PL1 + 0.3*PL2@0.5
        """
        if not isinstance(text, str):
            raise PolicyError(f"A policy is parsed from a text such as 'PL1 + 0.2*PL2'; got {type(text).__name__}.")
        reader = Reader(text)
        if reader.at_end():
            raise PolicyError("The policy is empty: it needs at least one term, such as PL1.")
        laws = read_sum(reader)
        if reader.peek(">>"):
            reader.fail("only a policy of one stage can be used here, not a refined one.")
        if reader.peek(">"):
            reader.fail("a second stage is written after '>>', as in 'PL1 >> optimal'.")
        if not reader.at_end():
            reader.fail("expected '+' and another term, or the end.")
        with reader.blame(0):
            return cls(laws)

    def __str__(self) -> str:
        return " + ".join(map(str, self.laws))

    @property
    def term_names(self) -> tuple[str, ...]:
        """Each term without λ and β, in order."""
        return tuple(name for law in self.laws for name in law.term_names)

    @property
    def lams(self) -> tuple[Numbers | None, ...]:
        """Selection probability λ of each term, as written. None for terms whose law determines it."""
        return tuple(lam for law in self.laws for lam in law.lams)

    @property
    def betas(self) -> tuple[Numbers, ...]:
        """Weight β of each term, as written."""
        return tuple(beta for law in self.laws for beta in law.betas)

    def with_betas(self, betas: Sequence[object] | FloatArray) -> Policy:
        """Return the same policy with other weights.

        Parameters
        ----------
        betas : sequence
            For each term a number, or a list with one number for each component.

        Returns
        -------
        Policy

        Examples
        --------
        >>> import fieldfit as ff
        >>> print(ff.Policy.parse("PL1 + 0.2*PL2").with_betas([0.9, 0.1]))
        PL1@0.9 + 0.2*PL2@0.1
        """
        if not has_entries(betas):
            raise PolicyError(f"The weights β are a list with one for each term; got {betas!r:.80}.")
        pieces = self._pieces([as_numbers(beta) for beta in betas], "weights β")
        return Policy(
            tuple(
                law.with_betas(tuple(beta for beta in piece if beta is not None))
                for law, piece in zip(self.laws, pieces, strict=True)
            )
        )

    def with_lams(self, lams: Sequence[object] | FloatArray) -> Policy:
        """Return the same policy with other selection probabilities.

        Parameters
        ----------
        lams : sequence
            For each term a number, a list with one number for each component, or None for no change.

        Returns
        -------
        Policy

        Examples
        --------
        >>> import fieldfit as ff
        >>> print(ff.Policy.parse("PL1 + 0.2*PL2").with_lams([None, 0.5]))
        PL1 + 0.5*PL2
        """
        if not has_entries(lams):
            raise PolicyError(f"The probabilities λ are a list with one for each term; got {lams!r:.80}.")
        pieces = self._pieces([None if lam is None else as_numbers(lam) for lam in lams], "probabilities λ")
        return Policy(tuple(law.with_lams(piece) for law, piece in zip(self.laws, pieces, strict=True)))

    def _pieces(self, values: Sequence[Numbers | None], meaning: str) -> list[tuple[Numbers | None, ...]]:
        counts = tuple(len(law.betas) for law in self.laws)
        if len(values) != sum(counts):
            raise PolicyError(
                f"The policy '{self}' has {sum(counts)} terms; got {len(values)} {meaning}: give one for each term."
            )
        return split_by(counts, tuple(values))

    def bind(self, structure: Structure) -> BoundPolicy:
        """Bind the policy to the components of a structure.

        Parameters
        ----------
        structure : Structure
            From `Model.structure`.

        Returns
        -------
        BoundPolicy
            Draws Z, and has the moments E[Z] and E[ZZᵀ].

        Examples
        --------
        >>> import fieldfit as ff
        >>> bound = ff.Policy.parse("0.5*PL1").bind(ff.BoltzmannMachine(3).structure())
        >>> bound.mean()
        array([0.5, 0.5, 0.5])
        """
        instance_of(structure, Structure, "A policy is bound to a structure, from Model.structure")
        # What averages over its components keeps their number: parts of these samples then have the same weights.
        over = tuple(law.over(structure) for law in self.laws)
        policy = self if over == self.laws else Policy(over)
        laws: list[BoundLaw] = []
        stream = _FIRST_STREAM
        for law in policy.laws:
            laws.append(law.bind(structure, stream))
            stream += laws[-1].n_streams
        return BoundPolicy(policy, tuple(laws))


def as_policy(policy: Policy | str) -> Policy:
    """A policy, given as a policy or as text."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str):
        return Policy.parse(policy)
    raise PolicyError(f"A policy must be a string such as 'PL1' or a Policy; got {type(policy).__name__}.")


class BoundPolicy:
    """A policy over known components: it draws Z, and knows E[Z] and E[ZZᵀ].

    ``families`` has one entry for each term in order (two for a partition with a remainder); ``family_terms`` says
    which term of the policy each belongs to, ``term_names`` its name, ``betas`` its weights and ``scales`` the factor
    of ``Mean(...)`` in them. Components are numbered through all
    families, K in all. Where the components differ between samples (sequences), moments are those of
    one sample, ``row``.
    """

    def __init__(self, policy: Policy, laws: tuple[BoundLaw, ...]) -> None:
        self.policy = policy
        self.laws = laws
        self.families: tuple[BoundFamily, ...] = tuple(family for law in laws for family in law.families)
        self.betas: tuple[float | FloatArray, ...] = tuple(beta for law in laws for beta in law.betas)
        self._varies = any(family.size is None for family in self.families)
        offsets = np.cumsum([0, *(len(law.betas) for law in policy.laws)])
        self.family_terms: tuple[int, ...] = tuple(
            int(offset) + term for law, offset in zip(laws, offsets, strict=False) for term in law.family_terms
        )
        scales = [scale for law in policy.laws for scale in law.scales]
        self.scales: tuple[float, ...] = tuple(scales[term] for term in self.family_terms)
        self.term_names: tuple[str, ...] = tuple(policy.term_names[term] for term in self.family_terms)

    def __repr__(self) -> str:
        return f"<{self.policy} over {', '.join(family.name for family in self.families)}>"

    @property
    def largest_beta(self) -> float:
        """The largest abs(β)."""
        return max(float(np.max(np.abs(beta))) for beta in self.betas)

    @property
    def least_beta(self) -> float:
        """The least abs(β) that is not 0."""
        sizes = [np.abs(np.atleast_1d(beta)) for beta in self.betas]
        return min(float(size.min(initial=np.inf, where=size > 0)) for size in sizes)

    def check_range(self, total_weight: float = 1.0) -> None:
        """Refuse weights β whose sums and squares over samples of this ``total_weight`` leave the range of doubles."""
        reach = self.largest_beta * total_weight
        if not 1 / LARGEST_WEIGHT <= reach <= LARGEST_WEIGHT:
            raise PolicyError(
                f"The weights of the terms of '{self.policy}', times those of the samples, reach {reach:.3g}, and sums "
                "with them would leave the range of numbers. Divide all weights by the largest of them."
            )

    @property
    def everything(self) -> bool:
        """Whether Z is 1 with certainty, so that any two draws are the same (ordinary composite likelihood)."""
        return all(np.min(lam) == 1.0 for lam in self.lams(0 if self._varies else None))

    def n_patterns(self, sizes: tuple[int, ...]) -> float:
        """How many values Z can take in a sample with ``sizes`` components of the families, at most; may be infinite."""
        return math.prod(law.n_patterns(pieces) for law, pieces in self._by_law(sizes))

    def patterns(self, sizes: tuple[int, ...]) -> Patterns:
        """The values that Z can take in such a sample, with their probabilities, where `n_patterns` is finite."""
        return joint_patterns([law.patterns(pieces) for law, pieces in self._by_law(sizes)])

    def _by_law(self, sizes: tuple[int, ...]) -> list[tuple[BoundLaw, tuple[int, ...]]]:
        ends = np.cumsum([len(law.families) for law in self.laws]).tolist()
        return [(law, sizes[end - len(law.families) : end]) for law, end in zip(self.laws, ends, strict=True)]

    def draw(self, seed: int, start: int, stop: int) -> Selection:
        """Z of the samples start..stop, the same for a sample in any range."""
        if not 0 <= start <= stop:
            raise PolicyError(
                f"Samples are drawn for a range start..stop with 0 ≤ start ≤ stop; got {start}..{stop}."
            )
        if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
            raise PolicyError(f"A seed is an integer from 0 to 2^64 − 1; got {seed!r:.80}.")
        parts = tuple(part for law in self.laws for part in law.draw(int(seed), int(start), int(stop), None))
        return Selection(int(stop - start), parts, int(start))

    def lams(self, row: int | None = None) -> tuple[float | FloatArray, ...]:
        """E[Z] of each family: one number, or one for each component."""
        return tuple(lam for law, sizes in self._sizes(row) for lam in law.lams(sizes))

    def shares(self, lam: float = 1.0) -> tuple[Share, ...]:
        """How each family is drawn (of sequences in the first of them); ``lam`` multiplies a free λ."""
        groups = self._sizes(0 if self._varies else None)
        return tuple(share for law, sizes in groups for share in law.shares(sizes, lam))

    def expected_counts(self, row: int | None = None) -> FloatArray:
        """How many components of each family are selected in a sample on average (n_families,)."""
        counts = []
        for law, sizes in self._sizes(row):
            for lam, size in zip(law.lams(sizes), sizes, strict=True):
                counts.append(lam * size if isinstance(lam, float) else float(np.sum(lam)))
        return np.array(counts, dtype=np.float64)

    def n_components(self, row: int | None = None) -> int:
        """K, the number of components of all families."""
        return sum(sum(sizes) for _, sizes in self._sizes(row))

    def mean(self, row: int | None = None) -> FloatArray:
        """E[Z] = λ (K,)."""
        self._check_listed(row, _MOST_LISTED_COMPONENTS)
        return np.concatenate([law.mean(sizes) for law, sizes in self._sizes(row)])

    def beta(self, row: int | None = None) -> FloatArray:
        """β (K,)."""
        self._check_listed(row, _MOST_LISTED_COMPONENTS)
        sizes = [size for _, sizes in self._sizes(row) for size in sizes]
        return np.concatenate([np.broadcast_to(b, (size,)) for b, size in zip(self.betas, sizes, strict=True)])

    def second_moment(self, row: int | None = None) -> FloatArray:
        """E[ZZᵀ] (K, K), dense."""
        self._check_listed(row, _MOST_MOMENT_COMPONENTS)
        mean = self.mean(row)
        moment = np.outer(mean, mean)
        at = 0
        for law, sizes in self._sizes(row):
            size = sum(sizes)
            moment[at : at + size, at : at + size] = law.second_moment(sizes)
            at += size
        return moment

    def second_moment_factors(self, row: int | None = None) -> tuple[csr_matrix, FloatArray]:
        """(C, d) with E[ZZᵀ] = Cᵀ diag(d) C: C sparse (t, K), d (t,), some of it possibly negative."""
        self._check_listed(row, _MOST_LISTED_COMPONENTS)
        groups = self._sizes(row)
        return stack_factors([law.factors(s) for law, s in groups], [law.mean(s) for law, s in groups])

    def quadratic_form(self, scores: FloatArray, row: int | None = None) -> FloatArray:
        """Σ_ij β_i β_j E[Z_i Z_j] s_i s_jᵀ for scores (..., K, r): (..., r, r), without any K × K matrix."""
        K = self.n_components(row)
        if scores.ndim < 2 or scores.shape[-2] != K:
            raise PolicyError(
                f"Scores need the shape (..., {K}, r), one line for each component; got {scores.shape}."
            )
        C, d = self.second_moment_factors(row)
        lead, r = scores.shape[:-2], scores.shape[-1]
        weighted = np.moveaxis((scores * self.beta(row)[:, None]).reshape(-1, K, r), 1, 0)
        sums = np.asarray(C @ weighted.reshape(K, -1)).reshape(len(d), -1, r).transpose(1, 2, 0)
        form: FloatArray = (sums * d) @ sums.transpose(0, 2, 1)
        return form.reshape(*lead, r, r)

    def _sizes(self, row: int | None) -> list[tuple[BoundLaw, tuple[int, ...]]]:
        """Each law with the numbers of components of its families in this sample."""
        if row is None and self._varies:
            raise PolicyError(
                f"The components of '{self.policy}' differ between samples. Give row, the sample's number."
            )
        groups = []
        for law in self.laws:
            sizes = (
                f.size if f.size is not None else int(f.sizes(row or 0, (row or 0) + 1)[0]) for f in law.families
            )
            groups.append((law, tuple(sizes)))
        return groups

    def _check_listed(self, row: int | None, most: int) -> None:
        K = self.n_components(row)
        if most < K:
            raise PolicyError(
                f"The policy '{self.policy}' has {K} components, too many to list them (at most {most}): "
                "use second_moment_factors or quadratic_form for E[ZZᵀ], and lams for E[Z] by family."
            )

"""Which components share one weight: the terms of a policy, or its single components.

The score of a sample is ψ = Σ_g β_g ψ_g, where ψ_g sums the selected components of group g. Inside a group the
weights that the policy was written with stay in proportion. Weights are fixed by Σ_g c_g β_g = 1: c is 1 for a term
and 1/size for a component, so that in both cases the terms' mean weights sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.arguments import numbers_of
from fieldfit.models.problem import Problem
from fieldfit.models.sum_problem import SumProblem
from fieldfit.policies.policy import BoundPolicy, Policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.types import FloatArray, IntArray, PolicyError

#: Components that may have weights of their own.
MOST_SEPARATE_WEIGHTS = 64


@dataclass(frozen=True)
class Groups:
    """Groups of the components of a bound policy.

    ``members[g]`` are pairs (family, component), component −1 for all of them; ``inside[f]`` are the weights inside
    family f as the policy is written, 1 or a list of mean 1.
    """

    bound: BoundPolicy
    by: str
    names: tuple[str, ...]
    members: tuple[tuple[tuple[int, int], ...], ...]
    inside: tuple[float | FloatArray, ...]
    normaliser: FloatArray

    @property
    def relative(self) -> tuple[float | FloatArray, ...]:
        """Weights of the components of each family where its group has the weight 1: those of ``Mean(...)`` are scaled."""
        return tuple(inside * scale for inside, scale in zip(self.inside, self.bound.scales, strict=True))

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.names)

    def normalised(self, beta: FloatArray) -> FloatArray:
        """β scaled to Σ_g c_g β_g = 1."""
        return np.asarray(beta / float(self.normaliser @ beta), dtype=np.float64)

    def policy(self, beta: FloatArray) -> Policy:
        """The policy with these weights."""
        if self.by == "term":
            values: list[object] = []
            for term, value in enumerate(beta):
                inside = self.inside[self.bound.family_terms.index(term)]
                values.append(float(value) if isinstance(inside, float) else tuple(float(value) * inside))
            return self.bound.policy.with_betas(values)
        return self.bound.policy.with_betas(
            [
                tuple(float(b) for b, members in zip(beta, self.members, strict=True) if members[0][0] == family)
                for family in range(len(self.bound.families))
            ]
        )

    def written(self) -> FloatArray:
        """β as the policy has it, normalised; the mean of a list for a term."""
        if self.by == "component":
            beta = np.array([_entry(self.bound.betas[f], j) / self.bound.scales[f] for ((f, j),) in self.members])
        else:
            first = [members[0][0] for members in self.members]
            beta = np.array([float(np.mean(self.bound.betas[f])) / self.bound.scales[f] for f in first])
        return self.normalised(beta) if beta.any() else self.normalised(np.ones(self.count))

    def drawn(self, selection: Selection) -> list[Selection]:
        """The drawn Z of each group, each with weight 1."""
        return self._by_group(selection.parts, (1.0,) * len(selection.parts), selection)

    def expected(self, selection: Selection) -> list[Selection]:
        """Z replaced by its mean: everything selected, each component with its λ as weight (the published formula)."""
        if all(family.size is not None for family in self.bound.families):
            lams = self.bound.lams()
        elif all(law.constant_lams for law in self.bound.laws):
            lams = self.bound.lams(0)
        else:
            raise PolicyError(
                f"The published formula needs one λ for each family; the λ of '{self.bound.policy}' differ between "
                "samples. Use formula='exact'."
            )
        everything = [FamilySelection(family, 1.0, start=selection.start) for family in self.bound.families]
        return self._by_group(everything, lams, selection)

    def _by_group(
        self, parts: Sequence[FamilySelection], lams: Sequence[float | FloatArray], selection: Selection
    ) -> list[Selection]:
        """The selection of each group from those of the families, with weights λ inside it."""
        result = []
        for members in self.members:
            chosen = []
            for family, component in members:
                if component < 0:
                    chosen.append(replace(parts[family], beta=lams[family] * self.relative[family]))
                else:
                    beta = _entry(lams[family], component) * self.bound.scales[family]
                    chosen.append(replace(_only(parts[family], component, selection.n), beta=beta))
            result.append(Selection(selection.n, tuple(chosen), selection.start))
        return result

    def samples(self, selection: Selection) -> IntArray:
        """The number of samples (groups,) of which something of the group is selected."""
        counts = np.zeros(self.count, dtype=np.int64)
        for group, chosen in enumerate(self.drawn(selection)):
            rows = [part.any_row(selection.n) for part in chosen.parts]
            counts[group] = np.count_nonzero(np.any(rows, axis=0))
        return counts

    @property
    def family_shares(self) -> FloatArray | None:
        """Weights of the families (groups, families) for weight 1 of a group; None where components have their own.

        A family whose components are written with weights of their own has those in the compiled problem, so its share
        brings their mean to 1.
        """
        if self.by != "term":
            return None
        shares = np.zeros((self.count, len(self.bound.families)))
        for group, members in enumerate(self.members):
            for family, _ in members:
                beta = self.bound.betas[family]
                scale = self.bound.scales[family]
                mean = float(np.mean(beta)) if isinstance(beta, np.ndarray) else 1.0
                if mean == 0:
                    return None
                shares[group, family] = scale / mean
        return shares

    def weighted(self, selection: Selection, beta: FloatArray, *, every: bool = False) -> Selection:
        """The drawn Z with the weights β; what has weight 0 is left out, unless ``every`` part is wanted."""
        parts = []
        for family, part in enumerate(selection.parts):
            groups = [g for g, pairs in enumerate(self.members) if pairs[0][0] == family or (family, -1) in pairs]
            if not every and not np.any(beta[groups] > 0):
                continue
            each = beta[groups] if self.by == "component" else float(beta[groups[0]])
            value = each * self.relative[family]
            parts.append(replace(part, beta=value))
        return Selection(selection.n, tuple(parts), selection.start)


@dataclass(frozen=True)
class DrawnPolicy:
    """A policy with its drawn Z as a problem with any weights β of its groups.

    ``problem`` is ``selection`` compiled, with any weights; ``compile_problem`` compiles others. A term's weight is
    that of its families, so the compiled problem takes other weights as it is. Components with weights of their own are
    laid out by the compiler, and are compiled again.
    """

    groups: Groups
    selection: Selection
    problem: Problem
    compile_problem: Callable[[Selection], Problem]

    @classmethod
    def of(
        cls,
        bound: BoundPolicy,
        by: str,
        selection: Selection,
        problem: Problem,
        compile_problem: Callable[[Selection], Problem],
    ) -> DrawnPolicy:
        """The groups of a policy, by "term" or by "component", with its drawn Z."""
        return cls(groups_of(bound, by), selection, problem, compile_problem)

    def at(self, beta: FloatArray) -> Problem:
        """The problem with the weights β of the groups."""
        shares = self.groups.family_shares
        other = None if shares is None else self.problem.with_betas(beta @ shares)
        return self.compile_problem(self.groups.weighted(self.selection, beta)) if other is None else other

    def selected(self, beta: FloatArray) -> Selection:
        """The drawn Z with the weights β, those of 0 included."""
        return self.groups.weighted(self.selection, beta, every=True)

    def by_group(self, beta: FloatArray, formula: str) -> SumProblem:
        """A problem whose families are the groups, with Z as drawn or, for the published formula, its mean."""
        groups = self.groups
        if formula == "published":
            parts = [self.compile_problem(chosen) for chosen in groups.expected(self.selection)]
            return SumProblem(parts, weights=beta)
        shares = groups.family_shares
        if shares is not None:
            known = [part for row in np.atleast_2d(shares) if (part := self.problem.with_betas(row)) is not None]
            if len(known) == len(shares):
                return SumProblem(known, weights=beta, whole=self.problem, shares=shares)
        return SumProblem([self.compile_problem(chosen) for chosen in groups.drawn(self.selection)], weights=beta)


def groups_of(bound: BoundPolicy, by: str) -> Groups:
    """The groups of a policy, by "term" or by "component"."""
    terms = len(bound.policy.betas)
    if by == "term":
        relative = tuple(_proportions(beta) for beta in bound.betas)
        members = tuple(
            tuple((f, -1) for f, term in enumerate(bound.family_terms) if term == t) for t in range(terms)
        )
        return Groups(bound, by, bound.policy.term_names, members, relative, np.ones(terms))
    sizes: list[int] = []
    for family in bound.families:
        if family.size is None:
            raise PolicyError(f"The components of {family.name} differ between samples: weights can only be by term.")
        sizes.append(family.size)
    if sum(sizes) > MOST_SEPARATE_WEIGHTS:
        raise PolicyError(
            f"'{bound.policy}' has {sum(sizes)} components; at most {MOST_SEPARATE_WEIGHTS} can have separate weights. "
            "Use by='term'."
        )
    if len(bound.families) != terms:
        raise PolicyError(f"A term of '{bound.policy}' has several families: weights can only be by term.")
    bound.policy.with_betas([[1.0] * size for size in sizes])  # refuses laws that take one weight only
    names = tuple(
        f"{name}[{j}]" if size > 1 else name
        for name, size in zip(bound.policy.term_names, sizes, strict=True)
        for j in range(size)
    )
    single = tuple(((f, j),) for f, size in enumerate(sizes) for j in range(size))
    normaliser = np.concatenate([np.full(size, 1.0 / size) for size in sizes])
    return Groups(bound, by, names, single, (1.0,) * len(sizes), normaliser)


def check_betas(groups: Groups, beta: Sequence[float]) -> FloatArray:
    """Given weights as a normalised vector; refused where they are not one for each group."""
    values = numbers_of(beta, "beta0")
    if values.shape != (groups.count,) or np.any(~np.isfinite(values)) or np.any(values < 0) or not values.any():
        raise PolicyError(
            f"The starting weights must be {groups.count} numbers of at least 0, one for each of "
            f"{', '.join(groups.names)}; got {beta!r:.80}."
        )
    return groups.normalised(values)


def _proportions(beta: float | FloatArray) -> float | FloatArray:
    if not isinstance(beta, np.ndarray) or not beta.any():
        return 1.0
    return np.asarray(beta / beta.mean(), dtype=np.float64)


def _entry(values: float | FloatArray, place: int) -> float:
    return float(values[place]) if isinstance(values, np.ndarray) else float(values)


def _only(part: FamilySelection, component: int, n: int) -> FamilySelection:
    """The same selection without all other components."""
    if part.indices is None or part.indptr is None:
        chosen = np.ones(n, dtype=bool) if part.rows is None else part.rows
        if part.family.size == 1:
            return replace(part, beta=1.0)
    else:
        chosen = np.zeros(n, dtype=bool)
        pointer, samples = part.component_rows(n)
        chosen[samples[pointer[component] : pointer[component + 1]]] = True
    indptr = np.concatenate(([0], np.cumsum(chosen))).astype(np.int64)
    indices = np.full(int(indptr[-1]), component, dtype=np.int64)
    return FamilySelection(part.family, 1.0, indptr=indptr, indices=indices, start=part.start)

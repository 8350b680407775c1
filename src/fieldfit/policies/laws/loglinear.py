"""Hierarchical log-linear laws: any dependence between the components, given by its interaction terms.

``LogLinear(FL + PL1[0:2]; 0: -1; 1: 0.5; 0,1: -inf)``: the components of the terms are the units 0, 1, 2, ... in
order (a /row term is one unit), and

    log P(Z) = Σ_T u_T Π_{j∈T} Z_j − log normaliser,

with u_T = 0 for the sets T that are not listed. −inf makes a structural zero: here FL never comes with the first unit
of PL1. ``none: u`` adds u to the one state in which nothing is selected; ``none: -inf`` forbids it, and with −inf for
all pairs the law is the multinomial. λ and E[ZZᵀ] are exact, by variable elimination over the units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from fieldfit.inference import ExactInference, FactorGraph
from fieldfit.policies.laws.base import BoundLaw, Factors, LawOfTerms, Share, Sizes
from fieldfit.policies.patterns import Patterns, all_subsets, number_of_subsets
from fieldfit.policies.selection import NUMBERS_AT_A_TIME, FamilySelection
from fieldfit.policies.structure import BoundFamily, Structure
from fieldfit.policies.terms import Numbers, Term, bind_weights, read_terms
from fieldfit.policies.text import Reader, format_number
from fieldfit.properties import cached_property
from fieldfit.types import BoolArray, FloatArray, IntArray, PolicyError

_MOST_UNITS = 2_000

Interaction = tuple[tuple[int, ...], float]


@dataclass(frozen=True)
class LogLinear(LawOfTerms):
    """Terms, and interactions (T, u_T) over their units; the empty T is the state in which nothing is selected."""

    terms: tuple[Term, ...]
    interactions: tuple[Interaction, ...]
    examples: ClassVar[tuple[str, ...]] = (
        "LogLinear(FL + PL1[0:2]; 0: -1; 1: 0.5; 0,1: -inf)",
        "LogLinear(PL1@[1,2,3,4,5]; 0,1: 1.5; 1,2: -1; 2,3,4: 2; 4: -0.5)",
        "LogLinear(PL2/row@2 + PL1[0,3]; none: -inf; 0,1: -inf; 0,2: -inf; 1,2: -inf)",
    )

    def __post_init__(self) -> None:
        self._check_terms()
        for term in self.terms:
            if term.lam != 1.0:
                raise PolicyError(
                    f"The λ of {term.name} in LogLinear(...) follow from its interactions: leave them out."
                )
        seen = set()
        for units, value in self.interactions:
            name = ",".join(map(str, units)) or "none"
            if list(units) != sorted(set(units)) or any(unit < 0 for unit in units):
                raise PolicyError(f"An interaction names units in increasing order, each once; got '{name}'.")
            if units in seen:
                raise PolicyError(f"LogLinear(...) has two interactions for '{name}': give one.")
            seen.add(units)
            if not value < math.inf:
                raise PolicyError(f"The interaction '{name}' must be a finite number or -inf; it is {value}.")

    def __str__(self) -> str:
        parts = [" + ".join(map(str, self.terms))]
        for units, value in self.interactions:
            parts.append(f"{','.join(map(str, units)) or 'none'}: {format_number(value)}")
        return "LogLinear(" + "; ".join(parts) + ")"

    @classmethod
    def read(cls, reader: Reader) -> LogLinear:
        """Read ``(TERM + TERM; UNITS: NUMBER; ...)``."""
        reader.expect("(", "after LogLinear")
        terms = read_terms(reader)
        interactions = []
        while reader.accept(";"):
            units: list[int] = []
            if not reader.accept("none"):
                units.append(reader.integer("the number of a unit, or 'none'"))
                while reader.accept(","):
                    units.append(reader.integer("the number of a unit"))
            reader.expect(":", "between the units and the value of their interaction")
            interactions.append((tuple(units), reader.number("the value of an interaction")))
        reader.expect(")", "or ';' and an interaction such as 0,1: -0.5")
        return cls(terms, tuple(interactions))

    @property
    def lams(self) -> tuple[Numbers | None, ...]:
        """The λ follow from the interactions."""
        return (None,) * len(self.terms)

    def with_lams(self, lams: tuple[Numbers | None, ...]) -> LogLinear:
        """The same law; its λ cannot be set."""
        if any(lam is not None for lam in lams):
            raise PolicyError("The λ of LogLinear(...) follow from its interactions; pass None for them.")
        return self

    def with_betas(self, betas: tuple[Numbers, ...]) -> LogLinear:
        """The same law with other β."""
        terms = tuple(replace(t, beta=beta) for t, beta in zip(self.terms, betas, strict=True))
        return replace(self, terms=terms)

    def over(self, structure: Structure) -> LogLinear:
        """The law with the mean numbers of components of its ``Mean(...)`` terms."""
        return replace(self, terms=tuple(term.over(structure) for term in self.terms))

    def bind(self, structure: Structure, stream: int) -> BoundLogLinear:
        """The law over the components of ``structure``."""
        return BoundLogLinear(self, self._bound(structure), stream)


class BoundLogLinear(BoundLaw):
    """A log-linear law over known units. Unit numbers of family f: ``first_unit[f]`` to ``first_unit[f+1]``."""

    def __init__(self, law: LogLinear, families: tuple[BoundFamily, ...], stream: int) -> None:
        self.families = families
        self.family_terms = tuple(range(len(families)))
        self.betas = tuple(bind_weights(t, f) for t, f in zip(law.terms, families, strict=True))
        self.whole = tuple(term.whole for term in law.terms)
        self.interactions = law.interactions
        self.stream = stream
        counts = []
        for family, whole in zip(families, self.whole, strict=True):
            if not whole and family.size is None:
                raise PolicyError(
                    f"The components of {family.name} differ between samples, so they cannot be units of "
                    f"LogLinear(...): write {family.name}/row."
                )
            counts.append(1 if whole or family.size is None else family.size)
        self.first_unit: IntArray = np.concatenate(([0], np.cumsum(counts)))
        self.n_units = int(self.first_unit[-1])
        if self.n_units > _MOST_UNITS:
            raise PolicyError(
                f"LogLinear(...) has {self.n_units} units; its exact moments allow at most {_MOST_UNITS}. "
                "Choose some components, as in PL2[0:100], or draw whole families with /row."
            )
        for units, _ in law.interactions:
            if units and units[-1] >= self.n_units:
                raise PolicyError(
                    f"An interaction of LogLinear(...) names unit {units[-1]}; the units are 0 to {self.n_units - 1}."
                )
        self.graph, self.log_tables = _tables(self.n_units, law.interactions)
        self.inference = ExactInference(self.graph, name="The normaliser of LogLinear(...)")
        if self.inference.log_partition(self.log_tables) == -math.inf:
            raise PolicyError(f"{law} allows no state of Z: its structural zeros forbid all of them.")
        if not np.any(self._unit_means > 0):
            raise PolicyError(f"{law} never selects a component: its structural zeros forbid all of them.")

    @cached_property
    def _unit_means(self) -> FloatArray:
        """P(Z_j = 1) of each unit: the first factors of the graph are those of the single units."""
        return self.inference.marginals(self.log_tables)[1 : 2 * self.n_units : 2]

    @cached_property
    def _unit_moments(self) -> FloatArray:
        """P(Z_i = 1, Z_j = 1): row i from the marginals with the state Z_i = 0 forbidden."""
        moments = np.zeros((self.n_units, self.n_units))
        for unit in np.flatnonzero(self._unit_means > 0):
            tables = self.log_tables.copy()
            tables[2 * unit] = -math.inf
            moments[unit] = self._unit_means[unit] * self.inference.marginals(tables)[1 : 2 * self.n_units : 2]
        return (moments + moments.T) / 2

    def _unit_of_component(self, sizes: Sizes) -> IntArray:
        units = [
            np.full(size, first) if whole else np.arange(first, first + size)
            for size, first, whole in zip(sizes, self.first_unit, self.whole, strict=False)
        ]
        return np.concatenate(units).astype(np.int64)

    def lams(self, sizes: Sizes) -> tuple[float | FloatArray, ...]:
        """The units' marginals."""
        return tuple(
            float(self._unit_means[first]) if whole else self._unit_means[first:last]
            for first, last, whole in zip(self.first_unit, self.first_unit[1:], self.whole, strict=False)
        )

    def shares(self, sizes: Sizes, lam: float = 1.0) -> tuple[Share, ...]:
        """A family that is drawn whole comes together."""
        return tuple(
            Share(share.lam, share.lam, together=True) if whole else share
            for share, whole in zip(super().shares(sizes, lam), self.whole, strict=True)
        )

    def second_moment(self, sizes: Sizes) -> FloatArray:
        """The units' joint probabilities, repeated over the components of whole families."""
        units = self._unit_of_component(sizes)
        return self._unit_moments[np.ix_(units, units)]

    def factors(self, sizes: Sizes) -> Factors:
        """The eigenvectors of the units' second moment."""
        from scipy.sparse import csr_matrix

        d, vectors = np.linalg.eigh(self._unit_moments)
        return Factors(csr_matrix(vectors.T[:, self._unit_of_component(sizes)]), d, 0.0)

    def n_patterns(self, sizes: Sizes) -> float:
        """All subsets of the units."""
        return number_of_subsets(self.n_units)

    def patterns(self, sizes: Sizes) -> Patterns:
        """exp Σ_T u_T Π_{j∈T} Z_j of every subset of the units, divided by their sum."""
        units = all_subsets(self.n_units)
        log_weight = np.zeros(len(units))
        for scope, value in self.interactions:
            concerned = units[:, list(scope)].all(axis=1) if scope else ~units.any(axis=1)
            log_weight[concerned] += value
        weight = np.exp(log_weight - log_weight.max())
        families = pairwise(self.first_unit.tolist())
        selected = tuple(units[:, first:last] for first, last in families)
        return Patterns(weight / weight.sum(), selected, tuple(map(self._at_once, range(len(selected))))).possible()

    def _at_once(self, family: int) -> bool:
        """Whether a sample has all components of a family or none."""
        return self.whole[family] or self.families[family].size == 1

    def draw(self, seed: int, start: int, stop: int, active: BoolArray | None) -> tuple[FamilySelection, ...]:
        """Exact draws of the units, a block of samples at a time."""
        step = max(1, NUMBERS_AT_A_TIME // self.graph.n_variables)
        samples, units = [], []
        for first in range(start, stop, step):
            n = min(step, stop - first)
            states = self.inference.sample(self.log_tables, n, seed, stream=self.stream, first_row=first)
            chosen = states[:, : self.n_units] == 1
            if active is not None:
                chosen &= active[first - start : first - start + n, None]
            sample, unit = np.nonzero(chosen)
            samples.append(sample + (first - start))
            units.append(unit)
        sample = np.concatenate(samples) if samples else np.empty(0, dtype=np.int64)
        unit = np.concatenate(units) if units else np.empty(0, dtype=np.int64)
        parts = []
        for f, (family, beta) in enumerate(zip(self.families, self.betas, strict=True)):
            mine = (unit >= self.first_unit[f]) & (unit < self.first_unit[f + 1])
            if self._at_once(f):
                rows = np.zeros(stop - start, dtype=bool)
                rows[sample[mine]] = True
                parts.append(FamilySelection(family, beta, rows=rows, start=start))
                continue
            counts = np.bincount(sample[mine], minlength=stop - start)
            indptr = np.concatenate(([0], np.cumsum(counts)))
            indices = unit[mine] - self.first_unit[f]
            parts.append(FamilySelection(family, beta, indptr=indptr, indices=indices, start=start))
        return tuple(parts)


def _tables(n_units: int, interactions: tuple[Interaction, ...]) -> tuple[FactorGraph, FloatArray]:
    """The factor graph over the units, those of single units first, and its log tables.

    A weight of the empty state needs to know whether anything is selected: variables n_units + i hold the OR of the
    units up to i, and the last of them carries the weight.
    """
    single = dict.fromkeys(range(n_units), 0.0)
    single.update({units[0]: value for units, value in interactions if len(units) == 1})
    scopes: list[tuple[int, ...]] = [(unit,) for unit in range(n_units)]
    tables = [np.array([0.0, single[unit]]) for unit in range(n_units)]
    n_variables = n_units
    for units, value in interactions:
        if len(units) > 1:
            scopes.append(units)
            tables.append(np.append(np.zeros(2 ** len(units) - 1), value))
        elif not units:
            scopes.append((0, n_units))
            tables.append(np.where(np.eye(2, dtype=bool), 0.0, -math.inf).ravel())
            for unit in range(1, n_units):
                before, here, after = np.indices((2, 2, 2))
                scopes.append((n_units + unit - 1, unit, n_units + unit))
                tables.append(np.where((before | here) == after, 0.0, -math.inf).ravel())
            scopes.append((2 * n_units - 1,))
            tables.append(np.array([value, 0.0]))
            n_variables = 2 * n_units
    return FactorGraph((2,) * n_variables, tuple(scopes)), np.concatenate(tables)

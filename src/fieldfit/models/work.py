"""The operations that our kernels really do for a family of a policy, by kind, as a function of n, λ and the law of Z.

| kind               | one for each                                                     | where                          |
|--------------------|------------------------------------------------------------------|--------------------------------|
| call, field_call   | evaluation                                                       | everywhere, exact sums         |
| dense, edge        | sample × m² (rounded up to whole panels), sample × 2·edges       | local fields of pairwise fields|
| panel              | sample × m                                                       | the same, dense                |
| single             | sample × variable                                                | PL1 drawn whole                |
| flipK              | block of K variables × 2^K states                                | PLK drawn whole                |
| entryK             | drawn block of K variables                                       | blocks drawn one by one        |
| configuration      | distinct configuration of the clamped variables                  | exact sums by elimination      |
| eliminate          | entry of all tables of a configuration, for each factor of it    | exact sums by elimination      |
| table              | entry of the model's tables                                      | exact sums by elimination      |
| seconds            | second, where a family was timed and not counted                 | sequences                      |

Samples that are equal in all variables are seen once by the pairwise kernels, and configurations once by eliminations: both
are expected numbers of distinct values, Σ_p 1 − (1 − q)^c for a value p that c samples have and each uses with
probability q. The full likelihood of a field is one configuration, whatever n. Kinds whose names begin with ``setup``
are paid once for a fit: drawing Z and compiling.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.pairwise import PairwiseProblem
from fieldfit.models.pairwise_layout import distinct_rows
from fieldfit.policies.structure import BoundFamily
from fieldfit.types import FloatArray

#: Kinds that families of one fit share: their work is that of the family with most of it, not the sum.
_SHARED = ("call", "field_call", "panel", "dense", "edge", "table", "setup_call", "setup_pack")
Work = dict[str, float]


def _whole(count: int, unit: int) -> int:
    return -(-count // unit) * unit


class FamilyWork(Protocol):
    """The work of one family in a fit on all samples."""

    def work(self, lam: float, law: str) -> Work:
        """Operations by kind when each component is drawn with probability λ: law "single", "whole" or "partition"."""


def combine(parts: Sequence[Mapping[str, float]]) -> Work:
    """The work of families that are fitted together."""
    total: Work = {}
    for part in parts:
        for kind, amount in part.items():
            total[kind] = max(total.get(kind, 0.0), amount) if kind in _SHARED else total.get(kind, 0.0) + amount
    return total


@dataclass(frozen=True)
class PairwiseWork:
    """Blocks of k variables through the pairwise kernels. ``repeats`` (distinct samples,) or None where not merged."""

    n: int
    m: int
    n_edges: int
    dense: bool
    k: int
    components: int
    repeats: FloatArray | None

    @classmethod
    def of(cls, problem: PairwiseProblem, family: BoundFamily, codes: Any) -> PairwiseWork:
        """The work of a family of blocks of one size, on all samples ``codes`` (n, m)."""
        distinct, inverse = distinct_rows(codes.astype(np.uint8))
        repeats = None if inverse is None else np.bincount(inverse, minlength=len(distinct)).astype(float)
        size, k = int(family.size or 1), int(getattr(family, "block_size", 1))
        return cls(len(codes), codes.shape[1], len(problem.edges), problem.dense, k, size, repeats)

    def work(self, lam: float, law: str) -> Work:
        """Rows for the local fields, blocks for the states."""
        drawn = lam if law == "whole" else 1.0 if law == "partition" else 1 - (1 - lam) ** self.components
        rows = self._distinct(drawn)
        result: Work = {"call": 1.0, "setup_call": 1.0, "setup_pack": float(self.n * self.m)}
        if self.dense:
            # The kernel's matrix has whole panels of columns and whole words of rows.
            result["panel"] = rows * _whole(self.m, 16)
            result["dense"] = rows * _whole(self.m, 16) * _whole(self.m, 32)
        else:
            result["edge"] = rows * 2.0 * self.n_edges
        result["setup_block"] = float(self.components) if self.k > 1 else 0.0
        if law == "whole" or lam >= 1.0:
            if self.k == 1:
                result["single"] = rows * self.m
            else:
                result[f"flip{min(self.k, 4)}"] = rows * self.components * 2.0**self.k
            return result
        entries = self._distinct(lam) * self.components
        result[f"entry{min(self.k, 4)}"] = entries * 2.0 ** max(self.k - 4, 0)
        result["setup_entry"] = self.n * lam * self.components
        return result

    def _distinct(self, probability: float) -> float:
        """Distinct samples that are selected."""
        if self.repeats is None:
            return self.n * probability
        return float(np.sum(1 - (1 - probability) ** self.repeats))


@dataclass(frozen=True)
class EliminationWork:
    """Any components by exact sums. ``share`` of the samples use a configuration that costs ``cost`` table entries."""

    n: int
    components: int
    table: int
    factors: float  # mean number of factors that a component touches
    share: FloatArray = field(repr=False)
    cost: FloatArray = field(repr=False)

    @classmethod
    def of(cls, problem: FieldProblem, family: BoundFamily, n: int) -> EliminationWork:
        """From the family compiled with everything selected on a part of the samples."""
        share, cost = problem.configuration_use()
        factors = problem.fixed_entries / max(1, problem.n_samples * int(family.size or 1))
        table = problem.arrays.graph.table_size
        return cls(n, int(family.size or 1), table, factors, share, cost)

    def work(self, lam: float, law: str) -> Work:
        """Distinct configurations among the selected samples."""
        with np.errstate(divide="ignore"):
            used = -np.expm1(self.n * lam * np.log1p(-np.minimum(self.share, 1.0)))
        pairs = self.n * lam * self.components
        return {
            "call": 1.0,
            "field_call": 1.0,
            "table": float(self.table),
            "configuration": float(used.sum()),
            "eliminate": float(used @ self.cost),
            "setup_call": 1.0,
            "setup_component": float(self.components),
            "setup_pair": pairs * (1.0 + self.factors),
            "setup_configuration": float(used.sum()),
        }


@dataclass(frozen=True)
class TimedWork:
    """Families whose operations are not counted: seconds for each sample, timed on a part of them."""

    n: int
    seconds: float
    setup_seconds: float

    @classmethod
    def of(cls, problem: Problem, theta: FloatArray, setup: float, n: int) -> TimedWork:
        """Time a few evaluations; ``setup`` are the seconds that drawing and compiling took for these samples."""
        times = []
        for _ in range(5):
            began = time.perf_counter()
            problem.value_grad(theta)
            times.append(time.perf_counter() - began)
        rows = max(problem.n_samples, 1)
        return cls(n, min(times) / rows, setup / rows)

    def work(self, lam: float, law: str) -> Work:
        """Proportional to what is selected."""
        return {
            "call": 1.0,
            "seconds": self.n * lam * self.seconds,
            "setup_call": 1.0,
            "setup_seconds": self.n * (0.1 + 0.9 * lam) * self.setup_seconds,
        }


def family_work(
    problem: Problem, family: BoundFamily, codes: Any, n: int, theta: FloatArray, setup_seconds: float
) -> FamilyWork:
    """The work of a family on all n samples, from the problem compiled with everything selected on some of them.

    ``codes`` (n, m) are the samples of a field, None for sequences.
    """
    if isinstance(problem, PairwiseProblem) and codes is not None:
        return PairwiseWork.of(problem, family, codes)
    if isinstance(problem, FieldProblem):
        return EliminationWork.of(problem, family, n)
    return TimedWork.of(problem, theta, setup_seconds, n)

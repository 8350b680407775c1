"""Which samples the statistics of J come from: all of them, or a random part that tells β as well as needed.

J is a sum over r parameters, and so is its slope along β, whose variance is about c₁ r/k from k samples while its
curvature is about c₂ r. The loss (slope)²/(2 curvature) that the noise of k samples brings is then of the order 1/k for
each free weight, in all of J and whatever r is: from 2,000 samples about 10⁻³/r of a variance. Where log-determinants are
taken the covariance matrix of the scores must be well determined too, which takes samples in proportion to r.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import BoundFamily
from fieldfit.types import IntArray
from fieldfit.weights.groups import DrawnPolicy, Groups

#: Samples of each group: at least, for each weight, and for each parameter where log-determinants are taken.
ENOUGH, FOR_EACH_WEIGHT, FOR_EACH_PARAMETER = 2_000, 200, 10

#: The policy bound to some of the samples, and the function that compiles a selection of them.
Part: TypeAlias = tuple[BoundPolicy, Callable[[Selection], Problem]]


@dataclass(frozen=True)
class Sample:
    """The samples that statistics come from. ``rows`` (k,) are their numbers, in increasing order; None is all."""

    drawn: DrawnPolicy
    rows: IntArray | None

    @property
    def size(self) -> int:
        """How many there are."""
        return self.drawn.selection.n


def take_sample(drawn: DrawnPolicy, part: Callable[[IntArray], Part] | None, r: int) -> Sample:
    """A part of the samples where that is enough and at most half of them, else all.

    ``part`` gives a part of the samples (None: there is none to be had), ``r`` is the number of parameters of
    log-determinants, 0 where none are taken. Equal samples cost nothing, so that all are taken where few are distinct.
    """
    n = drawn.selection.n
    size = samples_needed(drawn.groups, drawn.selection, r)
    if part is None or 2 * size > n:
        return Sample(drawn, None)
    equal = drawn.problem.equal_samples
    if equal is not None and len(equal[0]) <= size:
        return Sample(drawn, None)
    # The same rows whatever the threads, the seed of Z and the policy.
    rows = np.sort(np.random.default_rng(3).choice(n, size, replace=False))
    bound, compile_problem = part(rows)
    selection = restricted(drawn.selection, rows, bound.families)
    some = DrawnPolicy.of(bound, drawn.groups.by, selection, compile_problem(selection), compile_problem)
    return Sample(some, rows)


def samples_needed(groups: Groups, selection: Selection, r: int) -> int:
    """So many that of each group enough are selected."""
    enough = max(ENOUGH, FOR_EACH_WEIGHT * groups.count, FOR_EACH_PARAMETER * r)
    shares = []
    for chosen in groups.drawn(selection):
        rows = np.zeros(selection.n, dtype=bool)
        for part in chosen.parts:
            rows |= part.any_row(selection.n)
        shares.append(float(rows.mean()))
    return int(np.ceil(enough / min([share for share in shares if share > 0], default=1.0)))


def restricted(selection: Selection, rows: IntArray, families: tuple[BoundFamily, ...]) -> Selection:
    """The same Z of the samples ``rows`` only; ``families`` are the policy's, bound to those samples."""
    parts = []
    for part, family in zip(selection.parts, families, strict=True):
        mask = None if part.rows is None else part.rows[rows]
        if part.indptr is None or part.indices is None:
            parts.append(FamilySelection(family, part.beta, rows=mask))
            continue
        counts = np.diff(part.indptr)[rows]
        pointer = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        taken = np.repeat(part.indptr[:-1][rows] - pointer[:-1], counts) + np.arange(pointer[-1])
        parts.append(FamilySelection(family, part.beta, indptr=pointer, indices=part.indices[taken]))
    return Selection(len(rows), tuple(parts))

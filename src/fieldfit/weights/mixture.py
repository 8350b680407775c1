"""A policy's problem with any weights β of its groups, for one drawn Z.

A term's weight is that of its families, so the compiled problem takes other weights as it is. Components with weights
of their own are laid out by the compiler, and are compiled again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fieldfit.models.base import Problem
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.types import FloatArray
from fieldfit.weights.groups import Groups, groups_of
from fieldfit.weights.reweighted import Reweighted


@dataclass(frozen=True)
class Mixture:
    """``problem`` is ``selection`` compiled, with whatever weights; ``compile_problem`` compiles others."""

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
    ) -> Mixture:
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

    def judged(self, beta: FloatArray, formula: str) -> Reweighted:
        """A problem whose families are the groups, with Z as drawn or, for the published formula, its mean."""
        groups = self.groups
        if formula == "published":
            return Reweighted([self.compile_problem(own) for own in groups.expected(self.selection)], beta)
        shares = groups.family_shares
        if shares is not None:
            parts = [self.problem.with_betas(row) for row in np.atleast_2d(shares)]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                return Reweighted(known, beta, self.problem, shares)
        return Reweighted([self.compile_problem(own) for own in groups.drawn(self.selection)], beta)

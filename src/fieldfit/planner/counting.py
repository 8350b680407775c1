"""Counted work of a family and of a whole policy, from a problem compiled with everything selected."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldfit.data.samples import Table
from fieldfit.models.base import Model, Problem
from fieldfit.models.elimination_work import EliminationWork
from fieldfit.models.field import FieldModel
from fieldfit.models.field_problem import FieldProblem
from fieldfit.models.pairwise import PairwiseProblem
from fieldfit.models.pairwise_work import PairwiseWork
from fieldfit.models.work import FamilyWork, Line, TimedWork, Work, clock, combine, typical_seconds
from fieldfit.policies import Policy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import BoundFamily
from fieldfit.types import FloatArray

#: λ at which a family of sequences is timed beside λ = 1, most sequences that are timed, and how many fewer beside them.
_PART, _TIMED, _FEWER = 0.3, 1500, 4


def family_work(model: Model, problem: Problem, family: BoundFamily, dataset: Any, theta: FloatArray) -> FamilyWork:
    """The work of a family on all of ``dataset``, from ``problem``: the family compiled whole on some of it.

    Families of fields are counted, those of sequences timed.
    """
    if isinstance(problem, PairwiseProblem):
        return PairwiseWork.of(problem, family, dataset.codes)
    if isinstance(problem, FieldProblem):
        return EliminationWork.of(problem, family, dataset.n)
    return timed_work(model, dataset, family.name, theta)


def timed_work(model: Model, dataset: Any, name: str, theta: FloatArray) -> TimedWork:
    """A family of sequences timed on most of a small dataset, on a quarter of that, and with a part of its windows."""
    n = len(dataset)
    order = np.random.default_rng(0).permutation(n)[:_TIMED]
    rows = dataset if n <= _TIMED else dataset.subset(np.sort(order))
    fewer = dataset.subset(np.sort(order[: max(1, len(order) // _FEWER)]))
    setups, seconds = [], []
    for some, text in ((rows, name), (fewer, name), (rows, f"{_PART}*{name}")):
        # A family of sequences knows their lengths: it is bound to each part anew.
        bound = Policy.parse(text).bind(model.structure(some))
        began = clock()
        problem = model.compile(some, bound.draw(0, 0, len(some)))
        setups.append(clock() - began)
        seconds.append(typical_seconds(problem, theta))
    evaluation = Line.through(len(rows), seconds[0], len(fewer), seconds[1])
    setup = Line(0.0, setups[0] / len(rows))
    base = (seconds[2] / seconds[0] - _PART) / (1 - _PART)
    return TimedWork(n, evaluation, setup, min(max(base, 0.0), 1.0))


def law_of(text: str) -> str:
    """How a term draws: "partition", "whole" samples or "single" components."""
    return "partition" if text.startswith("Partition") else "whole" if "/" in text else "single"


def policy_work(
    model: FieldModel, table: Table, text: str, theta: FloatArray, problem: Problem | None = None
) -> Work:
    """The work of a fit of one term ``[λ*]NAME`` to a table; ``problem`` is the term compiled, where it is at hand."""
    bound = Policy.parse(text).bind(model.structure(table))
    parts = []
    for family, lam in zip(bound.families, bound.lams(), strict=True):
        own = problem
        if own is None or not bound.everything or len(bound.families) > 1:
            own = model.compile(table, Selection(table.n, (FamilySelection(family, 1.0),)))
        parts.append(family_work(model, own, family, table, theta).work(float(np.mean(lam)), law_of(text)))
    return combine(parts)

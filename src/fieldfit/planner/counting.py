"""Counted work of a family and of a whole policy, from a problem compiled with everything selected."""

from __future__ import annotations

import math
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

#: λ at which a family of sequences is timed beside λ = 1; most and fewest sequences timed, and how many fewer beside them.
_PART, _TIMED, _LEAST, _FEWER = 0.3, 1500, 600, 3
#: λ at which drawing and compiling is timed besides.
_MORE = 0.7
#: About how many evaluations of all sequences that are timed the timing takes, where it is hurried; and how often one is
#: timed then.
TIMED_PASSES, _HURRIED = 7, 2


def family_work(
    model: Model, problem: Problem, family: BoundFamily, dataset: Any, theta: FloatArray, most_rows: int | None = None
) -> FamilyWork:
    """The work of a family on all of ``dataset``, from ``problem``: the family compiled whole on some of it.

    Families of fields are counted, those of sequences timed, on at most ``most_rows`` of them.
    """
    if isinstance(problem, PairwiseProblem):
        return PairwiseWork.of(problem, family, dataset.codes)
    if isinstance(problem, FieldProblem):
        return EliminationWork.of(problem, family, dataset.n)
    return timed_work(model, dataset, family.name, theta, most_rows)


def timed_work(model: Model, dataset: Any, name: str, theta: FloatArray, most_rows: int | None = None) -> TimedWork:
    """A family of sequences timed on most of a small dataset, on a third of that, and with a part of its windows."""
    n = len(dataset)
    most = min(_TIMED, max(_LEAST, _TIMED if most_rows is None else most_rows))
    order = np.random.default_rng(0).permutation(n)[:most]
    rows = dataset if n <= most else dataset.subset(np.sort(order))
    fewer = dataset.subset(np.sort(order[: max(1, len(order) // _FEWER)]))
    few, whole, part, more = (
        _Timed(model, *own)
        for own in ((fewer, name), (rows, name), (rows, f"{_PART}*{name}"), (rows, f"{_MORE}*{name}"))
    )
    for own in (few, whole, part, more):
        own.set_up()
    repeats = 7 if most_rows is None else _HURRIED
    seconds = [typical_seconds(own.problem, theta, repeats) for own in (whole, few, part)]
    for own in (whole, few, part, more):
        own.set_up()
    evaluation = Line.through(len(rows), seconds[0], len(fewer), seconds[1])
    setup = Line.through(len(rows), whole.least, len(fewer), few.least)
    base = (seconds[2] / seconds[0] - _PART) / (1 - _PART)
    # With a random Z drawing comes on top, in proportion to what is drawn.
    slope = max(more.least - part.least, 0.0) / (_MORE - _PART)
    drawing = Line(max(part.least - _PART * slope, 0.0) / len(rows), slope / len(rows))
    return TimedWork(n, evaluation, setup, min(max(base, 0.0), 1.0), drawing)


class _Timed:
    """A policy on some sequences; ``least`` are the fewest seconds that drawing and compiling took."""

    problem: Problem

    def __init__(self, model: Model, rows: Any, text: str) -> None:
        # A family of sequences knows their lengths: it is bound to each part anew.
        self._model, self._rows, self._text = model, rows, text
        self.least = math.inf

    def set_up(self) -> None:
        """Draw and compile, timed."""
        bound = Policy.parse(self._text).bind(self._model.structure(self._rows))
        began = clock()
        self.problem = self._model.compile(self._rows, bound.draw(0, 0, len(self._rows)))
        self.least = min(self.least, clock() - began)


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

"""What a policy can be made of: laws with one free λ, or with none, each compiled and fitted once.

An ingredient with λ and β becomes a group of a policy. Compiled in the mean over Z on the pilot's samples it answers all
that the variance needs of it; fitted, and its work counted or timed, it says what a fit costs. The law says the rest:
whether λ is free, what noise its selection adds, how it draws its families, and how it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.models.base import Model, Problem
from fieldfit.models.work import FamilyWork, clock, least_seconds
from fieldfit.planner.convergence import Steps, steps_of, usual_steps
from fieldfit.planner.costs import TIMED_PASSES, family_work
from fieldfit.planner.pilot import PILOT_POLICY, Pilot
from fieldfit.planner.request import Allowance, Request
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import Structure
from fieldfit.steps import stepped
from fieldfit.types import DataError, FieldfitError, FloatArray, PolicyError, WidthError
from fieldfit.variance.expected_problem import expected_problem

#: Evaluations of a trial fit: fewest, and as many as a fit of a field is expected to take at least.
_FEWEST_STEPS, _USUAL_STEPS = 6, 40
#: Share of the remaining time for the timing of a family of sequences, and for the trial fit of a family.
_TIMING_SHARE, _FIT_SHARE = 0.2, 0.07
#: Seconds that compiling one sum over all states of a complete graph takes, for each state: about a second for 2^19.
_COMPILING = 2e-6


@dataclass(frozen=True)
class FitWork:
    """The work of the families of one ingredient in a fit, and the evaluations of that fit."""

    families: tuple[FamilyWork, ...]
    steps: Steps


@dataclass(frozen=True)
class Ingredient:
    """``law`` has λ = β = 1 where these are free; ``flops`` are those of a sample at λ = 1.

    ``bound`` and ``parts`` (the law in the mean over Z, as a weighted sum of problems) are on the samples that moments are
    taken over, and ``compile_problem`` compiles other selections of them. ``together`` is the work of a fit in which all
    is selected, where it differs: samples with counts are not copied then.
    """

    law: Law
    structure: Structure
    bound: BoundPolicy
    parts: tuple[tuple[float, Problem], ...]
    compile_problem: Callable[[Selection], Problem]
    flops: float
    selected: FitWork
    together: FitWork | None = None

    @property
    def name(self) -> str:
        """The law's text, without λ and β."""
        return str(self.law)

    @property
    def noise(self) -> Noise:
        """What selection adds to the variance."""
        return self.law.noise

    @property
    def scale(self) -> float:
        """The weight of each component: 1, or less where the law averages over them."""
        return self.bound.scales[0]

    @property
    def free(self) -> bool:
        """Whether λ can be chosen."""
        return self.law.noise is not Noise.FIXED

    @cached_property
    def certain(self) -> bool:
        """Whether Z is 1 with certainty at λ = 1."""
        return self.bound.everything

    def fit_work(self, everything: bool) -> FitWork:
        """Of a fit in which all or something is selected."""
        return self.together if everything and self.together is not None else self.selected

    def with_steps(self, steps: Steps) -> Ingredient:
        """The same with other evaluations of a fit."""
        together = None if self.together is None else replace(self.together, steps=steps)
        return replace(self, selected=replace(self.selected, steps=steps), together=together)

    def drawn(self, seed: int) -> Problem:
        """The law with a drawn Z; of a free λ with λ = 1/2."""
        bound = Policy((self.law.at(0.5, 1.0),)).bind(self.structure) if self.free else self.bound
        return self.compile_problem(bound.draw(seed, 0, self.parts[0][1].n_samples))


def mixture_text(ingredients: Sequence[Ingredient], lam: FloatArray, beta: FloatArray) -> str:
    """The policy with these λ and β; empty where nothing is selected."""
    laws = [
        part.law.at(float(share), float(weight))
        for part, share, weight in zip(ingredients, lam, beta, strict=True)
        if share > 0 and weight > 0
    ]
    return " + ".join(map(str, laws))


class Term(NamedTuple):
    """A group of a policy: its law with λ = β = 1 where these are free, and their values."""

    law: Law
    lam: float
    beta: float


def split_policy(policy: Policy) -> tuple[Term, ...]:
    """The terms of a policy, each of them different."""
    terms = tuple(Term(*law.unit()) for law in policy.laws)
    if len({term.law for term in terms}) < len(terms):
        raise FieldfitError(f"'{policy}' has a family twice; write it once.")
    return terms


def placed(terms: Sequence[Term], ingredients: Sequence[Ingredient]) -> tuple[FloatArray, FloatArray]:
    """λ and β (ingredients,) of the terms of a policy."""
    place = {part.law: k for k, part in enumerate(ingredients)}
    lam, beta = np.zeros((2, len(ingredients)))
    for term in terms:
        lam[place[term.law]], beta[place[term.law]] = term.lam, term.beta
    return lam, beta


def candidate_laws(model: Model, structure: Structure) -> list[Law]:
    """The laws that are compared by default, the most useful first: what comes late is skipped where time is short."""
    return [Policy.parse(text).laws[0] for text in model.candidate_policies(structure)]


@dataclass(frozen=True)
class Skipped:
    """Why a law is not compared; ``for_time``: there was no time (or no FLOPs) left for it."""

    reason: str
    for_time: bool = False


@dataclass(frozen=True)
class _Compiled:
    """What laws with the same mean over Z share: "PL1" and "PL1/row" are one problem."""

    parts: tuple[tuple[float, Problem], ...]
    steps: Steps
    together: Steps | None
    works: tuple[FamilyWork, ...]
    works_together: tuple[FamilyWork, ...] | None


@dataclass(frozen=True)
class Passes:
    """How moments are taken: over ``states`` where they are sums over all of them, ``dense`` or in a few directions."""

    parameters: int
    states: float | None
    dense: bool
    directions: float  # evaluations that moments in a few directions take

    def of(self, rows: int, problem: Problem | None = None) -> float:
        """Evaluations on ``rows`` samples that take as long as the moments of one family.

        Without a problem the Hessian takes a product for each parameter, as the paper's FLOPs count.
        """
        hessian = self.parameters + 3.0 if problem is None else problem.hessian_evaluations
        if self.states is not None:
            return (hessian + (0.0 if problem is None else 3.0)) * self.states / rows
        return hessian + 2.0 if self.dense else self.directions


@dataclass
class Builder:
    """Makes ingredients on the samples ``rows`` that moments are taken over, within a time and a number of FLOPs.

    Laws whose moments and fit would not be done within the ``allowance``, or whose moments take
    more than the ``flops`` that are left, are skipped, but never the first.
    """

    request: Request
    rows: Dataset
    pilot: Pilot
    passes: Passes
    allowance: Allowance
    flops: float = math.inf
    skipped: dict[str, Skipped] = field(default_factory=dict)
    reserved: float = 0.0  # seconds of moments to come
    _compiled: dict[Hashable, _Compiled | Skipped] = field(default_factory=dict)
    _families: dict[str, Problem] = field(default_factory=dict)
    _copies: Dataset | None = None

    def build(self, laws: Sequence[Law]) -> list[Ingredient]:
        """The ingredients that can be made, in order; ``skipped`` says why the others cannot."""
        made = []
        for law in stepped("plan: cost of each family", laws):
            ingredient = self._ingredient(law)
            if isinstance(ingredient, Skipped):
                self.skipped[str(law)] = ingredient
            else:
                made.append(ingredient)
        return made

    @property
    def _hurried(self) -> bool:
        """The budget is in seconds."""
        return self.request.target.seconds is not None

    @property
    def _named(self) -> bool:
        """The policies were named by the user: nothing is skipped for time."""
        return self.request.policies is not None

    def _ingredient(self, law: Law) -> Ingredient | Skipped:
        model = self.request.model
        structure = model.structure(self.rows)
        try:
            bound = Policy((law,)).bind(structure)
            key = _mean_key(law, bound)
            if key not in self._compiled:
                self._compiled[key] = self._compile(law, bound, _is_pilot(key, structure))
        except (WidthError, PolicyError, MemoryError, DataError) as error:
            return Skipped(str(error))
        compiled = self._compiled[key]
        if isinstance(compiled, Skipped):
            return compiled
        together = None
        if compiled.works_together is not None and compiled.together is not None:
            together = FitWork(compiled.works_together, compiled.together)
        return Ingredient(
            law=law,
            structure=structure,
            bound=bound,
            parts=compiled.parts,
            compile_problem=partial(model.compile, self.rows),
            flops=model.sample_flops(bound, self.rows),
            selected=FitWork(compiled.works, compiled.steps),
            together=together,
        )

    def _left(self) -> float:
        """Seconds that are left and not reserved."""
        return self.allowance.left() - self.reserved

    def _compile(self, law: Law, bound: BoundPolicy, is_pilot: bool) -> _Compiled | Skipped:
        """Compile and fit a law, if there is time for it."""
        request, pilot, count = self.request, self.pilot, self.rows.n
        optional = bool(self._compiled) and not self._named
        known = self.passes.dense and all(family.name in self._families for family in bound.families)
        if optional and self._left() <= 0 and not known:
            return Skipped(f"{law}: skipped, no time left in the pilot's share of the budget.", for_time=True)
        flops = self.passes.of(count) * count * request.model.sample_flops(bound, self.rows)
        if optional and flops > self.flops:
            return Skipped(
                f"{law}: skipped, estimating its variance alone would take about {flops:.2g} FLOPs, more than is left of "
                "the pilot's share of the budget.",
                for_time=True,
            )
        compiling = _COMPILING * request.model.states_at_once(bound)
        if optional and compiling > self._left():
            return Skipped(f"{law}: skipped, compiling it alone would take about {compiling:.2g} s.", for_time=True)
        began = clock()
        problem = expected_problem(bound, count, partial(request.model.compile, self.rows))
        parts, shared = self._parts(bound, problem)
        evaluation = least_seconds(problem, pilot.theta)
        moments = 0.0 if shared else self.passes.of(count, problem) * evaluation
        each = evaluation * pilot.fewer.n / count
        needed = clock() - began + moments
        left = self._left()
        if optional and needed > left and not known:
            return Skipped(
                f"{law}: skipped, estimating its variance alone would take about {needed:.2g} s.", for_time=True
            )
        self.reserved += moments
        self.flops -= flops
        limit = math.inf
        if self._hurried:
            usual = 2 * max(_USUAL_STEPS, pilot.steps.count) * each
            allowed = min(usual, _FIT_SHARE * (left - moments))
            if allowed < _FEWEST_STEPS * each and not is_pilot:
                steps = usual_steps(request.model.n_parameters).times(pilot.scaling)
                together = steps if request.dataset.has_counts else None
                return _Compiled(parts, steps, together, *self._count(bound, problem))
            limit = clock() + allowed
        steps_of_fits = self._steps(law, problem, limit, is_pilot)
        return _Compiled(parts, *steps_of_fits, *self._count(bound, problem))

    def _parts(self, bound: BoundPolicy, problem: Problem) -> tuple[tuple[tuple[float, Problem], ...], bool]:
        """The law in the mean over Z as a sum of families that laws share, and whether all of them are known already.

        A partition has the moments of its blocks' family, weighted. Where λ or β differ between components or samples,
        ``problem`` is the only part.
        """
        if any(family.size is None for family in bound.families) or not self.passes.dense:
            return ((1.0, problem),), False
        if any(np.ndim(number) > 0 for number in (*bound.lams(), *bound.betas)):
            return ((1.0, problem),), False
        names = [family.name for family in bound.families]
        weights = [float(lam) * float(beta) for lam, beta in zip(bound.lams(), bound.betas, strict=True)]
        shared = all(name in self._families for name in names)
        if len(names) == 1 and weights == [1.0]:
            self._families.setdefault(names[0], problem)
        for family in bound.families:
            if family.name not in self._families:
                selection = Selection(self.rows.n, (FamilySelection(family, 1.0),))
                self._families[family.name] = self.request.model.compile(self.rows, selection)
        return tuple((weight, self._families[name]) for name, weight in zip(names, weights, strict=True)), shared

    def _steps(self, law: Law, problem: Problem, limit: float, is_pilot: bool) -> tuple[Steps, Steps | None]:
        """Evaluations of a fit with a random Z, and of one with everything selected where samples have counts."""
        request, rows, pilot = self.request, self.rows, self.pilot
        counts = request.dataset.has_counts
        if pilot.fewer is not pilot.rows:
            if is_pilot:
                steps = pilot.steps.times(pilot.scaling)
                return steps, steps if counts else None
            rows = pilot.fewer
            bound = Policy((law,)).bind(request.model.structure(rows))
            problem = expected_problem(bound, rows.n, partial(request.model.compile, rows))
        weights = [rows.sample_weight]
        if counts:
            weights.append(np.ones(rows.n))
        fits = []
        for weight in weights:
            steps = steps_of(
                problem,
                rows.total_weight,
                request.precision,
                row_weight=weight,
                units=request.model.feature_units,
                tol=request.tol,
                deadline=limit,
            )
            # A fit that was stopped early says less than PL1 does, which no family of sequences undercuts by much.
            if not steps.converged and rows is pilot.fewer:
                least, most = pilot.steps.count, 3 * pilot.steps.count
                steps = steps.times(min(max(steps.count, least), most) / max(steps.count, 1))
            fits.append(steps.times(pilot.scaling))
        return fits[0], fits[1] if len(fits) > 1 else None

    def _count(
        self, bound: BoundPolicy, problem: Problem
    ) -> tuple[tuple[FamilyWork, ...], tuple[FamilyWork, ...] | None]:
        """The work on all samples with a random Z, and with everything selected where samples have counts."""
        dataset = self.request.dataset
        if not dataset.has_counts:
            return self._works_on(dataset, bound, problem), None
        if self._copies is None:
            self._copies = dataset.copies()
        return self._works_on(self._copies, bound, problem), self._works_on(dataset, bound, problem)

    def _works_on(self, dataset: Dataset, bound: BoundPolicy, problem: Problem) -> tuple[FamilyWork, ...]:
        model, count, theta = self.request.model, self.rows.n, self.pilot.theta
        works = []
        for family in bound.families:
            alone, rows = problem, None
            if len(bound.families) > 1:
                alone = self._families.get(family.name) or model.compile(
                    self.rows, Selection(count, (FamilySelection(family, 1.0),))
                )
            if self._hurried and alone.family_work(family, dataset) is None:
                each = least_seconds(alone, theta, repeats=1) / count
                rows = int(_TIMING_SHARE * max(self._left(), 0.0) / (TIMED_PASSES * max(each, 1e-9)))
            works.append(family_work(model, alone, family, dataset, theta, rows))
        return tuple(works)


def _mean_key(law: Law, bound: BoundPolicy) -> Hashable:
    """The same for laws that are the same in the mean over Z: families with their λβ."""
    if any(family.size is None for family in bound.families) and law.noise is Noise.FIXED:
        return law  # λ may differ between samples
    lams = bound.lams(0 if any(family.size is None for family in bound.families) else None)
    weights = (np.asarray(lam * beta).tobytes() for lam, beta in zip(lams, bound.betas, strict=True))
    return tuple(zip((family.name for family in bound.families), weights, strict=True))


def _is_pilot(key: Hashable, structure: Structure) -> bool:
    """Whether a law is the pilot's plain PL1 in the mean over Z."""
    law = PILOT_POLICY.laws[0]
    return key == _mean_key(law, PILOT_POLICY.bind(structure))

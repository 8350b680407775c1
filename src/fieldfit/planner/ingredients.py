"""What a policy can be made of: laws with one free λ, or with none, each compiled and fitted once.

An ingredient with λ and β becomes a group of a policy. Compiled in the mean over Z on the pilot's samples it answers all
that the variance needs of it; fitted, and its work counted or timed, it says what a fit costs. The law says the rest:
whether λ is free, what noise its selection adds, how it draws its families, and how it is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from fieldfit.asymptotics.moments import expected_problem
from fieldfit.asymptotics.sampled_moments import SampledTerm
from fieldfit.data.dataset import Dataset
from fieldfit.models.problem import Problem
from fieldfit.models.sum_problem import SumProblem
from fieldfit.models.work import FamilyWork, TimedSum, clock, least_seconds
from fieldfit.planner.convergence import SHORT, Steps, penalised, steps_of, usual_steps
from fieldfit.planner.costs import TIMED_PASSES, timed_work
from fieldfit.planner.pilot import PILOT_POLICY, Pilot, mostly_complete
from fieldfit.planner.request import Request
from fieldfit.policies import Policy
from fieldfit.policies.laws.base import Law, Noise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import FamilySelection, Selection
from fieldfit.policies.structure import Structure
from fieldfit.properties import cached_property
from fieldfit.refinement.planned import SkippedError
from fieldfit.refinement.staged import Staged
from fieldfit.steps import expect
from fieldfit.threads import use_threads
from fieldfit.types import DataError, FieldfitError, FloatArray, PolicyError, WidthError

#: Evaluations of a trial fit: fewest, and as many as a fit of a field is expected to take at least.
_FEWEST_TRIAL_STEPS, _USUAL_TRIAL_STEPS = 6, 40
#: Share of the remaining time for the timing of a family of sequences, and for the trial fit of a family.
_TIMING_SHARE, _FIT_SHARE = 0.2, 0.07
#: Seconds of an evaluation from which that of a single sum over all states is taken as it was timed.
_LONG_EVALUATION_SECONDS = 0.005
#: Evaluations that take as long as the noise of a law whose mean over Z is known: draws, compiled, and their scores.
_NOISE_PASSES = 8.0
#: Multiply–adds for each ingredient in units of r³, for products of dense moments and for inverses in the search; and
#: multiply–adds per second.
_MULTIPLY_ADDS, _MULTIPLY_ADDS_PER_SECOND = 33.0, 5e9
#: Seconds that compiling one sum over all states of a complete graph takes, for each state: about a second for 2^19.
_COMPILING_SECONDS_PER_STATE = 2e-6
#: CPU seconds of a plan after its moments: timed fits, the search, words.
AFTER_MOMENTS = 0.5


class KnownFamily(NamedTuple):
    """A family with everything selected: compiled, the seconds of an evaluation, and the steps of its fit."""

    problem: Problem
    evaluation: float
    steps: Steps


@dataclass(frozen=True)
class Ingredient:
    """``law`` has λ = β = 1 where these are free; ``flops`` are those of a sample at λ = 1.

    ``bound`` and ``problem`` (the law in the mean over Z; laws with the same mean share it) are on the samples that
    moments are taken over, and ``compile_problem`` compiles other selections of them. ``together`` is the work of its
    families in a fit in which all is selected; it differs from ``selected`` where samples have counts, which are not
    copied then.
    """

    law: Law
    structure: Structure
    bound: BoundPolicy
    problem: Problem
    compile_problem: Callable[[Selection], Problem]
    flops: float
    selected: tuple[FamilyWork, ...]
    together: tuple[FamilyWork, ...]
    steps: Steps

    @property
    def name(self) -> str:
        """The law's text, without λ and β."""
        return str(self.law)

    @property
    def noise(self) -> Noise:
        """What selection adds to the variance."""
        return self.law.noise

    @property
    def sampled(self) -> SampledTerm:
        """The law as a term whose moments are taken over samples."""
        return SampledTerm(self.name, self.noise, self.problem, self.drawn, self.bound.scales[0])

    @property
    def free(self) -> bool:
        """Whether λ can be chosen."""
        return self.law.noise is not Noise.FIXED

    @cached_property
    def certain(self) -> bool:
        """Whether Z is 1 with certainty at λ = 1."""
        return self.bound.everything

    def drawn(self, seed: int) -> Problem:
        """The law with a drawn Z; of a free λ with λ = 1/2."""
        bound = Policy((self.law.at(0.5, 1.0),)).bind(self.structure) if self.free else self.bound
        return self.compile_problem(bound.draw(seed, 0, self.problem.n_samples))


def mixture_text(ingredients: Sequence[Ingredient], lam: FloatArray, beta: FloatArray) -> str:
    """The policy with these λ and β; empty where nothing is selected."""
    used = np.flatnonzero((lam > 0) & (beta > 0)).tolist()
    return " + ".join(str(ingredients[k].law.at(float(lam[k]), float(beta[k]))) for k in used)


#: The terms of a policy: each law with λ = β = 1 where these are free, and their values.
PolicyTerms = dict[Law, tuple[float, float]]


def split_policy(policy: Policy) -> PolicyTerms:
    """The terms of a policy, each of them different."""
    terms = {unit: (lam, beta) for unit, lam, beta in (law.unit() for law in policy.laws)}
    if len(terms) < len(policy.laws):
        raise FieldfitError(f"'{policy}' has a family twice; write it once.")
    return terms


def placed(terms: PolicyTerms, ingredients: Sequence[Ingredient]) -> tuple[FloatArray, FloatArray]:
    """λ and β (ingredients,) of the terms of a policy."""
    assert terms.keys() <= {part.law for part in ingredients}
    lam, beta = np.array([terms.get(part.law, (0.0, 0.0)) for part in ingredients]).T
    return lam, beta


@dataclass
class Builder:
    """Makes ingredients on the samples that moments are taken over, within a time and a number of FLOPs.

    Laws whose moments and fit would not be done until ``end`` of this thread's clock (`fieldfit.models.work.clock`), or
    whose moments take more than the ``flops`` that are left, are skipped (``skipped`` says why), but never the first, and
    none that the user named. The clock counts CPU seconds, so that other programs on the machine neither shorten a survey
    nor change its plan; ``limit`` is how long that is in all, in words.
    """

    request: Request
    pilot: Pilot
    states: float | None  # where moments are sums over all of them
    end: float
    limit: str
    flops: float
    n_laws: int  # of the whole plan
    began: float = field(default_factory=clock)
    skipped: dict[Law | Staged, SkippedError] = field(default_factory=dict)
    reserved: float = 0.0  # seconds of moments to come
    _later: float = 0.0  # seconds of other laws
    _known: dict[Hashable, Ingredient | SkippedError] = field(default_factory=dict)  # by the mean over Z
    _single: dict[str, KnownFamily] = field(default_factory=dict)  # by name

    def build(self, laws: Sequence[Law]) -> list[Ingredient]:
        """The ingredients that can be made, in order."""
        model = self.request.model
        structure = model.structure(self.pilot.samples)
        plain = _mean_key(PILOT_POLICY.laws[0], PILOT_POLICY.bind(structure))
        made, began = [], clock()
        for place, law in enumerate(laws):
            try:
                bound = Policy((law,)).bind(structure)
                key = _mean_key(law, bound)
                flops = model.sample_flops(bound, self.pilot.samples)
                if key not in self._known:
                    self._known[key] = self._compiled(law, structure, bound, flops, key == plain)
                known = self._known[key]
            except (WidthError, PolicyError, MemoryError, DataError) as error:
                known = SkippedError(str(error))
            if isinstance(known, SkippedError):
                self.skipped[law] = known
            else:
                made.append(replace(known, law=law, bound=bound, flops=flops))
            self._later = (self.n_laws - place - 1) * (clock() - began) / (place + 1)
            self._expect(0.0)
        return made

    def _expect(self, law: float) -> None:
        """Say how long the plan takes from here: ``law`` seconds for the law at hand, the other laws, and their moments."""
        expect(law + self._later + self.reserved + AFTER_MOMENTS)

    def passes(self, hessian: float) -> float:
        """Evaluations on the samples that take as long as the moments of a law whose Hessian takes ``hessian`` of them."""
        if self.states is not None:
            return (hessian + 3.0) * self.states / self.pilot.samples.n
        return self.pilot.effort.passes(hessian, self.request.n_functionals, self.pilot.samples.n)

    @property
    def counted_passes(self) -> float:
        """The same as the paper's FLOPs count: a Hessian takes a product for each parameter, which is two evaluations."""
        r = self.request.model.n_parameters
        return self.passes(float(r) if self.states is not None else 2.0 * r)

    def left(self) -> float:
        """Seconds that are left and not reserved."""
        return self.end - clock() - self.reserved

    def part(self, share: float) -> float:
        """A share of the seconds from the end of the pilot to the end of the survey."""
        return share * (self.end - self.began)

    def _compiled(
        self, law: Law, structure: Structure, bound: BoundPolicy, flops: float, is_pilot: bool
    ) -> Ingredient | SkippedError:
        """Compile and fit a law, if there is time for it."""
        request, pilot, model, rows = self.request, self.pilot, self.request.model, self.pilot.samples
        optional, front = bool(self._known) and request.policies is None, f"{law}: skipped,"
        moment_flops = self.counted_passes * rows.n * flops
        compiling = _COMPILING_SECONDS_PER_STATE * model.states_at_once(bound)
        if optional and self.left() <= 0:
            return SkippedError(f"{front} nothing is left of {self.limit}.", for_time=True)
        if optional and moment_flops > self.flops:
            told = f"estimating its variance alone would take about {moment_flops:.2g} FLOPs, more than is left of"
            return SkippedError(f"{front} {told} the pilot's share of the budget.", for_time=True)
        if optional and compiling > self.left():
            return self._too_long(f"{front} compiling it", compiling, self.left())
        began = clock()
        fitted = problem = expected_problem(bound, rows.n, partial(model.compile, rows))
        known, steps = self._known_sum(bound), None
        if known is None:
            evaluation = least_seconds(partial(problem.value_grad, pilot.theta))
            moments = self.passes(problem.hessian_evaluations) * evaluation
        else:
            problem, evaluation, steps = known
            moments = _NOISE_PASSES * evaluation
        if pilot.effort.dense:
            moments += _MULTIPLY_ADDS * model.n_parameters**3 / _MULTIPLY_ADDS_PER_SECOND
        needed, left = clock() - began + moments, self.left()
        if optional and needed > left:
            return self._too_long(f"{front} estimating its variance", needed, left)
        self.reserved += moments
        self.flops -= moment_flops
        deadline = math.inf
        if known is None:
            self._expect(max(pilot.steps.count, _USUAL_TRIAL_STEPS) * evaluation)
        if request.target.seconds is not None:
            # One component of a joint field has one sum for all samples.
            each = evaluation if bound.families[0].size == 1 else evaluation * pilot.fewer.n / rows.n
            enough = max(2 * max(_USUAL_TRIAL_STEPS, pilot.steps.count) * each, 2 * SHORT)
            allowed = min(enough, _FIT_SHARE * (left - moments))
            deadline = clock() + allowed
            if steps is None and allowed < _FEWEST_TRIAL_STEPS * each and not is_pilot:
                usual = usual_steps(model.n_parameters).times(pilot.scaling)
                steps = pilot.steps if self._takes_as_many(bound, fitted) else usual
        if is_pilot and self._fitted is pilot.fewer:
            steps = pilot.steps.times(pilot.scaling)
        steps = steps or self._steps(law, fitted, deadline)
        works = [self._works(bound, fitted, dataset, evaluation) for dataset in self._samples]
        if len(bound.families) == 1 and _mean_weights(bound) == [1.0]:
            self._single[bound.families[0].name] = KnownFamily(problem, evaluation, steps)
        compile_problem = partial(model.compile, rows)
        return Ingredient(law, structure, bound, problem, compile_problem, flops, works[0], works[-1], steps)

    def _too_long(self, what: str, needed: float, left: float) -> SkippedError:
        """Why there is no time for a law."""
        told = f"more than the {left:.2g} s that are left of {self.limit}"
        if left <= 0:
            told = f"and nothing is left of {self.limit}"
        return SkippedError(f"{what} alone would take about {needed:.2g} s, {told}.", for_time=True)

    def _known_sum(self, bound: BoundPolicy) -> KnownFamily | None:
        """The law in the mean over Z as a sum of families that are compiled, with the steps of the slowest of them."""
        weights = _mean_weights(bound)
        single = [self._single.get(family.name) for family in bound.families]
        if weights is None or None in single or self.states is not None:
            return None
        parts = [part for part in single if part is not None]
        slowest = max((part.steps for part in parts), key=lambda steps: steps.equivalents)
        problem = SumProblem([part.problem for part in parts], weights=weights)
        return KnownFamily(problem, sum(part.evaluation for part in parts), slowest)

    @cached_property
    def _fitted(self) -> Dataset:
        """The samples that families are fitted to: those of the moments, compiled anyway, if they are of the data."""
        return (
            self.pilot.samples
            if self.pilot.fewer is self.pilot.rows and not self.pilot.simulated
            else mostly_complete(self.pilot.fewer)
        )

    @cached_property
    def _samples(self) -> list[Dataset]:
        """All samples as a fit with a random Z sees them, and as one of everything does.

        They differ where samples have counts: with a random Z each copy is a sample.
        """
        dataset = self.request.dataset if self.request.shards is None else self.request.shards.rows
        return [dataset.copies(), dataset] if dataset.has_counts else [dataset]

    def _steps(self, law: Law, problem: Problem, deadline: float) -> Steps:
        """Evaluations of a fit with all samples."""
        request, pilot, rows = self.request, self.pilot, self._fitted
        model = request.model
        if rows is not self.pilot.samples:
            problem = expected_problem(
                Policy((law,)).bind(model.structure(rows)), rows.n, partial(model.compile, rows)
            )
        objective = penalised(
            problem, request.precision, rows.sample_weight, model.feature_units, counts=rows.has_counts,
            preconditioned=request.preconditioned,
        )  # fmt: skip
        steps = steps_of(objective, request.tol, deadline)
        # A fit that was stopped early says less than PL1 does, which no family of sequences undercuts by much. Where the
        # pilot's samples separate, one that lacks PL1's better preconditioner follows the weak ridge for very long.
        similar = self._takes_as_many(Policy((law,)).bind(model.structure(rows)), problem)
        most = 3 * pilot.steps.count
        if not steps.converged and (similar or pilot.fewer is not pilot.rows):
            steps = steps.times(min(max(steps.count, pilot.steps.count), most) / max(steps.count, 1))
        elif similar:
            steps = steps.times(min(1.0, most / max(steps.count, 1)))
        return steps.times(pilot.scaling)

    def _takes_as_many(self, bound: BoundPolicy, problem: Problem) -> bool:
        """Whether a fit takes about as many evaluations as PL1: another composite likelihood with its preconditioner.

        PL1, PL2 and PL3 of 24 variables take 14, 16 and 18.
        """
        precision = self.request.precision
        weak = np.zeros(problem.n_parameters) if precision is None else precision
        return bound.families[0].size != 1 and problem.preconditioner(self.pilot.theta, weak) is not None

    def _works(
        self, bound: BoundPolicy, problem: Problem, dataset: Dataset, evaluation: float
    ) -> tuple[FamilyWork, ...]:
        """The work of each family on all samples; ``evaluation`` are the seconds of one on the plan's."""
        model, count, theta = self.request.model, self.pilot.samples.n, self.pilot.theta
        works = []
        for family in bound.families:
            alone, rows = problem, None
            if len(bound.families) > 1:
                alone = model.compile(self.pilot.samples, Selection(count, (FamilySelection(family, 1.0),)))
            work = alone.family_work(family, dataset)
            if work is not None and family.size == 1 == len(bound.families) and evaluation > _LONG_EVALUATION_SECONDS:
                work = TimedSum(work, evaluation)
            if work is None and self.request.target.seconds is not None:
                each = least_seconds(partial(alone.value_grad, theta), 1) / count
                rows = int(_TIMING_SHARE * max(self.left(), 0.0) / (TIMED_PASSES * max(each, 1e-9)))
            if work is None:
                with use_threads(self.request.threads):  # as a fit
                    work = timed_work(model, dataset, family.name, theta, rows)
            works.append(work)
        return tuple(works)


def _mean_weights(bound: BoundPolicy) -> list[float] | None:
    """λβ of each family, or None where it differs between components or samples."""
    if any(family.size is None for family in bound.families):
        return None
    weights = [np.unique(lam * beta) for lam, beta in zip(bound.lams(), bound.betas, strict=True)]
    return [float(values[0]) for values in weights] if all(len(values) == 1 for values in weights) else None


def _mean_key(law: Law, bound: BoundPolicy) -> Hashable:
    """The same for laws that are the same in the mean over Z: families with their λβ."""
    varying = any(family.size is None for family in bound.families)
    if varying and law.noise is Noise.FIXED:
        return law  # λ may differ between samples
    lams = bound.lams(0 if varying else None)
    weights = (np.asarray(lam * beta).tobytes() for lam, beta in zip(lams, bound.betas, strict=True))
    return tuple(zip((family.name for family in bound.families), weights, strict=True))

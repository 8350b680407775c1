"""Refined estimators as candidates: what the moments need of ``A >> optimal(d)`` and ``A >> B``, and what they cost.

``A >> optimal(d)`` solves A ḡ(θ) = 0 with weights A of moment conditions g (`fieldfit.refinement`). To the comparison it is
one more term whose scores are A g_i: their bread and meat, over all states or over the pilot's samples, are moments like
those of a composite likelihood. The weights are computed here as a fit computes them, at the pilot's θ̂, so the seconds that
this takes are those of the fit; what a fit does over its own samples is timed on the pilot's.

``A >> B`` has the variance of B. How many steps B's objective takes from A's estimate is counted on its second-order
expansion: the distance between the two estimates is drawn from their joint distribution, and the same optimiser runs
until the optimisation error is small against the sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.models.field import FieldModel
from fieldfit.models.work import clock
from fieldfit.optim import minimise
from fieldfit.planner.convergence import MOST_ITERATIONS, RIDGE, Steps
from fieldfit.planner.costs import FitCosts
from fieldfit.planner.ingredients import Ingredient, Skipped, Term, split_policy
from fieldfit.planner.pilot import PILOT_POLICY, Pilot
from fieldfit.planner.request import Request
from fieldfit.policies import Optimal, Policy, Staged
from fieldfit.policies.laws.base import Noise
from fieldfit.policies.policy import BoundPolicy
from fieldfit.refinement.local import needs_local
from fieldfit.refinement.model_moments import DRAWS_PER_CONDITION, FEWEST_DRAWS, MOST_DRAWS, NOISE
from fieldfit.refinement.optimal import (
    MOST_CONDITIONS,
    MOST_CONDITIONS_TRIED,
    SMALL_EXCESS,
    keep_first,
    model_weights,
)
from fieldfit.refinement.points import drawn_points, is_exact
from fieldfit.refinement.regression import RIDGES, WORTH, Weights, covariance_of, relative_variance
from fieldfit.refinement.sample_conditions import SampleConditions
from fieldfit.refinement.score_moments import ScoreMoments, pooled
from fieldfit.refinement.stacking import Stack, stack
from fieldfit.refinement.statistical import FRACTION, StatisticalStop
from fieldfit.types import FieldfitError, FloatArray
from fieldfit.variance.mixture_moments import MixtureMoments, MomentPart

#: The likelihood that a second stage may maximise.
FULL = Policy.parse("FL")
#: Parts of the data that a first stage of ``A >> FL`` uses: it only has to start near.
_STARTS = (1.0, 0.3, 0.1)
#: Graph distances that are compared.
_DISTANCES = (1, 2, 3)
#: Newton steps of a second stage, sums over all samples and derivatives that they take, and samples that decide about its
#: acceptance.
_NEWTON, _DERIVATIVES, _COMPARED = 5, 2, 4_000
#: Multiply–adds a second of matrix products and draws that are timed, to predict what computing weights takes; and seconds
#: of a stage beside that.
_PRODUCTS, _TIMED_DRAWS, _FIXED = 5e9, 1_000, 0.004


class OptimalScores:
    """The estimating functions A g_i of ``A >> optimal`` on some samples, as the moments take them.

    ``bread`` is A E ∂g/∂θ under the model, or None where the samples do not follow it. Large weights that nearly cancel
    make its mean over a thousand samples noisy.
    """

    def __init__(self, samples: SampleConditions, matrix: FloatArray, bread: FloatArray | None) -> None:
        self.samples, self.matrix, self.bread = samples, matrix, bread
        self.n_samples = len(samples.codes)

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """A ∂Σ_i w_i g_i/∂θ, its symmetric part: to first order the rest leaves the size of the variance as it is."""
        weighted = replace(self.samples, weight=row_weight)
        slope = self.bread if self.bread is not None else self.matrix @ weighted.derivative(theta)
        return np.asarray((slope + slope.T) / 2 * weighted.total)

    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """The same times a vector."""
        return self.hessian_matrix(theta, row_weight) @ v

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """v·A g_i (n,)."""
        return np.concatenate([block @ v for _, block in self.score_blocks(theta)])

    def score_blocks(self, theta: FloatArray) -> Iterator[tuple[int, FloatArray]]:
        """Stream A g_i."""
        for rows, block in self.samples.scores(theta, self.matrix):
            yield rows.start, block


@dataclass(frozen=True)
class Cost:
    """What a second stage costs beside the first: seconds, FLOPs, and evaluations of the second stage's objective."""

    seconds: float
    flops: float
    evaluations: float


@dataclass(frozen=True)
class OptimalTerm:
    """``A >> optimal(d)``: ``lam`` and ``beta`` are those of A, ``weight_seconds`` is what its weights took."""

    staged: Staged
    lam: FloatArray
    beta: FloatArray
    stack: Stack
    weights: Weights
    moments: Sequence[ScoreMoments]
    scores: OptimalScores
    theta: FloatArray
    weight_seconds: float
    first_flops: float  # of A, for one sample
    states: float  # joint states of the model
    noise: Noise = Noise.TOGETHER

    @property
    def name(self) -> str:
        """The estimator's text."""
        return str(self.staged)

    @property
    def parts(self) -> tuple[tuple[float, MomentPart], ...]:
        """Its scores on the pilot's samples."""
        return ((1.0, self.scores),)

    @property
    def sentence(self) -> str:
        """What the second stage does."""
        return (
            f"The second stage combines {self.stack.conditions.size:,} moment conditions of '{self.staged.first}' with "
            "optimal weights; no likelihood is computed."
        )

    def drawn(self, seed: int) -> MomentPart:
        """Its scores: nothing is drawn."""
        return self.scores

    def exact(self, moments: MixtureMoments) -> tuple[FloatArray, FloatArray]:
        """Bread and meat under the model."""
        model = _together(self.moments)
        bread = self.weights.matrix @ model.K
        return (bread + bread.T) / 2, self.weights.matrix @ model.V @ self.weights.matrix.T

    def robust(self) -> OptimalTerm:
        """The same for samples that do not follow the model."""
        return replace(self, scores=OptimalScores(self.scores.samples, self.scores.matrix, None))

    def cost(self, moments: MixtureMoments, costs: FitCosts) -> Cost:
        """Computing weights, and a few sums over all samples, timed on the pilot's."""
        samples, n = self.scores.samples, costs.n
        rows = len(samples.codes)
        sums = _seconds(lambda: samples.mean(self.theta)) / rows
        slope = _seconds(lambda: samples.derivative(self.theta)) / rows
        scores = _seconds(lambda: list(samples.scores(self.theta, self.weights.matrix))) / rows
        seconds = _FIXED + self.weight_seconds + n * (_NEWTON * sums + _DERIVATIVES * slope)
        seconds += min(n, _COMPARED) * (slope + 2 * scores)
        return Cost(seconds, self.weight_flops + self.first_flops * _NEWTON * n, float(_NEWTON))

    @property
    def weight_flops(self) -> float:
        """The FLOPs of A on the points that the weights come from."""
        return self.first_flops * (sum(half.draws or 0 for half in self.moments) or self.states)


@dataclass(frozen=True)
class StepsTerm:
    """``A >> B`` with all of B selected: ``lam`` and ``beta`` are those of A, ``second`` is B's place."""

    staged: Staged
    lam: FloatArray
    beta: FloatArray
    second: int
    ingredient: Ingredient
    request: Request
    noise: Noise = Noise.TOGETHER

    @property
    def name(self) -> str:
        """The estimator's text."""
        return str(self.staged)

    @property
    def parts(self) -> Sequence[tuple[float, MomentPart]]:
        """B's."""
        return self.ingredient.parts

    @property
    def sentence(self) -> str:
        """What the second stage does."""
        return (
            f"The second stage maximises the objective of '{self.staged.second}' from the first estimate, until the "
            f"optimisation error is {100 * FRACTION:g}% of the sampling error."
        )

    def drawn(self, seed: int) -> MomentPart:
        """B: nothing is drawn."""
        return self.ingredient.parts[0][1]

    def exact(self, moments: MixtureMoments) -> tuple[FloatArray, FloatArray]:
        """B's bread and meat."""
        return moments.J[self.second], moments.K[self.second, self.second]

    def robust(self) -> StepsTerm:
        """The same: B's moments are those of the samples."""
        return self

    def cost(self, moments: MixtureMoments, costs: FitCosts) -> Cost:
        """Setting up, and the steps from A's estimate to where the optimisation error is small."""
        steps = self._steps(moments, costs.copies)
        unit = np.eye(len(costs.ingredients))[self.second]
        seconds = _FIXED + costs.seconds(unit, steps) - costs.reading
        # FLOPs charge every policy with the evaluations of PL1, so a second stage is charged with its share of B's fit.
        alone = self.ingredient.fit_work(everything=True).steps
        flops = costs.flops(unit) * steps.count / max(alone.count, 1)
        return Cost(seconds, flops, steps.equivalents)

    def _steps(self, moments: MixtureMoments, n: int) -> Steps:
        """The optimiser's steps on B's objective, expanded to second order."""
        request, alone = self.request, self.ingredient.fit_work(everything=True).steps
        objective = ExpandedObjective(
            moments.J[self.second], moments.K[self.second, self.second], n, request.precision
        )
        stop = StatisticalStop(objective, request.random_state)
        plain = self.ingredient.parts[0][1].optimiser == "lbfgs"
        began = clock()
        solution = minimise(
            objective.value_grad,
            self._distance(moments, n),
            hessian_product=objective.hessian_product,
            hessian_diagonal=None if plain else objective.hessian_diagonal,
            method="lbfgs" if plain else "auto",
            history=6 if plain else None,
            gtol=1e-6 * n,
            max_iter=MOST_ITERATIONS,
            units=request.model.feature_units,
            callback=stop,
        )
        overhead = clock() - began
        solution = stop.judged(solution, 1e-6 * n)
        equivalents = solution.evaluations + alone.product * solution.hessian_products
        return Steps(solution.evaluations + solution.hessian_products, equivalents, overhead, True)

    def _distance(self, moments: MixtureMoments, n: int) -> FloatArray:
        """A draw of θ̂_A − θ̂_B, from the variance of J_A⁻¹ψ_A − J_B⁻¹ψ_B over n."""
        used, own = list(range(len(self.lam))), self.second
        bread, meat = (m[0] for m in moments.subset(used).moments(self.lam[None], self.beta[None]))
        cross = np.einsum("f,fde->de", self.lam * self.beta, moments.K[used, own])
        first = np.linalg.pinv(bread, rcond=1e-10, hermitian=True)
        second = np.linalg.pinv(moments.J[own], rcond=1e-10, hermitian=True)
        between = first @ cross @ second
        spread = first @ meat @ first - between - between.T + second @ moments.K[own, own] @ second
        random = np.random.default_rng([self.request.random_state, 0x95])
        return np.asarray(_root(spread) @ random.normal(size=len(spread)) / math.sqrt(n))


RefinedTerm = OptimalTerm | StepsTerm


@dataclass(frozen=True)
class ExpandedObjective:
    """An objective near its optimum at 0 to second order: bread J and meat K of ``n`` samples, and a penalty (r,)."""

    J: FloatArray
    K: FloatArray
    n: int
    precision: FloatArray | None

    @cached_property
    def _hessian(self) -> FloatArray:
        ridge = RIDGE * self.n * np.maximum(np.diag(self.J), 1e-300)
        return np.asarray(
            self.n * self.J + np.diag(ridge if self.precision is None else np.maximum(ridge, self.precision))
        )

    @cached_property
    def _score_root(self) -> FloatArray:
        return _root(self.n * self.K)

    def value_grad(self, x: FloatArray) -> tuple[float, FloatArray]:
        """½ xᵀHx and Hx."""
        slope = self._hessian @ x
        return 0.5 * float(x @ slope), slope

    def hessian_product(self, x: FloatArray, v: FloatArray) -> FloatArray:
        """Hv."""
        return np.asarray(self._hessian @ v)

    def signed_score(self, x: FloatArray, random: np.random.Generator) -> FloatArray:
        """A draw with the covariance nK."""
        return np.asarray(self._score_root @ random.normal(size=len(x)))

    @property
    def hessian_diagonal(self) -> Callable[[FloatArray], FloatArray]:
        """The diagonal of H."""
        diagonal = np.diag(self._hessian).copy()
        return lambda x: diagonal


def _together(moments: Sequence[ScoreMoments]) -> ScoreMoments:
    """Exact moments, or those of all draws."""
    return moments[0] if len(moments) == 1 else pooled(moments[0], moments[1])


def _root(matrix: FloatArray) -> FloatArray:
    """A root of a symmetric matrix without its negative part."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _seconds(run: Callable[[], object]) -> float:
    """The least of two runs."""
    times = []
    for _ in range(2):
        began = clock()
        run()
        times.append(clock() - began)
        if times[-1] > 0.05:
            break
    return max(min(times), 1e-7)


@dataclass
class Refining:
    """Makes refined terms at the pilot's θ̂, within a time; ``skipped`` says why others are not compared."""

    request: Request
    pilot: Pilot
    rows: Dataset
    ingredients: Sequence[Ingredient]
    deadline: float  # of `fieldfit.models.work.clock`
    flops: float  # that are left
    skipped: dict[str, Skipped]

    def usual(self) -> list[RefinedTerm]:
        """``PL1 >> optimal(d)`` for the distances that are worth it, and parts of PL1 before FL."""
        return [*self._optimal_distances(), *self._starts()]

    def named(self, staged: Staged) -> RefinedTerm:
        """The term of a policy that was asked for."""
        if not isinstance(staged.first, Policy):
            raise FieldfitError(f"'{staged}' cannot be planned: its first stage is no policy. Use 'PL1 >> optimal'.")
        lam, beta = self._placed(staged.first)
        if isinstance(staged.second, Policy):
            term = split_policy(staged.second)
            if len(term) == 1 and term[0].lam == 1.0 and self._everything(staged.second):
                return self._steps_term(staged, lam, beta, self._place(term[0]))
        elif isinstance(staged.second, Optimal):
            made = self._optimal(staged, lam, beta)
            if isinstance(made, OptimalTerm):
                return made
            raise FieldfitError(made.reason)
        raise FieldfitError(
            f"'{staged}' cannot be planned: the second stages that a plan compares are optimal, optimal(d), and a family "
            "with everything selected."
        )

    def _everything(self, policy: Policy) -> bool:
        return policy.bind(self.request.model.structure(self.rows)).everything

    def _place(self, term: Term) -> int:
        return [part.law for part in self.ingredients].index(term.law)

    def _placed(self, policy: Policy) -> tuple[FloatArray, FloatArray]:
        """λ and β of a first stage on the ingredients."""
        lam, beta = np.zeros((2, len(self.ingredients)))
        for term in split_policy(policy):
            place = self._place(term)
            lam[place], beta[place] = term.lam, term.beta
        return lam, beta

    def _starts(self) -> Iterator[RefinedTerm]:
        """``λ*PL1/row >> FL``: the first stage only has to start near."""
        full = [place for place, part in enumerate(self.ingredients) if part.law == FULL.laws[0]]
        parts = [place for place, part in enumerate(self.ingredients) if part.noise is Noise.TOGETHER]
        if not full:
            return
        unit = np.eye(len(self.ingredients))
        for share in _STARTS:
            place = 0 if share == 1.0 or not parts else parts[0]
            first = self.ingredients[place].law.at(share, 1.0)
            yield self._steps_term(Staged(Policy((first,)), FULL), share * unit[place], unit[place], full[0])

    def _steps_term(self, staged: Staged, lam: FloatArray, beta: FloatArray, second: int) -> StepsTerm:
        part = self.ingredients[second]
        return StepsTerm(staged, lam, beta, second, part, self.request)

    def _optimal_distances(self) -> Iterator[OptimalTerm]:
        """Graph distances 1, 2, … while they reduce the predicted variance, as the default of a fit does."""
        unit = np.eye(len(self.ingredients))[0]
        best = math.inf
        size = 0
        for distance in _DISTANCES:
            staged = Staged(PILOT_POLICY, Optimal(distance))
            made = self._optimal(staged, unit, unit)
            if isinstance(made, Skipped):
                self.skipped[str(staged)] = made
                return
            conditions = made.stack.conditions.size
            if conditions == size or made.weights.predicted > best * (1 - WORTH):
                return
            best, size = made.weights.predicted, conditions
            yield made
            if best < 1 + SMALL_EXCESS:
                return

    def _optimal(self, staged: Staged, lam: FloatArray, beta: FloatArray) -> OptimalTerm | Skipped:
        """The weights of the second stage, as a fit computes them."""
        model, rows, theta, second = self.request.model, self.rows, self.pilot.theta, staged.second
        assert isinstance(staged.first, Policy)
        assert isinstance(second, Optimal)
        if not isinstance(model, FieldModel) or not isinstance(rows, Table):
            return Skipped(f"{staged}: skipped, it is for fields with the same variables in every sample.")
        if rows.has_missing:
            return Skipped(f"{staged}: skipped, it needs complete samples.")
        bound = staged.first.bind(model.structure(rows))
        if needs_local(model, bound, second.distance):
            return Skipped(f"{staged}: skipped, it has more than {MOST_CONDITIONS:,} conditions.")
        draws = self._draws(staged, model, bound)
        if isinstance(draws, Skipped):
            return draws
        began = clock()
        free = np.ones(model.n_parameters, dtype=bool)
        if second.distance is None:
            kept = keep_first(model, rows, bound, theta, free, self.request.random_state)
            if kept is not None:
                return Skipped(
                    f"{staged}: skipped, a fit would keep the estimate of {staged.first}: {kept[1].message}."
                )
        conditions, weights, halves, _ = model_weights(
            model, theta, bound, distance=second.distance, dataset=rows, random_state=self.request.random_state,
            draws=draws, exact_ridge=RIDGES[0],
        )  # fmt: skip
        seconds = clock() - began
        if draws is not None:
            seconds *= _fit_draws(weights, halves) / draws
        selection = bound.draw(self.request.random_state, 0, rows.n)
        samples = SampleConditions(conditions.conditions, rows.codes, conditions.mask(selection))
        return OptimalTerm(
            staged=staged,
            lam=lam,
            beta=beta,
            stack=conditions,
            weights=weights,
            moments=halves,
            scores=OptimalScores(samples, weights.matrix, -weights.matrix @ _together(halves).K),
            theta=theta,
            weight_seconds=seconds,
            first_flops=model.sample_flops(bound, rows),
            states=model.n_states,
        )

    def _draws(self, staged: Staged, model: FieldModel, bound: BoundPolicy) -> int | Skipped | None:
        """How many draws the weights come from: as many as in a fit (None), fewer where time is short, or none at all."""
        second, theta = staged.second, self.pilot.theta
        assert isinstance(second, Optimal)
        p, r = stack(model, bound, second.distance or 1).conditions.size, model.n_parameters
        named = self.request.policies is not None
        if second.distance is not None and second.distance > 1 and p > MOST_CONDITIONS_TRIED and not named:
            return Skipped(f"{staged}: skipped, it has {p:,} conditions.")
        exact = is_exact(model)
        each = (p + r) ** 2 / _PRODUCTS
        if not exact:
            dataset = self.rows if isinstance(self.rows, Table) else None
            began = clock()
            drawn_points(model, theta, dataset, _TIMED_DRAWS, 0, 0)
            each += (clock() - began) / _TIMED_DRAWS
        fewest = model.n_states if exact else float(FEWEST_DRAWS)
        usual = fewest if exact else 2.0 * max(FEWEST_DRAWS, DRAWS_PER_CONDITION * p)
        flops = fewest * model.sample_flops(bound, self.rows)
        if flops > self.flops and not named:
            return Skipped(f"{staged}: skipped, its weights alone would take about {flops:.2g} FLOPs.", for_time=True)
        self.flops -= flops
        solving, left = 10.0 * p**2 * (p + r) / _PRODUCTS, self.deadline - clock()
        if usual * each + solving <= left or named:
            return None
        if fewest * each + solving <= left:
            return FEWEST_DRAWS
        needed = fewest * each + solving
        return Skipped(f"{staged}: skipped, its weights alone would take about {needed:.2g} s.", for_time=True)


def _fit_draws(weights: Weights, halves: Sequence[ScoreMoments]) -> float:
    """About how many draws a fit makes, which doubles them while the noise of the weights matters."""
    both = pooled(halves[0], halves[1])
    assert both.draws is not None
    noise = (weights.predicted - relative_variance(covariance_of(weights.matrix, both), both.information)) / 4
    total = both.draws
    while noise * both.draws / total > NOISE and 2 * total <= MOST_DRAWS:
        total *= 2
    return float(total)

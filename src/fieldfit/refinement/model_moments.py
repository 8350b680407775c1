"""Second moments of moment conditions and of the score of the full likelihood, under the model.

The score of the full likelihood is f(x) − E f, with f the sufficient statistics, and needs no likelihood when x is drawn
from the model. For every condition E[g (f − E f)ᵀ] = −E ∂g/∂θ (differentiate E_θ g = 0), so

    V = E ggᵀ,    K = E g (f − E f)ᵀ = −D,    I = E (f − E f)(f − E f)ᵀ

are all that optimal weights, their information KᵀV⁻¹K and the information I of maximum likelihood need. Expectations are
over all joint states with their probabilities, or over as many draws of the model as their noise asks for. Draws need not
be perfect: other weights cost accuracy, never consistency.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.inference.gibbs import gibbs_sample
from fieldfit.models.field import FieldModel
from fieldfit.steps import stepped
from fieldfit.types import BoolArray, FloatArray, Int32Array, IntArray, WidthError

if TYPE_CHECKING:
    from fieldfit.data.table import Table
    from fieldfit.refinement.conditions import Conditions
    from fieldfit.refinement.regression import Weights
    from fieldfit.refinement.stacking import Stack

#: Joint states up to which expectations are exact sums.
MOST_SUMMED_STATES = 1 << 14
#: Gibbs sweeps from a sample of the data to a draw of the model: where each draw starts from another sample, and else.
FEW_SWEEPS, SWEEPS = 5, 20
_POINTS_STREAM = 0x5EED
#: Entries of the largest table of exact draws; on wider graphs Gibbs sampling is faster.
_LARGEST_DRAWN_TABLE = 1 << 19
#: Entries of tables that all Gibbs chains together keep, at most.
_MOST_CHAIN_ENTRIES = 20_000_000


@dataclass(frozen=True)
class Points:
    """States ``codes`` (n, m) with weights that add up to 1; ``copies`` is how often each observed value is repeated.

    ``method`` says how they were made, with a place ``{draws}`` for the number of all draws that are used together.
    The first n / copies rows are the first copy, and so on; ``copies`` is 0 where the model conditions on nothing.
    """

    codes: Int32Array
    weight: FloatArray
    exact: bool
    method: str
    copies: int = 0


def is_exact(model: FieldModel, most: int = MOST_SUMMED_STATES) -> bool:
    """Whether expectations are sums over all states, of which there are at most ``most``."""
    return not model.observed and math.prod(model.graph.cardinalities) <= most


def all_points(model: FieldModel, theta: FloatArray) -> Points:
    """Every joint state with its probability."""
    codes, probability = model.joint_probabilities(theta)
    return Points(codes, probability, True, f"exact sums over {len(codes):,} states")


def drawn_points(
    model: FieldModel,
    theta: FloatArray,
    dataset: Table | None,
    size: int,
    seed: int,
    batch: int,
    *,
    only_gibbs: bool = False,
) -> Points:
    """About ``size`` draws of the model at θ; other numbers of ``batch`` give other draws.

    ``only_gibbs`` excludes exact draws, whose cost is not linear in the number of variables.
    """
    stream = (seed * 1_000_003 + _POINTS_STREAM + batch) % (1 << 62)
    if model.observed:
        if dataset is None:
            raise ValueError("A conditional model needs its observed values to draw the others.")
        copies = max(2, -(-size // dataset.n))
        drawn = [model.simulate(dataset, theta, stream + copy).codes for copy in range(copies)]
        codes = np.concatenate(drawn)
        weight = np.full(len(codes), 1.0 / len(codes))
        return Points(codes, weight, False, f"{copies} draws for each of {dataset.n:,} samples", copies)
    weight = np.full(size, 1.0 / size)
    tables = model.log_tables(theta)
    if not only_gibbs:
        with suppress(WidthError):
            model.exact.check(_LARGEST_DRAWN_TABLE)
            codes = model.exact.sample(tables, size, stream)
            return Points(codes, weight, False, "{draws:,} independent draws")
    if dataset is None or dataset.has_missing:
        codes = model.sample(theta, size, stream, method="gibbs").codes
        return Points(codes, weight, False, "{draws:,} Gibbs draws")
    random = np.random.default_rng(stream)
    chains = min(size, max(32, _MOST_CHAIN_ENTRIES // len(model.graph.scopes)))
    rows = random.permutation(dataset.n)[:chains] if chains <= dataset.n else random.integers(0, dataset.n, chains)
    start = np.ascontiguousarray(dataset.codes[rows])
    sweeps = FEW_SWEEPS if chains == size <= dataset.n else SWEEPS
    thin = 1 if chains == size else SWEEPS // 2
    codes = gibbs_sample(model.graph, tables, size, stream, start=start, burn_in=sweeps - thin, thin=thin)
    method = f"{{draws:,}} Gibbs draws, {sweeps} sweeps from samples of the data"
    return Points(codes, weight, False, method)


#: Rows of a product in single precision, at most.
_MOST_PRODUCT_ROWS = 1_024


@dataclass(frozen=True)
class ScoreMoments:
    """V (p, p), K (p, r) and I (r, r) from ``draws`` draws, or exact where ``draws`` is None."""

    V: FloatArray
    K: FloatArray
    information: FloatArray
    draws: int | None

    def selected(self, mean: FloatArray, second: FloatArray, component: IntArray) -> ScoreMoments:
        """The moments of Z_c g_c: λ_c K and E[Z_c Z_c'] V, with λ (components,) and E[ZZᵀ] (components, components)."""
        return ScoreMoments(
            self.V * second[np.ix_(component, component)],
            self.K * mean[component][:, None],
            self.information,
            self.draws,
        )


def pooled(first: ScoreMoments, second: ScoreMoments) -> ScoreMoments:
    """Moments of all draws together."""
    if first.draws is None or second.draws is None:
        return first
    total = first.draws + second.draws
    a, b = first.draws / total, second.draws / total
    return ScoreMoments(
        a * first.V + b * second.V, a * first.K + b * second.K, a * first.information + b * second.information, total
    )


def together(halves: Sequence[ScoreMoments]) -> ScoreMoments:
    """Exact moments, or those of all draws."""
    return halves[0] if len(halves) == 1 else pooled(halves[0], halves[1])


def score_moments(conditions: Conditions, points: Points, theta: FloatArray) -> ScoreMoments:
    """The moments over these points, in one pass.

    Products over draws are formed in single precision and added up in double precision, block by block: rounding is far
    below the noise of the draws and below the smallest ridge of the weights.
    """
    model, p, r = conditions.model, conditions.size, conditions.n_parameters
    V, K, information = np.zeros((p, p)), np.zeros((p, r)), np.zeros((r, r))
    mean_g, mean_f = np.zeros(p), np.zeros(r)
    centre = _centre(conditions, points)
    for samples, g in conditions.value_blocks(points.codes, theta, single=not points.exact):
        f = model.statistics(points.codes[samples])
        f -= centre if centre.ndim == 1 else centre[np.arange(samples.start, samples.stop) % len(centre)]
        if points.exact:
            weight = points.weight[samples]
            mean_g += weight @ g
            mean_f += weight @ f
            root = np.sqrt(weight)[:, None]
            g, f = g * root, f * root
        else:
            mean_g += g.sum(axis=0, dtype=np.float64) / len(points.codes)
            mean_f += f.sum(axis=0) / len(points.codes)
            g, f = g.astype(np.float32, copy=False), f.astype(np.float32)
        parts = -(-len(g) // _MOST_PRODUCT_ROWS)
        for some_g, some_f in zip(np.array_split(g, parts), np.array_split(f, parts), strict=True):
            V += some_g.T @ some_g
            K += some_g.T @ some_f
            information += some_f.T @ some_f
    if not points.exact:
        for sums in (V, K, information):
            sums /= len(points.codes)
    if centre.ndim == 1:  # near E f only
        K -= np.outer(mean_g, mean_f)
        information -= np.outer(mean_f, mean_f)
    return ScoreMoments(V, K, information, None if points.exact else len(points.codes))


def _centre(conditions: Conditions, points: Points) -> FloatArray:
    """Near E f (r,); or E f given the observed values of each sample (samples, r)."""
    model = conditions.model
    if not points.copies:
        some = points.codes[:_MOST_PRODUCT_ROWS]
        weight = points.weight[:_MOST_PRODUCT_ROWS]
        return np.asarray(weight @ model.statistics(some) / weight.sum())
    samples = len(points.codes) // points.copies
    sums = np.zeros((samples, conditions.n_parameters))
    for copy in range(points.copies):
        sums += model.statistics(points.codes[copy * samples : (copy + 1) * samples])
    return sums / points.copies


#: Draws of the model behind the weights: at least, for each condition, and at most.
FEWEST_DRAWS, DRAWS_PER_CONDITION, MOST_DRAWS = 4_000, 4, 30_000
#: Products (draws × conditions) at most, but at least this many draws for each condition where noise matters.
_MOST_DRAWN_PRODUCTS, _DRAWS_OF_NOISY = 9_000_000, 8
#: More draws are made while the weights' own noise adds more than this to the predicted relative variance.
NOISE = 0.01


@dataclass(frozen=True)
class ModelMoments:
    """Moments of conditions at θ: exact, or of draws, for which the samples of ``dataset`` are starts where it is given.

    ``free`` are the parameters whose scores are predicted, None is all.
    """

    model: FieldModel
    theta: FloatArray
    conditions: Stack
    dataset: Table | None
    random_state: int
    free: BoolArray | None = None

    def exact(self) -> tuple[list[ScoreMoments], str]:
        """Sums over all states, and how they were made."""
        points = all_points(self.model, self.theta)
        return [self._of(points)], points.method

    def drawn(self, size: int, batch: int = 0) -> tuple[list[ScoreMoments], str]:
        """Two halves of about ``size`` draws, and how they were made; other numbers of ``batch`` give other draws."""
        halves, method = [], ""
        with stepped("second stage: moments of draws of the model", range(2)) as counted:
            for k in counted:
                points = drawn_points(
                    self.model, self.theta, self.dataset, -(-size // 2), self.random_state, 2 * batch + k
                )
                halves.append(self._of(points))
                method = points.method
        return halves, method

    def weighed(
        self, weigh: Callable[[Sequence[ScoreMoments]], Weights], draws: int | None, exact: bool
    ) -> tuple[Weights, list[ScoreMoments], str]:
        """The weights of exact moments, or of ``draws`` draws; None: of as many as their noise asks for."""
        if exact:
            halves, source = self.exact()
            return weigh(halves), halves, source
        p = self.conditions.conditions.size
        size = min(MOST_DRAWS, max(FEWEST_DRAWS, DRAWS_PER_CONDITION * p)) if draws is None else max(2, draws)
        most = min(MOST_DRAWS, max(_DRAWS_OF_NOISY * p, _MOST_DRAWN_PRODUCTS // max(p, 1)))
        halves, method = self.drawn(size)
        weights, batch, total = weigh(halves), 1, _count(halves)
        while draws is None and weights.noise > NOISE and 2 * total <= most:
            fresh = self.drawn(total, batch)[0]
            halves = [pooled(old, new) for old, new in zip(halves, fresh, strict=True)]
            weights, batch, total = weigh(halves), batch + 1, _count(halves)
        return weights, halves, method.format(draws=total)

    @np.errstate(over="ignore", invalid="ignore")  # moments that are not finite are refused with their weights
    def _of(self, points: Points) -> ScoreMoments:
        conditions = self.conditions
        moments = score_moments(conditions.conditions, points, self.theta)
        if self.free is not None and not self.free.all():
            keep = np.flatnonzero(self.free)
            moments = ScoreMoments(
                moments.V, moments.K[:, keep], moments.information[np.ix_(keep, keep)], moments.draws
            )
        if conditions.mean is not None and conditions.second is not None:
            moments = moments.selected(conditions.mean, conditions.second, conditions.conditions.component)
        return moments


def _count(halves: Sequence[ScoreMoments]) -> int:
    return sum(half.draws or 0 for half in halves)

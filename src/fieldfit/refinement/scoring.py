"""``A >> FL~M``: Fisher scoring on the full likelihood with M draws of the model instead of exact sums.

At θ the gradient of the log-likelihood per sample is f̄ − E_θ f, with f the sufficient statistics and f̄ their mean over the
data, and the information is Cov_θ f. Both are estimated from M draws of Gibbs chains that start from samples of the data:

    θ ← θ + (Î + P/n)⁻¹ (f̄ − mean of f over the draws − Pθ/n)

with new draws for each step, until a step is as short as the noise of the draws makes it. A step after which the means
are further from those of the data than before, by more than noise, is halved: few draws may miss a rare state, and with it
the information along some direction. To first order the error of the last step is the sampling error plus that of the mean
over the draws, which has the covariance

    S = diag(M_k^-½) I diag(M_k^-½),    M_k the effective number of draws of the k-th statistic,

so n·Cov(θ̂) = I⁻¹ + n·I⁻¹ S I⁻¹, about I⁻¹(1 + n/M) (Geyer & Thompson 1992). Chains that do not mix would give a biased
mean: they are refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fieldfit.asymptotics import DenseAccuracy, Moments
from fieldfit.asymptotics.meat import ScoreVariance
from fieldfit.inference.gibbs import gibbs_sample
from fieldfit.models.field import FieldModel
from fieldfit.optim.keeping import Keeper, State
from fieldfit.properties import cached_property
from fieldfit.refinement.course import Course
from fieldfit.refinement.estimating import ConditionSums, WeightedConditions
from fieldfit.refinement.mixing import Mixing, mixing
from fieldfit.refinement.pseudo_inverse import pseudo_inverse
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FieldfitError, FloatArray, Int32Array, IntArray, ModelError, PolicyError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Gibbs chains at least and at most, and draws of a chain at least.
_FEWEST_CHAINS, _MOST_CHAINS, _FEWEST_DRAWS_PER_CHAIN = 4, 32, 25
#: Sweeps between draws, tried in this order until the chains mix; and sweeps before the first draw, in units of these.
_THIN, _BURN_IN = (5, 20, 80), 40
#: Split R̂ at most, and effective draws at least, as a part of all draws and for each parameter.
_LARGEST_R_HAT, _FEWEST_EFFECTIVE, _EFFECTIVE_PER_PARAMETER = 1.1, 0.02, 2
#: Draws for each parameter at least: their covariance must have an inverse.
_FEWEST_PER_PARAMETER = 10
#: Numbers (draws × parameters) at most: 800 MB.
_MOST_DRAWN_STATISTICS = 100_000_000
#: Steps at most, and the length of a step, in standard deviations of the log-likelihood of one sample, at most.
_MOST_SCORING_STEPS, _LONGEST = 30, 1.0
#: A step is short when it is below this part of the sampling error, or this multiple of the noise of the draws.
_SHORT_STEP, _STEP_NOISE = 0.3, 1.5
#: A step is taken back by half if the squared distance of the means grows by this factor and by this multiple of its noise.
_FURTHER, _FURTHER_NOISE = 2.0, 4.0
#: Part of a gradient outside the range of the information beyond which the draws do not determine a step.
_MISSED_GRADIENT = 1e-6
_SCORING_STREAM = 0xF15


@dataclass(frozen=True)
class Drawn:
    """Mean (r,), covariance (r, r) and mixing of the statistics of draws, and the last state of each chain."""

    mean: FloatArray
    covariance: FloatArray
    mixing: Mixing
    states: Int32Array
    draws: int
    thin: int

    @property
    def noise(self) -> FloatArray:
        """S (r, r): the covariance of the mean."""
        root = 1.0 / np.sqrt(self.mixing.effective)
        return self.covariance * root[:, None] * root


@dataclass(frozen=True)
class ChainAccount:
    """How Fisher scoring with draws of the model went.

    ``draws`` of ``chains`` Gibbs chains, ``thin`` sweeps apart, were made for each of ``steps`` steps. ``effective`` is the
    smallest effective number of draws of a statistic in the last step and ``r_hat`` its largest split R̂; ``added`` is
    the part of the variance that the draws add, relative to the sampling variance, on average over the parameters.
    """

    draws: int
    chains: int
    thin: int
    steps: int
    effective: float
    r_hat: float
    added: float
    seconds: float
    accepted: bool = True

    def lines(self, second: str) -> list[str]:
        """The second stage in words."""
        return [
            f"second stage {second}: {self.steps} scoring steps with {self.draws:,} draws of the model each "
            f"({self.chains} Gibbs chains, {self.thin} sweeps between draws), {self.seconds:.2f} s",
            f"chains: split R̂ at most {self.r_hat:.3f}, effective number of draws at least {self.effective:,.0f}; the "
            f"draws add {100 * self.added:.2g}% to the variance, which the standard errors include",
        ]


@dataclass(frozen=True)
class ScoringFit:
    """The estimate of Fisher scoring; ``information`` is Î (r, r) and ``noise`` the covariance S of the last mean."""

    theta: FloatArray
    account: ChainAccount
    samples: ConditionSums
    free: BoolArray
    precision: FloatArray
    information: FloatArray
    noise: FloatArray

    @property
    def testable(self) -> bool:
        """Whether Hansen's test is available."""
        return False

    @property
    def total(self) -> float:
        """The number of samples, or the sum of their weights."""
        return self.samples.total

    @cached_property
    def scores(self) -> WeightedConditions:
        """ψ = f(x) − E f of the fitted samples, 0 at fixed parameters."""
        mean = self.samples.mean(self.theta) - self.precision * self.theta / self.total
        return WeightedConditions(self.samples, self._chosen, centre=np.where(self.free, mean, 0.0))

    def scores_of_new(self, codes: Int32Array) -> WeightedConditions:
        """ψ of other samples."""
        return self.scores.of_new(codes)

    @property
    def _chosen(self) -> csr_array:
        """The statistics of free parameters, as weights (r, r)."""
        from scipy.sparse import diags_array

        return diags_array(self.free.astype(np.float64)).tocsr()

    def accuracy(self, variance: ScoreVariance, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        """Information from the draws, meat from the data and from the noise of the draws."""
        # Scores around their own mean, which a penalty makes different from 0.
        variance = replace(variance, mean=np.where(self.free, self.samples.mean(self.theta), 0.0))
        with one_blas_thread(with_scipy=True):
            meat = self.samples.meat(self.theta, self._chosen, variance) / self.total + self._noise
        return self._dense(meat, "the data and draws of the model", active, units)

    def model_accuracy(self, counts: bool, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        """The same with the information in the place of the scores' covariance."""
        scale, weight = 1.0, self.samples.weight
        if weight is not None and not counts:
            scale = float(weight @ weight) / self.total
        return self._dense(scale * self.information + self._noise, "draws of the model", active, units)

    @property
    def _noise(self) -> FloatArray:
        return self.total * self.noise

    def _dense(self, meat: FloatArray, method: str, active: BoolArray, units: FloatArray | None) -> DenseAccuracy:
        return DenseAccuracy(Moments(self.information, meat, self.total, method), self.precision, active, units)

    def specification_test(self, n: float) -> SpecificationTest:
        """Refused: there are no further conditions."""
        del n
        raise PolicyError(
            f"'FL~{self.account.draws}' has as many equations as parameters, so there is nothing to test. Refine the first "
            f"stage by 'optimal' for Hansen's test, or use fit.goodness_of_fit()."
        )


@dataclass(frozen=True)
class _At:
    """Where the scoring is before a step: θ, the last θ that was not taken back, and the states of the chains."""

    theta: FloatArray
    base: FloatArray
    states: Int32Array
    sizes: FloatArray
    distance: float = np.inf
    thin: int = _THIN[0]
    step: int = 1

    def state(self) -> State:
        """Plain arrays; ``history`` has a line for each step that was made, and one for the start."""
        numbers = np.array([self.distance, self.thin, self.step], dtype=np.float64)
        history = np.zeros((self.step, 1))
        arrays: State = {"theta": self.theta, "base": self.base, "states": self.states, "sizes": self.sizes}
        return {**arrays, "numbers": numbers, "history": history}

    @classmethod
    def of_state(cls, state: State, like: _At, cardinalities: IntArray) -> _At:
        """Restore what `state` returned: arrays with the shapes of ``like``, states below ``cardinalities``."""
        try:
            arrays = {name: state[name] for name in ("theta", "base", "states", "sizes")}
            distance, thin, step = state["numbers"].tolist()
            right = all(
                array.shape == vars(like)[name].shape and array.dtype == vars(like)[name].dtype
                for name, array in arrays.items()
            )
            inside = right and np.all((arrays["states"] >= 0) & (arrays["states"] < cardinalities))
            if not (inside and thin in _THIN and 1 <= step <= _MOST_SCORING_STEPS and distance >= 0):
                raise ValueError("shapes or numbers")
            if not all(np.isfinite(arrays[name]).all() for name in ("theta", "base")):
                raise ValueError("θ is not finite")
        except (KeyError, ValueError, TypeError) as damage:
            raise FieldfitError(
                f"The saved state is not one of this second stage ({damage}). Start again without it."
            ) from damage
        return cls(**arrays, distance=float(distance), thin=int(thin), step=int(step))


@contextmanager
def _kept(keeper: Keeper | None, at: _At) -> Iterator[None]:
    """Keep the state before a step if it is time, and whenever something ends the step."""
    if keeper is None:
        yield
        return
    keeper.keep(at.state, at.step - 1, last=False)
    try:
        yield
    except BaseException:
        keeper.keep(at.state, at.step - 1, last=True)
        raise


def fisher_scoring(
    samples: ConditionSums,
    theta: FloatArray,
    *,
    draws: int,
    free: BoolArray,
    precision: FloatArray,
    random_state: int,
    keeper: Keeper | None = None,
    course: Course | None = None,
) -> ScoringFit:
    """The estimate from A's estimate ``theta``; ``samples`` have the sufficient statistics as their conditions.

    ``precision`` (r,) is that of a Gaussian penalty. Single samples are needed only as starts of the chains. A ``keeper``
    gets the state before each step, and may have one to continue from. ``course`` bounds the steps; where it cuts them off,
    the draws at the last θ give the information and the noise.
    """
    began, course = time.perf_counter(), course or Course()
    keep, model = np.flatnonzero(free), samples.conditions.model
    total, weight = samples.total, samples.weight
    observed = samples.mean(theta)
    P = np.diag(precision[keep]) / total
    chains = int(np.clip(draws // 100, _FEWEST_CHAINS, _MOST_CHAINS))
    random = np.random.default_rng([_SCORING_STREAM, random_state])
    # A sample that stands for many more weight is a starting state more often.
    shares = None if weight is None else weight / weight.sum()
    states = samples.subset(random.choice(samples.n, chains, p=shares)).codes
    at = _At(theta, theta, states, np.ones(len(keep)))
    if keeper is not None and keeper.saved is not None:
        at = _At.of_state(keeper.saved, at, np.asarray(model.graph.cardinalities))
    made: _Step | None = None
    with one_blas_thread(with_scipy=True):
        for step in range(at.step, _MOST_SCORING_STEPS + 1):
            at = replace(at, step=step)
            seed = (random_state * 1_000_003 + _SCORING_STREAM + 97 * step) % (1 << 62)
            with _kept(keeper, at):
                drawn = _mixed(model, at.theta, at.states, draws, at.thin, seed, free, f"FL~{draws}")
            gap = (observed - drawn.mean)[keep] - precision[keep] * at.theta[keep] / total
            if course.ends(step - 1, float(np.abs(gap).max(initial=0.0)) * total):
                made, steps = _scoring_step(drawn, gap, keep, P, total), step - 1
                break
            if step == 1:
                sizes = np.diag(drawn.covariance)[keep] + gap**2
                at = replace(at, sizes=np.where(sizes > 0, sizes, np.inf))
            apart, chance = float(np.sum(gap**2 / at.sizes)), float(np.sum(np.diag(drawn.noise)[keep] / at.sizes))
            if apart > _FURTHER * at.distance + _FURTHER_NOISE * chance:
                at = replace(at, theta=(at.base + at.theta) / 2)
                continue
            made = _scoring_step(drawn, gap, keep, P, total)
            theta = at.theta.copy()
            theta[keep] += made.move
            at = _At(theta, at.theta, drawn.states, at.sizes, apart, drawn.thin, step)
            if made.short and step > 1:
                course.report(step, np.nan)  # the gradient there would need draws
                steps = step
                break
        else:
            last = np.nan if made is None else made.length
            raise PolicyError(
                f"'FL~{draws}': {_MOST_SCORING_STEPS} scoring steps did not settle; the last step was {last:.2g} "
                f"standard deviations of a sample's log-likelihood. Give a penalty (sigma2), more draws, or a better first "
                f"stage."
            )
    whole = np.zeros(drawn.covariance.shape)
    whole[np.ix_(keep, keep)] = made.information
    account = ChainAccount(
        draws=drawn.draws,
        chains=chains,
        thin=at.thin,
        steps=steps,
        effective=float(drawn.mixing.effective[keep].min()),
        r_hat=float(drawn.mixing.r_hat[keep].max()),
        added=made.noise * total / max(1, made.rank),
        seconds=time.perf_counter() - began,
    )
    return ScoringFit(at.theta, account, samples, free, precision, whole, drawn.noise)


class _Step(NamedTuple):
    """A step, Î over the free parameters, its rank with the penalty, and what the noise of the draws adds to the variance.

    ``length`` is that of the whole step, which may be shortened, and ``short`` says that none has to follow.
    """

    move: FloatArray
    information: FloatArray
    rank: int
    noise: float
    length: float
    short: bool


def _scoring_step(drawn: Drawn, gap: FloatArray, keep: IntArray, P: FloatArray, total: float) -> _Step:
    """(Î + P)⁻¹ ``gap`` over the free parameters ``keep``, from the draws at θ."""
    information = drawn.covariance[np.ix_(keep, keep)] * _inflation(drawn, len(keep))
    inverse, rank = pseudo_inverse(information + P)
    move = inverse @ gap
    squared = float(move @ (information + P) @ move)
    scale = min(1.0, _LONGEST / max(np.sqrt(squared), 1e-300))
    noise = float(np.sum(inverse * drawn.noise[np.ix_(keep, keep)]))
    # From the second step on both ends of a step have the noise of their draws.
    short = squared <= max(_SHORT_STEP**2 * rank / total, _STEP_NOISE**2 * 2 * noise)
    missed = gap - (information + P) @ move
    determined = np.abs(missed).max(initial=0.0) <= _MISSED_GRADIENT * np.abs(gap).max(initial=0.0)
    settled = bool(scale == 1.0 and short and determined)
    return _Step(scale * move, information, rank, noise, float(np.sqrt(squared)), settled)


def refuse_draws(model: FieldModel, draws: int, parameters: int) -> None:
    """Refuse models without one distribution for all samples, and numbers of draws that are too small or too large."""
    if model.observed:
        raise ModelError(
            f"'FL~{draws}' draws from one distribution, and this model has another one for each sample, given the observed "
            f"variables {', '.join(model.names[v] for v in model.observed[:3])}. Use 'PL1 >> optimal'."
        )
    if draws < _FEWEST_PER_PARAMETER * parameters:
        raise PolicyError(
            f"'FL~{draws}' has {draws:,} draws for {parameters:,} parameters, and their information matrix needs at least "
            f"{_FEWEST_PER_PARAMETER} draws for each. Write FL~{_FEWEST_PER_PARAMETER * parameters} or more."
        )
    if draws * parameters > _MOST_DRAWN_STATISTICS:
        raise PolicyError(
            f"'FL~{draws}' for {parameters:,} parameters has {draws * parameters:,} numbers; the limit is "
            f"{_MOST_DRAWN_STATISTICS:,}. Use fewer draws, or 'PL1 >> optimal'."
        )


def _inflation(drawn: Drawn, parameters: int) -> float:
    """The inverse of a covariance from N draws is too large by N/(N − r − 1) on average."""
    effective = float(np.median(drawn.mixing.effective))
    return effective / max(effective - parameters - 1, 1.0)


def _mixed(
    model: FieldModel,
    theta: FloatArray,
    states: Int32Array,
    draws: int,
    thin: int,
    seed: int,
    free: BoolArray,
    what: str,
) -> Drawn:
    """Draws at θ of chains that mix, with more sweeps between draws if they need them; PolicyError if they do not."""
    for number, sweeps in enumerate(value for value in _THIN if value >= thin):
        drawn = _draw(model, theta, states, draws, sweeps, seed + number)
        states = drawn.states
        r_hat = float(drawn.mixing.r_hat[free].max())
        effective = float(drawn.mixing.effective[free].min())
        needed = max(_FEWEST_EFFECTIVE * draws, _EFFECTIVE_PER_PARAMETER * float(free.sum()), 40.0)
        if r_hat <= _LARGEST_R_HAT and effective >= needed:
            return drawn
    name = model.parameter_names[int(np.argmax(np.where(free, drawn.mixing.r_hat, 0.0)))]
    raise PolicyError(
        f"'{what}': the Gibbs chains do not mix, even with {_THIN[-1]} sweeps between draws. Split R̂ is {r_hat:.2f} for "
        f"{name} (limit {_LARGEST_R_HAT}), and the smallest effective number of draws is {effective:,.0f} of "
        f"{drawn.draws:,} (at least {needed:,.0f} are needed). Use 'PL1 >> optimal', whose weights need no exact draws."
    )


def _draw(model: FieldModel, theta: FloatArray, states: Int32Array, draws: int, thin: int, seed: int) -> Drawn:
    chains = len(states)
    length = max(_FEWEST_DRAWS_PER_CHAIN, -(-draws // chains))
    codes = gibbs_sample(
        model.graph, model.log_tables(theta), length * chains, seed, start=states, burn_in=_BURN_IN * thin, thin=thin
    )
    f = model.statistics(codes)
    mean = f.mean(axis=0)
    f -= mean
    covariance: FloatArray = (f.T @ f) / (len(f) - 1)
    mixed = mixing(f.reshape(length, chains, f.shape[1]))
    return Drawn(mean, covariance, mixed, np.ascontiguousarray(codes[-chains:]), len(f), thin)

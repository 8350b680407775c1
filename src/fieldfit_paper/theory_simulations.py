"""Small simulations of what the paper proves: Propositions 1, 3 and 4 and the influence function (five nodes).

The policy is 0.7PL1 + 0.3PL2 with the weights 0.6 and 0.4. Outside the family the samples come from a distribution over
the 32 states that no Boltzmann machine has; θ₀ is then the maximum of M(θ) = E_X E_Z m_θ(X, Z), which has λβ in place of
βZ and is computed without samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

import fieldfit as ff
from fieldfit.types import FloatArray, IntArray
from fieldfit_paper.figure1 import NODES, THETA

POLICY = "0.7*PL1@0.6 + 0.3*PL2@0.4"
MEAN_POLICY = "PL1@0.42 + PL2@0.12"
#: Sample sizes of the consistency checks; the error must fall by at least LEAST_FALL from the first to the last.
SIZES = (500, 8_000, 128_000)
LEAST_FALL = 6.0  # √(128,000/500) is 16
REPLICATIONS = {"small": 60, "paper": 400}
N = 4_000
SEED = 2010


@dataclass(frozen=True)
class Consistency:
    """Root mean square errors of θ̂ by sample size."""

    sizes: tuple[int, ...]
    errors: tuple[float, ...]

    @property
    def fall(self) -> float:
        """How many times smaller the last error is."""
        return self.errors[0] / self.errors[-1]


@cache
def outside() -> tuple[IntArray, FloatArray]:
    """All states (32, 5), and probabilities that no Boltzmann machine of pairs has."""
    states = np.indices((2,) * NODES).reshape(NODES, -1).T
    inside = states @ np.zeros(NODES) + np.einsum("si,sj,ij->s", states, states, _matrix(THETA))
    triples = 1.5 * states[:, 0] * states[:, 1] * states[:, 2] - 1.0 * states[:, 2] * states[:, 3] * states[:, 4]
    weight = np.exp(inside + triples)
    return states.astype(np.int64), weight / weight.sum()


def _matrix(theta: FloatArray) -> FloatArray:
    matrix = np.zeros((NODES, NODES))
    matrix[np.triu_indices(NODES, 1)] = theta
    return matrix


@cache
def best_theta() -> FloatArray:
    """θ₀ outside the family: the maximum of M."""
    states, probability = outside()
    fit = ff.fit(ff.BoltzmannMachine(NODES), states, MEAN_POLICY, sample_weight=probability * 1e6, tol=1e-9)
    return fit.theta


def draw(n: int, seed: int, *, inside: bool) -> IntArray:
    """n samples from the family, or from the distribution outside it."""
    if inside:
        return ff.BoltzmannMachine(NODES).sample(THETA, n, random_state=seed).values
    states, probability = outside()
    return states[np.random.default_rng([SEED, seed]).choice(len(states), n, p=probability)]


def consistency(*, inside: bool) -> Consistency:
    """Errors of θ̂ from θ₀ for growing n, a new draw of samples and Z for each."""
    target = THETA if inside else best_theta()
    errors = []
    for n in SIZES:
        away = [
            ff.fit(ff.BoltzmannMachine(NODES), draw(n, seed, inside=inside), POLICY, random_state=seed).theta - target
            for seed in range(3)
        ]
        errors.append(float(np.sqrt(np.mean(np.square(away)))))
    return Consistency(SIZES, tuple(errors))


def spread(scale: str) -> tuple[float, float]:
    """Mean of z² over fits and parameters outside the family (1 if Proposition 4 holds), and its standard error."""
    squares = []
    for seed in range(REPLICATIONS[scale]):
        fit = ff.fit(ff.BoltzmannMachine(NODES), draw(N, seed, inside=False), POLICY, random_state=seed)
        z = (fit.theta - best_theta()) / fit.standard_errors()
        squares.append(float(np.mean(z**2)))
    return float(np.mean(squares)), float(np.std(squares, ddof=1) / np.sqrt(len(squares)))


def influence_error() -> float:
    """‖(n+1)(θ̂ with one sample more − θ̂) − influence‖ / ‖influence‖, the largest over all 32 states."""
    model, samples = ff.BoltzmannMachine(NODES), draw(N, 0, inside=False)
    states, _ = outside()
    fit = ff.fit(model, samples, "PL1@0.6 + PL2@0.4", tol=1e-10)
    predicted = np.asarray(fit.influence(states))
    worst = 0.0
    for state, expected in zip(states, predicted, strict=True):
        more = ff.fit(model, np.vstack([samples, state]), "PL1@0.6 + PL2@0.4", start=fit.theta, tol=1e-10)
        change = (N + 1) * (more.theta - fit.theta) / N  # `influence` is that of one sample out of N
        worst = max(worst, float(np.linalg.norm(change - expected) / np.linalg.norm(expected)))
    return worst

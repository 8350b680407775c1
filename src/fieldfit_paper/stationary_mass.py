"""Why surfaces of the Boltzmann chain jump: how often labels occur in the fitted chain itself.

With the symbols summed out, the chain is M(i, j) = exp(A(i, j)) Σ_v exp(B(j, v)) between labels. Far from both ends of a
long sentence a label has the probability l(i) r(i), where l and r are the left and right eigenvectors of M's largest
eigenvalue: its stationary mass. Pseudo-likelihood conditions on the labels beside each window and never sees this
normaliser, so a label that is rare in the data may take nearly all of the mass.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np

import fieldfit as ff
from fieldfit.chains import Sequences
from fieldfit.types import FloatArray, IntArray
from fieldfit_paper.chain_data import chain_data
from fieldfit_paper.chain_folds import ChainFold
from fieldfit_paper.chunking import fit_chain, fold_of, one_thread, policy_text, sigma2_of, weights_of

#: A cell whose neighbours in λ differ much: the second fold of PL1/PL2.
CELL = {
    "source": "conll2000",
    "model": "boltzmann-chain",
    "fold": 1,
    "sigma2": 15_000.0,
    "n_train": 100,
    "n_test": None,
    "data_seed": 2010,
}
BETA, LAMS = 0.7, (0.1, 0.2, 0.3, 0.4)


def label_factors(model: ff.BoltzmannChain, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """M (K, K), up to a constant, and the factors of the first label (K,)."""
    transitions, start, symbols = model.split(theta)
    scores = symbols.copy()
    scores[:, -1] += np.log(model.unseen)
    highest = scores.max(axis=1)
    labels = highest + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
    factors = transitions + labels
    return np.exp(factors - factors.max()), np.exp((start + labels) - (start + labels).max())


def stationary_mass(matrix: FloatArray) -> FloatArray:
    """The stationary mass of each label (K,)."""
    mass = np.ones(len(matrix))
    for side in (matrix, matrix.T):
        values, vectors = np.linalg.eig(side)
        mass = mass * np.abs(vectors[:, np.argmax(values.real)].real)
    shares: FloatArray = mass / mass.sum()
    return shares


def expected_shares(matrix: FloatArray, start: FloatArray, lengths: IntArray) -> FloatArray:
    """The expected share of each label among all tokens of sentences of these lengths (K,)."""
    total = np.zeros(len(matrix))
    for length, count in zip(*np.unique(lengths[lengths > 0], return_counts=True), strict=True):
        forward, backward = [start / start.sum()], [np.ones(len(matrix))]
        for _ in range(int(length) - 1):
            ahead, behind = forward[-1] @ matrix, matrix @ backward[-1]
            forward.append(ahead / ahead.sum())
            backward.append(behind / behind.sum())
        for left, right in zip(forward, reversed(backward), strict=True):
            total += count * left * right / (left @ right)
    shares: FloatArray = total / total.sum()
    return shares


@dataclass(frozen=True)
class Jump:
    """One fit: NLLs, and the label with the largest stationary mass."""

    lam: float
    train_nll: float
    test_nll: float
    label: str
    mass: float
    share: float  # expected, in sentences of the training lengths
    observed: float  # in the training sentences


def _jump(fold: ChainFold, labels: tuple[str, ...], theta: FloatArray, lam: float) -> Jump:
    model, train = fold.model, fold.train
    assert isinstance(model, ff.BoltzmannChain)
    assert isinstance(train, Sequences)
    matrix, start = label_factors(model, theta)
    mass = stationary_mass(matrix)
    most = int(mass.argmax())
    shares = expected_shares(matrix, start, train.lengths)
    observed = float(np.mean(train.labels == most))
    nll = fold.nll(theta, train), fold.nll(theta, fold.test)
    return Jump(lam, *nll, labels[most], float(mass[most]), float(shares[most]), observed)


@cache
def jumps(reading: str, nested: bool = True) -> tuple[Jump, ...]:
    """Fits at neighbouring λ, between which the surface jumps, in one reading; Z is nested in λ or drawn for each λ."""
    with one_thread():
        fold, seed = fold_of(CELL)
        labels = chain_data("conll2000").labels
        jumps = []
        for lam in LAMS:
            policy = policy_text("PL2", lam, reading)
            policy = policy if nested else policy.removesuffix("/nested")
            fit = fit_chain(fold, policy, weights_of("PL2", BETA), sigma2_of(CELL, fold), seed)
            jumps.append(_jump(fold, labels, fit.theta, lam))
    return tuple(jumps)


def _largest(jumps: tuple[Jump, ...]) -> tuple[Jump, Jump]:
    """The neighbours whose train NLLs are farthest apart."""
    return max(itertools.pairwise(jumps), key=lambda pair: abs(pair[1].train_nll - pair[0].train_nll))


def explanation() -> str:
    """What was measured, as sentences."""
    low, high = _largest(jumps("sums", nested=False))
    text = (
        f"Measured at σ² = 15,000, β = {BETA:g} on the second fold: from λ = {low.lam:g} to {high.lam:g} the train NLL "
        f"jumps from {low.train_nll:.1f} to {high.train_nll:.1f} and the test NLL from {low.test_nll:.1f} to "
        f"{high.test_nll:.1f}. The label {high.label}, {high.observed:.1%} of the training labels, has {low.mass:.2%} "
        f"and {high.mass:.3%} of the stationary mass, and {low.share:.0%} and {high.share:.0%} of the expected labels in "
        "sentences of the training lengths."
    )
    first, last = _largest(jumps("sums"))
    second = jumps("means")
    most, (before, after) = max(second, key=lambda jump: jump.mass), _largest(second)
    return (
        f"{text} Selections that are nested in λ do not remove the jumps: with them the train NLL goes from "
        f"{first.train_nll:.1f} to {last.train_nll:.1f} between λ = {first.lam:g} and {last.lam:g}, where the expected "
        f"share of {last.label} goes from {first.share:.0%} to {last.share:.0%}. In the second reading no label has more "
        f"than {most.mass:.0%} of the stationary mass there ({most.label}, {most.observed:.0%} of the data), and the "
        f"largest step is {abs(after.train_nll - before.train_nll):.1f} nats."
    )

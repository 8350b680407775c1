"""The cell of the chain experiments: fit one policy on one fold, and what came of it (Section 7).

A policy PL1/H (H is FL or PL2) selects every PL1 window with the weight 1 − β, and each component of H (a sentence, or a
window of two tokens) with probability λ and the weight β:

    maximise Σ (1 − β) PL1 + β Z H − n‖θ‖²/(2σ²),     Z ~ Bernoulli(λ) for each component

The factor n, the number of training sequences, is the interpretation that reproduces the paper's numbers: its σ² then
belongs to the mean log-likelihood of a sequence (``regulariser="mean"``). As printed, the penalty multiplies the
likelihood of the whole sample (``regulariser="sum"``), and σ² stands for n times as much.

This is the first reading, in which a family counts with the sum over its windows. In the second (``reading="means"``) each
pseudo-likelihood family counts with its average, ``Mean(PL1)`` and ``Mean(PL2)``: the weights are (1 − β)/T̄ and
β/(T̄ − 1) for a mean length of T̄ tokens, and FL counts for each sentence as a whole.

Training sentences and Z are simulated for each fold; cells of a fold that differ in β or σ² only have the same of both.
The Z of a fold are nested: what is selected at a smaller λ is also selected at a larger one.
Families of weight 0 are neither evaluated nor counted.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import fieldfit as ff
from fieldfit.sweep import experiment
from fieldfit.types import ConvergenceWarning, FloatArray, Plain, PolicyError
from fieldfit_paper.chain_folds import ChainFold, chain_fold

HIGHER = ("FL", "PL2")
REGULARISERS = ("mean", "sum")
#: How a family counts: with the sum over its windows, or with their average.
READINGS = ("sums", "means")
#: The largest entry of the gradient at the end, relative to 1/σ (σ is the scale on which the penalty sees a weight).
TOLERANCE = 5e-3
MOST_ITERATIONS = 200
#: For the sentiment set: NLLs of a split are then within about 0.01 nats, a tenth of their standard errors or less.
LOOSE_TOLERANCE = 2e-2
#: θ of PL1 alone for the last fold, σ² and reading.
LAST_ALONE: dict[tuple[ChainFold, float, str], FloatArray] = {}
_EVALUATIONS = 5  # the best of this many is the measured time of one


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A hundred sentences take half a millisecond: waiting for a second thread would cost more than it saves."""
    from threadpoolctl import threadpool_limits

    with ff.use_threads(1), threadpool_limits(1):
        yield


def policy_text(higher: str, lam: float, reading: str = "sums") -> str:
    """PL1 + λ·H, or PL1 alone, with sums or with means over the windows of a family."""
    if higher not in (*HIGHER, "PL1"):
        raise PolicyError(f"The higher-order family is {higher!r}; it must be FL or PL2 (or PL1 for PL1 alone).")
    if reading not in READINGS:
        raise PolicyError(f"The reading is {reading!r}; it must be one of {', '.join(READINGS)}.")
    first, second = (f if reading == "sums" or f == "FL" else f"Mean({f})" for f in ("PL1", higher))
    return first if higher == "PL1" else f"{first} + {lam:.12g}*{second}/nested"


def weights_of(higher: str, beta: float) -> FloatArray:
    """1 − β and β, or 1 for PL1 alone."""
    return np.array([1.0] if higher == "PL1" else [1.0 - beta, beta])


def fit_chain(
    fold: ChainFold,
    policy: str,
    weights: FloatArray,
    sigma2: float,
    seed: int,
    start: FloatArray | None = None,
    most: int = MOST_ITERATIONS,
    tolerance: float = TOLERANCE,
) -> ff.Fit:
    """Fit by truncated Newton: weak penalties make L-BFGS take thousands of evaluations here.

    The penalty counts a shared weight once for each weight that it stands for. A fit that ends after ``most`` iterations
    is returned as it is.
    """
    gtol = tolerance / np.sqrt(sigma2)
    bound = ff.Policy.parse(policy).with_betas(weights).bind(fold.model.structure(fold.train))
    largest = max(float(np.max(beta)) for beta in bound.betas)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ff.fit(
            fold.model,
            fold.train,
            policy,
            weights=weights.tolist(),
            sigma2=sigma2 / fold.copies,
            random_state=seed,
            start=start,
            method="newton",
            tol=gtol / (fold.train.n_sequences * largest),
            max_iter=most,
        )


def sigma2_of(coordinates: Mapping[str, Any], fold: ChainFold) -> float:
    """σ² of the sum over the training sequences."""
    regulariser = coordinates.get("regulariser", "mean")
    if regulariser not in REGULARISERS:
        raise PolicyError(f"regulariser is {regulariser!r}; it must be 'mean' or 'sum'.")
    sigma2 = float(coordinates["sigma2"])
    return sigma2 / fold.train.n_sequences if regulariser == "mean" else sigma2


def fold_of(coordinates: Mapping[str, Any]) -> tuple[ChainFold, int]:
    """The fold that the coordinates name, and the seed of its Z."""
    seed = int(coordinates.get("data_seed", 0))
    number = int(coordinates["fold"])
    n_test = coordinates.get("n_test")
    fold = chain_fold(
        str(coordinates["source"]),
        str(coordinates["model"]),
        number,
        seed,
        int(coordinates.get("n_train", 0)),
        None if n_test is None else int(n_test),
    )
    return fold, 1_000_003 * seed + number


def fit_and_measure(
    fold: ChainFold,
    policy: str,
    weights: FloatArray,
    sigma2: float,
    seed: int,
    start: FloatArray | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[FloatArray, Plain]:
    """Fit: θ, and the numbers of the cell: NLL in nats for each sequence, FLOPs and seconds of one evaluation.

    Seconds are those of the processor, so that other work on the machine does not count.
    """
    began = time.thread_time()
    fit = fit_chain(fold, policy, weights, sigma2, seed, start, tolerance=tolerance)
    fit_seconds = time.thread_time() - began
    objective = fit.objective_function
    assert objective is not None
    seconds = np.inf
    # Two points in turn, because a problem may keep what depends on the last θ.
    points = (fit.theta, np.nextafter(fit.theta, np.inf))
    objective.value_grad(points[1])  # the first one may still have to warm up
    for turn in range(_EVALUATIONS):
        began = time.thread_time()
        objective.value_grad(points[turn % 2])
        seconds = min(seconds, time.thread_time() - began)
    return fit.theta, {
        "train_nll": fold.nll(fit.theta, fold.train),
        "test_nll": fold.nll(fit.theta, fold.test),
        "flops": fold.flops(policy, seed, weights),
        "evaluation_seconds": float(seconds),
        "fit_seconds": fit_seconds,
        "iterations": fit.iterations,
        "evaluations": fit.evaluations,
        "converged": fit.converged,
    }


@experiment("chain-row", version=3)
def chain_row(coordinates: Mapping[str, Any], seed: int) -> Plain:
    """Fit ``model`` by PL1/``higher`` with λ and σ² on ``fold`` of ``source``, for all ``betas``: results as arrays.

    ``cpu_seconds`` of a fit are all that it took, from its start to its measured NLLs; that of the first β also has the
    reading of the data.

    The cell's own seed is not used: Z belongs to the fold. Each fit starts where a line through the two before it leads,
    and PL1 alone (β = 0), which is the same for all λ, where it ended in the cell before. The objective is strictly
    concave, so a start changes the result by no more than the tolerance of the fit.
    """
    began = time.thread_time()
    with one_thread():
        fold, fold_seed = fold_of(coordinates)
        higher, sigma2, reading = (
            str(coordinates["higher"]),
            sigma2_of(coordinates, fold),
            str(coordinates["reading"]),
        )
        policy = policy_text(higher, float(coordinates["lam"]), reading)
        tolerance = float(coordinates.get("tolerance", TOLERANCE))
        alone = (fold, sigma2, reading)
        rows: list[Plain] = []
        done: list[tuple[float, FloatArray]] = []
        for beta in map(float, coordinates["betas"]):
            start = LAST_ALONE.get(alone) if beta == 0 else _on_the_line(done, beta)
            theta, measured = fit_and_measure(
                fold, policy, weights_of(higher, beta), sigma2, fold_seed, start, tolerance
            )
            if beta == 0:
                LAST_ALONE.clear()
                LAST_ALONE[alone] = theta
            done = [*done[-1:], (beta, theta)]
            ended = time.thread_time()
            rows.append({"beta": beta} | measured | {"cpu_seconds": ended - began})
            began = ended
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _on_the_line(done: list[tuple[float, FloatArray]], beta: float) -> FloatArray | None:
    """θ at β by the line through the last two (β, θ); the last θ if there is but one, None if there is none."""
    if len(done) < 2:
        return done[-1][1] if done else None
    (before, theta_before), (last, theta) = done
    step: FloatArray = (theta - theta_before) * ((beta - last) / (last - before))
    return theta + step

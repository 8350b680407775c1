"""The cell of the chain experiments: fit one policy on one fold, and what came of it (Section 7).

A policy PL1/H (H is FL or PL2) selects every PL1 window with the weight 1 − β, and each component of H (a sentence, or a
window of two tokens) with probability λ and the weight β:

    maximise Σ (1 − β) PL1 + β Z H − n‖θ‖²/(2σ²),     Z ~ Bernoulli(λ) for each component

The factor n, the number of training sequences, is the reading under which the paper's numbers come out: its σ² then
belongs to the mean log-likelihood of a sequence (``regulariser="mean"``). As printed, the penalty multiplies the
likelihood of the whole sample (``regulariser="sum"``), and σ² stands for n times as much.

Training sentences and Z are simulated for each fold; cells of a fold that differ in β or σ² only have the same of both.
Families of weight 0 are neither evaluated nor counted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from fieldfit import Policy
from fieldfit.models.base import Problem
from fieldfit.models.chain_problem import Windows, selected_windows
from fieldfit.objective import Objective
from fieldfit.optim import Solution, minimise_newton
from fieldfit.policies.policy import BoundPolicy
from fieldfit.policies.selection import Selection
from fieldfit.policies.windows import SequenceStructure
from fieldfit.sweep import experiment
from fieldfit.threads import get_threads, set_threads
from fieldfit.types import FloatArray, PolicyError
from fieldfit_paper.chain_folds import ChainFold, chain_fold

HIGHER = ("FL", "PL2")
REGULARISERS = ("mean", "sum")
#: The largest entry of the gradient at the end, relative to 1/σ (σ is the scale on which the penalty sees a weight).
TOLERANCE = 2e-3
MOST_ITERATIONS = 200
_EVALUATIONS = 5  # the best of this many is the measured time of one


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A hundred sentences take half a millisecond: waiting for a second thread would cost more than it saves."""
    from threadpoolctl import threadpool_limits

    before = get_threads()
    set_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        set_threads(before)


def draw_policy(fold: ChainFold, higher: str, lam: float, seed: int) -> tuple[BoundPolicy, Selection]:
    """PL1 + λ·H bound to the training sentences, and Z."""
    if higher not in (*HIGHER, "PL1"):
        raise PolicyError(f"The higher-order family is {higher!r}; it must be FL or PL2 (or PL1 for PL1 alone).")
    text = "PL1" if higher == "PL1" else f"PL1 + {lam:.12g}*{higher}"
    bound = Policy.parse(text).bind(SequenceStructure(fold.lengths))
    return bound, bound.draw(seed, 0, len(fold.lengths))


def weighted(selection: Selection, beta: float) -> tuple[Windows, ...]:
    """The selected windows with the weights 1 − β and β; without families of weight 0."""
    families = tuple(map(selected_windows, selection.parts))
    weights = (1.0,) if len(families) == 1 else (1.0 - beta, beta)
    return tuple(f._replace(beta=w) for f, w in zip(families, weights, strict=True) if w > 0)


def objective_of(problem: Problem, fold: ChainFold, sigma2: float) -> Objective:
    """The penalised objective; a shared weight is penalised once for each parameter that it stands for."""
    r = problem.n_parameters
    return Objective(problem, fold.copies / sigma2, np.zeros(r), np.ones(r, dtype=bool))


def fit_chain(objective: Objective, start: FloatArray | None = None, most: int = MOST_ITERATIONS) -> Solution:
    """Truncated Newton with the Hessian's diagonal: weak penalties make L-BFGS take thousands of evaluations here."""
    x = np.zeros(objective.problem.n_parameters) if start is None else start
    gtol = TOLERANCE * float(np.sqrt(objective.precision.min()))
    return minimise_newton(
        objective.value_grad,
        objective.hessian_product,
        x,
        gtol=gtol,
        max_iter=most,
        hessian_diagonal=objective.hessian_diagonal,
    )


def sigma2_of(coordinates: Mapping[str, Any], fold: ChainFold) -> float:
    """σ² of the sum over the training sequences."""
    regulariser = coordinates.get("regulariser", "mean")
    if regulariser not in REGULARISERS:
        raise PolicyError(f"regulariser is {regulariser!r}; it must be 'mean' or 'sum'.")
    sigma2 = float(coordinates["sigma2"])
    return sigma2 / len(fold.lengths) if regulariser == "mean" else sigma2


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
    fold: ChainFold, families: tuple[Windows, ...], objective: Objective, start: FloatArray | None = None
) -> dict[str, Any]:
    """Fit, and the numbers of the cell: NLL in nats for each sequence, FLOPs and seconds of one evaluation.

    Seconds are those of the processor, so that other work on the machine does not count.
    """
    began = time.thread_time()
    optimum = fit_chain(objective, start)
    fit_seconds = time.thread_time() - began
    seconds = np.inf
    # Two points in turn, because a problem may keep what depends on the last θ.
    points = (optimum.x, np.nextafter(optimum.x, np.inf))
    objective.value_grad(points[1])  # the first one may still have to warm up
    for turn in range(_EVALUATIONS):
        began = time.thread_time()
        objective.value_grad(points[turn % 2])
        seconds = min(seconds, time.thread_time() - began)
    return {
        "train_nll": float(fold.nll(optimum.x, "train").mean()),
        "test_nll": float(fold.nll(optimum.x, "test").mean()),
        "flops": fold.flops(families),
        "evaluation_seconds": float(seconds),
        "fit_seconds": fit_seconds,
        "iterations": optimum.iterations,
        "evaluations": optimum.evaluations,
        "converged": optimum.converged,
    }


@experiment("chain", version=1)
def chain_cell(coordinates: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Fit ``model`` by PL1/``higher`` with λ, β and σ² on ``fold`` of ``source``.

    The cell's own seed is not used: Z belongs to the fold.
    """
    with one_thread():
        fold, fold_seed = fold_of(coordinates)
        _, selection = draw_policy(fold, str(coordinates["higher"]), float(coordinates.get("lam", 1.0)), fold_seed)
        families = weighted(selection, float(coordinates.get("beta", 1.0)))
        objective = objective_of(fold.problem(families), fold, sigma2_of(coordinates, fold))
        return fit_and_measure(fold, families, objective)

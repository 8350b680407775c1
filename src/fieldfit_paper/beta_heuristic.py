"""The β heuristic on chains: Algorithm 1 with the diagonal form of J over all parameters of the model (Section 6).

    J(β) = Σ_l log M_ll(β) − 2 Σ_l log B_ll(β),     l over all r parameters

It alternates θ = argmax scl(β) and β = argmin J(β; θ). A weight that stands for m symbols that training does not have
counts m times: each of the m has the score s/m and the bread e/m, where s is the score of the shared weight and e its
expected count (1 − p(v|y), which is 1 up to 1/m, is left out). "exact" has the drawn Z in J, and with it the noise of
selection; "published" has λ in its place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, cast

import numpy as np

import fieldfit as ff
from fieldfit.sweep import experiment
from fieldfit.types import FloatArray, Plain, PolicyError
from fieldfit_paper.chain_folds import ChainFold
from fieldfit_paper.chunking import (
    LAST_ALONE,
    fit_and_measure,
    fit_chain,
    fold_of,
    one_thread,
    policy_text,
    sigma2_of,
    weights_of,
)
from fieldfit_paper.tables import FORMULAS

ROUNDS = 12
INNER_ITERATIONS = 8  # of Newton's method
#: β has settled when it moves by less: far finer than the grid that it is compared with.
SETTLED = 2e-3
PROBES = 16
#: Below this β the fit is that of PL1 alone, whatever λ is, and starts from it.
NEARLY_ALONE = 1e-3
#: A ridge γ‖β − (½, ½)‖² on J in the second reading: it decides where J hardly depends on β.
GAMMA = 1.0


def heuristic_beta(
    fold: ChainFold, higher: str, lam: float, sigma2: float, formula: str, seed: int, reading: str = "sums"
) -> tuple[float, FloatArray, int, bool]:
    """β of the higher-order family, θ to start the final fit from, rounds, and whether β settled."""
    if formula not in FORMULAS:
        raise PolicyError(f"formula is {formula!r}; it must be one of {', '.join(FORMULAS)}.")
    chosen = cast(Literal["published", "exact"], formula)
    policy, weights = policy_text(higher, lam, reading), np.array([0.5, 0.5])
    theta = np.zeros(fold.model.n_parameters)
    settled, number = False, 0
    for _ in range(ROUNDS):
        number += 1
        fit = fit_chain(fold, policy, weights, sigma2, seed, theta, INNER_ITERATIONS)
        theta, previous = fit.theta, weights
        gamma = GAMMA if reading == "means" else 0.0
        weights = ff.update_weights(fit, form="diagonal", formula=chosen, probes=PROBES, gamma=gamma)
        if abs(float(weights[1] - previous[1])) < SETTLED:
            settled = True
            break
    return float(weights[1]), theta, number, settled


@experiment("chain-heuristic", version=2)
def heuristic_cell(coordinates: Mapping[str, Any], seed: int) -> Plain:
    """Choose β by Algorithm 1 for λ, σ² and a ``formula`` of J, then fit with it; ``cpu_seconds`` is all of it."""
    began = time.thread_time()
    with one_thread():
        fold, fold_seed = fold_of(coordinates)
        higher, lam, sigma2 = str(coordinates["higher"]), float(coordinates["lam"]), sigma2_of(coordinates, fold)
        reading = str(coordinates.get("reading", "sums"))
        beta, theta, rounds, settled = heuristic_beta(
            fold, higher, lam, sigma2, str(coordinates["formula"]), fold_seed, reading
        )
        policy, alone = policy_text(higher, lam, reading), (fold, sigma2, reading)
        start = LAST_ALONE.get(alone, theta) if beta < NEARLY_ALONE else theta
        theta, measured = fit_and_measure(fold, policy, weights_of(higher, beta), sigma2, fold_seed, start)
        if beta < NEARLY_ALONE:
            LAST_ALONE.clear()
            LAST_ALONE[alone] = theta
        seconds = time.thread_time() - began
        return measured | {"beta": beta, "rounds": rounds, "settled": settled, "cpu_seconds": seconds}

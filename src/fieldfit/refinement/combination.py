"""``Nodewise >> optimal``: each variable is fitted on its own, and the separate estimates are combined.

Variable j has an estimate θ̃_j of the parameters in log p(x_j | x_−j): the root of its own score s̄_j. A parameter of an edge
has two estimates. With the best weights W (r, q) for the stacked scores s (see `regression`) and their derivatives G_j at
θ̃_j over the data, s̄_j(θ) ≈ G_j(θ − θ̃_j), so W s̄(θ) = 0 has the root

    θ̂ = (Σ_j W_j G_j)⁻¹ Σ_j W_j G_j θ̃_j,

a combination of the θ̃_j with matrix weights that is as accurate, to first order, as ``PL1 >> optimal(1)``. There is no
joint fit: variables exchange their estimates once (Liu & Ihler 2012). The weights come from the model at the average of
the θ̃_j with the precisions of the separate fits as weights.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from fieldfit.models.field import FieldModel
from fieldfit.properties import cached_property
from fieldfit.refinement.conditions import Blocks, Conditions, NodeConditions, Sums
from fieldfit.refinement.model_moments import ModelMoments, ScoreMoments, is_exact
from fieldfit.refinement.model_moments import together as all_moments
from fieldfit.refinement.optimal import MOST_CONDITIONS
from fieldfit.refinement.pseudo_inverse import bread_inverse
from fieldfit.refinement.refined import Account, Refined
from fieldfit.refinement.regression import (
    RIDGES,
    Weights,
    choose_weights,
    covariance_of,
    relative_variance,
    root_variance,
)
from fieldfit.refinement.separate_fits import HeldNodes, NodeFit, ShardedNodes
from fieldfit.refinement.stacking import Stack
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, Int32Array, IntArray, PolicyError


class SeparateConditions(Conditions):
    """The conditions of variables whose parameters differ: those of variable j are taken at θ + shift_j.

    At the combined estimate θ̂ every variable is then at its own θ̃_j.
    """

    def __init__(self, together: NodeConditions, shifts: FloatArray) -> None:
        self.together, self.shifts, self.model = together, shifts, together.model
        self.component, self.distance = together.component, together.distance
        self.score_coefficients, self.block_rows = together.score_coefficients, together.block_rows

    @cached_property
    def _nodes(self) -> tuple[NodeConditions, ...]:
        return tuple(self.together.alone(place) for place in range(len(self.together.nodes)))

    def value_blocks(self, codes: Int32Array, theta: FloatArray, *, single: bool = False) -> Blocks:
        """Stream g as (samples, block (k, p))."""
        del single
        for samples in self.row_blocks(len(codes)):
            parts = [
                node.values(node.evaluate(codes[samples], theta + shift))
                for node, shift in zip(self._nodes, self.shifts, strict=True)
            ]
            yield samples, np.concatenate(parts, axis=1)

    def summed(self, codes: Int32Array, weight: FloatArray | None = None, mask: FloatArray | None = None) -> Sums:
        """θ ↦ Σ_i w_i g_i (p,)."""
        return partial(self._sums, [node.summed(codes, weight, mask) for node in self._nodes])

    def _sums(self, parts: Sequence[Sums], theta: FloatArray) -> FloatArray:
        return np.concatenate([sums(theta + shift) for sums, shift in zip(parts, self.shifts, strict=True)])

    def derivative(
        self, codes: Int32Array, theta: FloatArray, weight: FloatArray | None = None, mask: FloatArray | None = None
    ) -> FloatArray:
        """Σ_i w_i ∂g_i/∂θ (p, n_parameters)."""
        return np.concatenate(
            [
                node.derivative(codes, theta + shift, weight, mask)
                for node, shift in zip(self._nodes, self.shifts, strict=True)
            ]
        )


def combine_separate_fits(
    model: FieldModel, samples: HeldNodes | ShardedNodes, *, start: FloatArray, free: BoolArray, random_state: int
) -> tuple[FloatArray, Refined, IntArray]:
    """The average of the separate estimates, their optimal combination, and the work of the fits (3,).

    ``start`` has the values of the fixed parameters.
    """
    began = time.perf_counter()
    together = NodeConditions(model, model.structure().free)
    if together.size > MOST_CONDITIONS:
        raise PolicyError(
            f"'Nodewise >> optimal' has {together.size:,} moment conditions; its dense weights take at most "
            f"{MOST_CONDITIONS:,}. Use 'PL1 >> optimal', which has local weights."
        )
    fits, work = samples.fits(together, start, free)
    with one_blas_thread(with_scipy=True):
        transform, shares = _scores_of_nodes(together, fits), _average_weights(fits, start, free)
        average = _average(fits, shares, start)
        conditions = Stack(together, together.score_coefficients.toarray(), None, None, 0)
        keep = np.flatnonzero(free)
        Lambda = _first_weights(fits, len(free))[keep]

        def weigh(halves: Sequence[ScoreMoments]) -> Weights:
            return choose_weights([_transformed(half, transform) for half in halves], Lambda, RIDGES[0])

        exact = is_exact(model)
        at = ModelMoments(model, average, conditions, None if exact else samples.table(), random_state, free)
        weights, halves, source = at.weighed(weigh, None, exact)
        everything = _transformed(all_moments(halves), transform)
        averaging = _average_matrix(fits, shares)[keep]
        if weights.roots is None:
            plain = relative_variance(covariance_of(averaging, everything), everything.information)
        else:
            plain = root_variance(averaging, everything)
        matrix = np.zeros((len(free), together.size))
        matrix[keep] = weights.matrix @ transform
        theta = _combined(matrix[keep], together, fits, start, keep)
        shifts = np.stack([fit.theta - theta for fit in fits])
        separate = samples.conditions(SeparateConditions(together, shifts))
    count = halves[0].draws
    account = Account(
        distance=1,
        conditions=len(transform),
        draws=0 if count is None else sum(half.draws or 0 for half in halves),
        source=source,
        ridge=weights.ridge,
        predicted=weights.predicted if weights.roots is None else weights.roots[0],
        first=plain,
        accepted=True,
        steps=len(fits),
        seconds=time.perf_counter() - began,
        message="",
    )
    return average, Refined(theta, account, conditions, separate, matrix, free, np.zeros(len(free))), work


def _scores_of_nodes(together: NodeConditions, fits: Sequence[NodeFit]) -> FloatArray:
    """T (q, p): the scores s of the variables, one entry for each of a variable's parameters, are T g."""
    rows = []
    for fit, conditions in zip(fits, together.slices, strict=True):
        block = np.zeros((len(fit.parameters), together.size))
        block[:, conditions] = together.score_coefficients[:, conditions].toarray()[fit.parameters]
        rows.append(block)
    return np.concatenate(rows)


def _first_weights(fits: Sequence[NodeFit], r: int) -> FloatArray:
    """(r, q): the sum of all scores of a parameter, which is PL1's."""
    parameters = np.concatenate([fit.parameters for fit in fits])
    matrix = np.zeros((r, len(parameters)))
    matrix[parameters, np.arange(len(parameters))] = 1.0
    return matrix


def _average_weights(fits: Sequence[NodeFit], start: FloatArray, free: BoolArray) -> list[FloatArray]:
    """For each variable the weights of its estimates in the average: their precisions, as parts of 1."""
    inverses = [np.diag(bread_inverse(fit.hessian)) for fit in fits]
    precisions = [1.0 / np.where(inverse > 0, inverse, np.inf) for inverse in inverses]
    total = np.zeros(len(start))
    for fit, precision in zip(fits, precisions, strict=True):
        total[fit.parameters] += precision
    if np.any(total[free] <= 0):
        raise PolicyError("A parameter is in no variable's regression, so 'Nodewise >> optimal' cannot estimate it.")
    return [precision / total[fit.parameters] for fit, precision in zip(fits, precisions, strict=True)]


def _average(fits: Sequence[NodeFit], shares: Sequence[FloatArray], start: FloatArray) -> FloatArray:
    average = start.copy()
    for fit in fits:
        average[fit.parameters] = 0.0
    for fit, share in zip(fits, shares, strict=True):
        average[fit.parameters] += share * fit.theta[fit.parameters]
    return average


def _average_matrix(fits: Sequence[NodeFit], shares: Sequence[FloatArray]) -> FloatArray:
    """(r, q): the weights of the scores s that have the same first-order error as the average."""
    r = len(fits[0].theta)
    columns = []
    for fit, share in zip(fits, shares, strict=True):
        block = np.zeros((r, len(fit.parameters)))
        block[fit.parameters] = share[:, None] * bread_inverse(fit.hessian)
        columns.append(block)
    return np.concatenate(columns, axis=1)


def _transformed(moments: ScoreMoments, transform: FloatArray) -> ScoreMoments:
    """The moments of T g."""
    return ScoreMoments(
        transform @ moments.V @ transform.T, transform @ moments.K, moments.information, moments.draws
    )


def _combined(
    weights: FloatArray, together: NodeConditions, fits: Sequence[NodeFit], start: FloatArray, keep: IntArray
) -> FloatArray:
    """θ̂ = (Σ_j W_j G_j)⁻¹ Σ_j W_j G_j θ̃_j."""
    left, right = np.zeros((len(keep), len(keep))), np.zeros(len(keep))
    for fit, conditions in zip(fits, together.slices, strict=True):
        product = weights[:, conditions] @ fit.derivative[:, keep]
        left += product
        right += product @ fit.theta[keep]
    theta = start.copy()
    theta[keep] = bread_inverse(left, tolerance=1e-9) @ right
    return theta

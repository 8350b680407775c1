"""The base class of compiled problems.

A `Problem` is model + data + selection compiled to read-only arrays. Write ψ_i(θ) = ∇ m_θ(X_i, Z_i) for the score of
sample i, the gradient of m_θ(X_i, Z_i) = Σ_j β_j Z_ij log p_θ(x_A|x_B). Everything above this layer (objective,
optimisers, standard errors, weights, shards) needs only the sums over samples that a Problem computes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from fieldfit.data.dataset import Dataset
from fieldfit.policies.structure import BoundFamily
from fieldfit.steps import stepped
from fieldfit.threads import one_blas_thread
from fieldfit.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fieldfit.models.located import LocatedScores
    from fieldfit.models.potts_coordinates import CentredCoordinates
    from fieldfit.models.work import FamilyWork
    from fieldfit.optim.stochastic import Batches
    from fieldfit.policies.policy import BoundPolicy

#: θ ↦ Σ_i w_i r_j (m,) and Σ_i w_i c_k r_j (m, m), see `Problem.residual_products`.
ResidualProducts = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Problem(ABC):
    """Sums over samples of the stochastic composite log-likelihood. All are sums, never means.

    ``row_weight`` (n_samples,) multiplies each sample; None is all ones. Sample weights, score products and
    subsampling all use it, so that no sum is written twice.
    """

    n_samples: int
    n_parameters: int
    n_families: int
    #: The optimiser for "auto": chosen by what the problem offers, or L-BFGS without a preconditioner.
    optimiser: Literal["auto", "lbfgs"] = "auto"
    #: Number of pairs in L-BFGS; None: the default.
    pairs: int | None = None
    #: Relative error of the values, where they are less accurate than double precision: optimisers then rely on gradients.
    value_noise: float = 0.0
    #: Whether scores are streamed in blocks of many samples. If not, only scores of few samples are computed.
    streams_scores: bool = True
    #: Whether a product needs messages to other processes. With few parameters, the whole Hessian is then computed at
    #: once.
    remote: bool = False

    @abstractmethod
    def value_grad(self, theta: FloatArray, row_weight: FloatArray | None = None) -> tuple[float, FloatArray]:
        """Σ_i w_i m_θ(X_i, Z_i) and its gradient (n_parameters,)."""

    @abstractmethod
    def hessian_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) v (negative semi-definite if nothing is summed out)."""

    def batches(self, precision: float, row_weight: FloatArray | None = None) -> Batches | None:
        """The negative sum with the penalty ½ · precision · ‖θ‖², for stochastic gradients; None if not supported."""
        return None

    @abstractmethod
    def row_values(self, theta: FloatArray) -> FloatArray:
        """m_θ(X_i, Z_i) for each sample."""

    @abstractmethod
    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""

    @abstractmethod
    def family_scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """Scores of the samples start..stop by family, without β: (stop − start, n_families, n_parameters).

        A family with a weight for each component is scored with these weights, and has 1 in `betas`.
        """

    @property
    @abstractmethod
    def betas(self) -> FloatArray:
        """The weight β of each family (n_families,)."""

    def with_betas(self, betas: FloatArray) -> Problem | None:
        """The same samples and selected components with other weights β of the families (n_families,), or None.

        Nothing is compiled again, and families of weight 0 cost nothing in sums over samples. None: not supported,
        and the caller compiles a new problem.
        """
        return None

    def compact(self) -> Problem:
        """The problem for sums in less memory, which may take more time: for fits that soon leave out most parameters."""
        return self

    def without(self, zeros: BoolArray) -> tuple[Problem, IntArray] | None:
        """The problem without some of the parameters ``zeros`` (r,), which are 0, and the places of the others.

        None is for problems whose sums take no less time for that.
        """
        del zeros
        return None

    def redrawn(self, bound: BoundPolicy, theta: FloatArray, seed: int) -> Problem | None:
        """The problem with other samples, drawn at θ, and a selection of ``bound`` drawn with the same seed.

        Only problems in shards support this. None: the caller simulates and compiles.
        """
        del bound, theta, seed
        return None

    def residual_products(self, row_weight: FloatArray | None = None) -> ResidualProducts | None:
        """For PL1 of a dense binary field: θ ↦ Σ_i w_i r_j (m,) and Σ_i w_i c_k r_j (m, m), r = c − E[c | all others].

        None for all other problems.
        """
        del row_weight
        return None

    def score_product(self, theta: FloatArray, v: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i ψ_iᵀ v, in two passes and without storing a score."""
        products = self.row_products(theta, v)
        if row_weight is not None:
            products = products * row_weight
        return self.value_grad(theta, products)[1]

    def scores(self, theta: FloatArray, start: int, stop: int) -> FloatArray:
        """ψ_i of the samples start..stop, a dense block (stop − start, n_parameters)."""
        blocks: FloatArray = np.einsum("ifr,f->ir", self.family_scores(theta, start, stop), self.betas)
        return blocks

    def score_blocks(self, theta: FloatArray, rows: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Stream the scores as (first sample, block); at most about 64 MB at a time."""
        if rows is None:
            rows = max(1, int(8_000_000 // max(1, self.n_parameters * self.n_families)))
        for start in range(0, self.n_samples, rows):
            stop = min(start + rows, self.n_samples)
            yield start, self.scores(theta, start, stop)

    @property
    def block_rows(self) -> int:
        """Samples in a block of scores. Large blocks cost page faults, and many small blocks cost layouts."""
        return max(256, int(2_000_000 // max(1, self.n_parameters * self.n_families)))

    def family_score_blocks(
        self, theta: FloatArray, row_weight: FloatArray | None = None
    ) -> Iterator[tuple[FloatArray | None, FloatArray]]:
        """Stream the scores by family as (weights, block (k, n_families, n_parameters)), about 16 MB at a time.

        Weighted sums over all blocks equal those over the samples. Samples with equal scores may be merged, with the
        sum of their weights.
        """
        size, equal = self.block_rows, self.equal_samples
        if equal is not None:
            first, number = equal
            summed = np.bincount(number, row_weight, len(first)).astype(np.float64)
            for start in range(0, len(first), size):
                yield summed[start : start + size], self.family_scores_of(theta, first[start : start + size])
            return
        for start in range(0, self.n_samples, size):
            stop = min(start + size, self.n_samples)
            weight = None if row_weight is None else row_weight[start:stop]
            yield weight, self.family_scores(theta, start, stop)

    @property
    def equal_samples(self) -> tuple[IntArray, IntArray] | None:
        """The first sample of each class of samples with equal scores, and the class of each sample; None: not merged."""
        return None

    def family_scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """`family_scores` of some samples; required if `equal_samples` merges some."""
        return np.concatenate([self.family_scores(theta, row, row + 1) for row in rows.tolist()])

    def scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """ψ of some samples (rows, n_parameters)."""
        scores: FloatArray = np.einsum("ifr,f->ir", self.family_scores_of(theta, rows), self.betas)
        return scores

    def family_statistics(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i^(f) ∘ ψ_i^(g), without β: the diagonals of the meat by pairs of families.

        The result is (n_families, n_families, n_parameters); it adds up over shards, and scores are streamed.
        """
        families = self.n_families
        total = np.zeros((families, families, self.n_parameters))
        for weight, block in self.family_score_blocks(theta, row_weight):
            for f in range(families):
                weighted = block[:, f] if weight is None else block[:, f] * weight[:, None]
                for g in range(f, families):
                    total[f, g] += np.einsum("ir,ir->r", weighted, block[:, g])
        for f in range(families):
            for g in range(f):
                total[f, g] = total[g, f]
        return total

    def family_products(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i^(f) ψ_i^(g)ᵀ, without β: (n_families, n_families, n_parameters, n_parameters), scores streamed."""
        families, r = self.n_families, self.n_parameters
        total = np.zeros((families * r, families * r))
        for weight, block in self.family_score_blocks(theta, row_weight):
            flat = block.reshape(len(block), families * r)
            total += (flat if weight is None else flat * weight[:, None]).T @ flat
        return np.ascontiguousarray(total.reshape(families, r, families, r).transpose(0, 2, 1, 3))

    def score_moment(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ψ_i ψ_iᵀ as a dense matrix (n_parameters, n_parameters), scores streamed."""
        total = np.zeros((self.n_parameters, self.n_parameters))
        with one_blas_thread():
            for start, block in self.score_blocks(theta):
                if row_weight is None:
                    total += block.T @ block
                else:
                    total += (block * row_weight[start : start + len(block), None]).T @ block
        return (total + total.T) / 2

    def group_scores(
        self, theta: FloatArray, groups: IntArray, n_groups: int, row_weight: FloatArray | None = None
    ) -> FloatArray:
        """Σ_{i∈g} w_i ψ_i of the groups 0..n_groups − 1 (n_groups, n_parameters), scores streamed.

        ``groups`` (n,) is the group of each sample; samples with other numbers are left out.
        """
        sums = np.zeros((n_groups, self.n_parameters))
        for start, block in self.score_blocks(theta):
            some = slice(start, start + len(block))
            sums_by_group(block if row_weight is None else block * row_weight[some, None], groups[some], sums)
        return sums

    def hessian_matrix(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray:
        """Σ_i w_i ∇² m_θ(X_i, Z_i) as a dense matrix (n_parameters, n_parameters), one product for each parameter."""
        r = self.n_parameters
        result = np.empty((r, r))
        unit = np.zeros(r)
        with stepped("second derivatives", range(r)) as counted:
            for column in counted:
                unit[column] = 1.0
                result[:, column] = self.hessian_product(theta, unit, row_weight)
                unit[column] = 0.0
        return (result + result.T) / 2

    @property
    def hessian_evaluations(self) -> float:
        """About how many evaluations of value and gradient take as long as `hessian_matrix`."""
        return 2.0 * self.n_parameters

    @property
    def exact_diagonal(self) -> bool:
        """Whether `hessian_diagonal` is exact."""
        return False

    def hessian_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """Approximate diagonal of −Σ_i w_i ∇² m_θ (positive), for preconditioning; None if it is expensive."""
        return None

    def information_diagonal(self, theta: FloatArray, row_weight: FloatArray | None = None) -> FloatArray | None:
        """The exact diagonal of −Σ_i w_i ∇² m_θ, for statistics; None if it needs a product for each parameter."""
        return self.hessian_diagonal(theta, row_weight) if self.exact_diagonal else None

    def hessian_factor(self, theta: FloatArray, row_weight: FloatArray | None = None) -> csr_array | None:
        """A sparse matrix X (rows, n_parameters) with XᵀX near −Σ_i w_i ∇² m_θ, for preconditioning; else None."""
        return None

    def located_scores(self, theta: FloatArray) -> LocatedScores | None:
        """The scores as sums of terms located at variables; None if the terms are not available."""
        return None

    def family_work(self, family: BoundFamily, dataset: Dataset) -> FamilyWork | None:
        """The counted work of one family on ``dataset``, from this problem with all components selected; None: time it."""
        return None

    def preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray] | None:
        """v ↦ M⁻¹ v with M near P − Σ_i w_i ∇² m_θ, if that is far cheaper than an evaluation; else None.

        P is diagonal with the ``precision`` (n_parameters,) of the penalty.
        """
        return None

    def centred_coordinates(
        self, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> CentredCoordinates | None:
        """Coordinates in which the Hessian is nearly diagonal and the couplings are unchanged; else None."""
        return None

    def late_preconditioner(
        self, theta: FloatArray, precision: FloatArray, row_weight: FloatArray | None = None
    ) -> Callable[[FloatArray], FloatArray] | None:
        """A better M⁻¹ that costs many evaluations, for fits far from the optimum after some iterations; else None."""
        return None


def sums_by_group(rows: FloatArray, group: IntArray, out: FloatArray) -> None:
    """Add each row (n, r) to the line of ``out`` with the number of its group; rows of other groups are left out."""
    here = np.flatnonzero((group >= 0) & (group < len(out)))
    order = here[np.argsort(group[here], kind="stable")]
    if not len(order):
        return
    ordered = group[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    whole = len(order) == len(rows) and np.array_equal(order, here)
    out[ordered[first]] += np.add.reduceat(rows if whole else rows[order], first, axis=0)

"""What a fit needs of its second stage, whatever that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fieldfit.refinement.account import Account, ChainAccount
from fieldfit.refinement.specification import SpecificationTest
from fieldfit.types import BoolArray, FloatArray, Int32Array, IntArray
from fieldfit.variance import Accuracy
from fieldfit.variance.meat import ScoreVariance


class EstimatingScores(Protocol):
    """The estimating functions ψ of samples, whose sum is 0 at the estimate (without a penalty)."""

    @property
    def n_samples(self) -> int:
        """The number of samples."""

    @property
    def n_parameters(self) -> int:
        """The length r of θ."""

    def score_blocks(self, theta: FloatArray, rows: int | None = None) -> Iterator[tuple[int, FloatArray]]:
        """Stream ψ as (first sample, block)."""

    def row_products(self, theta: FloatArray, v: FloatArray) -> FloatArray:
        """ψ_iᵀ v for each sample."""

    def scores_of(self, theta: FloatArray, rows: IntArray) -> FloatArray:
        """ψ of some samples (rows, r)."""


class SecondStage(Protocol):
    """The estimate of a second stage with its samples: scores, accuracy and Hansen's test."""

    @property
    def theta(self) -> FloatArray:
        """The estimate (r,)."""

    @property
    def account(self) -> Account | ChainAccount:
        """How it went."""

    @property
    def testable(self) -> bool:
        """Whether Hansen's test is available."""

    @property
    def scores(self) -> EstimatingScores:
        """ψ of the fitted samples."""

    def scores_of_new(self, codes: Int32Array) -> EstimatingScores:
        """ψ of other samples, expected over Z."""

    def accuracy(self, variance: ScoreVariance, active: BoolArray, units: FloatArray | None) -> Accuracy:
        """Bread and meat from the data, right whatever the weights, and outside the model too."""

    def model_accuracy(self, counts: bool, active: BoolArray, units: FloatArray | None) -> Accuracy:
        """The same expected under the estimate; ``counts`` says whether sample weights are counts."""

    def specification_test(self, n: float) -> SpecificationTest:
        """Hansen's J with ``n`` effective samples."""

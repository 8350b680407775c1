"""Mixtures of a few families for the paper's figures: variance relative to the MLE, and cost in the paper's FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fieldfit import Policy, asymptotics
from fieldfit.data.samples import Table
from fieldfit.models.cost import family_flops
from fieldfit.models.field import FieldModel
from fieldfit.types import FloatArray, ModelError
from fieldfit.variance.mixture_moments import FORMULAS, MixtureMoments

__all__ = ["FORMULAS", "FamilyMixtures", "family_mixtures"]


@dataclass(frozen=True)
class FamilyMixtures:
    """Moments of the families, the paper's FLOPs of a whole family (f,), and the MLE's covariance (r, r)."""

    moments: MixtureMoments
    flops: FloatArray
    mle_covariance: FloatArray

    def efficiencies(self, lam: FloatArray, beta: FloatArray, formula: str) -> dict[str, FloatArray]:
        """Ratios to the MLE for each point: of traces, of determinants, and the latter's r-th root."""
        log_det, trace = self.moments.sizes(lam, beta, formula)
        log_ratio = log_det - np.linalg.slogdet(self.mle_covariance)[1]
        relative = trace / np.trace(self.mle_covariance)
        return {"trace": relative, "det": np.exp(log_ratio), "root": np.exp(log_ratio / len(self.mle_covariance))}

    def cost(self, lam: FloatArray) -> FloatArray:
        """The paper's FLOPs of one sample in the mean over Z, for λ of shape (points, f)."""
        return lam @ self.flops


def family_mixtures(model: FieldModel, theta: FloatArray, names: Sequence[str]) -> FamilyMixtures:
    """The moments of these families when the data come from the model at θ, by enumeration of all states.

    For models without gauge freedom, whose bread is regular.
    """
    theory = asymptotics(model, theta, names[0])
    if theory.mle_covariance is None:
        raise ModelError(f"There is no maximum likelihood to compare with: {theory.why_no_mle}")
    codes, probability = model.joint_probabilities(theta)
    table = Table(codes, model.names, model.states)
    structure = model.structure()
    moments = MixtureMoments.enumerated(names, structure, lambda z: model.compile(table, z), theta, probability)
    bound = [Policy.parse(name).bind(structure).families[0] for name in names]
    flops = [float(np.broadcast_to(family_flops(model, b), (b.size or 1,)).sum()) for b in bound]
    return FamilyMixtures(moments, np.array(flops), theory.mle_covariance)

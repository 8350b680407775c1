"""Mixtures of a few families for many (λ, β) at once: variance relative to the MLE, and cost in the paper's FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.theory import asymptotics
from fieldfit.data.samples import Table
from fieldfit.models.cost import family_flops
from fieldfit.models.field import FieldModel
from fieldfit.policies import Optimal, Policy, Staged, as_estimator, as_policy
from fieldfit.refinement.stacking import stack
from fieldfit.types import FloatArray, ModelError, PolicyError
from fieldfit.variance.mixture_moments import MixtureMoments


@dataclass(frozen=True)
class FamilyMixtures:
    """Moments of some families at θ, from which the variance of every mixture of them follows.

    Parameters
    ----------
    moments : MixtureMoments
        Bread and meat of the families.
    flops : ndarray of shape (f,)
        The paper's FLOPs of all components of a family for one sample.
    mle_covariance : ndarray of shape (r, r)
        Asymptotic covariance of maximum likelihood for one sample.

    Examples
    --------
    >>> import fieldfit as ff
    >>> mixtures = ff.family_mixtures(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], ["PL1", "FL"])
    >>> mixtures.flops.tolist()
    [21.0, 27.0]
    """

    moments: MixtureMoments
    flops: FloatArray
    mle_covariance: FloatArray

    def efficiencies(self, lam: FloatArray, beta: FloatArray, formula: str = "exact") -> dict[str, FloatArray]:
        """Compute the variance of mixtures relative to maximum likelihood.

        Parameters
        ----------
        lam : ndarray of shape (points, f)
            Selection probabilities λ of the families.
        beta : ndarray of shape (points, f)
            Weights β of the families.
        formula : {"exact", "published"}, default: "exact"
            Whether the noise of selecting components at random counts, or as in the paper's Proposition 2.

        Returns
        -------
        dict of ndarray of shape (points,)
            Ratios of traces (``"trace"``), of determinants (``"det"``) and the r-th root of the latter (``"root"``).

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> mixtures = ff.family_mixtures(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], ["PL1", "FL"])
        >>> mixtures.efficiencies(np.array([[1.0, 0.0], [1.0, 0.5]]), np.array([[1.0, 0.0], [0.5, 0.5]]))["root"].round(3)
        array([1.143, 1.152])
        """
        log_det, trace = self.moments.sizes(lam, beta, formula)
        log_ratio = log_det - np.linalg.slogdet(self.mle_covariance)[1]
        relative = trace / np.trace(self.mle_covariance)
        return {"trace": relative, "det": np.exp(log_ratio), "root": np.exp(log_ratio / len(self.mle_covariance))}

    def cost(self, lam: FloatArray) -> FloatArray:
        """Compute the paper's FLOPs of one sample, in the mean over Z.

        Parameters
        ----------
        lam : ndarray of shape (points, f)
            Selection probabilities λ of the families.

        Returns
        -------
        ndarray of shape (points,)

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> mixtures = ff.family_mixtures(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], ["PL1", "FL"])
        >>> mixtures.cost(np.array([[1.0, 0.0], [1.0, 0.5]])).tolist()
        [21.0, 34.5]
        """
        return lam @ self.flops


def family_mixtures(model: FieldModel, theta: ArrayLike, families: Sequence[str]) -> FamilyMixtures:
    """Compute the moments of families once, for the variance of all their mixtures.

    `asymptotics` computes the variance of one policy. For a grid of selection probabilities λ and weights β this is
    thousands of times faster.

    Parameters
    ----------
    model : FieldModel
        A model without gauge freedom and with at most 65,536 joint states.
    theta : array_like of shape (r,)
        The true parameters.
    families : sequence of str
        Policies of one term, with λ = β = 1: ``"PL1"``, ``"PL2/row"``, ``"Partition(2)"``.

    Returns
    -------
    FamilyMixtures

    Examples
    --------
    >>> import numpy as np
    >>> import fieldfit as ff
    >>> mixtures = ff.family_mixtures(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], ["PL1", "FL"])
    >>> mixtures.efficiencies(np.eye(2), np.ones((2, 2)))["root"].round(3)
    array([1.143, 1.   ])
    """
    vector = model.check_theta(theta)
    theory = asymptotics(model, vector, families[0])
    if theory.mle_covariance is None:
        raise ModelError(f"There is no maximum likelihood to compare with: {theory.why_no_mle}")
    codes, probability = model.joint_probabilities(vector)
    table = Table(codes, model.names, model.states)
    structure = model.structure()
    moments = MixtureMoments.enumerated(families, structure, lambda z: model.compile(table, z), vector, probability)
    flops = [float(component_flops(model, name).sum()) for name in families]
    return FamilyMixtures(moments, np.array(flops), theory.mle_covariance)


def component_flops(model: FieldModel, policy: Policy | str) -> FloatArray:
    """Count the paper's FLOPs of each component of a policy for one sample.

    Parameters
    ----------
    model : FieldModel
        A field.
    policy : str or Policy
        The policy.

    Returns
    -------
    ndarray of shape (components,)
        r |X_A| + r/K for a component with |X_A| states of a family with K components, family by family.

    Examples
    --------
    >>> import fieldfit as ff
    >>> ff.component_flops(ff.BoltzmannMachine(3), "PL1 + PL2").tolist()
    [7.0, 7.0, 7.0, 13.0, 13.0, 13.0]
    """
    bound = as_policy(policy).bind(model.structure())
    return np.concatenate([np.broadcast_to(family_flops(model, own), (own.size or 1,)) for own in bound.families])


def condition_count(model: FieldModel, estimator: Staged | str) -> int:
    """Count the moment conditions of an estimator such as ``"PL1 >> optimal(2)"``.

    Parameters
    ----------
    model : FieldModel
        A field.
    estimator : str or Staged
        A policy with a second stage ``optimal``.

    Returns
    -------
    int
        The number p of conditions. The second stage needs their p × p covariance matrix.

    Examples
    --------
    >>> import fieldfit as ff
    >>> ff.condition_count(ff.BoltzmannMachine.grid(3, 3), "PL1 >> optimal(1)")
    24
    """
    staged = as_estimator(estimator)
    if isinstance(staged, Staged) and isinstance(staged.first, Policy) and isinstance(staged.second, Optimal):
        distance = staged.second.distance
        if distance is not None:
            return stack(model, staged.first.bind(model.structure()), distance).conditions.size
    raise PolicyError(
        f"'{estimator}' has no fixed number of moment conditions; give a graph distance, as in 'PL1 >> optimal(2)'."
    )

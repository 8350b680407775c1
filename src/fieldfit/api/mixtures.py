"""Mixtures of a few families for many (λ, β) at once: variance relative to the MLE, and cost in the paper's FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.theory import theory
from fieldfit.arguments import real_array
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.models.base import check_model
from fieldfit.models.cost import family_flops
from fieldfit.models.field import FieldModel
from fieldfit.policies import Policy, as_policy
from fieldfit.policies.laws.base import Noise
from fieldfit.refinement.staged import Staged, as_estimator
from fieldfit.types import FloatArray, ModelError, PolicyError


@dataclass(frozen=True)
class FamilyMixtures:
    """Moments of some families at θ, from which the variance of every mixture of them follows.

    Parameters
    ----------
    moments : MixtureMoments
        Bread and meat of the families.
    flops : ndarray of shape (f,)
        The paper's FLOPs of a family for one sample, averaged over Z: of all its components, or of those that a law
        without a free λ selects.
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
            Selection probabilities λ of the families. That of a law without a free λ, such as ``Partition(2)``, is 1,
            or 0 to leave it out.
        beta : ndarray of shape (points, f)
            Weights β of the families.
        formula : {"exact", "published"}, default: "exact"
            With the noise of random selection, or without it, as in Proposition 2 of the paper.

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
        chosen, weight = self._checked(lam, "lam", 1.0), self._checked(beta, "beta", np.inf)
        if chosen.ndim != 2 or chosen.shape != weight.shape:
            raise ModelError(f"lam and beta must have one shape (points, f); got {chosen.shape} and {weight.shape}.")
        fixed = [Policy.parse(name).laws[0].noise is Noise.FIXED for name in self.moments.names]
        if np.any((chosen[:, fixed] > 0) & (chosen[:, fixed] < 1)):
            raise ModelError("A law without a free λ needs λ = 1, or 0 to leave it out.")
        weight = np.where(chosen > 0, weight, 0.0)
        if not (weight > 0).any(axis=1).all():
            raise ModelError("A mixture selects nothing: give at least one family a positive λ and a positive β.")
        try:
            log_det, trace = self.moments.sizes(chosen, weight, formula)
        except np.linalg.LinAlgError:
            raise ModelError("A mixture does not determine all parameters, so its variance is infinite.") from None
        log_ratio = log_det - np.linalg.slogdet(self.mle_covariance)[1]
        relative = trace / np.trace(self.mle_covariance)
        return {"trace": relative, "det": np.exp(log_ratio), "root": np.exp(log_ratio / len(self.mle_covariance))}

    def cost(self, lam: ArrayLike) -> FloatArray:
        """Compute the paper's FLOPs for one sample, averaged over Z.

        Parameters
        ----------
        lam : ndarray of shape (points, f) or (f,)
            Selection probabilities λ of the families.

        Returns
        -------
        ndarray of shape (points,), or a number

        Examples
        --------
        >>> import numpy as np
        >>> import fieldfit as ff
        >>> mixtures = ff.family_mixtures(ff.BoltzmannMachine(3), [1.0, -1.0, 0.5], ["PL1", "FL"])
        >>> mixtures.cost(np.array([[1.0, 0.0], [1.0, 0.5]])).tolist()
        [21.0, 34.5]
        """
        return self._checked(lam, "lam", 1.0) @ self.flops

    def _checked(self, values: ArrayLike, name: str, most: float) -> FloatArray:
        """Numbers in [0, most], one for each family in the last dimension."""
        try:
            given = real_array(values)
        except (TypeError, ValueError):
            raise ModelError(f"{name} must be an array of numbers with one for each family.") from None
        if given.ndim not in (1, 2) or given.shape[-1] != self.moments.count:
            raise ModelError(
                f"{name} has shape {given.shape}; its last dimension must have one number for each of "
                f"{self.moments.count} families."
            )
        if not ((given >= 0) & (given <= most) & np.isfinite(given)).all():
            bounds = "lie in [0, 1]" if most == 1 else "be at least 0 and finite"
            raise ModelError(f"The numbers in {name} must {bounds}.")
        return given


def family_mixtures(model: FieldModel, theta: ArrayLike, families: Sequence[str]) -> FamilyMixtures:
    """Compute the moments of families once, for the variance of all their mixtures.

    `theory` computes the variance of one policy. For a grid of selection probabilities λ and weights β this is
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
    check_model(model, "family_mixtures")
    model = model.as_field("family_mixtures")
    policies = _single_terms(families)
    vector = model.check_theta(theta)
    reference = theory(model, vector, policies[0], method="enumeration")
    if reference.mle_covariance is None:
        raise ModelError(f"There is no maximum likelihood to compare with: {reference.why_no_mle}")
    if reference.basis is not None and reference.basis.shape[1] < len(vector):
        raise ModelError(
            f"The model determines {reference.basis.shape[1]} functions of its {len(vector)} parameters only (gauge "
            "freedom), so their variances cannot be compared. Use a model with one parameter for each function."
        )
    table, probability = model.weighted_samples(vector)
    structure = model.structure()
    moments = MixtureMoments.enumerated(policies, structure, lambda z: model.compile(table, z), vector, probability)
    flops = [float(component_flops(model, policy) @ policy.bind(structure).mean()) for policy in policies]
    return FamilyMixtures(moments, np.array(flops), reference.mle_covariance)


def _single_terms(families: Sequence[str]) -> list[Policy]:
    """Parse the families as policies of one law with λ = β = 1; other policies do not have the moments of a family."""
    if isinstance(families, str) or not isinstance(families, Sequence) or not families:
        raise PolicyError(
            f"families must be a list such as ['PL1', 'FL'] with at least one entry; got {families!r:.80}."
        )
    policies = [as_policy(family) for family in families]
    for policy in policies:
        if len(policy.laws) != 1 or policy.laws[0].unit()[0] != policy.laws[0]:
            raise PolicyError(
                f"'{policy}' is not one term with λ = β = 1. Name single families, such as 'PL1' and 'PL2', and give λ "
                "and β to efficiencies()."
            )
    return policies


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
        r S + r/K for a component with S joint states of a family with K components, family by family; infinite
        beyond 1e308.

    Examples
    --------
    >>> import fieldfit as ff
    >>> ff.component_flops(ff.BoltzmannMachine(3), "PL1 + PL2").tolist()
    [7.0, 7.0, 7.0, 13.0, 13.0, 13.0]
    """
    check_model(model, "component_flops")
    model = model.as_field("component_flops")
    bound = as_policy(policy).bind(model.structure())
    return np.concatenate(
        [np.broadcast_to(family_flops(model, family), (family.size or 1,)) for family in bound.families]
    )


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
    check_model(model, "condition_count")
    model = model.as_field("condition_count")
    staged = as_estimator(estimator)
    if isinstance(staged, Staged):
        return staged.second.condition_count(model, staged.first)
    raise PolicyError(f"'{estimator}' has no second stage, and so no moment conditions; use 'PL1 >> optimal(2)'.")

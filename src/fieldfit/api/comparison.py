"""Tests and criteria for composite likelihoods, with the correct null distributions.

The information identity does not hold for composite likelihoods, so −2 log of a ratio is not χ². Let H be the
Hessian, M the score products (both from the data, so that the results hold for misspecified models too) and V = H⁻¹ M
H⁻¹:

- Wald:  (Rθ̂ − c)ᵀ (R V Rᵀ)⁻¹ (Rθ̂ − c) → χ²_q.
- score: at the fit with q parameters a fixed, u = ψ_a − H_ab H_bb⁻¹ ψ_b is what b cannot explain of the score of a;
  (Σu)ᵀ (Σ uuᵀ)⁻¹ (Σu) → χ²_q.
- ratio: 2(cℓ(θ̂) − cℓ(θ̃)) → Σ_k w_k χ²_1, w the eigenvalues of ([H⁻¹]_aa)⁻¹ V_aa (Kent 1982).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from fieldfit.api.accuracies import checked_kind, score_variance
from fieldfit.api.cautions import few_samples, near_optimum, without_spread
from fieldfit.api.estimate_table import parameter_estimates
from fieldfit.api.functionals import combination, contrast, unit_rows
from fieldfit.api.refinement import refuse_refined
from fieldfit.arguments import has_entries, instance_of, one_of, real_array
from fieldfit.asymptotics import DenseAccuracy, robust_moments, weighted_chi_square_tail
from fieldfit.asymptotics.range_inverse import range_inverse
from fieldfit.callers import warn_caller
from fieldfit.docstrings import SHARED, filled
from fieldfit.named import places_of
from fieldfit.types import (
    ConvergenceWarning,
    DataError,
    FewSamplesWarning,
    FieldfitError,
    FloatArray,
    IntArray,
    ModelError,
)
from fieldfit.words import sentence

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.accuracies import Kind
    from fieldfit.api.result import Fit
    from fieldfit.api.standard_errors import StandardErrors


#: Accuracy of the null space of a bread.
_NULL_ACCURACY = 1e-5


@filled(SHARED)
@dataclass(frozen=True)
class HypothesisTest:
    """A test statistic and its p-value. The null distribution is Σ_k ``weights``_k χ²_1; for χ², all weights are 1.

    Parameters
    ----------
    name : str
        Name of the test.
    statistic : float
        The statistic.
    weights : ndarray of shape (q,)
        Weights of the null distribution, one for each restriction.
    p : float
        The p-value.
    caution : str, default: ""
        Why not to rely on the p-value, if there is a reason.

    Examples
    --------
    %(fit_of_pairs)s
    >>> test = fit.wald_test(["x0", "x1"])
    >>> test.degrees_of_freedom, test.p < 0.05
    (2, True)
    """

    name: str
    statistic: float
    weights: FloatArray
    p: float
    caution: str = ""

    @property
    def degrees_of_freedom(self) -> int:
        """Number q of restrictions."""
        return len(self.weights)

    @property
    def adjusted(self) -> float:
        """The statistic divided by the mean weight. Under the null hypothesis it has the mean of χ²_q."""
        return self.statistic / float(self.weights.mean())

    def __str__(self) -> str:
        q = len(self.weights)
        if np.allclose(self.weights, 1.0):
            law = f"χ² with {q} degree{'s' if q > 1 else ''} of freedom"
        elif q == 1:
            law = f"{self.weights[0]:.3g} times χ²₁"
        else:
            law = f"a sum of {q} weighted χ²₁, weights {self.weights.min():.3g} to {self.weights.max():.3g}"
        text = f"{self.name} test: {self.statistic:.4f}, p = {self.p:.4g} ({law})"
        return f"{text}. Caution: {self.caution}" if self.caution else text


def wald_test(
    fit: StandardErrors, hypothesis: object, value: object = 0.0, *, kind: Kind = "robust"
) -> HypothesisTest:
    """Test the linear hypothesis R θ = value with a Wald test.

    Parameters
    ----------
    hypothesis : str, dict, sequence of these or ndarray of shape (q, r)
        Parameters, contrasts such as ``"x0:x1 - x1:x2"``, mappings {parameter: coefficient}, or the matrix R. Linearly
        dependent rows count once.
    value : float or sequence of float, default: 0.0
        Value of each row of R θ.
    %(kind)s

    Returns
    -------
    HypothesisTest

    Examples
    --------
    %(fit)s
    >>> print(fit.wald_test("x0:x1 - x1:x2"))
    Wald test: 2.5873, p = 0.1077 (χ² with 1 degree of freedom)
    """
    rows = restrictions(fit, hypothesis)
    caution = _cautious(fit, len(rows), checked_kind(kind))
    _refuse_held(fit, rows, kind)
    statistic, degrees = wald_statistic(fit, rows, value, kind)
    return replace(_chi_square("Wald", statistic, degrees), caution=caution)


#: Fewest samples per restriction of a joint test. With fewer, the covariance would have too few terms.
_LEAST_FOR_RESTRICTION = 5


def _cautious(fit: StandardErrors, restrictions: int, kind: Kind) -> str:
    """A caution if the large-sample distribution is inaccurate. Raises an error with far too few samples."""
    if kind != "robust":
        return ""
    size = fit.total if fit.size.groups is None else fit.size.groups
    instead = "fit.bootstrap_test and fit.permutation_test simulate the null distribution"
    if restrictions > 1 and size < _LEAST_FOR_RESTRICTION * restrictions:
        raise ModelError(
            f"A joint test of {restrictions} restrictions with {size:,.0f} samples would reject nearly anything: their "
            f"robust covariance comes from fewer than {_LEAST_FOR_RESTRICTION} samples for each. Test fewer at once; use "
            f"kind='model', if you trust the model; or use other tests: {instead}."
        )
    few = few_samples(fit, kind)
    said = f"{few}. The p-value is then too small as well; {instead}" if few else ""
    return ". ".join(text for text in (near_optimum(fit), said) if text)


def _refuse_held(fit: StandardErrors, rows: FloatArray, kind: Kind) -> None:
    """Raise an error for restrictions on parameters that only the penalty keeps finite: they have no robust variance."""
    held = np.flatnonzero(without_spread(fit, kind) & (rows != 0).any(axis=0))
    if len(held):
        names = [fit.model.parameter_names[place] for place in held[:10]]
        more = f" and {len(held) - 10} more" if len(held) > 10 else ""
        raise ModelError(
            f"Only the penalty keeps {', '.join(names)}{more} finite: some joint state never occurs in the samples, which "
            f"have no spread for a {kind} test. Use kind='model', or test other parameters."
        )


def wald_statistic(fit: StandardErrors, rows: FloatArray, value: object, kind: Kind) -> tuple[float, int]:
    """(Rθ̂ − c)ᵀ (R V Rᵀ)⁻¹ (Rθ̂ − c), and the number of independent restrictions."""
    try:
        wanted = real_array(value)
    except (TypeError, ValueError):
        wanted = np.array(np.nan)
    if wanted.shape not in ((), (1,), (len(rows),)) or not np.isfinite(wanted).all():
        raise ModelError(
            f"The hypothesis has {len(rows)} restriction{'s' if len(rows) > 1 else ''}; value must be one finite number, "
            f"or one for each, and is {value!r:.80}."
        )
    if not rows.any(axis=1).all():
        raise ModelError("A restriction has only coefficients that are 0; it needs at least one other number.")
    gap = rows @ fit.theta - wanted
    covariance = fit.accuracy(kind).covariance_of(rows)
    if np.isnan(covariance).any():
        raise ModelError("Some of the functions tested are not identified: the data do not determine them.")
    inner = range_inverse(covariance)
    relative = inner.scale * gap  # in standard errors
    if inner.nullity and np.abs(inner.null.T @ relative).max() > 1e-8 * max(1.0, float(np.abs(relative).max())):
        rank, independent = len(rows) - inner.nullity, int(np.linalg.matrix_rank(rows[:, fit.active]))
        if rank < independent:
            raise ModelError(
                f"There is no Wald statistic: the {kind} covariance of {independent} restrictions has rank {rank}, because "
                "the samples are too few. Use kind='model', or test fewer restrictions at once."
            )
        raise ModelError("The restrictions contradict each other or the values of fixed parameters.")
    return float(gap @ inner.inverse @ gap), len(rows) - inner.nullity


def restrictions(fit: StandardErrors, hypothesis: object) -> FloatArray:
    """The matrix R (q, r) of a hypothesis."""
    names, r = fit.model.parameter_names, len(fit.theta)
    if isinstance(hypothesis, np.ndarray) and hypothesis.ndim == 2:
        if hypothesis.shape[1] != r:
            raise ModelError(f"R has shape {hypothesis.shape}; it needs a column for each of {r} parameters.")
        try:
            return real_array(hypothesis)
        except (TypeError, ValueError):
            raise ModelError(f"R has entries of type {hypothesis.dtype}; they must be numbers.") from None
    several = has_entries(hypothesis) and not isinstance(hypothesis, str | Mapping)
    items: list[object] = list(cast("Iterable[object]", hypothesis)) if several else [hypothesis]
    if not items:
        raise ModelError("The hypothesis is empty.")
    rows = []
    for given in items:
        item = contrast(given, names) if isinstance(given, str) else given
        rows.append(
            combination(item, names)[None] if isinstance(item, Mapping) else unit_rows(places_of(item, names), r)
        )
    return np.concatenate(rows)


def _chi_square(name: str, statistic: float, degrees: int) -> HypothesisTest:
    from scipy.stats import chi2

    if degrees < 1:
        raise ModelError(
            "There is nothing to test: the restrictions concern only parameters that are fixed, or that l1 set to 0 "
            "(use fit.debiased() for those)."
        )
    return HypothesisTest(name, statistic, np.ones(degrees), float(chi2.sf(statistic, degrees)))


def _without_penalty(fit: StandardErrors, test: str) -> None:
    if fit.penalised:
        raise ModelError(
            f"The {test} test needs fits without a penalty: fit again with sigma2=None, or use "
            f"fit.debiased().wald_test(…)."
        )


def score_test(fit: StandardErrors, parameters: object = None) -> HypothesisTest:
    """Test whether the fixed parameters have the values they were fixed at.

    Parameters
    ----------
    parameters : sequence of str or int, or None, default: None
        Fixed parameters to test. None: all fixed parameters.

    Returns
    -------
    HypothesisTest

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.0], 500, random_state=0).values
    >>> null = ff.fit(model, x, "PL1", fixed={"x1:x2": 0.0})
    >>> print(null.score_test())
    Score test: 0.1447, p = 0.7036 (χ² with 1 degree of freedom)
    """
    refuse_refined(fit, "A score test", "Use a Wald test: fit.wald_test(…).")
    _without_penalty(fit, "score")
    fixed = np.flatnonzero(~fit.free)
    a = fixed if parameters is None else places_of(parameters, fit.model.parameter_names)
    if not len(a):
        raise ModelError("The score test is for a fit with fixed parameters: fit with fixed={name: value}.")
    wrong = np.setdiff1d(a, fixed)
    if len(wrong):
        raise ModelError(f"The parameter {fit.model.parameter_names[int(wrong[0])]!r:.80} is not fixed in this fit.")
    objective = fit.needed.objective
    fit.dense_accuracy()  # raises an error for too many parameters
    bread, meat = robust_moments(objective.problem, fit.theta, score_variance(fit))
    total = fit.needed.dataset.total_weight
    b = np.flatnonzero(fit.free)
    units = fit.model.feature_units
    inverse = range_inverse(bread[np.ix_(b, b)], None if units is None else units[b]).inverse
    combine = np.zeros((len(a), len(fit.theta)))
    combine[:, a] = np.eye(len(a))
    combine[:, b] = -bread[np.ix_(a, b)] @ inverse
    score = objective.problem.value_grad(fit.theta, objective.row_weight)[1]
    u = combine @ score
    variance = combine @ meat @ combine.T * total
    inner = range_inverse(variance)
    return _chi_square("Score", float(u @ inner.inverse @ u), len(a) - inner.nullity)


@filled(SHARED)
def likelihood_ratio(full: Fit, null: Fit) -> HypothesisTest:
    """Composite likelihood-ratio test of two nested fits.

    Parameters
    ----------
    full : Fit
        Fit of the larger model, without a penalty.
    null : Fit
        Fit of the smaller model to the same data, with the same policy and seed. Either the same model with fixed
        parameters, or a model with a subset of the parameters, by name; the others are then 0.

    Returns
    -------
    HypothesisTest

    Notes
    -----
    The statistic 2(cℓ(θ̂) − cℓ(θ̃)) has the null distribution Σ_k w_k χ²_1, where w are the eigenvalues of
    ([H⁻¹]_aa)⁻¹ V_aa (Kent 1982).

    Examples
    --------
    %(fit)s
    >>> null = ff.fit(model, x, "PL1", fixed={"x1:x2": 0.5})
    >>> print(ff.likelihood_ratio(fit, null))
    Composite likelihood-ratio test: 0.2576, p = 0.6779 (1.49 times χ²₁)
    """
    from fieldfit.api.state import FitState

    for fit in (full, null):
        instance_of(fit, FitState, "A likelihood ratio needs a fit")
        refuse_refined(fit, "A likelihood ratio", "Use a Wald test: fit.wald_test(…).")
    for fit in (full, null):
        _without_penalty(fit, "likelihood-ratio")
    same_selection = full.policy == null.policy and full.random_state == null.random_state
    if not (same_selection and _same_samples(full, null)):
        raise DataError(
            "The two fits differ in more than their parameters: they need the same samples and weights, policy and "
            "random_state, so that they have the same selection."
        )
    embedded, restricted = _embed(full, null)
    objective = full.needed.objective
    value = objective.problem.value_grad(embedded, objective.row_weight)[0] / full.unit_weight
    if abs(value - null.composite_log_likelihood) > 1e-6 * max(1.0, abs(value)):
        raise ModelError(
            f"The null model is not inside the full one: at its θ the full model's log-likelihood is {value:.6f}, "
            f"and the null model's is {null.composite_log_likelihood:.6f}."
        )
    accuracy = full.dense_accuracy()
    statistic = 2 * (full.composite_log_likelihood - null.composite_log_likelihood)
    weights = ratio_weights(accuracy, restricted) / full.unit_weight
    return HypothesisTest(
        "Composite likelihood-ratio", statistic, weights, weighted_chi_square_tail(max(statistic, 0.0), weights)
    )


def ratio_weights(accuracy: DenseAccuracy, restricted: IntArray) -> FloatArray:
    """Eigenvalues of ([H⁻¹]_aa)⁻¹ V_aa, the weights of the null distribution.

    If the full model has a gauge freedom, fixing a restricts only the identified functions cᵀθ_a: with C a
    basis of them, the weights are the eigenvalues of (Cᵀ[H⁻¹]_aa C)⁻¹ Cᵀ V_aa C, one for each.
    """
    a = np.ix_(restricted, restricted)
    # In the coordinates of the scaled bread; c there is the function D⁻¹c of θ.
    left, values, _ = np.linalg.svd(accuracy.bread.null[restricted], full_matrices=True)
    contrasts = left[:, int(np.sum(values > _NULL_ACCURACY)) :] / accuracy.bread.scale[restricted, None]
    if not contrasts.shape[1]:
        raise ModelError(
            "The null model restricts nothing that the data determine: the full one reaches the same probabilities through "
            "its gauge freedom (directions of θ that change none)."
        )
    inverse = range_inverse(contrasts.T @ accuracy.inverse[a] @ contrasts).inverse
    variance = contrasts.T @ accuracy.covariance[a] @ contrasts * accuracy.moments.total
    return np.sort(np.maximum(np.linalg.eigvals(inverse @ variance).real, 0.0))[::-1]


def _embed(full: Fit, null: Fit) -> tuple[FloatArray, IntArray]:
    """The null's θ among the full model's parameters, and the places that the null restricts."""
    where = {name: place for place, name in enumerate(full.model.parameter_names)}
    embedded = np.zeros(len(full.theta))
    estimated = np.zeros(len(full.theta), dtype=bool)
    for name, value, is_free in zip(null.model.parameter_names, null.theta, null.free, strict=True):
        if name not in where:
            raise ModelError(f"The null model has a parameter {name!r:.80}, which the full one does not have.")
        embedded[where[name]] = value
        estimated[where[name]] = is_free
    restricted = np.flatnonzero(full.free & ~estimated)
    if np.any(estimated & ~full.free):
        raise ModelError("The null model has free parameters that the full one fixes; exchange the two.")
    if not len(restricted):
        raise ModelError("The null model restricts nothing: both fits have the same free parameters.")
    return embedded, restricted


def claic(fit: StandardErrors, kind: Kind = "robust") -> float:
    """Compute the composite likelihood information criterion −2 cℓ(θ̂) + 2 tr(bread⁻¹ meat) (Varin & Vidoni 2005).

    Parameters
    ----------
    %(kind)s

    Returns
    -------
    float
        Smaller is better. Comparable only between fits with the same policy, data and seed.

    Examples
    --------
    %(fit)s
    >>> fit.claic() < fit.clbic()
    True
    """
    refuse_refined(fit, "CLAIC", "Compare the first stages, or use held-out likelihoods (cross_validate).")
    return -2 * fit.composite_log_likelihood + 2 * fit.effective_parameters(kind)


def clbic(fit: StandardErrors, kind: Kind = "robust") -> float:
    """Compute −2 cℓ(θ̂) + log(n) tr(bread⁻¹ meat) (Gao & Song 2010).

    Parameters
    ----------
    %(kind)s

    Returns
    -------
    float
        Smaller is better. n is ``fit.total``.

    Examples
    --------
    %(fit)s
    >>> fit.clbic() > fit.claic()
    True
    """
    refuse_refined(fit, "CLBIC", "Compare the first stages, or use held-out likelihoods (cross_validate).")
    return -2 * fit.composite_log_likelihood + float(np.log(fit.total)) * fit.effective_parameters(kind)


@filled(SHARED)
def compare(fits: Mapping[str, Fit] | Sequence[Fit], *, kind: Kind = "robust") -> pd.DataFrame:
    """Compare models under one policy by CLAIC and CLBIC.

    Parameters
    ----------
    fits : dict or sequence of Fit
        Fits with the same data, sample weights, policy and seed. Use `cross_validate` to compare policies.
    kind : {"robust", "model"}, default: "robust"
        Covariance from the data, valid also if the model is wrong, or expected under the fitted model.

    Returns
    -------
    DataFrame
        One row for each fit, the best CLAIC first. If the effective numbers of parameters are simulated (more than
        3,000 parameters, or ``kind="model"``), the last columns are Monte Carlo errors.

    Examples
    --------
    %(fit)s
    >>> null = ff.fit(model, x, "PL1", fixed={"x1:x2": 0.0})
    >>> ff.compare({"full": fit, "null": null})["parameters"].to_dict()
    {'full': 3, 'null': 2}
    """
    import pandas as pd

    from fieldfit.api.state import FitState

    if not isinstance(fits, Mapping | Sequence):
        raise FieldfitError("compare takes several fits: a list of them, or a mapping from names to fits.")
    named = dict(fits) if isinstance(fits, Mapping) else {f"model {k}": fit for k, fit in enumerate(fits)}
    first = next(iter(named.values()), None)
    if first is None:
        raise FieldfitError("There are no fits to compare.")
    for name, fit in named.items():
        instance_of(fit, FitState, "compare needs fits")
        if (str(fit.estimator), fit.random_state) != (str(first.estimator), first.random_state):
            raise DataError(
                f"{name} has another policy or another random_state than the first fit: their composite likelihoods are "
                f"not comparable. Use cross_validate."
            )
        if not _same_samples(fit, first):
            raise DataError(
                f"{name} was fitted to other samples or variables, or with other sample weights, than the first fit: their "
                f"composite likelihoods are not comparable. Fit all models to the same data, or use cross_validate."
            )
    lines = {
        name: {
            "log_likelihood": fit.composite_log_likelihood,
            "parameters": int(fit.free.sum()),
            "effective": fit.effective_parameters(kind),
            "claic": fit.claic(kind),
            "clbic": fit.clbic(kind),
        }
        for name, fit in named.items()
    }
    frame = pd.DataFrame.from_dict(lines, orient="index").sort_values("claic")
    frame.insert(5, "claic_gap", frame["claic"] - frame["claic"].iloc[0])
    errors = np.array([named[name].effective_parameters_error(kind) for name in frame.index])
    if errors.any():
        frame["effective_error"], frame["claic_error"] = errors, 2 * errors
    frame.index.name = "model"
    return frame


def _same_samples(first: Fit, other: Fit) -> bool:
    """Whether two fits have the same samples and weights. True for files of older versions, which do not store this."""
    known = bool(first.fingerprint and other.fingerprint)
    return first.n == other.n and (not known or first.fingerprint == other.fingerprint)


def discoveries(
    fit: StandardErrors,
    level: float = 0.05,
    *,
    method: Literal["bh", "by"] = "bh",
    kind: Kind = "robust",
    parameters: object = None,
) -> pd.DataFrame:
    """Add q-values to `table` and mark the parameters that differ from 0 at a false discovery rate.

    Parameters
    ----------
    level : float, default: 0.05
        False discovery rate.
    method : {"bh", "by"}, default: "bh"
        Benjamini–Hochberg, or Benjamini–Yekutieli, which is valid under any dependence.
    %(kind)s
    %(parameters)s

    Returns
    -------
    DataFrame
        Parameters without a p-value (fixed, not identified) do not count.

    Examples
    --------
    %(fit)s
    >>> fit.discoveries(0.05)["discovered"].tolist()
    [True, True, True]
    """
    from scipy.stats import false_discovery_control

    one_of(method, "The method", ("bh", "by"))
    if not (isinstance(level, int | float | np.number) and 0 < level < 1):
        raise FieldfitError(f"The false discovery rate must be between 0 and 1; got {level!r:.80}.")
    frame = parameter_estimates(fit, kind=kind, parameters=parameters).frame()  # the warning of few samples is below
    tested = frame["p"].notna().to_numpy()
    q = np.full(len(frame), np.nan)
    if tested.any():
        q[tested] = false_discovery_control(frame["p"].to_numpy()[tested], method=method)
    frame["q"] = q
    frame["discovered"] = q <= level
    few = few_samples(fit, kind)
    if few:
        warn_caller(
            f"{few[0].upper()}{few[1:]}. p- and q-values are then too small, and more is discovered than the rate "
            "promises; fit.bootstrap_test(parameters) simulates the null distribution of a statistic.",
            FewSamplesWarning,
        )
    if near_optimum(fit):
        warn_caller(f"{sentence(near_optimum(fit))}.", ConvergenceWarning)
    return frame.sort_values("p", kind="stable")

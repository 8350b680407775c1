"""Held-out likelihood and goodness of fit by simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fieldfit.api.checkpoint import digest_of
from fieldfit.api.finished_parts import Kept, as_parts, kept_parts
from fieldfit.api.options import EstimationOptions
from fieldfit.arguments import (
    datasets_drawn,
    function_or_none,
    has_entries,
    instance_of,
    real_array,
    seed,
    seed_after,
    truth_value,
)
from fieldfit.asymptotics.expectations import replicate_seeds
from fieldfit.data.dataset import Dataset
from fieldfit.data.fingerprint import exact_fingerprint
from fieldfit.data.samples import Table
from fieldfit.models.base import Model
from fieldfit.penalties import ByParameter
from fieldfit.policies import Policy, as_policy
from fieldfit.policies.selection import Selection
from fieldfit.steps import stepped
from fieldfit.types import DataError, FieldfitError, FloatArray, IntArray, Plain, PolicyError

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.result import Fit
    from fieldfit.api.standard_errors import StandardErrors


def cross_validate(
    model: Model | Mapping[str, Model],
    data: object,
    policy: Policy | str | Sequence[Policy | str] = "PL1",
    *,
    sigma2: ByParameter = None,
    score: Policy | str = "FL",
    folds: int = 5,
    random_state: int = 0,
    sample_weight: ArrayLike | str | None = None,
    weight_kind: str = "importance",
    groups: ArrayLike | str | None = None,
    checkpoint: Kept = None,
    **options: Any,
) -> pd.DataFrame:
    """Compute the held-out negative log-likelihood of models, policies and penalties.

    Parameters
    ----------
    model : Model or dict of str to Model
        One model, or several with their names.
    data : array_like, DataFrame, str, Path or Sequences
        Samples, as in `fit`.
    policy : str, Policy or sequence of these, default: "PL1"
        Policies to compare.
    sigma2 : float, None or list of these, default: None
        Penalties to compare. None is no penalty; the table shows it as ∞.
    score : str or Policy, default: "FL"
        What is measured on held-out samples. Use ``"PL1"`` if FL is too wide.
    folds : int, default: 5
        Number of folds. All combinations use the same folds.
    random_state : int, default: 0
        Seed of the folds and of the selection.
    sample_weight : array_like, str or None, default: None
        Weight of each sample, or the name of the column with the weights.
    weight_kind : {"importance", "counts"}, default: "importance"
        Importance weights enter the fits and the means. With counts every copy is a sample, and copies can be in
        different folds.
    groups : array_like, str or None, default: None
        Group of each sample, or the name of the column with the groups. The samples of a group are all in one fold, and
        the standard errors are over groups.
    checkpoint : str, Path, Checkpoint or None, default: None
        A file that keeps the scores of finished folds. With `Checkpoint`'s ``resume`` only the others are fitted.
    **options
        Other parameters of `fit`.

    Returns
    -------
    DataFrame
        One row for each combination, the best first: mean negative log-likelihood per sample (nll), its standard
        error, the difference from the best row (excess) and the standard error of this difference.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 200, random_state=0).values
    >>> table = ff.cross_validate(model, x, ["PL1", "FL"], folds=2)
    >>> list(table.columns)
    ['policy', 'sigma2', 'nll', 'std_error', 'excess', 'excess_std_error']
    """
    import pandas as pd

    random_state = seed(random_state)
    parts = as_parts(checkpoint)
    models = dict(model) if isinstance(model, Mapping) else {"": model}
    for candidate in models.values():
        instance_of(candidate, Model, "cross_validate needs a model, or a dictionary of models")
    if not isinstance(policy, Policy | str) and not has_entries(policy):
        raise PolicyError(f"policy is {policy!r:.80}; it must be a policy, such as 'PL1', or a list of policies.")
    policies = [policy] if isinstance(policy, Policy | str) else list(policy)
    several = isinstance(sigma2, list | tuple | np.ndarray) and has_entries(sigma2)
    penalties: list[ByParameter] = list(cast("Sequence[ByParameter]", sigma2)) if several else [sigma2]
    if not isinstance(folds, int | np.integer) or folds < 2:
        raise FieldfitError(f"Cross-validation needs an integer of at least 2 folds; got {folds!r:.80}.")
    lines, losses = [], []
    weight: FloatArray | None = None
    group: IntArray | None = None
    for name, candidate in models.items():
        dataset = candidate.read(data, sample_weight=sample_weight, weight_kind=weight_kind, groups=groups).copies()
        n, weight, group = dataset.n, dataset.sample_weight, dataset.groups
        if n < 2 * folds:
            raise DataError(f"{n} samples are too few for {folds} folds.")
        member = fold_members(n, folds, random_state, group)
        for text in policies:
            for penalty in penalties:
                loss = np.empty(n)
                fitted = {"check_drift": False, **options, "sigma2": penalty}
                validation = _Fold(candidate, dataset, text, score, random_state, fitted)
                with (
                    kept_parts(parts, member, **validation.identity, number_of_folds=folds) as part,
                    stepped(f"cross-validation of {text}", range(folds)) as counted,
                ):
                    for fold in counted:
                        inside, outside = np.flatnonzero(member != fold), np.flatnonzero(member == fold)
                        losses_of = partial(validation.losses, inside, outside, fold)
                        loss[outside] = part({"losses": (len(outside),)}, losses_of)["losses"]
                # No penalty is σ² = ∞, as in fit.sigma2: a column of numbers that can be sorted and plotted.
                lines.append({"model": name, "policy": str(text), "sigma2": np.inf if penalty is None else penalty})
                losses.append(loss)
    if not losses:
        raise DataError("There is nothing to compare: give at least one model, one policy and one sigma2.")
    frame = pd.DataFrame(lines)
    matrix = np.stack(losses)
    if matrix.shape[1] == 0:
        raise DataError("There are no samples to score.")
    means, errors = weighted_means(matrix, weight, group)
    best = int(means.argmin())
    frame["nll"], frame["std_error"] = means, errors
    frame["excess"], frame["excess_std_error"] = weighted_means(matrix - matrix[best], weight, group)
    if list(models) == [""]:
        frame = frame.drop(columns="model")
    return frame.sort_values("nll", kind="stable").reset_index(drop=True)


@dataclass(frozen=True)
class _Fold:
    """One combination of a model, a policy and options, fitted without the samples of one fold."""

    model: Model
    dataset: Dataset
    policy: Policy | str
    score: Policy | str
    random_state: int
    options: Plain

    @property
    def identity(self) -> dict[str, str]:
        """What the losses depend on, besides the folds."""
        header, arrays = self.model.complete(self.dataset).specification()
        # Neither the workers nor who is told of the progress change the losses.
        options = {name: value for name, value in self.options.items() if name not in ("backend", "progress")}
        options["on_workers"] = self.options.get("backend") is not None
        given = [np.asarray(value) for value in options.values() if isinstance(value, np.ndarray)]
        return {
            "kind": "cross-validation",
            "model": digest_of(repr(sorted(header.items())), *(arrays[name] for name in sorted(arrays))),
            "policy": f"{self.policy}, scored by {self.score}",
            "penalty_or_option": digest_of(repr(sorted(options.items())), *given),
            "random_state": str(self.random_state),
            "set_of_samples_or_weights": exact_fingerprint(self.dataset),
        }

    def losses(self, inside: IntArray, outside: IntArray, fold: int) -> dict[str, FloatArray]:
        """The negative scores of the held-out samples."""
        from fieldfit.api.fitting import fit

        fitted = fit(
            self.model,
            self.dataset.subset(inside),
            self.policy,
            random_state=seed_after(self.random_state, fold),
            **self.options,
        )
        if fitted.interrupted:
            raise KeyboardInterrupt
        return {"losses": -held_out(fitted.model, fitted.theta, self.dataset.subset(outside), self.score)}


def weighted_means(
    values: FloatArray, weight: FloatArray | None, groups: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Means over samples of values (lines, n) and their standard errors.

    ``weight`` (n,) is None for equal weights, ``groups`` (n,) None for independent samples.
    """
    n = values.shape[1]
    share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    means = values @ share
    deviations = (values - means[:, None]) * share
    if groups is not None:
        deviations = np.stack([np.bincount(groups, line) for line in deviations])
    units = deviations.shape[1]
    errors = np.sqrt(units / (units - 1) * (deviations**2).sum(axis=1))
    return means, errors


def fold_members(n: int, folds: int, random_state: int, groups: IntArray | None = None) -> IntArray:
    """The fold of each sample (n,). Folds are as equal as possible, and samples of one group are in one fold."""
    random = np.random.default_rng(random_state)
    if groups is None:
        members = np.arange(n) % folds
        random.shuffle(members)
        return members.astype(np.int64)
    sizes = np.bincount(groups)
    if len(sizes) < folds:
        raise DataError(f"{len(sizes)} groups are too few for {folds} folds: every fold needs at least one group.")
    shuffled = random.permutation(len(sizes))
    fold_of_group, fold_sizes = np.empty(len(sizes), dtype=np.int64), np.zeros(folds)
    for group in shuffled[
        np.argsort(-sizes[shuffled], kind="stable")
    ]:  # large groups first, each into the smallest fold
        fold_of_group[group] = fold_sizes.argmin()
        fold_sizes[fold_of_group[group]] += sizes[group]
    return fold_of_group[groups]


def held_out(model: Model, theta: FloatArray, dataset: Dataset, score: Policy | str = "FL") -> FloatArray:
    """m_θ of each sample under the policy ``score`` (log-likelihood for FL)."""
    bound = as_policy(score).bind(model.structure(dataset))
    n = dataset.n
    return model.compile(dataset, bound.draw(0, 0, n)).row_values(theta)


def pair_statistics(dataset: Table) -> FloatArray:
    """Means of the codes, of the products of all pairs of codes, and the standard deviation of the sum of a row.

    Each is over the samples in which the values that it needs are known: of one variable, of two, of all. NaN where there
    are none.
    """
    known = (dataset.codes >= 0).astype(np.float64)
    codes = np.where(dataset.codes < 0, 0, dataset.codes).astype(np.float64)
    upper = np.triu_indices(dataset.m, 1)
    sums = codes[(dataset.codes >= 0).all(axis=1)].sum(axis=1)
    with np.errstate(invalid="ignore"):
        means = codes.sum(axis=0) / known.sum(axis=0)
        products = (codes.T @ codes)[upper] / (known.T @ known)[upper]
    return np.concatenate([means, products, [sums.std() if sums.size else np.nan]])


def _pair_names(dataset: Table) -> list[str]:
    names = dataset.names
    pairs = [f"E {names[j]}·{names[k]}" for j, k in zip(*np.triu_indices(dataset.m, 1), strict=True)]
    return [*(f"E {name}" for name in names), *pairs, "sd of the sum"]


#: Number of simulated datasets for the expectation of each refitted statistic.
_EXPECTATION_DATASETS = 10


def goodness_of_fit(
    fit: StandardErrors,
    statistic: Callable[[Any], object] | None = None,
    *,
    n_simulated: int = 199,
    random_state: int = 0,
    names: Sequence[str] | None = None,
    refit: bool = False,
) -> pd.DataFrame:
    """Compare statistics of the data with those of datasets simulated from the fit.

    Parameters
    ----------
    statistic : callable or None, default: None
        Function of a dataset that returns numbers. None: means, pair moments and the standard deviation of the
        sum.
    n_simulated : int, default: 199
        Number of simulated datasets.
    random_state : int, default: 0
        Seed of the simulation.
    names : sequence of str or None, default: None
        Names of the statistics.
    refit : bool, default: False
        Whether to fit each simulated dataset again (the parametric bootstrap). Without it, p-values are
        conservative.

    Returns
    -------
    DataFrame
        With the columns observed, expected, std_dev, z and p.

    Notes
    -----
    ``std_dev`` is over the simulated datasets: of the statistic, and with ``refit`` of the statistic minus its expectation
    under the dataset's own estimate (the mean over 10 datasets simulated at it), which is smaller because the estimate
    adapts to the dataset. z is the difference divided by ``std_dev``, and p is two-sided, (1 + the number of simulated
    datasets at least as far from the mean) / (1 + their number). A statistic that is NaN has no p.

    Without ``refit``, statistics that the fit matches agree better than by chance: a small p is evidence against the model,
    a large one is not evidence for it. With ``refit`` p is correct to first order, and costs ``n_simulated`` fits with the
    same policy, penalty and fixed parameters (automatic weights are kept) and a new selection.

    Simulated datasets have as many samples as the data, all copies of counts included, and miss the same values. The
    default statistic of a model that is no field is the mean composite log-likelihood.

    Examples
    --------
    %(fit)s
    >>> table = fit.goodness_of_fit(n_simulated=49)
    >>> bool((table["p"] > 0.01).all())
    True
    """
    import pandas as pd

    n_simulated = datasets_drawn(n_simulated, "n_simulated", 2)
    random_state = seed(random_state)
    function_or_none(statistic, "statistic")
    refit = truth_value(refit, "refit")
    dataset = fit.needed.dataset.equally_weighted()
    if dataset is None:
        raise DataError(
            "Uneven importance weights do not define the distribution that the samples were drawn from: no "
            "dataset can be simulated that varies as they do. Fit without weights, or with counts (weight_kind='counts')."
        )
    if statistic is None and isinstance(dataset, Table):
        statistic, names = pair_statistics, _pair_names(dataset)
    elif statistic is None:
        names = ["mean composite log-likelihood"]

    def measure(samples: Dataset, theta: FloatArray) -> FloatArray:
        if statistic is None:
            return np.array([held_out(fit.model, theta, samples, fit.policy).mean()])
        given = statistic(samples)
        try:
            return real_array(given).reshape(-1)
        except (TypeError, ValueError):
            raise DataError(f"The statistic must return real numbers; it returned {given!r:.80}.") from None

    def expectation(theta: FloatArray, seed: int) -> FloatArray:
        seeds = replicate_seeds(seed, _EXPECTATION_DATASETS)
        mean: FloatArray = np.mean(
            [measure(fit.model.simulate(dataset, theta, each), theta) for each in seeds], axis=0
        )
        return mean

    observed = measure(dataset, fit.theta)
    labels = [f"statistic {k}" for k in range(len(observed))] if names is None else list(names)
    if len(labels) != len(observed):
        raise FieldfitError(f"There are {len(observed)} statistics but {len(labels)} names.")
    simulated = np.empty((n_simulated, len(observed)))
    *seeds, other = replicate_seeds(random_state, n_simulated + 1)
    with stepped("goodness of fit", seeds) as counted:
        for line, drawn_by in enumerate(counted):
            samples = fit.model.simulate(dataset, fit.theta, drawn_by)
            if refit:
                theta = fitted_like(fit, samples, drawn_by).theta
                simulated[line] = measure(samples, theta) - expectation(theta, drawn_by)
            else:
                simulated[line] = measure(samples, fit.theta)
    centre, deviation = simulated.mean(axis=0), simulated.std(axis=0, ddof=1)
    expected, gap = centre, observed - centre
    if refit:
        expected = expectation(fit.theta, other)
        gap = observed - expected - centre
    far = np.abs(simulated - centre) >= np.abs(gap) - 1e-12
    p = (1 + far.sum(axis=0)) / (1 + n_simulated)
    p[np.isnan(gap) | np.isnan(simulated).any(axis=0)] = np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        z = gap / deviation
    return pd.DataFrame(
        {
            "observed": observed,
            "expected": expected,
            "std_dev": deviation,
            "z": z,
            "p": p,
        },
        index=pd.Index(labels, name="statistic"),
    )


def fitted_like(
    fit: StandardErrors,
    samples: Dataset,
    seed: int,
    more: Mapping[str, float] | None = None,
    drawn: Selection | None = None,
) -> Fit:
    """The same model, policy, penalty and fixed parameters (and ``more``) on other samples, with their own selection.

    ``drawn`` is that selection where it is known. Ctrl-C raises KeyboardInterrupt: the estimate of an interrupted fit would
    be wrong for the caller.
    """
    from fieldfit.api.refine import fit_estimator

    names = fit.model.parameter_names
    fixed = {names[int(place)]: float(fit.theta[place]) for place in np.flatnonzero(~fit.free)} | dict(more or {})
    start = fit.theta.copy()
    for place in np.flatnonzero([name in fixed for name in names]) if more else ():
        start[place] = fixed[names[int(place)]]
    options = EstimationOptions(
        sigma2=fit.sigma2 if np.isfinite(fit.sigma2).any() else None,
        l1=fit.l1,
        group_l1=fit.group_l1,
        random_state=seed,
        fixed=fixed or None,
        start=start,
        check_drift=False,
        drawn=drawn,
    )
    again = fit_estimator(fit.model, samples, fit.estimator, options)
    if again.interrupted:
        raise KeyboardInterrupt
    return again

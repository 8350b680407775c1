"""The bootstrap of a fit: the same estimator on resampled or simulated data, and percentile intervals.

Three kinds of resamples, each as large as the data:

    rows         samples with replacement: valid also if the model is wrong
    groups       whole groups with replacement (the cluster bootstrap): samples of one group may depend on each other
    parametric   samples simulated from the fit: valid if the model is right, and for one sample too

Rows are drawn as weights and keep their selection Z: θ̂ is a function of the pairs (X_i, Z_i), so the pairs are
resampled. With a new Z the resampled estimates would be centred at the estimate from all components, not at θ̂.
Simulated samples get a new Z.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from fieldfit.api.checkpoint import Checkpoint, ReplicateKeeper, as_checkpoint
from fieldfit.api.estimate_table import checked_level
from fieldfit.api.functionals import Estimate, value_and_gradient
from fieldfit.api.validation import fitted_like
from fieldfit.arguments import datasets_drawn, function_or_none, real_array, seed, whole_number
from fieldfit.asymptotics.expectations import replicate_seeds
from fieldfit.callers import without_warnings
from fieldfit.data.dataset import Dataset
from fieldfit.docstrings import SHARED, filled
from fieldfit.named import places_of
from fieldfit.policies.selection import Selection
from fieldfit.steps import steps
from fieldfit.threads import LOKY_TRACKER, interrupts_for_this_process
from fieldfit.types import (
    BoolArray,
    ConvergenceWarning,
    DataError,
    FieldfitError,
    FloatArray,
    IntArray,
    ModelError,
    SeparationWarning,
)

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.result import Fit

Resampling = Literal["rows", "groups", "parametric"]
#: Largest share of resamples without an estimate.
_MOST_FAILED = 0.5


@filled(SHARED)
@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap:
    """The estimates of resampled data, with percentile intervals. `Fit.bootstrap` returns it.

    Attributes
    ----------
    fit : Fit
        The fit of the data themselves.
    kind : str
        How the data were resampled: "rows", "groups" or "parametric".
    theta : ndarray of shape (resamples, r)
        The estimate of each resample; NaN if it has none.
    separated : ndarray of bool of shape (resamples, r)
        Which parameters of a resample have their optimum at infinity.

    Examples
    --------
    %(fit_of_pairs)s
    >>> fit.bootstrap(20)
    <Bootstrap: rows, 20 resamples of boltzmann by PL1>
    """

    fit: Fit
    kind: str
    theta: FloatArray
    separated: BoolArray = field(repr=False)

    @property
    def failed(self) -> int:
        """The number of resamples without an estimate, because some parameter cannot be estimated from them."""
        return int(np.isnan(self.theta).any(axis=1).sum())

    @property
    def _known(self) -> FloatArray:
        return self.theta[~np.isnan(self.theta).any(axis=1)]

    def standard_errors(self, parameters: object = None) -> FloatArray:
        """Compute the standard deviation of each parameter over the resamples.

        Parameters
        ----------
        parameters : str, sequence of str or int, or None, default: None
            Parameters, by name, pattern or number. None: all.

        Returns
        -------
        ndarray
            0 for fixed parameters; NaN if the optimum of a resample is at infinity.

        Examples
        --------
        %(fit_of_pairs)s
        >>> fit.bootstrap(20).standard_errors().shape
        (3,)
        """
        deviation = np.where(self.separated.any(axis=0), np.nan, self._known.std(axis=0, ddof=1))
        return deviation if parameters is None else deviation[self._places(parameters)]

    def conf_int(self, level: float = 0.95, parameters: object = None) -> FloatArray:
        """Compute percentile intervals.

        Parameters
        ----------
        level : float, default: 0.95
            Confidence level.
        parameters : str, sequence of str or int, or None, default: None
            Parameters, by name, pattern or number. None: all.

        Returns
        -------
        ndarray of shape (parameters, 2)
            Infinite if that share of the resamples has its optimum at infinity.

        Examples
        --------
        %(fit_of_pairs)s
        >>> fit.bootstrap(20).conf_int(0.9, "x0:x1").shape
        (1, 2)
        """
        checked_level(level)
        return _percentiles(self._values()[:, self._places(parameters)], level).T

    def table(self, level: float = 0.95, parameters: object = None) -> pd.DataFrame:
        """Return estimates, bias, standard errors and percentile intervals as a table.

        Parameters
        ----------
        level : float, default: 0.95
            Confidence level.
        parameters : str, sequence of str or int, or None, default: None
            Parameters, by name, pattern or number. None: all.

        Returns
        -------
        DataFrame
            One row for each parameter. ``bias`` is the mean over the resamples minus the estimate.

        Examples
        --------
        %(fit_of_pairs)s
        >>> list(fit.bootstrap(20).table())
        ['estimate', 'bias', 'std_error', 'lower', 'upper']
        """
        import pandas as pd

        places = self._places(parameters)
        names = self.fit.model.parameter_names
        errors = self.standard_errors()[places]
        lower, upper = self.conf_int(level, parameters).T
        estimate = self.fit.theta[places]
        bias = np.where(np.isnan(errors), np.nan, self._known[:, places].mean(axis=0) - estimate)
        return pd.DataFrame(
            {"estimate": estimate, "bias": bias, "std_error": errors, "lower": lower, "upper": upper},
            index=pd.Index([names[int(place)] for place in places], name="parameter"),
        )

    def functional(self, g: object, *, level: float = 0.95, name: str | None = None) -> Estimate:
        """Estimate a function g(θ) with its bootstrap error and percentile interval.

        Parameters
        ----------
        g : str, int, dict, array_like or callable
            As in `Fit.functional`; a function need not be smooth.
        level : float, default: 0.95
            Confidence level.
        name : str or None, default: None
            Name for printing.

        Returns
        -------
        Estimate

        Examples
        --------
        %(fit_of_pairs)s
        >>> fit.bootstrap(20).functional({"x0": 1, "x1": -1}).level
        0.95
        """
        checked_level(level)
        fit = self.fit
        if callable(g):
            default, value = getattr(g, "__name__", "g"), _number(g(fit.theta.copy()))
            values = np.array([_number(g(theta.copy())) for theta in self._known])
        else:
            default, value, slope = value_and_gradient(g, None, fit.theta, fit.model.parameter_names)
            values = self._known @ slope
        lower, upper = _percentiles(values[:, None], level)[:, 0]
        label = name or ("g(θ)" if default == "<lambda>" else default)
        return Estimate(label, value, float(values.std(ddof=1)), float(lower), float(upper), level, str(self))

    def _places(self, parameters: object) -> IntArray:
        names = self.fit.model.parameter_names
        return np.arange(len(names)) if parameters is None else places_of(parameters, names)

    def _values(self) -> FloatArray:
        """The estimates, infinite if the optimum is at infinity, without resamples that have no estimate."""
        at = np.where(self.separated, np.copysign(np.inf, self.theta), self.theta)
        return np.asarray(at[~np.isnan(self.theta).any(axis=1)])

    def __str__(self) -> str:
        text = f"bootstrap of {self.kind}, {len(self.theta):,} resamples"
        return text + (f", {self.failed} of them without an estimate" if self.failed else "")

    def __repr__(self) -> str:
        return f"<Bootstrap: {self.kind}, {len(self.theta):,} resamples of {self.fit.model.kind} by {self.fit.estimator}>"

    def _repr_html_(self) -> str:
        return f"<p>{self}</p>{self.table().round(4).to_html()}"


def _number(value: object) -> float:
    """Convert the result of a function of θ to a number, which may be infinite."""
    try:
        return float(real_array(value).reshape(()))
    except (TypeError, ValueError):
        raise ModelError(f"A function of θ must return one real number; it returned {value!r:.80}.") from None


def _percentiles(values: FloatArray, level: float) -> FloatArray:
    """The lower and upper percentile (2, columns), as order statistics, so that infinite values are allowed."""
    tail = (1 - level) / 2
    return np.stack(
        [
            np.quantile(values, tail, axis=0, method="lower"),
            np.quantile(values, 1 - tail, axis=0, method="higher"),
        ]
    )


@dataclass(frozen=True, eq=False)  # joblib's processes of Dask want a hash
class _Refit:
    """Estimates θ from a resample. It is pickled for other processes, so it holds only the necessary parts of a fit."""

    fit: Fit
    draw: Callable[[Fit, Dataset, int], tuple[Dataset, int]]
    dataset: Dataset
    drawn: Selection | None = None  # Z of the samples, where their numbers and the seed do not draw it again

    def __call__(self, seed: int) -> tuple[FloatArray, BoolArray, str]:
        """θ (NaN if there is no estimate), the separated parameters, and the reason if there is no estimate."""
        r = len(self.fit.theta)
        samples, seed_of_selection = self.draw(self.fit, self.dataset, seed)
        try:
            with without_warnings(SeparationWarning, ConvergenceWarning):
                again = fitted_like(self.fit, samples, seed_of_selection, drawn=self.drawn)
        except (ModelError, DataError) as error:
            return np.full(r, np.nan), np.zeros(r, dtype=bool), str(error)
        return again.theta, again.at_infinity, ""


def bootstrap_fit(
    fit: Fit,
    resamples: int = 399,
    *,
    kind: Resampling | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    progress: Callable[[int, int], object] | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
) -> Bootstrap:
    """Fit resampled data in the same way: a check of the standard errors, and intervals for few samples.

    Parameters
    ----------
    resamples : int, default: 399
        Number of resamples, each as large as the data and with a selection of its own. With 399, standard errors have a
        random error of 3.5% and the ends of 95% intervals one of 0.13 standard errors; with 999, 2.2% and 0.09.
    kind : {"rows", "groups", "parametric"} or None, default: None
        Samples with replacement, whole groups with replacement, or data simulated from the fit. None: "groups" if the
        data have groups, "parametric" for one sample, else "rows".
    random_state : int, default: 0
        Seed. The same seed gives the same result for any ``n_jobs``.
    n_jobs : int, default: 1
        Number of processes; -1: one for each processor.
    progress : callable or None, default: None
        Called with the number of resamples done and of all.
    checkpoint : str, Path, Checkpoint or None, default: None
        A file that keeps the finished resamples. With `Checkpoint`'s ``resume`` only the others are computed, and the
        result is that of an uninterrupted bootstrap, bit by bit.

    Returns
    -------
    Bootstrap

    Examples
    --------
    %(fit)s
    >>> fit.bootstrap(99).conf_int(parameters="x0:x1").round(2)
    array([[0.56, 1.05]])
    """
    resamples = datasets_drawn(resamples, "resamples", 2)
    function_or_none(progress, "progress")
    n_jobs = whole_number(n_jobs, "n_jobs", 1, 10**5)
    dataset = fit.needed.dataset
    if dataset.in_pieces:
        raise DataError(
            "The bootstrap needs the samples in this process, and these are in several parts or on workers."
        )
    usual = "groups" if dataset.groups is not None else "parametric" if dataset.n_copies == 1 else "rows"
    chosen = usual if kind is None else kind
    if not isinstance(chosen, str) or chosen not in _RESAMPLINGS:
        raise FieldfitError(
            f"A bootstrap is of the kind {', '.join(map(repr, _RESAMPLINGS))} or None; got {kind!r:.80}."
        )
    check, draw = _RESAMPLINGS[chosen]
    dataset = check(dataset)
    slim = replace(fit, prepared=None, refinement=fit.refinement and replace(fit.refinement, working=None))
    drawn = fit.needed.selection if dataset.has_counts and not fit.needed.bound.everything else None
    refit = _Refit(slim, draw, dataset, drawn)
    chosen_seed = seed(random_state)
    seeds = replicate_seeds(chosen_seed, resamples)
    kept, keeper = as_checkpoint(checkpoint), None
    if kept is not None:
        what = f"bootstrap of {chosen}, {resamples} resamples, random_state {chosen_seed}"
        keeper = ReplicateKeeper.of(kept, fit.needed, str(fit.estimator), fit.theta, what)
        keeper.tell()
    made = _Resamples.of(resamples, len(fit.theta), keeper)
    with steps("bootstrap", resamples, progress) as step:
        for _ in range(made.done):
            step()
        try:
            for estimate in _each(refit, seeds[made.done :], n_jobs):
                made.add(*estimate)
                step()
                made.keep(last=False)
        finally:
            made.keep(last=True)
    return Bootstrap(fit, chosen, made.theta, made.separated)


class _Resamples:
    """The estimates of the resamples so far, in the order of their seeds."""

    def __init__(self, theta: FloatArray, separated: BoolArray, keeper: ReplicateKeeper | None) -> None:
        self.theta, self.separated, self.done = theta, separated, 0
        self._keeper = keeper
        self._reasons: list[str] = []

    @classmethod
    def of(cls, resamples: int, r: int, keeper: ReplicateKeeper | None) -> _Resamples:
        """None yet, or those in the keeper's file."""
        made = cls(np.empty((resamples, r)), np.zeros((resamples, r), dtype=bool), keeper)
        saved = None if keeper is None else keeper.saved
        if saved is None:
            return made
        theta, separated = (saved.get(name, np.zeros(0)) for name in ("resamples", "separated"))
        done = len(theta) if theta.ndim else 0
        same = theta.shape == separated.shape == (done, r) and done <= resamples
        if not same or theta.dtype != np.float64 or separated.dtype != np.bool_:
            raise FieldfitError("The saved resamples are not those of this bootstrap. Start again without the file.")
        made.theta[:done], made.separated[:done], made.done = theta, separated, done
        made._reasons = ["they are in the checkpoint"] * int(np.isnan(theta).any(axis=1).sum())
        return made

    def add(self, theta: FloatArray, separated: BoolArray, reason: str) -> None:
        """The next one. Raises an error if too many have no estimate."""
        self.theta[self.done], self.separated[self.done] = theta, separated
        self.done += 1
        self._reasons += [reason] if reason else []
        if len(self._reasons) > _MOST_FAILED * len(self.theta):
            raise ModelError(f"More than half of the resamples have no estimate: {self._reasons[-1]}")

    def keep(self, *, last: bool) -> None:
        """Write the file if it is due."""
        if self._keeper is not None:
            state = {"resamples": self.theta[: self.done], "separated": self.separated[: self.done]}
            self._keeper.keep(lambda: state, self.done, last=last)


def _each(refit: _Refit, seeds: list[int], n_jobs: int) -> Iterator[tuple[FloatArray, BoolArray, str]]:
    """The estimates in the order of the seeds."""
    if n_jobs == 1:
        yield from map(refit, seeds)
        return
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    from fieldfit.processes import processes

    returned = "generator" if get_active_backend()[0].supports_return_generator else "list"
    with interrupts_for_this_process(LOKY_TRACKER):
        workers = Parallel(n_jobs=n_jobs, backend=processes(), return_as=returned)
        refitted = workers(delayed(refit)(each) for each in seeds)
    yield from refitted


def _drawn_rows(fit: Fit, dataset: Dataset, seed: int) -> tuple[Dataset, int]:
    """Draw n samples with replacement; with counts, draw copies."""
    random = np.random.default_rng(seed)
    if dataset.has_counts and dataset.sample_weight is not None:
        total = int(dataset.total_weight)
        counts = random.multinomial(total, dataset.sample_weight / total)
        return replace(dataset, sample_weight=counts.astype(np.float64)), fit.random_state
    return _times(
        dataset, np.bincount(random.integers(dataset.n, size=dataset.n), minlength=dataset.n)
    ), fit.random_state


def _drawn_groups(fit: Fit, dataset: Dataset, seed: int) -> tuple[Dataset, int]:
    """Draw as many groups with replacement; all samples of a group have the same count."""
    assert dataset.groups is not None
    count = int(dataset.n_groups or 0)
    times = np.bincount(np.random.default_rng(seed).integers(count, size=count), minlength=count)
    return _times(dataset, times[dataset.groups]), fit.random_state


def _times(dataset: Dataset, times: IntArray) -> Dataset:
    """Repeat each sample as often as it was drawn. With importance weights all copies share one selection."""
    weight = times.astype(np.float64) * (1.0 if dataset.sample_weight is None else dataset.sample_weight)
    return replace(dataset, sample_weight=weight, groups=None)


def _simulated(fit: Fit, dataset: Dataset, seed: int) -> tuple[Dataset, int]:
    return fit.model.simulate(dataset, fit.theta, seed), seed


def _several(dataset: Dataset) -> Dataset:
    if dataset.n_copies < 2:
        raise DataError("One sample cannot be resampled. Use kind='parametric'.")
    if dataset.groups is not None:
        raise DataError(
            "Samples that come in groups may depend on each other, and are resampled by group: kind='groups'."
        )
    return dataset


def _in_groups(dataset: Dataset) -> Dataset:
    if dataset.groups is None:
        raise DataError("There are no groups to resample. Fit with groups=…, or use kind='rows'.")
    return dataset


def _equally_weighted(dataset: Dataset) -> Dataset:
    if dataset.groups is not None:
        raise DataError(
            "The parametric bootstrap simulates independent samples, and these come in groups: use kind='groups'."
        )
    equal = dataset.equally_weighted()
    if equal is None:
        raise DataError("Uneven importance weights do not define a distribution to simulate from. Use kind='rows'.")
    return equal


_RESAMPLINGS: dict[str, tuple[Callable[[Dataset], Dataset], Callable[[Fit, Dataset, int], tuple[Dataset, int]]]] = {
    "rows": (_several, _drawn_rows),
    "groups": (_in_groups, _drawn_groups),
    "parametric": (_equally_weighted, _simulated),
}

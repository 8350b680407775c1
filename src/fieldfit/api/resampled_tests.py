"""Tests with a simulated null distribution, for few samples, for which the asymptotic distribution is inaccurate.

With few samples for each parameter the robust covariance is too small, and a Wald statistic is far larger than χ².
Values of the same statistic for data that satisfy the hypothesis have the correct distribution: p = (1 + #{T* ≥ T}) /
(1 + B).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.api.comparison import restrictions, wald_statistic
from fieldfit.api.functionals import some_places
from fieldfit.api.validation import fitted_like
from fieldfit.arguments import datasets_drawn, finite_number, has_entries, seed
from fieldfit.asymptotics.expectations import replicate_seeds
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import as_table
from fieldfit.docstrings import SHARED, filled
from fieldfit.steps import stepped
from fieldfit.types import DataError, FieldfitError, FloatArray, ModelError

if TYPE_CHECKING:
    from fieldfit.api.accuracies import Kind
    from fieldfit.api.standard_errors import StandardErrors


@filled(SHARED)
@dataclass(frozen=True, eq=False)
class ResampledTest:
    """A statistic, its values under the hypothesis, and the p-value.

    Parameters
    ----------
    name : str
        Name of the test.
    statistic : float
        The Wald statistic.
    simulated : ndarray
        Its values under the hypothesis.
    restrictions : int
        Number of linearly independent restrictions.

    Examples
    --------
    %(fit_of_pairs)s
    >>> test = fit.bootstrap_test("x0:x1", n_simulated=19)
    >>> test.p
    0.05
    """

    name: str
    statistic: float
    simulated: FloatArray
    restrictions: int

    @property
    def p(self) -> float:
        """The p-value; never below 1 / (1 + number of simulated values)."""
        return float((1 + np.sum(self.simulated >= self.statistic)) / (1 + len(self.simulated)))

    def __str__(self) -> str:
        return (
            f"{self.name} test of {self.restrictions} restriction{'s' if self.restrictions > 1 else ''}: Wald statistic "
            f"{self.statistic:.4g}, p = {self.p:.4g} ({len(self.simulated)} values under the hypothesis, median "
            f"{np.median(self.simulated):.4g})"
        )


def bootstrap_test(
    fit: StandardErrors,
    parameters: object,
    value: float = 0.0,
    *,
    n_simulated: int = 199,
    random_state: int = 0,
    kind: Kind = "robust",
) -> ResampledTest:
    """Test whether parameters have a value with a simulated null distribution of the Wald statistic, for few
    samples.

    Data are simulated from the fit in which these parameters are fixed at ``value``, and fitted in the same way.

    Parameters
    ----------
    parameters : sequence of str or int
        The parameters that have this value under the hypothesis.
    value : float, default: 0.0
        Their value.
    n_simulated : int, default: 199
        Number of simulated datasets.
    random_state : int, default: 0
        Seed.
    %(kind)s

    Returns
    -------
    ResampledTest

    Examples
    --------
    %(fit)s
    >>> fit.bootstrap_test(["x0:x1", "x1:x2"], n_simulated=39).p
    0.025
    """
    n_simulated, random_state = datasets_drawn(n_simulated, "n_simulated"), seed(random_state)
    value = finite_number(value, "value")
    names = fit.model.parameter_names
    places = some_places(parameters, names)
    dataset = fit.needed.dataset.equally_weighted()
    if dataset is None:
        raise DataError(
            "Uneven importance weights do not define a distribution to simulate from. Fit without weights."
        )
    fixed = {names[int(place)]: value for place in places}
    null = fitted_like(fit, dataset, fit.random_state, fixed)
    hypothesis = [names[int(place)] for place in places]

    def simulated(drawn_by: int) -> Dataset:
        return fit.model.simulate(dataset, null.theta, drawn_by)

    return _compared(fit, "Bootstrap", hypothesis, value, kind, simulated, n_simulated, random_state)


def permutation_test(
    fit: StandardErrors,
    hypothesis: object,
    columns: Sequence[str] | str,
    *,
    n_simulated: int = 199,
    random_state: int = 0,
    kind: Kind = "robust",
) -> ResampledTest:
    """Test R θ = 0 by randomly permuting the rows of some columns, such as the group.

    Parameters
    ----------
    hypothesis : str, dict, sequence of these or ndarray of shape (q, r)
        Functions of θ that are 0 if these columns are independent of all others, as in `wald_test`.
    columns : str or sequence of str
        Columns of the data whose rows are permuted together.
    n_simulated : int, default: 199
        Number of permutations.
    random_state : int, default: 0
        Seed.
    %(kind)s

    Returns
    -------
    ResampledTest

    Examples
    --------
    %(fit)s
    >>> fit.permutation_test(["x0:x1", "x0:x2"], "x0", n_simulated=39).p
    0.025
    """
    n_simulated, random_state = datasets_drawn(n_simulated, "n_simulated"), seed(random_state)
    table = as_table(fit.needed.dataset)
    chosen = list(columns) if has_entries(columns) and not isinstance(columns, str) else [columns]
    unknown = [name for name in chosen if not isinstance(name, str) or name not in table.names]
    if unknown or not chosen:
        raise DataError(
            f"Name the columns whose rows are exchanged, such as the group; there is no column {unknown[:1]!r:.80}. The "
            f"columns are {list(table.names[:8])}."
        )
    if table.groups is not None:
        raise DataError("Samples that come in groups cannot be exchanged one by one.")
    places = [table.names.index(name) for name in chosen]

    def permuted(drawn_by: int) -> Dataset:
        codes = table.codes.copy()
        order = np.random.default_rng(drawn_by).permutation(len(codes))
        codes[:, places] = codes[order][:, places]
        return replace(table, codes=codes)

    return _compared(fit, "Permutation", hypothesis, 0.0, kind, permuted, n_simulated, random_state)


def _compared(
    fit: StandardErrors,
    name: str,
    hypothesis: object,
    value: float,
    kind: Kind,
    draw: Callable[[int], Dataset],
    n_simulated: int,
    random_state: int,
) -> ResampledTest:
    rows = restrictions(fit, hypothesis)
    observed, independent = wald_statistic(fit, rows, value, kind)
    values = np.empty(n_simulated)
    with stepped(f"{name.lower()} test", replicate_seeds(random_state, n_simulated)) as counted:
        for line, drawn_by in enumerate(counted):
            try:
                again = fitted_like(fit, draw(drawn_by), drawn_by)
                values[line], _ = wald_statistic(again, rows, value, kind)
            except ModelError as error:
                raise FieldfitError(
                    f"A simulated dataset has no Wald statistic ({error}). A penalty (sigma2) keeps every fit finite."
                ) from error
    return ResampledTest(name, observed, values, independent)

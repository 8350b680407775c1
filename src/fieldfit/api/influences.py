"""The influence of single samples on the estimate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfit.api.standard_errors import SHARED, StandardErrors
from fieldfit.docstrings import filled
from fieldfit.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fieldfit.api.sensitivity import Sensitivity


@filled(SHARED)
@dataclass(frozen=True, repr=False)
class Influences(StandardErrors):
    """The methods of `Fit` for single samples."""

    def influence(self, data: object = None, *, parameters: object = None, rows: object = None) -> FloatArray:
        """Compute how much each observation changes each parameter: 𝓘 = (H + P)⁻¹ ψ (Equation 18 of the paper).

        Parameters
        ----------
        data : array_like, DataFrame, Sequences or None, default: None
            New samples. The result is the change when one is added with the weight ``fit.unit_weight``, averaged
            over Z. None: the fitted samples with their drawn Z. The result is then θ̂ minus the estimate without
            the sample.
        %(parameters)s
        rows : sequence of int or None, default: None
            Fitted samples. None: all.

        Returns
        -------
        ndarray of shape (n, parameters)
            A row with a count stands for all its copies together.

        Notes
        -----
        With more than 3,000 parameters, select ``parameters`` or ``rows``.

        Examples
        --------
        %(fit)s
        >>> fit.influence().shape
        (500, 3)
        >>> fit.influence([[1, 1, 1]], parameters=["x0:x1"]).round(4)
        array([[0.003]])
        """
        from fieldfit.api.robustness import influence

        return influence(self, data, parameters, rows)

    def influence_blocks(self, data: object = None) -> Iterator[tuple[int, FloatArray]]:
        """Iterate over the influence in blocks of samples, for arrays that do not fit in memory.

        Parameters
        ----------
        data : array_like, DataFrame, Sequences or None, default: None
            New samples. None: the fitted samples.

        Yields
        ------
        first : int
            Number of the first sample of the block.
        block : ndarray of shape (k, r)

        Examples
        --------
        %(fit)s
        >>> sum(len(block) for first, block in fit.influence_blocks())
        500
        """
        from fieldfit.api.robustness import influence_blocks

        return influence_blocks(self, data)

    def influential(self, k: int = 10, *, parameters: object = None) -> pd.DataFrame:
        """List the fitted samples that change the estimate most.

        Parameters
        ----------
        k : int, default: 10
            Number of samples.
        %(parameters)s

        Returns
        -------
        DataFrame
            Cook's distance (or the displacement, if there are no more samples than parameters), the parameter that
            the sample changes most, and the change.

        Examples
        --------
        %(fit)s
        >>> list(fit.influential(3).columns)
        ['distance', 'parameter', 'change', 'in_errors']
        """
        from fieldfit.api.robustness import influential

        return influential(self, k, parameters)

    def gross_error_sensitivity(self, parameters: object = None) -> Sensitivity:
        """Compute the largest effect that one observation can have: sup over x of abs(n 𝓘(x)), averaged over Z.

        Parameters
        ----------
        %(parameters)s

        Returns
        -------
        Sensitivity

        Examples
        --------
        %(fit)s
        >>> worst = fit.gross_error_sensitivity()
        >>> worst.exact, worst.state
        (True, (1, 0, 1))
        """
        from fieldfit.api.sensitivity import gross_error_sensitivity

        return gross_error_sensitivity(self, parameters)

    def plot_influence(self, k: int = 10, ax: Axes | None = None, *, parameters: object = None) -> Axes:
        """Draw Cook's distance of every fitted sample. ``influential(fit.n)`` has the same numbers.

        Parameters
        ----------
        k : int, default: 10
            Number of samples with a label.
        %(ax)s
        %(parameters)s

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        %(fit)s
        >>> fit.plot_influence(3).figure.savefig("influence.png")
        """
        from fieldfit.api.robustness import checked_number, distances
        from fieldfit.report.influence import plot_influence

        k = checked_number(k)
        table = distances(self, parameters)
        axis = f"Cook's distance over {'all' if parameters is None else 'the selected'} parameters"
        if table.columns[0] == "displacement":
            axis = "displacement: 2 × loss of the objective\nwithout the sample"
        return plot_influence(table, k, axis=axis, ax=ax)

"""The influence of single samples on the estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldfit.api.robustness import checked_number, distances, influence, influence_blocks, influential
from fieldfit.api.sensitivity import gross_error_sensitivity
from fieldfit.api.standard_errors import SHARED, StandardErrors
from fieldfit.docstrings import filled

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@filled(SHARED)
@dataclass(frozen=True, repr=False)
class Influences(StandardErrors):
    """The methods of `Fit` for single samples."""

    influence = influence
    influence_blocks = influence_blocks
    influential = influential
    gross_error_sensitivity = gross_error_sensitivity

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
        from fieldfit.report.influence import plot_influence

        k = checked_number(k)
        table = distances(self, parameters)
        axis = f"Cook's distance over {'all' if parameters is None else 'the selected'} parameters"
        if table.columns[0] == "displacement":
            axis = "displacement: 2 × loss of the objective\nwithout the sample"
        return plot_influence(table, k, axis=axis, ax=ax)

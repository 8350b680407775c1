"""What automatic weights hand back: β, how it was reached, and how good it is by the exact criterion."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldfit.models.problem import Problem
from fieldfit.optim import Solution
from fieldfit.policies.policy import Policy
from fieldfit.types import FieldfitError, FloatArray, Plain
from fieldfit.weights.statistics import Gershgorin

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


#: Families alone that are compared in the text.
_MOST_COMPARED_FAMILIES = 4


@dataclass(frozen=True)
class Round:
    """One alternation: β, then θ fitted with it, and J(β) at that θ.

    ``loss`` is J(β) minus the least J at that θ, which goes to 0 (J itself may rise, because θ moves too).
    ``objective`` is the penalised log-likelihood that was reached, ``theta_converged`` whether the optimiser had finished.
    ``samples`` is the number of samples that θ was fitted to; of a part of them ``objective`` is scaled up to all.
    """

    round: int
    beta: FloatArray
    J: float
    loss: float
    objective: float
    theta_converged: bool
    samples: int = 0


@dataclass(frozen=True)
class Work:
    """What the rounds took: the statistics of J came from ``samples`` of ``all_samples``, ``statistics`` times.

    ``iterations``, ``evaluations`` and ``hessian_products`` are those over all samples, the ``pilot_`` ones over that part.
    """

    samples: int = 0
    all_samples: int = 0
    iterations: int = 0
    evaluations: int = 0
    hessian_products: int = 0
    pilot_evaluations: int = 0
    pilot_hessian_products: int = 0
    statistics: int = 0

    def and_fit(self, solution: Solution, everything: bool) -> Work:
        """With a fit of θ to all samples, or to the part."""
        evaluations, products = solution.evaluations, solution.hessian_products
        if not everything:
            return replace(
                self,
                pilot_evaluations=self.pilot_evaluations + evaluations,
                pilot_hessian_products=self.pilot_hessian_products + products,
            )
        return replace(
            self,
            iterations=self.iterations + solution.iterations,
            evaluations=self.evaluations + evaluations,
            hessian_products=self.hessian_products + products,
        )


@dataclass(frozen=True)
class Reached:
    """The last fit of θ to all samples: its β, where it ended, and the problem with that β."""

    beta: FloatArray
    solution: Solution
    problem: Problem


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightsResult:
    """Automatic weights: β, how it was reached, and how good it is by the exact criterion.

    Parameters
    ----------
    beta : ndarray
        The weights, one for each of ``names``. They sum to 1 over terms.
    names : tuple of str
        The terms, or components.
    policy : Policy
        The policy with these weights.
    history : tuple of Round
        The rounds.
    converged : bool
        Whether β stopped changing.
    message : str
        How the search ended.
    form, formula : str
        The form of J, and whether the noise of selection counts ("exact") or is as published.
    gamma : float
        Strength of the term that keeps β from 0.
    J : float
        The chosen form at β.
    J_exact : float or None, default: None
        The log-determinant form there. None where there are too many parameters, as for the next two.
    pure : dict of float, or None, default: None
        That of each family alone; infinite where it does not determine the parameters.
    equal : float or None, default: None
        That of equal weights.
    gershgorin : Gershgorin or None, default: None
        How far the diagonal form can be from the exact one.
    diagonal_loss : float or None, default: None
        The exact J at the optimum of the diagonal form minus that at the exact optimum.
    fell_back : bool, default: False
        Whether β of the chosen form was worse than a pure policy or equal weights, which were taken in its place.
    interrupted : bool, default: False
        Whether the search was interrupted: ``beta`` and ``theta`` are those of that moment.
    reached : Reached or None, default: None
        The last fit to all samples of a search that was interrupted.
    work : Work
        Samples, evaluations and products that it took.
    theta : ndarray of shape (r,)
        Where J was evaluated last.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> weights = ff.best_weights(model, [1.0, -1.0, 0.5], "PL1 + 0.5*FL")
    >>> weights.names, round(float(weights.beta.sum()), 6)
    (('PL1', 'FL'), 1.0)
    """

    beta: FloatArray
    names: tuple[str, ...]
    policy: Policy
    history: tuple[Round, ...]
    converged: bool
    message: str
    form: str
    formula: str
    gamma: float
    J: float
    J_exact: float | None = None
    pure: dict[str, float] | None = None
    equal: float | None = None
    gershgorin: Gershgorin | None = None
    diagonal_loss: float | None = None
    fell_back: bool = False
    interrupted: bool = False
    reached: Reached | None = field(default=None, repr=False, compare=False)
    work: Work = field(default_factory=Work)
    theta: FloatArray = field(repr=False)

    @property
    def fitted(self) -> bool:
        """Whether ``theta`` was fitted to the end with ``beta``, so that no fit needs to continue from it."""
        last = self.history[-1] if self.history else None
        return last is not None and last.theta_converged and np.array_equal(last.beta, self.beta)

    def table(self) -> pd.DataFrame:
        """Return the history, a row for each round.

        Returns
        -------
        DataFrame
            Columns ``round``, ``J``, ``loss``, ``objective``, ``theta_converged``, ``samples`` and one ``β[name]``
            for each weight.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> weights = ff.best_weights(model, [1.0, -1.0, 0.5], "PL1 + 0.5*FL")
        >>> list(weights.table())[:4]
        ['round', 'J', 'loss', 'objective']
        """
        import pandas as pd

        fields = ("round", "J", "loss", "objective", "theta_converged", "samples")
        lines = [(*(getattr(line, name) for name in fields), *map(float, line.beta)) for line in self.history]
        return pd.DataFrame(lines, columns=[*fields, *(f"β[{name}]" for name in self.names)])

    def plot(self) -> Figure:
        """Plot β and J over the rounds of a fit.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0)
        >>> weights = ff.fit(model, x, "PL1 + 0.5*FL", weights="auto").weights
        >>> type(weights.plot()).__name__
        'Figure'
        """
        from fieldfit.report.weights import plot_weights

        if not self.history:
            raise FieldfitError(
                "These weights belong to a given θ: there are no rounds to plot. Plot those of a fit."
            )
        title = f"Automatic weights, {self.form} form" + (" (published)" if self.formula == "published" else "")
        if self.fell_back:
            alone = np.count_nonzero(self.beta) == 1
            better = f"{self.names[int(np.argmax(self.beta))]} alone was" if alone else "equal weights were"
            title += f"; {better} better and {'is' if alone else 'are'} taken"
        return plot_weights(self.table(), self.beta.tolist(), title=title)

    def to_dict(self) -> Plain:
        """Return plain values, for JSON.

        Returns
        -------
        dict

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> weights = ff.best_weights(model, [1.0, -1.0, 0.5], "PL1 + 0.5*FL")
        >>> sorted(weights.to_dict()["beta"])
        ['FL', 'PL1']
        """
        return {
            "beta": dict(zip(self.names, map(float, self.beta), strict=True)),
            "policy": str(self.policy),
            "converged": self.converged,
            "message": self.message,
            "form": self.form,
            "formula": self.formula,
            "gamma": self.gamma,
            "J": _finite(self.J),
            "J_exact": _finite(self.J_exact),
            "pure": None if self.pure is None else {name: _finite(value) for name, value in self.pure.items()},
            "equal": _finite(self.equal),
            "gershgorin": None if self.gershgorin is None else self.gershgorin.to_dict(),
            "diagonal_loss": self.diagonal_loss,
            "fell_back": self.fell_back,
            "work": asdict(self.work),
            "history": [
                {
                    "round": h.round,
                    "beta": h.beta.tolist(),
                    "J": _finite(h.J),
                    "loss": _finite(h.loss),
                    "objective": h.objective,
                    "samples": h.samples,
                }
                for h in self.history
            ],
        }

    def __repr__(self) -> str:
        return f"<WeightsResult: {self.policy}, {self.message}>"

    def __str__(self) -> str:
        lines = [
            "automatic weights: " + ", ".join(f"{n} {b:.4g}" for n, b in zip(self.names, self.beta, strict=True)),
            f"{self.form} form, {self.formula} formula: {self.message}",
        ]
        if self.work.samples:
            part = "" if self.work.samples == self.work.all_samples else f" of {self.work.all_samples:,}"
            lines.append(f"statistics from {self.work.samples:,}{part} samples")
        if self.J_exact is not None and self.pure is not None and self.equal is not None:
            best = sorted(self.pure.items(), key=lambda item: item[1])[:_MOST_COMPARED_FAMILIES]
            others = [*((f"{name} alone", value) for name, value in best), ("equal weights", self.equal)]
            above = ", ".join(f"{name} {value - self.J_exact:+.4g}" for name, value in others)
            lines.append(f"log det of the variance {self.J_exact:.4g}; differences: {above}")
        if self.diagonal_loss is not None:
            lines.append(f"loss of the diagonal form against the exact one: {self.diagonal_loss:.4g} in log det")
        if self.gershgorin is not None:
            lines.append(str(self.gershgorin))
        return "\n".join(lines)


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)

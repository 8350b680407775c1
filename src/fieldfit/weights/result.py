"""What automatic weights hand back: β, how it was reached, and how good it is by the exact criterion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.policies.policy import Policy
from fieldfit.types import FloatArray
from fieldfit.weights.gershgorin import Gershgorin

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Round:
    """One alternation: β, then θ fitted with it, and J(β) at that θ.

    ``loss`` is J(β) minus the least J at that θ, which goes to 0 (J itself may rise, because θ moves too).
    ``objective`` is the penalised log-likelihood that was reached, ``theta_converged`` whether the optimiser had finished.
    """

    round: int
    beta: FloatArray
    J: float
    loss: float
    objective: float
    theta_converged: bool


@dataclass(frozen=True)
class WeightsResult:
    """The chosen weights. ``beta`` has one entry for each of ``names`` (terms, or components) and sums to 1 over terms.

    ``J`` is the chosen form at β. ``J_exact`` is the log-determinant form there and ``pure`` that of each family alone
    (infinite where it does not determine the parameters); both are None where there are too many parameters.
    ``diagonal_loss`` is the exact J at the diagonal form's optimum minus that at the exact optimum. ``fell_back`` says
    that the chosen form's β was worse than a pure policy, which was taken in its place.
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
    J_exact: float | None
    pure: dict[str, float] | None
    gershgorin: Gershgorin | None
    diagonal_loss: float | None
    fell_back: bool
    theta: FloatArray = field(repr=False)

    def table(self) -> pd.DataFrame:
        """The history, one line for each round: round, J, loss, objective and a column β[name] for each weight."""
        import pandas as pd

        fields = ("round", "J", "loss", "objective", "theta_converged")
        lines = [
            {name: getattr(line, name) for name in fields}
            | {f"β[{name}]": float(beta) for name, beta in zip(self.names, line.beta, strict=True)}
            for line in self.history
        ]
        return pd.DataFrame(lines)

    def plot(self) -> Figure:
        """The trajectory of β and of J over the rounds."""
        from fieldfit.report.weights import plot_weights

        title = f"Automatic weights, {self.form} form" + (" (published)" if self.formula == "published" else "")
        if self.fell_back:
            title += f"; {self.names[int(np.argmax(self.beta))]} alone was better and is taken"
        return plot_weights(self.table(), self.beta.tolist(), title=title)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
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
            "gershgorin": None if self.gershgorin is None else self.gershgorin.to_dict(),
            "diagonal_loss": self.diagonal_loss,
            "fell_back": self.fell_back,
            "history": [
                {
                    "round": h.round,
                    "beta": h.beta.tolist(),
                    "J": _finite(h.J),
                    "loss": _finite(h.loss),
                    "objective": h.objective,
                }
                for h in self.history
            ],
        }

    def __str__(self) -> str:
        lines = [
            "automatic weights: " + ", ".join(f"{n} {b:.4g}" for n, b in zip(self.names, self.beta, strict=True)),
            f"{self.form} form, {self.formula} formula: {self.message}",
        ]
        if self.diagonal_loss is not None:
            lines.append(f"loss of the diagonal form against the exact one: {self.diagonal_loss:.4g} in log det")
        if self.gershgorin is not None:
            lines.append(str(self.gershgorin))
        return "\n".join(lines)


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)

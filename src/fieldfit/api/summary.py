"""A fit in words: how it went, what its intervals mean, and its clearest parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fieldfit.asymptotics import DenseAccuracy

if TYPE_CHECKING:
    from fieldfit.api.result import Fit, Kind


def summary(fit: Fit, rows: int, kind: Kind, level: float) -> str:
    """The report and the parameters with the largest |z| as text."""
    lines = [
        f"{fit.model.kind} fitted by {fit.policy}: {fit.sample_text}, {fit.model.n_parameters:,} parameters",
        f"{fit.message}; {fit.iterations} iterations, "
        f"{fit.evaluations} evaluation{'' if fit.evaluations == 1 else 's'}, {fit.seconds:.2f} s",
        f"objective {fit.objective:.6f}, gradient norm {fit.gradient_norm:.3g}",
    ]
    if fit.cost is not None:
        lines.append(f"cost of an evaluation: {fit.cost.components:,} components, {fit.cost.flops:,.0f} FLOPs")
    if fit.weights is not None:
        lines += str(fit.weights).splitlines()
    if fit.separated:
        lines.append(f"optimum at infinity: {', '.join(fit.separated)}")
    if len(fit.dropped_rows):
        lines.append(f"left out: {len(fit.dropped_rows)} rows whose missing values were too wide to sum out")
    from fieldfit.api.result import MOST_DENSE

    if fit.objective_function is None and fit.saved_moments is None:
        return "\n".join([*lines, "standard errors need the data, which the file does not hold"])
    if fit.model.n_parameters > MOST_DENSE:
        lines.append(
            f"{fit.model.n_parameters:,} parameters are too many for all standard errors at once: ask for chosen ones, "
            f"fit.table(parameters=[…]), or for functions of them, fit.functional(…)"
        )
        return "\n".join(lines)
    accuracy = fit.dense_accuracy(kind)
    lines += _meaning(fit, accuracy, kind)
    lines.append(f"lower and upper: {100 * level:g}% confidence intervals")
    frame = fit.table(level, kind)
    largest = frame.reindex(frame["z"].abs().sort_values(ascending=False, na_position="last").index)
    lines += ["", largest.head(rows).to_string(float_format=lambda value: f"{value:.4f}")]
    if len(frame) > rows:
        lines.append(f"… and {len(frame) - rows} more (fit.table() has all)")
    return "\n".join(lines)


def _meaning(fit: Fit, accuracy: DenseAccuracy, kind: Kind) -> list[str]:
    source = "robust (Corollary 1)" if kind == "robust" else "model-based (expected under the fit)"
    lines = [f"standard errors: {source}, from {accuracy.method}, selection noise included"]
    error = accuracy.simulation_error()
    if error is not None and np.isfinite(error).any():
        lines.append(f"simulation adds an error of about {100 * float(np.nanmax(error)):.1f}% to a standard error")
    if fit.penalised:
        lines.append(
            "penalised: θ̂ is pulled towards 0, and an interval is for the value that the penalised estimate tends to, not "
            "for θ₀; fit.debiased() gives estimates and intervals for θ₀ itself"
        )
    lost = int(np.isnan(accuracy.variances()).sum())
    if lost:
        lines.append(
            f"{lost} parameters are not identified one by one (the model has {accuracy.null_space.shape[1]} directions "
            f"that change no probability): NaN below; functions of θ that are identified have standard errors, "
            f"see fit.functional"
        )
    return lines

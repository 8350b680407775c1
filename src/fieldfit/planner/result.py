"""Result of the planner: the table of policies, the recommendation as text, and its pictures."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fieldfit.planner.candidates import Candidate
from fieldfit.planner.pilot import PILOT_POLICY
from fieldfit.planner.refined import FULL
from fieldfit.planner.request import Target
from fieldfit.planner.search import Edge, least_at
from fieldfit.report.frontier import FrontierPoint, draw_frontier
from fieldfit.report.frontier_chart import MixtureTable
from fieldfit.report.panels import Level, Panel, Series, draw_panels
from fieldfit.report.table import PlainTable
from fieldfit.threads import one_blas_thread
from fieldfit.types import FieldfitError, FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: (family, policy, λ, variance) rows, computed when they are asked for.
Curves = Callable[[], list[tuple[str, str, float, float]]]
#: The edge of what can be reached, computed when it is asked for.
Reachable = Callable[[], Edge]
#: The same plan for another target; the pilot's cost is already spent.
Again = Callable[[Target], "Plan"]
#: A policy counts as better if its variance is at least this much lower.
_BETTER = 0.01
#: Relative difference from the reference that is not written.
_EQUAL = 5e-5
#: Panels beside each other.
_ACROSS = 2


@dataclass(frozen=True)
class Plan:
    """A recommended policy and its alternatives. `fieldfit.plan` returns it.

    Attributes
    ----------
    best : str
        The recommended policy, for `fieldfit.fit`.
    table : DataFrame
        One row for each policy: cost, variance, whether it is affordable, and why it is listed.
    next_better : Candidate or None
        The cheapest policy that is clearly more accurate than the recommended one.
    candidates : tuple of Candidate
        All policies.
    unit : str
        Unit of the budget, "seconds" or "flops".
    budget : float
        The budget; infinite if there is none.
    spent : float
        Part of the budget that the pilot has used.
    reference : str
        The policy with variance 1.
    relative : str
        The same in words.
    kind : str
        The criterion.
    method : str
        How expectations were computed.
    theta : ndarray
        Estimate of the pilot.
    notes : tuple of str
        Remarks, for example on skipped families.

    Examples
    --------
    >>> import fieldfit as ff
    >>> model = ff.BoltzmannMachine(3)
    >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
    >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
    >>> plan.best, plan.reference
    ('FL', 'FL')
    """

    candidates: tuple[Candidate, ...] = field(repr=False)
    best_candidate: Candidate
    reason: str
    unit: str
    budget: float
    spent: float
    wanted_efficiency: float | None
    reference: str
    relative: str
    kind: str
    method: str
    n: int
    n_parameters: int
    model_kind: str
    pilot_rows: int
    pilot_seconds: float
    evaluations: int
    theta: FloatArray = field(repr=False)
    curves: Curves = field(repr=False)
    mixtures: Callable[[], list[MixtureTable]] = field(repr=False)
    reachable: Reachable = field(repr=False)
    again: Again = field(repr=False)
    fitted: Callable[..., Any] | None = field(default=None, repr=False)
    calibration_error: float = float("nan")
    notes: tuple[str, ...] = ()
    caution: str = ""  # said before the recommendation
    squared_error: bool = False  # the criterion is a squared error under the penalty's prior, not a variance
    bounded: bool = False  # no policy can be more accurate than maximum likelihood

    @property
    def best(self) -> str:
        """Text of the recommended policy."""
        return self.best_candidate.policy

    @property
    def table(self) -> pd.DataFrame:
        """One row for each policy, by cost."""
        import pandas as pd

        columns = (
            "policy", "cost", "seconds", "flops", "operations", "variance", "error", "affordable", "on_frontier", "why",
        )  # fmt: skip
        rows = [{name: getattr(policy, name) for name in columns} for policy in self.candidates]
        frame = pd.DataFrame(rows, columns=list(columns))
        frame["recommended"] = frame["policy"] == self.best
        return frame

    def within(
        self, budget: str | float | None = None, *, flops: float | None = None, efficiency: float | None = None
    ) -> Plan:
        """Make the plan for another budget from the same pilot.

        The pilot's cost is already spent, so the whole budget is available for the fit.

        Parameters
        ----------
        budget : str, float or None, default: None
            Time for the fit, such as ``"10s"``.
        flops : float or None, default: None
            The same in the paper's FLOPs.
        efficiency : float or None, default: None
            Largest acceptable variance relative to maximum likelihood.

        Returns
        -------
        Plan

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> plan.within(flops=1e7).unit
        'flops'
        """
        return self.again(Target.of(budget, flops, efficiency))

    def fit(self, policy: str | None = None, **options: Any) -> Any:
        """Fit the recommended policy to the plan's samples, with its penalty, sample weights and tolerance.

        Parameters
        ----------
        policy : str or None, default: None
            Another policy. None: the recommended one.
        **options
            Further arguments of `fieldfit.fit`.

        Returns
        -------
        Fit

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "PL1 >> optimal(1)"])
        >>> str(plan.fit("PL1 >> optimal(1)").estimator)
        'PL1 >> optimal(1)'
        """
        if self.fitted is None:
            raise FieldfitError("This plan has no samples; call fieldfit.fit(model, data, plan.best).")
        return self.fitted(policy or self.best, **options)

    @property
    def next_better(self) -> Candidate | None:
        """The cheapest policy that is clearly more accurate than the recommended one, or None."""
        limit = self.best_candidate.variance * (1 - _BETTER)
        if self._possible is not None and limit <= self._possible:
            return None
        better = [
            policy
            for policy in self.candidates
            if policy.variance <= limit and policy.cost > self.best_candidate.cost
        ]
        if not better:
            return None
        # A plain policy that costs hardly more says more than one with four digits.
        least = min(policy.cost for policy in better)
        close = [policy for policy in better if policy.cost <= 1.1 * least]
        return min(close, key=lambda policy: (policy.n_terms + policy.n_numbers, policy.variance))

    def explain(self) -> str:
        """Explain the recommendation in a few sentences.

        Returns
        -------
        str

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> print(plan.explain())  # doctest: +ELLIPSIS
        Fit '...
        """
        best = self.best_candidate
        lines = [self.caution] if self.caution else []
        lines.append(f"Fit '{best.policy}': {self.reason}.")
        relative = self.relative
        what = "squared error" if self.squared_error else "variance"
        accuracy = f"its {what} is {best.variance:.4g} times that of {relative}"
        if abs(best.variance - 1) < _EQUAL:
            accuracy = f"its {what} is that of {relative}"
        if best.policy == self.reference:
            accuracy = f"it is the reference of the comparison ({relative})"
        lines.append(
            f"It costs about {self.cost_text(best.cost)} and {accuracy}"
            + (f" (± {100 * best.error:.2g}% from the pilot's sample)." if best.error > 1e-6 else ".")
        )
        compared = f"none of the {len(self.candidates)} policies compared is"
        if best.second_stage:
            lines.append(best.second_stage)
        elif best.policy == str(PILOT_POLICY):
            lines.append("Plain pseudo-likelihood is the best choice here: no mixture is more accurate at this cost.")
        elif best.policy == str(FULL):
            lines.append(
                f"Plain maximum likelihood is the best choice here: {compared} clearly more accurate"
                + (", and it is within the budget." if math.isfinite(self.budget) else ".")
            )
        least = min(policy.variance for policy in self.candidates)
        if self._possible is not None and least < self._possible * (1 - _BETTER):
            lines.append(
                f"Variances below {self._possible:g} come from the pilot's samples: where the model is right, no estimator "
                f"is more accurate than maximum likelihood."
            )
        better = self.next_better
        if better is not None:
            ratio = better.cost / best.cost
            times = "about the same cost" if ratio < 1.05 else f"{ratio:.3g} times as much"
            lines.append(
                f"The next more accurate policy is '{better.policy}': {better.variance:.4g} for "
                f"about {self.cost_text(better.cost)}, "
                f"{times}."
            )
        elif best.policy != str(FULL):
            lines.append(f"{compared.capitalize()} clearly more accurate at a higher cost.")
        if math.isfinite(self.budget) and self.spent == 0:
            lines.append(
                f"The pilot's cost is already spent: all of the budget of {self.cost_text(self.budget)} is for the fit."
            )
        elif math.isfinite(self.budget):
            lines.append(
                f"The pilot has used {self.cost_text(self.spent)} of the budget of {self.cost_text(self.budget)}."
            )
        lines.append(
            f"Variance: {self.kind}, {self.method}, with the selection noise, for these {self.n:,} samples. "
            f"Cost: {self._account()}."
        )
        return "\n".join([*lines, *self.notes])

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        return f"<Plan: {self.best} of {len(self.candidates)} policies, {self.model_kind}, {self.n:,} samples>"

    def _repr_html_(self) -> str:
        words = "".join(f"<p>{html.escape(line)}</p>" for line in self.explain().split("\n") if line)
        return words + self.plain_table(16).to_html()

    def _account(self) -> str:
        """What a cost consists of."""
        if self.unit == "flops":
            return f"{self.evaluations} evaluations, as many as the pilot on {self.pilot_rows:,} samples"
        return (
            f"setting up + the work of {self.best_candidate.evaluations:.0f} evaluations, as much as a fit to at most "
            f"{self.pilot_rows:,} samples took"
        )

    def cost_text(self, value: float) -> str:
        """Write a cost with its unit.

        Parameters
        ----------
        value : float
            Seconds or FLOPs, as ``unit`` says.

        Returns
        -------
        str

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> plan.cost_text(123456.0)
        '1.23e+05 FLOPs'
        """
        return format_seconds(value) if self.unit == "seconds" else f"{value:.3g} FLOPs"

    def plain_table(self, most: int | None = None) -> PlainTable:
        """Return the table for terminals and pages.

        Parameters
        ----------
        most : int or None, default: None
            Largest number of rows. Policies on the frontier come first. None: all.

        Returns
        -------
        PlainTable

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> plan.plain_table(1).columns
        ('policy', 'time', 'FLOPs', 'variance', 'why')
        """
        shown = list(self.candidates)
        if most is not None and len(shown) > most:
            plain = (self.best, str(PILOT_POLICY), str(FULL))
            ranked = sorted(
                shown, key=lambda policy: (policy.policy not in plain, not policy.on_frontier, policy.variance)
            )
            chosen = {policy.policy for policy in ranked[:most]}
            shown = [policy for policy in shown if policy.policy in chosen]
        rows = tuple(
            (
                ("→ " if policy.policy == self.best else "• " if policy.on_frontier else "  ") + policy.policy,
                format_seconds(policy.seconds),
                f"{policy.flops:.2e}",
                policy.variance if math.isfinite(policy.variance) else None,
                policy.why,
            )
            for policy in shown
        )
        relative = self.relative
        note = (
            f"→ recommended, • on the frontier. Variance relative to {relative} ({self.kind}); costs of a whole fit."
        )
        title = f"Plan for {self.model_kind}: {self.n:,} samples, {self.n_parameters:,} parameters"
        columns = ("policy", "time", "FLOPs", "variance", "why")
        return PlainTable(title, columns, rows, note, ("", "", "", ".4g", ""))

    def variance_against_lam(self) -> pd.DataFrame:
        """Compute the variance of λ*F and of PL1 + λ*F for each family F, with equal and with the best weights.

        Returns
        -------
        DataFrame
            With the columns family, policy, lam and variance.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> list(plan.variance_against_lam().columns)
        ['family', 'policy', 'lam', 'variance']
        """
        import pandas as pd

        return pd.DataFrame(self.curves(), columns=["family", "policy", "lam", "variance"])

    def plot_lam(self) -> Figure:
        """Draw the variance against the selection probability λ.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> plan.plot_lam().savefig("variance-lam.png")
        """
        frame = self.variance_against_lam()
        relative = self.relative
        levels = [Level(relative, 1.0)]
        panels = []
        for place, family in enumerate(dict.fromkeys(frame["family"])):
            curves = frame[frame["family"] == family]
            series = [
                Series(str(name), part["lam"].to_numpy(), part["variance"].to_numpy())
                for name, part in curves.groupby("policy", sort=False)
            ]
            # λF alone goes to infinity as λ goes to 0; the others would be flat below it.
            top = 1.15 * max(float(curves.loc[curves["lam"] >= 0.3, "variance"].max()), 1.05)
            low = min(1.0, float(curves["variance"].min()))
            label = f"variance relative to\n{relative}" if place % _ACROSS == 0 else ""
            limits = (low * (top / low) ** -0.04, top)
            panels.append(
                Panel(f"family {family}", "selection probability λ", label, series, levels, x_range=(0.0, 1.0),
                      y_range=limits, log_y=True, plain_ticks=True)
            )  # fmt: skip
        rows = [panels[start : start + _ACROSS] for start in range(0, len(panels), _ACROSS)]
        return draw_panels(rows, width=3.9, height=3.4)

    @cached_property
    def edge(self) -> Edge:
        """The smallest variance of all mixtures of the compared families at each cost: pairs (cost, variance), by cost."""
        with one_blas_thread():  # the matrices are small: waiting for a second thread would take longer
            return self.reachable()

    def points(self) -> list[FrontierPoint]:
        """Return the policies with a finite variance as points of the plane of cost and variance.

        Returns
        -------
        list of FrontierPoint

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> [point.name for point in plan.points()]
        ['PL1', 'FL']
        """
        return [
            FrontierPoint(
                policy.policy,
                policy.cost,
                policy.variance,
                policy.variance * policy.error,
                policy.on_frontier and policy.variance <= (1 + _BETTER) * least_at(self.edge, policy.cost),
                policy.why,
                self.cost_text(policy.cost),
            )
            for policy in self.candidates
            if math.isfinite(policy.variance) and policy.cost > 0
        ]

    @property
    def left(self) -> float | None:
        """What is left of the budget after the pilot; None without a budget."""
        left = self.budget - self.spent
        return left if math.isfinite(left) else None

    @property
    def floor(self) -> float | None:
        """The smallest variance that is possible, where that is known."""
        return 1.0 if self.bounded else None

    @property
    def _possible(self) -> float | None:
        """The floor, unless a penalty trades bias for variance."""
        return None if self.squared_error else self.floor

    @property
    def axis_labels(self) -> tuple[str, str]:
        """The labels of the axes of cost and variance."""
        cost = "seconds of a fit" if self.unit == "seconds" else "the paper's FLOPs of a fit"
        relative = self.relative
        return cost, f"variance relative to {relative}"

    def plot(self) -> Figure:
        """Draw cost against variance, with the region that no policy reaches, the budget and the recommendation.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> plan.plot().savefig("frontier.png")
        """
        return draw_frontier(
            self.points(), self.edge, self.best, *self.axis_labels, budget=self.left, floor=self.floor
        )

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page to explore: the recommendation, the frontier with sliders for λ and β, and all policies.

        Parameters
        ----------
        path : str or Path
            The file. It contains everything that it shows and loads nothing.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> plan.to_html("plan.html")
        """
        from fieldfit.planner.plan_page import plan_page

        plan_page(self).write(path)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values.

        Returns
        -------
        dict
            Values that JSON can represent.

        Examples
        --------
        >>> import fieldfit as ff
        >>> model = ff.BoltzmannMachine(3)
        >>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
        >>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])
        >>> plan.to_dict()["unit"]
        'flops'
        """
        better = self.next_better
        return {
            "best": self.best,
            "reason": self.reason,
            "unit": self.unit,
            "budget": self.budget if math.isfinite(self.budget) else None,
            "spent": self.spent,
            "reference": self.reference,
            "criterion": self.kind,
            "method": self.method,
            "evaluations": self.evaluations,
            "pilot_samples": self.pilot_rows,
            "next_better": None if better is None else better.policy,
            "policies": self.table.to_dict(orient="records"),
            "explanation": self.explain(),
        }


def format_seconds(value: float) -> str:
    """Seconds with a unit that suits their size."""
    if not math.isfinite(value):
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"

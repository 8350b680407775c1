"""Result of the planner: the table of policies, the recommendation as text, and its pictures."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fieldfit.docstrings import filled
from fieldfit.planner.candidates import BETTER_VARIANCE, Candidate
from fieldfit.planner.pictures import plot, plot_lam, to_html, variance_against_lam
from fieldfit.planner.pilot import FULL, PILOT_POLICY, SURVEY
from fieldfit.planner.request import Target
from fieldfit.planner.search import Edge
from fieldfit.planner.survey import Survey
from fieldfit.report.table import PlainTable
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, Plain

if TYPE_CHECKING:
    import pandas as pd

    from fieldfit.api.result import Fit

#: What the examples of methods begin with.
_EXAMPLE = """\
>>> import fieldfit as ff
>>> model = ff.BoltzmannMachine(3)
>>> x = model.sample([1.0, -1.0, 0.5], 500, random_state=0).values
>>> plan = ff.plan(model, x, flops=1e6, policies=["PL1", "FL"])"""
#: Relative difference from the reference that is not written.
_EQUAL_VARIANCE = 5e-5
#: Relative standard error from which on the table shows it: differences of half a percent count.
_SHOWN_ERROR = 2.5e-3


@filled({"example": _EXAMPLE})
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

    survey: Survey = field(repr=False)
    candidates: tuple[Candidate, ...] = field(repr=False)
    best_candidate: Candidate
    reason: str
    unit: str
    budget: float
    spent: float
    reference: str
    relative: str
    kind: str
    method: str
    n: int
    evaluations: int
    theta: FloatArray = field(repr=False)
    notes: tuple[str, ...]
    caution: str  # said before the recommendation
    squared_error: bool  # the criterion is a squared error under the penalty's prior, not a variance
    floor: float | None  # the smallest variance that is possible, where that is known

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
        %(example)s
        >>> plan.within(flops=1e7).unit
        'flops'
        """
        from fieldfit.planner.planning import recommend

        target = replace(Target.of(budget, flops, efficiency), pilot_spent=True)
        with one_blas_thread():
            return recommend(replace(self.survey, target=target))

    def fit(self, policy: str | None = None, **options: Any) -> Fit:
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
        return self.survey.request.fitted(policy or self.best, **options)

    @property
    def _least(self) -> float | None:
        """The floor, unless a penalty trades bias for variance."""
        return None if self.squared_error else self.floor

    @property
    def next_better(self) -> Candidate | None:
        """The cheapest policy that is clearly more accurate than the recommended one, or None."""
        limit = self.best_candidate.variance * (1 - BETTER_VARIANCE)
        if self._least is not None and limit <= self._least:
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
        %(example)s
        >>> print(plan.explain())  # doctest: +ELLIPSIS
        Fit '...
        """
        best = self.best_candidate
        lines = [self.caution] if self.caution else []
        lines.append(f"Fit '{best.policy}': {self.reason}.")
        relative = self.relative
        what = "squared error" if self.squared_error else "variance"
        accuracy = f"its {what} is {best.variance:.4g} times that of {relative}"
        if abs(best.variance - 1) < _EQUAL_VARIANCE:
            accuracy = f"its {what} is that of {relative}"
        if best.policy == self.reference:
            accuracy = f"it is the reference of the comparison ({relative})"
        lines.append(
            f"It costs about {self._cost_text(best.cost)} and {accuracy}"
            + (f" (± {100 * best.error:.2g}% from the pilot's sample)." if best.error > 1e-6 else ".")
        )
        compared = f"none of the {len(self.candidates)} policies compared is"
        if best.second_stage:
            lines.append(best.second_stage)
        elif best.policy == str(PILOT_POLICY):
            missing = self.survey.not_compared
            among, left = (
                ("here", "") if not missing else ("of those compared", f" Not compared: {', '.join(missing)}.")
            )
            lines.append(
                f"Plain pseudo-likelihood is the best choice {among}: no mixture is more accurate at this cost.{left}"
            )
        elif best.policy == str(FULL):
            lines.append(
                f"Plain maximum likelihood is the best choice here: {compared} clearly more accurate"
                + (", and it is within the budget." if math.isfinite(self.budget) else ".")
            )
        least = min(policy.variance for policy in self.candidates)
        if self._least is not None and least < self._least * (1 - BETTER_VARIANCE):
            lines.append(
                f"Variances below {self._least:g} come from the pilot's samples: where the model is right, no estimator "
                "is more accurate than maximum likelihood."
            )
        better = self.next_better
        if better is not None:
            ratio = better.cost / best.cost
            times = "about the same cost" if ratio < 1.05 else f"{ratio:.3g} times as much"
            cost = f"{better.variance:.4g} for about {self._cost_text(better.cost)}, {times}"
            lines.append(f"The next more accurate policy is '{better.policy}': {cost}.")
        elif best.policy != str(FULL):
            lines.append(f"{compared.capitalize()} clearly more accurate at a higher cost.")
        if math.isfinite(self.budget):
            budget = f"of the budget of {self._cost_text(self.budget)}"
            used = f"The pilot has used {self._cost_text(self.spent)} {budget}."
            share = SURVEY * self.budget
            if self.unit == "seconds" and self.spent > share:
                used = f"{used[:-1]}, more than its share of {self._cost_text(share)}."
            lines.append(used if self.spent else f"The pilot's cost is already spent: all {budget} is for the fit.")
        pilot, count = f"{self.survey.pilot.rows.n:,} samples", self.best_candidate.evaluations
        account = f"setting up + the work of {count:.0f} evaluations, as much as a fit to at most {pilot} took"
        if self.unit == "flops":
            account = f"{self.evaluations} evaluations, as many as the pilot on {pilot}"
        accuracy = f"{self.kind}, {self.method}, with the selection noise, for these {self.n:,} samples"
        lines.append(f"Variance: {accuracy}. Cost: {account}.")
        return "\n".join([*lines, *self.notes])

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        kind = self.survey.request.model.kind
        return f"<Plan: {self.best} of {len(self.candidates)} policies, {kind}, {self.n:,} samples>"

    def _repr_html_(self) -> str:
        words = "".join(f"<p>{html.escape(line)}</p>" for line in self.explain().split("\n") if line)
        return words + self.plain_table(16).to_html()

    def _cost_text(self, value: float) -> str:
        """A cost with its unit."""
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
        %(example)s
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
        noisy = any(policy.error >= _SHOWN_ERROR for policy in shown)
        rows = tuple(
            (
                ("→ " if policy.policy == self.best else "• " if policy.on_frontier else "  ") + policy.policy,
                format_seconds(policy.seconds),
                f"{policy.flops:.2e}",
                policy.variance if math.isfinite(policy.variance) else None,
                *((policy.variance * policy.error if policy.error > 1e-6 else None,) if noisy else ()),
                policy.why,
            )
            for policy in shown
        )
        relative = self.relative
        note = (
            f"→ recommended, • on the frontier. Variance relative to {relative} ({self.kind}); time of a whole fit on an "
            "idle machine."
        )
        if noisy:
            note += " ± is its standard error: differences of less than two of them are noise."
        if len(shown) < len(self.candidates):
            count = len(self.candidates)
            note += (
                f" Shown are {len(shown)} of the {count} policies compared; plan.table has all (on the command line: "
                f"--rows {count}, or --json)."
            )
        title = f"Plan for {self.survey.request.model.kind}: {self.n:,} samples, {len(self.theta):,} parameters"
        columns = ("policy", "time", "FLOPs", "variance", *(("±",) if noisy else ()), "why")
        return PlainTable(title, columns, rows, note, ("", "", "", ".4g", *((".1g",) if noisy else ()), ""))

    variance_against_lam = variance_against_lam
    plot_lam = plot_lam
    plot = plot
    to_html = to_html

    @cached_property
    def edge(self) -> Edge:
        """The smallest variance of all mixtures of the compared families at each cost: pairs (cost, variance), by cost."""
        with one_blas_thread():  # the matrices are small: waiting for a second thread would take longer
            return self.survey.search.edge([(policy.cost, policy.variance) for policy in self.candidates])

    def to_dict(self) -> Plain:
        """Return plain values.

        Returns
        -------
        dict
            Values that JSON can represent.

        Examples
        --------
        %(example)s
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
            "pilot_samples": self.survey.pilot.rows.n,
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

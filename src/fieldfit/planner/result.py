"""Result of the planner: the table of policies, the recommendation as text, and its pictures."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldfit.asymptotics.meat import ENOUGH_FOR_PARAMETER
from fieldfit.asymptotics.separation import infinite_optimum
from fieldfit.docstrings import filled
from fieldfit.planner.candidates import BETTER_VARIANCE, Candidate, choose, thinned
from fieldfit.planner.pictures import format_seconds, plain_table, plot, to_html
from fieldfit.planner.pilot import FULL, PILOT_POLICY, SURVEY
from fieldfit.planner.request import Shards, Target
from fieldfit.planner.search import Edge
from fieldfit.planner.survey import Survey
from fieldfit.properties import cached_property
from fieldfit.threads import one_blas_thread
from fieldfit.types import FloatArray, Plain
from fieldfit.words import sentence

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
#: Seconds of a message between threads of one process, which is none, and of loading that is worth a number.
_LEAST_MESSAGE, _LEAST_LOADING = 2e-4, 0.05


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
        return self.survey.request.fitted(self.best if policy is None else policy, **options)

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
        best, caution = self.best_candidate, f"Caution: {self.caution}" if self.caution else ""
        lines = [caution, f"Fit '{best.policy}': {self.reason}.", self._accuracy_line(), self._choice_line()]
        least = min(policy.variance for policy in self.candidates)
        if self._least is not None and least < self._least * (1 - BETTER_VARIANCE):
            lines.append(
                f"Variances below {self._least:g} come from the pilot's samples: where the model is right, no estimator "
                "is more accurate than maximum likelihood."
            )
        lines += [self._next_line(), self._budget_line()]
        pilot = f"{self.survey.pilot.rows.n:,} samples"
        account = (
            f"setting up + the work of {best.evaluations:.0f} evaluations, as much as a fit to at most {pilot} took"
        )
        if self.unit == "flops":
            account = f"{self.evaluations} evaluations, as many as the pilot on {pilot}"
        accuracy = f"{self.kind}, {self.method}, with the selection noise, for these {self.n:,} samples"
        lines.append(f"Variance: {accuracy}. Cost: {account}.")
        if self.unit == "seconds" and self.survey.costs.shards is not None:
            lines.append(_messages_line(self.survey.costs.shards))
        return "\n".join([*filter(None, lines), *self.notes])

    def _accuracy_line(self) -> str:
        """What the recommended policy costs, and its variance."""
        best, what = self.best_candidate, "squared error" if self.squared_error else "variance"
        accuracy = f"its {what} is {best.variance:.4g} times that of {self.relative}"
        if abs(best.variance - 1) < _EQUAL_VARIANCE:
            accuracy = f"its {what} is that of {self.relative}"
        if best.policy == self.reference:
            accuracy = f"it is the reference of the comparison ({self.relative})"
        error = f" (± {100 * best.error:.2g}% from the pilot's sample)" if best.error > 1e-6 else ""
        return f"It costs about {self._cost_text(best.cost)} and {accuracy}{error}."

    @property
    def _none_is(self) -> str:
        return f"none of the {len(self.candidates)} policies compared is clearly more accurate"

    def _choice_line(self) -> str:
        """What a second stage does, or why a plain policy is the best choice."""
        best = self.best_candidate
        if best.second_stage:
            return best.second_stage
        if best.policy == str(PILOT_POLICY):
            missing = self.survey.not_compared
            among, left = ("of those compared", f" Not compared: {', '.join(missing)}.") if missing else ("here", "")
            return (
                f"Plain pseudo-likelihood is the best choice {among}: no mixture is more accurate at this cost.{left}"
            )
        if best.policy == str(FULL):
            within = ", and it is within the budget" if math.isfinite(self.budget) else ""
            return f"Plain maximum likelihood is the best choice here: {self._none_is}{within}."
        return ""

    def _next_line(self) -> str:
        """The next more accurate policy."""
        best, better = self.best_candidate, self.next_better
        if better is None:
            return "" if best.policy == str(FULL) else f"{self._none_is.capitalize()} at a higher cost."
        ratio = better.cost / best.cost
        times = "about the same cost" if ratio < 1.05 else f"{ratio:.3g} times as much"
        cost = f"{better.variance:.4g} for about {self._cost_text(better.cost)}, {times}"
        return f"The next more accurate policy is '{better.policy}': {cost}."

    def _budget_line(self) -> str:
        """What the pilot has used of the budget."""
        if math.isinf(self.budget):
            return ""
        budget, share = f"of the budget of {self._cost_text(self.budget)}", SURVEY * self.budget
        if not self.spent:
            return f"The pilot's cost is already spent: all {budget} is for the fit."
        over = self.unit == "seconds" and self.spent > share
        more = f", more than its share of {self._cost_text(share)}" if over else ""
        return f"The pilot has used {self._cost_text(self.spent)} {budget}{more}."

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

    plain_table = plain_table
    plot = plot
    to_html = to_html

    @cached_property
    def edge(self) -> Edge:
        """The smallest variance of all mixtures of the compared families at each cost: pairs (cost, variance), by cost."""
        with one_blas_thread():  # the matrices are small: waiting for a second thread would take longer
            edge = self.survey.search.edge([(policy.cost, policy.variance) for policy in self.candidates])
        return [(cost, max(variance, self.least)) for cost, variance in edge]

    @property
    def least(self) -> float:
        """The smallest variance that is shown: that of maximum likelihood, unless a policy is clearly below it."""
        clearly_below = any(policy.variance < 1.0 for policy in self.candidates)
        return 0.0 if self.survey.floor is None or clearly_below else 1.0

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


def recommend(survey: Survey) -> Plan:
    """The best that the survey's target allows."""
    request, moments, target = survey.request, survey.moments, survey.target
    candidates = survey.candidates()
    if survey.asked is None:
        candidates = thinned(candidates)
    spent = survey.spent()
    candidates = [replace(policy, affordable=policy.cost <= target.limit - spent) for policy in candidates]
    # A penalty determines what the samples do not.
    penalised = request.precision is not None and bool(np.all(request.precision > 0))
    needed = 0 if penalised else request.model.n_parameters
    best, reason = choose(candidates, target, needed)
    return Plan(
        survey=survey,
        candidates=tuple(candidates),
        best_candidate=best,
        reason=reason,
        unit=target.unit,
        budget=target.limit,
        spent=spent,
        reference=survey.reference,
        relative="maximum likelihood" if moments.full is not None else survey.reference,
        kind=moments.kind,
        method=moments.method,
        n=survey.n,
        evaluations=survey.costs.evaluations,
        theta=survey.pilot.theta,
        notes=survey.notes(),
        caution=_caution(survey, best, penalised),
        squared_error=moments.criterion.penalty is not None and request.functionals is None,
        floor=1.0 if survey.is_bounded else None,
    )


def _caution(survey: Survey, best: Candidate, penalised: bool) -> str:
    """What is said before the recommendation: few samples, and data that separate."""
    cautions, parameters = list[str](), survey.request.model.n_parameters
    if best.samples < ENOUGH_FOR_PARAMETER * parameters:
        used = f"'{best.policy}' uses about {best.samples:.0f} of {survey.n:,} samples"
        if best.samples >= survey.n:
            used = f"there are {survey.n:,} samples"
        told = "Variances are those of large samples; the real error is probably larger."
        if penalised:
            told = "The penalty determines what the samples do not; the comparison assumes that its prior is right."
        cautions.append(f"{used}, fewer than {ENOUGH_FOR_PARAMETER} for each of the {parameters} parameters. {told}")
    if survey.pilot.separated:
        told = "Variances are those where the pilot's optimiser stopped, and second stages are not compared: a fit refuses"
        cautions.append(
            f"{infinite_optimum(survey.pilot.separated)} {told} them without a finite first estimate. Give a penalty "
            "(sigma2), or fix or drop these parameters."
        )
    if survey.drift and best.policy != str(FULL):
        cautions.append(
            f"fields fitted by {PILOT_POLICY} run away from these data: {survey.drift}. Variances do not show this. A much "
            "stronger penalty (sigma2) keeps the field near the data; plan and fit with that one."
        )
    return " ".join([*cautions[:1], *map(sentence, cautions[1:])])


def _messages_line(shards: Shards) -> str:
    """What the seconds of a fit on workers have beside the work; empty for shards in this process."""
    if shards.overhead < _LEAST_MESSAGE:
        return ""
    placing, sharing, each = map(format_seconds, (shards.placing, shards.sharing, shards.overhead))
    loading = f" ({format_seconds(shards.loading)} here)" if shards.loading > _LEAST_LOADING else ""
    return (
        f"The seconds include messages, as timed on these workers: {placing} to place the samples, {sharing} to send the "
        f"policy, and {each} for each evaluation. The work is that of workers that have their processors for themselves. "
        f"Not included: the first fit on new workers takes longer, because they load the program{loading}."
    )

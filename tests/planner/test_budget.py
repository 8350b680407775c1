"""A plan looks as long as its budget allows, counts what it spends, and refuses budgets that are too small for it."""

import re
import time
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.cli import main
from fieldfit.models.work import Line
from fieldfit.optim.solution import Progress, Solution, Status
from fieldfit.planner import ingredients
from fieldfit.planner.calibration import calibration
from fieldfit.planner.candidates import Candidate, Origin, beyond_noise, choose
from fieldfit.planner.convergence import (
    Steps,
    TooLateError,
    growth,
    maximise,
    penalised,
    pilot_evaluations,
    to_the_end,
)
from fieldfit.planner.pilot import MOMENTS, PILOT, affordable_effort, usual_effort
from fieldfit.planner.request import Target, parse_seconds
from fieldfit.planner.search import Search
from fieldfit.types import FieldfitError


@pytest.mark.parametrize("text", [10, "10", "10s", " 10 s ", "10000ms", "10sec"])
def test_a_budget_without_a_unit_is_in_seconds(text):
    assert parse_seconds(text) == pytest.approx(10.0)


@pytest.mark.slow
def test_a_budget_without_a_unit_on_the_command_line(five, tmp_path, capsys):
    path = tmp_path / "data.csv"
    np.savetxt(path, five[2][:300], fmt="%d", delimiter=",", header="a,b,c,d,e", comments="")
    assert main(["plan", str(path), "--budget", "50", "-p", "PL1"]) == 0
    assert "of the budget of 50 s" in " ".join(capsys.readouterr().out.split())
    assert main(["plan", "boltzmann", "--help"]) == 0
    assert "10 means 10s" in " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("r", [50, 2_000, 300_000])
@pytest.mark.parametrize("seconds", [0.5, 5.0, 60.0])
def test_effort_fits_its_share_or_is_the_least(r, seconds):
    speed = Line(1e-6 * r / 250, 5e-6)
    effort = affordable_effort(r, 2.0 * r, 5000, seconds, speed, None)
    assert effort.rows <= usual_effort(r, 2.0 * r).rows
    assert effort.dense == (r == 50)
    pilot = pilot_evaluations(r) * (speed.at(effort.rows) + 0.6 * speed.at(effort.rows / 4))
    assert pilot <= PILOT * seconds or effort.rows == 40
    moments = 6 * effort.passes(r) * speed.at(effort.moment_rows)
    assert moments <= MOMENTS * seconds or effort.moment_rows == 40
    more = affordable_effort(r, 2.0 * r, 5000, 10 * seconds, speed, None)
    assert more.rows >= effort.rows
    assert more.moment_rows >= effort.moment_rows


def test_a_budget_too_small_for_a_plan_is_refused_in_words(five):
    model, _, x = five
    with pytest.raises(FieldfitError, match=r"too small for a plan.*plan.within"):
        ff.plan(model, x, budget="1ms")


@pytest.mark.slow
def test_what_was_spent_is_what_the_call_took(five, monkeypatch):
    """By a clock that moves on by a millisecond with each reading: no reading of the call is missing."""
    model, _, x = five
    readings = count()
    with ff.use_threads(1):
        calibration(ff.fit)  # is no part of a plan
        for name in ("thread_time", "process_time"):
            monkeypatch.setattr(f"time.{name}", lambda: 1e-3 * next(readings))
        began = time.thread_time()
        plan = ff.plan(model, x, budget="60s")
        took = time.thread_time() - began
    assert took > 0.05
    assert 0.9 * took <= plan.spent <= took
    longer = ff.plan(model, x, budget="60s", reading=3.0)
    assert longer.spent > 3.0
    assert min(own.seconds for own in longer.candidates) > 3.0


def solution(norms, converged=False):
    history = tuple(Progress(k, 0.0, norm, 0.0) for k, norm in enumerate(norms))
    status = Status.CONVERGED if converged else Status.CALLBACK
    last = len(norms) - 1
    return Solution(
        np.zeros(1), 0.0, np.zeros(1), norms[-1], last, last, 0, 0.0, converged, status, status.value, history
    )


def test_a_fit_that_is_stopped_early_is_extrapolated():
    norms = list(10.0 ** -np.arange(0, 2.01, 0.1))  # a decade in ten iterations
    assert to_the_end(solution(norms), 1e-4) == pytest.approx(2.0, rel=0.02)
    assert to_the_end(solution(norms, converged=True), 1e-4) == 1.0
    assert to_the_end(solution([1.0] * 21), 1e-4) == 1000 / 20  # it never would


def test_a_pilot_finishes_its_iteration_however_late_it_is(monkeypatch):
    """Another family is given up in the middle of it. By a clock that moves on by a second with each reading."""
    model = ff.MarkovRandomField([2, 3, 2], [(0, 1), (1, 2), (0, 1, 2)])
    x = model.sample(np.linspace(-1, 1, model.n_parameters), 200, random_state=0).values
    policy = ff.Policy.parse("PL1").bind(model.structure())
    objective = penalised(model.compile(model.read(x), policy.draw(0, 0, len(x))))
    readings = count()
    monkeypatch.setattr("fieldfit.planner.convergence.clock", lambda: float(next(readings)))
    assert maximise(objective, deadline=1.5, grace=np.inf).iterations == 1
    with pytest.raises(TooLateError):
        maximise(objective, deadline=next(readings) + 1.5)


def test_evaluations_grow_with_sentences_within_bounds():
    assert growth(100, 100, 4) == 0.0
    assert growth(50, 100, 4) == 0.0
    assert growth(101, 69, 4) == pytest.approx(1.2 * np.log(101 / 69) / np.log(4))
    assert growth(400, 100, 4) == 0.5
    assert Steps(100, 120.0, 1.0, True).times(3).equivalents == pytest.approx(360)
    assert Steps(100, 120.0, 1.0, True).times(30).count == 1000  # a fit ends there


def candidate(policy, cost, variance, error=0.0):
    return Candidate(policy, cost, cost, 0.0, 0.0, 1.0, variance, error, True, Origin.ASKED)


def test_an_uncertain_comparison_is_no_reason_to_take_the_cheaper_one():
    found = [candidate("PL1", 1.0, 1.8, 0.55), candidate("FL", 2.0, 1.0)]
    assert choose(found, Target(seconds=10.0))[0].policy == "FL"
    close = [candidate("PL1", 1.0, 1.015, 0.02), candidate("FL", 2.0, 1.0)]
    assert choose(close, Target(seconds=10.0))[0].policy == "PL1"
    better = [*found, replace(found[0], policy="FL + 0.1*PL2", variance=0.97, error=0.003, n_terms=2)]
    assert choose(better, Target(seconds=10.0))[0].policy == "FL + 0.1*PL2"
    equal = [*found, replace(better[-1], variance=1.0)]
    assert choose(equal, Target(seconds=10.0))[0].policy == "FL"


def test_what_lies_below_maximum_likelihood_by_chance_is_shown_as_equal():
    # Nothing is better than maximum likelihood where the model is right.
    assert beyond_noise(0.97, 0.003, np.inf) == 1.0
    # Where the model need not be right, it must be so by several standard errors.
    assert beyond_noise(0.97, 0.003, 3.0) == 0.97
    assert beyond_noise(0.96, 0.03, 3.0) == 1.0
    assert beyond_noise(1.2, 0.03, 3.0) == 1.2
    assert beyond_noise(0.5, 0.03, None) == 0.5  # without maximum likelihood 1 means nothing


def test_what_costs_more_and_is_less_accurate_is_not_recommended():
    refined = replace(candidate("PL1 >> FL", 6.9, 1.0), second_stage="…")
    found = [refined, candidate("PL3", 7.2, 1.0048)]
    assert choose(found, Target(seconds=10.0))[0].policy == "PL1 >> FL"
    # A second stage must be clearly cheaper than what is as accurate, and one more term must be worth it.
    assert choose([*found, candidate("FL", 7.3, 1.0)], Target(seconds=10.0))[0].policy == "FL"
    mixed = replace(candidate("PL1 + FL", 6.9, 1.0), n_terms=2)
    assert choose([mixed, found[1]], Target(seconds=10.0))[0].policy == "PL3"
    noisy = [replace(policy, error=0.003) for policy in found]
    assert choose(noisy, Target(seconds=10.0))[0].policy == "PL3"


def test_where_nothing_is_affordable_the_most_accurate_of_the_cheapest_is_taken():
    found = [candidate("0.1*PL1/row", 8.0, 10.5), candidate("PL1", 8.5, 1.05), candidate("FL", 20.0, 1.0)]
    found = [replace(own, affordable=False) for own in found]
    best, why = choose(found, Target(seconds=1.0))
    assert best.policy == "PL1"
    assert "too small for any" in why


@pytest.mark.slow
def test_all_of_the_data_is_not_called_a_part_of_it(five):
    model, _, x = five
    plan = ff.plan(model, x, flops=1e9)
    assert "PL1/row" not in set(plan.table["policy"])


@pytest.mark.slow
def test_the_search_counts_the_runs_that_it_made(five, monkeypatch):
    """Where time allows one joint optimum only, its seconds are not taken for a quarter of what they are."""
    model, _, x = five
    joint: Any = vars(Search)["joint"]
    budgets, ends, readings, slept = [], [], count(), [0.0]
    # A clock that moves on by 0.1 ms with each reading, and by 0.6 s with each run.
    monkeypatch.setattr("time.thread_time", lambda: 1e-4 * next(readings) + slept[0])

    def delayed(search, budget, **options):
        budgets.append(budget)
        slept[0] += 0.6
        best = joint(search, budget, **options)
        ends.append(time.thread_time())
        return best

    monkeypatch.setattr(Search, "joint", delayed)
    plan = ff.plan(model, x, budget="20s")
    # One run takes 0.6 s, more than half of the search's share: no other before that at the budget, which leaves room for
    # three of them.
    assert len(budgets) == 2
    assert budgets[-1] <= 20 - (ends[0] - plan.survey.began) - 3 * 0.6


@pytest.mark.slow
def test_words_fit_what_was_asked(five):
    model, _, x = five
    free = ff.plan(model, x, policies=["PL1", "FL"]).explain()
    assert "of the 2 policies compared" in free
    assert "within the budget" not in free
    rich = ff.plan(model, x, flops=1e12, policies=["PL1", "FL"], sigma2=1.0).explain()
    assert "and it is within the budget" in rich
    assert "squared error" in rich
    plain = ff.plan(model, x, flops=1.6e7, policies=["PL1", "FL"], sigma2=1.0).explain()
    assert "Plain pseudo-likelihood is the best choice" in plain
    assert "its squared error is" in plain
    assert "The next more accurate policy is 'FL'" in plain


def test_a_variance_below_that_of_maximum_likelihood_is_no_promise(five):
    model, _, x = five
    plan = ff.plan(model, x, policies=["PL1", "FL"])
    full = next(candidate for candidate in plan.candidates if candidate.policy == "FL")
    lucky = replace(full, policy="PL1", variance=0.94, cost=2 * full.cost)
    shown = replace(plan, candidates=(full, lucky), best_candidate=full)
    assert shown.next_better is None
    assert "Variances below 1 come from the pilot's samples" in shown.explain()
    assert "more accurate policy" not in shown.explain()
    assert "Variances below" not in replace(plan, candidates=(full,), best_candidate=full).explain()


@pytest.mark.slow
def test_a_busy_machine_changes_neither_what_a_survey_compares_nor_what_it_spends(five, monkeypatch):
    """The wall clock moves on by an hour with each reading: only CPU seconds count."""
    model, _, x = five
    hours = count()
    monkeypatch.setattr("time.perf_counter", lambda: 3600.0 * next(hours))
    plan = ff.plan(model, x, budget="20s")
    assert plan.survey.not_compared == []
    assert plan.spent < 20
    assert any(">>" in own.policy for own in plan.candidates)


@pytest.mark.slow
def test_a_plan_runs_no_fit_and_charges_every_one_with_its_fixed_seconds(five, monkeypatch):
    """Reading the policy, checks and the result take as long as a dozen evaluations of a small table."""
    model, _, x = five
    monkeypatch.setattr("fieldfit.api.plan.fit", lambda *given, **options: pytest.fail("a fit was run"))
    plan = ff.plan(model, x)
    assert min(own.seconds for own in plan.candidates) > plan.survey.costs.rates.fit_seconds > 0
    costs, unit = plan.survey.costs, np.eye(len(plan.survey.ingredients))[0]
    free = replace(costs.ingredients[0].steps, equivalents=0.0, overhead=0.0)
    parts = [replace(part, steps=free, selected=(), together=()) for part in costs.ingredients]
    monkeypatch.setattr("fieldfit.planner.costs.FitCosts._alone", lambda *given: [])
    assert replace(costs, ingredients=parts).seconds(unit) == pytest.approx(costs.reading + costs.rates.fit_seconds)


def test_a_mixture_takes_at_least_as_long_as_its_slowest_family(five):
    model, _, x = five
    costs = ff.plan(model, x, policies=["PL1", "FL"]).survey.costs
    slow = replace(costs.ingredients[0].steps, overhead=1.0)
    slower = replace(costs, ingredients=[replace(costs.ingredients[0], steps=slow), costs.ingredients[1]])
    assert slower.seconds(np.array([1.0, 0.1])) > 1.0
    assert slower.seconds(np.array([0.0, 0.1])) < 0.5


def test_a_family_skipped_for_time_says_which_share_of_the_budget_is_too_small(five, monkeypatch):
    seconds = iter([1e-9])  # of an evaluation of PL1; all others take long
    monkeypatch.setattr(ingredients, "least_seconds", lambda run, *repeats: next(seconds, 1e6))
    model, _, x = five
    words = " ".join(ff.plan(model, x, budget="300s").notes)
    told = re.search(
        r"FL: skipped, estimating its variance alone would take about \S+ s, more than the (\S+) s that", words
    )
    assert told is not None, words
    assert 0 < float(told[1]) <= 60
    assert "s that are left of the 60 s for reading, pilot and variances (20% of the budget)." in words

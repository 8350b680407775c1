"""Warnings point at the line of the user, however deep in fieldfit they begin; threads leave out and hear their own."""

import inspect
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
from fieldfit.callers import heard, warn_caller, without_warnings
from fieldfit.types import ConvergenceWarning, FieldfitWarning, SeparationWarning

MODEL = ff.BoltzmannMachine(3, biases=True)
SAMPLES = MODEL.sample(np.full(6, 0.2), 60, random_state=0).values
APART = np.where((SAMPLES[:, :1] == 1) & [False, True, False], 0, SAMPLES)  # x0 and x1 are never 1 together
COUNTED = pd.DataFrame(SAMPLES, columns=list("abc")).assign(cases=np.arange(len(SAMPLES)) % 7 + 1)


@pytest.mark.parametrize(
    ("category", "calls"),
    [
        (SeparationWarning, lambda: ff.fit(MODEL, APART, "PL1")),
        (ConvergenceWarning, lambda: ff.fit(MODEL, SAMPLES, "PL1", max_iter=1, method="lbfgs")),
        (FieldfitWarning, lambda: ff.fit(MODEL, COUNTED, "PL1", sample_weight="cases")),
    ],
)
def test_a_warning_of_a_fit_points_at_its_caller(category, calls):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calls()
    told = [warning for warning in caught if issubclass(warning.category, category)]
    assert told
    line = inspect.getsourcelines(calls)[1]
    assert {(warning.filename, warning.lineno) for warning in told} == {(__file__, line)}


def test_warnings_are_left_out_and_heard_in_one_thread_only():
    """Two threads enter and leave the blocks in turns, in the order that `warnings.catch_warnings` does not survive."""
    filters, turns = list(warnings.filters), threading.Barrier(2, timeout=60)

    def first():
        with without_warnings(SeparationWarning):
            turns.wait()  # the second enters
            turns.wait()
            warn_caller("left out", SeparationWarning)
        turns.wait()  # the second leaves
        turns.wait()

    def second():
        turns.wait()
        with without_warnings(ConvergenceWarning), heard() as said:
            turns.wait()
            turns.wait()
            warn_caller("left out", ConvergenceWarning)
            warn_caller("given", SeparationWarning)
        turns.wait()
        return said

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(2) as pool:
            alone, said = pool.submit(first), pool.submit(second)
            alone.result()
        warn_caller("given", ConvergenceWarning)
    assert said.result() == [(SeparationWarning, "given")]
    assert [(each.category, str(each.message)) for each in caught] == [
        (SeparationWarning, "given"),
        (ConvergenceWarning, "given"),
    ]
    assert list(warnings.filters) == filters


def test_bootstraps_in_threads_leave_the_filters_as_they_are():
    fit = ff.fit(MODEL, SAMPLES[:12], "PL1", sigma2=1.0)
    alone = fit.bootstrap(20, kind="rows").theta
    filters = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: fit.bootstrap(20, kind="rows").theta, range(12)))
    assert all(np.array_equal(alone, each) for each in together)
    assert list(warnings.filters) == filters

"""Warnings point at the line of the user, however deep in fieldfit they begin."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest

import fieldfit as ff
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

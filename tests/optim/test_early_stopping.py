"""Early stopping: what counts as an improvement."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.optim import Progress
from fieldfit.types import FieldfitError


def run(scores, **options):
    stopping = ff.EarlyStopping(lambda theta: float(theta[0]), **options)
    for iteration, score in enumerate(scores):
        if stopping(Progress(iteration, 0.0, 0.0, 0.0), np.array([score])):
            return stopping, iteration
    return stopping, None


def test_gains_within_the_tolerance_do_not_prolong_a_fit_but_the_best_is_kept():
    scores = [0.1, 0.5, 0.505, 0.509, 0.507, 0.6]
    stopping, ended = run(scores, patience=3, tol=0.01)
    assert ended == 4
    assert stopping.best_score == 0.509
    assert stopping.best_iteration == 3
    assert "more than 0.01" in stopping.message
    assert stopping.message.endswith("in 3 evaluations")
    assert run(scores, patience=3)[1] is None
    assert run([0.5, 0.4], patience=1)[0].message.endswith("with no improvement in 1 evaluation")


def test_small_gains_add_up_to_an_improvement():
    stopping, ended = run([0.5, 0.506, 0.512, 0.518, 0.524, 0.53], patience=3, tol=0.01)
    assert ended is None
    assert stopping.best_score == 0.53


def test_a_negative_tolerance_is_refused():
    with pytest.raises(FieldfitError, match="at least 0"):
        ff.EarlyStopping(lambda theta: 0.0, tol=-1.0)

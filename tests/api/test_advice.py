"""Advice of warnings has the names of the caller's options."""

from __future__ import annotations

from fieldfit.api.advice import Advice, advised, current_advice


def test_advice_is_that_of_the_innermost_block() -> None:
    plain = current_advice()
    assert plain == Advice()
    outer, inner = Advice(penalty="a prior (strength)"), Advice(iterations="rounds")
    with advised(outer):
        with advised(inner):
            assert current_advice() is inner
        assert current_advice() is outer
    assert current_advice() is plain


def test_what_helps_a_fit_to_converge() -> None:
    advice = Advice(iterations="rounds", penalty="a prior (strength)", rounding="Scale the features.")
    assert (
        advice.to_converge(rounding=False) == "Give more iterations (rounds), a prior (strength), or check the data."
    )
    assert advice.to_converge(rounding=True) == "Scale the features."
    assert Advice().to_converge(rounding=False).startswith("Give more iterations (max_iter), a penalty (sigma2)")

"""Two-stage estimators as text: they print back, and errors say where and what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfit.policies import Policy
from fieldfit.refinement.staged import Staged, as_estimator, as_second
from fieldfit.refinement.stages.nodewise import Nodewise
from fieldfit.refinement.stages.optimal import Optimal
from fieldfit.refinement.stages.simulated import Simulated
from fieldfit.types import PolicyError

policies = st.sampled_from(
    ["PL1", "0.2*FL", "PL1 + 0.3*PL2@0.5", "Multinomial(0.6*PL1 + 0.4*PL2)", "Partition(2)"]
).map(Policy.parse)
seconds = (
    st.builds(Optimal, st.none() | st.integers(1, 9))
    | st.builds(Simulated, st.integers(100, 10**6))
    | policies.map(as_second)
)
staged = st.builds(Staged, policies, seconds) | st.just(Staged(Policy.parse("PL1"), Nodewise()))


@given(staged)
def test_prints_back(estimator: Staged) -> None:
    assert as_estimator(str(estimator)) == estimator
    assert as_estimator(str(estimator).replace(" ", "")) == estimator


def test_policies_of_one_stage_stay_policies() -> None:
    assert as_estimator("PL1 + 0.2*PL2") == Policy.parse("PL1 + 0.2*PL2")
    staged = Staged(Policy.parse("PL1"), Optimal(2))
    assert as_estimator(staged) is staged


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (">> optimal", "first stage"),
        ("PL1 >>", "optimal, optimal\\(2\\), a policy such as FL, or FL~10000"),
        ("PL1 >> optimum", "expected the second stage: optimal, .* Did you mean 'optimal'"),
        ("PL1 >> fl", "Did you mean 'FL'"),
        ("PL1 >> optimal(", "a graph distance"),
        ("PL1 >> optimal(0)", "at least 1"),
        ("PL1 >> optimal(2", "closes optimal"),
        ("PL1 >> FL~", "number of draws"),
        ("PL1 >> FL~5", "at least 100 draws"),
        ("PL1 >> FL >> optimal", "at most two stages"),
        ("PL1 >> optimal 3", "end of the second stage"),
        ("PL1 >> Nodewise", "only be the first stage"),
        ("Nodewise >> FL", "has no meaning"),
        ("Nodewise >> optimal(2)", "no instruments beyond the neighbours"),
        ("Nodewise", "several estimates"),
    ],
)
def test_errors_are_sentences(text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        as_estimator(text)


def test_where_one_stage_is_needed() -> None:
    with pytest.raises(PolicyError, match="one stage"):
        Policy.parse("PL1 >> optimal")
    with pytest.raises(PolicyError, match="got int"):
        as_estimator(3)  # type: ignore[arg-type]

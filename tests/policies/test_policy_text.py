from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit.policies import Blocks, Components, Full, Policy, PseudoLikelihood, Subset, Term, as_policy
from fieldfit.policies.laws.base import law_names
from fieldfit.policies.laws.independent import Independent
from fieldfit.policies.laws.loglinear import LogLinear
from fieldfit.policies.laws.multinomial import Multinomial
from fieldfit.policies.laws.partition import Partition
from fieldfit.policies.laws.unless import Unless
from fieldfit.types import PolicyError

variables = st.integers(0, 30)
sets = st.lists(variables, min_size=1, max_size=3, unique=True).map(tuple)
weights = st.floats(0, 1e6, allow_subnormal=True) | st.lists(st.floats(0, 1e300), min_size=1, max_size=4).map(tuple)
probabilities = st.floats(0, 1) | st.lists(st.floats(0, 1), min_size=1, max_size=4).map(tuple)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    members = draw(st.lists(variables, min_size=1, max_size=6, unique=True))
    cut = draw(st.integers(1, len(members)))
    return tuple(members[:cut]), tuple(members[cut:])


whole_families = (
    st.just(Full())
    | st.builds(PseudoLikelihood, st.integers(1, 12), st.booleans())
    | st.builds(Blocks, st.lists(sets, min_size=1, max_size=3).map(tuple))
    | st.builds(Components, st.lists(pairs(), min_size=1, max_size=3).map(tuple))
)
ranges = st.builds(
    lambda a, length, step: range(a, a + length, step), st.integers(0, 9), st.integers(1, 9), st.integers(1, 3)
)
families = whole_families | st.builds(
    Subset, whole_families, ranges | st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True).map(tuple)
)
divisors = st.just(1.0) | st.none() | st.floats(1e-3, 1e6)
units = st.builds(Term, families, st.just(1.0), weights, st.sampled_from(["", "row", "sentence"]), divisors)
terms = st.builds(Term, families, probabilities, weights, st.sampled_from(["", "nested"]), divisors) | st.builds(
    Term, families, st.floats(0, 1), weights, st.sampled_from(["row", "sentence"]), divisors
)


def named_once(found: list[Term]) -> bool:
    return len({term.name for term in found}) == len(found)


@st.composite
def multinomials(draw: st.DrawFn) -> Multinomial:
    found = draw(st.lists(units, min_size=1, max_size=3).filter(named_once))
    raw = [draw(st.floats(0.1, 1)) for _ in found]
    return Multinomial(tuple(replace(t, lam=w / sum(raw)) for t, w in zip(found, raw, strict=True)))


@st.composite
def loglinears(draw: st.DrawFn) -> LogLinear:
    found = draw(st.lists(units, min_size=1, max_size=3).filter(named_once))
    scopes = draw(st.lists(st.sets(st.integers(0, 9), max_size=3).map(lambda s: tuple(sorted(s))), unique=True))
    values = st.floats(-50, 50) | st.just(float("-inf"))
    return LogLinear(tuple(found), tuple((scope, draw(values)) for scope in scopes))


def sums(laws: st.SearchStrategy) -> st.SearchStrategy:
    def sound(found: list[Any]) -> bool:
        return named_once([law.term for law in found if isinstance(law, Independent)]) and any(
            law.can_select() for law in found
        )

    return st.lists(laws, min_size=1, max_size=3).filter(sound).map(tuple)


laws = st.recursive(
    st.builds(Independent, terms)
    | multinomials()
    | st.builds(Partition, st.integers(1, 9), st.floats(0, 1e6))
    | loglinears(),
    lambda inner: st.builds(Unless, terms, sums(inner)),
    max_leaves=4,
)


@settings(deadline=None)
@given(sums(laws).filter(lambda found: any(law.can_count() for law in found)).map(Policy))
@pytest.mark.slow
def test_text_reads_back_as_the_same_policy(policy: Policy) -> None:
    assert Policy.parse(str(policy)) == policy
    assert hash(Policy.parse(str(policy))) == hash(policy)
    assert as_policy(str(policy)) == as_policy(policy)


@settings(deadline=None)
@given(st.text(alphabet="FLP120.5*+@/[]{}()|,:; rowinfMultomalUessdk", max_size=40))
def test_any_text_is_a_policy_or_a_policy_error(text: str) -> None:
    try:
        policy = Policy.parse(text)
    except PolicyError:
        return
    assert Policy.parse(str(policy)) == policy


def test_every_example_prints_as_it_was_written(law_text: str) -> None:
    assert str(Policy.parse(law_text)) == law_text


def test_spaces_and_defaults() -> None:
    spread = Policy.parse("  1 * PL1 @ 1.0+0.50*FL / row@.5 ")
    assert str(spread) == "PL1 + 0.5*FL/row@0.5"
    assert Policy.parse("Independent(0.5*PL1)") == Policy.parse("0.5*PL1")
    assert Policy.parse("0.2*PL2/sentence") != Policy.parse("0.2*PL2/row")
    assert law_names() == ["Independent", "LogLinear", "Multinomial", "Partition", "Unless"]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("PL1 +", 5, "expected a family"),
        ("PL0", 0, "at least one variable"),
        ("PL1 + PL1", 0, "appears twice"),
        ("0.5", 3, r"expected '\*'"),
        ("0.5 PL1", 4, r"expected '\*'"),
        ("1.2*PL1", 0, r"must lie in \[0, 1\]; it is 1.2"),
        ("-0.1*PL1", 0, r"must lie in \[0, 1\]; it is -0.1"),
        ("nan*PL1", 0, r"must lie in \[0, 1\]; it is nan"),
        ("[0.5,nan]*PL1", 0, r"must lie in \[0, 1\]; it is nan"),
        ("[0.5 0.1]*PL1", 5, "closes the list"),
        ("PL1@-1", 0, "at least 0; it is -1"),
        ("PL1@nan", 0, "at least 0; it is nan"),
        ("PL1@inf", 0, "at least 0; it is inf"),
        ("PL1@", 4, "a weight β, a number"),
        ("0*PL1", 0, "never selects"),
        ("[0,0]*PL1 + 0*PL2", 0, "never selects"),
        ("Foo(PL1)", 0, "or a law .*Multinomial"),
        ("PL", 0, r"expected a family .*Did you mean 'PL1'\?$"),
        ("PLL1", 0, r"Did you mean 'PL1'\?$"),
        ("pl1", 0, r"Unless\)\. Did you mean 'PL1'\?$"),
        ("PL1 + 0.5*pl12", 10, "expected a family"),
        ("fl", 0, r"Did you mean 'FL'\?$"),
        ("partition(2)", 0, r"Did you mean 'Partition'\?$"),
        ("PL1 PL2", 4, "expected '\\+' and another term"),
        ("PL1)", 3, "expected '\\+' and another term"),
        ("PL1[", 4, "number of a component"),
        ("PL1[3:3]", 0, "is empty"),
        ("PL1[0:2:0]", 10, "step"),
        ("PL1[0,0]", 0, "different numbers"),
        ("PL1[0][0]", 6, "expected '\\+'"),
        (f"PL1[0:{10**30}]", 0, "larger than the size of any family"),
        ("PL1/word", 4, "'row', 'sentence' or 'nested'"),
        ("[0.1,0.2]*PL1/row", 0, "one λ"),
        ("PL2(conn)", 8, r"only option of PL2 is \(connected\)"),
        ("Blocks()", 7, "expected '{'"),
        ("Blocks({})", 0, "empty block"),
        ("Blocks({0,0})", 0, "variable twice"),
        ("Blocks({0,1)", 11, "expected '}'"),
        ("Components({0}|{0})", 0, "must not overlap"),
        ("Components({}|{0})", 0, "empty A"),
        ("Components({0},{1})", 14, r"expected '\|'"),
        ("Multinomial(", 12, "expected a family"),
        ("Multinomial(0.5*PL1)", 0, "must sum to 1.*sum to 0.5"),
        ("Multinomial(0.5*PL1 + 0.5*PL1)", 0, "appears twice"),
        ("PL1 + Multinomial(0.5*PL1)", 6, "must sum to 1"),
        ("PL1 > optimal", 4, "written after '>>', as in 'PL1 >> optimal'"),
        ("Unless(FL)", 9, "expected ','"),
        ("Unless(0.2*FL, 0*PL1)", 0, "never selects"),
        ("Unless(FL, " * 30 + "PL1", 220, "nested at most"),
        ("Partition(0)", 0, "at least one variable"),
        ("Partition(2)@[1,2]", 0, "one weight β"),
        ("Partition(2.5)", 11, "expected '\\)'"),
        ("LogLinear(PL1; 0 -1)", 17, "expected ':'"),
        ("LogLinear(PL1; 0: inf)", 0, "finite number or -inf"),
        ("LogLinear(PL1; 0: nan)", 0, "finite number or -inf"),
        ("LogLinear(PL1; 1,0: 1)", 0, "increasing order"),
        ("LogLinear(PL1; 0: 1; 0: 2)", 0, "two interactions"),
        ("LogLinear(0.5*PL1)", 0, "follow from its interactions"),
    ],
)
def test_bad_text_is_quoted_with_position_and_reason(text: str, position: int, reason: str) -> None:
    with pytest.raises(PolicyError, match=reason) as caught:
        Policy.parse(text)
    assert str(caught.value).startswith(f"The policy '{text}' is not valid at position {position} (")


@pytest.mark.parametrize("text", ["", "   "])
def test_empty_text(text: str) -> None:
    with pytest.raises(PolicyError, match="The policy is empty"):
        Policy.parse(text)


def test_as_policy_refuses_other_objects() -> None:
    with pytest.raises(PolicyError, match="got int"):
        as_policy(3)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="has no component"):
        Policy(())


def test_other_weights_and_probabilities() -> None:
    policy = Policy.parse("PL1 + Multinomial(0.6*FL + 0.4*PL2) + Unless(0.2*FL, Partition(2)@3) + LogLinear(PL3)")
    assert policy.term_names == ("PL1", "FL", "PL2", "FL", "Partition(2)", "PL3")
    changed = policy.with_betas([1, 2, (3, 4), 5, 6, 7])
    assert changed.betas == (1, 2, (3, 4), 5, 6, 7)
    assert changed.with_betas(policy.betas) == policy
    changed = policy.with_lams([0.5, 0.9, 0.1, 0.3, None, None])
    assert changed.lams == (0.5, 0.9, 0.1, 0.3, None, None)
    assert changed.with_lams(policy.lams) == policy
    assert policy.with_lams([None] * 6) == policy
    with pytest.raises(PolicyError, match="6 terms; got 2"):
        policy.with_betas([1, 2])
    with pytest.raises(PolicyError, match="must sum to 1"):
        policy.with_lams([0.5, 0.9, 0.9, 0.3, None, None])
    with pytest.raises(PolicyError, match="follow from k"):
        policy.with_lams([None, None, None, None, 0.5, None])
    with pytest.raises(PolicyError, match="at least 0; it is -1"):
        policy.with_betas([-1, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("text", ["PL" + "1" * 5000, "PL1[" + "9" * 5000 + "]", "Blocks({" + "1" * 5000 + "})"])
def test_numbers_with_thousands_of_digits_are_refused(text):
    with pytest.raises(PolicyError):
        Policy.parse(text)

"""Estimators of two stages: a policy, and what refines its estimate.

| text                    | second stage                                                                                |
|-------------------------|---------------------------------------------------------------------------------------------|
| ``A >> optimal``        | the scores of A's components and instruments, with optimal matrix weights                   |
| ``A >> optimal(2)``     | the same with instruments up to graph distance 2                                            |
| ``A >> B``              | Newton steps on B's objective, until the optimisation error is small against sampling error |
| ``A >> 0.2*FL``         | the scores of FL on a part of the samples, with A's as control variates                     |
| ``A >> FL~10000``       | Fisher scoring on the full likelihood with 10,000 draws of the model                        |
| ``Nodewise >> optimal`` | every variable is fitted on its own, and the separate estimates are combined                |
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldfit.named import closest_names
from fieldfit.policies.laws.base import is_law_name, read_sum
from fieldfit.policies.policy import Policy
from fieldfit.policies.text import Reader
from fieldfit.refinement.second_stage import SecondStage, second_stages
from fieldfit.types import PolicyError

#: The policy that a word for the first stage stands for: every variable given all others.
_SINGLE_VARIABLES = "PL1"
#: What may stand after ``>>``, for messages.
_SECOND_STAGES = "optimal, optimal(2), a policy such as FL, or FL~10000"


@dataclass(frozen=True)
class Staged:
    """A first stage and what refines its estimate. ``as_estimator(str(staged)) == staged``."""

    first: Policy
    second: SecondStage

    def __str__(self) -> str:
        return self.second.text(self.first)


def as_estimator(policy: Policy | Staged | str) -> Policy | Staged:
    """The policy or two-stage estimator that the text describes."""
    if isinstance(policy, Policy | Staged):
        return policy
    if not isinstance(policy, str):
        raise PolicyError(
            f"A policy is a text such as 'PL1 + 0.2*PL2' or 'PL1 >> optimal', a Policy or a Staged; got "
            f"{type(policy).__name__}."
        )
    if ">>" not in policy:
        try:
            return Policy.parse(policy)
        except PolicyError:
            word = _first_words().get(policy.strip())
            if word is None:
                raise
            raise PolicyError(
                f"'{policy.strip()}' alone has several estimates of each parameter: write '{word.examples[0]}'."
            ) from None
    reader = Reader(policy)
    if reader.peek(">>"):
        reader.fail("expected the first stage, a policy such as PL1.")
    first, kind = _read_first(reader)
    reader.expect(">>", "and the second stage")
    start = reader.position
    if reader.at_end():
        reader.fail(f"expected the second stage: {_SECOND_STAGES}.")
    with reader.blame(start):
        second = _read_second(reader) if kind is None else kind.read(reader)
        if second is None:
            only = kind.examples[0] if kind else ""
            reader.fail(f"this has no meaning after its first stage: write '{only}', or '{first} >> …'.", start)
        if reader.peek(">>"):
            reader.fail("a policy has at most two stages.")
        if not reader.at_end():
            reader.fail("expected the end of the second stage.")
        return Staged(first, second)


def evaluated_policies(estimator: Policy | Staged) -> tuple[Policy, ...]:
    """The policies that the stages evaluate."""
    return (estimator,) if isinstance(estimator, Policy) else estimator.second.evaluates(estimator.first)


def as_second(second: SecondStage | Policy | str) -> SecondStage:
    """The second stage that the text after ``>>``, or a policy, describes."""
    if isinstance(second, SecondStage):
        return second
    staged = as_estimator(f"{_SINGLE_VARIABLES} >> {second}")
    assert isinstance(staged, Staged)
    return staged.second


def _first_words() -> dict[str, type[SecondStage]]:
    return {kind.first_word: kind for kind in second_stages() if kind.first_word}


def _read_first(reader: Reader) -> tuple[Policy, type[SecondStage] | None]:
    """The first stage, and the kind of second stage that its word belongs to."""
    start = reader.position
    kind = _first_words().get(reader.word() or "")
    if kind is not None:
        return Policy.parse(_SINGLE_VARIABLES), kind
    reader.position = start
    with reader.blame(start):
        return Policy(read_sum(reader)), None


def _read_second(reader: Reader) -> SecondStage:
    start = reader.position
    word = reader.word()
    if word in _first_words():
        reader.fail(f"{word} can only be the first stage.", start)
    for kind in second_stages():
        reader.position = start
        second = None if kind.first_word else kind.read(reader)
        if second is not None:
            return second
    if word is not None and not is_law_name(word):
        meant = closest_names(word, ["optimal", "FL"])
        asked = f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""
        reader.fail(f"expected the second stage: {_SECOND_STAGES}.{asked}", start)
    reader.position = start
    policy = Policy(read_sum(reader))
    readings = (kind.of_policy(policy) for kind in second_stages())
    return next(second for second in readings if second is not None)

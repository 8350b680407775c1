"""Two-stage estimators: a policy, and what refines its estimate.

| text                | second stage                                                                                |
|---------------------|---------------------------------------------------------------------------------------------|
| ``A >> optimal``    | the scores of A's components and instruments, with optimal matrix weights                   |
| ``A >> optimal(2)`` | the same with instruments up to graph distance 2                                            |
| ``A >> B``          | Newton steps on B's objective, until the optimisation error is small against sampling error |
| ``A >> FL~10000``   | Fisher scoring on the full likelihood with 10,000 draws of the model                        |

A is a policy, or ``Nodewise``: every variable is fitted on its own, given all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldfit.policies.laws.base import read_sum
from fieldfit.policies.policy import Policy
from fieldfit.policies.text import Reader
from fieldfit.types import PolicyError


@dataclass(frozen=True)
class Nodewise:
    """``Nodewise``: log p(x_j | x_−j) maximised for each variable j alone, with parameters of its own."""

    def __str__(self) -> str:
        return "Nodewise"


@dataclass(frozen=True)
class Optimal:
    """``optimal`` or ``optimal(d)``; None lets the predicted variance choose the graph distance."""

    distance: int | None = None

    def __post_init__(self) -> None:
        if self.distance is not None and self.distance < 1:
            raise PolicyError(f"optimal(d) needs a graph distance of at least 1; got {self.distance}.")

    def __str__(self) -> str:
        return "optimal" if self.distance is None else f"optimal({self.distance})"


@dataclass(frozen=True)
class Simulated:
    """``FL~M``: the full likelihood with M draws of the model in place of exact sums."""

    draws: int

    def __post_init__(self) -> None:
        if self.draws < 100:
            raise PolicyError(f"FL~M needs at least 100 draws; got {self.draws}.")

    def __str__(self) -> str:
        return f"FL~{self.draws}"


Second = Optimal | Simulated | Policy


@dataclass(frozen=True)
class Staged:
    """A first stage and what refines its estimate. ``as_estimator(str(staged)) == staged``."""

    first: Policy | Nodewise
    second: Second

    def __post_init__(self) -> None:
        if isinstance(self.first, Nodewise) and not isinstance(self.second, Optimal):
            raise PolicyError(
                f"'Nodewise >> {self.second}' has no meaning: the separate fits of Nodewise are combined by '>> optimal'. "
                f"Use 'PL1 >> {self.second}'."
            )

    def __str__(self) -> str:
        return f"{self.first} >> {self.second}"


def evaluated_policies(estimator: Policy | Staged) -> tuple[Policy, ...]:
    """The policies that the stages evaluate: moment conditions take the conditional probabilities of the first stage."""
    if isinstance(estimator, Policy):
        return (estimator,)
    first = estimator.first if isinstance(estimator.first, Policy) else Policy.parse("PL1")
    if isinstance(estimator.second, Simulated):
        return first, Policy.parse("FL")
    return first, estimator.second if isinstance(estimator.second, Policy) else first


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
        if policy.strip() == "Nodewise":
            raise PolicyError(
                "'Nodewise' alone has several estimates of each parameter: write 'Nodewise >> optimal'."
            )
        return Policy.parse(policy)
    reader = Reader(policy)
    if reader.peek(">>"):
        reader.fail("expected the first stage, a policy such as PL1.")
    first = _read_first(reader)
    reader.expect(">>", "and the second stage")
    start = reader.position
    if reader.at_end():
        reader.fail("expected the second stage: optimal, optimal(2), a policy such as FL, or FL~10000.")
    with reader.blame(start):
        second = _read_second(reader)
        if reader.peek(">>"):
            reader.fail("a policy has at most two stages.")
        if not reader.at_end():
            reader.fail("expected the end of the second stage.")
        return Staged(first, second)


def _read_first(reader: Reader) -> Policy | Nodewise:
    start = reader.position
    if reader.word() == "Nodewise":
        return Nodewise()
    reader.position = start
    with reader.blame(start):
        return Policy(read_sum(reader))


def _read_second(reader: Reader) -> Second:
    start = reader.position
    word = reader.word()
    if word == "optimal":
        if not reader.accept("("):
            return Optimal()
        distance = reader.integer("a graph distance")
        reader.expect(")", "that closes optimal(")
        return Optimal(distance)
    if word == "FL" and reader.accept("~"):
        return Simulated(reader.integer("a number of draws"))
    if word == "Nodewise":
        reader.fail("Nodewise can only be the first stage.", start)
    reader.position = start
    return Policy(read_sum(reader))

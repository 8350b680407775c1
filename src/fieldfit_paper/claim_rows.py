"""One claim of the paper beside what we measured."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fieldfit.types import Plain

Records = list[Plain]
CLOSE = 0.03  # a number of the paper counts as reproduced within 3%
MODEL_NAMES = {"boltzmann-chain": "Boltzmann chain", "crf": "CRF"}


class Verdict(Enum):
    """What came of a claim."""

    AGREES = "agrees"
    DIFFERS = "differs"
    REFUTED = "refuted"
    """The claim is a statement of mathematics, and it is false."""
    UNDECIDED = "undecided"
    """Our data neither support the claim nor speak against it."""
    NOT_MEASURED = "not measured"

    @classmethod
    def of(cls, agrees: bool | None) -> Verdict:
        """Agrees or differs; None: undecided."""
        return cls.UNDECIDED if agrees is None else cls.AGREES if agrees else cls.DIFFERS


@dataclass(frozen=True)
class Finding:
    """What was measured in one reading, and what it says of the claim."""

    measured: str
    verdict: Verdict

    @classmethod
    def of(cls, measured: str, agrees: bool | None) -> Finding:
        """A finding that agrees, differs or (None) is undecided."""
        return cls(measured, Verdict.of(agrees))


@dataclass(frozen=True)
class Row:
    """One claim: where it is in the paper, what it says, what we found in each reading, and why it differs."""

    where: str
    claim: str
    first: Finding
    why: str = ""
    second: Finding | None = None

    @property
    def measured(self) -> str:
        """Both findings as text."""
        if self.second is None:
            return self.first.measured
        return f"First reading: {self.first.measured}. Second reading: {self.second.measured}"

    @property
    def verdict(self) -> str:
        """Both verdicts as text."""
        first = self.first.verdict.value
        if self.second is None:
            return first
        second = self.second.verdict.value
        if first == second:
            return f"{first} in both readings"
        return f"{first} in the first reading, {second} in the second"


@dataclass(frozen=True)
class Section:
    """Claims about one experiment, and the pictures that belong to them: (name of the file, what it shows).

    ``subject`` says in a few words what the claims are about.
    """

    title: str
    subject: str
    rows: tuple[Row, ...]
    pictures: tuple[tuple[str, str], ...] = ()

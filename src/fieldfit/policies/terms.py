"""A term ``[λ*]FAMILY[/row][@β]``: a family with its selection probabilities and its weights.

``Mean(FAMILY)`` divides the weight by the mean number of components of a sample, so that the
family counts as the average of its components. Bound to samples, the term keeps that number: ``Mean(PL1, 23.5)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fieldfit.arguments import real_array, unmasked
from fieldfit.policies.families import Family, read_family
from fieldfit.policies.structure import BoundFamily, Structure
from fieldfit.policies.text import Reader, format_number
from fieldfit.types import FloatArray, PolicyError

Numbers = float | tuple[float, ...]
#: The word that makes a term the average of its family.
MEAN = "Mean"
_WAYS = ("row", "sentence", "nested")


def format_numbers(values: Numbers) -> str:
    """``0.5`` or ``[0.1,0.9]``."""
    if isinstance(values, tuple):
        return "[" + ",".join(map(format_number, values)) + "]"
    return format_number(values)


def check_beta(beta: Numbers, owner: str) -> None:
    """Refuse weights that are negative, infinite or not numbers."""
    for value in beta if isinstance(beta, tuple) else (beta,):
        if not 0 <= value < math.inf:
            raise PolicyError(f"The weight β of {owner} must be a finite number of at least 0; it is {value}.")


def check_lam(lam: Numbers, owner: str) -> None:
    """Refuse selection probabilities outside [0, 1]."""
    for value in lam if isinstance(lam, tuple) else (lam,):
        if not 0 <= value <= 1:
            raise PolicyError(f"The selection probability λ of {owner} must lie in [0, 1]; it is {value}.")


def as_numbers(values: object) -> Numbers:
    """A float, or a tuple of floats where a sequence is given."""
    unmasked(values, "λ or β", PolicyError)
    try:
        array = real_array(values)
    except (TypeError, ValueError):
        raise PolicyError(f"λ and β are single numbers or lists of numbers; got {values!r:.80}.") from None
    if array.ndim > 1 or array.size == 0:
        raise PolicyError(f"λ and β are single numbers or lists of numbers; got an array of shape {array.shape}.")
    return float(array) if array.ndim == 0 else tuple(array.tolist())


@dataclass(frozen=True)
class Term:
    """A family, its λ and its β: one number for all components, or a tuple with one for each.

    ``drawn`` says how components are drawn: "" one by one, "row" or "sentence" (synonyms, printed as given) all
    components of the family in a sample at once, "nested" one by one as Z = 1[u < λ] with the same u for every λ.
    ``divisor`` divides β: 1, or for ``Mean(FAMILY)`` the mean number of components of a sample, None until it is known.
    """

    family: Family
    lam: Numbers = 1.0
    beta: Numbers = 1.0
    drawn: str = ""
    divisor: float | None = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", as_numbers(self.lam))
        object.__setattr__(self, "beta", as_numbers(self.beta))
        if self.drawn not in ("", *_WAYS):
            raise PolicyError(f"A family is drawn whole with /row or /sentence, or /nested; got '/{self.drawn}'.")
        if self.divisor is not None and not 0 < self.divisor < math.inf:
            raise PolicyError(
                f"The mean number of components of {self.family} must be a positive number; it is {self.divisor}."
            )
        check_lam(self.lam, self.name)
        check_beta(self.beta, self.name)
        if self.whole and isinstance(self.lam, tuple):
            raise PolicyError(f"{self.name} is drawn whole, so it has one λ, not a list of {len(self.lam)}.")

    @property
    def whole(self) -> bool:
        """Whether all components of the family in a sample are drawn at once."""
        return self.drawn in ("row", "sentence")

    @property
    def scale(self) -> float:
        """What the weight is multiplied by: 1, or 1 over the mean number of components."""
        if self.divisor is None:
            raise PolicyError(f"{self.name} is an average over components that are not known before it is bound.")
        return 1.0 / self.divisor

    def over(self, structure: Structure) -> Term:
        """The term with the mean number of its components in these samples, where it averages over them."""
        if self.divisor is not None:
            return self
        return replace(self, divisor=structure.bind_family(self.family).mean_size)

    @property
    def name(self) -> str:
        """The term without λ and β."""
        family = str(self.family) if self.divisor == 1.0 else f"Mean({self.family})"
        return f"{family}/{self.drawn}" if self.drawn else family

    def __str__(self) -> str:
        lam = "" if self.lam == 1.0 else format_numbers(self.lam) + "*"
        family = str(self.family)
        if self.divisor != 1.0:
            size = "" if self.divisor is None else ", " + format_number(self.divisor)
            family = f"Mean({self.family}{size})"
        drawn = f"/{self.drawn}" if self.drawn else ""
        return lam + family + drawn + format_beta(self.beta)


def format_beta(beta: Numbers) -> str:
    """``@0.5``, or nothing for the default of 1."""
    return "" if beta == 1.0 else "@" + format_numbers(beta)


def read_term(reader: Reader) -> Term:
    """Read ``[λ*]FAMILY[/row][@β]``, where the family may be ``Mean(FAMILY)``."""
    start = reader.position
    lam: Numbers = 1.0
    if reader.at_number():
        lam = reader.numbers("a selection probability λ")
        reader.expect("*", "between λ and the family")
    family, divisor = _read_averaged(reader)
    drawn = ""
    if reader.accept("/"):
        at = reader.position
        drawn = reader.word() or ""
        if drawn not in _WAYS:
            reader.fail("expected 'row', 'sentence' or 'nested' after '/'.", at)
    beta = read_beta(reader)
    with reader.blame(start):
        return Term(family, lam, beta, drawn, divisor)


def _read_averaged(reader: Reader) -> tuple[Family, float | None]:
    """A family and its divisor: 1, or of ``Mean(FAMILY)`` None, or of ``Mean(FAMILY, NUMBER)`` the number."""
    if not reader.peek(MEAN):
        return read_family(reader), 1.0
    reader.word()
    reader.expect("(", f"after {MEAN}")
    family = read_family(reader)
    divisor = reader.number("a mean number of components") if reader.accept(",") else None
    reader.expect(")", f"that closes {MEAN}(")
    return family, divisor


def read_beta(reader: Reader) -> Numbers:
    """Read ``@β`` if it comes next; otherwise β = 1."""
    return reader.numbers("a weight β") if reader.accept("@") else 1.0


def read_terms(reader: Reader) -> tuple[Term, ...]:
    """Read terms joined by ``+``."""
    terms = [read_term(reader)]
    while reader.accept("+"):
        terms.append(read_term(reader))
    return tuple(terms)


def check_distinct(terms: tuple[Term, ...], owner: str) -> None:
    """Refuse the same family twice in one sum: it is nearly always a mistake; use β for a different weight."""
    names = [term.name for term in terms]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise PolicyError(f"{name} appears twice in {owner}: write it once, with another λ or a larger β.")


def bind_numbers(values: Numbers, family: BoundFamily, meaning: str) -> float | FloatArray:
    """The numbers as a float or an array; a list must have one entry for each component of the family."""
    if not isinstance(values, tuple):
        return values
    if family.size is None:
        raise PolicyError(
            f"{family.name} has a list of {len(values)} {meaning}, but its components differ between samples: "
            "give one number."
        )
    if len(values) != family.size:
        raise PolicyError(
            f"{family.name} has a list of {len(values)} {meaning}, but {family.size} components: "
            "give one number for each."
        )
    return np.array(values, dtype=np.float64)


def bind_weights(term: Term, family: BoundFamily) -> float | FloatArray:
    """β of the components: what is written, divided by the mean number of components for an average."""
    return bind_numbers(term.beta, family, "weights β") * term.scale

"""Reading and writing the text form of policies: a cursor over the text, and numbers that print back exactly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from fieldfit.types import PolicyError

_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?:inf|nan)\b)", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"[A-Za-z]+\d{0,18}", re.ASCII)
_INTEGER = re.compile(r"\d+", re.ASCII)
_MOST_DIGITS = 100  # of an integer: far beyond any size, and quickly read


def format_number(value: float) -> str:
    """The shortest text that reads back as the same double: ``0.7``, ``1``, ``-inf``."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text


def format_set(members: tuple[int, ...]) -> str:
    """``{0,1}``."""
    return "{" + ",".join(map(str, members)) + "}"


class PolicyTextError(PolicyError):
    """A text that is not a policy; the message has the text and the position already."""


class Reader:
    """A cursor over ``text``. Every error quotes the text, says the position and what was expected there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self._skip_spaces()

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise a PolicyTextError about this position of the text (the cursor's unless it is given)."""
        at = self.position if position is None else position
        rest = self.text[at : at + 20]
        next_text = f"'{rest}'" if rest else "the end of the text"
        raise PolicyTextError(f"The policy '{self.text:.400}' is not valid at position {at} ({next_text}): {message}")

    @contextmanager
    def blame(self, position: int) -> Iterator[None]:
        """Add the text and ``position`` to errors about a value."""
        try:
            yield
        except PolicyTextError:
            raise
        except PolicyError as error:
            self.fail(str(error), position)

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.position == len(self.text)

    def peek(self, symbol: str) -> bool:
        """Whether ``symbol`` comes next."""
        return self.text.startswith(symbol, self.position)

    def accept(self, symbol: str) -> bool:
        """Take ``symbol`` if it comes next."""
        if not self.peek(symbol):
            return False
        self.position += len(symbol)
        self._skip_spaces()
        return True

    def expect(self, symbol: str, meaning: str) -> None:
        """Take ``symbol`` or fail; ``meaning`` ends the sentence "expected ... "."""
        if not self.accept(symbol):
            self.fail(f"expected '{symbol}' {meaning}.")

    def word(self) -> str | None:
        """Take a name such as ``PL2`` if one comes next."""
        return self._match(_WORD)

    def number(self, meaning: str) -> float:
        """Take a number or fail."""
        text = self._match(_NUMBER)
        if text is None:
            self.fail(f"expected {meaning}, a number.")
        return float(text)

    def at_number(self) -> bool:
        """Whether a number or a list of numbers comes next."""
        return self.peek("[") or _NUMBER.match(self.text, self.position) is not None

    def integer(self, meaning: str) -> int:
        """Take an integer of at least 0 or fail."""
        start = self.position
        text = self._match(_INTEGER)
        if text is None:
            self.fail(f"expected {meaning}, an integer.")
        if len(text) > _MOST_DIGITS:
            self.fail(f"expected {meaning}, an integer of at most {_MOST_DIGITS} digits.", start)
        return int(text)

    def integer_set(self, meaning: str) -> tuple[int, ...]:
        """Take ``{0,1,...}``, possibly empty, or fail."""
        self.expect("{", f"that opens {meaning}")
        members: list[int] = []
        if not self.accept("}"):
            members.append(self.integer("a variable"))
            while self.accept(","):
                members.append(self.integer("a variable"))
            self.expect("}", f"that closes {meaning}")
        return tuple(members)

    def numbers(self, meaning: str) -> float | tuple[float, ...]:
        """Take a number, or ``[0.1,0.9]``, or fail."""
        if not self.accept("["):
            return self.number(meaning)
        values = [self.number(meaning)]
        while self.accept(","):
            values.append(self.number(meaning))
        self.expect("]", f"that closes the list of {meaning}")
        return tuple(values)

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        matched = pattern.match(self.text, self.position)
        if matched is None:
            return None
        self.position = matched.end()
        self._skip_spaces()
        return matched.group()

    def _skip_spaces(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

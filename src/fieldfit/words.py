"""Numbers with their nouns, and sentences."""

from __future__ import annotations


def counted(count: int, plural: str) -> str:
    """``3 couplings``, ``1 coupling``; of the words in the plural that sizes use."""
    if count != 1:
        return f"{count:,} {plural}"
    return f"1 {plural.removesuffix('es') if plural.endswith('ses') else plural.removesuffix('s')}"


def sentence(text: str) -> str:
    """The text with a capital letter at its start."""
    return text[:1].upper() + text[1:]


def has_lone_surrogate(text: str) -> bool:
    """Whether a text has a half of a surrogate pair: it is no character, and files and tables cannot hold it."""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)

"""How a table fits into a terminal: numbers keep their width, columns of text share the rest.

Text folds at spaces. A word that is still too long, such as the name of a parameter, is shortened in the middle, where
names that begin or end alike differ least often.
"""

from __future__ import annotations

from collections.abc import Sequence

#: A column of text is never narrower than this, even if the table then is wider than the terminal.
NARROWEST = 8
#: Optional columns of numbers are left out before a column of text is narrower than this.
READABLE = 20
#: Between two columns.
GAP = 2


def column_widths(natural: Sequence[int], is_text: Sequence[bool], width: int) -> list[int]:
    """The width of each column of a table of ``width`` characters, from those that the cells would like.

    If they do not fit, the widest columns of text give way first.
    """
    widths = list(natural)
    spare = width - GAP * (len(widths) - 1) - sum(w for w, text in zip(widths, is_text, strict=True) if not text)
    places = sorted((place for place, text in enumerate(is_text) if text), key=lambda place: widths[place])
    for rank, place in enumerate(places):
        share = max(NARROWEST, spare // (len(places) - rank))
        widths[place] = min(widths[place], share)
        spare -= widths[place]
    return widths


def columns_that_fit(natural: Sequence[int], is_text: Sequence[bool], optional: Sequence[int], width: int) -> int:
    """How many columns are shown, where groups of ``optional`` columns, counted from the end, may be left out.

    They go until text has the width that it would like. Where it never has, they go only until text can be read.
    """
    for enough in (max(natural, default=0), READABLE):
        wanted = [min(w, enough) if text else w for w, text in zip(natural, is_text, strict=True)]
        kept = len(natural)
        for group in (0, *optional):
            kept -= group
            if sum(wanted[:kept]) + GAP * (kept - 1) <= width:
                return kept
    return len(natural) - sum(optional)


def shorten_words(text: str, width: int, mark: str = "…") -> str:
    """The text with every word of more than ``width`` characters shortened in the middle."""
    return " ".join(word if len(word) <= width else _shortened(word, width, mark) for word in text.split(" "))


def _shortened(word: str, width: int, mark: str) -> str:
    kept = width - len(mark)
    tail = kept // 2
    return word[: kept - tail] + mark + word[len(word) - tail :]

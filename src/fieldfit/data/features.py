"""Named feature presets: the paper's seven CoNLL-2000 categories, and sets for tagging words without and with a POS."""

from __future__ import annotations

from pathlib import Path

from fieldfit.data.locate import find_data
from fieldfit.data.templates import FeatureSpec, parse_templates
from fieldfit.data.textfile import read_text
from fieldfit.types import DataError

_CONLL2000 = """
U:word=%x[0,0]
U:pos=%x[0,1]
U:word-1,word=%x[-1,0],%x[0,0]
U:word,word+1=%x[0,0],%x[1,0]
U:pos-1,pos=%x[-1,1],%x[0,1]
U:pos,pos+1=%x[0,1],%x[1,1]
U:stop=%x[0,0:stop]
B
"""

_TAGGER = """
U:word=%x[0,0]
U:lower=%x[0,0:lower]
U:lower-2=%x[-2,0:lower]
U:lower-1=%x[-1,0:lower]
U:lower+1=%x[1,0:lower]
U:lower+2=%x[2,0:lower]
U:lower-1,lower=%x[-1,0:lower],%x[0,0:lower]
U:lower,lower+1=%x[0,0:lower],%x[1,0:lower]
U:prefix1=%x[0,0:prefix1]
U:prefix2=%x[0,0:prefix2]
U:prefix3=%x[0,0:prefix3]
U:suffix1=%x[0,0:suffix1]
U:suffix2=%x[0,0:suffix2]
U:suffix3=%x[0,0:suffix3]
U:suffix4=%x[0,0:suffix4]
U:suffix-1=%x[-1,0:suffix3]
U:suffix+1=%x[1,0:suffix3]
U:shape=%x[0,0:shape]
U:shape-1,shape=%x[-1,0:shape],%x[0,0:shape]
B
"""

#: The features of ``tagger``, and windows of the second column.
_CHUNKER = (
    """
U:pos-2=%x[-2,1]
U:pos-1=%x[-1,1]
U:pos=%x[0,1]
U:pos+1=%x[1,1]
U:pos+2=%x[2,1]
U:pos-2,pos-1=%x[-2,1],%x[-1,1]
U:pos-1,pos=%x[-1,1],%x[0,1]
U:pos,pos+1=%x[0,1],%x[1,1]
U:pos+1,pos+2=%x[1,1],%x[2,1]
U:pos-1,pos,pos+1=%x[-1,1],%x[0,1],%x[1,1]
"""
    + _TAGGER
)

_PRESETS = {"conll2000": _CONLL2000, "tagger": _TAGGER, "chunker": _CHUNKER}


def preset_names() -> tuple[str, ...]:
    """The names that `preset` knows."""
    return tuple(_PRESETS)


def preset(name: str) -> FeatureSpec:
    """The features with this name.

    ``conll2000`` (columns word, POS): word; POS; (previous word, word); (word, next word); (previous POS, POS);
    (POS, next POS); stop word or not, by the SMART list in lower case. ``tagger`` (column word): words, neighbours,
    prefixes, suffixes and shapes. ``chunker`` (columns word, POS): the same, and the POS of the two tokens on either
    side, alone and combined.
    """
    if name not in _PRESETS:
        raise DataError(f"There is no feature preset named {name!r:.80}; there are {', '.join(_PRESETS)}.")
    return parse_templates(_PRESETS[name], source=name)


def load_stop_words(path: str | Path | None = None) -> tuple[str, ...]:
    """The stop list in ``path``, one word per line, in lower case (default: the SMART list in the data folder)."""
    where = Path(path) if path is not None else find_data("stopwords/smart.txt")
    words = read_text(where).split()
    if not words:
        raise DataError(f"{where} is empty; a stop list has one word on each line.")
    return tuple(dict.fromkeys(word.lower() for word in words))

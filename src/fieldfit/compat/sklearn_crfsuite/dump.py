"""Models that CRFsuite has trained, read from the text that ``crfsuite dump`` or ``pycrfsuite.Tagger.dump`` writes."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping

import numpy as np

from fieldfit.api.result import Fit
from fieldfit.compat.sklearn_crfsuite.weights_only import fit_of_weights
from fieldfit.data.alphabet import Alphabet
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.encoders import names_of
from fieldfit.data.textfile import read_text
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_layout import ChainLayout
from fieldfit.types import FileFormatError

_SECTION_HEADER = re.compile(r"([A-Z_]+) = \{")
_NUMBERED_NAME = re.compile(r"\s*(\d{1,15}): (.*)", re.DOTALL)
_WEIGHT = re.compile(r"\s*\((\d{1,15})\) (.*): (\S+)", re.DOTALL)
_SECTIONS = ("LABELS", "ATTRIBUTES", "TRANSITIONS", "STATE_FEATURES")


def read_dump(path: str | os.PathLike[str]) -> Fit:
    r"""Read a model that CRFsuite has trained and dumped as text.

    Write the text with ``crfsuite dump model`` or, in Python, with ``pycrfsuite.Tagger.dump``. It has six digits of each
    weight. The result predicts; it has no samples, so it has no standard errors.

    Parameters
    ----------
    path : str or Path
        The text file.

    Returns
    -------
    Fit
        A chain CRF with CRFsuite's weights. `CRF` takes the file as ``model_filename``.

    Raises
    ------
    FileFormatError
        If the file is not a dump of CRFsuite, or contradicts itself.
    FileAccessError
        If the file cannot be opened.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fieldfit.compat.sklearn_crfsuite import CRF, read_dump
    >>> text = "LABELS = {\n 0: N\n 1: V\n}\nATTRIBUTES = {\n 0: dog\n 1: runs\n}\nTRANSITIONS = {\n}\n"
    >>> text += "STATE_FEATURES = {\n (0) dog --> N: 1.5\n (0) runs --> V: 2.0\n}\n"
    >>> _ = Path("model.txt").write_text(text)
    >>> read_dump("model.txt").theta
    array([1.5, 2. ])
    >>> CRF(model_filename="model.txt").predict_single(["dog", "runs"])
    ['N', 'V']
    """
    sections = _sections(path)
    labels, attributes = _names(path, "LABELS", sections), _names(path, "ATTRIBUTES", sections)
    if not labels:
        raise FileFormatError(f"{path} has no labels.")
    order = Alphabet.sorted(labels)
    encoder = AttributeEncoder(Alphabet(attributes), order)
    K = len(order)
    attribute_code: dict[Hashable, int] = {name: code for code, name in enumerate(attributes)}
    state = _weights(path, "STATE_FEATURES", sections, attribute_code, order.codes, K)
    transitions = _weights(path, "TRANSITIONS", sections, order.codes, order.codes, K)
    places = np.array(sorted(state), dtype=np.int64)
    pointer = np.zeros(len(attributes) + 1, dtype=np.int64)
    np.cumsum(np.bincount(places // K, minlength=len(attributes)), out=pointer[1:])
    pairs = np.array(sorted(transitions), dtype=np.int64)
    layout = ChainLayout(K, len(attributes), pairs, pointer, (places % K).astype(np.int32), False, False, None, None)
    label_names, feature_names = names_of(encoder)
    model = ChainCRF(
        K,
        len(attributes),
        transitions="observed",
        start=False,
        end=False,
        labels=label_names,
        features=feature_names,
        layout=layout,
    )
    theta = np.array([state[place] for place in places.tolist()] + [transitions[pair] for pair in pairs.tolist()])
    return fit_of_weights(model, theta, encoder, "read from a dump of CRFsuite")


def _sections(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    try:
        text = read_text(path)
    except FileFormatError as error:
        raise FileFormatError(
            f"{path} is not text. A binary model of CRFsuite must be dumped as text first: with `crfsuite dump "
            f"{path} > model.txt`, or "
            'in Python with crf.tagger_.dump("model.txt"), where crf is the sklearn_crfsuite.CRF.'
        ) from error
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    # Not splitlines: names may have characters such as U+2028 or U+0085.
    for line in text.replace("\r\n", "\n").split("\n"):
        if header := _SECTION_HEADER.fullmatch(line):
            current = sections.setdefault(header.group(1), [])
        elif line == "}":
            current = None
        elif current is not None:
            current.append(line)
    missing = [name for name in _SECTIONS if name not in sections]
    if missing:
        raise FileFormatError(f"{path} is not a dump of CRFsuite: it has no section {', '.join(missing)}.")
    return sections


def _names(path: str | os.PathLike[str], section: str, sections: dict[str, list[str]]) -> list[str]:
    matches = [_NUMBERED_NAME.fullmatch(line) for line in sections[section]]
    names = [match.group(2) for match in matches if match is not None and int(match.group(1)) < len(matches)]
    if len(names) != len(matches) or len(set(names)) != len(names):
        raise FileFormatError(
            f"{path}: the section {section} has lines that are not “number: name”, or repeats a name."
        )
    return names


def _weights(
    path: str | os.PathLike[str],
    section: str,
    sections: dict[str, list[str]],
    first: Mapping[Hashable, int],
    second: Mapping[Hashable, int],
    n_labels: int,
) -> dict[int, float]:
    """Each weight at (code of the first name) × labels + (code of the second). Names may contain the arrow."""
    weights: dict[int, float] = {}
    for line in sections[section]:
        match = _WEIGHT.fullmatch(line)
        try:
            if match is None:
                raise ValueError
            value = float(match.group(3))
            parts = match.group(2).split(" --> ")
            splits = ((" --> ".join(parts[:k]), " --> ".join(parts[k:])) for k in range(1, len(parts)))
            (a, b), *others = [(a, b) for a, b in splits if a in first and b in second]
            if others or not np.isfinite(value) or first[a] * n_labels + second[b] in weights:
                raise ValueError
        except ValueError as error:
            raise FileFormatError(
                f"{path}: the section {section} has the line {line.strip()!r:.80}, which is not a weight."
            ) from error
        weights[first[a] * n_labels + second[b]] = value
    return weights

"""Columns of a table that look like the labels of groups (a study arm, a sex) and not like one more variable."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fieldfit.data.samples import Table

#: Words of column names that label groups of rows.
_GROUP_WORDS = frozenset(
    ["arm", "batch", "case", "class", "clinic", "clinical", "cohort", "condition", "control", "country", "diagnosis",
     "gender", "geschlecht", "group", "groups", "groupe", "grp", "grupo", "gruppe", "id", "label", "participant", "patient",
     "person", "region", "sample", "sex", "sexe", "sexo", "site", "study", "subject", "treated", "treatment", "wave"]
)  # fmt: skip
#: Rows from which sorted values are unlikely by chance.
_FEWEST_GROUPED_ROWS = 20


def group_like(table: Table) -> dict[str, str]:
    """The names of columns that look like group labels, each with the reason.

    The name says so (``group``, ``sex``, ``study_arm``), the column is the only one with words in a table of numbers, or
    the rows are sorted by it: each of its values is one run of rows. In a shuffled column of n rows with k ones this has
    probability 2/C(n, k), so it is reported if n is at least 20 and each value has at least five rows (then it is below
    0.0002). Numbered families of names, such as ``site1``, ``site2``, are variables.
    """
    reasons: dict[str, str] = {}
    words = [
        name
        for name, states in zip(table.names, table.states, strict=True)
        if all(isinstance(state, str) for state in states)
    ]
    for name, codes in zip(table.names, table.codes.T, strict=True):
        if _named_like_a_group(name, table.names):
            reasons[name] = "by its name"
        elif words == [name] and len(table.names) > 2:
            reasons[name] = "its values are words, those of the other columns numbers"
        elif table.sample_weight is None and _sorted(codes):
            reasons[name] = "the rows are sorted by it"
    return reasons


def _named_like_a_group(name: str, names: Sequence[str]) -> bool:
    words = set(re.findall(r"[^\W\d_]+", name.casefold()))
    if not words or not words <= _GROUP_WORDS:
        return False
    family = re.sub(r"\d+", "#", name)
    return family == name or sum(re.sub(r"\d+", "#", other) == family for other in names) == 1


def _sorted(codes: np.ndarray) -> bool:
    """Whether each value is one run of rows, with five rows or more."""
    if len(codes) < _FEWEST_GROUPED_ROWS or (codes < 0).any():
        return False
    lengths = np.diff(np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1], [True]])))
    return bool(1 < len(lengths) == len(set(codes.tolist())) and lengths.min() >= 5)

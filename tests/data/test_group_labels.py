"""Columns that look like labels of groups: by their names, or because the rows are sorted by them."""

import numpy as np
import pytest

from fieldfit.data.group_labels import group_like
from fieldfit.data.table import read_table


def _found(columns, names, **options):
    return group_like(read_table(np.column_stack(columns), names=names, **options))


@pytest.fixture
def shuffled():
    return np.random.default_rng(1).integers(0, 2, (40, 3))


@pytest.mark.parametrize("name", ["group", "Sex", "arm", "study_arm", "CONDITION", "patient.group"])
def test_names(shuffled, name):
    assert _found(shuffled.T, ["a", name, "b"]) == {name: "by its name"}


@pytest.mark.parametrize("name", ["alarm", "sexy", "grouping", "x1", "armour", "loss of control", "poor condition"])
def test_names_that_only_contain_such_a_word(shuffled, name):
    assert _found(shuffled.T, ["a", name, "b"]) == {}


def test_the_only_column_with_words(shuffled):
    words = np.where(shuffled[:, 0], "ja", "nein")
    table = read_table([[*row, word] for row, word in zip(shuffled.tolist(), words, strict=True)], names=list("abcd"))
    assert group_like(table) == {"d": "its values are words, those of the other columns numbers"}
    assert _found([words, np.roll(words, 1), np.roll(words, 2)], list("abc")) == {}


def test_a_numbered_family_is_not_a_group(shuffled):
    assert _found(shuffled.T, ["site1", "site2", "site3"]) == {}
    assert list(_found(shuffled.T, ["site1", "a", "b"])) == ["site1"]


def test_rows_sorted_by_a_column(shuffled):
    by = np.repeat([1, 0], [25, 15])
    assert _found([*shuffled.T, by], list("abcd")) == {"d": "the rows are sorted by it"}
    assert _found([*shuffled.T, np.roll(by, 3)], list("abcd")) == {}  # three runs
    rare = np.repeat([0, 1], [38, 2])  # a rare answer may stand at the end by chance
    assert _found([*shuffled.T, rare], list("abcd")) == {}
    assert _found([*shuffled[:12].T, by[19:31]], list("abcd")) == {}  # few rows


def test_rows_of_counts_are_often_sorted(shuffled):
    by = np.repeat([1, 0], [25, 15])
    assert _found([*shuffled.T, by], list("abcd"), sample_weight=np.full(40, 2.0), weight_kind="counts") == {}

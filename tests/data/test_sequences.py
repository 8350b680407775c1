"""Sequences: validation, subsets, and what was observed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit.data import observed
from fieldfit.data.observed import observed_pairs, observed_transitions
from fieldfit.data.sequences import Sequences
from fieldfit.types import DataError


def build(**changes):
    fields = {
        "offsets": [0, 2, 2, 3],
        "indptr": [0, 2, 3, 3],
        "indices": [0, 4, 1],
        "values": [1.0, 0.5, -2.0],
        "labels": [1, 0, -1],
        "n_features": 5,
        "n_labels": 2,
    }
    return Sequences(**{**fields, **changes})


def test_fields_have_their_types_and_cannot_be_changed():
    sequences = build()
    assert [sequences.offsets.dtype, sequences.indptr.dtype] == [np.int64, np.int64]
    assert [sequences.indices.dtype, sequences.labels.dtype] == [np.int32, np.int32]
    assert (sequences.n_sequences, sequences.n_tokens, len(sequences)) == (3, 3, 3)
    assert sequences.lengths.tolist() == [2, 0, 1]
    with pytest.raises(ValueError, match="read-only"):
        sequences.indices[0] = 3
    with pytest.raises(AttributeError):
        sequences.n_labels = 3


def test_the_callers_array_stays_writeable():
    labels = np.array([1, 0, -1], dtype=np.int32)
    build(labels=labels)
    labels[0] = 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"offsets": [0, 2, 1, 3]}, "offsets must rise"),
        ({"offsets": [1, 3]}, "offsets must rise"),
        ({"offsets": []}, "offsets must rise"),
        ({"offsets": [0, 2]}, "offsets must rise"),
        ({"indptr": [0, 2, 3, 2]}, "indptr must rise"),
        ({"indptr": [0, 3]}, "one entry more than there are tokens"),
        ({"indices": [0, 5, 1]}, r"indices must lie in 0\.\.4"),
        ({"indices": [0, -1, 1]}, r"indices must lie in 0\.\.4"),
        ({"indices": [0, 2**31, 1]}, "fit 32 bits"),
        ({"indices": [0.0, 1.0, 2.0]}, "must contain int32"),
        ({"labels": [1, 2, 0]}, r"labels must lie in -1\.\.1"),
        ({"labels": [1, -2, 0]}, r"labels must lie in -1\.\.1"),
        ({"labels": [[1, 0, 0]]}, "one dimension"),
        ({"values": [1.0]}, "as long as indices"),
        ({"values": [1.0, 2.0, np.nan]}, "Feature 1 of sentence 0, token 1 .* is nan"),
        ({"values": [np.inf, 2.0, 1.0]}, "Feature 0 of sentence 0, token 0 .* is inf"),
        ({"values": ["a", "b", "c"]}, "must contain float64"),
        ({"n_features": -1}, "n_features is -1; it must be an integer of at least 0"),
    ],
)
def test_what_does_not_fit_is_refused(changes, words):
    with pytest.raises(DataError, match=words):
        build(**changes)


def test_no_sentences_at_all():
    empty = build(offsets=[0], indptr=[0], indices=[], values=None, labels=[])
    assert (empty.n_sequences, empty.n_tokens) == (0, 0)
    assert empty.subset([]).n_sequences == 0
    assert observed_pairs(empty)[0].tolist() == [0] * 6
    assert not observed_transitions(empty).any()


def test_subset_takes_sentences_in_the_given_order():
    part = build().subset([2, 0, 1, 0])
    assert part.offsets.tolist() == [0, 1, 3, 3, 5]
    assert part.labels.tolist() == [-1, 1, 0, 1, 0]
    assert part.indptr.tolist() == [0, 0, 2, 3, 5, 6]
    assert part.indices.tolist() == [0, 4, 1, 0, 4, 1]
    assert part.values.tolist() == [1.0, 0.5, -2.0, 1.0, 0.5, -2.0]
    assert (part.n_features, part.n_labels) == (5, 2)


def test_subset_by_mask_and_from_the_end():
    assert build().subset([True, False, True]).lengths.tolist() == [2, 1]
    assert build().subset([-1]).lengths.tolist() == [1]
    assert build().subset([]).n_sequences == 0


@pytest.mark.parametrize("rows", [[3], [-4], [0.5], [True, False], [[0, 1]]])
def test_subset_refuses_rows_that_are_not_there(rows):
    with pytest.raises(DataError):
        build().subset(rows)


@st.composite
def random_sequences(draw):
    lengths = draw(st.lists(st.integers(0, 5), max_size=5))
    n_features, n_labels = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    n_tokens = sum(lengths)
    rows = [draw(st.lists(st.integers(0, n_features - 1), max_size=4)) for _ in range(n_tokens)]
    labels = [draw(st.integers(-1, n_labels - 1)) for _ in range(n_tokens)]
    return Sequences(
        offsets=np.cumsum([0, *lengths]),
        indptr=np.cumsum([0, *map(len, rows)]),
        indices=np.array([index for row in rows for index in row], dtype=np.int32),
        values=None,
        labels=np.array(labels, dtype=np.int32),
        n_features=n_features,
        n_labels=n_labels,
    )


@settings(deadline=None)
@given(random_sequences(), st.booleans())
def test_observed_pairs_and_transitions_against_loops(sequences, by_sorting):
    pairs, transitions = set(), set()
    for start, stop in zip(sequences.offsets[:-1], sequences.offsets[1:], strict=True):
        for token in range(start, stop):
            label = int(sequences.labels[token])
            if label >= 0:
                pairs |= {
                    (int(f), label) for f in sequences.indices[sequences.indptr[token] : sequences.indptr[token + 1]]
                }
                if token > start and sequences.labels[token - 1] >= 0:
                    transitions.add((int(sequences.labels[token - 1]), label))
    limit = observed._LARGEST_PAIR_TABLE
    try:
        observed._LARGEST_PAIR_TABLE = 0 if by_sorting else limit
        indptr, labels = observed_pairs(sequences)
    finally:
        observed._LARGEST_PAIR_TABLE = limit
    assert indptr.dtype == np.int64
    assert labels.dtype == np.int32
    assert len(indptr) == sequences.n_features + 1
    assert [(f, int(y)) for f in range(sequences.n_features) for y in labels[indptr[f] : indptr[f + 1]]] == sorted(
        pairs
    )
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(observed_transitions(sequences))), strict=True)) == transitions


@settings(deadline=None)
@given(random_sequences(), st.data())
def test_a_subset_holds_what_its_sentences_hold(sequences, data):
    rows = data.draw(st.lists(st.integers(0, sequences.n_sequences - 1), max_size=6)) if len(sequences) else []
    part = sequences.subset(rows)
    for place, row in enumerate(rows):
        here = range(part.offsets[place], part.offsets[place + 1])
        there = range(sequences.offsets[row], sequences.offsets[row + 1])
        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            assert part.labels[one] == sequences.labels[other]
            mine = part.indices[part.indptr[one] : part.indptr[one + 1]]
            theirs = sequences.indices[sequences.indptr[other] : sequences.indptr[other + 1]]
            assert mine.tolist() == theirs.tolist()

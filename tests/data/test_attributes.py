"""Attributes as dicts and lists, CRFsuite's text, and arrays."""

import gzip
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit.data.array_encoder import ArrayEncoder
from fieldfit.data.attribute_encoder import AttributeEncoder
from fieldfit.data.crfsuite_text import parse_crfsuite, read_crfsuite
from fieldfit.types import DataError

# What python-crfsuite's ItemSequence(...).items() gives for each.
ITEMS: list[tuple[Any, dict[str, float]]] = [
    ({"a": 1.5, "b": True, "c": False}, {"a": 1.5, "b": 1.0, "c": 0.0}),
    ({"d": "x", "n": 3, "e": ""}, {"d:x": 1.0, "n": 3.0, "e:": 1.0}),
    ({"e": {"f": 2, "g": "y", "h": {"i": 1}}}, {"e:f": 2.0, "e:g:y": 1.0, "e:h:i": 1.0}),
    ({"l": ["p", "q"], "k": []}, {"l:p": 1.0, "l:q": 1.0}),
    ({"s": {"u", "v"}}, {"s:u": 1.0, "s:v": 1.0}),
    ({"k": {"z": ["m", "n"]}}, {"k:z:m": 1.0, "k:z:n": 1.0}),
    (["a", "b"], {"a": 1.0, "b": 1.0}),
    (("a", "b"), {"a": 1.0, "b": 1.0}),
    ({"a", "b"}, {"a": 1.0, "b": 1.0}),
    ({"a:b": "c:d", "a\\": 1.0}, {"a:b:c:d": 1.0, "a\\": 1.0}),
    ({"k": np.float32(2.5), "i": np.int64(3), "t": np.bool_(True)}, {"k": 2.5, "i": 3.0, "t": 1.0}),
    ({"é": "ü", b"x": b"y"}, {"é:ü": 1.0, "x:y": 1.0}),
    (np.array(["a", "b"]), {"a": 1.0, "b": 1.0}),
    ({"": 1.0}, {"": 1.0}),
    ({}, {}),
    ([], {}),
]


def items_of(encoder, sequences):
    names = encoder.feature_names()
    values = np.ones(len(sequences.indices)) if sequences.values is None else sequences.values
    return [
        {names[index]: value for index, value in zip(sequences.indices[a:b], values[a:b].tolist(), strict=True)}
        for a, b in zip(sequences.indptr[:-1], sequences.indptr[1:], strict=True)
    ]


@pytest.mark.parametrize(("item", "expected"), ITEMS, ids=range(len(ITEMS)))
def test_items_mean_what_python_crfsuite_makes_of_them(item, expected):
    encoder, sequences = AttributeEncoder.fit([[item]], [["y"]])
    assert items_of(encoder, sequences) == [expected]
    assert items_of(encoder, encoder.encode([[item]])) == [expected]


def test_all_kinds_of_items_in_one_call():
    encoder, sequences = AttributeEncoder.fit([[item for item, _ in ITEMS]], [["y"] * len(ITEMS)])
    assert items_of(encoder, sequences) == [expected for _, expected in ITEMS]


# C strings end at NUL, so python-crfsuite cannot have it in a name.
short = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=2)
nested = st.recursive(
    st.one_of(st.floats(-9, 9), st.booleans(), short, st.integers(-3, 3)),
    lambda inner: st.one_of(st.dictionaries(short, inner, max_size=3), st.lists(short)),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.dictionaries(short, nested, max_size=4), max_size=3))
def test_the_same_as_python_crfsuite_itself(items):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    expected = pycrfsuite.ItemSequence(items).items()
    encoder, sequences = AttributeEncoder.fit([items, [["z"]]], [["y"] * len(items), ["y"]])
    assert items_of(encoder, sequences)[:-1] == expected


def test_flat_dicts_read_fast_equal_nested_ones_read_with_care():
    flat = [{"w": "a", "n": 0.5, "b": True}, {"w": "b", "n": 1, "b": False}]
    careful: list[Mapping[str, object]] = [*flat, {"w": {"c": 1.0}}]
    encoder, sequences = AttributeEncoder.fit([flat], [["x", "y"]])
    other, with_care = AttributeEncoder.fit([careful], [["x", "y", "x"]])
    assert items_of(encoder, sequences) == items_of(other, with_care)[:2]
    assert encoder.feature_names() == ["w:a", "n", "b", "w:b"]


def test_values_are_left_out_where_all_are_one():
    assert AttributeEncoder.fit([[{"w": "a", "t": True, "n": 1.0}]], [["y"]])[1].values is None
    assert AttributeEncoder.fit([[{"w": "a", "t": False}]], [["y"]])[1].values.tolist() == [1.0, 0.0]


def test_a_name_that_occurs_twice_counts_twice():
    _, sequences = AttributeEncoder.fit([[["a", "a"]]], [["y"]])
    assert sequences.indices.tolist() == [0, 0]


def test_prediction_drops_unknown_attributes():
    encoder, _ = AttributeEncoder.fit([[{"w": "a", "n": 2.0}], [{"w": "b", "n": 1.0}]], [["x"], ["y"]])
    encoded = encoder.encode([[{"w": "c", "n": 0.25, "m": 3}, {"w": "b"}], [], [{"q": "a"}]])
    assert items_of(encoder, encoded) == [{"n": 0.25}, {"w:b": 1.0}, {}]
    assert encoded.labels.tolist() == [-1, -1, -1]
    assert encoded.lengths.tolist() == [2, 0, 1]
    assert encoder.n_features == 3  # prediction taught it nothing
    assert encoder.encode([]).n_sequences == 0


def test_unknown_labels_are_marked_or_named():
    encoder, _ = AttributeEncoder.fit([[["a"], ["b"]]], [["x", "y"]])
    X, y = [[["a"]], [], [["b"], ["a"]]], [["x"], [], ["y", "z"]]
    assert encoder.encode(X, y).labels.tolist() == [0, 1, -1]
    with pytest.raises(DataError, match=r"y\[2\]\[1\] is 'z', not one of the 2 labels"):
        encoder.encode(X, y, unknown_labels="error")
    with pytest.raises(DataError, match="'mark' or 'error'"):
        encoder.encode(X, y, unknown_labels="drop")


def test_rare_attributes_are_left_out():
    encoder, sequences = AttributeEncoder.fit([[["a", "b"], ["b"], ["c"]]], [["x"] * 3], min_count=2)
    assert encoder.feature_names() == ["b"]
    assert np.diff(sequences.indptr).tolist() == [1, 1, 0]


def test_labels_may_be_whole_numbers_and_numpy_arrays():
    labels: Any = [np.array([10, 2, 10])]
    encoder, sequences = AttributeEncoder.fit([[["a"], ["b"], ["c"]]], labels)
    assert encoder.labels.names == (2, 10)
    assert sequences.labels.tolist() == [1, 0, 1]
    assert AttributeEncoder.from_arrays(encoder.to_arrays()).labels.names == (2, 10)


def test_saved_arrays_give_the_same_encoder():
    encoder, _ = AttributeEncoder.fit([[{"é": "ü", "n": 2}]], [["B-NP"]])
    again = AttributeEncoder.from_arrays(encoder.to_arrays())
    assert (again.features, again.labels) == (encoder.features, encoder.labels)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[["a"]], [["a"], ["b"]]], [["x"], ["x"]], r"X\[1\] has 2 tokens, but y\[1\] has 1 labels"),
        ([[["a"]]], [["x"], ["x"]], "X has 1 sentences, but y has 2"),
        ([[["a"]]], ["x"], r"y\[0\] must be a list of labels"),
        ([[["a"]]], None, "needs the labels"),
        ([[["a"]]], [[None]], r"y\[0\]\[0\] is None; a label must be"),
        ([[["a"]]], [[0.5]], r"y\[0\]\[0\] is 0.5; a label must be"),
        ([[["a"], ["a"]]], [["x", 1]], "all strings or all integers"),
        ([[["a"], {"n": math.nan}]], [["x", "y"]], r"X\[0\]\[1\].*'n' is nan"),
        ([[{"m": 1, "n": math.inf}]], [["x"]], r"X\[0\]\[0\].*'n' is inf"),
        ([[{"n": None}]], [["x"]], r"X\[0\]\[0\].*'n' is None"),
        ([[], [{"a": 1}, {1: 1.0}]], [[], ["x", "x"]], r"X\[1\]\[1\].*name must be text; got 1"),
        ([[["a", 1]]], [["x"]], r"X\[0\]\[0\].*name must be text"),
        ([[[("a", 2.0)]]], [["x"]], r"X\[0\]\[0\].*name must be text"),
        ([["word"]], [["x"]], r"X\[0\]\[0\].*a dict or a list of names; got 'word'"),
        ([{"a": 1}], [["x"]], r"X\[0\] must be a sentence"),
        ("text", [["x"]], "X must be a list of sentences"),
        ([], [], "no tokens"),
        ([[]], [[]], "no tokens"),
    ],
)
def test_what_cannot_be_read_is_named(X, y, words):
    with pytest.raises(DataError, match=words):
        AttributeEncoder.fit(X, y)


def test_a_dict_that_holds_itself_is_refused():
    item: dict[str, object] = {}
    item["again"] = item
    with pytest.raises(DataError, match=r"X\[0\]\[0\] cannot be read"):
        AttributeEncoder.fit([[item]], [["x"]])


CRFSUITE = "B-NP\tw=He\tn:2\n\\:\\\\\ta\\:b:0.5\tc\\\\\n\nO\n\n\n\tw=He\tn:\t\tn:-1e2 \n"


def test_crfsuite_text():
    text = parse_crfsuite(CRFSUITE)
    assert text.labels == ("B-NP", ":\\", "O", None)
    assert text.lines.tolist() == [1, 2, 4, 7]
    encoder, sequences = AttributeEncoder.fit(text)
    assert sequences.lengths.tolist() == [2, 1, 1]
    assert encoder.labels.names == (":\\", "B-NP", "O")
    assert sequences.labels.tolist() == [1, 0, 2, -1]
    assert encoder.feature_names() == ["w=He", "n", "a:b", "c\\"]
    assert sequences.indices.tolist() == [0, 1, 2, 3, 0, 1, 1]
    assert sequences.values.tolist() == [1.0, 2.0, 0.5, 1.0, 1.0, 1.0, -100.0]
    assert np.array_equal(encoder.encode(text).indices, sequences.indices)


def test_crfsuite_text_from_a_packed_windows_file(tmp_path):
    (tmp_path / "train.gz").write_bytes(gzip.compress(CRFSUITE.replace("\n", "\r\n").encode("utf-8")))
    text = read_crfsuite(tmp_path / "train.gz")
    assert text.labels == parse_crfsuite(CRFSUITE).labels
    assert text.rows.codes.tolist() == parse_crfsuite(CRFSUITE).rows.codes.tolist()
    assert parse_crfsuite("").rows.offsets.tolist() == [0]


def test_crfsuite_text_with_new_labels_and_attributes():
    encoder, _ = AttributeEncoder.fit(parse_crfsuite("x\ta\tb\ny\tc\n"))
    text = parse_crfsuite("\nx\tc:2\td\n\nz\ta\n", source="gold.txt")
    encoded = encoder.encode(text)
    assert items_of(encoder, encoded) == [{"c": 2.0}, {"a": 1.0}]
    assert encoded.labels.tolist() == [0, -1]
    with pytest.raises(DataError, match=r"gold\.txt, line 4: the label 'z'"):
        encoder.encode(text, unknown_labels="error")
    assert encoder.encode(text, [["y"], ["y"]]).labels.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\ta\n\nx\ta:b\n", r"line 3: the value of the attribute 'a' is 'b', which is not a number"),
        ("x\ta:1:2\n", "line 1: the value of the attribute 'a' is '1:2'"),
        ("x\ta\nx\tb:nan\n", "line 2: .* must be finite"),
        ("B:NP\ta\n", "line 1: the label 'B:NP' has a colon"),
    ],
)
def test_bad_crfsuite_text_is_named_by_line(text, words):
    with pytest.raises(DataError, match=words):
        parse_crfsuite(text)


plain = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=4)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(plain, st.dictionaries(plain, st.floats(-9, 9))), min_size=1), min_size=1, max_size=3)
)
def test_crfsuite_text_means_what_its_dicts_mean(sentences):
    def escape(name):
        return name.replace("\\", "\\\\").replace(":", "\\:")

    written = "\n\n".join(
        "\n".join(
            "\t".join([escape(label)] + [f"{escape(name)}:{value!r}" for name, value in item.items()])
            for label, item in sentence
        )
        for sentence in sentences
    )
    if written.startswith("\ufeff"):
        return
    X = [[item for _, item in sentence] for sentence in sentences]
    y = [[label for label, _ in sentence] for sentence in sentences]
    from_text = AttributeEncoder.fit(parse_crfsuite(written))
    from_dicts = AttributeEncoder.fit(X, y)
    assert from_text[0].feature_names() == from_dicts[0].feature_names()
    assert from_text[0].labels == from_dicts[0].labels
    assert items_of(*from_text) == items_of(*from_dicts)


def test_arrays_become_sparse_rows():
    X = [np.array([[0.0, 2.0], [0.0, 0.0]]), np.zeros((0, 2)), np.array([[1.0, -1.0]])]
    encoder, sequences = ArrayEncoder.fit(X, [["a", "b"], [], ["a"]])
    assert sequences.indptr.tolist() == [0, 1, 1, 3]
    assert sequences.indices.tolist() == [1, 0, 1]
    assert sequences.values.tolist() == [2.0, 1.0, -1.0]
    assert sequences.lengths.tolist() == [2, 0, 1]
    assert encoder.feature_names() == ["x0", "x1"]
    assert encoder.encode(X).labels.tolist() == [-1, -1, -1]
    again = ArrayEncoder.from_arrays(encoder.to_arrays())
    assert (again.n_features, again.labels) == (2, encoder.labels)


def test_sparse_matrices_give_what_dense_ones_give():
    from scipy import sparse

    X = [np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 1.0]])]
    _, dense = ArrayEncoder.fit(X, [[0, 1]])
    _, packed = ArrayEncoder.fit([sparse.coo_array(X[0])], [[0, 1]])
    assert dense.indices.tolist() == packed.indices.tolist()
    assert dense.values.tolist() == packed.values.tolist()


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([np.zeros((1, 2)), np.zeros((1, 3))], [[0], [0]], r"X\[1\] has 3 features for each token, but 2"),
        ([np.zeros((2, 2))], [[0]], r"X\[0\] has 2 tokens, but y\[0\] has 1"),
        ([np.zeros(3)], [[0]], r"X\[0\] must be a matrix"),
        ([np.array([["a"]])], [[0]], r"X\[0\] must contain numbers"),
        ([[[1.0, 2.0], [1.0]]], [[0, 1]], r"X\[0\] is not a matrix"),
        ([np.array([[1.0, 1.0], [0.0, np.nan]])], [[0, 1]], r"X\[0\]\[1, 1\] is nan"),
        ([], [], "no sentences"),
    ],
)
def test_bad_arrays_are_named(X, y, words):
    with pytest.raises(DataError, match=words):
        ArrayEncoder.fit(X, y)

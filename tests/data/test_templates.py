"""CRF++ templates and the presets, against a slow expansion token by token."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit.data import keys
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import columns_from_lists, join_texts, parse_columns, read_columns
from fieldfit.data.derived import derive
from fieldfit.data.features import load_stop_words, preset, preset_names
from fieldfit.data.locate import find_data
from fieldfit.data.observed import observed_pairs, observed_transitions
from fieldfit.data.templates import parse_templates, read_templates
from fieldfit.types import DataError

TEXT = parse_columns("He PRP B-NP\nreckons VBZ B-VP\nthe DT B-NP\n\nYes UH O\n\nthe DT B-NP\nYes NN I-NP\n")


def names_of(encoder, sequences):
    names = encoder.feature_names()
    return [
        [names[index] for index in sequences.indices[start:stop]]
        for start, stop in zip(sequences.indptr[:-1], sequences.indptr[1:], strict=True)
    ]


def expand(template, sentence, place):
    """One template at one token, straight from the manual: its cells' values, or None where one is missing."""
    values = []
    for cell in template.cells:
        at = place + cell.row
        if 0 <= at < len(sentence):
            value = sentence[at][cell.column]
            values.append(slow_derive(cell.derivation, value, ()) if cell.derivation else value)
        else:
            values.append(Padding(f"_B-{-at}" if at < 0 else f"_B+{at - len(sentence) + 1}"))
    return None if None in values else (template, tuple(values))


class Padding(str):
    """A place outside the sentence, which differs from a word that is written the same."""

    def __eq__(self, other):
        return isinstance(other, Padding) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def test_templates_are_read():
    spec = parse_templates(
        "# Unigram\nU00:%x[-2,0]\nU05:%x[-1,0]/%x[0,1]\nU09\n\n  # Bigram\nB\nB01:%x[0,0]\nU10:%x[0,0:suffix3]\n"
    )
    assert [str(template) for template in spec.states] == [
        "U00:%x[-2,0]",
        "U05:%x[-1,0]/%x[0,1]",
        "U09",
        "U10:%x[0,0:suffix3]",
    ]
    assert [str(template) for template in spec.pairs] == ["B01:%x[0,0]"]
    assert (spec.transitions, spec.columns, spec.reach) == (True, (0, 1), 2)
    assert not parse_templates("U:%x[0,0]").transitions
    assert parse_templates(spec.to_text(), source=spec.name) == spec


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("U00:%x[0,0]\nX01:%x[0,0]\n", "line 2: a template starts with U or B"),
        ("U00:%x[0;0]\n", r"line 1: a cell is written %x\[row,column\]"),
        ("U00:%x[0]\n", "line 1: a cell is written"),
        ("U00:%x[0,-1]\n", "line 1: a cell is written"),
        ("U00:%x[999,0]\n", "farther than 100 tokens"),
        ("U00:%x[0,0:middle]\n", "no derived column named 'middle'"),
        ("# nothing\n", "there is no template"),
        ("U:%x[0,0]\nU:%x[0,1]\n", "same identifier but read different columns"),
    ],
)
def test_bad_templates_are_refused(text, words):
    with pytest.raises(DataError, match=words):
        parse_templates(text)


def test_templates_from_a_file(tmp_path):
    (tmp_path / "template").write_bytes(b"U00:%x[0,0]\r\nB\r\n")
    assert read_templates(tmp_path / "template").to_text() == "U00:%x[0,0]\nB\n"


def test_expansion_by_hand():
    encoder, sequences = ColumnEncoder.fit(TEXT, parse_templates("U0:%x[-1,0]\nU1:%x[0,0]/%x[2,1]\nB"))
    assert names_of(encoder, sequences) == [
        ["U0:_B-1", "U1:He/DT"],
        ["U0:He", "U1:reckons/_B+1"],
        ["U0:reckons", "U1:the/_B+2"],
        ["U0:_B-1", "U1:Yes/_B+2"],
        ["U0:_B-1", "U1:the/_B+1"],
        ["U0:the", "U1:Yes/_B+2"],
    ]
    assert encoder.labels.decode(sequences.labels) == ["B-NP", "B-VP", "B-NP", "O", "B-NP", "I-NP"]
    assert sequences.values is None
    assert sequences.offsets.tolist() == [0, 3, 4, 6]


def test_templates_with_one_identifier_share_features():
    encoder, sequences = ColumnEncoder.fit(TEXT, parse_templates("U:%x[-1,0]\nU:%x[1,0]"))
    assert names_of(encoder, sequences)[1] == ["U:He", "U:the"]
    assert len(set(encoder.feature_names())) == encoder.n_features


def test_pair_templates_are_a_feature_set_of_their_own():
    spec = parse_templates("U:%x[0,0]\nB\nB1:%x[-1,1]/%x[0,1]")
    encoder, sequences = ColumnEncoder.fit(TEXT, spec)
    pairs = encoder.encode_pairs(TEXT)
    assert encoder.pair_feature_names() == ["B1:PRP/VBZ", "B1:VBZ/DT", "B1:DT/NN"]
    assert np.diff(pairs.indptr).tolist() == [0, 1, 1, 0, 0, 1]  # a first token has no pair before it
    assert pairs.indices.tolist() == [0, 1, 2]
    assert (pairs.n_features, encoder.n_pair_features, sequences.n_features) == (3, 3, 4)
    assert encoder.encode(TEXT).n_features == 4


def test_prediction_drops_unknown_features_and_marks_unknown_labels():
    encoder, _ = ColumnEncoder.fit(TEXT, parse_templates("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]"))
    fresh = parse_columns("He PRP B-NP\nlaughs VBZ B-XX\nhe PRP O\n", source="new.txt")
    encoded = encoder.encode(fresh)
    assert names_of(encoder, encoded) == [["U0:He", "U1:_B-1/PRP"], ["U1:PRP/VBZ"], []]
    assert encoded.labels.tolist() == [encoder.labels.code("B-NP"), -1, encoder.labels.code("O")]
    with pytest.raises(DataError, match=r"new\.txt, line 2: the label 'B-XX' is not one of the 4 training labels"):
        encoder.encode(fresh, unknown_labels="error")
    with pytest.raises(DataError, match="'mark' or 'error'"):
        encoder.encode(fresh, unknown_labels="ignore")


def test_prediction_without_the_label_column():
    encoder, _ = ColumnEncoder.fit(TEXT, parse_templates("U0:%x[0,0]/%x[0,1]"))
    encoded = encoder.encode(parse_columns("He PRP\nreckons VBZ\n"))
    assert encoded.labels.tolist() == [-1, -1]
    assert len(encoded.indices) == 2
    assert encoder.encode(parse_columns("")).n_sequences == 0
    with pytest.raises(DataError, match=r"has 1 column\. Give the columns"):
        encoder.encode(parse_columns("He\n"))
    with pytest.raises(DataError, match="has 4 columns; the features were learnt from 3, with the label in column 2"):
        encoder.encode(parse_columns("He PRP B-NP x\n"))


def test_what_cannot_be_learnt_from():
    with pytest.raises(DataError, match="no tokens"):
        ColumnEncoder.fit(parse_columns("\n"), "tagger")
    with pytest.raises(DataError, match="has the labels"):
        ColumnEncoder.fit(TEXT, parse_templates("U:%x[0,2]"))
    with pytest.raises(DataError, match="read column 7"):
        ColumnEncoder.fit(TEXT, parse_templates("U:%x[0,7]"))
    with pytest.raises(DataError, match="label_column is 3"):
        ColumnEncoder.fit(TEXT, "tagger", label_column=3)
    with pytest.raises(DataError, match="min_count"):
        ColumnEncoder.fit(TEXT, "tagger", min_count=0)
    with pytest.raises(DataError, match="no feature preset named 'conll2003'; there are conll2000, tagger, chunker"):
        ColumnEncoder.fit(TEXT, "conll2003")


def test_rare_features_are_left_out():
    encoder, sequences = ColumnEncoder.fit(TEXT, parse_templates("U:%x[0,0]"), min_count=2)
    assert encoder.feature_names() == ["U:the", "U:Yes"]
    assert np.diff(sequences.indptr).tolist() == [0, 0, 1, 1, 1, 1]


def test_names_of_chosen_features():
    encoder, _ = ColumnEncoder.fit(TEXT, "tagger")
    everything = encoder.feature_names()
    chosen = [encoder.n_features - 1, 0, 7]
    assert encoder.feature_names(chosen) == [everything[code] for code in chosen]
    with pytest.raises(DataError, match="Feature codes must lie"):
        encoder.feature_names([encoder.n_features])


@pytest.mark.parametrize("spec", ["tagger", parse_templates("U1:%x[-1,0]/%x[0,1]\nU2\nB\nB2:%x[0,1]/%x[1,0:shape]")])
def test_saved_arrays_give_the_same_encoder(spec):
    encoder, sequences = ColumnEncoder.fit(TEXT, spec)
    arrays = encoder.to_arrays()
    assert all(array.dtype.kind in "iu" for array in arrays.values())
    again = ColumnEncoder.from_arrays(arrays)
    assert again.spec == encoder.spec
    assert again.labels == encoder.labels
    assert again.feature_names() == encoder.feature_names()
    assert again.pair_feature_names() == encoder.pair_feature_names()
    assert np.array_equal(again.encode(TEXT).indices, sequences.indices)


def test_shapes_and_derived_columns():
    assert derive("shape", ["McDonald's", "1,234.5", "...."], ()) == ["XxXxx'x", "d,dd.d", ".."]
    assert derive("prefix3", ["ab", "abc", "abcd"], ()) == [None, "abc", "abc"]
    assert derive("suffix2", ["a", "ab", "abc"], ()) == [None, "ab", "bc"]
    assert derive("stop", ["The", "cat"], {"the"}) == ["yes", "no"]


def slow_derive(name, word, stop_words):
    """A derived text in plain Python, which knows Unicode."""
    if name == "lower":
        return word.lower()
    if name == "stop":
        return "yes" if word.lower() in stop_words else "no"
    if name == "shape":
        marks = [
            "d" if c.isdigit() else ("X" if c.isupper() else "x") if c.isalpha() else c  # one character each
            for c in word
        ]
        return "".join(mark for i, mark in enumerate(marks) if i < 2 or {mark} != set(marks[i - 2 : i]))
    length = int(name[6:])
    if len(word) < length:
        return None
    return word[:length] if name.startswith("prefix") else word[-length:]


#: All of Unicode, with lone surrogates, and characters whose lower case or class is unusual.
odd_text = st.text(st.one_of(st.characters(), st.sampled_from("aBÀßΣσςİıǅ٣²Ⅷ日𝐀\ud800\t \0/")), max_size=6)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.lists(odd_text, max_size=8), st.lists(odd_text, max_size=3))
def test_derived_texts_follow_python(words, stop_words):
    stops = [word.lower() for word in stop_words]
    for name in ("lower", "shape", "stop", "prefix1", "prefix3", "suffix1", "suffix4"):
        assert derive(name, words, stops) == [slow_derive(name, word, stops) for word in words]


def test_stop_list_of_ones_own(tmp_path):
    (tmp_path / "stop.txt").write_text("The\nhe\n")
    assert load_stop_words(tmp_path / "stop.txt") == ("the", "he")
    encoder, sequences = ColumnEncoder.fit(TEXT, "conll2000", stop_words=["HE"])
    assert [row[-1] for row in names_of(encoder, sequences)] == ["U:stop=yes"] + ["U:stop=no"] * 5
    assert ColumnEncoder.from_arrays(encoder.to_arrays()).stop_words == ("he",)
    (tmp_path / "stop.txt").write_text("\n")
    with pytest.raises(DataError, match="is empty"):
        load_stop_words(tmp_path / "stop.txt")


def test_conll2000_says_that_its_stop_list_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("FIELDFIT_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"stopwords/smart\.txt is not in .*SMART.*FIELDFIT_DATA"):
        ColumnEncoder.fit(TEXT, "conll2000")


def test_presets_can_be_listed():
    assert preset_names() == ("conll2000", "tagger", "chunker")
    assert all(preset(name).transitions for name in preset_names())


value = st.sampled_from(["a", "b", "Cc", "d1", "a/b", "_B-1", "", "Éa", "\ud800x"])
rows = st.lists(
    st.lists(st.tuples(value, value, st.sampled_from("XY")), min_size=1, max_size=4), min_size=1, max_size=5
)
cells = st.tuples(st.integers(-3, 3), st.integers(0, 1), st.sampled_from(["", ":lower", ":suffix2", ":shape"]))


@pytest.mark.slow
@settings(deadline=None)
@given(rows, rows, st.lists(st.lists(cells, max_size=4), min_size=1, max_size=3), st.booleans())
def test_encoding_equals_expansion_token_by_token(train, test, templates, overflow):
    lines = [
        f"U{number}:" + "/".join(f"%x[{row},{column}{derived}]" for row, column, derived in template)
        for number, template in enumerate(templates)
    ]
    spec = parse_templates("\n".join(lines))
    text, fresh = (
        columns_from_lists(*[[[token[c] for token in sentence] for sentence in data] for c in range(3)])
        for data in (train, test)
    )
    limit = keys._LARGEST_KEY
    try:
        keys._LARGEST_KEY = 20 if overflow else limit  # ranks take the place of products
        encoder, sequences = ColumnEncoder.fit(text, spec)
    finally:
        keys._LARGEST_KEY = limit
    expected = [[expand(t, s, p) for t in spec.states] for s in train for p in range(len(s))]
    seen = {found for row in expected for found in row if found is not None}
    assert encoder.n_features == len(seen)
    assert names_of(encoder, sequences) == named(expected, seen)
    again = ColumnEncoder.from_arrays(encoder.to_arrays())
    wanted = [[expand(t, s, p) for t in spec.states] for s in test for p in range(len(s))]
    assert names_of(again, again.encode(fresh)) == named(wanted, seen)
    assert np.array_equal(again.encode(text).indices, sequences.indices)


def named(rows, seen):
    return [[found[0].name(found[1]) for found in row if found in seen] for row in rows]


def conll2000(part):
    try:
        find_data("stopwords/smart.txt")
        return read_columns(find_data(f"conll2000/{part}.txt"))
    except DataError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_the_papers_numbers_of_features_and_pairs():
    text = join_texts([conll2000("train"), conll2000("test")])
    encoder, sequences = ColumnEncoder.fit(text, "conll2000")
    assert encoder.n_features == sequences.n_features == 273_571
    assert list(encoder.block_sizes.values()) == [21_589, 44, 125_761, 123_859, 1_168, 1_148, 2]
    assert len(observed_pairs(sequences)[1]) == 297_041
    assert (sequences.n_labels, int(observed_transitions(sequences).sum())) == (23, 147)
    assert (sequences.n_sequences, sequences.n_tokens) == (8_936 + 2_012, 211_727 + 47_377)
    assert len(set(encoder.feature_names())) == 273_571


@pytest.mark.slow
def test_conll2000_training_part_alone_and_its_unknown_label():
    encoder, sequences = ColumnEncoder.fit(conll2000("train"), "conll2000")
    assert (len(encoder.labels), sequences.n_tokens) == (22, 211_727)
    test = conll2000("test")
    encoded = encoder.encode(test)
    assert (encoded.n_features, encoded.n_tokens) == (encoder.n_features, 47_377)
    unknown = np.flatnonzero(encoded.labels < 0)
    assert {test.column(2)[token] for token in unknown} == {"I-LST"}


@pytest.mark.parametrize("cell", ["%x[" + "1" * 5000 + ",0]", "%x[0," + "9" * 5000 + "]"])
def test_numbers_with_thousands_of_digits_are_refused(cell):
    with pytest.raises(DataError):
        parse_templates(f"U00:{cell}\n")

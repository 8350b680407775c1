"""The CoNLL-style reader, on good files and on bad ones."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfit.data.columns import columns_from_lists, join_texts, parse_columns, read_columns
from fieldfit.types import DataError, FileAccessError, FileFormatError

SENTENCES = [["The", "cat"], ["Sat"]]


def words(text):
    return text.sentences(0)


@pytest.mark.parametrize(
    "content",
    [
        "The D\ncat N\n\nSat V\n\n",
        "The D\ncat N\n\nSat V",
        "The D\r\ncat N\r\n\r\nSat V\r\n",
        "The D\rcat N\r\rSat V\r",
        "\n\nThe D \ncat\tN\t\n \n\t\n\n  Sat   V\n\n\n",
        "\ufeffThe D\ncat N\n\nSat V\n",
    ],
    ids=["plain", "no final newline", "windows", "old mac", "blanks everywhere", "byte order mark"],
)
def test_line_ends_and_blanks_do_not_matter(tmp_path, content):
    path = tmp_path / "text"
    path.write_bytes(content.encode("utf-8"))
    text = read_columns(path)
    assert words(text) == SENTENCES
    assert text.column(1) == ["D", "N", "V"]
    assert (text.n_sentences, text.n_tokens, text.n_columns) == (2, 3, 2)


def test_gzip_is_known_by_its_content(tmp_path):
    path = tmp_path / "misnamed.txt"
    path.write_bytes(gzip.compress(b"The D\ncat N\n\nSat V\n"))
    assert words(read_columns(path)) == SENTENCES


def test_truncated_gzip_is_refused_by_name(tmp_path):
    path = tmp_path / "half.gz"
    path.write_bytes(gzip.compress(b"The D\ncat N\n" * 500)[:60])
    with pytest.raises(FileFormatError, match=r"half\.gz begins like a gzip file .* truncated or damaged"):
        read_columns(path)


def test_damaged_gzip_is_refused(tmp_path):
    packed = bytearray(gzip.compress(b"The D\ncat N\n" * 500))
    packed[-6] ^= 255
    (tmp_path / "bad.gz").write_bytes(packed)
    with pytest.raises(FileFormatError, match="truncated or damaged"):
        read_columns(tmp_path / "bad.gz")


def test_ragged_line_is_named_with_its_file(tmp_path):
    path = tmp_path / "ragged.txt"
    path.write_text("The D\ncat N\n\nSat\n")
    with pytest.raises(DataError, match=r"ragged\.txt, line 4: 1 columns, but line 1 has 2"):
        read_columns(path)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileAccessError, match=r"none\.txt cannot be opened"):
        read_columns(tmp_path / "none.txt")
    with pytest.raises(FileAccessError, match="cannot be opened"):
        read_columns(tmp_path)


@pytest.mark.parametrize("content", ["", "\n\n \n", "\r\n"])
def test_empty_files_have_no_sentences(tmp_path, content):
    (tmp_path / "empty").write_text(content)
    text = read_columns(tmp_path / "empty")
    assert (text.n_sentences, text.n_tokens, text.n_columns) == (0, 0, 0)


def test_other_encodings(tmp_path):
    path = tmp_path / "latin"
    path.write_bytes("a X\nné X\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"latin is not UTF-8 text: line 2 has the byte 0xe9.*iconv -f"):
        read_columns(path)
    assert read_columns(path, encoding="latin-1").column(0) == ["a", "né"]
    path.write_bytes("né X\n".encode("utf-16"))
    assert read_columns(path, encoding="utf-16").column(0) == ["né"]
    with pytest.raises(DataError, match="no encoding named 'utf-99'"):
        read_columns(path, encoding="utf-99")


@pytest.mark.parametrize("content", [bytes(range(256)), b"\x89PNG\r\n\x1a\n\0\0", b"a b\nc\0 d\n"])
def test_binary_files_are_refused(tmp_path, content):
    (tmp_path / "binary").write_bytes(content)
    with pytest.raises(FileFormatError, match="is not"):
        read_columns(tmp_path / "binary")


def test_no_break_spaces_and_line_separators_stay_in_tokens():
    text = parse_columns("10\u00a0000 N\na\u2028b N\nc\x85d N\n")
    assert text.column(0) == ["10\u00a0000", "a\u2028b", "c\x85d"]


def test_lone_surrogates_are_refused():
    with pytest.raises(DataError, match="line 2: the text has a lone surrogate"):
        parse_columns("a X\n\ud800 X\n")


def test_an_exact_separator_keeps_blanks_inside_columns():
    text = parse_columns("New York\tNNP  \r\n\r\nis\tVBZ\n", separator="\t")
    assert words(text) == [["New York"], ["is"]]
    assert text.column(1) == ["NNP", "VBZ"]
    with pytest.raises(DataError, match="must not be empty"):
        parse_columns("a b", separator="")


def test_remarks_do_not_end_a_sentence():
    text = parse_columns("# id 1\na X\n# inside\nb X\n\n# id 2\nc X\n", comment="#")
    assert words(text) == [["a", "b"], ["c"]]
    assert text.lines.tolist() == [2, 4, 7]
    assert parse_columns("# X\n").column(0) == ["#"]


def test_joined_texts_keep_their_files_and_lines():
    joined = join_texts([parse_columns("a X\nb Y\n", source="one"), parse_columns("\nb Z\n\na X\n", source="two")])
    assert words(joined) == [["a", "b"], ["b"], ["a"]]
    assert joined.column(1) == ["X", "Y", "Z", "X"]
    assert [joined.place(token) for token in range(4)] == ["one, line 1", "one, line 2", "two, line 2", "two, line 4"]
    with pytest.raises(DataError, match="three has 1 columns, but one has 2"):
        join_texts([parse_columns("a X\n", source="one"), parse_columns("a\n", source="three")])
    assert join_texts([parse_columns("")]).n_tokens == 0


def test_columns_from_lists():
    text = columns_from_lists([["a", "b"], [], ["a"]], [["X", "Y"], [], ["X"]])
    assert text.sentences(1) == [["X", "Y"], [], ["X"]]
    with pytest.raises(DataError, match="Sentence 2 has 2 tokens in column 1, but 1 in column 0"):
        columns_from_lists([["a", "b"], [], ["a"]], [["X", "Y"], [], ["X", "Y"]])


token = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(
    lambda t: not set(t) & set(" \t\v\f")
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(token, token), min_size=1, max_size=4), max_size=4), st.sampled_from("\t "))
def test_what_is_written_is_read(sentences, separator):
    written = "\n\n".join("\n".join(f"{a}{separator}{b}" for a, b in sentence) for sentence in sentences)
    expected = [[a for a, _ in sentence] for sentence in sentences]
    if written.startswith("\ufeff"):
        return
    assert words(parse_columns(written)) == expected
    assert words(parse_columns(written, separator=separator)) == expected

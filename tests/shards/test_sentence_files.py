"""Files of sentences in pieces: the encoder and the estimate of one file, and the same bits on any number of workers."""

import json
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.chains import ColumnEncoder, SentenceFiles, join_texts, read_columns
from fieldfit.cli import main
from fieldfit.data.crfsuite_text import read_crfsuite
from fieldfit.data.templates import parse_templates
from fieldfit.shards.making_sentences import divide_sentences
from fieldfit.types import DataError, FileAccessError

TEMPLATES = "U00:%x[-2,0]\nU01:%x[0,0]\nU02:%x[-1,0]/%x[0,1]\nU03:%x[1,1:lower]/%x[0,0]\nU\nB00:%x[0,1]\nB\n"


def sentences(seed, count):
    """Lines of words, tags and labels; words grow rarer, so that files differ in what they have."""
    source = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        for _ in range(source.integers(1, 8)):
            word = int(source.geometric(0.08))
            lines.append(f"w{word} T{word % 4} {'XYZ'[int(source.random() < 0.2) or word % 3]}")
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path):
    for number in range(5):
        (tmp_path / f"{number}.conll").write_text(sentences(number, 12))
    (tmp_path / "5.conll").write_text("\n")  # a file without sentences
    return tmp_path


def whole(folder):
    return join_texts([read_columns(path) for path in sorted(folder.glob("*.conll"))])


@pytest.mark.parametrize("min_count", [1, 3])
def test_encoder_of_the_pieces_is_that_of_one_text(folder, min_count, monkeypatch):
    spec = parse_templates(TEMPLATES)
    for limit in (1 << 62, 50):  # the second: keys overflow, and parts of them are ranked
        monkeypatch.setattr("fieldfit.data.keys._LARGEST_KEY", limit)
        expected = ColumnEncoder.fit(whole(folder), spec, min_count=min_count)[0]
        learnt = SentenceFiles.matching(folder / "*.conll").learn(spec, min_count)
        ours, theirs = learnt.to_arrays(), expected.to_arrays()
        assert ours.keys() == theirs.keys()
        for name, array in theirs.items():
            assert ours[name].tobytes() == array.tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"crfsuite_compatible": True}, marks=pytest.mark.slow),
        pytest.param({"all_pairs": True, "min_count": 2}, marks=pytest.mark.slow),
        {"order": 2, "unseen_transitions": "forbidden", "features": "U:%x[0,0]\nB"},
    ],
)
def test_tagger_of_files_is_the_tagger_of_their_text(folder, options):
    settings = {"sigma2": 1.0, "features": TEMPLATES, "tol": 1e-9, **options}
    one = ff.CRFTagger("PL1 + 0.5*FL", **settings).fit(whole(folder))
    many = ff.CRFTagger("PL1 + 0.5*FL", **settings).fit(SentenceFiles.matching(folder / "*.conll"))
    assert list(many.fit_.parameter_names) == list(one.fit_.parameter_names)
    np.testing.assert_allclose(many.fit_.theta, one.fit_.theta, atol=1e-6)
    assert many.predict(whole(folder)) == one.predict(whole(folder))
    np.testing.assert_allclose(
        many.fit_.standard_errors(parameters=[0, 5]), one.fit_.standard_errors(parameters=[0, 5]), rtol=1e-4
    )


def test_development_data_and_a_start_are_taken(folder):
    files, text = SentenceFiles.matching(folder / "*.conll"), whole(folder)
    first = ff.CRFTagger("PL1", sigma2=1.0).fit(files)
    later = ff.CRFTagger("FL", sigma2=1.0, check_every=1).fit(files, X_dev=text, start=first)
    assert later.development_scores_
    with pytest.raises(DataError, match="cross-validation"):
        ff.CRFTagger("FL", sigma2="cv").fit(files)


def test_crfsuite_files(tmp_path):
    parts = ["O\ta:0.25\tb\nP\tc\n\nO\ta\n", "P\td:4\tb:0.1\n\nO\ta:0.3\n\n"]
    for number, text in enumerate(parts):
        (tmp_path / f"{number}.txt").write_text(text)
    (tmp_path / "whole").write_text("\n".join(parts))
    one = ff.CRFTagger(sigma2=1.0, tol=1e-9).fit(read_crfsuite(tmp_path / "whole"))
    many = ff.CRFTagger(sigma2=1.0, tol=1e-9).fit(SentenceFiles.matching(tmp_path / "*.txt", format="crfsuite"))
    assert many.fit_.parameter_names[:] == one.fit_.parameter_names[:]
    assert many.model_.feature_units.tobytes() == one.model_.feature_units.tobytes()
    np.testing.assert_allclose(many.fit_.theta, one.fit_.theta, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_same_bits_with_any_number_of_workers(folder, workers):
    distributed = pytest.importorskip("distributed")
    files = SentenceFiles.matching(folder / "*.conll")
    settings: dict[str, Any] = {"sigma2": 1.0, "features": TEMPLATES, "min_count": 2}
    here = ff.CRFTagger("PL1 + 0.5*FL", **settings).fit(files)
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0", "silence_logs": 40}
    with distributed.Client(n_workers=workers, **options) as client:
        there = ff.CRFTagger("PL1 + 0.5*FL", **settings).fit(files, backend=client)
        assert there.fit_.theta.tobytes() == here.fit_.theta.tobytes()
        some: dict[str, Any] = {"parameters": [0, 3]}
        assert there.fit_.standard_errors(**some).tobytes() == here.fit_.standard_errors(**some).tobytes()


def test_a_file_of_sentences_is_divided(folder, tmp_path):
    text = "".join(path.read_text() for path in sorted(folder.glob("*.conll")))
    (tmp_path / "whole.txt").write_text(text.rstrip("\n"))
    assert divide_sentences(tmp_path / "whole.txt", tmp_path / "new", 7) == (60, 9)
    parts = [path.read_text() for path in sorted((tmp_path / "new").iterdir())]
    assert "".join(parts) == text.rstrip("\n") + "\n\n"
    assert [part.count("\n\n") for part in parts] == [7] * 8 + [4]
    with pytest.raises(FileAccessError, match="not empty"):
        divide_sentences(tmp_path / "whole.txt", tmp_path / "new", 7)
    (tmp_path / "empty").write_text("\n\n")
    with pytest.raises(DataError, match="no tokens"):
        divide_sentences(tmp_path / "empty", tmp_path / "other", 7)


def test_command_line(folder, tmp_path, capsys):
    (tmp_path / "whole.txt").write_text("".join(path.read_text() for path in sorted(folder.glob("*.conll"))))
    assert main(["shard", str(tmp_path / "whole.txt"), "--sentences", "20", "--out", str(tmp_path / "new")]) == 0
    found = []
    for data in (tmp_path / "new", tmp_path / "new" / "*.conll", tmp_path / "whole.txt"):
        capsys.readouterr()
        assert main(["fit", "crf", str(data), "--sigma2", "1", "--tol", "1e-8", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["top_features"] == found[1]["top_features"]
    assert found[0]["objective"] == pytest.approx(found[2]["objective"], rel=1e-12)


def test_files_that_do_not_belong_together_are_refused(folder):
    (folder / "6.conll").write_text("w1 X\n")
    with pytest.raises(DataError, match=r"0\.conll has 3 columns, and .*6\.conll has 2\."):
        ff.CRFTagger(sigma2=1.0, features="U:%x[0,0]").fit(SentenceFiles.matching(folder / "*.conll"))
    (folder / "6.conll").write_text("w1 T X\nw2 T\n")
    with pytest.raises(DataError, match=r"6.conll, line 2"):
        ff.CRFTagger(sigma2=1.0).fit(SentenceFiles.matching(folder / "*.conll"))


def test_files_with_other_columns_are_named_and_an_empty_list_is_refused(tmp_path):
    for name, text in (("a", "the D\n"), ("b", "dog N\n"), ("c", "runs x V\n")):
        (tmp_path / f"{name}.conll").write_text(text)
    with pytest.raises(DataError, match=r"a\.conll has 2 columns, and .*c\.conll has 3\. All files"):
        ff.CRFTagger(sigma2=1.0).fit(SentenceFiles.matching(tmp_path / "*.conll"))
    with pytest.raises(DataError, match="is empty"):
        SentenceFiles.matching([])

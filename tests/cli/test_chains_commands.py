"""fit crf, predict, evaluate and data: what they print, their JSON, their files, and what they refuse."""

import gzip
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.data.columns import parse_columns

SENTENCES = """
the DT B-NP
dog NN I-NP
runs VB O

a DT B-NP
big JJ I-NP
cat NN I-NP
sees VB O
the DT B-NP
dog NN I-NP

runs VB O

dogs NN B-NP
run VB O
"""


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(SENTENCES * 5, encoding="utf-8")
    return path


@pytest.fixture
def model(run, train, tmp_path):
    path = tmp_path / "chunk.ff"
    assert run("fit", "crf", train, "--features", "columns", "--sigma2", "10", "--out", path).code == 0
    return path


def test_second_order(run, train, tmp_path):
    out = tmp_path / "model.ff"
    assert run("fit", "crf", train, "--order", 2, "--forbid-unseen", "--sigma2", 10, "--out", out).code == 0
    direct = ff.CRFTagger(sigma2=10, order=2, unseen_transitions="forbidden", features="columns")
    direct.fit(parse_columns(SENTENCES * 5))
    np.testing.assert_array_equal(ff.load(out).theta, direct.fit_.theta)
    assert "dog NN I-NP" in run("predict", out, train).out.replace("\t", " ")
    refused = run("fit", "crf", train, "--forbid-unseen")
    assert refused.code != 0
    assert "use it with --order 2" in refused.err


def test_fit_is_that_of_the_tagger(run, train, tmp_path):
    out = tmp_path / "model.ff"
    policy = "PL1@0.5 + 0.2*FL@0.5"
    ran = run("fit", "crf", train, "--policy", policy, "--sigma2", 10, "--out", out, "--seed", 3)
    assert ran.code == 0
    assert "20 sentences, 3 labels, 13 features" in ran.out
    assert f"saved: {out}" in ran.err
    direct = ff.CRFTagger(policy, sigma2=10, random_state=3, features="columns")
    direct.fit(parse_columns(SENTENCES * 5))
    np.testing.assert_array_equal(ff.load(out).theta, direct.fit_.theta)
    shown = run("show", out, "--rows", 3)
    assert shown.code == 0
    assert "->" in shown.out or ":" in shown.out


def test_stochastic_gradients_from_the_command_line(run, train, tmp_path):
    out = tmp_path / "fast.ff"
    ran = run(
        "fit", "crf", train, "--method", "sgd", "--sigma2", 1, "--dev", train, "--score-tol", 0.01, "--out", out
    )
    assert ran.code == 0
    text = parse_columns(SENTENCES * 5)
    direct = ff.CRFTagger(method="sgd", sigma2=1, features="columns", score_tol=0.01).fit(text, X_dev=text)
    np.testing.assert_array_equal(ff.load(out).theta, direct.fit_.theta)
    assert direct.score(text) == 1.0


def test_both_penalties_are_printed(run, train):
    assert "policy: FL; sigma2: 2; l1: 0.5\n" in run("fit", "crf", train, "--sigma2", 2, "--l1", 0.5).out
    assert "policy: FL; sigma2: 2\n" in run("fit", "crf", train, "--sigma2", 2).out


def test_fit_as_json_has_the_whole_account(run, train):
    ran = run("fit", "crf", train, "--json", "--sigma2", "0.5,5", "--rows", 2, "--l1", 0.01)
    document = ran.json
    assert document["converged"] is True
    assert document["labels"] == ["B-NP", "I-NP", "O"]
    assert document["sigma2"] == 5.0
    assert [line["sigma2"] for line in document["cross_validation"]] == [5.0, 0.5]
    assert len(document["top_features"]) == 2


def test_templates_gzip_and_crfsuite_text(run, train, tmp_path):
    templates = tmp_path / "template"
    templates.write_text("U00:%x[-1,0]\nU01:%x[0,0]\nU02:%x[0,1]\nB\n", encoding="utf-8")
    zipped = tmp_path / "train.txt.gz"
    zipped.write_bytes(gzip.compress(train.read_bytes()))
    ran = run("fit", "crf", zipped, "--features", templates, "--json", "--rows", 0, "--crfsuite")
    assert ran.json["features"] == 8 + 9 + 4
    text = tmp_path / "train.crfsuite"
    text.write_text("B-NP\tw=the\nI-NP\tw=dog\n\nO\tw=runs\n", encoding="utf-8")
    out = tmp_path / "attributes.ff"
    assert run("fit", "crf", text, "--format", "crfsuite", "--out", out).code == 0
    tagged = run("predict", out, text)
    assert tagged.out == "B-NP\tB-NP\nI-NP\tI-NP\n\nO\tO\n\n"
    assert run("evaluate", out, text, "--json").json["accuracy"] == 1.0


def test_progress_has_objective_gradient_and_time_left(run, train):
    ran = run("fit", "crf", train, "--progress", "--json")
    lines = ran.err.splitlines()
    assert lines[0].split() == ["iteration", "objective", "gradient", "seconds", "left"]
    assert lines[1].split()[0] == "0"
    assert all(re.fullmatch(r"[\d.]+", line.split()[4]) for line in lines[5:])


def test_ctrl_c_keeps_the_estimate(run, train, monkeypatch, tmp_path):
    from fieldfit.cli import progress

    def interrupting(message):
        if message.split()[0] == "2":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(progress, "note", interrupting)
    out = tmp_path / "model.ff"
    ran = run("fit", "crf", train, "--progress", "--out", out)
    assert ran.code == 130
    assert "not converged" in ran.err
    assert not ff.load(out).converged
    assert run("predict", out, train).code == 0


@pytest.mark.slow
def test_a_preset_that_leaves_a_column_out_says_so_and_chunker_uses_it(run, train):
    told = "do not use column 1 (DT, NN, VB, …); column 0 is the word. 'chunker' uses the words and column 1"
    words = run("fit", "crf", train, "--features", "tagger", "--json", "--rows", 0)
    assert told in words.err
    assert any(told in sentence for sentence in words.json["warnings"])
    assert told in run("plan", "crf", train, "--features", "tagger", "--policy", "PL1", "--policy", "FL").err
    both = run("fit", "crf", train, "--features", "chunker", "--json", "--rows", 5)
    assert both.json["warnings"] == []
    assert both.json["features"] > words.json["features"]
    templates = train.with_name("own.txt")
    templates.write_text("U0:%x[0,0]\nB\n", encoding="utf-8")
    assert run("fit", "crf", train, "--features", templates, "--json").json["warnings"] == []  # on purpose


def test_a_preset_that_leaves_later_columns_out_names_them(run, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("the DT x B\ndog NN y I\n\n" * 5, encoding="utf-8")
    ran = run("fit", "crf", path, "--features", "chunker")
    assert "do not use column 2 (x, y, …)" in ran.err
    assert "templates with %x[0,2]" in ran.err


def test_development_data_stop_the_fit_and_a_model_starts_another(run, train, model):
    ran = run(
        "fit", "crf", train, "--dev", train, "--patience", 2, "--check-every", 1, "--metric", "f1", "--json",
        "--features", "tagger",
    )  # fmt: skip
    document = ran.json
    assert "stopped early" in document["message"]
    scores = [score for _, score in document["development_scores"]]
    assert len(scores) == int(np.argmax(scores)) + 3
    again = run("fit", "crf", train, "--features", "columns", "--sigma2", 10, "--start", model, "--json").json
    assert again["iterations"] < 3


@pytest.mark.slow
def test_predict_and_evaluate_start_without_the_packages_of_estimators(model, train):
    for command in ("predict", "evaluate"):
        code = (
            "import sys\nfrom fieldfit.cli import main\n"
            f"assert main([{command!r}, {str(model)!r}, {str(train)!r}]) == 0\n"
            "sys.exit(', '.join(sorted({'sklearn', 'scipy.stats', 'matplotlib'} & set(sys.modules))) or 0)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_predict_gives_columns_that_can_be_read_again(run, model, tmp_path):
    test = tmp_path / "test.txt"
    test.write_text("the DT\ndog NN\n\nzebra NN\n", encoding="utf-8")
    ran = run("predict", model, test)
    assert ran.out == "the\tDT\tB-NP\ndog\tNN\tI-NP\n\nzebra\tNN\tB-NP\n\n"
    assert ran.err == ""
    chances = run("predict", model, test, "--marginals").out.splitlines()
    assert [line.split("\t")[2] for line in chances if line] == ["B-NP", "I-NP", "B-NP"]
    assert all(0.3 < float(line.split("\t")[3]) <= 1 for line in chances if line)
    document = run("predict", model, test, "--marginals", "--json").json
    np.testing.assert_allclose(np.sum(document["sentences"][0]["marginals"], axis=1), 1.0)
    assert document["labels"] == ["B-NP", "I-NP", "O"]
    best = run("predict", model, test, "--nbest", 4)
    assert best.out.splitlines()[0].startswith("# log p: ")
    assert best.out.splitlines()[1].split("\t")[:3] == ["the", "DT", "B-NP"]
    paths = run("predict", model, test, "--nbest", 4, "--json").json["sentences"]
    assert [len(sentence["paths"]) for sentence in paths] == [4, 3]
    out = tmp_path / "tagged.txt"
    assert "2 sentences" in run("predict", model, test, "--out", out).err
    assert out.read_text(encoding="utf-8") == ran.out
    assert run("predict", model, test, "--decoding", "posterior").code == 0


def test_evaluate_counts_chunks_or_labels(run, model, train, tmp_path):
    ran = run("evaluate", model, train)
    assert ran.out.startswith("60 tokens, accuracy 100.00%")
    assert "NP" in ran.out
    gold = tmp_path / "gold.txt"
    gold.write_text("the DT B-NP\ndog NN I-NP\nruns VB B-VP\n", encoding="utf-8")
    ran = run("evaluate", model, gold)
    assert "B-VP" in ran.err
    document = run("evaluate", model, gold, "--json").json
    assert document["accuracy"] == pytest.approx(2 / 3)
    assert (document["precision"], document["recall"]) == (1.0, 0.5)
    assert document["each"]["NP"]["f1"] == 1.0
    assert type(document["each"]["NP"]["gold"]) is int
    assert document["unknown_labels"] == ["B-VP"]
    labels = run("evaluate", model, gold, "--by", "label", "--json").json
    assert labels["unit"] == "label"
    assert labels["each"]["I-NP"]["recall"] == 1.0


def test_files_without_sentences(refused, model, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n", encoding="utf-8")
    assert f"{empty} is empty" in refused("predict", model, empty)
    assert f"{empty} is empty" in refused("evaluate", model, empty)
    assert "no tokens" in refused("fit", "crf", empty)


def test_refusals(refused, run, model, train, tmp_path, votes, saved):
    ragged = tmp_path / "ragged.txt"
    ragged.write_text("the DT B-NP\ndog NN\n", encoding="utf-8")
    assert f"{ragged}, line 2: 2 columns" in refused("fit", "crf", ragged)
    assert f"{ragged}, line 2: 2 columns" in refused("predict", model, ragged)
    unlabelled = tmp_path / "unlabelled.txt"
    unlabelled.write_text("the DT\n", encoding="utf-8")
    assert "no labels to compare with" in refused("evaluate", model, unlabelled)
    narrow = tmp_path / "narrow.txt"
    narrow.write_text("the\n", encoding="utf-8")
    assert "column 1" in refused("predict", model, narrow)
    assert "Did you mean" not in (told := refused("fit", "crf", train, "--features", "nonsense"))
    assert "neither a preset" in told
    assert "Did you mean 'chunker'?" in refused("fit", "crf", train, "--features", "chunkr")
    assert "--sigma2" in refused("fit", "crf", train, "--sigma2", "much")
    assert "PL" in refused("fit", "crf", train, "--policy", "PLx")
    for command in ("predict", "evaluate"):
        told = refused(command, saved, train)
        assert "is a fit of the kind 'boltzmann', which cannot label sentences" in told
        assert "fieldfit fit crf" in told
    assert "does not exist" in refused("predict", model, train, "--out", tmp_path / "none" / "x")
    assert "--nbest" in refused("predict", model, train, "--nbest", 2, "--marginals")
    assert str(tmp_path / "missing.txt") in refused("fit", "crf", tmp_path / "missing.txt")


def test_data_says_what_is_missing_and_where_it_is_published(run, refused, monkeypatch, tmp_path):
    monkeypatch.setenv("FIELDFIT_DATA", str(tmp_path))
    ran = run("data", "conll2000")
    assert ran.code == 0
    assert "missing" in ran.out
    assert "https://www.clips.uantwerpen.be/conll2000/chunking/" in ran.out
    (tmp_path / "stopwords").mkdir()
    (tmp_path / "stopwords" / "smart.txt").write_text("a\n", encoding="utf-8")
    document = run("data", "--json").json
    states = {file["file"]: file["state"] for file in document["files"]}
    assert states["stopwords/smart.txt"] == "different"
    assert states["conll2000/train.txt"] == "missing"
    assert "no data set named" in refused("data", "nonsense")

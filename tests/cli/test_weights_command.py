"""`fit --weights auto`: the rounds are printed and saved, and `show --weights-to` draws them."""

import pytest

import fieldfit as ff


@pytest.mark.slow
def test_rounds_are_printed_saved_and_drawn(run, votes, tmp_path):
    saved, drawn = tmp_path / "fit.ff", tmp_path / "drawn"
    ran = run("fit", "boltzmann", votes, "-p", "PL1 + 0.3*FL", "--weights", "auto", "--sigma2", 5, "--out", saved)
    assert ran.code == 0
    assert "automatic weights: PL1" in ran.out
    assert "β[FL]" in ran.out
    assert max(map(len, ran.out[ran.out.index("automatic weights") :].splitlines())) <= 80
    fit = ff.load(saved)
    shown = run("show", saved, "--weights-to", drawn, "--json").json
    assert shown["weights"]["beta"] == pytest.approx(dict(zip(fit.weights.names, fit.weights.beta, strict=True)))
    assert [line["round"] for line in shown["weights"]["history"]] == list(range(1, len(fit.weights.history) + 1))
    assert shown["files"] == [str(drawn / f"weights.{kind}") for kind in ("png", "svg", "csv")]
    assert len((drawn / "weights.csv").read_text().splitlines()) == 1 + len(fit.weights.history)
    assert (drawn / "weights.png").read_bytes().startswith(b"\x89PNG")
    again = run("show", saved, "--rows", 0, "--weights-to", drawn)
    assert "automatic weights: PL1" in again.out
    assert again.err.count("written: ") == 3


def test_nothing_to_draw_is_refused(run, refused, votes, tmp_path):
    saved = tmp_path / "plain.ff"
    assert run("fit", "boltzmann", votes, "--sigma2", 5, "--out", saved).code == 0
    assert "no automatic weights" in refused("show", saved, "--weights-to", tmp_path / "drawn")
    assert not (tmp_path / "drawn").exists()
    assert run("show", saved, "--json").json["weights"] is None


def test_wrong_words_are_refused(refused, votes):
    assert "--weights" in refused("fit", "boltzmann", votes, "--weights", "best")

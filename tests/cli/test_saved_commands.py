"""influence, check, compare, test and validate: a saved fit with the data that it was made from."""

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.cli.wording import in_options

SENTENCES = "the DT B\ndog NN I\nruns VB O\n\na DT B\nbig JJ I\ncat NN I\nsees VB O\n\nruns VB O\n\n"


@pytest.fixture
def nested(tmp_path, votes, run):
    edges = tmp_path / "edges.txt"
    edges.write_text("été,b\nété,c\nb,c\n", encoding="utf-8")
    full, null = tmp_path / "full.ff", tmp_path / "null.ff"
    policy = ("--biases", "-p", "PL1 + 0.2*PL2")
    assert run("fit", "boltzmann", votes, *policy, "--out", full).code == 0
    assert run("fit", "boltzmann", votes, *policy, "--edges", edges, "--out", null).code == 0
    return full, null


def narrow(text):
    return max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
def test_influence_is_that_of_the_fit(run, nested, votes, tmp_path):
    ran = run("influence", nested[0], votes, "--rows", 3, "--out", tmp_path / "drawn")
    assert ran.code == 0
    assert narrow(ran.out)
    assert "gross-error sensitivity" in ran.out
    assert ran.err.count("written: ") == 3
    lines = (tmp_path / "drawn" / "influence.csv").read_text().splitlines()
    assert len(lines) == 301
    fit = ff.load(nested[0], votes)
    found = run("influence", nested[0], votes, "--rows", 3, "--json").json
    table = fit.influential(3)
    assert [line["row"] for line in found["samples"]] == list(table.index)
    assert [line["distance"] for line in found["samples"]] == pytest.approx(list(table["distance"]))
    assert found["gross_error_sensitivity"]["total"] == pytest.approx(fit.gross_error_sensitivity().total)
    chosen = run("influence", nested[0], votes, "--parameter", "b:c", "--json").json
    assert {line["parameter"] for line in chosen["samples"]} == {"b:c"}


@pytest.mark.slow
def test_a_loaded_fit_takes_its_own_samples_only(refused, nested, votes, tmp_path, samples):
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("\n".join(votes.read_text(encoding="utf-8").splitlines()[:100]), encoding="utf-8")
    assert "made from 300 samples, and these are 99" in refused("influence", nested[0], fewer)
    lines = votes.read_text(encoding="utf-8").splitlines()
    moved = tmp_path / "moved.csv"
    moved.write_text("\n".join([lines[0], *lines[:0:-1]]), encoding="utf-8")  # another order: another Z for each
    assert "not the samples that were fitted" in refused("check", nested[0], moved)


@pytest.mark.parametrize("kind", ["importance", "counts"])
@pytest.mark.parametrize("policy", ["PL1", "0.7*PL1"])
def test_weights_penalty_and_fixed_parameters_come_back(tmp_path, samples, kind, policy):
    weight = np.random.default_rng(0).integers(0, 3, len(samples))
    options = {"sample_weight": weight, "weight_kind": kind}
    model = ff.BoltzmannMachine(4, biases=True)
    fit = ff.fit(model, samples, policy, sigma2=2.0, l1=0.5, fixed={"x0:x1": 0.3}, random_state=4, **options)
    fit.save(tmp_path / "fit.ff")
    again = ff.load(tmp_path / "fit.ff", samples, **options)
    np.testing.assert_allclose(again.influence(), fit.influence(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("policy", "by"), [("0.7*PL1 + 0.5*FL", "term"), ("0.6*PL1", "component")])
def test_automatic_weights_come_back(tmp_path, samples, policy, by):
    model = ff.BoltzmannMachine(4, biases=True)
    fit = ff.fit(model, samples, policy, sigma2=5.0, weights=ff.AutoWeights(by=by), random_state=3)
    fit.save(tmp_path / "fit.ff")
    np.testing.assert_allclose(ff.load(tmp_path / "fit.ff", samples).influence(), fit.influence(), atol=1e-13)


def test_compare_has_criteria_and_the_test(run, nested, votes):
    ran = run("compare", votes, *nested)
    assert narrow(ran.out)
    assert "null inside full: Composite likelihood-ratio test" in ran.out
    found = run("compare", votes, *nested, "--json").json
    full, null = (ff.load(path, votes) for path in nested)
    assert found["tests"][0]["p"] == pytest.approx(ff.likelihood_ratio(full, null).p)
    assert {line["model"]: line["claic"] for line in found["models"]} == pytest.approx(
        {"full": full.claic(), "null": null.claic()}
    )


def test_hypotheses(run, refused, nested):
    fit = ff.load(nested[0])
    assert run("test", nested[0], "b:d", "c:d").out == f"{fit.wald_test(['b:d', 'c:d'])}\n"
    same = run("test", nested[0], "b:d == c:d", "--json").json
    assert same["p"] == pytest.approx(fit.wald_test({"b:d": 1, "c:d": -1}).p)
    assert run("test", nested[0], "b:d==0.5", "--json").json["p"] == pytest.approx(fit.wald_test("b:d", 0.5).p)
    assert run("test", nested[0], "d:b == c:d", "--json").json["p"] == same["p"]
    assert run("test", nested[0], "2*b:d - 2*d:c", "--json").json["p"] == pytest.approx(same["p"])
    assert "'b:z' is not a parameter" in refused("test", nested[0], "b:d - b:z")
    assert same["caution"] is None
    assert "does not name a parameter; the nearest names are 'b:d', 'b:c'" in refused("test", nested[0], "b:z")
    assert "where a number or a parameter should be" in refused("test", nested[0], "b:d==much")


@pytest.mark.slow
def test_check_and_validate(run, refused, nested, votes):
    ran = run("check", nested[1], votes, "--simulated", 19)
    assert narrow(ran.out)
    assert "19 simulated datasets, not refitted" in ran.out
    found = run("check", nested[1], votes, "--simulated", 19, "--json").json
    assert found["statistics"][0]["p"] <= found["statistics"][-1]["p"]
    ran = run("validate", nested[0], votes, "-p", "PL1", "-p", "FL", "--sigma2", "0.1,none", "--folds", 2)
    assert narrow(ran.out)
    assert ran.out.count("none") == 2
    found = run("validate", nested[0], votes, "-p", "PL1", "-p", "FL", "--sigma2", "0.1,none", "--folds", 2, "--json")
    frame = ff.cross_validate(ff.load(nested[0]).model, votes, ["PL1", "FL"], sigma2=[0.1, None], folds=2)
    assert [line["nll"] for line in found.json["lines"]] == pytest.approx(list(frame["nll"]))
    assert "--sigma2" in refused("validate", nested[0], votes, "--sigma2", "much")


@pytest.mark.slow
def test_discoveries_and_coefficients_are_shown(run, nested, tmp_path):
    ran = run("show", nested[0], "--fdr", 0.05)
    assert narrow(ran.out)
    assert "at a false discovery rate of 0.05" in ran.out
    found = run("show", nested[0], "--fdr", 0.05, "--coefficients-to", tmp_path / "drawn", "--json").json
    frame = ff.load(nested[0]).discoveries(0.05)
    assert [line["q"] for line in found["discoveries"]["parameters"]] == pytest.approx(list(frame["q"]))
    assert [path.rpartition(".")[2] for path in found["files"]] == ["png", "svg", "csv"]
    assert len((tmp_path / "drawn" / "coefficients.csv").read_text().splitlines()) == 11


def test_discoveries_are_among_the_chosen_parameters(run, nested):
    found = run("show", nested[0], "--fdr", 0.05, "--parameter", "*:*", "--json").json["discoveries"]["parameters"]
    fit = ff.load(nested[0])
    couplings = fit.table(parameters="*:*").sort_values("p")
    q = {line["name"]: line["q"] for line in found}
    smallest_from = np.minimum.accumulate((couplings["p"] * 6 / np.arange(1, 7)).to_numpy()[::-1])[::-1]
    assert q == pytest.approx(dict(zip(couplings.index, smallest_from, strict=True)))
    of_all = fit.discoveries(0.05).loc[list(couplings.index), "q"]
    assert list(q.values()) != pytest.approx(list(of_all))
    shown = run("show", nested[0], "--fdr", 0.05, "--parameter", "*:*").out
    assert f"{sum(value <= 0.05 for value in q.values())} of 6 differ from 0" in shown


def test_discoveries_with_few_samples_have_a_warning_in_the_words_of_the_command_line(run, tmp_path, samples):
    ff.fit(ff.BoltzmannMachine(4), samples[:20], "PL1", sigma2=1).save(tmp_path / "few.ff")
    ran = run("show", tmp_path / "few.ff", "--fdr", 0.05)
    assert ran.err.startswith("fieldfit: warning: 3.3 samples for each parameter")
    assert "fieldfit test MODEL.ff NAME --bootstrap --data DATA simulates" in ran.err
    assert ran.err.count("\n") == 1
    words = " ".join(ran.out.split())
    assert "Caution: 3.3 samples for each parameter, robust errors may be too small, abs(z) too large" in words
    warned = run("show", tmp_path / "few.ff", "--fdr", 0.05, "--json").json["warnings"]
    assert len(warned) == 1
    assert "fit." not in warned[0]


@pytest.mark.slow
def test_the_picture_has_the_chosen_parameters(run, nested, tmp_path):
    assert run("show", nested[0], "--parameter", "b:*", "--coefficients-to", tmp_path).code == 0
    lines = (tmp_path / "coefficients.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split(",")[0] for line in lines] == list(ff.load(nested[0]).table(parameters="b:*").index)
    drawn = (tmp_path / "coefficients.svg").read_text(encoding="utf-8")
    assert "b:c" in drawn
    assert "c:d" not in drawn


@pytest.mark.slow
def test_a_file_without_standard_errors_says_how_to_get_them(run, refused, tmp_path):
    x = np.random.default_rng(0).integers(0, 2, (60, 46))
    ff.fit(ff.BoltzmannMachine(46), x, "PL1", sigma2=1).save(tmp_path / "wide.ff")
    told = " ".join(run("show", tmp_path / "wide.ff", "--rows", 1).out.split())
    assert "They need the samples: fieldfit report MODEL.ff --data DATA, or ff.load(path, data) in Python." in told
    assert "need the data: ff.load(path, data) in Python." in refused("show", tmp_path / "wide.ff", "--fdr", 0.05)
    assert "(--data)" in refused("test", tmp_path / "wide.ff", "x0:x1")
    np.savetxt(tmp_path / "wide.csv", x, fmt="%d", delimiter=",")
    page = tmp_path / "wide.html"
    assert run("report", tmp_path / "wide.ff", "--data", tmp_path / "wide.csv", "-b", "none", "-o", page).code == 0
    error = ff.load(tmp_path / "wide.ff", x).standard_errors(parameters=["x0:x1"])[0]
    assert f"{error:.4f}" in page.read_text(encoding="utf-8")
    assert "Standard errors need the samples" not in page.read_text(encoding="utf-8")
    assert run("report", tmp_path / "wide.ff", "-o", page).code == 0
    assert "Standard errors need the samples" in page.read_text(encoding="utf-8")
    assert "Name their file in the command (--data)" in page.read_text(encoding="utf-8")


def test_pages_of_the_command_line_speak_of_commands(run, tmp_path, samples):
    fit = ff.fit(ff.BoltzmannMachine(4), samples[:20], "PL1", sigma2=1)
    fit.save(tmp_path / "few.ff")
    np.savetxt(tmp_path / "few.csv", samples[:20], fmt="%d", delimiter=",")
    page = tmp_path / "few.html"
    assert run("report", tmp_path / "few.ff", "--data", tmp_path / "few.csv", "-b", "none", "-o", page).code == 0
    written = page.read_text(encoding="utf-8")
    assert "compare fieldfit test MODEL.ff NAME --kind model --data DATA." in written
    assert "fieldfit check gives p-values" in written
    assert "goodness_of_fit" not in written
    fit.to_html(page)
    assert "fit.goodness_of_fit() gives p-values" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_sentences_come_back_too(run, tmp_path):
    train, saved = tmp_path / "train.txt", tmp_path / "crf.ff"
    train.write_text(SENTENCES * 5, encoding="utf-8")
    assert run("fit", "crf", train, "-p", "0.5*PL1 + 0.5*FL", "--sigma2", 1, "--out", saved).code == 0
    found = run("influence", saved, train, "--rows", 2, "--json").json
    assert found["measure"] == "displacement"  # 15 sentences, more parameters
    assert len(found["samples"]) == 2
    assert run("validate", saved, train, "--folds", 2).code == 0


def test_a_report_is_a_page_with_the_commands_that_made_it(run, refused, votes, tmp_path):
    path = tmp_path / "model.ff"
    assert run("fit", "boltzmann", votes, "--policy", "PL1", "--out", path).code == 0
    ran = run("report", path, "--data", votes, "--budget", "none", "--out", tmp_path / "page.html")
    assert ran.code == 0
    assert "page.html" in ran.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"fieldfit fit boltzmann {votes} --policy PL1 --out {path}" in page
    assert f"fieldfit report {path}" in page
    assert "Influential samples" in page
    assert run("report", path).code == 0
    assert "does not contain its samples" in path.with_suffix(".html").read_text(encoding="utf-8")
    assert "--level is 2" in refused("report", path, "--level", "2")


def test_a_wald_test_with_few_samples_has_a_caution(run, tmp_path):
    rows = np.random.default_rng(3).integers(0, 2, (40, 6))
    path, saved = tmp_path / "few.csv", tmp_path / "few.ff"
    np.savetxt(path, rows, fmt="%d", delimiter=",", comments="", header="a,b,c,d,e,f")
    assert run("fit", "boltzmann", path, "--sigma2", 1, "--out", saved).code == 0
    told = ff.load(saved).wald_test("a:b").caution
    assert "samples" in told
    assert "fit." in told
    assert in_options(told) in run("test", saved, "a:b").out
    assert run("test", saved, "a:b", "--json").json["caution"] == in_options(told)


@pytest.mark.slow
def test_hypotheses_with_a_simulated_law(run, refused, nested, votes):
    fit = ff.load(nested[0], votes)
    simulated = ("--data", votes, "--simulated", 9, "--seed", 3, "--json")
    names = [name for name in fit.parameter_names if name.startswith("d:") or name.endswith(":d")]
    assert len(names) == 3
    found = run("test", nested[0], "d:*", "--bootstrap", *simulated).json
    expected = fit.bootstrap_test(names, n_simulated=9, random_state=3)
    assert found["restrictions"] == 3
    assert found["simulated"] == pytest.approx(expected.simulated.tolist())
    found = run("test", nested[0], "d:*", "--permute", "d", *simulated).json
    expected = fit.permutation_test(names, "d", n_simulated=9, random_state=3)
    assert (found["p"], found["simulated"]) == (expected.p, pytest.approx(expected.simulated.tolist()))
    assert run("test", nested[0], "d:*", "--json").json["p"] == pytest.approx(fit.wald_test(names).p)
    assert run("test", nested[0], "d:*==0.5", "--json").json["p"] == pytest.approx(fit.wald_test(names, 0.5).p)
    assert "NAME==NAME has none" in refused("test", nested[0], "b:d == c:d", "--bootstrap", "--data", votes)
    assert "give one of them" in refused("test", nested[0], "b:d", "--bootstrap", "--permute", "d", "--data", votes)
    assert "leave out ==VALUE" in refused("test", nested[0], "b:d==1", "--permute", "d", "--data", votes)
    assert "(--data)" in refused("test", nested[0], "b:d", "--bootstrap")


def test_show_restricts_the_table(run, refused, nested):
    shown = run("show", nested[0], "--parameter", "d:*", "--parameter", "b:c").out
    assert all(name in shown for name in ("b:d", "c:d", "b:c"))
    assert "été:b" not in shown
    assert "… and" not in shown
    assert "nearest names are 'b:d'" in refused("show", nested[0], "--parameter", "b:dd")
    found = run("show", nested[0], "--parameter", "d:*", "--parameter", "b:c", "--json").json
    assert sorted(line["name"] for line in found["parameter"]) == ["b:c", "b:d", "c:d", "été:d"]
    assert found["effect"] is None
    assert "nearest names are 'b:d'" in refused("show", nested[0], "--parameter", "b:dd", "--json")


def test_show_has_effects_of_free_tables(run, tmp_path):
    data, saved = tmp_path / "states.csv", tmp_path / "potts.ff"
    states = np.random.default_rng(0).choice(["a", "b", "c"], (300, 3))
    data.write_text("u,v,w\n" + "\n".join(map(",".join, states.tolist())) + "\n")
    assert run("fit", "potts", data, "--out", saved).code == 0
    ran = run("show", saved, "--rows", 4)
    assert narrow(ran.out)
    assert "Effects: each state compared with the first one." in ran.out
    table = ff.load(saved).effects()
    shown = run("show", saved, "--json").json["effect"]
    assert [row["name"] for row in shown] == list(table.index)
    assert [row["std_error"] for row in shown] == pytest.approx(list(table["std_error"]))


@pytest.mark.parametrize(
    ("samples", "sigma2", "reason"),
    [
        ([[1, 0], [0, 1], [0, 0]], 1.0, "only the penalty keeps them finite"),
        ([[0, 0], [1, 1]], None, "their optimum at infinity"),
    ],
)
@pytest.mark.filterwarnings("ignore::fieldfit.types.SeparationWarning")
def test_show_says_why_there_are_no_standard_errors(run, tmp_path, samples, sigma2, reason):
    """They are not called unidentified where the samples never show a joint state."""
    saved = tmp_path / "machine.ff"
    ff.fit(ff.BoltzmannMachine(2), samples * 10, "PL1", sigma2=sigma2).save(saved)
    shown = " ".join(run("show", saved).out.split())
    assert reason in shown
    assert "not identified" not in shown

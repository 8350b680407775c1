"""Figures 2 and 3: moments of mixtures against the theory of each policy, and what the paper says of the curves."""

import csv
import itertools
import json

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.cli.app import run
from fieldfit.report.panels import lower_left
from fieldfit.types import FieldfitError
from fieldfit_paper import figure2, figure3, selection_noise
from fieldfit_paper.chain_data import chain_data
from fieldfit_paper.tables import FORMULAS


@pytest.mark.parametrize("formula", FORMULAS)
def test_mixtures_agree_with_the_theory_of_each_policy(formula):
    random = np.random.default_rng(4)
    model = ff.BoltzmannMachine(4, biases=True)
    theta = random.normal(size=model.n_parameters)
    names = ("PL1", "PL2", "FL")
    moments = ff.family_mixtures(model, theta, names)
    lam, beta = random.uniform(0.1, 1, size=(2, 6, 3))
    found = moments.efficiencies(lam, beta, formula)
    for k in range(6):
        terms = zip(lam[k], names, beta[k], strict=True)
        policy = " + ".join(f"{own:.17g}*{name}@{weight:.17g}" for own, name, weight in terms)
        theory = ff.theory(model, theta, policy, formula=formula)
        for kind in ("det", "root", "trace"):
            assert found[kind][k] == pytest.approx(theory.efficiency(kind), rel=1e-9)


def test_figure_2_has_the_known_ends_and_shapes():
    records = figure2.compute("small")
    for (lower, higher), formula in itertools.product(itertools.pairwise(figure2.FAMILIES), FORMULAS):
        own = [r for r in records if (r["lower"], r["higher"], r["formula"]) == (lower, higher, formula)]
        det = [r["det"] for r in own]
        known = {"PL1": 1.624, "PL2": 1.341, "PL3": 1.154, "PL4": 1.041, "FL": 1.0}
        assert det[0] == pytest.approx(known[lower], abs=6e-4)
        assert det[-1] == pytest.approx(known[higher], abs=6e-4)
        middle = next(r for r in own if r["alpha"] == 0.5)
        for kind in ("trace", "det"):
            if formula == "published":  # (d) in the paper's text: the variance falls as α grows
                assert (np.diff([r[kind] for r in own]) < 0).all()
            else:  # what the note below our figure says
                assert middle[kind] > own[0][kind]
    assert min(r["det"] for r in records) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_figure_3_costs_and_variances_are_those_of_the_policies():
    records, pure = figure3.compute("small"), figure3.pure_policies()
    assert {own["policy"]: round(own["flops"], 6) for own in pure} == {
        "PL1": 684,
        "PL2": 5220,
        "PL3": 24228,
        "FL": 18468,
    }
    model = ff.BoltzmannMachine(9)
    for record in (records[123], records[-77]):
        first, second = (f"{record[lam]}*{record[name]}" for lam, name in (("lam1", "first"), ("lam2", "second")))
        policy = f"{first}@{record['beta1']} + {second}@{1 - record['beta1']}"
        theory = ff.theory(model, figure3.THETA, policy, formula=record["formula"])
        assert record["det"] == pytest.approx(theory.efficiency("det"), rel=1e-6)
        costs = {own["policy"]: own["flops"] for own in pure}
        expected = record["lam1"] * costs[record["first"]] + record["lam2"] * costs[record["second"]]
        assert record["flops"] == pytest.approx(expected)
    published, exact = ([r["det"] for r in records if r["formula"] == formula] for formula in FORMULAS)
    assert (np.array(exact) >= np.array(published) - 1e-9).all()  # selection noise only adds


def test_the_boundary_is_what_nothing_beats():
    random = np.random.default_rng(0)
    x, y = random.integers(0, 8, size=(2, 40)).astype(float)
    chosen = set(lower_left(x, y).tolist())
    points = set(zip(x, y, strict=True))
    best = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    assert {(x[k], y[k]) for k in chosen} == best
    assert len(chosen) == len(best)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure-2", "figure-3"])
def test_pictures_come_with_their_tables(without_data, name):
    folder, points = without_data.folder, without_data.experiment(name)["points"]
    assert without_data.files(name) == {f"{name}.{kind}" for kind in ("png", "svg", "csv", "json")}
    with (folder / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(points)
    assert [float(row["det"]) for row in rows] == [point["det"] for point in points]
    assert json.loads((folder / f"{name}.json").read_text())["columns"]["formula"][0] == "published"
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_another_scale_is_refused():
    with pytest.raises(FieldfitError, match="must be 'small' or 'paper'"):
        figure2.compute("huge")


def test_reproduce_finds_the_figures_and_takes_a_scale(capsys):
    assert run(["reproduce", "figure-2", "--scale", "small", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["scale"] == "small"
    assert document["files"] == []
    assert run(["reproduce", "figure-3", "--scale", "huge"]) == 2
    assert run(["reproduce", "figure-15"]) == 2
    assert "There is no experiment 'figure-15'; there are: figure-1," in capsys.readouterr().err


@pytest.mark.slow
def test_without_data_the_other_figures_come_out(without_data, tmp_path, monkeypatch):
    document = without_data.document
    names = [own["experiment"] for own in document["experiments"]]
    assert names == ["figure-1", "figure-2", "figure-3", "graphs", "selection-noise", "refined-frontier", "report"]
    assert sorted(document["left_out"]) == sorted(
        [*(f"figure-{k}" for k in range(4, 15)), *(f"figure-{k}-means" for k in (4, 5, 7, 8, 9, 10, 11, 12, 14))]
    )
    assert "conll2000/train.txt" in without_data.notes
    assert not list(without_data.folder.glob("sweeps/*"))  # no store full of failed cells
    monkeypatch.setenv("FIELDFIT_DATA", str(tmp_path))
    chain_data.cache_clear()
    assert run(["reproduce", "figure-7"]) == 2


@pytest.mark.slow
def test_log_root_det_is_unbiased_and_its_error_is_right():
    random = np.random.default_rng(8)
    root = np.tril(random.normal(size=(4, 4))) + 3 * np.eye(4)
    truth = np.linalg.slogdet(root @ root.T)[1] / 4
    found = [selection_noise.log_root_det(random.normal(size=(25, 4)) @ root.T) for _ in range(2000)]
    values, errors = np.array(found).T
    assert values.std() == pytest.approx(errors[0], rel=0.08)
    assert values.mean() == pytest.approx(truth, abs=4 * errors[0] / np.sqrt(2000))


@pytest.mark.slow
def test_fits_have_the_exact_variance_and_not_the_published_one(without_data):
    points = without_data.experiment("selection-noise")["points"]
    for row in selection_noise.comparison(points):
        assert abs(row["fits"] - row["exact"]) < 3.5 * row["error"]
        if row["alpha"] < 0.6:
            assert row["fits"] - row["published"] > 2 * row["error"]
    always = [r for r in points if r["way"] == selection_noise.ALWAYS]
    assert (np.diff([r["variance"] for r in always]) <= 1e-12).all()  # more of PL2 never hurts at the best β
    assert (without_data.folder / "selection-noise.png").stat().st_size > 10_000

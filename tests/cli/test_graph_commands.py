"""fit graph and label: the same numbers as `GraphCRF` and `TiedField`."""

import csv
import io

import numpy as np
import pytest

import fieldfit as ff

ROWS, COLUMNS = 5, 6
EDGES = [(j, j + 1) for j in range(19)] + [(0, 19)]


@pytest.fixture
def grid(tmp_path):
    """A grid of labelled plants; one of them lacks its water."""
    water = np.round(np.random.default_rng(0).normal(size=ROWS * COLUMNS), 3)
    model = ff.TiedField.grid(ROWS, COLUMNS, water[:, None], covariate_names=["water"], states=("N", "Y"))
    y = model.sample([0.0, 1.0, 0.3, 0.3], 1, random_state=1).values[0]
    water[7] = np.nan
    lines = [f"{label},{'' if np.isnan(value) else value}" for label, value in zip(y, water, strict=True)]
    path = tmp_path / "plants.csv"
    path.write_text("disease,water\n" + "\n".join(lines) + "\n")
    return path, np.where(np.isnan(water), np.nanmedian(water), water), y


@pytest.fixture
def ring(tmp_path):
    """A ring of people with names, three labels and a covariate."""
    age = np.round(np.random.default_rng(2).normal(size=20), 3)
    y = np.random.default_rng(3).choice(["a", "b", "c"], 20)
    nodes, edges = tmp_path / "people.csv", tmp_path / "edges.csv"
    people = [f"p{k},{value},{label}" for k, (value, label) in enumerate(zip(age, y, strict=True))]
    nodes.write_text("who,age,likes\n" + "\n".join(people) + "\n")
    edges.write_text("from,to\n" + "\n".join(f"p{j},p{k}" for j, k in EDGES) + "\n")
    return nodes, edges, age, y


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.slow
def test_a_grid_with_a_missing_covariate(run, refused, grid, tmp_path):
    path, water, y = grid
    saved = tmp_path / "field.ff"
    options = (path, "--edges", f"grid:{ROWS}x{COLUMNS}")
    assert "water is missing for 1 of 30 nodes" in refused("fit", "graph", *options, "--label", "disease")
    ran = run("fit", "graph", *options, "--label", "disease", "--impute", "--sigma2", 2, "--out", saved, "--json")
    model = ff.TiedField.grid(ROWS, COLUMNS, water[:, None], covariate_names=["water"], states=("N", "Y"))
    fit = ff.fit(model, y[None], "PL1", sigma2=2.0)
    found = {row["name"]: row["estimate"] for row in ran.json["parameter"]}
    assert list(found) == list(fit.parameter_names) == ["bias", "water", "horizontal", "vertical"]
    assert list(found.values()) == pytest.approx(fit.theta)
    rows = table(run("label", saved, *options, "--impute").out)
    chance = np.array([[float(row["p(N)"]), float(row["p(Y)"])] for row in rows])
    np.testing.assert_allclose(chance, np.stack(model.marginals(fit.theta)), atol=1e-6)
    assert [row["predicted"] for row in rows] == np.array(["N", "Y"])[chance.argmax(axis=1)].tolist()
    assert [row["disease"] for row in rows] == y.tolist()
    assert "is a fit of the kind 'tied', which cannot label sentences" in refused("predict", saved, path)
    assert "name the column with the labels: --label COLUMN" in refused("report", saved, "--data", path)
    assert run("report", saved, "--data", path, "--label", "disease", "--budget", "none").code == 0
    page = saved.with_suffix(".html").read_text(encoding="utf-8")
    assert "Data against model" in page
    assert "the influence of a sample needs other samples" in page
    assert "does not contain its samples" not in page
    path.write_text("disease,water\nN,1\nY,2\n")
    told = refused("report", saved, "--data", path, "--label", "disease")
    assert "has 2 nodes, and the graph of the fit has 30" in told


def test_names_three_labels_and_known_ones(run, ring, tmp_path):
    nodes, edges, age, y = ring
    saved, out = tmp_path / "field.ff", tmp_path / "labels.csv"
    options = ("--edges", edges, "--id", "who")
    assert run("fit", "graph", nodes, *options, "--label", "likes", "--sigma2", 10, "--out", saved).code == 0
    crf = ff.GraphCRF(EDGES).fit(age[:, None], y)
    np.testing.assert_allclose(ff.load(saved).theta, crf.fit_.theta, atol=1e-8)
    assert ff.load(saved).model.as_field("names").names[:2] == ("p0", "p1")
    some = tmp_path / "some.csv"
    lines = nodes.read_text().splitlines()
    some.write_text("\n".join([*lines[:6], *(line.rpartition(",")[0] + "," for line in lines[6:])]) + "\n")
    ran = run("label", saved, some, *options, "--given", "likes", "--out", out)
    assert "20 nodes, exact probabilities" in ran.err
    found = np.array([[float(row[f"p({label})"]) for label in "abc"] for row in table(out.read_text())])
    expected = crf.predict_proba(age[:, None], given=dict(enumerate(y[:5])))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    document = run("label", saved, nodes, *options, "--json").json
    assert document["exact"] is True
    assert document["nodes"][3] == "p3"
    np.testing.assert_allclose(document["probability"], crf.predict_proba(age[:, None]), atol=1e-10)


@pytest.mark.slow
def test_what_is_refused(refused, run, ring, tmp_path, votes):
    nodes, edges, _, _ = ring
    named = ("--edges", edges, "--id", "who")
    assert "no column 'like'; the nearest names are 'likes'" in refused(
        "fit", "graph", nodes, *named, "--label", "like"
    )
    wrong = ("--columns", "who", "--label", "likes")
    assert "node 0: who is 'p0', and covariates are numbers" in refused("fit", "graph", nodes, *named, *wrong)
    assert "line 2: there is no variable 'p0'" in refused("fit", "graph", nodes, "--edges", edges, "--label", "likes")
    twice, gap, one = (tmp_path / name for name in ("twice.csv", "gap.csv", "one.csv"))
    twice.write_text(nodes.read_text().replace("p1,", "p0,", 1))
    assert "two nodes are called 'p0'" in refused("fit", "graph", twice, *named, "--label", "likes")
    gap.write_text("age,likes\n1,a\n2,\n3,b\n")
    assert "likes is missing for 1 of 3 nodes" in refused(
        "fit", "graph", gap, "--edges", "grid:1x3", "--label", "likes"
    )
    one.write_text("age,likes\n1,a\n2,a\n")
    assert "has 1 different labels" in refused("fit", "graph", one, "--edges", "grid:1x2", "--label", "likes")
    states = ("--label", "likes", "--states", "a,b")
    assert "and the labels are a, b" in refused("fit", "graph", nodes, *named, *states)
    saved = tmp_path / "machine.ff"
    assert run("fit", "boltzmann", votes, "--out", saved).code == 0
    assert "needs one of `fieldfit fit graph`" in refused("label", saved, nodes, *named)

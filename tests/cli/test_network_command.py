"""`fieldfit network`: from a table to files, with groups and refusals."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path):
    """Three answers, of which the first two agree often in group a and not in group b."""
    random = np.random.default_rng(0)
    x = (random.random((240, 3)) < 0.5).astype(int)
    x[:120, 1] = np.where(random.random(120) < 0.8, x[:120, 0], x[:120, 1])
    path = tmp_path / "answers.csv"
    frame = pd.DataFrame(x, columns=["sad", "tired", "calm"]).assign(group=["a"] * 120 + ["b"] * 120)
    frame.to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_groups_and_files(run, table, tmp_path):
    out, clusters = tmp_path / "out", tmp_path / "clusters.csv"
    clusters.write_text("sad,mood\ncalm,mood\ntired,body\n")
    options = ("--by", "group", "--out", out, "--bootstrap", 10, "--permutations", 19, "--clusters", clusters)
    found = run("network", table, *options)
    assert found.code == 0, found.err
    assert "group = a" in found.out
    assert "Comparison of a and b (19 permutations: no p-value is below 0.05)" in found.out
    assert "p = 0.05" in found.out
    assert "Network of group a (120 rows, 3 variables), 10 bootstrap samples" in found.err
    edges = pd.read_csv(out / "edges.csv")
    assert set(edges["group"]) == {"a", "b"}
    assert {"weight", "debiased", "refit", "lower", "included", "bootstrap_se"} <= set(edges.columns)
    nodes = pd.read_csv(out / "nodes.csv")
    percentiles = {f"{name}_bootstrap_{end}" for name in ("betweenness", "closeness") for end in ("lower", "upper")}
    assert percentiles <= set(nodes)
    assert not {"betweenness_lower", "closeness_lower"} & set(nodes)  # they are no confidence intervals
    assert {"strength_lower", "expected_influence_lower"} <= set(nodes)
    assert (nodes["betweenness_bootstrap_lower"] <= nodes["betweenness_bootstrap_upper"]).all()
    assert {"strength_lower", "normalised", "threshold"} <= set(nodes.columns)
    assert len(nodes) == 6
    assert pd.read_csv(out / "comparison.csv")["from"][0] == "sad"
    assert (out / "network.png").stat().st_size > 10_000
    assert "Structure" in (out / "summary.txt").read_text()


def test_json_without_groups(run, table):
    found = run("network", table, "--leave-out", "group", "--bootstrap", 0, "--json")
    assert found.code == 0, found.err
    assert found.err == ""
    (network,) = found.json["networks"]
    assert network["rows"] == 240
    assert network["edges"][0]["from"] == "sad"
    assert len(network["nodes"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weight", "mean"])
def test_a_column_of_groups_replaces_no_result(run, table, tmp_path, name):
    pd.read_csv(table).rename(columns={"group": name}).to_csv(table, index=False)
    out = tmp_path / "out"
    found = run("network", table, "--by", name, "--bootstrap", 0, "--permutations", 1, "--out", out)
    assert found.code == 0, found.err
    for file, column in (("edges.csv", "weight"), ("nodes.csv", "mean")):
        written = pd.read_csv(out / file)
        assert set(written["group"]) == {"a", "b"}
        assert written[column].dtype == float


def test_refusals(run, table, tmp_path):
    found = run("network", table)
    assert found.code == 2
    assert "'group' looks like the group of each row" in found.err
    found = run("network", table, "--by", "sex")
    assert "no column 'sex'" in found.err
    assert "Did you mean 'group'?" in run("network", table, "--by", "grp").err
    clusters = tmp_path / "clusters.csv"
    clusters.write_text("sad,mood\n")
    found = run("network", table, "--by", "group", "--clusters", clusters)
    assert "no cluster for the variable 'tired'" in found.err
    found = run("network", table, "--by", "group", "--compare", "a")
    assert "--compare names 1 groups" in found.err


def test_rare_values_are_named_with_their_group(run, table):
    frame = pd.read_csv(table)
    frame.loc[frame["group"] == "b", "calm"] = [1] * 5 + [0] * 115
    frame.to_csv(table, index=False)
    found = run("network", table, "--by", "group", "--bootstrap", 0, "--permutations", 9)
    assert found.code == 0, found.err
    assert "occurs fewer than 8 times in the group 'b' ('calm')" in found.err
    assert "Differences of edges with the smallest p-values" in found.out

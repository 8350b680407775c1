"""The chain experiments on a small synthetic source; with FIELDFIT_DATA, exact counts of the real one."""

import os
from typing import Any

import numpy as np
import pytest

import fieldfit as ff
from fieldfit.asymptotics.criterion import Criterion
from fieldfit.asymptotics.mixture_moments import MixtureMoments
from fieldfit.chains import Segments, Sequences, selected_windows
from fieldfit.models.chain_problem import Windows
from fieldfit.plots import Cloud, TradeOffPanel
from fieldfit.types import DataError, ModelError, PolicyError
from fieldfit_paper import chain_sweeps, chain_tables, claim_page, figure14
from fieldfit_paper.beta_heuristic import heuristic_beta, heuristic_cell
from fieldfit_paper.chain_data import chain_data, draw_fold
from fieldfit_paper.chain_figures import reproduce_grids, reproduce_heuristic, reproduce_trade_off
from fieldfit_paper.chain_folds import boltzmann_chain_fold, chain_fold, window_flops
from fieldfit_paper.chain_sweeps import averaged, by_beta, finished_cells, mean_over_folds, records_of
from fieldfit_paper.chain_tables import differences
from fieldfit_paper.chunking import LOOSE_TOLERANCE, chain_row, fit_chain, fold_of, policy_text, sigma2_of, weights_of
from fieldfit_paper.claim_rows import Finding, Row, Section, Verdict
from fieldfit_paper.data_claims import label_ngrams
from fieldfit_paper.kept_cells import kept_path, write_cells
from fieldfit_paper.sentiment import encode_documents, read_documents, words_of

HAS_DATA = bool(os.environ.get("FIELDFIT_DATA"))
N_TRAIN = 12
BASE = {
    "source": "synthetic", "higher": "FL", "lam": 0.6, "betas": [0.4], "reading": "sums", "sigma2": 30.0, "fold": 0,
    "n_train": N_TRAIN,
}  # fmt: skip


def one_cell(**coordinates):
    """The cell of one β."""
    (cell,) = by_beta({name: value.tolist() for name, value in chain_row(BASE | coordinates, 0).items()})
    return cell


def small_fold(model):
    return chain_fold("synthetic", model, 0, 5, N_TRAIN, None)


def whole_and_reduced(model, data, fold, policy):
    """The fit of the whole model to the training rows, and that of the fold's smaller one."""
    drawn = draw_fold(chain_data("synthetic"), 0, 5, N_TRAIN, None)
    options: dict[str, Any] = {"random_state": 77, "method": "newton", "tol": 1e-7}
    whole = ff.fit(model, data.subset(drawn.train), policy, sigma2=20.0, **options)
    reduced = ff.fit(fold.model, fold.train, policy, sigma2=20.0 / fold.copies, **options)
    return whole, reduced, drawn


def check_the_same(model, data, fold, policy):
    whole, reduced, drawn = whole_and_reduced(model, data, fold, policy)
    assert reduced.objective == pytest.approx(whole.objective, abs=1e-5)
    for part, rows in ((fold.train, drawn.train), (fold.test, drawn.test)):
        expected = model.log_likelihood(whole.theta, data.subset(rows))
        np.testing.assert_allclose(fold.model.log_likelihood(reduced.theta, part), expected, atol=1e-4)


def test_shared_symbols_give_the_fit_of_the_whole_chain():
    data, fold = chain_data("synthetic"), small_fold("boltzmann-chain")
    assert fold.model.unseen > 1, "the synthetic fold must leave symbols unseen"
    model = ff.BoltzmannChain(data.symbols.n_labels, data.symbols.n_features)
    assert fold.copies.sum() == model.n_parameters
    check_the_same(model, data.symbols, fold, "PL1@0.3 + 0.6*PL2@0.7")


def test_features_that_training_lacks_do_not_matter():
    data, fold = chain_data("synthetic"), small_fold("crf")
    assert fold.train.n_features < data.features.n_features
    check_the_same(data.crf, data.features, fold, "PL1@0.3 + 0.6*FL@0.7")


def test_a_cell_is_the_public_fit():
    fold = small_fold("crf")
    fit = fit_chain(fold, policy_text("FL", 0.6), weights_of("FL", 0.4), 30.0 / N_TRAIN, 5_000_015)
    assert one_cell(model="crf", data_seed=5)["test_nll"] == fold.nll(fit.theta, fold.test)
    assert str(fit.policy) == "PL1@0.6 + 0.6*FL/nested@0.4"


def test_folds_draw_without_replacement_and_depend_on_fold_and_seed_only():
    data = chain_data("synthetic")
    one = draw_fold(data, 3, 1, 20, None)
    again = draw_fold(data, 3, 1, 20, None)
    np.testing.assert_array_equal(one.train, again.train)
    assert len(np.unique(one.train)) == 20
    assert one.train.max() < data.n_train <= one.test.min()
    assert len(one.test) == 30
    assert not np.array_equal(one.train, draw_fold(data, 4, 1, 20, None).train)
    assert len(draw_fold(data, 3, 1, 20, 7).test) == 7
    with pytest.raises(DataError, match=r"1\.\.60"):
        draw_fold(data, 0, 0, 61, None)


def test_selection_belongs_to_the_fold():
    fold = small_fold("crf")
    one, same, other = (selected_windows(fold.train, policy_text("PL2", 0.5), seed)[1] for seed in (9, 9, 10))
    np.testing.assert_array_equal(one.first, same.first)
    assert one.first.tolist() != other.first.tolist()
    with pytest.raises(PolicyError, match="FL or PL2"):
        policy_text("PL7", 0.5)


def test_flops_by_hand():
    data = Sequences([0, 4], np.arange(5), [0, 0, 0, 0], None, [0, 1, 2, 0], 1, 3)  # type: ignore[arg-type]
    K, F = 3, 2.0
    # PL1: four windows of one token, b = 2, 2, 2, 1; PL2: three windows, b = 2, 2, 1; FL: one, b = 1 (the start).
    by_hand = (4 * 2 * K * F + 2 * K * 7, 3 * (3 * K**2 + 4 * K * F) + 2 * K * 5, 9 * K**2 + 8 * K * F + 2 * K)
    for windows, expected in zip(selected_windows(data, "PL1 + PL2 + FL"), by_hand, strict=True):
        assert window_flops(windows, K, F) == expected
    chosen = Segments(data.offsets, Windows(2, 1.0, None, np.array([0, 1]), np.array([1])))
    assert window_flops(chosen, K, F) == 3 * K**2 + 4 * K * F + 2 * K * 2


def test_flops_leave_out_terms_of_weight_0():
    fold = small_fold("crf")
    both, first, second = (fold.flops("PL1 + 0.5*PL2", 1, np.array(beta)) for beta in ((1, 1), (1, 0), (0, 1)))
    assert both == first + second


def test_cell_is_repeatable_and_refuses_what_it_does_not_know():
    keys = ("train_nll", "test_nll", "flops", "iterations")
    first, second = (chain_row(BASE | {"model": "crf"}, seed) for seed in (1, 2))
    assert [first[k][0] for k in keys] == [second[k][0] for k in keys]
    assert first["converged"]
    with pytest.raises(ModelError, match="no chain model"):
        one_cell(model="hmm")
    with pytest.raises(PolicyError, match="regulariser"):
        one_cell(model="crf", regulariser="half")


def test_the_two_readings_of_sigma2_differ_by_the_number_of_sentences():
    mean = one_cell(model="boltzmann-chain", sigma2=24.0 * N_TRAIN, regulariser="mean")
    total = one_cell(model="boltzmann-chain", sigma2=24.0, regulariser="sum")
    assert mean["test_nll"] == total["test_nll"]


@pytest.mark.parametrize("reading", ["sums", "means"])
def test_a_row_has_the_cells_of_its_betas(reading):
    """Averaged families have the weights (1 − β)/T̄ and β/(T̄ − 1); a fit from another start ends in the same place."""
    betas = [0.0, 0.3, 0.6, 1.0]
    row = chain_row(BASE | {"model": "crf", "higher": "PL2", "reading": reading, "betas": betas}, 0)
    records = by_beta({name: value.tolist() for name, value in row.items()})
    assert [record["beta"] for record in records] == betas
    assert all(record["converged"] for record in records)
    fold, seed = fold_of(BASE | {"model": "crf"})
    lengths = fold.train.lengths
    sizes = np.array([lengths.mean(), np.maximum(lengths - 1, 1).mean()])
    sigma2 = sigma2_of(BASE, fold)
    for record in records:
        weights = weights_of("PL2", record["beta"]) / (sizes if reading == "means" else 1.0)
        fit = fit_chain(fold, f"PL1 + {BASE['lam']}*PL2/nested", weights, sigma2, seed)
        assert record["train_nll"] == pytest.approx(fold.nll(fit.theta, fold.train), abs=1e-3)
    with pytest.raises(PolicyError, match="reading"):
        policy_text("FL", 0.5, "medians")


def test_a_loose_tolerance_moves_the_nll_by_little():
    close, loose = (one_cell(model="crf", tolerance=t) for t in (1e-6, LOOSE_TOLERANCE))
    assert loose["iterations"] < close["iterations"]
    assert loose["test_nll"] == pytest.approx(close["test_nll"], abs=5e-3)


def test_counted_diagonal_is_the_diagonal_form_of_repeated_parameters():
    random = np.random.default_rng(0)
    bread = random.uniform(0.5, 2, (2, 6))
    scores = random.normal(size=(40, 2, 6))
    meat = np.einsum("ngr,nhr->ghr", scores, scores) / 40
    copies = np.array([1, 1, 3, 1, 7, 1])

    def moments(*matrices):
        return MixtureMoments.with_drawn_selection(("PL1", "FL"), *matrices)

    counted = Criterion.log_diagonal(moments(bread, meat), copies.astype(float)).over_weights()
    several = moments(np.repeat(bread, copies, axis=1), np.repeat(meat, copies, axis=2))
    repeated = Criterion.log_diagonal(several).over_weights()
    for beta in (np.array([0.3, 0.7]), np.array([1.0, 0.0])):
        value, slope = counted.value_grad(beta)
        other, other_slope = repeated.value_grad(beta)
        assert value == pytest.approx(other, rel=1e-12)
        np.testing.assert_allclose(slope, other_slope, rtol=1e-12)
    np.testing.assert_allclose(counted.information, repeated.information)


def test_heuristic_fits_with_the_beta_that_it_finds():
    fold = small_fold("boltzmann-chain")
    beta, theta, rounds, _ = heuristic_beta(fold, "FL", 0.5, 2.0, "exact", 1)
    assert 0 <= beta <= 1
    assert rounds >= 1
    assert len(theta) == len(fold.copies)
    own = BASE | {"model": "boltzmann-chain", "formula": "exact"}
    cell = heuristic_cell(own, 0)
    fixed = one_cell(model="boltzmann-chain", betas=[cell["beta"]])
    assert cell["test_nll"] == pytest.approx(fixed["test_nll"], abs=1e-3)
    with pytest.raises(PolicyError, match="formula"):
        heuristic_cell(own | {"formula": "printed"}, 0)


def test_means_over_folds():
    records = [
        {"fold": f, "sigma2": 1.0, "lam": lam, "beta": 0.5, "train_nll": f + lam, "test_nll": 2 * f + lam, "flops": 1.0,
         "evaluation_seconds": 1.0, "fit_seconds": 1.0}
        for f in (0, 1) for lam in (0.5, 1.0)
    ]  # fmt: skip
    (lams,), means = mean_over_folds(records, ("lam",), "train_nll")
    assert (lams.tolist(), means.tolist()) == ([0.5, 1.0], [1.0, 1.5])
    rows = averaged(records, ("lam",))
    assert rows[0]["test_nll"] == 1.5
    assert rows[0]["test_nll_error"] == pytest.approx(1.0)
    assert rows[0]["beta"] == 0.5


def test_differences_are_paired_by_fold():
    records = []
    for fold, level in ((0, 10.0), (1, 20.0), (2, 30.0)):
        for lam, beta, away, flops in (
            (1.0, 1.0, 0.0, 4.0),
            (0.5, 0.5, -1.0 - 0.01 * fold, 2.0),
            (0.5, 1.0, 3.0, 1.0),
        ):
            record = {"fold": fold, "sigma2": 1.0, "lam": lam, "beta": beta}
            records.append(record | {"test_nll": level + away, "flops": flops})
    rows = {(r["lam"], r["beta"]): r for r in differences(records)}
    assert rows[0.5, 0.5]["win_win"]
    assert rows[0.5, 0.5]["difference"] == pytest.approx(-1.01)
    assert rows[0.5, 0.5]["relative_flops"] == 0.5
    assert not rows[0.5, 1.0]["win_win"]
    assert not rows[1.0, 1.0]["win_win"]


@pytest.fixture
def tiny(monkeypatch):
    size = chain_sweeps.Scale((0.5, 1.0), (0.0, 0.4, 1.0), (0.4, 1.0), 2, {"sums": 1, "means": 1}, 8, 10, 0, 1)
    monkeypatch.setitem(chain_sweeps.SCALES, "small", size)


def test_panels_of_cheaper_policies_have_one_sigma2_each_and_show_every_bar():
    rows = [
        {
            "sigma2": sigma2, "lam": lam, "beta": beta, "relative_flops": 0.2 + 0.5 * lam,
            "difference": lam - beta - sigma2, "half_interval": 0.1 + 5 * (lam == 0.9),
        }
        for sigma2 in (1.0, 10.0)
        for lam in (0.1, 0.9)
        for beta in (0.2, 0.6)
    ]  # fmt: skip
    panels = figure14.panels("CRF, PL1/FL", rows)
    assert [panel.title for panel in panels] == ["CRF, PL1/FL, σ² = 1", "CRF, PL1/FL, σ² = 10"]
    assert len({(panel.x_range, panel.y_range) for panel in panels}) == 1
    low, high = panels[0].y_range
    for panel, sigma2 in zip(panels, (1.0, 10.0), strict=True):
        (cloud,) = panel.clouds
        np.testing.assert_allclose(cloud.y, [0.1 - 0.6 - sigma2, 0.9 - 0.6 - sigma2])  # the best β of each λ
        assert low < (cloud.y - cloud.bars).min()
        assert (cloud.y + cloud.bars).max() < high
        assert panel.x_range[0] < cloud.x.min() < cloud.x.max() < panel.x_range[1]
    assert low < 0 < high


def test_a_legend_only_where_there_are_several_clouds():
    from matplotlib.figure import Figure

    clouds = [Cloud(name, np.array([1.0, 2.0]), np.array([2.0, 1.0])) for name in ("PL1/FL", "PL1/PL2")]
    for shown, expected in ((clouds[:1], False), (clouds, True)):
        axes = Figure().subplots()
        TradeOffPanel("costs", shown, "FLOPs", "NLL", frontier=True).draw(axes)
        assert (axes.get_legend() is not None) is expected


@pytest.mark.slow
def test_figures_of_a_model_from_shared_stores(tiny, tmp_path):
    for function, number, names in (
        (reproduce_grids, 7, ["figure-7-pl1-fl-contours.png", "figure-7-pl1-pl2-curves.svg", "figure-7-pl1-fl.csv"]),
        (reproduce_trade_off, 8, ["figure-8.png", "figure-8-seconds.png", "figure-8.csv"]),
        (reproduce_heuristic, 9, ["figure-9.png", "figure-9.json"]),
    ):
        found = function(number, "synthetic", "boltzmann-chain", tmp_path, "small")
        assert found.tables
        for name in names:
            assert (tmp_path / name).stat().st_size > 0
            assert tmp_path / name in found.files
    stores = sorted(path.name for path in (tmp_path / "sweeps").glob("*.sweep"))
    assert len(stores) == 4
    assert "The last fit of its stores ended at 20" in claim_page.made_with(tmp_path, "small")
    assert "stores" not in claim_page.made_with(tmp_path, "paper")
    grid = records_of("grid", "synthetic", "boltzmann-chain", "FL", "small", tmp_path)
    assert len(grid) == 2 * 2 * 2 * 3
    heuristic = records_of("heuristic", "synthetic", "boltzmann-chain", "FL", "small", tmp_path)
    pairs = chain_tables.heuristic_pairs(grid, heuristic, "exact")
    assert all(p["best_train_nll"] <= p["heuristic_train_nll"] + 1e-6 or 0 <= p["heuristic_beta"] <= 1 for p in pairs)
    assert {p["best_beta"] for p in pairs} <= {0.0, 0.4, 1.0}


@pytest.mark.slow
def test_claims_without_data_say_so(without_data):
    rows = without_data.experiment("report")["claims"]
    missing = [row for row in rows if row["measured"] == "not measured"]
    assert len(missing) == 7
    assert {row["verdict"] for row in missing} == {"not measured"}
    assert without_data.files("report") == {"reproduction.md", "reproduction.html"}
    text = (without_data.folder / "reproduction.md").read_text(encoding="utf-8")
    assert "7 were not measured" in text
    assert "conll2000/train.txt" in text
    assert {"Figure 2 (c), (d)", "Figure 3"} <= {row["where"] for row in rows if row["verdict"] == "refuted"}
    assert all(row["why"] for row in rows if "differs" in row["verdict"] or "refuted" in row["verdict"])


def test_cells_are_kept_and_read_where_there_is_no_store(tmp_path):
    records = [
        {"fold": f, "formula": "exact", "sigma2": 5.0, "lam": 0.5, "beta": 1 / 3, "train_nll": 3.25 + f, "test_nll": 4.5,
         "flops": 1e6, "evaluation_seconds": 1e-4, "fit_seconds": 0.5, "converged": True}
        for f in (0, 1)
    ]  # fmt: skip
    kept = kept_path(tmp_path / "sweeps" / "heuristic-conll2000-crf-FL-paper.sweep")
    assert kept == tmp_path / "cells" / "heuristic-conll2000-crf-FL-paper.csv"
    write_cells(kept, records)
    read = records_of("heuristic", "conll2000", "crf", "FL", "paper", tmp_path)
    assert [r["train_nll"] for r in read] == [3.25, 4.25]
    assert {r["formula"] for r in read} == {"exact"}
    assert read[0]["beta"] == pytest.approx(1 / 3, rel=1e-8)
    assert "converged" not in read[0]
    assert finished_cells(tmp_path / "sweeps" / "heuristic-conll2000-crf-FL-paper.sweep") == read


def test_verdicts_of_both_readings():
    rows = [
        Row("Figure 1", "a", Finding.of("1", False), "because", Finding.of("2", True)),
        Row("Figure 2", "b", Finding.of("3", None)),
        Row("Figure 3", "c", Finding("4", Verdict.REFUTED), "proof"),
    ]
    assert rows[0].verdict == "differs in the first reading, agrees in the second"
    assert Row("", "", Finding.of("1", True), "", Finding.of("2", True)).verdict == "agrees in both readings"
    assert rows[0].measured == "First reading: 1. Second reading: 2"
    counts = claim_page.counts_of(rows)
    assert counts == {
        Verdict.AGREES: (0, 1),
        Verdict.DIFFERS: (1, 0),
        Verdict.REFUTED: (1, 1),
        Verdict.UNDECIDED: (1, 1),
    }
    text = claim_page.summary([Section("One", "one thing", tuple(rows))])
    assert "in our first reading 1 differs, 1 is refuted and 1 is undecided" in text
    assert "(Figure 3)" in text
    assert "No claim differs in the second reading." in text
    other = Section("Two", "two things", (Row("", "", Finding.of("1", False)),) * 2)
    text = claim_page.summary([Section("One", "one thing", tuple(rows)), other])
    assert "Of the 2 that still differ, 2 are about two things; the tables" in text
    assert text.count(". ") == 4  # five sentences


def test_label_ngrams_by_hand():
    data = Sequences([0, 3, 5], np.arange(6), [0] * 5, None, [0, 1, 0, 0, 1], 1, 2)  # type: ignore[arg-type]
    # Pairs: *0 01 10, *0 01; triples: **0 *01 010, **0 *01.
    assert [label_ngrams(data, order) for order in (0, 1, 2)] == [2, 3, 3]


SENTENCES = """one_pos_1
books	5
pos	A great book, great fun!
nr	I read it in May.

two_neg_1
dvds	1
neg	Don't buy it.
"""


def test_sentiment_documents(tmp_path):
    path = tmp_path / "reviews.txt"
    path.write_text(SENTENCES)
    documents = read_documents(path)
    assert [len(document) for document in documents] == [2, 1]
    assert words_of("A great book, great fun!") == ["a", "great", "book", "fun", "!"]
    data = encode_documents(documents)
    assert data.labels == ("neg", "nr", "pos")
    assert isinstance(data.features, Sequences)
    assert data.features.labels.tolist() == [2, 1, 0]
    assert np.diff(data.features.indptr).tolist() == [5, 5, 3]
    path.write_text("name\nbooks\t1\nno tab here\n")
    with pytest.raises(DataError, match="Document 0"):
        read_documents(path)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_DATA, reason="needs FIELDFIT_DATA")
def test_conll_counts_and_folds():
    chain_data.cache_clear()
    data = chain_data("conll2000")
    assert (data.features.n_features, data.n_pairs, data.symbols.n_features) == (273_571, 297_041, 21_589)
    assert (data.n_train, data.features.n_sequences) == (8_936, 10_948)
    drawn = draw_fold(data, 0, 0, 100, 50)
    fold = boltzmann_chain_fold(data, drawn.train, drawn.test)
    assert fold.copies.sum() == 23 * (23 + 1 + 21_589)
    cell = one_cell(source="conll2000", model="crf", sigma2=500, n_train=100, lam=1.0, betas=[1.0])
    assert cell["converged"]
    assert 4.5 < cell["test_nll"] < 7.0

"""Run times that cells store, and their sums on the page."""

from fieldfit_paper.beta_heuristic import heuristic_cell
from fieldfit_paper.chain_sweeps import store_path
from fieldfit_paper.chunking import chain_row
from fieldfit_paper.kept_cells import kept_path, read_cells, write_cells
from fieldfit_paper.run_times import RunTime, run_time, time_table, time_text

CELL = {
    "source": "synthetic", "model": "crf", "higher": "FL", "lam": 0.6, "betas": [0.2, 0.4], "reading": "sums",
    "sigma2": 30.0, "fold": 0, "n_train": 12,
}  # fmt: skip


def keep(folder, kind, source, model, higher, cells):
    write_cells(kept_path(store_path(kind, source, model, higher, "paper", folder)), cells)


def cells(count, **seconds):
    return [{"fold": k, "sigma2": 1.0, "train_nll": 1.0, "test_nll": 1.0} | seconds for k in range(count)]


def test_a_cell_stores_the_time_of_all_that_it_does():
    row = chain_row(CELL, 0)
    assert all(row["cpu_seconds"] > row["fit_seconds"])
    heuristic = heuristic_cell(CELL | {"formula": "exact"}, 0)
    assert heuristic["cpu_seconds"] > heuristic["fit_seconds"]


def test_times_are_summed_by_experiment_and_reading(tmp_path):
    assert time_table(tmp_path, "paper") == []
    assert time_text(tmp_path, "paper") == ""
    for higher in ("FL", "PL2"):
        keep(tmp_path, "grid", "sentiment", "crf", higher, cells(4, fit_seconds=1.0, cpu_seconds=30.0))
        keep(
            tmp_path, "heuristic", "conll2000", "boltzmann-chain", higher, cells(10, fit_seconds=1.0, cpu_seconds=6.0)
        )
    keep(tmp_path, "heuristic-means", "conll2000", "crf", "FL", cells(20, fit_seconds=3.0, cpu_seconds=60.0))
    assert time_table(tmp_path, "paper") == [
        ("sentiment set, grids", "8", "240", "0", "–"),
        ("chunking, Algorithm 1", "20", "120", "20", "1,200"),
        ("sum", "28", "360", "20", "1,200"),
    ]
    text = time_text(tmp_path, "paper")
    assert "the first reading 6 processor minutes, which is 3 minutes on 2 processors" in text
    assert "the second reading 20 processor minutes, which is 10 minutes on 2 processors" in text
    assert (
        "The first reading of the sentiment set has 4 splits, not the paper's 100: a split of 2 fits took 60 processor "
        "seconds, so 100 would take 100 processor minutes" in text
    )
    assert "The second reading of the sentiment set" not in text
    assert "at least" not in text.lower()
    assert "about" not in text


def test_cells_that_stored_their_fits_only_give_a_lower_bound(tmp_path):
    keep(tmp_path, "means", "conll2000", "crf", "PL2", cells(5, fit_seconds=30.0))
    assert run_time("means", "conll2000", tmp_path, "paper") == RunTime(5, 150.0, 0, 5)
    assert time_table(tmp_path, "paper")[0] == ("chunking, grids", "0", "–", "5", "at least 150")
    text = time_text(tmp_path, "paper")
    assert "the second reading at least 2 processor minutes" in text
    assert "the seconds of their last fit only: chunking, grids, second reading (0 of 5 timed)" in text
    assert "lower bound" in text


def test_cells_that_are_not_timed_are_estimated_from_those_of_their_sweep(tmp_path):
    timed, others = cells(2, fit_seconds=10.0, cpu_seconds=15.0), cells(4, fit_seconds=20.0)
    keep(tmp_path, "means", "conll2000", "crf", "PL2", timed + others)
    assert run_time("means", "conll2000", tmp_path, "paper") == RunTime(6, 30.0 + 1.5 * 80.0, 2)
    # Algorithm 1 fits many times: the last fit says nothing of its time.
    keep(tmp_path, "heuristic-means", "conll2000", "crf", "FL", timed + others)
    assert run_time("heuristic-means", "conll2000", tmp_path, "paper") == RunTime(6, 30.0 + 4 * 15.0, 2)
    assert time_table(tmp_path, "paper") == [
        ("chunking, grids", "0", "–", "6", "about 150"),
        ("chunking, Algorithm 1", "0", "–", "6", "about 90"),
        ("sum", "0", "–", "12", "about 240"),
    ]
    text = time_text(tmp_path, "paper")
    assert "the second reading about 4 processor minutes, which is about 2 minutes on 2 processors" in text
    assert (
        "chunking, grids, second reading (2 of 6 timed); chunking, Algorithm 1, second reading (2 of 6 timed)" in text
    )
    assert "lower bound" not in text


def test_a_table_keeps_what_single_cells_lack(tmp_path):
    records = [*cells(1, cpu_seconds=2.0), *cells(1, fit_seconds=1.0)]
    write_cells(tmp_path / "some.csv", records)
    assert read_cells(tmp_path / "some.csv") == records

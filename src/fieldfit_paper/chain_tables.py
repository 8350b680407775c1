"""Tables of the sweeps as claims and pictures need them: means over folds.

They come from the stores in the folder ``sweeps``, or from the cells that are kept of them (`kept_cells`). Where there are
neither but the table of means that was written beside a picture, that table is read: hours of fits need not be repeated to
judge a claim again. The first reading of this project's page is such a case.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any

from fieldfit_paper.chain_sweeps import averaged, records_of, store_path, with_least_seconds
from fieldfit_paper.claim_rows import Records
from fieldfit_paper.kept_cells import kept_path
from fieldfit_paper.tables import FORMULAS
from fieldfit_paper.win_win import differences, differences_of_means

GRID_AXES = ("sigma2", "lam", "beta")
_GRID = {"boltzmann-chain": ("figure-7", "figure-8", "figure-9"), "crf": ("figure-10", "figure-11", "figure-12")}


class SweepTables:
    """The tables of one scale, read when they are needed."""

    def __init__(self, out: Path | None, scale: str) -> None:
        self.out, self.scale = out, scale

    def grid(self, source: str, model: str, higher: str, reading: str = "sums") -> Records:
        """PL1/``higher``: means over folds at each (σ², λ, β), with the least seconds of cells that do the same work."""
        kind = "grid" if reading == "sums" else "means"
        if self._kept(kind, source, model, higher):
            if source == "sentiment":
                return [*self._read("figure-4", higher), *self._read("figure-5", higher)]
            if reading == "means":
                return self._read(f"{_GRID[model][0]}-means-pl1-{higher.lower()}")
            return self._read(_GRID[model][1], higher)
        records = with_least_seconds(records_of(kind, source, model, higher, self.scale, self.out))
        return averaged(records, GRID_AXES)

    def differences(self, source: str, model: str, higher: str, reading: str = "sums") -> Records:
        """Test NLL of each policy minus that of the higher-order family alone, with intervals over folds."""
        kind = "grid" if reading == "sums" else "means"
        if self._kept(kind, source, model, higher):
            if reading == "means":
                return differences_of_means(self.grid(source, model, higher, reading))
            rows = self._read("figure-14", higher)
            return [row for row in rows if (row["source"], row["model"]) == (source, model)]
        return differences(records_of(kind, source, model, higher, self.scale, self.out))

    def heuristic(self, source: str, model: str, higher: str, formula: str, reading: str = "sums") -> Records:
        """For each (σ², λ): values at the β of Algorithm 1 and at the β of the grid with the least train NLL."""
        kinds = ("grid", "heuristic") if reading == "sums" else ("means", "heuristic-means")
        if self._kept(kinds[1], source, model, higher):
            name = _GRID[model][2] if reading == "sums" else f"{_GRID[model][2]}-means"
            return [row for row in self._read(name, higher) if row["formula"] == formula]
        grid = records_of(kinds[0], source, model, higher, self.scale, self.out)
        # Where J is infinite for every β, Algorithm 1 has no answer, and the cell says so.
        heuristic = records_of(kinds[1], source, model, higher, self.scale, self.out, "IdentifiabilityError")
        return heuristic_pairs(grid, heuristic, formula)

    def interplay(self, higher: str) -> Records | None:
        """Cells over a wide range of σ², fold by fold; None where only the table of best σ² was kept."""
        if self._kept("interplay", "conll2000", "crf", higher):
            return None
        return records_of("interplay", "conll2000", "crf", higher, self.scale, self.out)

    def best_sigma2(self, higher: str) -> Records:
        """The kept table of best σ² by λ."""
        return self._read("figure-13", higher)

    def wide(self, higher: str) -> Records:
        """The CRF in the second reading over a range of σ² wider than that of the panels, fold by fold.

        Where only tables of means were kept, the means take the place of a single fold.
        """
        chosen = ("conll2000", "crf", higher)
        rows: Records = []
        for kind in ("means", "means-beside"):
            if not self._kept(kind, *chosen):
                rows += records_of(kind, *chosen, self.scale, self.out)
            elif kind == "means":
                rows += [row | {"fold": 0} for row in self.grid(*chosen, "means")]
        return rows

    def pure(self, model: str, higher: str, reading: str = "sums") -> Records:
        """One family alone over a wide range of σ², fold by fold; FL is the same in both readings."""
        kind = "pure" if reading == "sums" or higher == "FL" else "pure-means"
        return records_of(kind, "conll2000", model, higher, self.scale, self.out)

    def least_alone(self, model: str, higher: str, reading: str = "sums") -> dict[str, Any]:
        """The σ² of least mean test NLL of one family alone, with that NLL."""
        return best_cell(averaged(self.pure(model, higher, reading), ("sigma2",)), "test_nll")

    def second_order(self) -> Records:
        """FL alone by the CRFs of second order: means over folds by model and σ²."""
        return averaged(
            records_of("second-order", "conll2000", "crf", "FL", self.scale, self.out), ("model", "sigma2")
        )

    def _kept(self, kind: str, source: str, model: str, higher: str) -> bool:
        if self.out is None or self.scale != "paper":
            return False
        store = store_path(kind, source, model, higher, self.scale, self.out)
        there = store.exists() or kept_path(store).exists()
        return (Path(self.out) / "figure-14.csv").exists() and not there

    def _read(self, name: str, higher: str = "") -> Records:
        assert self.out is not None
        rows = read_table(Path(self.out) / f"{name}.csv")
        return [dict(row) for row in rows if not higher or row["policy"] == f"PL1/{higher}"]


@lru_cache(maxsize=16)
def read_table(path: Path) -> Records:
    """A table as `fieldfit_paper.tables.write_tables` writes it."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text)
    except ValueError:
        return text


def best_cell(rows: Records, value: str) -> dict[str, Any]:
    """The point of a grid with the least mean of ``value``."""
    return min(rows, key=lambda row: float(row[value]))


def at_sigma2(rows: Records, sigma2: float) -> Records:
    """The rows of one σ²."""
    return [row for row in rows if row["sigma2"] == sigma2]


def sigma2_of(rows: Records) -> list[float]:
    """The σ² of a table, in order."""
    return sorted({float(row["sigma2"]) for row in rows})


def heuristic_pairs(grid: Records, heuristic: Records, formula: str) -> Records:
    """For each (σ², λ): means at the heuristic's β and at the β of the grid with the least train NLL, on the same "
    "folds.
    """
    assert formula in FORMULAS
    chosen = [record for record in heuristic if record["formula"] == formula]
    folds = {record["fold"] for record in chosen}
    cells = averaged([record for record in grid if record["fold"] in folds], GRID_AXES)
    rows = []
    for cell in averaged(chosen, ("sigma2", "lam")):
        same = [c for c in cells if c["sigma2"] == cell["sigma2"] and c["lam"] == cell["lam"]]
        best = best_cell(same, "train_nll")
        rows.append(
            {
                "formula": formula,
                "sigma2": cell["sigma2"],
                "lam": cell["lam"],
                "heuristic_beta": cell["beta"],
                "best_beta": best["beta"],
                "heuristic_train_nll": cell["train_nll"],
                "best_train_nll": best["train_nll"],
                "heuristic_test_nll": cell["test_nll"],
                "best_test_nll": best["test_nll"],
                "least_test_nll": min(float(c["test_nll"]) for c in same),
            }
        )
    return rows

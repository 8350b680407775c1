"""Tables of the sweeps as claims and pictures need them: means over folds.

They come from the stores in the folder ``sweeps``, or from the cells that are kept of them (`kept_cells`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fieldfit.types import Plain
from fieldfit_paper.chain_sweeps import averaged, records_of, with_least_seconds
from fieldfit_paper.claim_rows import Records
from fieldfit_paper.tables import FORMULAS

GRID_AXES = ("sigma2", "lam", "beta")
LEVEL = 0.95  # of intervals over folds


class SweepTables:
    """The tables of one scale, read when they are needed."""

    def __init__(self, out: Path | None, scale: str) -> None:
        self.out, self.scale = out, scale

    def cells(self, kind: str, source: str, model: str, higher: str, expected: str = "") -> Records:
        """The cells of a sweep, fold by fold; those that failed with the error named ``expected`` are left out."""
        return records_of(kind, source, model, higher, self.scale, self.out, expected)

    def grid_cells(self, source: str, model: str, higher: str, reading: str = "sums") -> Records:
        """PL1/``higher`` at each (fold, σ², λ, β)."""
        return self.cells("grid" if reading == "sums" else "means", source, model, higher)

    def grid(self, source: str, model: str, higher: str, reading: str = "sums") -> Records:
        """PL1/``higher``: means over folds at each (σ², λ, β), with the least seconds of cells that do the same work."""
        return averaged(with_least_seconds(self.grid_cells(source, model, higher, reading)), GRID_AXES)

    def differences(self, source: str, model: str, higher: str, reading: str = "sums") -> Records:
        """Test NLL of each policy minus that of the higher-order family alone, with intervals over folds."""
        return differences(self.grid_cells(source, model, higher, reading))

    def heuristic(self, source: str, model: str, higher: str, formula: str, reading: str = "sums") -> Records:
        """For each (σ², λ): values at the β of Algorithm 1 and at the β of the grid with the least train NLL."""
        chosen = (source, model, higher)
        kind = "heuristic" if reading == "sums" else "heuristic-means"
        # Where J is infinite for every β, Algorithm 1 has no answer, and the cell says so.
        heuristic = self.cells(kind, *chosen, "IdentifiabilityError")
        return heuristic_pairs(self.grid_cells(*chosen, reading), heuristic, formula)

    def interplay(self, higher: str) -> Records:
        """The CRF over a wide range of σ² with β by Algorithm 1 (exact J), fold by fold."""
        kinds = ("heuristic", "interplay")
        rows = [row for kind in kinds for row in self.cells(kind, "conll2000", "crf", higher, "IdentifiabilityError")]
        return [row for row in rows if row["formula"] == "exact"]

    def wide(self, higher: str) -> Records:
        """The CRF in the second reading over a range of σ² wider than that of the panels, fold by fold."""
        return [row for kind in ("means", "means-beside") for row in self.cells(kind, "conll2000", "crf", higher)]

    def pure(self, model: str, higher: str, reading: str = "sums") -> Records:
        """One family alone over a wide range of σ², fold by fold; FL is the same in both readings."""
        return self.cells("pure" if reading == "sums" or higher == "FL" else "pure-means", "conll2000", model, higher)

    def least_alone(self, model: str, higher: str, reading: str = "sums") -> Plain:
        """The σ² of least mean test NLL of one family alone, with that NLL."""
        return best_cell(averaged(self.pure(model, higher, reading), ("sigma2",)), "test_nll")

    def second_order(self) -> Records:
        """FL alone by the CRFs of second order: means over folds by model and σ²."""
        return averaged(self.cells("second-order", "conll2000", "crf", "FL"), ("model", "sigma2"))


def best_cell(rows: Records, value: str) -> Plain:
    """The point of a grid with the least mean of ``value``."""
    return min(rows, key=lambda row: float(row[value]))


def at_sigma2(rows: Records, sigma2: float) -> Records:
    """The rows of one σ²."""
    return [row for row in rows if row["sigma2"] == sigma2]


def sigma2_of(rows: Records) -> list[float]:
    """The σ² of a table, in order."""
    return sorted({float(row["sigma2"]) for row in rows})


def differences(records: list[Plain]) -> list[Plain]:
    """Test NLL minus that of the higher-order family alone, paired by fold, with t intervals."""
    from scipy.stats import t

    rows = []
    for sigma2 in sorted({record["sigma2"] for record in records}):
        at_sigma2 = [record for record in records if record["sigma2"] == sigma2]
        top = {r["fold"]: r for r in at_sigma2 if r["lam"] == 1.0 and r["beta"] == 1.0}
        for lam, beta in sorted({(r["lam"], r["beta"]) for r in at_sigma2}):
            cells = [r for r in at_sigma2 if (r["lam"], r["beta"]) == (lam, beta)]
            away = np.array([r["test_nll"] - top[r["fold"]]["test_nll"] for r in cells])
            cost = float(np.mean([r["flops"] / top[r["fold"]]["flops"] for r in cells]))
            half = float("nan")
            if len(away) > 1:
                half = float(t.ppf((1 + LEVEL) / 2, len(away) - 1) * away.std(ddof=1) / np.sqrt(len(away)))
            win = cost < 1.0 and float(away.mean()) + half < 0
            rows.append(
                {
                    "sigma2": sigma2, "lam": lam, "beta": beta, "relative_flops": cost,
                    "difference": float(away.mean()), "half_interval": half, "win_win": bool(win), "folds": len(away),
                }
            )  # fmt: skip
    return rows


def heuristic_pairs(grid: Records, heuristic: Records, formula: str) -> Records:
    """For each (σ², λ): means at the heuristic's β and at the β of the grid with the least train NLL, on the same folds."""
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
                "folds": cell["folds"],
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

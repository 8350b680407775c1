"""The grids behind Figures 4 to 14, each a sweep in a store of its own that several figures share.

At the paper's scale a run can be stopped and resumed at any moment: the stores are in the folder ``sweeps`` beside the
pictures. The fold is the slowest axis, so that a worker reads and encodes it once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.sweep import Sweep, open_sweep, run_sweep
from fieldfit.types import FloatArray, Plain, SweepError
from fieldfit_paper.beta_heuristic import heuristic_cell
from fieldfit_paper.chain_data import need_data
from fieldfit_paper.chain_folds import UNSEEN
from fieldfit_paper.chunking import LOOSE_TOLERANCE, chain_row
from fieldfit_paper.kept_cells import kept_path, read_cells, write_cells
from fieldfit_paper.tables import check_scale

SEED = 2010
POLICIES = ("FL", "PL2")

#: σ² of the panels, by model and higher-order family (Figures 7 and 10).
SIGMA2 = {
    ("boltzmann-chain", "FL"): (500, 1000, 2500, 5000),
    ("boltzmann-chain", "PL2"): (5000, 10000, 12500, 15000),
    ("crf", "FL"): (5000, 10000, 12500, 15000),
    ("crf", "PL2"): (10000, 20000, 30000, 40000),
}
#: σ² of the λ–σ² interplay and of the pure policies (Figure 13).
WIDE_SIGMA2 = (50, 100, 250, 500, 1000, 2500, 5000, 10000, 20000, 40000)
#: σ² of the second reading's CRF beside those of the panels, so that the best one lies inside (Figure 13).
BESIDE_SIGMA2 = {"FL": (500, 1000, 2500, 25000, 50000, 100000), "PL2": (5000,)}
#: σ² of the sentiment experiments (Figures 4 and 5).
SENTIMENT_SIGMA2 = (0.5, 1, 10)


@dataclass(frozen=True)
class Scale:
    """How large the grids are."""

    lam: tuple[float, ...]
    beta: tuple[float, ...]  # from 0, with small steps below 0.1
    sentiment_beta: tuple[float, ...]  # of the sentiment set in the first reading, where the best β are large
    folds: int
    splits: dict[str, int]  # of the sentiment set, by reading
    n_train: int
    n_test: int | None
    n_documents: int  # of the sentiment set to train on, 0 for half of them
    jobs: int


_TENTHS = tuple(round(0.1 * k, 1) for k in range(1, 11))
SCALES = {
    "small": Scale(
        (0.1, 0.5, 1.0), (0.0, 0.05, 0.4, 1.0), (0.1, 0.4, 0.7, 1.0), 2, {"sums": 2, "means": 2}, 30, 150, 40, 1
    ),
    "paper": Scale(_TENTHS, (0.0, 0.02, 0.05, *_TENTHS), _TENTHS, 5, {"sums": 100, "means": 10}, 100, None, 0, 2),
}


def thinned(values: Sequence[float], scale: str) -> tuple[float, ...]:
    """All of them, or at the small scale the first and the last."""
    return tuple(values) if scale == "paper" or len(values) < 3 else (values[0], values[-1])


def grid_sweep(
    source: str, model: str, higher: str, scale: str, reading: str = "sums", *, beside: bool = False
) -> Sweep:
    """(fold, σ², λ) of PL1/``higher``; a cell has all β. ``beside``: for σ² outside the panels."""
    size = SCALES[check_scale(scale)]
    chosen: Sequence[float] = SENTIMENT_SIGMA2
    folds, n_train = size.splits[reading], size.n_documents
    if source != "sentiment":
        chosen = thinned(BESIDE_SIGMA2[higher] if beside else SIGMA2[model, higher], scale)
        folds, n_train = size.folds, size.n_train
    axes: dict[str, Sequence[str | int | float]] = {
        "fold": list(range(folds)),
        "sigma2": list(chosen),
        "lam": list(size.lam),
    }
    constants = _constants(source, model, higher, n_train, size) | {"reading": reading}
    coarse = source == "sentiment" and reading == "sums"
    constants["betas"] = list(size.sentiment_beta if coarse else size.beta)
    if source == "sentiment":
        constants["tolerance"] = LOOSE_TOLERANCE
    return Sweep(chain_row, axes, constants, SEED, name=f"{model} PL1/{higher}, {reading}")


def heuristic_sweep(source: str, model: str, higher: str, scale: str, reading: str = "sums") -> Sweep:
    """(fold, formula, σ², λ) of PL1/``higher`` with β by Algorithm 1."""
    size = SCALES[check_scale(scale)]
    axes: dict[str, Sequence[str | int | float]] = {
        "fold": list(range(size.folds)),
        "formula": ["published", "exact"],
        "sigma2": list(thinned(SIGMA2[model, higher], scale)),
        "lam": list(size.lam),
    }
    constants = _constants(source, model, higher, size.n_train, size) | {"reading": reading}
    return Sweep(heuristic_cell, axes, constants, SEED, name=f"{model} PL1/{higher}, β by Algorithm 1")


def interplay_sweep(source: str, model: str, higher: str, scale: str) -> Sweep:
    """(fold, formula, σ², λ) over a wide range of σ² beside those of the panels, with β by Algorithm 1 (Figure 13)."""
    size = SCALES[check_scale(scale)]
    sigma2 = WIDE_SIGMA2 if scale == "paper" else WIDE_SIGMA2[1::4]
    of_panels = thinned(SIGMA2[model, higher], scale)
    axes: dict[str, Sequence[str | int | float]] = {
        "fold": list(range(size.folds)),
        "formula": ["exact"],
        "sigma2": [value for value in sigma2 if value not in of_panels],
        "lam": list(size.lam),
    }
    constants = _constants(source, model, higher, size.n_train, size)
    return Sweep(heuristic_cell, axes, constants, SEED, name=f"{model} PL1/{higher}, λ and σ²")


def pure_sweep(source: str, model: str, higher: str, scale: str, reading: str = "sums") -> Sweep:
    """(fold, σ²) of one family alone, everything selected; FL is the same in both readings."""
    size = SCALES[check_scale(scale)]
    # As printed, the penalty belongs to the sum: 500 and 5000 are then n times as much for the mean.
    more = {500.0 * size.n_train, 5000.0 * size.n_train} if reading == "sums" else {80000.0}
    axes: dict[str, Sequence[str | int | float]] = {
        "fold": list(range(size.folds)),
        "sigma2": sorted({*map(float, WIDE_SIGMA2), *more}),
    }
    constants = _constants(source, model, higher, size.n_train, size) | _alone(reading)
    return Sweep(chain_row, axes, constants, SEED, name=f"{model} {higher} alone, {reading}")


def second_order_sweep(source: str, model: str, higher: str, scale: str) -> Sweep:
    """(fold, model, σ²) of ``higher`` alone, by CRFs with the label triples that occur as transitions."""
    size = SCALES[check_scale(scale)]
    axes: dict[str, Sequence[str | int | float]] = {
        "fold": list(range(size.folds)),
        "model": list(UNSEEN),
        "sigma2": [500.0],  # the paper's best for FL alone
    }
    constants = _constants(source, model, higher, size.n_train, size) | _alone("sums")
    del constants["model"]
    return Sweep(chain_row, axes, constants, SEED, name=f"{model} of second order, {higher} alone")


def _alone(reading: str) -> Plain:
    return {"reading": reading, "lam": 1.0, "betas": [1.0]}


def _constants(source: str, model: str, higher: str, n_train: int, size: Scale) -> Plain:
    return {
        "source": source,
        "model": model,
        "higher": higher,
        "n_train": n_train,
        "n_test": None if source == "sentiment" else size.n_test,
        "data_seed": SEED,
        # The paper's σ² fits a penalty on the mean for chunking; for the sentiment set it is as printed.
        "regulariser": "sum" if source == "sentiment" else "mean",
    }


KINDS: dict[str, Callable[[str, str, str, str], Sweep]] = {
    "grid": grid_sweep,
    "means": partial(grid_sweep, reading="means"),
    "means-beside": partial(grid_sweep, reading="means", beside=True),
    "heuristic": heuristic_sweep,
    "heuristic-means": partial(heuristic_sweep, reading="means"),
    "interplay": interplay_sweep,
    "pure": pure_sweep,
    "pure-means": partial(pure_sweep, reading="means"),
    "second-order": second_order_sweep,
}


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Stores of a process that writes no files; removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="fieldfit-sweeps-")


def store_path(kind: str, source: str, model: str, higher: str, scale: str, out: Path | None) -> Path:
    """Where the cells of a sweep are kept."""
    folder = Path(_scratch().name) if out is None else Path(out) / "sweeps"
    return folder / f"{kind}-{source}-{model}-{higher}-{scale}.sweep"


def records_of(
    kind: str, source: str, model: str, higher: str, scale: str, out: Path | None, expected: str = ""
) -> list[Plain]:
    """The finished cells of a sweep, which is run (or resumed) first where cells are missing.

    At the paper's scale they are kept as a table too, which is read where there is no store. Cells that failed with the
    error named ``expected`` are left out; any other failure is raised.
    """
    path = store_path(kind, source, model, higher, scale, out)
    if scale == "paper" and kept_path(path).exists() and not path.exists():
        return read_cells(kept_path(path))
    need_data(source)  # once, and not as an error of every cell
    sweep: Sweep = KINDS[kind](source, model, higher, scale)
    path.parent.mkdir(parents=True, exist_ok=True)
    jobs = SCALES[scale].jobs
    summary = run_sweep(sweep, path, n_jobs=jobs, progress=scale == "paper")
    if summary.interrupted:
        raise KeyboardInterrupt
    failed = [str(cell["cell_error"]).strip().splitlines()[-1] for cell in _stored(path, "failed")]
    for last in failed:
        if not expected or f"{expected}:" not in last:
            raise SweepError(f"{len(failed)} cells of {path} failed, one with: {last}")
    rows = finished_cells(path)
    if scale == "paper" and out is not None:
        write_cells(kept_path(path), rows)
    return rows


def finished_cells(path: Path) -> list[Plain]:
    """The cells that a store has so far, or those that are kept of it; nothing is computed."""
    if not path.exists():
        return read_cells(kept_path(path)) if kept_path(path).exists() else []
    done = _stored(path, "done")
    cells = [{name: value for name, value in cell.items() if not name.startswith("cell_")} for cell in done]
    return [row for cell in cells for row in by_beta(cell)]


def _stored(path: Path, status: str) -> list[Plain]:
    """The cells of a store with one status."""
    records = open_sweep(path).frame().to_dict("records")
    return [{str(name): value for name, value in r.items()} for r in records if r["cell_status"] == status]


def by_beta(cell: Plain) -> list[Plain]:
    """A cell with all β as one record for each; any other cell as it is."""
    if not isinstance(cell.get("beta"), list):
        return [cell]
    several = {name: value for name, value in cell.items() if isinstance(value, list)}
    return [cell | {name: value[k] for name, value in several.items()} for k in range(len(cell["beta"]))]


def mean_over_folds(records: list[Plain], axes: Sequence[str], value: str) -> tuple[list[FloatArray], FloatArray]:
    """The values of each axis, and the means of ``value`` over everything else as an array over the axes."""
    ends = [np.unique([record[axis] for record in records]) for axis in axes]
    total, count = np.zeros([len(end) for end in ends]), np.zeros([len(end) for end in ends])
    places = [
        np.searchsorted(end, [record[axis] for record in records]) for axis, end in zip(axes, ends, strict=True)
    ]
    np.add.at(total, tuple(places), [record[value] for record in records])
    np.add.at(count, tuple(places), 1)
    return [np.asarray(end, dtype=np.float64) for end in ends], total / np.maximum(count, 1)


def with_least_seconds(records: list[Plain]) -> list[Plain]:
    """The records with the least ``evaluation_seconds`` of all cells that do the same work.

    Neither σ² nor the value of β changes what an evaluation does: cells of one fold with the same FLOPs differ by noise.
    """
    least: dict[tuple[object, object], float] = {}
    for record in records:
        key = (record["fold"], record["flops"])
        least[key] = min(least.get(key, np.inf), float(record["evaluation_seconds"]))
    return [record | {"evaluation_seconds": least[record["fold"], record["flops"]]} for record in records]


def averaged(records: list[Plain], axes: Sequence[str]) -> list[Plain]:
    """One record for each point of the axes: means over the folds, and standard errors of the NLLs."""
    values = ("train_nll", "test_nll", "flops", "evaluation_seconds", "fit_seconds")
    groups: dict[tuple[Any, ...], list[Plain]] = {}
    for record in records:
        groups.setdefault(tuple(record[axis] for axis in axes), []).append(record)
    result = []
    for key, group in sorted(groups.items()):
        row: Plain = dict(zip(axes, key, strict=True))
        for value in values:
            if value in group[0]:  # tables of cells may have NLLs only
                row[value] = float(np.mean([record[value] for record in group]))
        if "beta" in group[0] and "beta" not in axes:
            row["beta"] = float(np.mean([record["beta"] for record in group]))
        for value in ("train_nll", "test_nll"):
            spread = float(np.std([record[value] for record in group], ddof=1)) if len(group) > 1 else float("nan")
            row[f"{value}_error"] = spread / float(np.sqrt(len(group)))
        row["folds"] = len(group)
        result.append(row)
    return result

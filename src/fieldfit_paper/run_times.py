"""How long the sweeps of a folder took: processor seconds that each cell stored, summed by experiment and reading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fieldfit.types import Plain
from fieldfit_paper.chain_sweeps import POLICIES, finished_cells, store_path
from fieldfit_paper.claim_rows import MODEL_NAMES

#: What the sweeps of an experiment are: a name, and (kind, source) in the first and in the second reading.
EXPERIMENTS: dict[str, tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]] = {
    "sentiment set, grids": ((("grid", "sentiment"),), (("means", "sentiment"),)),
    "chunking, grids": ((("grid", "conll2000"),), (("means", "conll2000"),)),
    "chunking, Algorithm 1": ((("heuristic", "conll2000"),), (("heuristic-means", "conll2000"),)),
    "chunking, λ and σ²": ((("interplay", "conll2000"),), (("means-beside", "conll2000"),)),
    "chunking, families alone": ((("pure", "conll2000"),), (("pure-means", "conll2000"),)),
    "chunking, second order": ((), (("second-order", "conll2000"),)),
}
#: Sweeps whose cells do much more than their last fit.
ALGORITHM_1 = ("heuristic", "heuristic-means", "interplay")
LIMIT = 90.0  # minutes that a reading may take on two processors
PROCESSORS = 2
PAPER_SPLITS = 100
COLUMNS = ("sweeps", "first reading: fits", "processor seconds", "second reading: fits", "processor seconds")


@dataclass(frozen=True)
class RunTime:
    """Fits of some sweeps and their processor seconds.

    ``timed`` of them stored the time of all that they do. ``seconds`` has an estimate for the others, or, for the
    ``fits_only`` of them whose sweep has no timed cell, the seconds of their (last) fit.
    """

    fits: int = 0
    seconds: float = 0.0
    timed: int = 0
    fits_only: int = 0

    def __add__(self, other: RunTime) -> RunTime:
        return RunTime(
            self.fits + other.fits,
            self.seconds + other.seconds,
            self.timed + other.timed,
            self.fits_only + other.fits_only,
        )

    @property
    def prefix(self) -> str:
        """What must be said before the seconds."""
        return "at least " if self.fits_only else "about " if self.timed < self.fits else ""

    def __str__(self) -> str:
        return f"{self.prefix}{self.seconds:,.0f}" if self.fits else "–"


def of_cells(kind: str, cells: list[Plain]) -> RunTime:
    """The time of the cells of one sweep; those that are not timed take what the timed ones of the sweep did.

    That is the same multiple of their fit's seconds, or for Algorithm 1, which fits many times, the same seconds a cell.
    """
    timed = [cell for cell in cells if "cpu_seconds" in cell]
    others = [float(cell["fit_seconds"]) for cell in cells if "cpu_seconds" not in cell]
    stored = sum(float(cell["cpu_seconds"]) for cell in timed)
    if not others or not timed:
        return RunTime(len(cells), stored + sum(others), len(timed), len(others))
    if kind in ALGORITHM_1:
        estimate = len(others) * stored / len(timed)
    else:
        estimate = sum(others) * stored / sum(float(cell["fit_seconds"]) for cell in timed)
    return RunTime(len(cells), stored + estimate, len(timed))


def run_time(kind: str, source: str, folder: Path, scale: str) -> RunTime:
    """The time of all finished cells of a kind of sweep."""
    return sum(
        (
            of_cells(kind, finished_cells(store_path(kind, source, model, higher, scale, folder)))
            for model in MODEL_NAMES
            for higher in POLICIES
        ),
        RunTime(),
    )


def _by_reading(folder: Path, scale: str) -> dict[str, list[RunTime]]:
    """For each experiment with cells the times of both readings."""
    times = {
        name: [sum((run_time(*sweep, folder, scale) for sweep in sweeps), RunTime()) for sweeps in readings]
        for name, readings in EXPERIMENTS.items()
    }
    return {name: both for name, both in times.items() if any(time.fits for time in both)}


def _sums(times: dict[str, list[RunTime]]) -> list[RunTime]:
    return [sum((both[reading] for both in times.values()), RunTime()) for reading in (0, 1)]


def time_table(folder: Path, scale: str) -> list[tuple[str, ...]]:
    """A row for each experiment and one for the sums; none if the folder has no cells."""
    times = _by_reading(folder, scale)
    listed = times | {"sum": _sums(times)} if times else {}
    return [(name, *(text for t in both for text in (f"{t.fits:,}", str(t)))) for name, both in listed.items()]


def time_text(folder: Path, scale: str) -> str:
    """The sums in minutes against the limit, which of them are estimated, and what 100 splits take; "" without cells."""
    times = _by_reading(folder, scale)
    if not times:
        return ""
    sums = _sums(times)
    texts = [
        f"the {name} reading {whole.prefix}{whole.seconds / 60:.0f} processor minutes, which is {whole.prefix}"
        f"{whole.seconds / 60 / PROCESSORS:.0f} minutes on {PROCESSORS} processors"
        for name, whole in zip(("first", "second"), sums, strict=True)
    ]
    text = f"Run times, as the cells stored them: {' and '.join(texts)} (our limit for each is {LIMIT:.0f} minutes)."
    return text + _untimed_text(times) + _splits_text(folder, scale)


def _untimed_text(times: dict[str, list[RunTime]]) -> str:
    """Which sweeps have cells that stored the seconds of their last fit only; "" if there are none."""
    listed = [
        f"{name}, {reading} reading ({time.timed:,} of {time.fits:,} timed)"
        for name, both in times.items()
        for reading, time in zip(("first", "second"), both, strict=True)
        if time.timed < time.fits
    ]
    if not listed:
        return ""
    text = (
        " Some cells were computed before cells stored the time of all that they do, and have the seconds of their last "
        f"fit only: {'; '.join(listed)}. Their time is estimated from the timed cells of the same sweep: the same multiple "
        "of the fit's seconds, or for Algorithm 1 the same seconds a cell ('about')."
    )
    if any(time.fits_only for both in times.values() for time in both):
        text += " Where a sweep has no timed cell, the seconds of the fits are a lower bound ('at least')."
    return text


def _splits_text(folder: Path, scale: str) -> str:
    """What the paper's number of splits would take in the readings that have fewer; "" if none has."""
    texts = []
    for kind, reading in (("grid", "first"), ("means", "second")):
        cells = finished_cells(store_path(kind, "sentiment", "crf", POLICIES[0], scale, folder))
        splits = len({cell["fold"] for cell in cells})
        if scale != "paper" or not 0 < splits < PAPER_SPLITS:
            continue
        time = run_time(kind, "sentiment", folder, scale)
        each = time.seconds / splits
        texts.append(
            f" The {reading} reading of the sentiment set has {splits} splits, not the paper's {PAPER_SPLITS}: a split of "
            f"{time.fits // splits} fits took {each:.0f} processor seconds, so {PAPER_SPLITS} would take "
            f"{PAPER_SPLITS * each / 60:.0f} processor minutes, which would fit into the limit but have not been run."
        )
    return "".join(texts)

"""How long the sweeps of a folder took: processor seconds that each cell stored, summed by experiment and reading."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fieldfit_paper.chain_sweeps import POLICIES, finished_cells, store_path
from fieldfit_paper.claim_rows import MODEL_NAMES

#: What the sweeps of an experiment are: a name, and (kind, source) in the first and in the second reading.
EXPERIMENTS: dict[str, tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]] = {
    "sentiment set, grids": ((("grid", "sentiment"),), ()),
    "chunking, grids": ((("grid", "conll2000"),), (("means", "conll2000"),)),
    "chunking, Algorithm 1": ((("heuristic", "conll2000"),), (("heuristic-means", "conll2000"),)),
    "chunking, λ and σ²": ((("interplay", "conll2000"),), (("means-beside", "conll2000"),)),
    "chunking, families alone": ((("pure", "conll2000"),), (("pure-means", "conll2000"),)),
    "chunking, second order": ((), (("second-order", "conll2000"),)),
}
ALGORITHM_1 = ("heuristic", "heuristic-means", "interplay")
LIMIT = 90.0  # minutes that a reading may take on two processors
PROCESSORS = 2
PAPER_SPLITS = 100
COLUMNS = ("sweeps", "first reading: fits", "processor seconds", "second reading: fits", "processor seconds")


@dataclass(frozen=True)
class RunTime:
    """Fits of some sweeps and their processor seconds; ``fits_only`` of them stored those of the (last) fit alone."""

    fits: int = 0
    seconds: float = 0.0
    fits_only: int = 0

    def __add__(self, other: RunTime) -> RunTime:
        return RunTime(self.fits + other.fits, self.seconds + other.seconds, self.fits_only + other.fits_only)

    def __str__(self) -> str:
        if not self.fits:
            return "–"
        return f"{'at least ' if self.fits_only else ''}{self.seconds:,.0f}"


def run_time(kind: str, source: str, folder: Path, scale: str) -> RunTime:
    """The time of all finished cells of a kind of sweep."""
    total = RunTime()
    for model in MODEL_NAMES:
        for higher in POLICIES:
            cells = finished_cells(store_path(kind, source, model, higher, scale, folder))
            timed = [float(cell["cpu_seconds"]) for cell in cells if "cpu_seconds" in cell]
            others = [float(cell["fit_seconds"]) for cell in cells if "cpu_seconds" not in cell]
            total += RunTime(len(cells), sum(timed) + sum(others), len(others))
    return total


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
    """The sums in minutes against the limit, and what 100 splits of the sentiment set would take; "" without cells."""
    times = _by_reading(folder, scale)
    if not times:
        return ""
    texts = []
    sums = _sums(times)
    for name, whole in zip(("first", "second"), sums, strict=True):
        least = "at least " if whole.fits_only else ""
        texts.append(
            f"the {name} reading {least}{whole.seconds / 60:.0f} processor minutes, which is {least}"
            f"{whole.seconds / 60 / PROCESSORS:.0f} minutes on {PROCESSORS} processors"
        )
    text = f"Run times, as the cells stored them: {' and '.join(texts)} (our limit for each is {LIMIT:.0f} minutes)."
    if any(whole.fits_only for whole in sums):
        text += (
            " 'At least': some cells were computed before cells stored the time of all that they do; of these the sum has "
            "the seconds of the last fit only, without the rounds of Algorithm 1 and the NLLs."
        ) + _untimed_text(folder, scale)
    return text + _splits_text(run_time("grid", "sentiment", folder, scale), _splits(folder, scale), scale)


def _untimed_text(folder: Path, scale: str) -> str:
    """What cells of Algorithm 1 that are not timed would take, by the mean of those that are; "" if there are none."""
    cells = [
        cell
        for kind in ALGORITHM_1
        for model in MODEL_NAMES
        for higher in POLICIES
        for cell in finished_cells(store_path(kind, "conll2000", model, higher, scale, folder))
    ]
    timed = [float(cell["cpu_seconds"]) for cell in cells if "cpu_seconds" in cell]
    if not timed or len(timed) == len(cells):
        return ""
    each, others = sum(timed) / len(timed), len(cells) - len(timed)
    text = (
        f" The {len(timed):,} cells of Algorithm 1 that are timed took {each:.2f} processor seconds each; at that rate the "
        f"other {others:,} take {each * others / 60:.0f} minutes."
    )
    grids = [
        cell
        for kind, source in (("grid", "sentiment"), ("means-beside", "conll2000"))
        for higher in POLICIES
        for cell in finished_cells(store_path(kind, source, "crf", higher, scale, folder))
        if "cpu_seconds" in cell
    ]
    fits = sum(float(cell["fit_seconds"]) for cell in grids)
    if fits > 0:
        share = sum(float(cell["cpu_seconds"]) for cell in grids) / fits
        text += f" Cells of grids that are timed took {share:.2f} times the seconds of their fits."
    return text


def _splits(folder: Path, scale: str) -> int:
    cells = finished_cells(store_path("grid", "sentiment", "crf", POLICIES[0], scale, folder))
    return len({cell["fold"] for cell in cells})


def _splits_text(time: RunTime, splits: int, scale: str) -> str:
    if not splits or scale != "paper":
        return ""
    each = time.seconds / splits
    return (
        f" The sentiment set has {splits} splits, not the paper's {PAPER_SPLITS}: a split of {time.fits // splits} fits "
        f"took {each:.0f} processor seconds, so {PAPER_SPLITS} would take {PAPER_SPLITS * each / 60:.0f} processor "
        "minutes, which would fit into the limit but have not been run."
    )

"""Random work for a long time: python -m tests.soak [--minutes 60] [--seed 0] [--report FILE] [--page FILE].

Fits, refinements, plans, saves and loads, Ctrl-C, checkpoints, forks, threads, taggers, sums over shards and damaged
files follow each other at random. Each action compares its result with what it must be, mostly bit by bit. The memory of
the process is measured after each action: resident pages, those in the heaps of the C library, the arenas of Python's
allocator, bytes that C code has allocated and not freed, bytes that are free in the C library, and blocks that Python's
allocator has given out and not got back. Exits with 1 if an action failed.

The GNU C library keeps freed memory. Its limits grow with the largest block that was ever freed, up to 64 MB for each
arena, and each thread may have an arena. This command fixes the limits (``THRESHOLD``), so that resident memory shows
memory in use. With ``--usual-limits`` they grow as in any other process.
"""

import argparse
import array
import contextlib
import ctypes
import gc
import itertools
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import fieldfit as ff
from tests.fuzz.targets import SEEDS, delimited, run_case, saved_fit
from tests.soak_page import write_page

POLICIES = ["PL1", "PL1 + 0.3*PL2", "PL2", "Partition(2)", "0.5*PL1", "Multinomial(0.6*PL1 + 0.4*PL2)"]
SENTENCES = [[f"w{(3 * i + j) % 17}" for j in range(2 + i % 5)] for i in range(40)]
TAGS = [[("A", "B", "C")[int(word[1:]) % 3] for word in sentence] for sentence in SENTENCES]


class Problem:
    """A random model with samples and options, always small."""

    def __init__(self, source):
        m = source.randint(3, 8)
        self.model = ff.Potts(m, 3) if source.random() < 0.3 else ff.BoltzmannMachine(m, biases=source.random() < 0.5)
        theta = np.random.default_rng(source.getrandbits(32)).normal(0, 0.4, self.model.n_parameters)
        self.values = self.model.sample(theta, source.randint(50, 3000), random_state=source.getrandbits(32)).values
        self.policy = source.choice(POLICIES)
        self.options = {"sigma2": source.choice([1.0, 10.0]), "random_state": source.getrandbits(16)}

    def fit(self, **more):
        return ff.fit(self.model, self.values, self.policy, **self.options, **more)


def same(first, second):
    assert first.theta.tobytes() == second.theta.tobytes(), "the estimates differ"


def errors_are_known(fit, values):
    """Standard errors are finite, but for parameters of two states that never occur together."""
    columns = [(values[:, [j]] == np.unique(values)).astype(float) for j in range(values.shape[1])]
    together = [left.T @ right for j, left in enumerate(columns) for right in columns[:j]]
    assert np.isfinite(fit.standard_errors()).all() or min(counts.min() for counts in together) == 0


def fits(source, folder):
    problem = Problem(source)
    with ff.use_threads(source.randint(1, 3)):
        fit = problem.fit()
    assert fit.converged
    same(fit, problem.fit())
    errors_are_known(fit, problem.values)
    str(fit.summary())


def shards(source, folder):
    problem, count = Problem(source), source.randint(1, 9)
    # At the usual tolerance, directions that only sigma2 determines differ by more.
    fit = problem.fit(shards=count, tol=1e-9)
    same(fit, problem.fit(shards=count, tol=1e-9))
    assert np.allclose(fit.theta, problem.fit(tol=1e-9).theta, atol=1e-3)


def refinements(source, folder):
    problem = Problem(source)
    estimator = source.choice(["PL1 >> optimal", "PL1 >> FL", "PL1 >> 0.5*FL"])
    fit = ff.fit(problem.model, problem.values, estimator, **problem.options)
    same(fit, ff.fit(problem.model, problem.values, estimator, **problem.options))
    errors_are_known(fit, problem.values)


def plans(source, folder):
    problem = Problem(source)
    chosen = ff.plan(problem.model, problem.values, policies=["PL1", "PL2", "PL1 + 0.3*PL2"], sigma2=1.0)
    str(chosen)


def saves(source, folder):
    fit = Problem(source).fit()
    fit.save(folder / "fit.ff")
    loaded = ff.load(folder / "fit.ff")
    same(fit, loaded)
    assert loaded.standard_errors().tobytes() == fit.standard_errors().tobytes()


def ring(number, frame):
    """The handler of the alarm."""
    _rung.append(number)
    raise KeyboardInterrupt


_rung: list[int] = []


@contextlib.contextmanager
def interrupted(seconds):
    """Ctrl-C after some time, as from a terminal. On a busy machine it may come before or after the block: see `main`."""
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupts(source, folder):
    problem = Problem(source)
    whole = problem.fit(tol=1e-10)
    with interrupted(source.uniform(0.0005, 0.02)):
        fit = problem.fit(tol=1e-10)
        assert np.isfinite(fit.theta).all()
        assert fit.converged or fit.interrupted
    same(whole, problem.fit(tol=1e-10))


def checkpoints(source, folder):
    problem, path = Problem(source), folder / "state"
    path.unlink(missing_ok=True)
    problem.policy = source.choice([problem.policy, "PL1 >> FL", "PL1 >> optimal"])
    whole = problem.fit(tol=1e-9, method="lbfgs")
    with interrupted(source.uniform(0.0005, 0.02)):
        problem.fit(tol=1e-9, method="lbfgs", checkpoint=ff.Checkpoint(path, every=0.0))
    same(whole, problem.fit(tol=1e-9, method="lbfgs", checkpoint=ff.Checkpoint(path, resume=True)))


def forks(source, folder):
    problem = Problem(source)
    whole = problem.fit()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if problem.fit().theta.tobytes() == whole.theta.tobytes() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the fit in a forked process failed"


def threads(source, folder):
    problem = Problem(source)
    whole, found = problem.fit(), []
    workers = [threading.Thread(target=lambda: found.append(problem.fit().theta.tobytes())) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [whole.theta.tobytes()] * 4, "threads of Python disagree"


def taggers(source, folder):
    tagger = ff.CRFTagger(source.choice(["PL1", "FL", "PL1 + 0.5*PL2"]), sigma2=1.0).fit(SENTENCES, TAGS)
    tagger.save(folder / "tagger.ff")
    assert ff.CRFTagger.load(folder / "tagger.ff").predict(SENTENCES) == tagger.predict(SENTENCES)


def files(source, folder):
    target = source.choice([saved_fit, delimited])
    seeds = _seeds.setdefault(target, None) or SEEDS[target]()
    _seeds[target] = seeds
    for _ in range(20):
        run_case(target, seeds, source.getrandbits(40))


_seeds: dict[Any, Any] = {}
ACTIONS = [fits, fits, shards, refinements, plans, saves, interrupts, checkpoints, forks, threads, taggers, files]


class _Allocations(ctypes.Structure):
    """What ``mallinfo2`` of the GNU C library returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


#: What is measured after each action.
MEASURES = (
    "resident_mb", "resident_without_files_mb", "heaps_mb", "arenas_mb", "allocated_mb", "free_mb", "python_blocks",
)  # fmt: skip
#: Largest size and alignment of a heap that the C library makes for a thread.
HEAP = 64 * 2**20
#: Bytes of free memory that an arena may keep, and of the smallest block with pages of its own: the first limits.
THRESHOLD = 128 * 1024
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Steps of resident memory that are reported, in megabytes.
STEP = 20.0


def fix_limits():
    """Keep the C library from raising its limits for free memory."""
    library = ctypes.CDLL("libc.so.6")
    for limit in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
        assert library.mallopt(limit, THRESHOLD) == 1


def resident_heaps():
    """Resident megabytes of the C library's heaps: the first one, and the start of aligned areas, one for each thread."""
    areas: list[Any] = []  # start, end, access, name, resident kilobytes
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            areas.append([start, end, rest[0], rest[4] if len(rest) > 4 else "", 0])
        elif first == "Rss:":
            areas[-1][4] = int(rest[0])
    total = 0
    for (start, end, access, name, resident), (following, last, reserved, *_) in itertools.pairwise(areas):
        whole = end - start == HEAP or (following == end and reserved == "---p" and last - start == HEAP)
        if name == "[heap]" or (not name and access == "rw-p" and start % HEAP == 0 and whole):
            total += resident
    return total / 1024


def python_arenas():
    """Megabytes of the arenas of Python's allocator, which prints their number (and their size) to the standard error."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            sys._debugmallocstats()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        number, size = re.search(r"(\d+) arenas \* (\d+) bytes/arena", file.read().decode()).groups()
    return int(number) * int(size) / 2**20


def memory():
    """MEASURES, most in megabytes."""
    gc.collect()
    sys._clear_type_cache()  # up to 4,096 names of attributes that C code has asked for
    library = ctypes.CDLL("libc.so.6")
    library.malloc_trim(0)
    library.mallinfo2.restype = _Allocations
    info = library.mallinfo2()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    resident, files = (int(status[name].split()[0]) / 1024 for name in ("VmRSS", "RssFile"))
    allocated, free = (info.uordblks + info.hblkhd) / 2**20, info.fordblks / 2**20  # of all arenas
    return resident, resident - files, resident_heaps(), python_arenas(), allocated, free, sys.getallocatedblocks()


def steps(names, used):
    """The actions that made resident memory more than STEP larger, after the first of each, with what changed."""
    resident, _, _, _, allocated, free, _ = used
    rises = np.diff(resident)
    return [
        {
            "action": int(number) + 1,
            "name": names[number + 1],
            **{
                name: round(float(values[number + 1] - values[number]), 1)
                for name, values in (("resident_mb", resident), ("allocated_mb", allocated), ("free_mb", free))
            },
        }
        for number in np.flatnonzero(rises > STEP)
        if number + 1 >= len(ACTIONS)
    ]


def course(at, used):
    """Medians over tenths of the run, and the slope for an hour over its second half with its standard error."""
    parts = [round(float(np.median(part)), 1) for part in np.array_split(used, 10)]
    half = len(at) // 2
    if half < 20:
        return {"tenths": parts, "most": round(float(used.max()), 1)}
    hours, late = at[half:] / 3600, used[half:]
    pairs = zip(np.array_split(hours, 20), np.array_split(late, 20), strict=True)
    blocks = np.array([(h.mean(), u.mean()) for h, u in pairs]).T
    times, sizes = blocks
    (slope, _), covariance = np.polyfit(times, sizes, 1, cov=True)
    return {
        "tenths": parts,
        "most": round(float(used.max()), 1),
        "slope_per_hour": [round(float(slope), 2), round(float(covariance[0, 0] ** 0.5), 2)],
    }


def rows(trace):
    """A row for each action: seconds and MEASURES."""
    return np.array(trace).reshape(-1, 1 + len(MEASURES))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="JSON file for the report")
    parser.add_argument("--trace", type=Path, help="NumPy file for the time and the memory after each action")
    parser.add_argument("--page", type=Path, help="page for the report, between its marks, as docs/scaling.md")
    parser.add_argument("--of", type=Path, help="write the page from this report, without a run")
    parser.add_argument(
        "--usual-limits", action="store_true", help="let the C library raise its limits for free memory"
    )
    parser.add_argument("--commit", default="unknown", help="commit of the code that ran, for the page")
    options = parser.parse_args()
    if options.of is not None:
        write_page(options.page, json.loads(options.of.read_text()), options.commit)
        return 0
    warnings.simplefilter("ignore")
    began, number, failures = time.monotonic(), 0, []
    names: list[str] = []
    trace = array.array("d")  # Python's allocator has no part in it
    if not options.usual_limits:
        fix_limits()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - began < 60 * options.minutes:
            source = random.Random(f"{options.seed} {number}")
            action = source.choice(ACTIONS)
            if number < len(ACTIONS):
                action = ACTIONS[number]  # one of each first, with all that they import
            try:
                action(source, Path(folder))
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                if not _rung:
                    raise  # from the terminal
            except Exception as error:
                failures.append(f"action {number} ({action.__name__}): {type(error).__name__}: {error}")
                print(failures[-1], file=sys.stderr)
                traceback.print_exc(limit=-3)
            _rung.clear()
            names.append(action.__name__)
            number += 1
            trace.extend((time.monotonic() - began, *memory()))
            if options.trace and number % 50 == 0:
                np.save(options.trace, rows(trace))
    at, *used = rows(trace).T
    report = {
        "minutes": round((time.monotonic() - began) / 60, 1),
        "processor_minutes": round(time.process_time() / 60, 1),
        "actions": number,
        "by_action": dict(Counter(names)),
        "limits": "usual" if options.usual_limits else "fixed",
        "failures": failures,
        "steps": steps(names, used),
        **{name: course(at, values) for name, values in zip(MEASURES, used, strict=True)},
    }
    print(json.dumps(report, indent=1))
    if options.report:
        options.report.write_text(json.dumps(report, indent=1) + "\n")
    if options.page:
        write_page(options.page, report, options.commit)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

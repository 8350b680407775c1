"""Run the benchmarks one after the other, compare them with the page and write what they print to docs/benchmarks.md.

    python benchmarks/write_page.py [--keep] [--quick] [--recorded FILE] [name ...]

Names as below; others keep their last output. `--quick` runs a few short ones; with `--keep` the page stays as it is. After
each script its ratios (numbers after "ratio", or before "times") stand beside those of the page; one whose best run has
fallen to less than 0.8 of what it was is marked, so that a slow-down is seen. Short scripts run several times, and the page
has the spread of their ratios; the others repeat what they compare by themselves, or take minutes. `--recorded FILE` takes
what one script has printed earlier in place of running it. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"


class Section(NamedTuple):
    """A block of the page: what it is called, what prints it, and what to know when reading it."""

    title: str
    command: list[str]
    note: str = ""
    runs: int = 1


RUNS = {
    "inference": Section("Exact inference against pyAgrum", ["inference.py"], runs=3),
    "grids": Section("Exact sums over large grids", ["grids.py"]),
    "pairwise": Section(
        "Pairwise fields against matrix products and scikit-learn",
        ["pairwise.py", "a", "b", "c", "digits", "small"],
        runs=3,
    ),
    "potts": Section(
        "Potts fields against sparse products, and fits on correlated images",
        ["potts.py"],
        """An evaluation adds n m (m-1) rows of couplings and scatters as many rows of residuals. The limit counts their
vectors only: two loads in a cycle for a row that is added, one store in a cycle for a row that is scattered. The cycles
in a second are those that a matrix product in the same run needs at least. Exponentials are not in the limit.""",
    ),
    "chains": Section("One evaluation of a chain", ["chains.py"]),
    "labels": Section(
        "One FL evaluation against labels and tokens, compared with the machine's limit",
        ["label_counts.py"],
        """![Milliseconds of one evaluation against the number of labels](figures/chain-evaluation.png)

With K labels, n tokens and F = 7 features per token, the limit is the sum of three times: 6K²n operations at the
rate of a large product of double matrices (forward, backward, sum of edge marginals), Kn exponentials, and (2F +
2)·8Kn + 16·(weights) bytes at the rate of a large copy. The three rates are measured in the same run and printed in
the first line. `of limit` is limit / ms. `of products` is the time of the 6K²n operations alone / time of the
recursion. A value above 100% means that the rows came from a cache, not from memory.""",
    ),
    "pl1": Section(
        "PL1 on ATIS against its gathers and scatters",
        ["gather_scatter.py"],
        """The bare gather and scatter of the same entries are SciPy's product with a sparse matrix and with its transpose,
into preallocated memory, on the same number of threads.""",
    ),
    "warmup": Section("The first fit of a process against the second", ["first_fit.py"]),
    "time": Section(
        "Time of a fit by stage",
        ["time_shares.py"],
        """All stages from the text file to θ. Scoring gathers the weights of each token's features. The recursion
exponentiates the scores and runs forward and backward. The gradient sums the tokens' residuals over each feature
(for the most frequent features within the backward pass). The optimiser passes over θ, the gradient and six pairs
of vectors, so its time grows with the number of weights. The time of the recursion grows with K² and the number of
tokens.""",
    ),
    "crf": Section("CoNLL-2000 against CRFsuite, to the same objective", ["crf_race.py", "--only", "conll"]),
    "converged": Section(
        "F1 at the optimum of CRFsuite and ours",
        ["crf_race.py", "--only", "converged"],
        "The problem is strictly convex, so both programs must reach the same objective and the same F1.",
    ),
    "atis": Section("ATIS, 121 labels, against CRFsuite", ["crf_race.py", "--only", "atis"]),
    "elastic": Section("Elastic net against CRFsuite's OWL-QN", ["elastic_net.py"]),
    "score": Section(
        "Time to a good tagger",
        ["time_to_score.py"],
        """CRFsuite has one thread. Where other programs ran at the same time, compare CPU seconds: seconds on the wall
include the time that a process waited for them. CRFsuite was trained anew for each number of iterations, so that its
first good tagger may lie before the line shown.""",
    ),
    "memory": Section("Memory of a fit by stage", ["fit_memory.py"]),
    "tagging": Section("Tagging from Python against CRFsuite", ["crf_race.py", "--only", "tagging"], runs=3),
    "single": Section("One sentence at a time against CRFsuite", ["single_sentences.py"], runs=3),
    "threads": Section("One and two threads on a busy machine", ["busy_threads.py"]),
    "encoding": Section("Reading and encoding sequences", ["encoding.py"]),
    "errors": Section("Standard errors of a tagger with a quarter of a million parameters", ["standard_errors.py"]),
    "weights": Section("Cost of automatic weights", ["auto_weights.py", "--full"]),
    "cost": Section(
        "Predicted against measured seconds",
        ["cost_model.py", "--out", "docs/figures"],
        "![Predicted against measured seconds](figures/cost-model.png)",
    ),
    "promise": Section(
        "The planner's promise",
        ["planner_promise.py", "--out", "docs/figures"],
        "![Measured error against measured seconds](figures/planner-promise.png)",
    ),
}
#: Sections that take three minutes together.
QUICK = ("inference", "grids", "single", "threads", "chains")
#: A ratio below this share of the page's is marked.
FALLEN = 0.8
HEAD = """# Benchmarks

`python benchmarks/write_page.py` writes this page. Each block is the output of its script. Each ratio compares two
runs on the same machine within a minute, with the same work and, where there is one, the same objective. No test
asserts a time. `make bench` runs all of them and marks ratios that have fallen since the page was written, `make
bench-quick` a few in three minutes without changing the page.
"""


def processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*: (.*)", text)
    return found[1] if found else platform.processor()


def sections() -> dict[str, str]:
    """What the page has now, by name."""
    if not PAGE.exists():
        return {}
    parts = re.split(r"^<!-- (\w+) -->\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


#: Begins the line with the spread of ratios.
_SPREAD = "Over"
_RATIO = re.compile(r"ratio:?\s+(?:p50 )?([0-9.]+)|([0-9.]+) times")


def ratios(text: str) -> list[float]:
    """The ratios that a script has printed, in order."""
    return [float((first or second).rstrip(".")) for first, second in _RATIO.findall(text)]


def spreads(outputs: list[str]) -> list[tuple[float, float, float]]:
    """Median, lowest and highest of each ratio over the runs of a script; none where runs print different ones."""
    runs = [ratios(output) for output in outputs]
    if len({len(run) for run in runs}) != 1:
        return []
    return [(statistics.median(column), min(column), max(column)) for column in zip(*runs, strict=True)]


def compare(before: str, outputs: list[str]) -> list[str]:
    """A line for each ratio with the one at the same place of the page; none where the places have changed."""
    old, new = ratios(before.partition(_SPREAD)[0]), spreads(outputs)
    if len(old) != len(new):
        return [f"  {len(new)} ratios, the page has {len(old)}: not compared"] if old else []
    return [
        f"  ratio {middle:g} ({low:g} to {high:g}), the page has {a:g}{'   SLOWER' if high < FALLEN * a else ''}"
        for a, (middle, low, high) in zip(old, new, strict=True)
    ]


def spread_line(outputs: list[str]) -> str:
    """The spread of the ratios over several runs, for the page."""
    found = spreads(outputs)
    if len(outputs) == 1 or not found:
        return ""
    shown = "; ".join(f"{middle:g} ({low:g} to {high:g})" for middle, low, high in found)
    return f"{_SPREAD} {len(outputs)} runs, in this order, median (lowest to highest): {shown}.\n"


def run(command: list[str]) -> str | None:
    """What a script prints; None if it fails, for example because a peer is not installed."""
    script = ROOT / "benchmarks" / command[0]
    done = subprocess.run(
        [sys.executable, str(script), *command[1:]], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the page as it is")
    parser.add_argument("--quick", action="store_true", help=f"run {', '.join(QUICK)}")
    parser.add_argument("--recorded", type=Path, metavar="FILE", help="what the one script named has printed")
    parser.add_argument("names", nargs="*", help=f"sections: {', '.join(RUNS)}")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(RUNS))
    if unknown:
        parser.error(f"unknown sections: {', '.join(unknown)}")
    if options.recorded is not None and len(options.names) != 1:
        parser.error("--recorded takes the output of one section: name it")
    wanted = options.names or (list(QUICK) if options.quick else list(RUNS))
    texts = sections()
    failed: list[str] = []
    for name in wanted:
        title, command, note, runs = RUNS[name]
        print(f"{name}: {' '.join(command)}", flush=True)
        began = time.perf_counter()
        if options.recorded is not None:
            outputs = [options.recorded.read_text(encoding="utf-8")]
        else:
            printed = [run(command) for _ in range(runs)]
            outputs = [text for text in printed if text is not None]
            if len(outputs) < runs:
                failed.append(name)
                continue
        for line in compare(texts.get(name, ""), outputs):
            print(line, flush=True)
        print(f"  {time.perf_counter() - began:.0f} s", flush=True)
        if options.keep:
            continue
        when = datetime.date.today().isoformat()
        machine = f"{when}, {processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        shown = " ".join(["python", f"benchmarks/{command[0]}", *command[1:]])
        about = f"{note}\n\n" if note else ""
        texts[name] = f"## {title}\n\n`{shown}` ({machine})\n\n{about}```text\n{outputs[-1].rstrip()}\n```\n"
        if line := spread_line(outputs):
            texts[name] += f"\n{line}"
        body = "".join(f"\n<!-- {key} -->\n{texts[key].strip()}\n" for key in RUNS if key in texts)
        PAGE.write_text(HEAD + body, encoding="utf-8")
    if failed:
        raise SystemExit(f"Failed, and as they were on the page: {', '.join(failed)}.")


if __name__ == "__main__":
    main()

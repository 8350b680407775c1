"""Run the benchmarks one after the other and write what they print to docs/benchmarks.md.

Run on a quiet machine: python benchmarks/write_page.py [name ...]     (names as below; others keep their last output)
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"


class Section(NamedTuple):
    """A block of the page: what it is called, what prints it, and what to know when reading it."""

    title: str
    command: list[str]
    note: str = ""


RUNS = {
    "inference": Section("Exact inference against pyAgrum", ["inference.py"]),
    "grids": Section("Exact sums over large grids", ["grids.py"]),
    "pairwise": Section(
        "Pairwise fields against matrix products and scikit-learn", ["pairwise.py", "a", "b", "c", "small"]
    ),
    "potts": Section(
        "Potts fields against sparse products, and fits on correlated images",
        ["potts.py"],
        """The limit counts the vector loads and stores of the rows of couplings that an evaluation adds and scatters,
at the cycles that a matrix product in the same run implies; exponentials are not in it.""",
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
    "memory": Section("Memory of a fit by stage", ["fit_memory.py"]),
    "tagging": Section("Tagging from Python against CRFsuite", ["crf_race.py", "--only", "tagging"]),
    "single": Section("One sentence at a time against CRFsuite", ["single_sentences.py"]),
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
HEAD = """# Benchmarks

`python benchmarks/write_page.py` writes this page. Each block is the output of its script. Each ratio compares two
runs on the same machine within a minute, with the same work and, where there is one, the same objective. No test
asserts a time.
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


def main() -> None:
    wanted = sys.argv[1:] or list(RUNS)
    texts = sections()
    for name in wanted:
        title, command, note = RUNS[name]
        print(f"{name}: {' '.join(command)}", flush=True)
        script = ROOT / "benchmarks" / command[0]
        done = subprocess.run(
            [sys.executable, str(script), *command[1:]], capture_output=True, text=True, check=False, cwd=ROOT
        )
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
            raise SystemExit(f"{name} failed; the page is as it was.")
        when = datetime.date.today().isoformat()
        machine = f"{when}, {processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        shown = " ".join(["python", f"benchmarks/{command[0]}", *command[1:]])
        about = f"{note}\n\n" if note else ""
        texts[name] = f"## {title}\n\n`{shown}` ({machine})\n\n{about}```text\n{done.stdout.rstrip()}\n```\n"
        body = "".join(f"\n<!-- {key} -->\n{texts[key].strip()}\n" for key in RUNS if key in texts)
        PAGE.write_text(HEAD + body, encoding="utf-8")


if __name__ == "__main__":
    main()

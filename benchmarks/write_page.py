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

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RUNS = {
    "inference": ("Exact inference against pyAgrum", ["inference.py"]),
    "pairwise": ("Pairwise fields against matrix products and scikit-learn", ["pairwise.py", "a", "b", "c", "small"]),
    "chains": ("One evaluation of a chain", ["chains.py", "evaluations"]),
    "crf": ("CoNLL-2000 against CRFsuite, to the same objective", ["crf_race.py", "--only", "conll"]),
    "atis": ("ATIS, 121 labels, against CRFsuite", ["crf_race.py", "--only", "atis"]),
    "tagging": ("Tagging from Python against CRFsuite", ["crf_race.py", "--only", "tagging"]),
    "encoding": ("Reading and encoding sequences", ["encoding.py"]),
}
HEAD = """# Benchmarks

Written by `python benchmarks/write_page.py`; each block is what its script printed. Ratios are between two runs on the same
machine in the same minute, for the same work to the same objective where there is one. No test asserts a time.
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
        title, command = RUNS[name]
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
        texts[name] = f"## {title}\n\n`{shown}` ({machine})\n\n```text\n{done.stdout.rstrip()}\n```\n"
        body = "".join(f"\n<!-- {key} -->\n{texts[key].strip()}\n" for key in RUNS if key in texts)
        PAGE.write_text(HEAD + body, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Ctrl-C at random moments of the start of a command: python benchmarks/early_interrupts.py [--signals 100] [--page FILE].

The moment is counted in CPU seconds of the process. `/proc/PID/status` says whether Python had installed its handler when
the signal was sent, and a traceback says whether a file of fieldfit had begun to run. Linux only; fieldfit must be
installed, not editable, because the finder of an editable installation runs before fieldfit does.
"""

import argparse
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

START, END = "<!-- interrupts -->", "<!-- end of interrupts -->"
#: What a process may say, and whether fieldfit had begun.
OURS, ENDED = "sentence of fieldfit", "ended before the signal"
PYTHON, SYSTEM, OTHER = "traceback of Python's start", "killed before Python's handler", "other"


def spent(process):
    """CPU seconds of a process so far."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) / 1e9


def handled(process):
    """Whether the process has a handler for Ctrl-C."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)[1], 16)
    return bool(caught >> (signal.SIGINT - 1) & 1)


def outcome(command, moment):
    """What a command says that gets Ctrl-C after some CPU seconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/tmp")
    while process.poll() is None and spent(process) < moment:
        pass
    ready = process.poll() is None and handled(process)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    if process.returncode == 0:
        return ENDED, said
    if process.returncode == -signal.SIGINT and not said and not ready:
        return SYSTEM, said
    if "Traceback" in said and "/fieldfit/" not in said:
        return PYTHON, said
    return (OURS if said.startswith("fieldfit: Interrupted") and "Traceback" not in said else OTHER), said


def sentence(kinds, name, signals, longest):
    """The counts of one way to start the command."""
    counts = ", ".join(f"{kinds[kind]} {kind}" for kind in (OURS, ENDED, PYTHON, SYSTEM, OTHER) if kinds[kind])
    return f"- `{name}`, {signals} signals in the first {longest:g} CPU seconds: {counts}."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=100)
    parser.add_argument("--longest", type=float, default=0.4, help="CPU seconds of the latest signal")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="page for the counts, between its marks, as docs/scaling.md")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let programs in the background ignore Ctrl-C
    folder = Path(sys.executable).parent
    lines = []
    with tempfile.TemporaryDirectory() as place:
        fit = str(Path(place) / "fit.ff")
        make = "import sys, fieldfit as ff; m = ff.BoltzmannMachine(3); x = m.sample([1., -1., 0.5], 500, 0).values"
        subprocess.run([sys.executable, "-c", f"{make}; ff.fit(m, x).save(sys.argv[1])", fit], check=True, cwd="/tmp")
        ways = {
            "fieldfit show": [str(folder / "fieldfit"), "show", fit],
            "python -m fieldfit show": [sys.executable, "-m", "fieldfit", "show", fit],
        }
        for name, command in ways.items():
            source, kinds = random.Random(options.seed), Counter[str]()
            for _ in range(options.signals):
                kind, said = outcome(command, source.uniform(0, options.longest))
                kinds[kind] += 1
                if kind == OTHER:
                    print(said or "(nothing)", file=sys.stderr)
            lines.append(sentence(kinds, name, options.signals, options.longest))
            print(lines[-1], flush=True)
    if options.page:
        text, block = options.page.read_text(), "\n".join([START, *lines, END])
        options.page.write_text(re.sub(f"{START}.*?{END}", lambda _: block, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()

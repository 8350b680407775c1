"""Run the benchmarks, compare their ratios with the last committed page and write docs/benchmarks.md.

    python benchmarks/write_page.py [--quick] [--keep] [--fresh] [--minutes M] [--render] [name ...]

All parts run once, then again while there is time (34 minutes; 3 with `--quick`, which runs a few parts in their short
form and leaves the page alone). What a part has printed is kept in .bench, and the page is written after each: a part that
fails, or a run that is interrupted, loses nothing, and the next call goes on with what is missing at this commit. `--fresh`
starts anew. Parts that take long, or need peers that are not installed here, run by name only: `BY_NAME_ONLY`.

Ratios are numbers after "ratio" or before "times". Each stands beside the one of the committed page (by the label of its
line where a short form prints fewer), and one whose best run has fallen to less than 0.8 of that is marked, so that a
slow-down is seen. Peers have an environment of their own
(peers.py). `--render` runs nothing: it writes the page again from the outputs on it, with the titles and notes of
sections.py. Nothing else is on the page, which a test checks. Run the benchmarks on a quiet machine: the load before each
part is on the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from peers import interpreter
from sections import BY_NAME_ONLY, ORDER, QUICK, RUNS, Section

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
STORE = ROOT / ".bench"
#: A ratio below this share of the committed one is marked.
FALLEN = 0.8
#: A part is not begun with less than this many seconds left.
LEAST = 5.0
#: A part is ended after this many times the seconds that it is expected to take, but not before it has had SHORTEST.
LONGEST, SHORTEST = 4.0, 120.0
#: Minutes for all parts.
MINUTES = 34
HEAD = """# Benchmarks

`make bench` writes this page. Each block is the output of its script. Each ratio compares two runs on the same machine
within a minute, with the same work and, where there is one, the same objective. Scripts run up to three times within
half an hour, and the spread of their ratios is below their output. No test asserts a time. Ratios that have fallen
since the committed page are marked when the command runs; `make bench-quick` runs a few parts in three minutes without
changing the page. A run that ends early leaves the other parts as they were: the date, the commit, the machine and its load
before the run are beside each command. Where the load is above the number of cores, other programs used the processor:
compare ratios and CPU seconds there, not wall-clock seconds.
"""
#: Begins the line with the spread of ratios.
_SPREAD = "Over"
_PARTS = re.compile(
    rf"`(python [^`]+)` \((.*)\)\n[\s\S]*?```text\n([\s\S]*?)\n```\n((?:\n{_SPREAD} [0-9]+ runs.*\n)?)"
)
#: Ends the label of a line.
_LABEL = re.compile(r":? {2,}|: | \(")
_RATIO = re.compile(r"ratio:?\s+(?:p50 )?([0-9.]+)|([0-9.]+) times")


def output_of(*command: str) -> str:
    """What a command prints; nothing if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return "" if done.returncode else done.stdout


def sections(page: str) -> dict[str, str]:
    """The parts of a page by name."""
    parts = re.split(r"^<!-- ([\w-]+) -->\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def processor() -> str:
    """The name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = re.search(r"model name\s*: (.*)", text)
    return found[1] if found else platform.processor()


def machine(commit: str) -> str:
    """Date, commit, processor, number of cores, load and Python."""
    today, python = datetime.date.today().isoformat(), platform.python_version()
    cores = f"{processor()}, {os.cpu_count()} cores"
    return f"{today}, commit {commit[:8]}, {cores}, load {os.getloadavg()[0]:.1f}, Python {python}"


def ratios(text: str) -> list[float]:
    """The ratios that a script has printed, in order."""
    return [float((first or second).rstrip(".")) for first, second in _RATIO.findall(text)]


def spreads(outputs: list[str]) -> list[tuple[float, float, float]]:
    """Median, lowest and highest of each ratio over the runs of a script; none where runs print different ones."""
    runs = [ratios(output) for output in outputs]
    if len({len(run) for run in runs}) != 1:
        return []
    return [_spread(list(column)) for column in zip(*runs, strict=True)]


def _spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def labelled(text: str) -> dict[tuple[str, str, int], float]:
    """The ratios by the label of their line, that of the last line that is not indented, and their number in the line."""
    found: dict[tuple[str, str, int], float] = {}
    heading = ""
    for line in text.splitlines():
        label = _LABEL.split(line.strip(), maxsplit=1)[0]
        heading = heading if line.startswith(" ") else label
        for place, ratio in enumerate(ratios(line)):
            found.setdefault((heading, label, place), ratio)
    return found


def compare(before: str, outputs: list[str]) -> list[str]:
    """A line for each ratio with the one of the page: at the same place, or with the same labels where places differ."""
    page = before.partition(f"\n{_SPREAD} ")[0]
    old, new = ratios(page), spreads(outputs)
    if len(old) == len(new):
        return [_beside(a, spread) for a, spread in zip(old, new, strict=True)]
    committed, runs = labelled(page), [labelled(output) for output in outputs]
    common = [key for key in runs[0] if key in committed and all(key in run for run in runs)]
    lines = [f"{key[1]}: {_beside(committed[key], _spread([run[key] for run in runs]))}" for key in common]
    if old and len(common) < len(new):
        lines.append(f"{len(new) - len(common)} of {len(new)} ratios are not on the committed page")
    return lines


def _beside(committed: float, spread: tuple[float, float, float]) -> str:
    middle, low, high = spread
    fallen = "   SLOWER" if high < FALLEN * committed else ""
    return f"ratio {middle:g} ({low:g} to {high:g}), committed {committed:g}{fallen}"


def spread_line(outputs: list[str]) -> str:
    """The spread of the ratios over several runs, for the page."""
    found = spreads(outputs)
    if len(outputs) == 1 or not found:
        return ""
    shown = "; ".join(f"{middle:g} ({low:g} to {high:g})" for middle, low, high in found)
    return f"\n{_SPREAD} {len(outputs)} runs, in this order, median (lowest to highest): {shown}.\n"


def block(section: Section, record: dict[str, Any]) -> str:
    """A part of the page from what its script has printed."""
    outputs: list[str] = record["outputs"]
    shown = " ".join(["python", f"benchmarks/{section.command[0]}", *section.command[1:]])
    return laid_out(section, shown, record["machine"], outputs[-1].rstrip(), spread_line(outputs))


def laid_out(section: Section, command: str, where: str, output: str, spread: str) -> str:
    """A part of the page: title, command and machine, note, output, spread of the ratios."""
    about = f"{section.note}\n\n" if section.note else ""
    return f"## {section.title}\n\n`{command}` ({where})\n\n{about}```text\n{output}\n```\n{spread}"


def rendered(page: str) -> str:
    """The page again from the outputs on it; what no script has printed and no section says is gone."""
    texts = {}
    for name, text in sections(page).items():
        if name in RUNS:
            command, where, output, spread = _PARTS.search(text).groups()
            texts[name] = laid_out(RUNS[name], command, where, output, spread)
    return whole_page(texts)


def whole_page(texts: dict[str, str]) -> str:
    """The page of these parts, in its order."""
    return HEAD + "".join(f"\n<!-- {key} -->\n{texts[key].strip()}\n" for key in RUNS if key in texts)


class Suite:
    """What has been run so far, and the time that is left."""

    def __init__(self, python: str, *, minutes: float, quick: bool, keep: bool, fresh: bool) -> None:
        self.python, self.quick, self.keep = python, quick, keep
        self.minutes = minutes
        self.deadline = time.monotonic() + 60 * minutes
        self.commit = output_of("git", "rev-parse", "HEAD").strip()
        self.committed = sections(output_of("git", "show", "HEAD:docs/benchmarks.md"))
        self.failed: dict[str, str] = {}
        self.store = STORE / ("quick" if quick else "full")
        self.store.mkdir(parents=True, exist_ok=True)
        self.records: dict[str, dict[str, Any]] = {}
        self.seconds: dict[str, float] = {}
        for name, section in RUNS.items():
            file = self.store / f"{name}.json"
            record = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
            if "seconds" in record:
                self.seconds[name] = record["seconds"]
            same = record.get("commit") == self.commit and record.get("command") == self._command(section)
            if same and not fresh:
                self.records[name] = record

    def _command(self, section: Section) -> list[str]:
        command: list[str] = section.short if self.quick and section.short else section.command
        return command

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.deadline - time.monotonic()

    def runs(self, name: str) -> int:
        """How often a part has been run at this commit."""
        return len(self.records[name]["outputs"]) if name in self.records else 0

    def expected(self, name: str) -> float:
        """Seconds of a part: those of its last run here, or about those on a quiet machine."""
        section = RUNS[name]
        usual = LEAST if self.quick and section.short else float(section.seconds)
        return max(self.seconds.get(name, usual), LEAST)

    def limit(self, name: str) -> float:
        """Seconds after which a part is ended, so that the others have theirs: more where there is more time for all."""
        if not RUNS[name].seconds:
            return max(self.left, LEAST)
        share = max(self.minutes / MINUTES, 1.0)
        return max(min(self.left, share * max(LONGEST * self.expected(name), SHORTEST)), LEAST)

    def run(self, name: str) -> None:
        """Run a part once, within the time that is left."""
        expected = self.expected(name)
        if self.left < expected:
            if name in self.records:  # a repetition
                return
            print(
                f"{name}: left out, it takes about {expected:.0f} s and {max(self.left, 0):.0f} s are left",
                flush=True,
            )
            return
        section = RUNS[name]
        command = self._command(section)
        where = machine(self.commit)
        print(f"{name}: {' '.join(command)}", end="", flush=True)
        began = time.monotonic()
        text, error = self._printed(command, self.limit(name))
        seconds = time.monotonic() - began
        print(f" ({seconds:.0f} s)", flush=True)
        if text is None:
            self.failed[name] = error
            print(f"  {error}", flush=True)
            return
        self.failed.pop(name, None)
        self.seconds[name] = seconds
        self.take(name, text, where, seconds)

    def take(self, name: str, text: str, where: str, seconds: float | None = None) -> None:
        """Keep what a part has printed, and write the page."""
        record = self.records.setdefault(
            name, {"commit": self.commit, "command": self._command(RUNS[name]), "outputs": [], "machine": where}
        )
        record["outputs"].append(text)
        if seconds is not None:
            record["seconds"] = seconds
        (self.store / f"{name}.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
        for line in self.compared(name):
            print(f"  {line}", flush=True)
        if self.keep:
            return
        texts = sections(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
        texts[name] = block(RUNS[name], record)
        PAGE.write_text(whole_page(texts), encoding="utf-8")

    def compared(self, name: str) -> list[str]:
        """The ratios of a part beside the committed ones."""
        before = self.committed.get(name, "")
        lines = compare(before, self.records[name]["outputs"])
        other = "" if processor() in before else " (on another processor)"
        return [line + other if "SLOWER" in line else line for line in lines]

    def _printed(self, command: list[str], seconds: float) -> tuple[str | None, str]:
        """What a script prints, or None and why not. After ``seconds`` it is ended with its children."""
        process = subprocess.Popen(
            [self.python, str(ROOT / "benchmarks" / command[0]), *command[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            text, error = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return None, f"ended after {seconds:.0f} s"
        except BaseException:
            _end(process)
            raise
        if process.returncode:
            return None, f"failed: {(error.strip().splitlines() or ['without a message'])[-1]}"
        return text, ""


def _end(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="leave the page as it is")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)} in three minutes; implies --keep")
    parser.add_argument("--fresh", action="store_true", help="forget what has been run at this commit")
    parser.add_argument("--minutes", type=float, help="time for all parts (34; 3 with --quick)")
    parser.add_argument("--render", action="store_true", help="run nothing: titles and notes as in sections.py")
    parser.add_argument("names", nargs="*", help=f"parts: {', '.join(RUNS)}")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(RUNS))
    if unknown:
        parser.error(f"unknown parts: {', '.join(unknown)}")
    if options.render:
        PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    wanted = options.names or (list(QUICK) if options.quick else [name for name in ORDER if name not in BY_NAME_ONLY])
    suite = Suite(
        interpreter(),
        minutes=options.minutes if options.minutes is not None else 3 if options.quick else MINUTES,
        quick=options.quick,
        keep=options.keep or options.quick,
        fresh=options.fresh,
    )
    for turn in range(max(RUNS[name].runs for name in wanted)):
        for name in wanted:
            if suite.runs(name) <= turn < RUNS[name].runs and name not in suite.failed:
                suite.run(name)
    missing = [name for name in wanted if not suite.runs(name)]
    slower = [
        f"{name}: {line}" for name in wanted if suite.runs(name) for line in suite.compared(name) if "SLOWER" in line
    ]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} parts have been run at this commit.")
    print("\n".join(["Ratios that have fallen:", *slower]) if slower else "No ratio has fallen.")
    if missing:
        raise SystemExit(
            f"Not run, and as they were on the page: {', '.join(missing)}. Run the command again for them."
        )


if __name__ == "__main__":
    main()

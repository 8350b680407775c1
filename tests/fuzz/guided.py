"""A fuzzer that follows coverage: python -m tests.fuzz.guided TARGET [--cases 1000000] [--seconds S] [--found FOLDER].

Atheris counts which branches of fieldfit a case takes; cases that take new ones are changed further. TARGET is one of the
targets, or ``all``: then the first byte of a case chooses. The run starts from the seeds and from ``corpus/TARGET.txt``.
Cases that took new branches go to FOLDER, and ``--keep FOLDER`` adds the short ones to the corpus. A case that ends with
anything but an error of fieldfit, or takes a minute or 2 GB, ends the run with an error and is written to a file.
"""

import argparse
import gc
import sys
import tempfile
import types
from pathlib import Path

import atheris  # type: ignore[import-untyped]

from tests.fuzz.targets import CORPUS, SEEDS, accepted, beginnings, corpus

#: Bytes of the longest case that is kept, and of the longest case that is tried.
_LARGEST_KEPT, _LARGEST = 2048, 65536
TARGETS = {target.__name__: target for target in SEEDS}
NAMES = sorted(TARGETS)


def cases(name):
    """What a run starts from."""
    if name == "all":
        return [bytes([number]) + content for number, one in enumerate(NAMES) for content in cases(one)]
    return beginnings(TARGETS[name])


def instrument(name, package):
    """Count the branches of the functions of a package of fieldfit in the modules that the seeds need."""
    for target in TARGETS.values() if name == "all" else [TARGETS[name]]:
        for content in SEEDS[target]():
            accepted(target, content)
    for thing in gc.get_objects():
        if isinstance(thing, types.FunctionType) and f"{thing.__module__}.".startswith(f"{package}."):
            atheris.instrument_func(thing)


def fuzz(name, package, found, options):
    """Run libFuzzer, which ends the process."""
    instrument(name, package)
    with tempfile.TemporaryDirectory() as folder:
        for number, content in enumerate(cases(name)):
            (Path(folder) / f"{number:05d}").write_bytes(content)

        def one(data):
            if name == "all":
                accepted(TARGETS[NAMES[(data[0] if data else 0) % len(NAMES)]], data[1:])
            else:
                accepted(TARGETS[name], data)

        limits = ["-timeout=60", "-rss_limit_mb=2048", f"-max_len={_LARGEST}", "-print_final_stats=1"]
        atheris.Setup([sys.argv[0], *limits, *options, str(found), folder], one)
        atheris.Fuzz()


def keep(name, found):
    """Add the cases that a run found, those that are not too long, to the corpus."""
    contents = {file.read_bytes() for file in found.iterdir()}
    short = {content for content in contents if len(content) <= _LARGEST_KEPT}
    kept = sorted(
        short | set(corpus(TARGETS[name])) - set(SEEDS[TARGETS[name]]()), key=lambda case: (len(case), case)
    )
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{name}.txt").write_text("".join(f"{content!r}\n" for content in kept))
    print(f"{name}: {len(kept)} cases in the corpus")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=[*NAMES, "all"])
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=0, help="end after this time; 0: no limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", default="fieldfit", help="follow the branches of this package")
    parser.add_argument("--found", type=Path, help="folder for cases that took new branches")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="put what was found into the corpus")
    options = parser.parse_args()
    if options.keep is not None:
        keep(options.target, options.keep)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = options.found or Path(folder)
        found.mkdir(parents=True, exist_ok=True)
        limits = [f"-runs={options.cases}", f"-max_total_time={options.seconds}", f"-seed={options.seed}"]
        fuzz(options.target, options.package, found, limits)


if __name__ == "__main__":
    main()

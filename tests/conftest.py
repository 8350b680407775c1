"""Put the tests' own modules (oracle.py) on the path, set and keep the number of threads, and let Ctrl-C through.

A runner that starts the tests in the background has them ignore interrupts, and every child would inherit that.
"""

import os
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # one thread a worker; what depends on threads is tested with a number of them
    for library in ("FIELDFIT", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
os.environ.setdefault("FIELDFIT_REPORT_LEAKS", "1")  # compiled objects that are left when a process ends

import fieldfit
from fieldfit.models.base import Model

sys.path.insert(0, str(Path(__file__).parent))
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


settings.register_profile("few", max_examples=25)


def pytest_configure(config):
    """Fewer examples of each property in the fast tests; `make test` runs them all."""
    if config.option.markexpr == "not slow":
        settings.load_profile("few")


def holds_model(value, depth):
    """Whether a value is a model or has one inside: in a container or an attribute, up to this depth."""
    if isinstance(value, Model):
        return True
    if depth == 0 or isinstance(value, (type, str, ModuleType)):
        return False
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(holds_model(part, depth - 1) for part in (*inside, *getattr(value, "__dict__", {}).values()))


def pytest_collection_modifyitems(items):
    """Marks hold names, not models: a thread may keep them until the interpreter ends, and compiled sums with them.

    `parametrize("name", EXAMPLES)` keeps the dictionary itself, not only its keys.
    """
    marks = {id(mark): (item, mark) for item in items for mark in item.iter_markers()}
    found = [item.nodeid for item, mark in marks.values() if holds_model((mark.args, mark.kwargs), depth=6)]
    if found:
        raise pytest.UsageError(f"Marks have models; give their names instead: {', '.join(found)}")


@pytest.fixture(autouse=True)
def default_threads():
    yield
    fieldfit.set_threads(None)

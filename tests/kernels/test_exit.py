"""A process that ends with compiled problems in its caches, cycles and tracebacks releases them all."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SCRIPT = """
import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import fieldfit as ff
from fieldfit import _kernels, inference

x = np.random.default_rng(0).integers(2, size=(40, 4))


@functools.lru_cache
def fitted(kind):
    model = ff.BoltzmannMachine(4, states=(0, 1)) if kind == "pairwise" else ff.Potts(4, 2)
    model.log_partition(np.zeros(model.n_parameters))
    return model, ff.fit(model, x, policy="PL1 + FL")


class Cycle:
    def __init__(self, content):
        self.content, self.itself = content, self


def fails():
    inside = fitted("potts")
    raise ValueError(inside)


kept = [Cycle(fitted("pairwise")), Cycle(fitted("potts"))]
Cycle.shared = kept
try:
    fails()
except ValueError as error:
    kept.append(error)
with ThreadPoolExecutor(2) as pool:
    kept += pool.map(fitted, ["pairwise", "potts"])
for wrong in ({}, {"n": 0}):
    try:
        _kernels.PairwiseBlocks(**wrong)
    except TypeError as error:
        kept.append(error)
graph = inference.FactorGraph([2, 2, 2], [(0, 1), (1, 2)])
programs = inference.ProgramSet(graph, [inference.ProgramCompiler(graph).compile([1])])
kept.append(programs.configure([np.zeros((2, 3), dtype=np.int32)]))
programs.kept = kept
kept[-1].kernel
fails()
"""


@pytest.mark.slow
def test_nothing_is_left_when_the_interpreter_ends():
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "ValueError: (" in ended.stderr, ended.stderr
    assert "leaked" not in ended.stderr


DAEMON = """
import threading
import time

import numpy as np

import fieldfit as ff


def hold(held):
    while held:
        time.sleep(0.01)


fit = ff.fit(ff.BoltzmannMachine(3), np.eye(3), "PL1", sigma2=1.0)
fit.objective_function.value_grad(fit.theta)
threading.Thread(target=hold, args=(fit,), daemon=True).start()
"""


@pytest.mark.parametrize("asked", [True, False])
def test_what_a_running_thread_holds_is_reported_to_those_who_ask(asked, monkeypatch):
    monkeypatch.setenv("FIELDFIT_REPORT_LEAKS", "1")
    if not asked:
        monkeypatch.delenv("FIELDFIT_REPORT_LEAKS")
    ended = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, text=True, check=True)
    assert ("leaked" in ended.stderr) == asked, ended.stderr


HOLDER = """
import threading
import time


def pytest_sessionfinish(session):
    def wait(session):
        while True:
            time.sleep(0.01)

    threading.Thread(target=wait, args=(session,), daemon=True).start()
"""


@pytest.mark.slow
def test_a_test_worker_releases_everything_too(tmp_path, monkeypatch):
    """Marks, fixtures and module globals of tests that hold models; nanobind reports what is left in the worker.

    Threads of the worker that still wait at the end of the interpreter may hold the session, which holds the marks.
    """
    (tmp_path / "holder.py").write_text(HOLDER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    chosen = ["inference", "weights/test_information.py", "models/test_second_order.py", "models/test_contract.py"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "holder", "-m", "not slow", "-k", "not derivatives"]
        + [str(TESTS / name) for name in chosen],
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
    )
    assert ended.returncode == 0, ended.stdout
    assert "leaked" not in ended.stdout + ended.stderr, ended.stderr

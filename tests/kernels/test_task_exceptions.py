"""An exception inside a task of the kernels' threads reaches the caller, and the threads go on working."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"

# The first sums need little memory, so that both threads are at work when the later ones ask for 16 MiB each.
NO_MEMORY = """
import resource
import numpy as np
import fieldfit as ff
from fieldfit.inference import FactorGraph, ProgramCompiler, ProgramSet, check_tables

graph = FactorGraph((2,) * 23, tuple((a, b) for a in range(23) for b in range(a)))
tables = check_tables(graph, np.random.default_rng(0).normal(size=graph.table_size) * 0.1)
small, large = (ProgramCompiler(graph).compile(frozenset(range(free))) for free in (18, 22))
assert small.template.wide and large.template.wide

def run(*compiled):
    programs = ProgramSet(graph, compiled)
    log_z = np.empty(8 * len(compiled))
    programs.run(tables, programs.configure([np.zeros((8, 23), dtype=np.int32)] * len(compiled)), log_z=log_z)
    return log_z

ff.set_threads(2)
before = run(small)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (12 << 20), most))
for threads in (2, 1, 2, 2):
    ff.set_threads(threads)
    try:
        run(small, large)
    except MemoryError:
        print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (most, most))
assert np.array_equal(run(small), before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit on memory and /proc")
@pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer ends a process without memory"
)
def test_a_task_without_memory_is_a_memory_error():
    ran = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["MemoryError"] * 4


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None or not KERNELS.exists(), reason="needs a compiler and the sources")
def test_the_exception_of_the_first_task_is_thrown_whatever_the_threads(tmp_path):
    program = tmp_path / "team_exceptions"
    sources = [HERE / "team_exceptions.cpp", KERNELS / "team_bind.cpp"]
    subprocess.run(["c++", "-std=c++17", "-O1", "-pthread", f"-I{KERNELS}", *sources, "-o", program], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr

"""Seconds and megabytes, as all benchmarks of chains take them.

With FIELDFIT_BENCHMARK_CLOCK=cpu seconds are those of the processor, which makes runs on one thread comparable on a busy
machine; otherwise they are seconds on the wall. Memory needs Linux.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.threads import get_threads

clock = time.process_time if os.environ.get("FIELDFIT_BENCHMARK_CLOCK") == "cpu" else time.perf_counter


def best_times(*tasks: Callable[[], object], repeats: int = 7) -> list[float]:
    """The best time of each task, the tasks taking turns: what slows the machine for a while slows all of them."""
    best = [float("inf")] * len(tasks)
    for _ in range(repeats):
        for number, task in enumerate(tasks):
            start = clock()
            task()
            best[number] = min(best[number], clock() - start)
    return best


def memory() -> tuple[float, float]:
    """What this process has now and the most that it has had since `forget_peak`, in MB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(status[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def forget_peak() -> float:
    """Give back what is free, start the peak anew; returns what the process has now, in MB.

    Without giving back, whatever fits into memory that reading has left behind would seem to cost nothing.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory()[0]


def child(script: str, *arguments: str) -> dict[str, Any]:
    """One contestant in a process of its own; the last line that it prints is its result as JSON."""
    answer = subprocess.run(
        [sys.executable, script, "--child", *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    result: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return result


def product_rate(n: int = 1536, repeats: int = 3) -> float:
    """Multiply-adds times two a second of NumPy's product of two n × n matrices of doubles, on as many threads as ours."""
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    with threadpool_limits(get_threads(), user_api="blas"):
        (seconds,) = best_times(lambda: a @ b, repeats=repeats)
    return 2 * n**3 / seconds


def copy_rate(megabytes: int = 256) -> float:
    """Bytes read and written a second by a copy that does not fit any cache, each thread with its part."""
    from concurrent.futures import ThreadPoolExecutor

    threads = get_threads()
    size = megabytes * 2**20 // 8 // threads
    source, target = np.ones((threads, size)), np.zeros((threads, size))
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            list(pool.map(np.copyto, target, source))

        (seconds,) = best_times(copy, repeats=3)
    return 2 * source.nbytes / seconds


def exp_rate(size: int = 4096) -> float:
    """Exponentials a second of our own loop over numbers in the first-level cache, times the threads."""
    from fieldfit import _kernels

    x, out = -np.random.default_rng(0).uniform(0, 20, size), np.empty(size)

    def many() -> None:
        for _ in range(200):
            _kernels.exp_array(x, out)

    (seconds,) = best_times(many, repeats=5)
    return 200 * size * get_threads() / seconds

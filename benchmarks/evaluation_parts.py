"""Where the time of a distributed evaluation goes: python benchmarks/evaluation_parts.py [--page docs/scaling.md].

The parts of one evaluation of PL1 by the clock: until the last worker begins, the work of the slowest worker, and from its
end until the client has the sum. The clock is the same in all processes. Beside them stands the work in CPU seconds, and
two processes without Dask that evaluate half of the samples each, at the same time: on a busy machine they wait as well.
Low quantiles of many evaluations are those with the least waiting.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

import fieldfit as ff

START, END = "<!-- parts -->", "<!-- end of parts -->"
_SETTINGS: dict[str, Any] = {"sigma2": 1.0, "max_iter": 0, "tol": 1e9}
_QUANTILE = 0.1
TEXT = """\
Parts of an evaluation in milliseconds, {n:,} samples, the lowest tenth of {repeats} evaluations; load {load:.0f}:

| | one worker | two workers |
|---|---|---|
| until the last worker begins | {begin[0]:.1f} | {begin[1]:.1f} |
| work of the slowest worker, CPU | {cpu[0]:.1f} | {cpu[1]:.1f} |
| waiting for a processor in this time | {wait[0]:.1f} | {wait[1]:.1f} |
| from its end until the client has the sum | {back[0]:.1f} | {back[1]:.1f} |
| half of the samples in processes without Dask: CPU | {plain_cpu[0]:.1f} | {plain_cpu[1]:.1f} |
| the same: waiting for a processor | {plain_wait[0]:.1f} | {plain_wait[1]:.1f} |

Without the waiting, an evaluation takes {total[0]:.0f} ms on one worker and {total[1]:.0f} ms on two: an efficiency of
{efficiency:.2f}. The rest is lost in messages ({messages[0]:.1f} and {messages[1]:.1f} ms) and in smaller arrays."""


def record() -> None:
    """Have this worker write down when it works, and how long by its processor."""
    from fieldfit.shards import held

    usual = held.total
    stamps: list[tuple[float, float, float]] = []

    def total(*given: Any) -> Any:
        began, cpu = time.monotonic(), time.thread_time()
        result = usual(*given)
        stamps.append((began, time.monotonic(), time.thread_time() - cpu))
        return result

    vars(held).update(total=total, stamps=stamps)


def recorded() -> list[tuple[float, float, float]]:
    """What was written down since the last time."""
    from fieldfit.shards import held

    stamps = vars(held)["stamps"]
    found = list(stamps)
    stamps.clear()
    return found


def parts(workers: int, model: Any, values: Any, theta: Any, repeats: int) -> Any:
    """Milliseconds until the last worker begins, of its work by its processor, waiting, and back."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        client.run(record)
        problem = ff.fit(model, values, "PL1", backend=client, **_SETTINGS).problem
        problem.value_grad(theta)
        client.run(recorded)
        calls = []
        for _ in range(repeats):
            began = time.monotonic()
            problem.value_grad(theta)
            calls.append((began, time.monotonic()))
        lines = []
        for (began, ended), *rows in zip(calls, *client.run(recorded).values(), strict=True):
            begin = max(row[0] for row in rows) - began
            cpu, wall = max(row[2] for row in rows), max(row[1] - row[0] for row in rows)
            lines.append((begin, cpu, wall - cpu, ended - max(row[1] for row in rows)))
        return 1e3 * np.quantile(lines, _QUANTILE, axis=0)


def _half(model: Any, values: Any, theta: Any, repeats: int, gate: Any, found: Any) -> None:
    problem = ff.fit(model, values, "PL1", **_SETTINGS).problem
    problem.value_grad(theta)
    gate.wait()
    lines = []
    for _ in range(repeats):
        began, cpu = time.monotonic(), time.thread_time()
        problem.value_grad(theta)
        used = time.thread_time() - cpu
        lines.append((used, time.monotonic() - began - used))
    found.put(1e3 * np.quantile(lines, _QUANTILE, axis=0))


def without_dask(processes: int, model: Any, values: Any, theta: Any, repeats: int) -> Any:
    """Milliseconds by the processor, and waiting, of processes with half of the samples each, at the same time."""
    context = multiprocessing.get_context("fork")
    gate, found = context.Barrier(processes), context.Queue()
    half = len(values) // 2
    running = [
        context.Process(target=_half, args=(model, values[k * half : (k + 1) * half], theta, repeats, gate, found))
        for k in range(processes)
    ]
    for process in running:
        process.start()
    slowest = np.max([found.get() for _ in running], axis=0)
    for process in running:
        process.join()
    return slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--page", type=Path, help="page for the text, between its marks")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    model, random = ff.BoltzmannMachine(40, biases=True), np.random.default_rng(0)
    values = random.integers(0, 2, (options.samples, 40)).astype(np.int8)
    given = (model, values, random.normal(0, 0.1, model.n_parameters), options.repeats)
    ff.set_threads(1)
    plain = [without_dask(count, *given) for count in (1, 2)]
    found = [parts(count, *given) for count in (1, 2)]
    begin, cpu, wait, back = zip(*found, strict=True)
    total = [b + c + a for b, c, a in zip(begin, cpu, back, strict=True)]
    text = TEXT.format(
        n=options.samples, repeats=options.repeats, load=load, begin=begin, cpu=cpu, wait=wait, back=back, total=total,
        plain_cpu=[line[0] for line in plain], plain_wait=[line[1] for line in plain],
        efficiency=total[0] / (2 * total[1]), messages=[b + a for b, a in zip(begin, back, strict=True)],
    )  # fmt: skip
    print(text)
    if options.page:
        page = options.page.read_text(encoding="utf-8")
        page = re.sub(f"{START}.*?{END}", lambda _: f"{START}\n{text}\n{END}", page, flags=re.DOTALL)
        options.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

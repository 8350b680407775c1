"""What a distributed evaluation costs: the overhead of a question, the bytes it moves, and the efficiency of two workers.

    python benchmarks/scaling.py [--samples 200000] [--variables 40] [--page docs/scaling.md]

The same samples are evaluated in this process with one thread, and on one and two worker processes with one thread each.
The overhead is the time of a question to shards of one sample; the efficiency is the time of one worker over twice that of
two. On a busy machine only the seconds of the processor mean something: those of the client with its scheduler, and of the
busiest worker. ``--page`` writes the table, and what 100 workers and 10⁹ samples cost by it, between the marks of a page.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fieldfit as ff
from fieldfit.shards import questions

START, END = "<!-- cost -->", "<!-- end of cost -->"


def median_seconds(run: Callable[[], object], repeats: int) -> float:
    run()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def processor_seconds(run: Callable[[], object], client: object, repeats: int) -> dict[str, float]:
    """Seconds of the processor for one run: of this process, which has the scheduler, and of the busiest worker."""
    run()
    workers = client.run(time.process_time)  # type: ignore[attr-defined]
    began = time.process_time()
    for _ in range(repeats):
        run()
    here = (time.process_time() - began) / repeats
    after = client.run(time.process_time)  # type: ignore[attr-defined]
    return {"client": here, "busiest worker": max(after[a] - workers[a] for a in workers) / repeats}


def bytes_per_evaluation(r: int, workers: int) -> dict[str, int]:
    """θ out and (value, gradient) back, as they are pickled, for workers that hold one node of the tree each."""
    question = questions.Summed("0" * 16, None, "value_grad", (np.zeros(r),))
    answer = {(0, 1): (np.zeros(1), np.zeros(r))}
    return {"out": workers * len(pickle.dumps(question, 5)), "back": workers * len(pickle.dumps(answer, 5))}


def resident_bytes() -> int:
    """Resident memory of this process that is not of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


TEXT = """\
With {n:,} samples of {m} binary variables ({r} parameters), one thread in each process, on a machine with
{processors} processors and a load of {load:.1f} at the start:

| | wall-clock | client and scheduler, CPU | busiest worker, CPU |
|---|---|---|---|
{rows}

- Two workers take {faster:.2f} of the time of one: an efficiency of {efficiency:.2f} ({efficiency_cpu:.2f} in CPU seconds).
- One worker with 32 shards needs {more:.0%} more CPU time than one process without shards: there are more calls on
  smaller arrays.
- An evaluation sends {out:.1f} kB to each worker (θ) and {back:.1f} kB back (a value and a gradient): 8 bytes for each
  parameter in each direction, for any number of samples. These are sizes of pickled messages, not measured network traffic.

**100 workers and 10⁹ samples** of these {m} variables, extrapolated from the table and not measured:

- *Work*: 10⁹ / {n:,} × {work:.3f} s = {total:.0f} CPU seconds for one evaluation, {each:.1f} s on each of 100 workers
  with one thread.
- *Overhead*: the client needs {message:.1f} ms for each worker, {messages:.1f} s in all; the workers' {answer:.0f} ms
  run at the same time. An evaluation takes about {seconds:.1f} s: an efficiency of {large_efficiency:.2f} relative to one
  worker with 32 shards, and of {alone_efficiency:.2f} relative to one process without shards. A fit of 15 evaluations takes
  about {fit:.1f} minutes (fits to 20,000 samples of such models took 6 to 15). With more than 8 workers, sums are
  added up on workers; the latency of these additional messages is not in the estimate.
- *Network*: 100 × {both:.1f} kB = {network:.1f} MB for each evaluation.
- *Memory*: a worker has {kept:.0f} bytes for each sample (growth of its resident memory in the fit, measured):
  {gigabytes:.1f} GB on each of 100 workers. The client stores no samples, only sample weights if there are any (8 bytes
  each).
- *Data*: at {m} bytes for each sample, the folder of shards has {m} GB. Reading and compiling it happens once.
- Standard errors need one Hessian and one sum of squared scores ({r} × {r}): {matrix:.1f} MB each from each
  worker, once."""


def page_text(found: dict[str, Any], load: float) -> str:
    """The table, what follows from it, and the costs of 100 workers and 10⁹ samples."""
    names = ("1 worker", "2 workers")
    working, idle = (
        [found[f"{name}, processor seconds of an {part}"] for name in names] for part in ("evaluation", "overhead")
    )
    rows = [
        f"| one process, no shards | {found['one process, seconds']:.3f} s | | {found['one process, CPU']:.3f} s |"
    ]
    for title, wall, cpu in (
        *((f"32 shards on {name}", found[f"{name}, seconds"], working[k]) for k, name in enumerate(names)),
        *(
            (f"a message to {name} without work", found[f"{name}, overhead in seconds"], idle[k])
            for k, name in enumerate(names)
        ),
    ):
        rows.append(f"| {title} | {wall:.3f} s | {cpu['client']:.3f} s | {cpu['busiest worker']:.3f} s |")
    work, sent, kept = working[0]["busiest worker"], found["1 worker, bytes"], found["bytes for each sample"]
    faster = found["2 workers, seconds"] / found["1 worker, seconds"]
    each = 1e9 / found["samples"] * work / 100
    alone = 1e9 / found["samples"] * found["one process, CPU"] / 100
    message = max(idle[1]["client"] / 2, idle[1]["client"] - idle[0]["client"])
    seconds, both = each + 100 * message, sent["out"] + sent["back"]
    return TEXT.format(
        n=found["samples"], m=found["variables"], r=found["parameters"], processors=os.cpu_count(), load=load,
        rows="\n".join(rows), faster=faster, efficiency=1 / (2 * faster),
        efficiency_cpu=work / (2 * working[1]["busiest worker"]), more=work / found["one process, CPU"] - 1,
        out=sent["out"] / 1e3, back=sent["back"] / 1e3, work=work, total=100 * each, each=each, message=1e3 * message,
        messages=100 * message, answer=1e3 * idle[0]["busiest worker"], seconds=seconds, fit=15 * seconds / 60,
        large_efficiency=each / seconds, alone_efficiency=alone / seconds, both=both / 1e3, network=100 * both / 1e6,
        kept=kept, gigabytes=kept * 1e7 / 1e9, matrix=8 * found["parameters"] ** 2 / 1e6,
    )  # fmt: skip


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200_000, help="number of samples, random (default: 200000)")
    parser.add_argument("--variables", type=int, default=40, help="number of binary variables (default: 40)")
    parser.add_argument(
        "--repeats", type=int, default=7, help="evaluations that are timed for each number (default: 7)"
    )
    parser.add_argument(
        "--page", type=Path, help="page in which the text between its marks is replaced (default: print the numbers)"
    )
    options = parser.parse_args()
    load = os.getloadavg()[0]
    model = ff.BoltzmannMachine(options.variables, biases=True)
    random = np.random.default_rng(0)
    values = random.integers(0, 2, (options.samples, options.variables)).astype(np.int8)
    theta = random.normal(0, 0.1, model.n_parameters)
    settings: dict[str, Any] = {"sigma2": 1.0, "max_iter": 0, "tol": 1e9}
    ff.set_threads(1)
    whole = ff.fit(model, values, "PL1", **settings).problem
    found: dict[str, Any] = {
        "samples": options.samples,
        "variables": options.variables,
        "parameters": model.n_parameters,
        "one process, seconds": median_seconds(lambda: whole.value_grad(theta), options.repeats),
    }
    began = time.process_time()
    for _ in range(options.repeats):
        whole.value_grad(theta)
    found["one process, CPU"] = (time.process_time() - began) / options.repeats
    for workers in (1, 2):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
            Client(cluster) as client,
        ):
            small = ff.fit(model, values[:32], "PL1", backend=client, **settings).problem
            before = sum(client.run(resident_bytes).values())
            large = ff.fit(model, values, "PL1", backend=client, **settings).problem
            if workers == 1:
                kept = (sum(client.run(resident_bytes).values()) - before) / options.samples
                found["bytes for each sample"] = kept
            name = f"{workers} worker{'s' * (workers > 1)}"
            found[f"{name}, seconds"] = median_seconds(partial(large.value_grad, theta), options.repeats)
            found[f"{name}, overhead in seconds"] = median_seconds(partial(small.value_grad, theta), options.repeats)
            for what, problem in (("evaluation", large), ("overhead", small)):
                found[f"{name}, processor seconds of an {what}"] = processor_seconds(
                    partial(problem.value_grad, theta),
                    client,
                    options.repeats,
                )
            found[f"{name}, bytes"] = bytes_per_evaluation(model.n_parameters, workers)
            del large, small, problem
    one, two = found["1 worker, seconds"], found["2 workers, seconds"]
    found["efficiency of 2 workers"] = one / (2 * two)
    print(json.dumps(found, indent=1))
    if options.page:
        text, block = options.page.read_text(encoding="utf-8"), f"{START}\n{page_text(found, load)}\n{END}"
        text = re.sub(f"{START}.*?{END}", lambda _: block, text, flags=re.DOTALL)
        options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""What a distributed evaluation costs: the overhead of a question, the bytes it moves, and the efficiency of two workers.

    python benchmarks/scaling.py [--samples 200000] [--variables 40]

The same samples are evaluated in this process with one thread, and on one and two worker processes with one thread each.
The overhead is the time of a question to shards of one sample; the efficiency is the time of one worker over twice that of
two. On a busy machine only the seconds of the processor mean something: those of the client with its scheduler, and of the
busiest worker.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fieldfit as ff
from fieldfit.shards import questions


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


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--variables", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    model = ff.BoltzmannMachine(options.variables, biases=True)
    random = np.random.default_rng(0)
    values = random.integers(0, 2, (options.samples, options.variables)).astype(np.int8)
    theta = random.normal(0, 0.1, model.n_parameters)
    settings: dict[str, Any] = {"sigma2": 1.0, "max_iter": 0, "tol": 1e9}
    ff.set_threads(1)
    whole = ff.fit(model, values, "PL1", **settings).problem
    found: dict[str, Any] = {
        "samples": options.samples,
        "parameters": model.n_parameters,
        "one process, seconds": median_seconds(lambda: whole.value_grad(theta), options.repeats),
    }
    began = time.process_time()
    for _ in range(options.repeats):
        whole.value_grad(theta)
    found["one process, processor seconds"] = (time.process_time() - began) / options.repeats
    for workers in (1, 2):
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
            Client(cluster) as client,
        ):
            large = ff.fit(model, values, "PL1", backend=client, **settings).problem
            small = ff.fit(model, values[:32], "PL1", backend=client, **settings).problem
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


if __name__ == "__main__":
    main()

"""What a plan costs the client whose samples are on workers: CPU seconds of the client and of the workers by n.

    python benchmarks/plan_in_pieces.py [--variables 12] [--shards 16] [--most 4000000] [--repeats 3]

The samples are in a folder of shards, in the same number of shards for each n, so that the number of messages is the same.
Two worker processes read them. The client's seconds are those of this process, which has the scheduler; those of the
workers are the sum over both. Medians of the repeats; the first plan of all is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import fieldfit as ff
from fieldfit.data.samples import Table
from fieldfit.shards.folder import write_folder


def blocks(model: ff.BoltzmannMachine, theta: np.ndarray, n: int, shards: int) -> Iterator[Table]:
    """``n`` samples of the model in as many tables as shards; 50,000 draws are repeated in another order."""
    drawn = model.sample(theta, min(n, 50_000), random_state=0).codes
    random = np.random.default_rng(1)
    for size in np.diff(np.linspace(0, n, shards + 1).astype(int)).tolist():
        yield Table(drawn[random.integers(len(drawn), size=size)], model.names, model.states)


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=12)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--most", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    model = ff.BoltzmannMachine(options.variables, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.3, model.n_parameters)
    sizes = [size for size in (40_000, 400_000, 4_000_000) if size <= options.most]
    print("| samples | client, CPU | workers, CPU |\n|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        for number, n in enumerate(sizes):
            data = write_folder(Path(folder) / str(n), blocks(model, theta, n, options.shards), model.states)
            seconds = []
            for _ in range(options.repeats + (number == 0)):
                workers, here = client.run(time.process_time), time.process_time()
                ff.plan(model, data, backend=client)
                here = time.process_time() - here
                after = client.run(time.process_time)
                seconds.append((here, sum(after[name] - workers[name] for name in workers)))
            own, theirs = np.median(np.array(seconds[-options.repeats :]), axis=0)
            print(f"| {n:,} | {own:.2f} s | {theirs:.2f} s |", flush=True)


if __name__ == "__main__":
    main()

"""What a plan costs the client whose samples are on workers: CPU seconds by n, and samples that come to the client.

    python benchmarks/plan_in_pieces.py [--variables 8] [--shards 16] [--most 4000000] [--repeats 3]

The samples are in a folder of shards, in the same number of shards for each n, so that the number of messages is the same.
Two worker processes read them. The survey runs in one thread of the client, whose seconds are counted; the scheduler, in
another thread of the same process, is not. Those of the workers are the sum over both. Medians of the repeats; the first
plan of all is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

import fieldfit as ff
from fieldfit.data.dataset import Dataset
from fieldfit.data.samples import Table
from fieldfit.shards.folder import write_folder
from fieldfit.shards.sharded_dataset import ShardedDataset


def blocks(model: ff.BoltzmannMachine, theta: np.ndarray, n: int, shards: int) -> Iterator[Table]:
    """``n`` samples of the model in as many tables as shards; 50,000 draws are repeated in another order."""
    drawn = model.sample(theta, min(n, 50_000), random_state=0).codes
    random = np.random.default_rng(1)
    for size in np.diff(np.linspace(0, n, shards + 1).astype(int)).tolist():
        yield Table(drawn[random.integers(len(drawn), size=size)], model.names, model.states)


def count_gathered() -> list[int]:
    """The numbers of samples that come into this process from now on."""
    numbers: list[int] = []
    subset = ShardedDataset.subset

    def counted(self: ShardedDataset, rows: ArrayLike) -> Dataset:
        some = subset(self, rows)
        numbers.append(some.n)
        return some

    ShardedDataset.subset = counted  # type: ignore[method-assign]
    return numbers


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variables", type=int, default=8)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--most", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    model = ff.BoltzmannMachine(options.variables, biases=True)
    theta = np.random.default_rng(0).normal(0, 0.3, model.n_parameters)
    gathered = count_gathered()
    sizes = [size for size in (40_000, 400_000, 4_000_000) if size <= options.most]
    print("| samples | survey in the client, CPU | samples that came to it | workers, CPU |\n|---|---|---|---|")
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        for number, n in enumerate(sizes):
            data = write_folder(Path(folder) / str(n), blocks(model, theta, n, options.shards), model.states)
            seconds = []
            for _ in range(options.repeats + (number == 0)):
                gathered.clear()
                workers, here = client.run(time.process_time), time.thread_time()
                with ff.use_threads(1):
                    ff.plan(model, data, backend=client)
                here = time.thread_time() - here
                after = client.run(time.process_time)
                seconds.append((here, sum(after[name] - workers[name] for name in workers)))
            own, theirs = np.median(np.array(seconds[-options.repeats :]), axis=0)
            print(f"| {n:,} | {own:.2f} s | {sum(gathered):,} | {theirs:.2f} s |", flush=True)


if __name__ == "__main__":
    main()

"""One and two threads, on the machine as it is and with a process that keeps one core busy.

    python benchmarks/busy_threads.py [--sentences N]

One evaluation of a chain CRF on CoNLL-2000; both take turns, and the ratio of each turn (seconds with one thread over
seconds with two, on the wall) is shown with its spread. CPU seconds show whether waiting threads spin. The last line of
each block has OpenMP's own default (OMP_WAIT_POLICY unset, long spins) for comparison. Needs FIELDFIT_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
from chain_corpora import corpus, crfsuite_like, plain

import fieldfit as ff
from fieldfit.models.chain_problem import ChainProblem

TURNS, EVALUATIONS = 9, 8


def measure(sentences: int) -> None:
    _, data, _ = corpus("conll", sentences)
    model = crfsuite_like(data, "observed")
    problem = ChainProblem(model.layout, data, plain(0))
    theta, out = np.zeros(model.n_parameters), np.empty(model.n_parameters)
    wall: dict[int, list[float]] = {1: [], 2: []}
    processor: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(TURNS + 1):
        for threads in (1, 2):
            ff.set_threads(threads)
            start, used = time.perf_counter(), time.process_time()
            for _ in range(EVALUATIONS):
                problem.value_grad(theta, out=out)
            if turn:
                wall[threads].append((time.perf_counter() - start) / EVALUATIONS)
                processor[threads].append((time.process_time() - used) / EVALUATIONS)
    ratios = sorted(one / two for one, two in zip(wall[1], wall[2], strict=True))
    answer = {
        "wall": [1e3 * float(np.median(wall[t])) for t in (1, 2)],
        "cpu": [1e3 * float(np.median(processor[t])) for t in (1, 2)],
        "ratio": [float(np.median(ratios)), ratios[0], ratios[-1]],
    }
    print(json.dumps(answer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        measure(options.sentences)
        return
    for busy in (False, True):
        print("with a process that keeps one core busy" if busy else "the machine as it is", end="")
        print(f" (load {os.getloadavg()[0]:.1f})")
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
        try:
            for title, environment in (("fieldfit", {}), ("long spins", {"GOMP_SPINCOUNT": "300000"})):
                done = subprocess.run(
                    [sys.executable, __file__, "--child", "--sentences", str(options.sentences)],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, **environment},
                )
                row = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"  {title:11s} one thread {row['wall'][0]:6.1f} ms (CPU {row['cpu'][0]:6.1f}), two "
                    f"{row['wall'][1]:6.1f} ms (CPU {row['cpu'][1]:6.1f}); one / two {row['ratio'][0]:.2f} "
                    f"({row['ratio'][1]:.2f} to {row['ratio'][2]:.2f})"
                )
        finally:
            if other is not None:
                other.kill()
                other.wait()


if __name__ == "__main__":
    main()

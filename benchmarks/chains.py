"""Linear-chain CRFs against CRFsuite, on CoNLL-2000 with the paper's seven features.

    python benchmarks/chains.py evaluations   one FL, PL1, PL2 evaluation, and where its time goes
    python benchmarks/chains.py race          time to CRFsuite's objective, peak memory
    python benchmarks/chains.py labels        one FL evaluation against the number of labels, with the machine's limit

Needs python-crfsuite and FIELDFIT_DATA. Every ratio is taken in one run; seconds differ between machines. CRFsuite
reports processor seconds (it has one thread). With FIELDFIT_BENCHMARK_CLOCK=cpu so do we, which makes runs on one thread
comparable on a busy machine; otherwise ours are seconds on the wall.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from fieldfit import _kernels
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import read_columns
from fieldfit.data.locate import find_data
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem, Windows
from fieldfit.threads import get_threads, set_threads

SIGMA2 = 1.0
clock = time.process_time if os.environ.get("FIELDFIT_BENCHMARK_CLOCK") == "cpu" else time.perf_counter
LAYOUTS = ("observed", "all")


def best_time(run: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def conll() -> Sequences:
    return ColumnEncoder.fit(read_columns(find_data("conll2000/train.txt")), "conll2000")[1]


def crfsuite_like(data: Sequences, layout: str) -> ChainCRF:
    model = ChainCRF(data.n_labels, data.n_features, pairs=layout, transitions=layout, start=False, end=False)
    return model.observe(data)


def plain(width: int) -> tuple[Windows, ...]:
    return (Windows(width, 1.0, None, None, None),)


def evaluations() -> None:
    data = conll()
    print(f"{data.n_sequences} sentences, {data.n_tokens} tokens, {data.n_labels} labels, {data.n_features} features")
    for layout in LAYOUTS:
        model = crfsuite_like(data, layout)
        theta = np.random.default_rng(0).normal(size=model.n_parameters) * 0.1
        gradient = np.empty_like(theta)
        tokens = data.n_tokens
        for threads in (1, get_threads()):
            set_threads(threads)
            for name, width in (("FL", 0), ("PL1", 1), ("PL2", 2)):
                start = clock()
                problem = ChainProblem(model.layout, data, plain(width))
                compiled = clock() - start
                scores = np.empty((tokens, model.layout.padded))
                weights = model.layout.unpack(theta)
                scoring = best_time(
                    lambda p=problem, w=weights, s=scores: _kernels.chain_scores(p._tokens, w, s, get_threads())
                )
                forward = best_time(lambda p=problem, x=theta: p.row_values(x))
                values, residuals = np.empty(data.n_sequences), np.empty((tokens, model.layout.padded))
                no_gradient = best_time(
                    lambda p=problem, w=weights, v=values, r=residuals: _kernels.chain_evaluate(
                        p._tokens, w, None, list(p.families), None, True, False, v, None, r, None, get_threads()
                    )
                )
                whole = best_time(lambda p=problem, x=theta, g=gradient: p.value_grad(x, out=g))
                print(
                    f"{layout:9s} {name:4s} {threads} threads  {1e3 * whole:6.1f} ms = scoring {1e3 * scoring:5.1f} + "
                    f"forward {1e3 * (forward - scoring):5.1f} + backward {1e3 * (no_gradient - forward):5.1f} + "
                    f"gradient by feature {1e3 * (whole - no_gradient):5.1f}   (compile {1e3 * compiled:.0f} ms)"
                )
        set_threads(None)


def run_peer(layout: str, iterations: int) -> dict[str, object]:
    """CRFsuite in this process: objective and seconds at each iteration."""
    import pycrfsuite

    data = conll()
    everything = layout == "all"
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    names = np.array([f"f{i}" for i in range(data.n_features)], dtype=object)[data.indices].tolist()
    labels = np.array([f"y{y}" for y in range(data.n_labels)], dtype=object)[data.labels].tolist()
    for a, b in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
        rows = [names[data.indptr[t] : data.indptr[t + 1]] for t in range(a, b)]
        trainer.append(rows, labels[a:b])
    del names, labels
    trainer.set_params(
        {
            "c1": 0.0,
            "c2": 1 / (2 * SIGMA2),
            "max_iterations": iterations,
            "epsilon": 0.0,
            "delta": 0.0,
            "period": 10_000,
            "feature.possible_states": everything,
            "feature.possible_transitions": everything,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
    lines = trainer.logparser.iterations
    seconds = np.cumsum([float(line["time"]) for line in lines]).tolist()
    return {"losses": [float(line["loss"]) for line in lines], "seconds": seconds}


def run_own(layout: str, iterations: int, threads: int) -> dict[str, object]:
    """fieldfit in this process: compiling counts."""
    from fieldfit.optim.lbfgs import minimise_lbfgs

    data = conll()
    set_threads(threads)
    start = clock()
    model = crfsuite_like(data, layout)
    problem = ChainProblem(model.layout, data, plain(0))
    gradient = np.empty(model.n_parameters)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, _ = problem.value_grad(theta, out=gradient)
        return penalised(theta, value, gradient)

    losses, seconds = [], []

    def note(progress: object, _: np.ndarray) -> bool:
        losses.append(progress.value)  # type: ignore[attr-defined]
        seconds.append(clock() - start)
        return False

    minimise_lbfgs(objective, np.zeros(model.n_parameters), gtol=0.0, max_iter=iterations, history=6, callback=note)
    return {"losses": losses, "seconds": seconds}


def penalised(theta: np.ndarray, value: float, gradient: np.ndarray) -> tuple[float, np.ndarray]:
    """−(log-likelihood) + ‖θ‖²/(2σ²) and its gradient, in place."""
    np.subtract(theta / SIGMA2, gradient, out=gradient)
    return float(theta @ theta) / (2 * SIGMA2) - value, gradient


def child(arguments: list[str]) -> dict[str, object]:
    """Run one contestant in a process of its own, so that its memory is its own."""
    answer = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True, env=os.environ
    )
    return json.loads(answer.stdout.splitlines()[-1])


def race(iterations: int) -> None:
    for layout in LAYOUTS:
        peer = child(["peer", layout, str(iterations)])
        target = min(peer["losses"])
        reached = next(s for s, v in zip(peer["seconds"], peer["losses"], strict=True) if v <= target * (1 + 1e-4))
        print(
            f"{layout:9s} CRFsuite        {reached:6.2f} s to {target:.1f} ({len(peer['losses'])} iterations, "
            f"{reached / len(peer['losses']):.3f} s each), {peer['memory']:.0f} MB"
        )
        for threads in (1, get_threads()):
            own = child(["own", layout, str(2 * iterations), str(threads)])
            times = [s for s, v in zip(own["seconds"], own["losses"], strict=True) if v <= target * (1 + 1e-4)]
            if not times:
                print(f"{layout:9s} fieldfit {threads} threads: stopped at {min(own['losses']):.1f}")
                continue
            count = own["seconds"].index(times[0])
            print(
                f"{layout:9s} fieldfit {threads} thr. {times[0]:6.2f} s to the same ({count} iterations, "
                f"{times[0] / max(count, 1):.3f} s each), {own['memory']:.0f} MB: {reached / times[0]:.1f} times faster"
            )


def labels() -> None:
    rng = np.random.default_rng(0)
    n = 2048
    a, b = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    limit = 2 * n**3 / best_time(lambda: a @ b, 3) / 1e9
    print(f"matrix product of this machine: {limit:.0f} GF/s")
    for count in (10, 22, 50, 100, 200, 400):
        tokens = max(4000, min(40_000, 40_000_000 // count**2))
        lengths = rng.integers(10, 40, tokens // 25)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        tokens = int(offsets[-1])
        indices = rng.zipf(1.3, tokens * 7) % 20_000
        data = Sequences(
            offsets,
            np.arange(tokens + 1) * 7,
            indices.astype(np.int32),
            None,
            rng.integers(0, count, tokens).astype(np.int32),
            20_000,
            count,
        )
        model = ChainCRF(count, 20_000, pairs="all")
        problem = ChainProblem(model.layout, data, plain(0))
        theta = rng.normal(size=model.n_parameters) * 0.1
        gradient = np.empty_like(theta)
        seconds = best_time(lambda p=problem, t=theta, g=gradient: p.value_grad(t, out=g), 4)
        values, residuals = np.empty(data.n_sequences), np.empty((tokens, model.layout.padded))
        scores = np.empty((tokens, model.layout.padded))
        weights = model.layout.unpack(theta)
        scoring = best_time(
            lambda p=problem, w=weights, s=scores: _kernels.chain_scores(p._tokens, w, s, get_threads()), 4
        )
        recursion = (
            best_time(
                lambda p=problem, w=weights, v=values, r=residuals: _kernels.chain_evaluate(
                    p._tokens, w, None, list(p.families), None, True, False, v, None, r, None, get_threads()
                ),
                4,
            )
            - scoring
        )
        flops = 3 * 2 * count**2 * tokens
        print(
            f"K = {count:3d}: {1e6 * seconds / tokens:7.2f} µs a token, recursion {1e6 * recursion / tokens:7.2f} µs at "
            f"{flops / recursion / 1e9:5.1f} GF/s = {flops / recursion / 1e9 / limit:.0%} of the matrix product"
        )


def main(arguments: list[str]) -> None:
    what = arguments[0] if arguments else "evaluations"
    if what == "evaluations":
        evaluations()
    elif what == "race":
        race(int(arguments[1]) if len(arguments) > 1 else 100)
    elif what == "labels":
        labels()
    elif what in ("peer", "own"):
        numbers = [int(number) for number in arguments[2:]]
        result = run_peer(arguments[1], *numbers) if what == "peer" else run_own(arguments[1], *numbers)
        result["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(result))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])

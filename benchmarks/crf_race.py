"""CRFTagger against CRFsuite: time to the same objective, memory, test F1, and tagging speed.

    python benchmarks/crf_race.py [--sentences N] [--iterations N] [--only conll|atis|tagging]

CoNLL-2000 with the paper's seven features and 22 labels, and ATIS (121 labels, words and neighbours); full likelihood,
‖w‖²/2 (σ² = 1, which is CRFsuite's c2 = 1/2), CRFsuite's model exactly (no start or end weights), observed pairs and
all pairs. The peer runs ``--iterations`` iterations; its target is the objective where it ends, and both clocks stop when
they are within 1e-4 of it. Every contestant is a process of its own, and its memory is the peak of that process above what
it had when the sentences were read and encoded. Clocks start when the trainer is called: what it compiles counts, reading
does not. CRFsuite has one thread and reports processor seconds; on one thread so do we, which holds on a busy machine too,
and on two threads ours are seconds on the wall, so that needs a quiet one. Needs python-crfsuite, FIELDFIT_DATA and Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fieldfit.data.chunks import chunk_scores
from fieldfit.data.column_encoder import ColumnEncoder
from fieldfit.data.columns import ColumnText, read_columns
from fieldfit.data.locate import find_data
from fieldfit.data.sequences import Sequences
from fieldfit.data.templates import parse_templates

SIGMA2 = 1.0
CLOSE = 1e-4
ATIS = """
U:word=%x[0,0]
U:word-1=%x[-1,0]
U:word+1=%x[1,0]
U:word-1,word=%x[-1,0],%x[0,0]
U:word,word+1=%x[0,0],%x[1,0]
B
"""
CORPORA = {
    "conll": ("conll2000/train.txt", "conll2000/test.txt"),
    "atis": ("sequences/atis_train.txt", "sequences/atis_test.txt"),
}


def corpus(name: str, sentences: int | None) -> tuple[ColumnEncoder, Sequences, ColumnText]:
    """The encoder, the (first) training sentences in codes of their own, and the test text."""
    train, test = (read_columns(find_data(file)) for file in CORPORA[name])
    if sentences is not None and sentences < train.n_sentences:
        stop = int(train.offsets[sentences])
        codes = tuple(column[:stop] for column in train.codes)
        train = ColumnText(train.offsets[: sentences + 1], codes, train.values, train.lines[:stop], train.sources)
    encoder, data = ColumnEncoder.fit(train, "conll2000" if name == "conll" else parse_templates(ATIS))
    return encoder, data, test


def memory() -> tuple[float, float]:
    """What this process has now and the most that it has had since `forget_peak`, in MB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(status[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))  # type: ignore[return-value]


def forget_peak() -> float:
    """Start the peak anew (Linux); returns what the process has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory()[0]


def items(data: Sequences) -> list[list[list[str]]]:
    """The features of each token as names, as CRFsuite takes them."""
    names = np.array([f"f{i}" for i in range(data.n_features)], dtype=object)[data.indices].tolist()
    bounds = data.indptr.tolist()
    tokens = [names[a:b] for a, b in pairwise(bounds)]
    offsets = data.offsets.tolist()
    return [tokens[a:b] for a, b in pairwise(offsets)]


def by_sentence(flat: list[Any], offsets: np.ndarray) -> list[list[Any]]:
    bounds = offsets.tolist()
    return [flat[a:b] for a, b in pairwise(bounds)]


def score(encoder: ColumnEncoder, test: ColumnText, predicted: list[list[str]]) -> float:
    return 100 * chunk_scores(test.sentences(encoder.label_column), predicted).f1


def run_peer(name: str, layout: str, sentences: int | None, iterations: int) -> dict[str, Any]:
    """CRFsuite: objective and seconds at each iteration, memory, F1 and tagging speed."""
    import pycrfsuite

    encoder, data, test = corpus(name, sentences)
    labels = [str(label) for label in encoder.labels]
    before = forget_peak()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    tags = by_sentence(np.array(labels, dtype=object)[data.labels].tolist(), data.offsets)
    for sentence, own in zip(items(data), tags, strict=True):
        trainer.append(sentence, own)
    everything = layout == "all"
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
        path = str(Path(folder) / "model")
        trainer.train(path)
        used = memory()[1] - before
        lines = trainer.logparser.iterations
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        encoded = encoder.encode(test)
        given = items(encoded)
        start = time.perf_counter()
        predicted = [tagger.tag(sentence) for sentence in given]
        seconds = time.perf_counter() - start
        tagger.close()
    return {
        "losses": [float(line["loss"]) for line in lines],
        "seconds": np.cumsum([float(line["time"]) for line in lines]).tolist(),
        "memory": used,
        "f1": score(encoder, test, predicted),
        "tagging": encoded.n_tokens / seconds,
    }


def run_own(name: str, layout: str, sentences: int | None, iterations: int, threads: int) -> dict[str, Any]:
    """fieldfit, through `ff.fit`."""
    import fieldfit as ff
    from fieldfit.types import ConvergenceWarning

    ff.set_threads(threads)
    chain_crf, fit_model = ff.ChainCRF, ff.fit  # names are loaded when first used, and imports are not timed
    encoder, data, test = corpus(name, sentences)
    before = forget_peak()
    losses: list[float] = []
    seconds: list[float] = []
    cpu: list[float] = []
    start, start_cpu = time.perf_counter(), time.process_time()

    def note(state: Any) -> None:
        losses.append(state.value)
        seconds.append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)

    model = chain_crf(data.n_labels, data.n_features, pairs=layout, transitions=layout, start=False, end=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = fit_model(model, data, "FL", sigma2=SIGMA2, tol=1e-12, max_iter=iterations, progress=note)
    used = memory()[1] - before
    chain = fit.model
    assert isinstance(chain, chain_crf)
    encoded = encoder.encode(test)
    codes = chain.predict(fit.theta, encoded)
    names = np.array([str(label) for label in encoder.labels], dtype=object)
    predicted = by_sentence(names[codes].tolist(), encoded.offsets)
    return {
        "losses": losses,
        "seconds": seconds,
        "cpu": cpu,
        "memory": used,
        "f1": score(encoder, test, predicted),
    }


def run_tagging(sentences: int | None) -> None:
    """Tokens a second from Python: the same feature lists and dicts in, lists of labels out."""
    import pycrfsuite

    import fieldfit as ff

    encoder, data, test = corpus("conll", sentences)
    names = [str(label) for label in encoder.labels]
    X = items(data)
    y = by_sentence(np.array(names, dtype=object)[data.labels].tolist(), data.offsets)
    given = items(encoder.encode(test)) * 3
    tokens = sum(map(len, given))
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, own in zip(X, y, strict=True):
        trainer.append(sentence, own)
    trainer.set_params({"c1": 0.0, "c2": 0.5, "max_iterations": 15})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tagger = ff.CRFTagger(sigma2=SIGMA2, crfsuite_compatible=True, max_iter=15).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
        peer = pycrfsuite.Tagger()
        peer.open(str(Path(folder) / "model"))
        as_dicts = [[dict.fromkeys(token, 1.0) for token in sentence] for sentence in given]
        for kind, sentences_in in (("lists", given), ("dicts", as_dicts)):
            theirs, ours = [], []
            for _ in range(3):
                start = time.perf_counter()
                for sentence in sentences_in:
                    peer.tag(sentence)
                theirs.append(time.perf_counter() - start)
                start = time.perf_counter()
                tagger.predict(sentences_in)
                ours.append(time.perf_counter() - start)
            print(
                f"tagging {kind}: CRFsuite {tokens / min(theirs):,.0f} tokens/s, fieldfit {tokens / min(ours):,.0f}: "
                f"{min(theirs) / min(ours):.2f} times"
            )
        peer.close()


def child(arguments: list[str]) -> dict[str, Any]:
    """One contestant in a process of its own."""
    answer = subprocess.run(
        [sys.executable, __file__, "--child", *arguments], check=True, capture_output=True, text=True, env=os.environ
    )
    result: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return result


def reached(run: dict[str, Any], target: float) -> tuple[int, float] | None:
    """Iteration and seconds at which the objective is within 1e-4 of the target."""
    for iteration, (loss, seconds) in enumerate(zip(run["losses"], run["seconds"], strict=True)):
        if loss <= target * (1 + CLOSE):
            return iteration, seconds
    return None


def race(name: str, layout: str, sentences: int | None, iterations: int) -> None:
    shared = [name, layout, str(sentences or 0)]
    peer = child(["peer", *shared, str(iterations)])
    target = min(peer["losses"])
    found = reached(peer, target)
    assert found is not None
    count, theirs = found
    print(
        f"{name} {layout:9s} CRFsuite            {theirs:7.2f} s to {target:.1f} ({count + 1} iterations), "
        f"{peer['memory']:5.0f} MB, F1 {peer['f1']:.2f}, tags {peer['tagging']:,.0f} tokens/s"
    )
    for threads in (1, 2):
        own = child(["own", *shared, str(2 * iterations), str(threads)])
        if threads == 1:
            own["seconds"] = own["cpu"]
        reach = reached(own, target)
        if reach is None:
            print(f"{name} {layout:9s} fieldfit {threads} threads: stopped at {min(own['losses']):.1f}")
            continue
        print(
            f"{name} {layout:9s} fieldfit, {threads} thread{'s' if threads > 1 else ' '} {reach[1]:7.2f} s to the same "
            f"({reach[0]} iterations), {own['memory']:5.0f} MB, F1 {own['f1']:.2f}: "
            f"{theirs / reach[1]:.2f} times faster, {own['memory'] / max(peer['memory'], 1e-9):.2f} of the memory"
        )


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        who, name, layout, sentences, *numbers = sys.argv[2:]
        run = run_peer if who == "peer" else run_own
        print(json.dumps(run(name, layout, int(sentences) or None, *map(int, numbers))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="use the first N training sentences (all)")
    parser.add_argument("--iterations", type=int, default=100, help="iterations of the peer")
    parser.add_argument("--only", choices=["conll", "atis", "tagging"], default=None)
    options = parser.parse_args()
    if options.only in (None, "conll"):
        for layout in ("observed", "all"):
            race("conll", layout, options.sentences, options.iterations)
    if options.only in (None, "atis"):
        race("atis", "observed", options.sentences, options.iterations)
    if options.only in (None, "tagging"):
        run_tagging(options.sentences)


if __name__ == "__main__":
    main()

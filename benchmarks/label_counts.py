"""One FL evaluation (value and gradient) of a chain CRF against the number of labels K and of tokens n.

    python benchmarks/label_counts.py [--tokens N ...] [--labels K ...] [--figure FILE]

Synthetic sentences of 10 to 39 tokens with F = 7 features each (Zipf), every feature–label pair a weight. Beside each
time stands what this machine would need, its rates measured in the same run:

    products   3 · 2K²·n operations (forward, backward, sum of edge marginals) at the rate of a large matrix product
    limit      products + K·n exponentials + (2F + 2)·8K·n bytes + 16 bytes a weight at the rate of a large copy

(2F + 2 rows of K doubles a token: F rows of weights are read for the scores, F rows of residuals are summed for the
gradient, and the residuals are written and read once; each weight is read and its gradient written.) No kernel in doubles
can beat the products alone. The limit assumes that rows come from memory and that nothing overlaps, so for small K a
cache can beat it. CRFsuite's time is that of its fastest iteration for each evaluation in it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from chain_corpora import crfsuite_trainer, plain
from measure import best_times, copy_rate, exp_rate, product_rate

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_crf import ChainCRF
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.threads import get_threads

FEATURES = 7
LABELS = (10, 22, 45, 90, 121, 200, 300, 400)
TOKENS = (2_000, 20_000, 100_000)
PEER_TOKENS, PEER_LABELS = 2_000, (10, 45, 121, 400)
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "chain-evaluation.png"


def sentences(tokens: int, labels: int) -> Sequences:
    """About this number of tokens, with as many features as were drawn."""
    rng = np.random.default_rng(tokens)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(10, 40, max(1, 2 * tokens // 49)))))
    n = int(offsets[-1])
    drawn, indices = np.unique(rng.zipf(1.3, n * FEATURES) % 20_000, return_inverse=True)
    pointer = np.arange(n + 1) * FEATURES
    codes = rng.integers(0, labels, n).astype(np.int32)
    return Sequences(offsets, pointer, indices.astype(np.int32), None, codes, len(drawn), labels)


def evaluation_times(data: Sequences) -> tuple[float, float, int]:
    """Seconds of one evaluation, and of its recursion (forward and backward with edges); the number of weights."""
    model = ChainCRF(data.n_labels, data.n_features, pairs="all", start=False, end=False)
    layout = model.layout
    problem = ChainProblem(layout, data, plain(0))
    theta = np.random.default_rng(1).normal(size=model.n_parameters) * 0.1
    gradient, weights = np.empty_like(theta), layout.unpack(theta)
    scores, residuals = np.empty((data.n_tokens, layout.padded)), np.empty((data.n_tokens, layout.padded))
    values, tokens, families = np.empty(data.n_sequences), problem.tokens, list(problem.families)
    work = data.n_tokens * data.n_labels**2
    whole, scoring, without_gradient = best_times(
        lambda: problem.value_grad(theta, out=gradient),
        lambda: _kernels.chain_scores(tokens, weights, scores=scores, n_threads=get_threads()),
        lambda: _kernels.chain_evaluate(
            tokens,
            weights,
            direction=None,
            families=families,
            row_weight=None,
            observed=True,
            squares=False,
            values=values,
            tangents=None,
            residuals=residuals,
            gradient=None,
            n_threads=get_threads(),
        ),
        repeats=2 if work > 4e9 else 3 if work > 5e8 else 7,
    )
    return whole, without_gradient - scoring, model.n_parameters


def peer_time(data: Sequences) -> float:
    """Seconds of one evaluation inside CRFsuite, with every pair a weight too."""
    trainer = crfsuite_trainer(data, [f"y{y}" for y in range(data.n_labels)], "all", 4)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
    lines = trainer.logparser.iterations
    return min(float(line["time"]) / int(line.get("linesearch_trials", 1)) for line in lines)


def draw(rows: list[dict[str, float]], path: Path, machine: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 5.2), layout="constrained")
    for number, tokens in enumerate(sorted({row["asked"] for row in rows})):
        part = [row for row in rows if row["asked"] == tokens]
        labels = [row["labels"] for row in part]
        colour = f"C{number}"
        axes.plot(labels, [1e3 * row["seconds"] for row in part], "o-", color=colour, label=f"{tokens:,} tokens")
        axes.plot(labels, [1e3 * row["limit"] for row in part], "--", color=colour, linewidth=1.2)
        axes.plot(labels, [1e3 * row["products"] for row in part], ":", color=colour, linewidth=1.2)
        peer = [row for row in part if "peer" in row]
        if peer:
            axes.plot(
                [row["labels"] for row in peer],
                [1e3 * row["peer"] for row in peer],
                "x",
                color=colour,
                markersize=8,
                label=f"CRFsuite, {tokens:,} tokens",
            )
    axes.plot([], [], "--", color="0.3", label="limit: products, exponentials, rows")
    axes.plot([], [], ":", color="0.3", label="products alone")
    shown = sorted({int(row["labels"]) for row in rows})
    axes.set(xscale="log", yscale="log", xlabel="labels K", ylabel="milliseconds", xticks=shown)
    axes.set_xticklabels([str(count) for count in shown])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.set_title(f"One FL evaluation, value and gradient\n{machine}", fontsize=10)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=list(TOKENS))
    parser.add_argument("--labels", type=int, nargs="+", default=list(LABELS))
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    rates = [product_rate()]
    bandwidth, exponentials = copy_rate(), exp_rate()
    rows: list[dict[str, float]] = []
    for tokens in options.tokens:
        for labels in options.labels:
            data = sentences(tokens, labels)
            seconds, recursion, weights = evaluation_times(data)
            row = {"asked": tokens, "tokens": data.n_tokens, "labels": labels, "weights": weights}
            rows.append(row | {"seconds": seconds, "recursion": recursion})
            if tokens == PEER_TOKENS and labels in PEER_LABELS:
                rows[-1]["peer"] = peer_time(data)
        rates.append(product_rate())
    rate = max(rates)
    machine = (
        f"threads: {get_threads()}; product {rate / 1e9:.0f} GF/s, copy {bandwidth / 1e9:.0f} GB/s, "
        f"exp {exponentials / 1e9:.1f} G/s"
    )
    print(machine)
    print(
        f"{'tokens':>7s} {'K':>4s} {'weights':>10s} {'ms':>8s} {'limit ms':>9s} {'of limit':>9s} {'recursion ms':>13s} "
        f"{'products ms':>12s} {'of products':>12s} {'CRFsuite ms':>12s}"
    )
    for row in rows:
        n, K = row["tokens"], row["labels"]
        row["products"] = 6 * K**2 * n / rate
        moved = (2 * FEATURES + 2) * 8 * K * n + 16 * row["weights"]
        row["limit"] = row["products"] + K * n / exponentials + moved / bandwidth
        peer = f"{1e3 * row['peer']:12.1f} ({row['peer'] / row['seconds']:.1f}x)" if "peer" in row else ""
        print(
            f"{n:7,.0f} {K:4.0f} {row['weights']:10,.0f} {1e3 * row['seconds']:8.2f} {1e3 * row['limit']:9.2f} "
            f"{row['limit'] / row['seconds']:9.0%} {1e3 * row['recursion']:13.2f} {1e3 * row['products']:12.2f} "
            f"{row['products'] / row['recursion']:12.0%} {peer}"
        )
    low = [row for row in rows if row["labels"] >= 200 and row["limit"] < row["seconds"] / 2]
    large = [row for row in rows if row["labels"] >= 200]
    if large:
        print(f"K of 200 and more: {len(large) - len(low)} of {len(large)} cells at half of the limit or better.")
    draw(rows, options.figure, machine)


if __name__ == "__main__":
    main()

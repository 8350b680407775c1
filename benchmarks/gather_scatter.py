"""One PL1 evaluation on ATIS (121 labels) against the gathers and scatters that its features cost, line by line.

    python benchmarks/gather_scatter.py [--sentences N]

The score of a token is the sum of the weights of its features (a gather for each token, feature and label), and the
gradient is the sum of the tokens' residuals over each feature (a scatter for each). The bare work is done by SciPy's
sparse products over the same entries, split over as many threads as ours: with every pair a weight, a matrix of tokens ×
features times a dense one with a column for each label, and its transpose; with observed pairs, a matrix of (token, label)
× pairs times the weights, and its transpose. Our own gather and scatter is an evaluation in which no window is selected.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from chain_corpora import LAYOUTS, corpus, crfsuite_like, plain
from measure import best_times, copy_rate, exp_rate
from scipy.sparse import csr_array
from scipy.sparse._sparsetools import csr_matvec, csr_matvecs  # what `@` calls, without a fresh output each time

from fieldfit import _kernels
from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_layout import ChainLayout
from fieldfit.models.chain_problem import ChainProblem
from fieldfit.threads import get_threads, set_threads
from fieldfit.types import FloatArray


def entries(layout: ChainLayout, data: Sequences) -> csr_array:
    """Tokens × features, or with observed pairs (token, label) × pairs: a 1 for each weight that a score adds up."""
    if layout.pair_ptr is None or layout.pair_labels is None:
        ones = np.ones(len(data.indices))
        return csr_array((ones, data.indices, data.indptr.astype(np.int32)), (data.n_tokens, data.n_features))
    counts = np.diff(layout.pair_ptr)[data.indices]
    begins = np.cumsum(counts) - counts
    pairs = np.arange(counts.sum()) + np.repeat(layout.pair_ptr[:-1][data.indices] - begins, counts)
    tokens = np.repeat(np.repeat(np.arange(data.n_tokens), np.diff(data.indptr)), counts)
    rows = tokens * data.n_labels + layout.pair_labels[pairs]
    size = (data.n_tokens * data.n_labels, layout.n_state)
    return csr_array((np.ones(len(rows)), (rows, pairs)), size)


def split_product(matrix: csr_array, dense: FloatArray, pool: ThreadPoolExecutor) -> Callable[[], object]:
    """matrix @ dense with the rows split over the threads by the number of entries, into memory that is there already."""
    threads = get_threads()
    cuts = np.searchsorted(matrix.indptr, np.linspace(0, matrix.nnz, threads + 1)[1:-1])
    bounds = [0, *cuts.tolist(), matrix.shape[0]]
    parts = [matrix[a:b] for a, b in pairwise(bounds)]
    columns = 1 if dense.ndim == 1 else dense.shape[1]
    outputs = [np.zeros(part.shape[0] * columns) for part in parts]
    flat = dense.reshape(-1)

    def run(part: csr_array, output: FloatArray) -> None:
        output.fill(0.0)
        if dense.ndim == 1:
            csr_matvec(*part.shape, part.indptr, part.indices, part.data, flat, output)
        else:
            csr_matvecs(*part.shape, columns, part.indptr, part.indices, part.data, flat, output)

    return lambda: list(pool.map(run, parts, outputs))


def reckon(data: Sequences, layout_name: str, threads: int, bandwidth: float) -> None:
    model = crfsuite_like(data, layout_name)
    layout = model.layout
    problem = ChainProblem(layout, data, plain(1))
    rng = np.random.default_rng(0)
    theta = rng.normal(size=model.n_parameters) * 0.1
    matrix = entries(layout, data)
    transposed = csr_array(matrix.T.tocsr())
    dense = layout.pair_ptr is None
    shape = (data.n_tokens, data.n_labels) if dense else (data.n_tokens * data.n_labels,)
    weights = theta[: layout.n_state].reshape(-1, data.n_labels) if dense else theta[: layout.n_state]
    residuals = rng.normal(size=shape)
    unpacked, gradient = layout.unpack(theta), np.empty_like(theta)
    scores, room = np.empty((data.n_tokens, layout.padded)), np.empty((data.n_tokens, layout.padded))
    square, rows, values = np.empty((layout.padded,) * 2), np.empty((3, layout.padded)), np.empty(data.n_sequences)
    nothing = [plain(1)[0]._replace(rows=np.zeros(data.n_sequences, np.uint8))]
    outputs = (gradient[: layout.n_state], square, rows[0], rows[1], np.empty(0))
    with ThreadPoolExecutor(threads) as pool:
        bare_gather, bare_scatter, gather, empty, whole = best_times(
            split_product(matrix, weights, pool),
            split_product(transposed, residuals, pool),
            lambda: _kernels.chain_scores(problem.tokens, unpacked, scores=scores, n_threads=threads),
            lambda: _kernels.chain_evaluate(
                problem.tokens,
                unpacked,
                direction=None,
                families=nothing,
                row_weight=None,
                observed=True,
                squares=False,
                values=values,
                tangents=None,
                residuals=room,
                gradient=outputs,
                n_threads=threads,
            ),
            lambda: problem.value_grad(theta, out=gradient),
        )
    exponentials = data.n_tokens * layout.padded / exp_rate()
    own = empty - exponentials
    count = matrix.nnz * (data.n_labels if dense else 1)
    moved = 8 * 2 * (count + data.n_tokens * data.n_labels) + 16 * layout.n_state
    print(f"{layout_name} pairs, {threads} thread{'s' if threads > 1 else ''}, {layout.n_state:,} state weights")
    print(f"  {len(data.indices):11,d} (token, feature) entries of {data.n_tokens:,} tokens, {data.n_labels} labels")
    print(f"  {count:11,d} gathers of a weight, as many scatters of a residual (token, feature, label)")
    print(
        f"  {moved / 1e6:11.0f} MB: 8 bytes for each, the scores and residuals written and read, weights and gradient once;"
        f" {1e3 * moved / bandwidth:.1f} ms at {bandwidth / 1e9:.0f} GB/s"
    )
    print(f"  {1e3 * bare_gather:8.2f} ms bare gather (SciPy)")
    print(f"  {1e3 * bare_scatter:8.2f} ms bare scatter (SciPy)")
    print(f"  {1e3 * gather:8.2f} ms our gather (scores)")
    print(f"  {1e3 * (own - gather):8.2f} ms our scatter (gradient by feature, with clearing the residuals)")
    print(f"  {1e3 * exponentials:8.2f} ms {data.n_tokens * layout.padded:,} exponentials")
    print(f"  {1e3 * (whole - empty):8.2f} ms the rest: a softmax for each token, residuals, transitions")
    bare = bare_gather + bare_scatter
    print(
        f"  {1e3 * whole:8.2f} ms one PL1 evaluation = {whole / bare:.2f} of the bare gather and scatter, "
        f"{whole / own:.2f} of our own (goal: at most 2)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None, help="use the first N training sentences (all)")
    _, data, _ = corpus("atis", parser.parse_args().sentences)
    for layout in LAYOUTS:
        for threads in (1, 2):
            set_threads(threads)
            reckon(data, layout, threads, copy_rate())


if __name__ == "__main__":
    main()

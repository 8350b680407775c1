"""Chains by enumeration: every label sequence is listed, nothing is clever."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from fieldfit.data.sequences import Sequences
from fieldfit.models.chain_problem import Windows

K = 3
LENGTHS = (4, 1, 0, 2, 6, 3)


def random_sequences(seed=0, lengths=LENGTHS, n_labels=K, n_features=5, valued=True) -> Sequences:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    n = int(offsets[-1])
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 4, n)))).astype(np.int64)
    indices = rng.integers(0, n_features, indptr[-1]).astype(np.int32)
    values = rng.normal(size=len(indices)) if valued else None
    return Sequences(
        offsets, indptr, indices, values, rng.integers(0, n_labels, n).astype(np.int32), n_features, n_labels
    )


def without_runs(data) -> Sequences:
    """The same sequences without a label three times in a row."""
    labels = data.labels.copy()
    for first, last in itertools.pairwise(data.offsets.tolist()):
        for t in range(first + 2, last):
            if labels[t - 2] == labels[t - 1] == labels[t]:
                labels[t] = (labels[t] + 1) % data.n_labels
    repeated: Sequences = replace(data, labels=labels)
    return repeated


def random_symbols(seed=0, lengths=LENGTHS, n_labels=K, n_symbols=4) -> Sequences:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    n = int(offsets[-1])
    symbols = rng.integers(0, n_symbols, n).astype(np.int32)
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    return Sequences(offsets, np.arange(n + 1), symbols, None, labels, n_symbols, n_labels)


def crf_tables(model, theta, data, sequence):
    """Token scores (T, K) and edge scores (T, K, K) of one sequence, from the names' meaning alone."""
    layout = model.layout
    labels = model.n_labels
    first, last = int(data.offsets[sequence]), int(data.offsets[sequence + 1])
    nodes, edges = np.zeros((last - first, labels)), np.zeros((last - first, labels, labels))
    weight = dict(zip(list(model.parameter_names), theta.tolist(), strict=True))
    assert len(weight) == layout.n_parameters
    for t in range(last - first):
        token = first + t
        for y in range(labels):
            if t == 0:
                nodes[t, y] += weight.get(f"^->y{y}", 0.0)
            if t == last - first - 1:
                nodes[t, y] += weight.get(f"y{y}->$", 0.0)
            for i in range(labels):
                edges[t, i, y] += weight.get(f"y{i}->y{y}", 0.0)
        for q in range(data.indptr[token], data.indptr[token + 1]):
            value = 1.0 if data.values is None else data.values[q]
            for y in range(labels):
                nodes[t, y] += value * weight.get(f"x{data.indices[q]}:y{y}", 0.0)
                for i in range(labels):
                    edges[t, i, y] += value * weight.get(f"x{data.indices[q]}:y{i}->y{y}", 0.0)
    return nodes, edges


def triple_tables(model, theta, data, sequence):
    """Token scores (T, K) and scores of triples (T, K + 1, K + 1, K) of one sequence, -inf where they are forbidden."""
    nodes, pairs = crf_tables(model, theta, data, sequence)
    weight = dict(zip(list(model.parameter_names), theta.tolist(), strict=True))
    K, names = model.n_labels, [*(f"y{y}" for y in range(model.n_labels)), "^"]
    unseen = -np.inf if model.unseen_transitions == "forbidden" else 0.0
    edges = np.zeros((len(nodes), K + 1, K + 1, K))
    for a, b, c in itertools.product(range(K + 1), range(K + 1), range(K)):
        free = unseen if model.start or a < K else 0.0
        edges[:, a, b, c] = weight.get(f"{names[a]},{names[b]}->{names[c]}", free)
    edges[:, :K, :K] += pairs[:, None]
    edges[:, K, :K] += pairs
    return nodes, edges


def path_score(nodes, edges, path):
    """``edges`` are those of pairs (T, K, K), or of triples (T, K + 1, K + 1, K) with K as the start symbol."""
    total = sum(nodes[t, y] for t, y in enumerate(path))
    if edges.ndim == 4:
        before = [edges.shape[3]] * 2 + list(path)
        return total + sum(edges[t, before[t], before[t + 1], y] for t, y in enumerate(path))
    return total + sum(edges[t, path[t - 1], path[t]] for t in range(1, len(path)))


def log_sum(values):
    values = np.asarray(values)
    if values.max() == -np.inf:
        return -np.inf
    return values.max() + np.log(np.exp(values - values.max()).sum())


def windows_of(width, length):
    if length == 0:
        return []
    if width == 0 or length <= width:
        return [(0, length)]
    return [(a, a + width) for a in range(length - width + 1)]


def window_log_likelihood(nodes, edges, labels, window):
    """log p(known labels of the window | known labels outside): all sequences that agree with what is known.

    0 where a label that the window is conditioned on is unknown (-1): such windows do not count.
    """
    first, last = window
    reach = 2 if edges.ndim == 4 else 1
    if (
        min([0, *labels[max(0, first - reach) : first], *labels[last : last + reach]]) < 0
        or max(labels[first:last]) < 0
    ):
        return 0.0
    choices = [range(nodes.shape[1]) if y < 0 else [y] for y in labels]
    above = [path_score(nodes, edges, path) for path in itertools.product(*choices)]
    choices[first:last] = [range(nodes.shape[1])] * (last - first)
    below = [path_score(nodes, edges, path) for path in itertools.product(*choices)]
    return log_sum(above) - log_sum(below)


def composite(tables, data, families):
    """m of each sequence: families as `Windows`, tables(sequence) as nodes and edges."""
    result = np.zeros(data.n_sequences)
    for i in range(data.n_sequences):
        labels = data.labels[data.offsets[i] : data.offsets[i + 1]].tolist()
        nodes, edges = tables(i)
        for family in families:
            windows = windows_of(family.width, len(labels))
            if family.rows is not None and not family.rows[i]:
                windows = []
            if family.indptr is not None:
                windows = [windows[j] for j in family.indices[family.indptr[i] : family.indptr[i + 1]]]
            result[i] += family.beta * sum(window_log_likelihood(nodes, edges, labels, w) for w in windows)
    return result


def joint_score(A, start, B, y, x):
    total = start[y[0]] + sum(B[a, b] for a, b in zip(y, x, strict=True))
    return total + sum(A[y[t - 1], y[t]] for t in range(1, len(y)))


def joint_window(A, start, B, y, x, window):
    """log Pr(X_w, Y_w | labels outside): enumerates labels and symbols of the window; other symbols sum out too."""
    a, b = window
    totals = []
    for inside in itertools.product(range(len(A)), repeat=b - a):
        for symbols in itertools.product(range(B.shape[1]), repeat=b - a):
            totals.append(joint_score(A, start, B, [*y[:a], *inside, *y[b:]], [*x[:a], *symbols, *x[b:]]))
    return joint_score(A, start, B, y, x) - log_sum(totals)


def joint_rows(model, theta, data, families):
    """m of each sequence of a Boltzmann chain."""
    A, start, B = model.split(theta)
    result = np.zeros(data.n_sequences)
    for i in range(data.n_sequences):
        tokens = slice(data.offsets[i], data.offsets[i + 1])
        y, x = data.labels[tokens].tolist(), data.indices[tokens].tolist()
        for family in families:
            windows = windows_of(family.width, len(y))
            if family.rows is not None and not family.rows[i]:
                windows = []
            if family.indptr is not None:
                windows = [windows[j] for j in family.indices[family.indptr[i] : family.indptr[i + 1]]]
            result[i] += family.beta * sum(joint_window(A, start, B, y, x, w) for w in windows)
    return result


FULL = Windows(0, 1.0, None, None, None)


def plain(width, beta=1.0):
    return Windows(width, beta, None, None, None)


def some_rows(width, beta, n, seed):
    rows = np.random.default_rng(seed).random(n) < 0.5
    return Windows(width, beta, rows.view(np.uint8), None, None)


def some_windows(width, beta, lengths, seed):
    rng = np.random.default_rng(seed)
    chosen = [np.flatnonzero(rng.random(len(windows_of(width, length))) < 0.5) for length in lengths]
    indptr = np.concatenate(([0], np.cumsum([len(c) for c in chosen]))).astype(np.int64)
    return Windows(width, beta, None, indptr, np.concatenate(chosen).astype(np.int64))


def mixtures(lengths=LENGTHS):
    return {
        "FL": (FULL,),
        "PL1": (plain(1),),
        "PL2": (plain(2),),
        "PL3": (plain(3),),
        "PL6": (plain(6),),
        "PL1@.5 + PL2@.7 + FL@.3": (plain(1, 0.5), plain(2, 0.7), plain(0, 0.3)),
        "rows": (some_rows(0, 0.4, len(lengths), 1), some_rows(2, 1.5, len(lengths), 2), plain(1, 0.2)),
        "sparse": (some_windows(1, 0.5, lengths, 3), some_windows(3, 2.0, lengths, 4)),
        "sparse and FL": (some_windows(2, 0.5, lengths, 5), some_windows(0, 0.7, lengths, 6)),
    }


def central_gradient(function, theta, step=1e-5):
    return np.array(
        [(function(theta + step * e) - function(theta - step * e)) / (2 * step) for e in np.eye(len(theta))]
    )

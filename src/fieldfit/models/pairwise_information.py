"""The Hessian of a binary pairwise field with few parameters as a matrix, block by block.

A Hessian product visits every block, although a parameter is in few of them. Here each block adds the covariances of
its statistics; see kernels/pairwise_information.hpp.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fieldfit import _kernels
from fieldfit.models.pairwise_layout import NO_FLOATS, NO_INTS, Layout
from fieldfit.threads import get_threads
from fieldfit.types import FloatArray, Int32Array

#: Edges and biases up to which it is worth a matrix, and variables of the largest block that is cheaper this way; the
#: block of all variables is the same for every sample.
MOST_INFORMATION_FEATURES, LARGEST_FAST = 450, 4
_NO_COMPONENTS: Int32Array = np.empty(0, dtype=np.int32)


def is_fast(layout: Layout, n_variables: int, n_edges: int) -> bool:
    """Whether all blocks are small, or the only block has all variables."""
    sizes = layout.meta[:, 0]
    return n_edges + n_variables <= MOST_INFORMATION_FEATURES and bool(
        np.all((sizes <= LARGEST_FAST) | (sizes == n_variables))
    )


def information_matrix(
    layout: Layout, edges: Int32Array, q: FloatArray, bias: FloatArray, weight: FloatArray | None
) -> FloatArray:
    """Σ_i w_i Σ β Cov(features of a block), (edges + variables)², for codes 0 and 1 with the weights ``q`` and ``bias``."""
    m, n_edges = len(bias), len(edges)
    number = np.full((m, m), -1, dtype=np.int32)
    matrix = np.zeros((m, m))
    a, b = edges.T
    number[a, b] = number[b, a] = np.arange(n_edges, dtype=np.int32)
    matrix[a, b] = matrix[b, a] = q
    codes = layout_codes(layout, m)
    meta, row_weight, entry_weight = layout.meta, layout.row_weight, layout.entry_weight
    if weight is not None:
        meta = layout.meta_weighted
        row_weight, entry_weight = layout.weights(weight)
    out = np.zeros((n_edges + m, n_edges + m))
    for k, components, target, _, first_beta, listed, row_start, pointer, entry, entry_start in meta.tolist():
        beta = layout.beta[first_beta : first_beta + components]
        targets = layout.targets[target : target + components * k].reshape(-1, k)
        if k == 1 and not listed:
            targets = np.arange(m, dtype=np.int32)[:, None]
        rows = row_weight[row_start : row_start + layout.n] if row_start >= 0 and not listed else NO_FLOATS
        indptr, chosen, chosen_weight = NO_INTS, _NO_COMPONENTS, NO_FLOATS
        if listed:
            indptr = layout.indptr[pointer : pointer + layout.n + 1]
            chosen = layout.entry_component[entry : entry + int(indptr[-1])]
            chosen_weight = entry_weight[entry_start : entry_start + len(chosen)] if entry_start >= 0 else NO_FLOATS
        samples = codes
        if k == m:
            # Nothing is conditioned on: one sample with the total weight replaces all.
            if listed:
                total = float(chosen_weight.sum()) if len(chosen_weight) else float(len(chosen))
            else:
                total = float(rows.sum()) if len(rows) else float(layout.n)
            samples, rows = codes[:1], np.array([total])
            indptr, chosen, chosen_weight = NO_INTS, _NO_COMPONENTS, NO_FLOATS
        _kernels.pairwise_information(
            codes=samples,
            edge_number=number,
            matrix=matrix,
            bias=bias,
            targets=targets,
            beta=beta,
            row_weight=rows,
            indptr=indptr,
            component=chosen,
            entry_weight=chosen_weight,
            out=out,
            n_threads=get_threads(),
        )
    return out


def layout_codes(layout: Layout, m: int) -> NDArray[np.uint8]:
    """The samples of the layout, unpacked (n, m)."""
    tiles = len(layout.columns)
    words = np.ascontiguousarray(layout.columns).view(np.uint8).reshape(tiles, m, 8)
    bits = np.unpackbits(words, axis=2, bitorder="little")
    return np.ascontiguousarray(bits.transpose(0, 2, 1).reshape(tiles * 64, m)[: layout.n])

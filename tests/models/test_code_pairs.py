"""Pairs of ones in samples, and the sums of x xᵀ over lists of rows."""

from typing import Any

import numpy as np
import pytest

from fieldfit import _kernels
from fieldfit.models.code_pairs import CodePairs


def test_products_of_codes():
    codes = (np.random.default_rng(0).random((40, 7)) < 0.3).astype(np.uint8)
    pairs = CodePairs(7)
    x = np.column_stack([codes, np.ones(40)])
    products = pairs.products(codes).toarray()
    for k in range(8):
        for other in range(8):
            np.testing.assert_array_equal(products[:, pairs.place[k, other]], x[:, k] * x[:, other])
    assert products.shape == (40, pairs.count)
    assert pairs.products(codes[:0]).shape == (0, pairs.count)


@pytest.mark.parametrize("width", [8, 24, 56])
@pytest.mark.parametrize("threads", [1, 3])
def test_sums_over_lists_of_rows(width, threads):
    """Lists that are empty, short and longer than what is summed at a time; twice, because sums are added."""
    random = np.random.default_rng(width)
    x = random.normal(size=(1500, width))
    lists = [random.integers(0, len(x), size) for size in (0, 1, 3, 4096 // width, 1400)]
    indptr = np.concatenate([[0], np.cumsum([len(rows) for rows in lists])]).astype(np.int32)
    out = np.zeros((len(lists), width, width))
    listed = np.concatenate(lists).astype(np.int32)
    for _ in range(2):
        _kernels.row_grams(x=x, indptr=indptr, rows=listed, out=out.ravel(), n_threads=threads)
    for rows, found in zip(lists, out, strict=True):
        np.testing.assert_allclose(found, 2 * x[rows].T @ x[rows], rtol=0, atol=1e-10)
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("x", lambda a: a[:, :7].copy()),
        ("indptr", lambda a: a[:0]),
        ("indptr", lambda a: a + 1),
        ("indptr", lambda a: a[::-1].copy()),
        ("rows", lambda a: a + 1),
        ("rows", lambda a: a - 1),
        ("rows", lambda a: a[1:]),
        ("out", lambda a: a[1:]),
        ("n_threads", lambda a: 0),
    ],
)
def test_sums_refuse_what_does_not_fit(name, spoil):
    arguments: dict[str, Any] = {
        "x": np.ones((3, 8)),
        "indptr": np.array([0, 1, 3], dtype=np.int32),
        "rows": np.array([0, 1, 2], dtype=np.int32),
        "out": np.zeros(2 * 8 * 8),
        "n_threads": 1,
    }
    _kernels.row_grams(**arguments)
    with pytest.raises(ValueError, match="row_grams"):
        _kernels.row_grams(**(arguments | {name: spoil(arguments[name])}))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("codes", lambda a: a[:, :1].copy()),
        ("codes", lambda a: a[:1]),
        ("place", lambda a: a + 3),
        ("place", lambda a: a - 1),
        ("indptr", lambda a: a[:0]),
        ("rows", lambda a: a[1:]),
    ],
)
def test_lists_refuse_what_does_not_fit(name, spoil):
    arguments: dict[str, Any] = {
        "codes": np.array([[1, 0], [1, 1]], dtype=np.uint8),
        "place": np.array([[1, 0], [0, 2]], dtype=np.int64),
        "indptr": np.zeros(4, dtype=np.int32),
        "rows": np.zeros(4, dtype=np.int32),
    }
    _kernels.list_code_pairs(**arguments)
    assert (arguments["indptr"].tolist(), arguments["rows"].tolist()) == ([0, 1, 3, 4], [1, 0, 1, 1])
    with pytest.raises(ValueError, match="list_code_pairs"):
        _kernels.list_code_pairs(**(arguments | {name: spoil(arguments[name])}))

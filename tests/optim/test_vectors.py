"""The fused passes against NumPy, and the same bits for 1 thread and 2."""

import numpy as np
import pytest

from fieldfit import _kernels

SIZES = [0, 1, 7, 2048, 2049, 100_003]
DTYPES = [np.float32, np.float64]


def vectors(count, n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n) for _ in range(count)]


def close(a, b, scale=1.0):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", ["none", "diagonal", "operator"])
def test_append_pair_is_the_inner_products_of_the_stored_rows(n, dtype, metric):
    x1, x0, y, q, z = vectors(5, n)
    diagonal = np.exp(vectors(1, n, 1)[0])
    rng = np.random.default_rng(2)
    results = []
    before = rng.normal(size=(2, 4, n)).astype(dtype)
    for threads in (1, 2):
        steps, changes = before.copy()
        sums = np.empty((3, 4))
        _kernels.append_pair(
            new_point=x1,
            old_point=x0,
            change=y,
            search_gradient=q,
            diagonal=diagonal if metric == "diagonal" else None,
            image=z if metric == "operator" else None,
            steps=steps,
            changes=changes,
            used=3,
            slot=1,
            sums=sums,
            n_threads=threads,
        )
        results.append((steps, changes, sums))
    steps, changes, sums = results[0]
    image = {"none": y, "diagonal": y / diagonal, "operator": z}[metric]
    np.testing.assert_array_equal(steps[1], (x1 - x0).astype(dtype))
    np.testing.assert_array_equal(changes[1], image.astype(dtype))
    np.testing.assert_array_equal(steps[[0, 2, 3]], before[0][[0, 2, 3]])
    s, u = steps[:3].astype(float), changes[:3].astype(float)
    close(sums, np.stack([s @ y, u @ y, s @ q, u @ q], axis=1), scale=max(n, 1))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", ["none", "diagonal", "operator"])
def test_combine_rows_is_the_weighted_sum(n, dtype, metric):
    x, q, image = vectors(3, n)
    x[::3] = 0.0
    q[::5] = 0.0
    diagonal = np.exp(vectors(1, n, 1)[0])
    rng = np.random.default_rng(3)
    steps, changes = rng.normal(size=(2, 4, n)).astype(dtype)
    a, b = rng.normal(size=(2, 3))
    results = []
    for threads in (1, 2):
        direction, trial = np.full((2, n), np.nan)
        slope = _kernels.combine_rows(
            point=x,
            search_gradient=q,
            diagonal=diagonal if metric == "diagonal" else None,
            image=image if metric == "operator" else None,
            steps=steps,
            changes=changes,
            step_weight=a,
            change_weight=b,
            scale=0.7,
            step=0.3,
            direction=direction,
            trial=trial,
            n_threads=threads,
        )
        results.append((direction, trial, slope))
    direction, trial, slope = results[0]
    base = {"none": q, "diagonal": q / diagonal, "operator": image}[metric]
    expected = -(0.7 * base + a @ steps[:3].astype(float) + b @ changes[:3].astype(float))
    moved = x + 0.3 * expected
    close(direction, expected, 10)
    close(trial, moved, 10)
    close(slope, q @ expected, scale=max(n, 1))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_small_passes(n, threads):
    x, d, g, l1 = vectors(4, n)
    l1 = np.abs(l1)
    x[::4] = 0.0
    largest = np.abs(g).max(initial=0.0)
    trial = np.empty(n)
    _kernels.step_along(x, d, 0.25, trial=trial, n_threads=threads)
    close(trial, x + 0.25 * d)

    kept = np.empty(n)
    slope, norm, finite = _kernels.keep_gradient(g, d, kept=kept, n_threads=threads)
    np.testing.assert_array_equal(kept, g)
    close(slope, g @ d, max(n, 1))
    assert (norm, finite) == (largest, True)
    assert _kernels.keep_gradient(g, None, kept=kept, n_threads=threads) == (0.0, largest, True)

    pseudo = np.empty(n)
    penalty, norm = _kernels.pseudo_gradient(x, g, l1, pseudo=pseudo, n_threads=threads)
    at_zero = np.sign(g) * np.maximum(np.abs(g) - l1, 0.0)
    close(pseudo, np.where(x == 0, at_zero, g + l1 * np.sign(x)))
    close(penalty, l1 @ np.abs(x), max(n, 1))
    assert norm == np.abs(pseudo).max(initial=0.0)
    close(_kernels.inner_product(x, d, n_threads=threads), x @ d, max(n, 1))
    assert _kernels.inner_product(x, d, n_threads=1) == _kernels.inner_product(x, d, n_threads=2)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scaled", [False, True])
def test_cg_passes(n, scaled):
    p, product, x0, r0 = vectors(4, n)
    diagonal = np.exp(vectors(1, n, 9)[0]) if scaled else None
    results = []
    for threads in (1, 2):
        x, r, direction = x0.copy(), r0.copy(), p.copy()
        z = np.empty(n) if scaled else None
        sums = _kernels.cg_update(
            alpha=0.3, p=p, product=product, diagonal=diagonal, x=x, r=r, z=z, n_threads=threads
        )
        _kernels.cg_direction(0.6, r, p=direction, n_threads=threads)
        results.append((x, r, direction, np.array(sums)))
    x, r, direction, totals = results[0]
    residual = r0 - 0.3 * product
    image = residual / diagonal if scaled else residual
    close(x, x0 + 0.3 * p)
    close(r, residual)
    close(direction, residual + 0.6 * p)
    close(totals, [residual @ residual, residual @ image, np.abs(residual).max(initial=0.0)], max(n, 1))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_keep_gradient_notices_what_is_not_finite(bad):
    g = np.ones(5000)
    g[4321] = bad
    assert not _kernels.keep_gradient(g, None, kept=np.empty(5000), n_threads=2)[2]


def test_wrong_shapes_are_refused():
    five, six = np.ones(5), np.ones(6)
    rows = np.ones((2, 5))
    sums = np.ones((2, 4))
    with pytest.raises(ValueError, match="trial has 6 entries where 5 are needed"):
        _kernels.step_along(five, five, 1.0, trial=six, n_threads=1)
    with pytest.raises(ValueError, match="n_threads"):
        _kernels.inner_product(five, five, n_threads=0)
    with pytest.raises(ValueError, match="change has 6 entries"):
        _kernels.append_pair(
            new_point=five,
            old_point=five,
            change=six,
            search_gradient=five,
            diagonal=None,
            image=None,
            steps=rows,
            changes=rows,
            used=1,
            slot=0,
            sums=sums,
            n_threads=1,
        )
    for used, slot in [(3, 0), (2, 2), (0, 0), (1, -1)]:
        with pytest.raises(ValueError, match="slot < used"):
            _kernels.append_pair(
                new_point=five,
                old_point=five,
                change=five,
                search_gradient=five,
                diagonal=None,
                image=None,
                steps=rows,
                changes=rows,
                used=used,
                slot=slot,
                sums=sums,
                n_threads=1,
            )
    with pytest.raises(ValueError, match="more weights than rows"):
        _kernels.combine_rows(
            point=five,
            search_gradient=five,
            diagonal=None,
            image=None,
            steps=rows,
            changes=rows,
            step_weight=np.ones(3),
            change_weight=np.ones(3),
            scale=1.0,
            step=1.0,
            direction=five,
            trial=five,
            n_threads=1,
        )
    with pytest.raises(ValueError, match="diagonal and z"):
        _kernels.cg_update(alpha=1.0, p=five, product=five, diagonal=five, x=five, r=five, z=None, n_threads=1)
    with pytest.raises(TypeError):  # an output of another type must not be written to a copy
        _kernels.keep_gradient(five, None, kept=np.ones(5, dtype=np.float32), n_threads=1)

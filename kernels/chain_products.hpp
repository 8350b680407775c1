// Vectors of four doubles, and the small matrix products of chains with their sums in registers.
#pragma once

#include <cstdint>
#include <cstring>

#include "isa.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // vector arguments never leave a translation unit: everything is inlined

namespace ff::FF_ISA {
namespace {

typedef double v4 __attribute__((vector_size(32)));
#define FF_INLINE static inline __attribute__((always_inline))

FF_INLINE v4 load(const double* p) {
    v4 v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
FF_INLINE void store(double* p, v4 v) { std::memcpy(p, &v, sizeof v); }
FF_INLINE v4 splat(double x) { return v4{x, x, x, x}; }
FF_INLINE double sum(v4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
FF_INLINE v4 larger(v4 a, v4 b) { return a > b ? a : b; }
FF_INLINE double largest(v4 v) {
    const double a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
    return a > b ? a : b;
}

template <int C>
struct Size {
    static constexpr int value = C;
};

// body(Size<C>, first) for blocks of C vectors that make up `vectors`: eight at a time, then what is left.
template <class Body>
FF_INLINE void in_blocks(int64_t vectors, Body body) {
    int64_t first = 0;
    for (; first + 8 <= vectors; first += 8) body(Size<8>{}, first);
    switch (vectors - first) {
        case 1:
            return body(Size<1>{}, first);
        case 2:
            return body(Size<2>{}, first);
        case 3:
            return body(Size<3>{}, first);
        case 4:
            return body(Size<4>{}, first);
        case 5:
            return body(Size<5>{}, first);
        case 6:
            return body(Size<6>{}, first);
        case 7:
            return body(Size<7>{}, first);
        default:
            return;
    }
}

// out_r[j] = Σ_i in_r[i] matrix[i, j] for R rows and C vectors of columns, the sums in registers.
template <int R, int C>
FF_INLINE void product_block(const double* const* in, const double* matrix, double* const* out, int64_t n,
                             int64_t padded) {
    v4 acc[R][C];
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) acc[r][c] = splat(0.0);
    for (int64_t i = 0; i < n; ++i) {
        const double* row = matrix + i * padded;
        v4 m[C];
        for (int c = 0; c < C; ++c) m[c] = load(row + 4 * c);
        for (int r = 0; r < R; ++r) {
            const v4 a = splat(in[r][i]);
            for (int c = 0; c < C; ++c) acc[r][c] += a * m[c];
        }
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) store(out[r] + 4 * c, acc[r][c]);
}

template <int R>
void product_rows(const double* const* in, const double* matrix, double* const* out, int64_t n, int64_t padded) {
    int64_t j = 0;
    double* at[R];
    constexpr int wide = R == 1 ? 6 : 3;
    for (; j + 4 * wide <= padded; j += 4 * wide) {
        for (int r = 0; r < R; ++r) at[r] = out[r] + j;
        product_block<R, wide>(in, matrix + j, at, n, padded);
    }
    if constexpr (R == 1) {
        for (; j + 12 <= padded; j += 12) {
            at[0] = out[0] + j;
            product_block<R, 3>(in, matrix + j, at, n, padded);
        }
    }
    if (padded - j == 8) {
        for (int r = 0; r < R; ++r) at[r] = out[r] + j;
        product_block<R, 2>(in, matrix + j, at, n, padded);
    } else if (padded - j == 4) {
        for (int r = 0; r < R; ++r) at[r] = out[r] + j;
        product_block<R, 1>(in, matrix + j, at, n, padded);
    }
}

FF_INLINE void product(int64_t rows, const double* const* in, const double* matrix, double* const* out, int64_t n,
                       int64_t padded) {
    switch (rows) {
        case 1:
            product_rows<1>(in, matrix, out, n, padded);
            break;
        case 2:
            product_rows<2>(in, matrix, out, n, padded);
            break;
        case 3:
            product_rows<3>(in, matrix, out, n, padded);
            break;
        default:
            product_rows<4>(in, matrix, out, n, padded);
            break;
    }
}

template <int C>
FF_INLINE void outer_block(double* out, const double* a, const double* b, int64_t n, int64_t stride, int64_t padded) {
    v4 acc[4][C];
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < C; ++c) acc[r][c] = load(out + r * padded + 4 * c);
    for (int64_t t = 0; t < n; ++t) {
        v4 row[C];
        for (int c = 0; c < C; ++c) row[c] = load(b + t * stride + 4 * c);
        for (int r = 0; r < 4; ++r) {
            const v4 x = splat(a[t * stride + r]);
            for (int c = 0; c < C; ++c) acc[r][c] += x * row[c];
        }
    }
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < C; ++c) store(out + r * padded + 4 * c, acc[r][c]);
}

// out[i, j] += Σ_t a_t[i] b_t[j] over n rows.
void add_outer(double* out, const double* a, const double* b, int64_t n, int64_t stride, int64_t padded) {
    if (n <= 0) return;
    for (int64_t i = 0; i < padded; i += 4) {
        int64_t j = 0;
        for (; j + 12 <= padded; j += 12) outer_block<3>(out + i * padded + j, a + i, b + j, n, stride, padded);
        if (padded - j == 8) outer_block<2>(out + i * padded + j, a + i, b + j, n, stride, padded);
        if (padded - j == 4) outer_block<1>(out + i * padded + j, a + i, b + j, n, stride, padded);
    }
}

}  // namespace
}  // namespace ff::FF_ISA

// Vectors of four doubles, and the small matrix products of chains with their sums in registers.
#pragma once

#include <cstdint>
#include <cstring>

#include "isa.hpp"

#pragma GCC diagnostic ignored "-Wpsabi"  // vector arguments never leave a translation unit: everything is inlined

namespace ff::FF_ISA {
namespace {

typedef double v4 __attribute__((vector_size(32)));
#define FF_ALWAYS __attribute__((always_inline))
#define FF_INLINE static inline FF_ALWAYS

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

// Panels: twelve columns of a matrix (the last eight or four where they are left) with their rows following each other,
// so that a product reads memory straight on. The panel that begins at column j is at j * padded.
constexpr int64_t panel_width = 12;

void pack_panels(const double* matrix, int64_t n, int64_t padded, double* panels) {
    for (int64_t j = 0; j < padded; j += panel_width) {
        const int64_t width = padded - j < panel_width ? padded - j : panel_width;
        for (int64_t i = 0; i < n; ++i)
            std::memcpy(panels + j * padded + i * width, matrix + i * padded + j,
                        static_cast<size_t>(width) * sizeof(double));
    }
}

// The panels of the transposed matrix.
void pack_columns(const double* matrix, int64_t n, int64_t padded, double* panels) {
    for (int64_t j = 0; j < padded; j += panel_width) {
        const int64_t width = padded - j < panel_width ? padded - j : panel_width;
        for (int64_t c = 0; c < width; ++c)
            for (int64_t i = 0; i < n; ++i)
                panels[j * padded + i * width + c] = j + c < n ? matrix[(j + c) * padded + i] : 0.0;
    }
}

// One row with two panels at once: three vectors of sums alone would wait for each other.
FF_INLINE void product_two_panels(const double* in, const double* first, const double* second, double* out, int64_t n) {
    v4 acc[6];
    for (int c = 0; c < 6; ++c) acc[c] = splat(0.0);
    for (int64_t i = 0; i < n; ++i) {
        const v4 a = splat(in[i]);
        for (int c = 0; c < 3; ++c) acc[c] += a * load(first + i * panel_width + 4 * c);
        for (int c = 0; c < 3; ++c) acc[3 + c] += a * load(second + i * panel_width + 4 * c);
    }
    for (int c = 0; c < 6; ++c) store(out + 4 * c, acc[c]);
}

template <int R>
void product_with_panels(const double* const* in, const double* panels, double* const* out, int64_t n, int64_t padded) {
    int64_t j = 0;
    double* at[R];
    if constexpr (R == 1) {
        for (; j + 2 * panel_width <= padded; j += 2 * panel_width)
            product_two_panels(in[0], panels + j * padded, panels + (j + panel_width) * padded, out[0] + j, n);
    }
    for (; j + panel_width <= padded; j += panel_width) {
        for (int r = 0; r < R; ++r) at[r] = out[r] + j;
        product_block<R, 3>(in, panels + j * padded, at, n, panel_width);
    }
    for (int r = 0; r < R; ++r) at[r] = out[r] + j;
    if (padded - j == 8) {
        product_block<R, 2>(in, panels + j * padded, at, n, 8);
    } else if (padded - j == 4) {
        product_block<R, 1>(in, panels + j * padded, at, n, 4);
    }
}

FF_INLINE void product(int64_t rows, const double* const* in, const double* panels, double* const* out, int64_t n,
                       int64_t padded) {
    switch (rows) {
        case 1:
            product_with_panels<1>(in, panels, out, n, padded);
            break;
        case 2:
            product_with_panels<2>(in, panels, out, n, padded);
            break;
        case 3:
            product_with_panels<3>(in, panels, out, n, padded);
            break;
        default:
            product_with_panels<4>(in, panels, out, n, padded);
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

// The recursions of one segment of a chain, in probability space (fast) and in log space (never underflows).
//
// Probability space: ψ_p = exp(s_p - max s_p), M = exp(A - max A), α_p = ψ_p ∘ (α_{p-1} M) / c_p with Σ α_p = 1, and
// backwards g_p = ψ_p ∘ β_p / c_p, β_{p-1} = M g_p. With β starting from w, the weight of the segment, α_p ∘ β_p is w
// times the node marginal and α_{p-1}(i) M(i,j) g_p(j) is w times the edge marginal. What underflows at p is below
// 1e-308 and counts in the end with a factor of at most max β, so the result is right whenever no c_p is tiny and no
// g_p is huge; otherwise the segment is done again in log space.
#pragma once

#include <cstdint>
#include <cstring>

#include "chain.hpp"
#include "vecmath.hpp"

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

constexpr double tiny_scale = 1e-200;
constexpr double huge_backward = 1e100;

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

// What the segments of one chunk share.
struct Chain {
    int64_t n_labels, padded;
    const double *transitions, *tangent_transitions;   // A and its direction
    const double *forward, *backward;                  // M and its transpose
    const double *forward_tangent, *backward_tangent;  // M ∘ A' and its transpose
    double top;                                        // max A
    // Sums over segments: edges = direct + columnsᵀ - M ∘ outer - (M ∘ A' ∘ outer or ...), put together at the end.
    double *outer, *outer_tangent, *by_row, *by_column;
    bool squares, tangent;
};

// One segment. Rows of scores, ψ and residuals follow each other token by token; those of α and g have a stride.
struct Segment {
    int64_t length;
    int32_t left, right;  // labels beside the segment, or -1
    double weight;
    const double* scores;
    const double* tangent_scores;
    const double* psi;
    const double* tops;  // max of each token's scores
    const int32_t* labels;
    double* residuals;  // null: values only
    double *alpha, *g;  // rows at the distance stride
    double *alpha_tangent, *g_tangent;
    double* nodes;  // marginals, kept until the segment has turned out good
    int64_t stride;
    double* c;  // scale of each token, then that of the right end; at the distance c_stride
    int64_t c_stride;
    bool fresh;     // residuals are to be written, not added to; only without neighbours
    bool observed;  // the labels count, where they are known; otherwise only the sum over all of them does
    double log_z;   // what comes out
    double log_z_tangent;
    bool good;
};

// Residual rows from weighted node marginals (or their derivative): added to the tokens and to the border edges.
FF_INLINE void add_residual(const Chain& chain, const Segment& s, int64_t p, const double* node) {
    const int64_t padded = chain.padded;
    double* out = s.residuals + p * padded;
    double* row = p == 0 && s.left >= 0 ? chain.by_row + s.left * padded : nullptr;
    double* column = p == s.length - 1 && s.right >= 0 ? chain.by_column + s.right * padded : nullptr;
    const v4 inverse = splat(1.0 / s.weight);
    for (int64_t j = 0; j < padded; j += 4) {
        v4 x = load(node + j);
        if (chain.squares) x = x * (1.0 - x * inverse);
        store(out + j, load(out + j) - x);
        if (row) store(row + j, load(row + j) - x);
        if (column) store(column + j, load(column + j) - x);
    }
    if (s.observed && !chain.tangent && !chain.squares) {
        const int32_t y = s.labels[p];
        if (y < 0) return;
        out[y] += s.weight;
        if (row) row[y] += s.weight;
        if (column) column[y] += s.weight;
        if (p > 0 && s.labels[p - 1] >= 0) chain.by_row[s.labels[p - 1] * padded + y] += s.weight;
    }
}

// row /= c, and the c itself.
FF_INLINE double normalise(double* row, v4 total, int64_t padded) {
    const double c = sum(total);
    const v4 inverse = splat(c > tiny_scale ? 1.0 / c : 0.0);
    for (int64_t j = 0; j < padded; j += 4) store(row + j, load(row + j) * inverse);
    return c;
}

// Forward through up to four segments, longest first. Sets c and good; the sum of log c is taken by the caller.
FF_INLINE void forward_batch(const Chain& chain, Segment* segments, int64_t count) {
    const int64_t padded = chain.padded;
    for (int64_t b = 0; b < count; ++b) {
        Segment& s = segments[b];
        const double* left = s.left >= 0 ? chain.forward + s.left * padded : nullptr;
        v4 total = splat(0.0);
        for (int64_t j = 0; j < padded; j += 4) {
            v4 x = load(s.psi + j);
            if (left) x *= load(left + j);
            store(s.alpha + j, x);
            total += x;
        }
        s.c[0] = normalise(s.alpha, total, padded);
        s.good = s.c[0] > tiny_scale;
    }
    int64_t active = count;
    const double* in[chain_batch];
    double* out[chain_batch];
    for (int64_t p = 1; p < segments[0].length; ++p) {
        while (segments[active - 1].length <= p) --active;
        for (int64_t b = 0; b < active; ++b) {
            in[b] = segments[b].alpha + (p - 1) * segments[b].stride;
            out[b] = segments[b].alpha + p * segments[b].stride;
        }
        product(active, in, chain.forward, out, chain.n_labels, padded);
        for (int64_t b = 0; b < active; ++b) {
            Segment& s = segments[b];
            const double* psi = s.psi + p * padded;
            double* row = out[b];
            v4 total = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) {
                const v4 x = load(row + j) * load(psi + j);
                store(row + j, x);
                total += x;
            }
            const double c = normalise(row, total, padded);
            s.c[p * s.c_stride] = c;
            s.good = s.good && c > tiny_scale;
        }
    }
    for (int64_t b = 0; b < count; ++b) {
        Segment& s = segments[b];
        double c = 1.0;
        if (s.right >= 0) {
            const double* last = s.alpha + (s.length - 1) * s.stride;
            const double* right = chain.backward + s.right * padded;
            v4 total = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) total += load(last + j) * load(right + j);
            c = sum(total);
        }
        s.c[s.length * s.c_stride] = c;
        s.good = s.good && c > tiny_scale;
    }
}

// Backward through the same segments: residuals of the good ones, and rows g for the edges (row 0 is not used).
// `beta` has room for chain_batch rows. A segment that turns out bad has added nothing: it is checked first.
FF_INLINE void backward_batch(const Chain& chain, Segment* segments, int64_t count, double* beta) {
    const int64_t padded = chain.padded;
    const double* in[chain_batch];
    double* out[chain_batch];
    v4 huge[chain_batch];
    for (int64_t b = 0; b < chain_batch; ++b) huge[b] = splat(0.0);
    int64_t active = 0;
    for (int64_t p = segments[0].length - 1; p >= 0; --p) {
        // Segments that were active at p + 1 have their β in `beta` already; those that end at p start here.
        while (active < count && segments[active].length > p) {
            const Segment& s = segments[active];
            double* row = beta + active * padded;
            const double c = s.c[s.length * s.c_stride];
            const v4 scale = splat(c > tiny_scale ? s.weight / c : 0.0);
            const double* right = s.right >= 0 ? chain.backward + s.right * padded : nullptr;
            for (int64_t j = 0; j < padded; j += 4) store(row + j, right ? scale * load(right + j) : scale);
            ++active;
        }
        for (int64_t b = 0; b < active; ++b) {
            const Segment& s = segments[b];
            double* row = beta + b * padded;
            double* g = s.g + p * s.stride;
            const double* psi = s.psi + p * padded;
            const double* alpha = s.alpha + p * s.stride;
            const double c = s.c[p * s.c_stride];
            const v4 scale = splat(c > tiny_scale ? 1.0 / c : 0.0);
            double* node = s.fresh ? s.residuals + p * padded : s.nodes + p * s.stride;
            const v4 sign = splat(s.fresh ? -1.0 : 1.0);
            v4 most = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) {
                const v4 x = load(row + j);
                const v4 y = load(psi + j) * x * scale;
                most = larger(most, y * y);
                store(g + j, y);
                store(node + j, sign * x * load(alpha + j));
            }
            huge[b] = larger(huge[b], most);
            in[b] = g;
            out[b] = row;
        }
        if (p > 0) product(active, in, chain.backward, out, chain.n_labels, padded);
    }
    for (int64_t b = 0; b < count; ++b) {
        Segment& s = segments[b];
        s.good = s.good && largest(huge[b]) < huge_backward * huge_backward * s.weight * s.weight;
        if (!s.good) continue;
        if (s.fresh) {
            if (!s.observed) continue;
            for (int64_t p = 0; p < s.length; ++p) {
                const int32_t y = s.labels[p];
                if (y < 0) continue;
                s.residuals[p * padded + y] += s.weight;
                if (p > 0 && s.labels[p - 1] >= 0) chain.by_row[s.labels[p - 1] * padded + y] += s.weight;
            }
            continue;
        }
        for (int64_t p = 0; p < s.length; ++p) add_residual(chain, s, p, s.nodes + p * s.stride);
    }
}

// Both passes with derivatives in a direction, one segment at a time (`work`: 5 rows).
FF_INLINE void tangent_segment(const Chain& chain, Segment& s, double* work) {
    const int64_t padded = chain.padded, K = chain.n_labels;
    double* extra = work;
    s.log_z_tangent = 0.0;
    s.good = true;
    for (int64_t p = 0; p < s.length; ++p) {
        double* a = s.alpha + p * s.stride;
        double* d = s.alpha_tangent + p * s.stride;
        const double* psi = s.psi + p * padded;
        const double* ds = s.tangent_scores + p * padded;
        v4 total = splat(0.0), slope = splat(0.0);
        if (p == 0) {
            const double* left = s.left >= 0 ? chain.forward + s.left * padded : nullptr;
            const double* dleft = s.left >= 0 ? chain.tangent_transitions + s.left * padded : nullptr;
            for (int64_t j = 0; j < padded; j += 4) {
                v4 x = load(psi + j), rate = load(ds + j);
                if (left) {
                    x *= load(left + j);
                    rate += load(dleft + j);
                }
                const v4 y = x * rate;
                store(a + j, x);
                store(d + j, y);
                total += x;
                slope += y;
            }
        } else {
            const double* in[2] = {a - s.stride, d - s.stride};
            double* out[2] = {a, d};
            product_rows<2>(in, chain.forward, out, K, padded);
            product_rows<1>(in, chain.forward_tangent, &extra, K, padded);
            for (int64_t j = 0; j < padded; j += 4) {
                const v4 f = load(psi + j), x = f * load(a + j);
                const v4 y = f * (load(d + j) + load(extra + j)) + x * load(ds + j);
                store(a + j, x);
                store(d + j, y);
                total += x;
                slope += y;
            }
        }
        const double c = sum(total), dc = sum(slope);
        s.good = s.good && c > tiny_scale;
        if (!s.good) return;
        const v4 inverse = splat(1.0 / c), move = splat(dc);
        for (int64_t j = 0; j < padded; j += 4) {
            const v4 x = load(a + j) * inverse;
            store(a + j, x);
            store(d + j, (load(d + j) - x * move) * inverse);
        }
        s.c[p * s.c_stride] = c;
        s.g_tangent[p * s.stride] = dc;  // kept until the backward pass overwrites the row
        s.log_z_tangent += dc / c;
    }
    double* beta = work + padded;
    double* dbeta = work + 2 * padded;
    double* next = work + 3 * padded;
    double* dnext = work + 4 * padded;
    {
        const double* a = s.alpha + (s.length - 1) * s.stride;
        const double* d = s.alpha_tangent + (s.length - 1) * s.stride;
        double c = 1.0, dc = 0.0;
        if (s.right >= 0) {
            const double* right = chain.backward + s.right * padded;
            const double* dright = chain.backward_tangent + s.right * padded;
            v4 total = splat(0.0), slope = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) {
                total += load(a + j) * load(right + j);
                slope += load(d + j) * load(right + j) + load(a + j) * load(dright + j);
            }
            c = sum(total);
            dc = sum(slope);
            s.good = s.good && c > tiny_scale;
            if (!s.good) return;
            for (int64_t j = 0; j < padded; ++j) {
                beta[j] = s.weight * right[j] / c;
                dbeta[j] = (s.weight * dright[j] - beta[j] * dc) / c;
            }
        } else {
            for (int64_t j = 0; j < padded; ++j) {
                beta[j] = s.weight;
                dbeta[j] = 0.0;
            }
        }
        s.c[s.length * s.c_stride] = c;
        s.log_z_tangent += dc / c;
    }
    if (!s.residuals) return;
    v4 most = splat(0.0);
    for (int64_t p = s.length - 1; p >= 0; --p) {
        const double* psi = s.psi + p * padded;
        const double* ds = s.tangent_scores + p * padded;
        double* g = s.g + p * s.stride;
        double* h = s.g_tangent + p * s.stride;
        const v4 inverse = splat(1.0 / s.c[p * s.c_stride]), move = splat(h[0]);
        for (int64_t j = 0; j < padded; j += 4) {
            const v4 f = load(psi + j), x = load(beta + j), y = load(dbeta + j);
            const v4 gx = f * x * inverse;
            most = larger(most, gx * gx);
            store(g + j, gx);
            store(h + j, (f * (y + x * load(ds + j)) - gx * move) * inverse);
        }
        const double* a = s.alpha + p * s.stride;
        const double* d = s.alpha_tangent + p * s.stride;
        double* node = s.nodes + p * s.stride;
        for (int64_t j = 0; j < padded; j += 4)
            store(node + j, load(d + j) * load(beta + j) + load(a + j) * load(dbeta + j));
        if (p > 0) {
            const double* in[2] = {g, h};
            double* out[2] = {next, dnext};
            product_rows<2>(in, chain.backward, out, K, padded);
            product_rows<1>(in, chain.backward_tangent, &extra, K, padded);
            for (int64_t j = 0; j < padded; j += 4) {
                store(beta + j, load(next + j));
                store(dbeta + j, load(dnext + j) + load(extra + j));
            }
        }
    }
    s.good = largest(most) < huge_backward * huge_backward * s.weight * s.weight;
    if (!s.good) return;
    for (int64_t p = 0; p < s.length; ++p) add_residual(chain, s, p, s.nodes + p * s.stride);
}

// The scores of the edge into each token of a segment (position `length` is the token to its right): one matrix for
// all of them (stride 0), or one for each token.
struct Edges {
    const double* scores;
    const double* tangent;
    int64_t stride;
    double* out;  // where residuals of edges are added
    int64_t out_stride;
};

// Σ of the scores of the known labels and of the edges between them, with both borders.
FF_INLINE double path_score(const Segment& s, const double* scores, const double* edges, int64_t stride,
                            int64_t padded) {
    double total = 0.0;
    int32_t before = s.left;
    for (int64_t p = 0; p < s.length; ++p) {
        const int32_t y = s.labels[p];
        if (y >= 0) {
            total += scores[p * padded + y];
            if (before >= 0) total += edges[p * stride + before * padded + y];
        }
        before = y;
    }
    if (s.right >= 0 && before >= 0) total += edges[s.length * stride + before * padded + s.right];
    return total;
}

FF_INLINE double log_sum(const double* x, int64_t n) {
    double top = -__builtin_inf();
    for (int64_t j = 0; j < n; ++j) top = x[j] > top ? x[j] : top;
    if (!(top > -__builtin_inf())) return top;
    double total = 0.0;
    for (int64_t j = 0; j < n; ++j) total += fast_exp(x[j] - top);
    return top + fast_log(total);
}

// The same in log space, with the derivatives as averages; `work`: (4 length + 4) rows.
void log_segment(const Chain& chain, Segment& s, const Edges& edges, double* work) {
    const int64_t padded = chain.padded, K = chain.n_labels, n = s.length;
    double *la = work, *lb = la + n * padded, *da = lb + n * padded, *db = da + n * padded;
    double *x = db + n * padded, *top = x + padded, *total = top + padded, *slope = total + padded;
    const bool tangent = chain.tangent;
    for (int64_t p = 0; p < n; ++p) {
        const double* A = edges.scores + p * edges.stride;
        const double* dA = tangent ? edges.tangent + p * edges.stride : nullptr;
        double *a = la + p * padded, *d = da + p * padded;
        const double* score = s.scores + p * padded;
        const double* ds = tangent ? s.tangent_scores + p * padded : nullptr;
        if (p == 0) {
            const int64_t row = s.left * padded;
            for (int64_t j = 0; j < K; ++j) {
                a[j] = score[j] + (s.left >= 0 ? A[row + j] : 0.0);
                if (tangent) d[j] = ds[j] + (s.left >= 0 ? dA[row + j] : 0.0);
            }
            continue;
        }
        const double *before = a - padded, *dbefore = d - padded;
        for (int64_t j = 0; j < K; ++j) {
            top[j] = -1e300;
            total[j] = 0.0;
            slope[j] = 0.0;
        }
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j < K; ++j) {
                const double y = before[i] + A[i * padded + j];
                top[j] = y > top[j] ? y : top[j];
            }
        for (int64_t i = 0; i < K; ++i) {
            if (tangent) {
                for (int64_t j = 0; j < K; ++j) {
                    const double q = fast_exp(before[i] + A[i * padded + j] - top[j]);
                    total[j] += q;
                    slope[j] += q * (dbefore[i] + dA[i * padded + j]);
                }
            } else {
                for (int64_t j = 0; j < K; ++j) total[j] += fast_exp(before[i] + A[i * padded + j] - top[j]);
            }
        }
        for (int64_t j = 0; j < K; ++j) {
            a[j] = score[j] + top[j] + fast_log(total[j]);
            if (tangent) d[j] = ds[j] + (total[j] > 0.0 ? slope[j] / total[j] : 0.0);
        }
    }
    for (int64_t p = n - 1; p >= 0; --p) {
        double *b = lb + p * padded, *d = db + p * padded;
        const double* A = edges.scores + (p + 1) * edges.stride;
        const double* dA = tangent ? edges.tangent + (p + 1) * edges.stride : nullptr;
        if (p == n - 1) {
            for (int64_t i = 0; i < K; ++i) {
                b[i] = s.right >= 0 ? A[i * padded + s.right] : 0.0;
                if (tangent) d[i] = s.right >= 0 ? dA[i * padded + s.right] : 0.0;
            }
            continue;
        }
        const double* after = b + padded;
        const double* score = s.scores + (p + 1) * padded;
        for (int64_t i = 0; i < K; ++i) {
            for (int64_t j = 0; j < K; ++j) x[j] = A[i * padded + j] + score[j] + after[j];
            b[i] = log_sum(x, K);
            if (!tangent) continue;
            const double* ds = s.tangent_scores + (p + 1) * padded;
            double mean = 0.0;
            for (int64_t j = 0; j < K; ++j) {
                const double q = x[j] > -__builtin_inf() ? fast_exp(x[j] - b[i]) : 0.0;
                mean += q * (dA[i * padded + j] + ds[j] + d[padded + j]);
            }
            d[i] = mean;
        }
    }
    const double* last = la + (n - 1) * padded;
    for (int64_t j = 0; j < K; ++j) x[j] = last[j] + lb[(n - 1) * padded + j];
    s.log_z = log_sum(x, K);
    s.log_z_tangent = 0.0;
    if (tangent)
        for (int64_t j = 0; j < K; ++j) {
            const double q = fast_exp(x[j] - s.log_z);
            s.log_z_tangent += q * (da[(n - 1) * padded + j] + db[(n - 1) * padded + j]);
        }
    if (!s.residuals) return;
    const bool observed = s.observed && !tangent && !chain.squares;
    for (int64_t p = 0; p < n; ++p) {
        const double *a = la + p * padded, *b = lb + p * padded, *d = da + p * padded, *e = db + p * padded;
        for (int64_t j = 0; j < K; ++j) {
            double q = fast_exp(a[j] + b[j] - s.log_z);
            if (tangent) q *= d[j] + e[j] - s.log_z_tangent;
            if (chain.squares) q *= 1.0 - q;
            x[j] = -s.weight * q;
        }
        const bool known = observed && s.labels[p] >= 0;
        if (known) x[s.labels[p]] += s.weight;
        double* out = s.residuals + p * padded;
        for (int64_t j = 0; j < K; ++j) out[j] += x[j];
        if (p == 0 && s.left >= 0) {
            double* edge = edges.out + s.left * padded;
            for (int64_t j = 0; j < K; ++j) edge[j] += x[j];
        }
        if (p == n - 1 && s.right >= 0) {
            double* edge = edges.out + n * edges.out_stride + s.right;
            for (int64_t j = 0; j < K; ++j) edge[j * padded] += x[j];
        }
        if (p == 0) continue;
        const double *before = a - padded, *dbefore = d - padded;
        const double* score = s.scores + p * padded;
        const double* A = edges.scores + p * edges.stride;
        double* edge = edges.out + p * edges.out_stride;
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j < K; ++j) {
                double q = fast_exp(before[i] + A[i * padded + j] + score[j] + b[j] - s.log_z);
                if (tangent)
                    q *= dbefore[i] + edges.tangent[p * edges.stride + i * padded + j] +
                         s.tangent_scores[p * padded + j] + e[j] - s.log_z_tangent;
                if (chain.squares) q *= 1.0 - q;
                edge[i * padded + j] -= s.weight * q;
            }
        if (known && s.labels[p - 1] >= 0) edge[s.labels[p - 1] * padded + s.labels[p]] += s.weight;
    }
}

}  // namespace
}  // namespace ff::FF_ISA

// The recursions of a segment in log space: they never underflow, and take edges that differ between tokens.
#pragma once

#include "chain_segment.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {
namespace {

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

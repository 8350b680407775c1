// The recursions of a segment in probability space where the edge into each token has a matrix of its own.
//
// M_p = exp(A_p - max A) with the largest of the shared transitions for all tokens. An entry that may be out of range
// has NaN in its place: it makes a scale NaN, and the segment goes to log space.
#pragma once

#include "chain_log_space.hpp"

namespace ff::FF_ISA {
namespace {

// Exponents beyond this are left to log space. With entries of at most 1e131 and g below 1e100, what underflows in α
// still counts for nothing.
constexpr double largest_exponent = 300.0;

// exp of the weight of each label pair's feature, for features of value 1: their product is the factor of a token's
// edge. No product of as many as a token has may leave the range, not even on the way.
void fill_column_factors(const ChainData& data, const ChainWeights& weights, double* factors) {
    if (!data.edge_ptr || data.edge_values) return;
    int64_t most = 1;
    for (int64_t t = 0; t < data.n_tokens; ++t) {
        const int64_t count = data.edge_ptr[t + 1] - data.edge_ptr[t];
        most = count > most ? count : most;
    }
    const double limit = largest_exponent / static_cast<double>(most);
    for (int64_t k = 0; k < data.n_columns; ++k) {
        const double u = weights.columns[k];
        factors[k] = u < limit && u > -limit ? fast_exp(u) : __builtin_nan("");
    }
}

// α of all tokens and their scales; `matrices` holds M_p at p * padded * padded.
FF_INLINE void own_edges_forward(const Chain& chain, Segment& s, const double* matrices) {
    const int64_t padded = chain.padded, square = padded * padded, K = chain.n_labels, n = s.length;
    s.good = true;
    for (int64_t p = 0; p < n && s.good; ++p) {
        double* row = s.alpha + p * s.stride;
        const double* psi = s.psi + p * padded;
        const double* factor = p == 0 && s.left >= 0 ? matrices + s.left * padded : row;
        if (p > 0) {
            const double* before = row - s.stride;
            product_rows<1>(&before, matrices + p * square, &row, K, padded);
        }
        v4 total = splat(0.0);
        for (int64_t j = 0; j < padded; j += 4) {
            v4 x = load(psi + j);
            if (p > 0 || s.left >= 0) x *= load(factor + j);
            store(row + j, x);
            total += x;
        }
        const double c = normalise(row, total, padded);
        s.c[p * s.c_stride] = c;
        s.good = c > tiny_scale;
    }
    if (!s.good) return;
    double c = 1.0;
    if (s.right >= 0) {
        const double* last = s.alpha + (n - 1) * s.stride;
        const double* right = matrices + n * square + s.right;
        c = 0.0;
        for (int64_t i = 0; i < K; ++i) c += last[i] * right[i * padded];
    }
    s.c[n * s.c_stride] = c;
    s.good = c > tiny_scale;
}

// g and the node marginals of all tokens; `beta` has room for one row.
FF_INLINE void own_edges_backward(const Chain& chain, Segment& s, const double* matrices, double* beta) {
    const int64_t padded = chain.padded, square = padded * padded, K = chain.n_labels, n = s.length;
    const double scale = s.weight / s.c[n * s.c_stride];
    for (int64_t i = 0; i < padded; ++i) beta[i] = scale;
    if (s.right >= 0)
        for (int64_t i = 0; i < K; ++i) beta[i] *= matrices[n * square + i * padded + s.right];
    v4 most = splat(0.0);
    for (int64_t p = n - 1; p >= 0; --p) {
        double* g = s.g + p * s.stride;
        double* node = s.nodes + p * s.stride;
        const double *psi = s.psi + p * padded, *alpha = s.alpha + p * s.stride;
        const v4 inverse = splat(1.0 / s.c[p * s.c_stride]);
        for (int64_t j = 0; j < padded; j += 4) {
            const v4 x = load(beta + j), y = load(psi + j) * x * inverse;
            most = larger(most, y * y);
            store(g + j, y);
            store(node + j, x * load(alpha + j));
        }
        if (p == 0) break;
        for (int64_t i = 0; i < K; ++i) {
            const double* row = matrices + p * square + i * padded;
            v4 total = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) total += load(row + j) * load(g + j);
            beta[i] = sum(total);
        }
    }
    s.good = largest(most) < huge_backward * huge_backward * s.weight * s.weight;
}

// Both passes and the residuals. A segment that is not good has added nothing. `work`: one row.
FF_INLINE void own_edges_segment(const Chain& chain, Segment& s, const double* matrices, const Edges& edges,
                                 double* work) {
    const int64_t padded = chain.padded, square = padded * padded, K = chain.n_labels;
    own_edges_forward(chain, s, matrices);
    if (!s.good || !s.residuals) return;
    own_edges_backward(chain, s, matrices, work);
    if (!s.good) return;
    for (int64_t p = 0; p < s.length; ++p) {
        double* node = s.nodes + p * s.stride;
        for (int64_t j = 0; j < K; ++j) node[j] = -node[j];
        add_token(chain, s, edges, p, s.observed, node);
        if (p == 0) continue;
        const double *alpha = s.alpha + (p - 1) * s.stride, *g = s.g + p * s.stride;
        double* out = edges.out + p * edges.out_stride;
        for (int64_t i = 0; i < K; ++i) {
            const v4 a = splat(alpha[i]);
            const double* row = matrices + p * square + i * padded;
            double* to = out + i * padded;
            for (int64_t j = 0; j < padded; j += 4) store(to + j, load(to + j) - a * load(row + j) * load(g + j));
        }
    }
}

}  // namespace
}  // namespace ff::FF_ISA

// The recursions of segments in probability space, up to four segments in step.
//
// Probability space: ψ_p = exp(s_p - max s_p), M = exp(A - max A), α_p = ψ_p ∘ (α_{p-1} M) / c_p with Σ α_p = 1, and
// backwards g_p = ψ_p ∘ β_p / c_p, β_{p-1} = M g_p. With β starting from w, the weight of the segment, α_p ∘ β_p is w
// times the node marginal and α_{p-1}(i) M(i,j) g_p(j) is w times the edge marginal. What underflows at p is below
// 1e-308 and counts in the end with a factor of at most max β, so the result is right whenever no c_p is tiny and no
// g_p is huge; otherwise the segment is done again in log space.
#pragma once

#include "chain.hpp"
#include "chain_products.hpp"

namespace ff::FF_ISA {
namespace {

constexpr double tiny_scale = 1e-200;
constexpr double huge_backward = 1e100;

// What the segments of one chunk share.
struct Chain {
    int64_t n_labels, padded;
    const double *transitions, *tangent_transitions;   // A and its direction
    const double *forward, *backward;                  // M and its transpose
    const double *forward_panels, *backward_panels;    // the same in panels
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
        product(active, in, chain.forward_panels, out, chain.n_labels, padded);
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
        if (p > 0) product(active, in, chain.backward_panels, out, chain.n_labels, padded);
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

}  // namespace
}  // namespace ff::FF_ISA

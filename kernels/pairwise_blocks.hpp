// A batch of blocks of a binary pairwise field: the table of all sets of flips, and what follows from it.
//
// The pair (a, b), a < b, of a block has the number b (b - 1) / 2 + a. Tables are (2^k, B): entry F is a set of flips.
// Only for *_isa.cpp files.
#pragma once

#include <cstdint>

#include "pairwise.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

static constexpr int64_t B = pairwise_batch;

// table[F] = prod_{a in F} one[a] prod_{a < b in F} two[ab], or the sum of the same.
template <int K, bool sum>
static inline void flip_table(int k_given, const double* one, const double* two, double* table) {
    const int k = K ? K : k_given;
#pragma omp simd
    for (int64_t v = 0; v < B; ++v) table[v] = sum ? 0.0 : 1.0;
    for (int b = 0; b < k; ++b) {
        const int size = 1 << b;
        double* upper = table + size * B;
#pragma omp simd
        for (int64_t v = 0; v < B; ++v) upper[v] = one[b * B + v];
        for (int a = 0; a < b; ++a) {
            const double* pair = two + (b * (b - 1) / 2 + a) * B;
            for (int s = 0; s < (1 << a); ++s)
#pragma omp simd
                for (int64_t v = 0; v < B; ++v)
                    upper[((1 << a) + s) * B + v] = sum ? upper[s * B + v] + pair[v] : upper[s * B + v] * pair[v];
        }
#pragma omp simd
        for (int64_t v = 0; v < size * B; ++v) upper[v] = sum ? upper[v] + table[v] : upper[v] * table[v];
    }
}

// table[F] becomes the sum over all sets that contain F.
template <int K>
static inline void superset_sums(int k_given, double* table) {
    const int k = K ? K : k_given;
    for (int b = 0; b < k; ++b)
        for (int s = 0; s < (1 << k); ++s)
            if (!(s >> b & 1))
#pragma omp simd
                for (int64_t v = 0; v < B; ++v) table[s * B + v] += table[(s | 1 << b) * B + v];
}

// What a batch of blocks reads and writes; one, two: exp of (s_a H_a, s_a s_b q_ab), or these themselves where they are
// too large to be exponentiated (`safe`).
struct Batch {
    double one[pairwise_most * pairwise_batch];
    double d_one[pairwise_most * pairwise_batch];
    double two[pairwise_most * (pairwise_most - 1) / 2 * pairwise_batch];
    double d_two[pairwise_most * (pairwise_most - 1) / 2 * pairwise_batch];
    double sign[pairwise_most * pairwise_batch];
    double pi[pairwise_most * pairwise_batch];
    double pi_pair[pairwise_most * (pairwise_most - 1) / 2 * pairwise_batch];
    double value[pairwise_batch];
};

// Fills pi, pi_pair and value by mode: probabilities (gradient, scores), their derivatives (hessian), variances
// (diagonal); value is log p, or the score times the direction (products).
template <int K, bool safe>
static inline void solve_batch(PairwiseMode mode, int k_given, double state0, double gap, Batch& batch, double* table,
                               double* dtable) {
    const int k = K ? K : k_given;
    double shift[B], inverse[B];
    flip_table<K, safe>(k, batch.one, batch.two, table);
#pragma omp simd
    for (int64_t v = 0; v < B; ++v) shift[v] = 0.0;
    if (safe) {
        for (int s = 1; s < (1 << k); ++s)
#pragma omp simd
            for (int64_t v = 0; v < B; ++v) shift[v] = table[s * B + v] > shift[v] ? table[s * B + v] : shift[v];
        for (int s = 0; s < (1 << k); ++s)
#pragma omp simd
            for (int64_t v = 0; v < B; ++v) table[s * B + v] = fast_exp(table[s * B + v] - shift[v]);
    }
    const bool direction = mode == PairwiseMode::hessian || mode == PairwiseMode::products;
    if (direction) {
        flip_table<K, true>(k, batch.d_one, batch.d_two, dtable);
#pragma omp simd
        for (int64_t v = 0; v < (B << k); ++v) dtable[v] *= table[v];
        superset_sums<K>(k, dtable);
    }
    superset_sums<K>(k, table);
#pragma omp simd
    for (int64_t v = 0; v < B; ++v) inverse[v] = 1.0 / table[v];
    if (mode == PairwiseMode::products) {
#pragma omp simd
        for (int64_t v = 0; v < B; ++v) batch.value[v] = -dtable[v] * inverse[v];
        return;
    }
    if (mode == PairwiseMode::gradient || mode == PairwiseMode::values)
#pragma omp simd
        for (int64_t v = 0; v < B; ++v) batch.value[v] = -(fast_log(table[v]) + shift[v]);
    if (mode == PairwiseMode::values) return;
    for (int b = 0; b < k; ++b) {
        const double* t = table + (int64_t{1} << b) * B;
#pragma omp simd
        for (int64_t v = 0; v < B; ++v) batch.pi[b * B + v] = t[v] * inverse[v];
        for (int a = 0; a < b; ++a) {
            const double* tt = table + ((int64_t{1} << b) + (int64_t{1} << a)) * B;
            double* out = batch.pi_pair + (b * (b - 1) / 2 + a) * B;
#pragma omp simd
            for (int64_t v = 0; v < B; ++v) out[v] = tt[v] * inverse[v];
        }
    }
    if (mode == PairwiseMode::hessian) {
        for (int b = 0; b < k; ++b) {
            const double* t = dtable + (int64_t{1} << b) * B;
#pragma omp simd
            for (int64_t v = 0; v < B; ++v) batch.pi[b * B + v] = (t[v] - batch.pi[b * B + v] * dtable[v]) * inverse[v];
            for (int a = 0; a < b; ++a) {
                const double* tt = dtable + ((int64_t{1} << b) + (int64_t{1} << a)) * B;
                double* out = batch.pi_pair + (b * (b - 1) / 2 + a) * B;
#pragma omp simd
                for (int64_t v = 0; v < B; ++v) out[v] = (tt[v] - out[v] * dtable[v]) * inverse[v];
            }
        }
    }
    if (mode == PairwiseMode::diagonal) {
        // Pairs first: the variance of x_a x_b in the block, less what the outer product counts for this pair.
        for (int b = 1; b < k; ++b)
            for (int a = 0; a < b; ++a) {
                double* out = batch.pi_pair + (b * (b - 1) / 2 + a) * B;
#pragma omp simd
                for (int64_t v = 0; v < B; ++v) {
                    const double pa = batch.pi[a * B + v], pb = batch.pi[b * B + v], p11 = out[v];
                    const double xa = batch.sign[a * B + v] > 0 ? state0 : state0 + gap;
                    const double xb = batch.sign[b * B + v] > 0 ? state0 : state0 + gap;
                    const double ya = 2.0 * state0 + gap - xa, yb = 2.0 * state0 + gap - xb;
                    const double p10 = pa - p11, p01 = pb - p11, p00 = 1.0 - pa - pb + p11;
                    const double mean = p00 * xa * xb + p10 * ya * xb + p01 * xa * yb + p11 * ya * yb;
                    const double d00 = xa * xb - mean, d10 = ya * xb - mean, d01 = xa * yb - mean, d11 = ya * yb - mean;
                    const double variance = p00 * d00 * d00 + p10 * d10 * d10 + p01 * d01 * d01 + p11 * d11 * d11;
                    out[v] = variance - gap * gap * (pa * (1.0 - pa) * xb * xb + pb * (1.0 - pb) * xa * xa);
                }
            }
#pragma omp simd
        for (int64_t v = 0; v < k * B; ++v) batch.pi[v] *= 1.0 - batch.pi[v];
    }
}

static void solve(bool safe, PairwiseMode mode, int k, double state0, double gap, Batch& batch, double* table,
                  double* dtable) {
    if (safe) return solve_batch<0, true>(mode, k, state0, gap, batch, table, dtable);
    if (k == 1) return solve_batch<1, false>(mode, k, state0, gap, batch, table, dtable);
    if (k == 2) return solve_batch<2, false>(mode, k, state0, gap, batch, table, dtable);
    if (k == 3) return solve_batch<3, false>(mode, k, state0, gap, batch, table, dtable);
    if (k == 4) return solve_batch<4, false>(mode, k, state0, gap, batch, table, dtable);
    solve_batch<0, false>(mode, k, state0, gap, batch, table, dtable);
}

}  // namespace ff::FF_ISA

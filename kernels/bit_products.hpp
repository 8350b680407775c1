// Products of a 0/1 matrix, given as bits, with a dense one.
//
// Four columns of a 0/1 matrix have 16 combinations, so four multiply-adds become one look-up of a sum that is made
// once for a chunk of samples ("four Russians"): a quarter of the arithmetic of a general product, in full precision.
// 32 variables are done together: 8 tables of 16 lines of a panel are 16 KB and stay in the first-level cache.
// Only for *_isa.cpp files.
#pragma once

#include <cstdint>

#include "isa.hpp"
#include "pairwise.hpp"

namespace ff::FF_ISA {

static constexpr int64_t P = pairwise_panel;

// Plain loops over a panel are not kept in registers by the compilers, hence vectors by name here.
#if defined(__GNUC__)
#if defined(__AVX512F__)
static constexpr int64_t W = 8;
#elif defined(__AVX__)
static constexpr int64_t W = 4;
#else
static constexpr int64_t W = 2;
#endif
typedef double Vec __attribute__((vector_size(8 * W), aligned(8), may_alias));
#else
static constexpr int64_t W = 1;
typedef double Vec;
#endif
static constexpr int64_t V = P / W;

static inline const Vec* vectors(const double* p) { return reinterpret_cast<const Vec*>(p); }
static inline Vec* vectors(double* p) { return reinterpret_cast<Vec*>(p); }

// out[i, :] = bias[:] + sum_k c_ik matrix[k, :], for the columns of one panel.
static void fields_panel(const double* matrix, int64_t stride, const double* bias, const uint32_t* rows,
                         int64_t row_words, int64_t n, double* table, double* out) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t v = 0; v < V; ++v) vectors(out + i * P)[v] = vectors(bias)[v];
    for (int64_t word = 0; word < row_words; ++word) {
        for (int64_t g = 0; g < 8; ++g) {
            double* line = table + g * 16 * P;
            for (int64_t v = 0; v < P; ++v) line[v] = 0.0;
            for (int64_t bit = 0; bit < 4; ++bit) {
                const Vec* w = vectors(matrix + (word * 32 + g * 4 + bit) * stride);
                for (int64_t s = 0; s < (1 << bit); ++s)
                    for (int64_t v = 0; v < V; ++v)
                        vectors(line + ((1 << bit) + s) * P)[v] = vectors(line + s * P)[v] + w[v];
            }
        }
        for (int64_t i = 0; i < n; ++i) {
            const uint64_t code = rows[i * row_words + word];
            Vec* to = vectors(out + i * P);
            Vec sum[V];
#pragma GCC unroll 16
            for (int64_t v = 0; v < V; ++v) sum[v] = to[v];
#pragma GCC unroll 8
            for (int64_t g = 0; g < 8; ++g) {
                const Vec* line = vectors(table + (g * 16 + ((code >> (4 * g)) & 15)) * P);
#pragma GCC unroll 16
                for (int64_t v = 0; v < V; ++v) sum[v] += line[v];
            }
#pragma GCC unroll 16
            for (int64_t v = 0; v < V; ++v) to[v] = sum[v];
        }
    }
}

// outer[k, :] += sum_i c_ik residual[i, :], for the columns of one panel: sums by combination, then by variable.
static void outer_panel(const double* residual, const uint32_t* rows, int64_t row_words, int64_t n, double* table,
                        double* outer, int64_t stride) {
    for (int64_t word = 0; word < row_words; ++word) {
        for (int64_t v = 0; v < 8 * 16 * P; ++v) table[v] = 0.0;
        for (int64_t i = 0; i < n; ++i) {
            const uint64_t code = rows[i * row_words + word];
            const Vec* from = vectors(residual + i * P);
            Vec r[V];
#pragma GCC unroll 16
            for (int64_t v = 0; v < V; ++v) r[v] = from[v];
#pragma GCC unroll 8
            for (int64_t g = 0; g < 8; ++g) {
                Vec* line = vectors(table + (g * 16 + ((code >> (4 * g)) & 15)) * P);
#pragma GCC unroll 16
                for (int64_t v = 0; v < V; ++v) line[v] += r[v];
            }
        }
        for (int64_t g = 0; g < 8; ++g)
            for (int64_t bit = 3; bit >= 0; --bit) {
                // The upper half has this bit: it is summed for its variable, then added to the lower half.
                Vec* to = vectors(outer + (word * 32 + g * 4 + bit) * stride);
                for (int64_t s = 0; s < (1 << bit); ++s) {
                    const Vec* upper = vectors(table + (g * 16 + (1 << bit) + s) * P);
                    Vec* lower = vectors(table + (g * 16 + s) * P);
                    for (int64_t v = 0; v < V; ++v) {
                        to[v] += upper[v];
                        lower[v] += upper[v];
                    }
                }
            }
    }
}

}  // namespace ff::FF_ISA

#include "pairwise_moments.hpp"

namespace ff::FF_ISA {

void pairwise_moments(const PairwiseScores& of, int64_t first, int64_t count, double* scores, double* out) {
    const double inside = of.gap * of.gap, outside = of.gap * of.state0;
    const int32_t* edges = of.edges + 2 * first;
    for (int64_t i = 0; i < of.n; ++i) {
        const double weight = of.weight ? of.weight[i] : 1.0;
        if (weight == 0.0) continue;
        const uint8_t* x = of.codes + i * of.m;
        for (int64_t f = 0; f < of.families; ++f) {
            const double* r = of.residual + (f * of.n + i) * of.m;
            const double* pair = of.pair_terms + (f * of.n + i) * of.n_edges + first;
            double* own = scores + f * EDGE_CHUNK;
#pragma omp simd
            for (int64_t e = 0; e < count; ++e) {
                const int32_t a = edges[2 * e], b = edges[2 * e + 1];
                own[e] = inside * (pair[e] + r[a] * x[b] + r[b] * x[a]) + outside * (r[a] + r[b]);
            }
        }
        for (int64_t f = 0; f < of.families; ++f) {
            const double* left = scores + f * EDGE_CHUNK;
            for (int64_t g = f; g < of.families; ++g) {
                const double* right = scores + g * EDGE_CHUNK;
                double* total = out + (f * of.families + g) * of.n_edges + first;
#pragma omp simd
                for (int64_t e = 0; e < count; ++e) total[e] += weight * left[e] * right[e];
            }
        }
    }
}

}  // namespace ff::FF_ISA

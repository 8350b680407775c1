// Second moments of the scores of a binary pairwise field, by pairs of families, without storing a score.
//
// The score of sample i in family f along the edge e = (a, b) is
//
//     s_f = gap² (pair_f + r_a x_b + r_b x_a) + gap state0 (r_a + r_b)
//
// with the residuals r (variables) and the pair terms that mode 5 of `pairwise` gives, x the codes 0 and 1. The
// result is Σ_i w_i s_f s_g for every edge and f ≤ g. An edge is summed by one thread in the order of the samples,
// so the bits do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

struct PairwiseScores {
    const int32_t* edges;      // (n_edges × 2)
    const uint8_t* codes;      // (n × m)
    const double* residual;    // (families × n × m)
    const double* pair_terms;  // (families × n × n_edges)
    const double* weight;      // (n), or null for ones
    double state0, gap;
    int64_t n, m, n_edges, families;
};

// Edges that a thread takes at a time.
constexpr int64_t EDGE_CHUNK = 128;

}  // namespace ff

// The edges [first, first + count), count ≤ EDGE_CHUNK. `scores` is scratch (families × EDGE_CHUNK), `out` (families ×
// families × n_edges) is added to where f ≤ g.
FF_DECLARE_LEVELS(void pairwise_moments(const PairwiseScores& of, int64_t first, int64_t count, double* scores,
                                        double* out))

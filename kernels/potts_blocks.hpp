// Pairwise fields with q states: blocks of several sites, each given all other sites.
//
// Of a block A with the sites a_1, ..., a_k and one sample, let f_a be the field of site a without the couplings inside
// A:
//     f_a(s) = h_a(s) + sum over k outside A of J_ak(s, x_k) = F_a(s) - sum over b in A of J_ab(s, x_b)
// where F_a are the fields that PL1 has (potts.hpp). The block's table has q^k entries,
//     T(s_1, ..., s_k) = sum_a f_a(s_a) + sum over edges inside A of J_ab(s_a, s_b),    log p(x_A | rest) = T(x_A) -
//     log Z.
// Its residuals rho = [s = x_A] - p(s) are summed to those of each site, r_a, which are scattered to all neighbours as
// in PL1, and to those of each edge inside A, from which that scatter is taken away again. So an evaluation costs what
// PL1 costs and q^k exponentials for each block and sample, and nothing that grows with the number of samples is
// stored.
#pragma once

#include <cstdint>

#include "isa.hpp"
#include "potts.hpp"

namespace ff {

constexpr int64_t potts_block_sites = 12;         // most sites of a block
constexpr int64_t potts_block_entries = 1 << 16;  // most entries of a block's table

// An edge inside a block: the places of its ends among the block's sites (low < high), and its couplings J(s_low,
// s_high).
struct BlockEdge {
    int64_t low, high;
    int64_t by_low, by_high;  // strides of s_low and s_high in `couplings`, `direction` and `sum`
    const double *couplings, *direction;
    double* sum;  // added to
};

// One block and its samples of one chunk.
struct BlockTask {
    PottsMode mode;  // gradient, hessian, diagonal, values or products
    int64_t q, padded, k, n_edges;
    const uint8_t* const* columns;  // (k) states of each site
    const BlockEdge* edges;         // (n_edges)
    // (k) fields of the chunk, along the direction, and residuals, which are added to: (chunk, padded) each
    const double* const* fields;
    const double* const* moved;
    double* const* residuals;
    const int64_t* samples;  // (count) which samples, or null: first, first + 1, ...
    int64_t first, count, chunk_first;
    const double* sample_weight;  // (n) or null
    // (count) or null: a sample stands for all with its configuration of the rest, whose summed weight this is. The
    // value is then that of -log Z alone, and so are its derivatives.
    const double* rest_weight;
    double beta;
    double* out;      // (n), added to, for values and products
    double* scratch;  // block_scratch numbers
};

constexpr int64_t block_entries(int64_t q, int64_t k) {
    int64_t entries = 1;
    for (int64_t i = 0; i < k; ++i) entries = entries > potts_block_entries ? entries : entries * q;
    return entries;
}

// Two tables and those of the levels below them, the fields of the sites twice, their residuals, and the edges' tables.
constexpr int64_t block_scratch(int64_t q, int64_t k, int64_t n_edges) {
    return 4 * block_entries(q, k) + 3 * k * q + n_edges * q * q;
}

}  // namespace ff

// Returns the weighted sum of the log-likelihoods.
FF_DECLARE_LEVELS(double potts_block(const BlockTask& task))

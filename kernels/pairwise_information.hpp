// The information of blocks of a binary pairwise field as a matrix over its edges and biases.
//
// Measured from the observed state c (see pairwise.hpp) let d_a = s_a [a is flipped]. Up to constants the block's
// statistics are d_a and d_a d_b: the edge (a, k) has c_k d_a (and c_a d_k if k is in the block too) plus d_a d_k, the
// bias of a has d_a. With P(S) the probability that all of S are flipped,
//
//     Cov(d_S, d_T) = s_S s_T (P(S u T) - P(S) P(T)),
//
// and every pair of features has the sum of such terms. A block of k variables costs 2^k k for P, and one addition for
// each pair of features that the sample's ones touch: far less than a Hessian product for each parameter.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

struct PairwiseBlocks {
    int64_t n, m, n_edges;       // the matrix has n_edges + m rows
    const uint8_t* codes;        // (n × m)
    const int32_t* edge_number;  // (m × m), -1 is no edge
    const double* matrix;        // (m × m) symmetric weights q
    const double* bias;          // (m)
    int64_t k, n_components;     // variables of a block
    const int32_t* targets;      // (n_components × k)
    const double* beta;          // (n_components)
    const double* row_weight;    // (n), or null for ones
    const int64_t* indptr;       // (n + 1) into the entries, or null: every component for every sample
    const int32_t* component;    // entries
    const double* entry_weight;  // entries, or null for ones
};

// Doubles and integers of scratch that one thread needs.
constexpr int64_t information_doubles(int64_t m, int64_t k) { return m + (int64_t{1} << k) + (k + k * (k - 1) / 2); }
constexpr int64_t information_integers(int64_t m, int64_t k) { return m * (m + 1) + m + 2 * (k + k * (k - 1) / 2); }

}  // namespace ff

// Add the samples first..last-1 to `out` ((n_edges + m)²). Only one of two mirrored entries is sure to be added to: the
// result is out + outᵀ with the terms of equal statistics counted half.
FF_DECLARE_LEVELS(void pairwise_information(const PairwiseBlocks& of, int64_t first, int64_t last, double* numbers,
                                            int64_t* places, double* out))

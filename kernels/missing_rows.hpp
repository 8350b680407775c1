// PL1 of a binary pairwise field for rows with missing values, by all joint states of what a row misses.
//
// A row knows x_K and misses the k variables M; s is one of the 2^k states of M. With the fields f_j of the known
// values, h_j(s) = f_j + Σ_a s_a w_{j M_a}, log p(s | x_K) = Σ_a s_a f_{M_a} + Σ_{a<b} s_a s_b w_{M_a M_b} − log Z and
// d_j = 1 − 2 x_j, which turns x_j into its other value,
//
//     log p(x_j | the other known values) = −log(1 + ρ_j),     ρ_j = Σ_s p(s | x_K) exp(d_j h_j(s)).
//
// Eight variables j go through the 2^k states at a time. exp(d_j h_j(s)) is a product of exp(d_j w_{j M_a}), built up
// by doubling, so that an entry costs multiplications only; where the products could leave the range of numbers, it is
// an exponential of a sum. q_j(s) = p(s | x_K) exp(d_j h_j(s)) / ρ_j is the probability of s if x_j is turned. The
// gradient of Σ_j c_j log p(x_j | …) needs Σ_s q_j(s) s_a for each j and a, and the moments of Σ_j pull_j (q_j(s) − p(s
// | x_K)) with pull_j = −c_j ρ_j / (1 + ρ_j): sums over halves of tables, which halve the tables. Tangents follow the
// same steps.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

constexpr int64_t missing_lanes = 8;
constexpr int64_t most_missing = 24;
constexpr int64_t most_scratch = int64_t{1} << 26;  // numbers of all threads, 512 MiB

// One row. Null pointers of the tangents: none are wanted. `scratch` has missing_scratch(k, directed) numbers.
struct MissingRow {
    int64_t m, k;
    const uint8_t* codes;    // (m,), 0 where missing
    const int32_t* missing;  // (k,)
    const double* weights;   // (m, m), symmetric
    const double* field;     // (m,) of the known values
    const double* scale;     // (m,) c_j, 0 where missing
    const double* weights_tangent;
    const double* field_tangent;
    double* scratch;
    // Results: Σ_j c_j log p; pull_j d_j (m,); Σ_s b(s) s_a (k,); Σ_s b(s) s_a s_b (k, k), b ≠ a; Σ_s q_j(s) s_a (k,
    // m). b(s) = Σ_j pull_j (q_j(s) − p(s)).
    double* value;
    double *turned, *ones, *both, *cross;
    double *value_tangent, *turned_tangent, *ones_tangent, *both_tangent, *cross_tangent;
};

inline int64_t missing_scratch(int64_t k, bool directed) {
    const int64_t states = int64_t{1} << k;
    return (directed ? 2 : 1) * states * (missing_lanes + 3);
}

}  // namespace ff

FF_DECLARE_LEVELS(void missing_row(const MissingRow& row))

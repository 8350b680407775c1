// Pairwise fields with q states, log p(x) = sum_e J_e(x_a, x_b) + sum_j h_j(x_j) - log Z: each site given all the rest.
//
// A task takes one target site j and a range of its samples. The couplings of j are laid out once as rows: row (k, s)
// holds J_jk(. , x_k = s) for all states of j, padded to whole vectors. Then, for a chunk of samples at a time,
//     fields[i]      = h_j + sum_k row(k, x_ik)                 sums of rows (add_rows)
//     residual[i]    = w_i ([x_ij = .] - p_ij(.))               from the conditional probabilities p
//     gradient(k, s) += residual[i] where x_ik = s              rows again (scatter_rows)
// Neighbours are done in groups whose rows stay in the first-level cache; the sums of a sample stay in registers. An
// edge gets two contributions, one from each end, and a + b = b + a: the result is the same for any number of threads.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

constexpr int64_t potts_chunk = 256;          // samples whose fields are held at once
constexpr int64_t potts_group_bytes = 24576;  // rows of a group of neighbours
constexpr int64_t potts_lanes = 8;  // rows are padded to a multiple of this where q is larger than 4, else to 4

enum class PottsMode : int {
    gradient = 0,  // value and gradient, summed
    hessian = 1,   // Hessian times a direction, summed
    diagonal = 2,  // the diagonal of the negative Hessian, summed
    values = 3,    // log p of each component
    products = 4,  // score of each component times a direction
    residuals = 5  // [x = a] - p(a) of each component
};

constexpr int64_t potts_padded(int64_t q) { return q <= 4 ? 4 : (q + potts_lanes - 1) / potts_lanes * potts_lanes; }

// One target site and the samples of one task.
struct PottsTask {
    PottsMode mode;
    int64_t q, padded;              // states, and numbers of a row
    int64_t degree;                 // neighbours
    int64_t count;                  // samples
    const uint8_t* own;             // (n) states of the target
    const uint8_t* const* columns;  // (degree) states of each neighbour, (n) each
    const int64_t* samples;         // (count) which samples, or null: first, first + 1, ...
    int64_t first;
    const double* sample_weight;  // (n) or null
    const double* entry_weight;   // (count) or null
    double beta;
    const double *rows, *direction;         // (degree, q, padded)
    const double *field, *field_direction;  // (padded), -inf in the padding of `field`
    double* gradient;                       // (degree, q, padded), added to; for modes with sums
    double* field_gradient;                 // (padded), added to
    double* out;                            // (count) or, for residuals, (count, q)
    double* scratch;                        // potts_scratch(q) numbers, aligned to 64 bytes
    uint8_t* gathered;                      // potts_chunk * (degree + 1), where `samples` is given
    const uint8_t** pointers;               // (degree)
};

constexpr int64_t potts_scratch(int64_t q) { return potts_chunk * (2 * potts_padded(q) + 2); }

}  // namespace ff

// Returns the weighted sum of the log-likelihoods.
FF_DECLARE_LEVELS(double potts_task(const PottsTask& task))

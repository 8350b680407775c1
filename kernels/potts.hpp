// Pairwise fields with q states, log p(x) = sum_e J_e(x_a, x_b) + sum_j h_j(x_j) - log Z: each site given all the rest.
//
// A task takes one target site j and a range of its samples. The couplings of j are laid out once as rows: row (k, s)
// holds J_jk(. , x_k = s) for all states of j, padded to whole vectors, or for all but the last: probabilities depend
// on differences of fields only, so that row (k, s) may hold J_jk(a, s) - J_jk(q - 1, s) for a < q - 1. Residuals of a
// sample sum to 0, so that those of the last state follow from the others. With 21 states a row is then 5 vectors of 4
// doubles in place of 6. Then, for a chunk of samples at a time,
//     fields[i]      = h_j + sum_k row(k, x_ik)                 sums of rows (add_rows)
//     residual[i]    = w_i ([x_ij = .] - p_ij(.))               from the conditional probabilities p
//     gradient(k, s) += residual[i] where x_ik = s              rows again (scatter_rows)
// Neighbours are done in groups of up to eight whose rows stay in the first-level cache. Where in its group the row of
// a state begins is computed once for each chunk, so that a row costs its vectors and hardly anything else; the sums of
// a sample stay in registers. Rows are double or, where asked for, single precision; the value is summed in double
// precision, and sums of single-precision residuals go to double precision after at most potts_flush samples. An edge
// gets two contributions, one from each end, and a + b = b + a: the result is the same for any number of threads.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

constexpr int64_t potts_chunk = 512;          // samples whose fields are held at once
constexpr int64_t potts_group = 8;            // most neighbours of a group
constexpr int64_t potts_group_bytes = 32768;  // rows of a group of neighbours, if more than one fits
constexpr int64_t potts_flush = 16384;        // samples whose residuals are summed in single precision

enum class PottsMode : int {
    gradient = 0,   // value and gradient, summed
    hessian = 1,    // Hessian times a direction, summed
    diagonal = 2,   // the diagonal of the negative Hessian, summed
    values = 3,     // log p of each component
    products = 4,   // score of each component times a direction
    residuals = 5,  // [x = a] - p(a) of each component
    fields = 6,     // the fields themselves, and along a direction
    scatter = 7     // sums of given residuals
};

// The states that rows of a site with q states list: all of them, or all but the last, whose field is then 0.
struct PottsRow {
    int64_t q, states, padded;  // padded: numbers of a row, whole vectors

    bool reduced() const { return states < q; }

    // Leaves the last state out, where asked for, if that saves a vector.
    template <class Real>
    static PottsRow of(int64_t q, bool reduced) {
        const int64_t all = padded_for<Real>(q), fewer = padded_for<Real>(q - 1);
        return reduced && fewer < all ? PottsRow{q, q - 1, fewer} : PottsRow{q, q, all};
    }

  private:
    template <class Real>
    static int64_t padded_for(int64_t states) {
        const int64_t size = sizeof(Real), bytes = states * size;
        const int64_t vector = isa_level() == 2 && bytes > 32 ? 64 : 32;
        return (bytes + vector - 1) / vector * vector / size;
    }
};

// Places that hold the rows of a chunk's states.
constexpr int64_t potts_places(int64_t degree) { return degree * potts_chunk; }

// One target site and the samples of one task.
template <class Real>
struct PottsTask {
    PottsMode mode;
    PottsRow row;
    int64_t degree;                 // neighbours
    int64_t count;                  // samples
    const uint8_t* own;             // (n) states of the target
    const uint8_t* const* columns;  // (degree) states of each neighbour, (n) each
    const int64_t* samples;         // (count) which samples, or null: first, first + 1, ...
    int64_t first;
    const double* sample_weight;  // (n) or null
    const double* entry_weight;   // (count) or null
    double beta;
    const Real *rows, *direction;         // (degree, q, padded)
    const Real *field, *field_direction;  // (padded), -inf in the padding of `field`
    Real* gradient;                       // (degree, q, padded), added to; for modes with sums
    Real* field_gradient;                 // (padded), added to
    double* out;                          // (count) or, for residuals, (count, q)
    Real *fields, *moved;                 // (potts_chunk, padded) each, for the task's own use; for the last two modes
                                          // (count, padded): fields that are set, or residuals that are read
    uint16_t* places;                     // potts_places(degree), likewise
};

}  // namespace ff

// Returns the weighted sum of the log-likelihoods.
FF_DECLARE_LEVELS(double potts_task_double(const PottsTask<double>& task))
FF_DECLARE_LEVELS(double potts_task_single(const PottsTask<float>& task))

// Pairwise fields with q states, log p(x) = sum_e J_e(x_a, x_b) + sum_j h_j(x_j) - log Z: each site given all the rest.
//
// A task takes one target site j and a range of its samples. The couplings of j are laid out once as rows: row (k, s)
// holds J_jk(. , x_k = s) for all states of j, padded to whole vectors, or for all but the last: probabilities depend
// on differences of fields only, so that row (k, s) may hold J_jk(a, s) - J_jk(q - 1, s) for a < q - 1. Residuals of a
// sample sum to 0, so that those of the last state follow from the others. Then, for a chunk of samples at a time,
//     fields[i]      = h_j + sum_k row(k, x_ik)                 sums of rows (add_rows)
//     residual[i]    = w_i ([x_ij = .] - p_ij(.))               from the conditional probabilities p
//     gradient(k, s) += residual[i] where x_ik = s              rows again (scatter_rows)
//
// Where each site has all others as neighbours, a task takes several targets whose rows are joined: with 21 states and
// vectors of 8 doubles, the rows of two targets are 5 vectors, those of one 3. A target is then a neighbour of itself
// with couplings of 0.
//
// Rows are divided into panels of a few vectors, so that the sums of a panel for a few samples stay in registers.
// Neighbours are done in groups whose rows of a panel stay in the first-level cache. Rows are double or, where asked
// for, single precision; the value is summed in double precision, and sums of single-precision residuals go to double
// precision after at most potts_flush samples. An edge gets two contributions, one from each end, and a + b = b + a:
// the result is the same for any number of threads.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

constexpr int64_t potts_chunk = 512;          // samples whose fields are held at once
constexpr int64_t potts_group_bytes = 28672;  // rows of a panel for a group of neighbours, if more than one fits
constexpr int64_t potts_flush = 16384;        // samples whose residuals are summed in single precision
constexpr int64_t potts_tasks = 16;           // least number of tasks if sites are joined
constexpr int64_t potts_joined = 5;           // most vectors of joined rows
constexpr int64_t potts_most_joined = 16;     // most targets of a task

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

// What rows list: the states of each target, all of them or all but the last, whose field is then 0. The rows of
// several neighbours are stored panel by panel: for each panel, neighbour and state the numbers of the panel.
struct PottsRow {
    int64_t q, states, targets;
    int64_t vector, padded, panels;  // numbers of a vector and of a row, which is whole vectors

    bool reduced() const { return states < q; }

    // The first number of a panel.
    int64_t panel(int64_t p) const { return padded / vector * p / panels * vector; }

    // Numbers of the rows of some neighbours.
    int64_t size(int64_t neighbours) const { return neighbours * q * padded; }

    // Leaves the last state out, where asked for, if that saves a vector.
    template <class Real>
    static PottsRow of(int64_t q, bool reduced, int64_t targets = 1) {
        const PottsRow all = with<Real>(q, q, targets), fewer = with<Real>(q, q - 1, targets);
        return reduced && fewer.padded < all.padded ? fewer : all;
    }

    // As many targets as make the rows of each target short, with one vector for finding a row.
    template <class Real>
    static PottsRow joined(int64_t q, bool reduced, int64_t most) {
        PottsRow best = of<Real>(q, reduced);
        for (int64_t targets = 2; targets <= most; ++targets) {
            const PottsRow row = of<Real>(q, reduced, targets);
            const int64_t vectors = row.padded / row.vector;
            if (vectors <= potts_joined && (vectors + 1) * best.targets < (best.padded / best.vector + 1) * targets)
                best = row;
        }
        return best;
    }

  private:
    template <class Real>
    static PottsRow with(int64_t q, int64_t states, int64_t targets) {
        const int64_t size = sizeof(Real), bytes = targets * states * size;
        const int64_t vector = isa_level() == 2 && bytes > 32 ? 64 : 32, most = isa_level() == 0 ? 128 : 256;
        const int64_t padded = (bytes + vector - 1) / vector * vector;
        return PottsRow{q, states, targets, vector / size, padded / size, (padded + most - 1) / most};
    }
};

// Bytes of the neighbours' states in a chunk.
constexpr int64_t potts_states(int64_t degree) { return degree * potts_chunk; }

// The targets and the samples of one task.
template <class Real>
struct PottsTask {
    PottsMode mode;
    PottsRow row;
    int64_t degree;                 // neighbours
    int64_t count;                  // samples
    const uint8_t* const* own;      // (targets) states of each target, (n) each
    const uint8_t* const* columns;  // (degree) states of each neighbour, (n) each
    const int64_t* samples;         // (count) which samples, or null: first, first + 1, ...
    int64_t first;
    const double* sample_weight;          // (n) or null
    const double* entry_weight;           // (count) or null
    const double* beta;                   // (targets)
    const Real *rows, *direction;         // rows of all neighbours
    const Real *field, *field_direction;  // (padded), -inf in the padding of `field`
    Real* gradient;                       // rows of all neighbours, added to; for modes with sums
    Real* field_gradient;                 // (padded), added to
    double* out;                          // (targets, count) or, for residuals, (targets, count, q)
    Real *fields, *moved;                 // (potts_chunk, padded) each, for the task's own use; for the last two modes
                                          // (count, padded): fields that are set, or residuals that are read
    uint8_t* states;                      // potts_states(degree), likewise
};

}  // namespace ff

// Returns the weighted sum of the log-likelihoods.
FF_DECLARE_LEVELS(double potts_task_double(const PottsTask<double>& task))
FF_DECLARE_LEVELS(double potts_task_single(const PottsTask<float>& task))

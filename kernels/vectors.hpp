// The optimisers' passes over long vectors, fused so that each vector is read once where the mathematics allows it.
//
// Limited-memory quasi-Newton with the pairs s_i (steps) and u_i = M⁻¹ y_i (changes of the gradient in the metric M of
// the preconditioner). All scalars that the two-loop recursion needs are s_i·y_j, u_i·y_j, s_i·q and u_i·q, so an
// iteration is two passes over the history: one that appends a pair and takes its inner products (append_pair), one
// that combines the rows into a direction and a trial point (combine_rows). The y_i themselves are not stored.
//
// Rows are float or double; sums are always double, over chunks of fixed length that are added in order, so the bits
// do not depend on the number of threads. `partial` is scratch of vector_chunks(n) × the number of sums.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

constexpr int64_t vector_chunk = 2048;
static inline int64_t vector_chunks(int64_t n) { return (n + vector_chunk - 1) / vector_chunk; }

// What a new pair is made of. Null pointers: `diagonal` none (M = 1 or an operator), `image` (M⁻¹ times the change of
// the gradient) only with an operator.
struct PairSource {
    const double* new_point;
    const double* old_point;
    const double* change;           // y: the new gradient minus the old one
    const double* search_gradient;  // q: the gradient
    const double* diagonal;
    const double* image;
};

// direction = −(scale · M⁻¹q + Σ_i step_weight[i] s_i + change_weight[i] u_i), trial = point + step · direction.
struct Combination {
    const double* point;
    const double* search_gradient;
    const double* diagonal;
    const double* image;  // M⁻¹ q where M is an operator, else null
    const double* step_weight;
    const double* change_weight;
    double scale;
    double step;
};

}  // namespace ff

// Rows `slot` of both blocks are written; sums[4 i ...] = s_i·y, u_i·y, s_i·q, u_i·q for the rows 0..used-1.
FF_DECLARE_LEVELS(void append_pair_float(const PairSource& source, float* steps, float* changes, int64_t n,
                                         int64_t used, int64_t slot, double* partial, double* sums, int threads))
FF_DECLARE_LEVELS(void append_pair_double(const PairSource& source, double* steps, double* changes, int64_t n,
                                          int64_t used, int64_t slot, double* partial, double* sums, int threads))
// Returns q · direction.
FF_DECLARE_LEVELS(double combine_rows_float(const Combination& how, const float* steps, const float* changes, int64_t n,
                                            int64_t used, double* direction, double* trial, double* partial,
                                            int threads))
FF_DECLARE_LEVELS(double combine_rows_double(const Combination& how, const double* steps, const double* changes,
                                             int64_t n, int64_t used, double* direction, double* trial, double* partial,
                                             int threads))
// trial = point + step · direction.
FF_DECLARE_LEVELS(void step_along(const double* point, const double* direction, double step, int64_t n, double* trial,
                                  int threads))
// kept = gradient; sums = gradient · direction (0 without one), max |gradient|, 0 or NaN (NaN: not all are finite).
FF_DECLARE_LEVELS(void keep_gradient(const double* gradient, const double* direction, int64_t n, double* kept,
                                     double* partial, double* sums, int threads))
// Pseudo-gradient of f(x) + Σ l1 |x|; sums = Σ l1 |x|, max |pseudo|.
FF_DECLARE_LEVELS(void pseudo_gradient(const double* point, const double* gradient, const double* l1, int64_t n,
                                       double* pseudo, double* partial, double* sums, int threads))
// x += alpha p, r −= alpha Hp, z = r / diagonal (z null: not wanted); sums = r·r, r·z (r·r without z), max |r|.
FF_DECLARE_LEVELS(void cg_update(double alpha, const double* p, const double* product, const double* diagonal,
                                 int64_t n, double* x, double* r, double* z, double* partial, double* sums,
                                 int threads))
// p = z + beta p.
FF_DECLARE_LEVELS(void cg_direction(double beta, const double* z, int64_t n, double* p, int threads))
FF_DECLARE_LEVELS(double inner_product(const double* a, const double* b, int64_t n, double* partial, int threads))

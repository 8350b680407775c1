// Coordinate descent on an L1-penalised quadratic whose matrix is a diagonal minus a product of thin matrices:
//
//     minimise over d   gᵀd + ½ dᵀBd + Σ_i l1_i |x_i + d_i|,     B = diag(scale) − L Rᵀ,   L and R (n × k)
//
// which is the model that a limited-memory quasi-Newton method has of a smooth function. With v = Rᵀd kept up to date a
// coordinate costs 2k multiplications. The order is fixed and one thread runs it, so the bits never change.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

struct LassoModel {
    const double* gradient;   // g (n)
    const double* scale;      // (n)
    const double* left;       // L (n × k)
    const double* right;      // R (n × k)
    const double* curvature;  // the diagonal of B (n), positive
    const double* point;      // x (n)
    const double* l1;         // (n), at least 0
    int64_t n, k;
};

}  // namespace ff

// From the step d with v = Rᵀd: passes over all coordinates, and between them passes over those with x + d ≠ 0, until
// a full pass moves no coordinate by more than `tol` in units of the gradient, or `limit` passes. `active` is scratch
// (n). Returns the number of passes; every pass lowers the model.
FF_DECLARE_LEVELS(int64_t lasso_descent(const LassoModel& model, int64_t limit, double tol, double* step,
                                        double* products, int64_t* active))

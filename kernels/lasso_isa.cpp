#include "lasso.hpp"

namespace ff::FF_ISA {

// Minimise over one coordinate; returns how far it moved in units of the gradient.
static inline double relax(const LassoModel& model, int64_t i, double* step, double* products) {
    const int64_t k = model.k;
    const double *left = model.left + i * k, *right = model.right + i * k;
    double inner = 0.0;
#pragma omp simd reduction(+ : inner)
    for (int64_t j = 0; j < k; ++j) inner += left[j] * products[j];
    const double slope = model.gradient[i] + model.scale[i] * step[i] - inner;
    const double curvature = model.curvature[i], at = model.point[i] + step[i];
    const double free = at - slope / curvature, shrink = model.l1[i] / curvature;
    const double target = free > shrink ? free - shrink : free < -shrink ? free + shrink : 0.0;
    const double move = target - at;
    if (move == 0.0) return 0.0;
    // Where x + d is 0 it must be so exactly, whatever rounding does to d.
    step[i] = target == 0.0 ? -model.point[i] : step[i] + move;
#pragma omp simd
    for (int64_t j = 0; j < k; ++j) products[j] += right[j] * move;
    return curvature * __builtin_fabs(move);
}

int64_t lasso_descent(const LassoModel& model, int64_t limit, double tol, double* step, double* products,
                      int64_t* active) {
    int64_t passes = 0;
    while (passes < limit) {
        double largest = 0.0;
        int64_t count = 0;
        for (int64_t i = 0; i < model.n; ++i) {
            const double moved = relax(model, i, step, products);
            largest = moved > largest ? moved : largest;
            if (model.point[i] + step[i] != 0.0) active[count++] = i;
        }
        ++passes;
        if (!(largest > tol)) return passes;
        if (count == model.n) continue;
        while (passes < limit) {
            largest = 0.0;
            for (int64_t a = 0; a < count; ++a) {
                const double moved = relax(model, active[a], step, products);
                largest = moved > largest ? moved : largest;
            }
            ++passes;
            if (!(largest > tol)) break;
        }
    }
    return passes;
}

}  // namespace ff::FF_ISA

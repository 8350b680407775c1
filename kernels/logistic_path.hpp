// L1-penalised logistic regressions of one binary column on the others, for a decreasing sequence of λ:
//
//     minimise  −Σ_i w_i (y_i η_i − log(1 + exp η_i)) + λ Σ_j s_j |β_j|,     η = β_0 + X β,   Σ_i w_i = 1,
//
// with s_j the standard deviation of column j, so that the penalty is on standardised columns. Each λ starts from the
// solution of the one before. A step minimises a quadratic model plus the penalty by coordinate descent. The matrix of
// the model is kept from step to step, and from λ to λ, for as long as the steps converge fast: along a path it hardly
// changes. It covers the columns that are not 0 or that the strong rule keeps; the optimality conditions of all others
// are checked at the end of each λ.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

struct LogisticData {
    const float* columns;  // X (m × n), column after column, values 0 and 1
    const double* weight;  // w (n), sums to 1
    int64_t n, m;
};

struct LogisticPathOptions {
    const double*
        lambdas;  // n_lambdas numbers that fall, or null: from the smallest λ with β = 0 down to `ratio` times it
    int64_t n_lambdas;
    double ratio;
    double tol;            // largest violation of the optimality conditions, in units of standardised columns
    int64_t most_steps;    // for one λ
    int64_t least;         // λ's before the path may end early: when the share of deviance explained
    double least_gain;     // grows by less than this from one λ to the next,
    double most_deviance;  // or is above this
    double price;          // of one coupling in the criterion −Σ w log p + price · couplings; the path also ends early
    double worse;          // when the criterion is above its lowest value by more than this many prices. 0: it does not
};

// Doubles and integers of scratch memory that one call needs.
constexpr int64_t logistic_path_doubles(int64_t n, int64_t m) { return 4 * n + m * m + 12 * m; }
constexpr int64_t logistic_path_integers(int64_t m) { return 4 * m; }

}  // namespace ff

// The path of column `target`. `coefficients` (n_lambdas × m) get β, with the intercept at the place of the target;
// `lambdas` (n_lambdas) the λ and `likelihood` (n_lambdas) Σ w log p. Returns the number of λ that were fitted;
// `failed` counts those that stopped at `most_steps`.
FF_DECLARE_LEVELS(int64_t logistic_path(const LogisticData& data, int64_t target, const LogisticPathOptions& options,
                                        double* doubles, int64_t* integers, double* coefficients, double* lambdas,
                                        double* likelihood, int64_t* failed))

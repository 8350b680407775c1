#include "logistic_path.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

// Everything that a path keeps between steps. Arrays of length m are indexed by column unless they say "by place":
// the place of a column in `set`.
struct PathState {
    const LogisticData& data;
    int64_t target;
    double tol;
    double *eta, *trial, *residual, *curvature;  // (n); curvature is that of the model
    double* matrix;                              // (m × m) by place, the model without its intercept
    double *beta, *scale, *gradient, *l1;        // (m)
    double* sums;                                // (m) by place: Σ curvature x
    double *step, *products, *point, *slope;     // (m) by place
    double* moved;                               // (m) by place: β after the step
    int64_t *set, *place, *active;               // (m); place is −1 outside the set
    int64_t count = 0, modelled = 0;             // columns in the set, and of these in the matrix
    double total = 0.0;                          // Σ curvature
    double intercept = 0.0, intercept_gradient = 0.0, value = 0.0;
    bool stale = true;
};

static double dot(const float* x, const double* v, int64_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * v[i];
    return sum;
}

// Vectors by name: GCC leaves the loop over a product of three arrays scalar.
#if defined(__AVX512F__)
static constexpr int64_t LANES = 8;
#elif defined(__AVX__)
static constexpr int64_t LANES = 4;
#else
static constexpr int64_t LANES = 2;
#endif
typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

// Σ_i x_i v_i of a few columns x, which share what is read of v.
template <int columns>
static void dots(const float* const* x, const double* v, int64_t n, double* out) {
    Doubles sums[2][columns] = {};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
            const int64_t from = i + half * LANES;
            const Doubles along = *reinterpret_cast<const Doubles*>(v + from);
#pragma GCC unroll 8
            for (int k = 0; k < columns; ++k)
                sums[half][k] +=
                    __builtin_convertvector(*reinterpret_cast<const Floats*>(x[k] + from), Doubles) * along;
        }
    for (int k = 0; k < columns; ++k) {
        const Doubles both = sums[0][k] + sums[1][k];
        double sum = 0.0;
        for (int64_t lane = 0; lane < LANES; ++lane) sum += both[lane];
        for (int64_t rest = i; rest < n; ++rest) sum += static_cast<double>(x[k][rest]) * v[rest];
        out[k] = sum;
    }
}

static void add_column(const float* x, double factor, double* v, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) v[i] += factor * static_cast<double>(x[i]);
}

static const float* column(const PathState& s, int64_t j) { return s.data.columns + j * s.data.n; }

// −Σ w log p at η; residual = w (p − y), and the weights w p (1 − p) of the second derivative if `curvature` is given.
static double evaluate(const PathState& s, const double* eta, double* residual, double* curvature) {
    const float* y = column(s, s.target);
    const double* w = s.data.weight;
    double loss = 0.0;
#pragma omp simd reduction(+ : loss)
    for (int64_t i = 0; i < s.data.n; ++i) {
        const double at = eta[i], far = at < 0.0 ? at : -at;
        const double e = fast_exp(far), whole = 1.0 + e;
        const double small = e / whole, p = at < 0.0 ? small : 1.0 / whole;
        loss += w[i] * ((at > 0.0 ? at : 0.0) + fast_log(whole) - static_cast<double>(y[i]) * at);
        residual[i] = w[i] * (p - static_cast<double>(y[i]));
    }
    if (curvature) {
#pragma omp simd
        for (int64_t i = 0; i < s.data.n; ++i) {
            const double at = eta[i], e = fast_exp(at < 0.0 ? at : -at), whole = 1.0 + e;
            const double c = e / (whole * whole);
            curvature[i] = w[i] * (c > 1e-6 ? c : 1e-6);
        }
    }
    return loss;
}

static double penalty(const PathState& s) {
    double sum = 0.0;
    for (int64_t a = 0; a < s.count; ++a) sum += s.l1[s.set[a]] * __builtin_fabs(s.beta[s.set[a]]);
    return sum;
}

// The optimality violation of a coordinate: how far the gradient is from what the penalty can balance.
static double violation(double beta, double gradient, double l1) {
    if (beta > 0.0) return __builtin_fabs(gradient + l1);
    if (beta < 0.0) return __builtin_fabs(gradient - l1);
    const double excess = __builtin_fabs(gradient) - l1;
    return excess > 0.0 ? excess : 0.0;
}

static void set_gradient(PathState& s) {
    double sum = 0.0;
    for (int64_t i = 0; i < s.data.n; ++i) sum += s.residual[i];
    s.intercept_gradient = sum;
    for (int64_t a = 0; a < s.count; ++a) s.gradient[s.set[a]] = dot(column(s, s.set[a]), s.residual, s.data.n);
}

static double set_violation(const PathState& s) {
    double worst = __builtin_fabs(s.intercept_gradient);
    for (int64_t a = 0; a < s.count; ++a) {
        const int64_t j = s.set[a];
        const double v = violation(s.beta[j], s.gradient[j], s.l1[j]) / s.scale[j];
        worst = v > worst ? v : worst;
    }
    return worst;
}

static void include(PathState& s, int64_t j) {
    s.place[j] = s.count;
    s.set[s.count++] = j;
}

// The curvature at the present point; columns that are 0 and that the penalty holds there leave the set.
static void refresh(PathState& s, double held) {
    evaluate(s, s.eta, s.residual, s.curvature);
    s.total = 0.0;
    for (int64_t i = 0; i < s.data.n; ++i) s.total += s.curvature[i];
    const int64_t before = s.count;
    s.count = 0;
    for (int64_t a = 0; a < before; ++a) {
        const int64_t j = s.set[a];
        s.place[j] = -1;
        if (s.beta[j] != 0.0 || __builtin_fabs(s.gradient[j]) >= held * s.l1[j]) include(s, j);
    }
    s.modelled = 0;
    s.stale = false;
}

// The rows of the model's matrix for columns that joined the set. `trial` holds the column times the curvature.
static void extend_matrix(PathState& s) {
    constexpr int together = 4;
    const int64_t m = s.data.m, n = s.data.n;
    for (int64_t a = s.modelled; a < s.count; ++a) {
        const float* x = column(s, s.set[a]);
        for (int64_t i = 0; i < n; ++i) s.trial[i] = static_cast<double>(x[i]) * s.curvature[i];
        double* row = s.matrix + a * m;
        const float* others[together];
        int64_t b = 0;
        for (; b + together <= a + 1; b += together) {
            for (int k = 0; k < together; ++k) others[k] = column(s, s.set[b + k]);
            dots<together>(others, s.trial, n, row + b);
        }
        for (; b <= a; ++b) {
            others[0] = column(s, s.set[b]);
            dots<1>(others, s.trial, n, row + b);
        }
        s.sums[a] = row[a];  // x² = x
        for (b = 0; b <= a; ++b) s.matrix[b * m + a] = row[b] -= s.sums[a] * s.sums[b] / s.total;
        row[a] += 1e-12 + 1e-9 * s.sums[a];  // a column that others in the set determine
    }
    s.modelled = s.count;
}

static double relax(PathState& s, int64_t a) {
    const double* row = s.matrix + a * s.data.m;
    const double curvature = row[a], at = s.moved[a];
    const double free = at - (s.slope[a] + s.products[a]) / curvature, shrink = s.l1[s.set[a]] / curvature;
    const double goal = free > shrink ? free - shrink : free < -shrink ? free + shrink : 0.0;
    const double move = goal - at;
    if (move == 0.0) return 0.0;
    s.moved[a] = goal;
#pragma omp simd
    for (int64_t b = 0; b < s.count; ++b) s.products[b] += row[b] * move;
    return curvature * __builtin_fabs(move) / s.scale[s.set[a]];
}

// `moved` becomes the minimum of the model plus the penalty.
static void minimise_model(PathState& s, double tol) {
    for (int64_t a = 0; a < s.count; ++a) {
        const int64_t j = s.set[a];
        s.point[a] = s.moved[a] = s.beta[j];
        s.slope[a] = s.gradient[j] - s.sums[a] * s.intercept_gradient / s.total;
        s.products[a] = 0.0;
    }
    for (int64_t pass = 0; pass < 200; ++pass) {
        double largest = 0.0;
        int64_t nonzero = 0;
        for (int64_t a = 0; a < s.count; ++a) {
            const double size = relax(s, a);
            largest = size > largest ? size : largest;
            if (s.moved[a] != 0.0) s.active[nonzero++] = a;
        }
        if (!(largest > tol)) return;
        for (int64_t inner = 0; inner < 1000; ++inner) {
            largest = 0.0;
            for (int64_t b = 0; b < nonzero; ++b) {
                const double size = relax(s, s.active[b]);
                largest = size > largest ? size : largest;
            }
            if (!(largest > tol)) break;
        }
    }
}

// A step towards the minimum of the model, shortened until the penalised loss falls. False if no length does.
static bool move(PathState& s, double tol) {
    const int64_t n = s.data.n;
    minimise_model(s, tol);
    double joint = 0.0, promise = 0.0;
    for (int64_t a = 0; a < s.count; ++a) {
        const int64_t j = s.set[a];
        s.step[a] = s.moved[a] - s.point[a];
        joint += s.sums[a] * s.step[a];
        promise += s.gradient[j] * s.step[a] + s.l1[j] * (__builtin_fabs(s.moved[a]) - __builtin_fabs(s.point[a]));
    }
    const double shift = -(s.intercept_gradient + joint) / s.total;
    promise += s.intercept_gradient * shift;
    const double noise = 1e-13 * (1.0 + __builtin_fabs(s.value)), before = s.intercept;
    double length = 1.0;
    for (int64_t trial = 0; trial < 30; ++trial) {
        for (int64_t i = 0; i < n; ++i) s.trial[i] = s.eta[i] + length * shift;
        for (int64_t a = 0; a < s.count; ++a) {
            const int64_t j = s.set[a];
            // A step to 0 ends at 0 exactly.
            s.beta[j] = length == 1.0 ? s.moved[a] : s.point[a] + length * s.step[a];
            if (s.beta[j] != s.point[a]) add_column(column(s, j), s.beta[j] - s.point[a], s.trial, n);
        }
        const double value = evaluate(s, s.trial, s.residual, nullptr) + penalty(s);
        if (value <= s.value + 1e-4 * length * promise + noise) {
            double* swap = s.eta;
            s.eta = s.trial;
            s.trial = swap;
            s.value = value;
            s.intercept = before + length * shift;
            return true;
        }
        if (s.stale) break;
        length *= 0.5;
    }
    for (int64_t a = 0; a < s.count; ++a) s.beta[s.set[a]] = s.point[a];
    evaluate(s, s.eta, s.residual, nullptr);
    return false;
}

// Minimise for the λ in `l1`; false if `most_steps` were not enough. `before` is the λ of the step before.
static bool solve(PathState& s, double lambda, double before, int64_t most_steps) {
    const int64_t m = s.data.m, n = s.data.n;
    for (int64_t j = 0; j < m; ++j) {
        s.l1[j] = lambda * s.scale[j];
        // The strong rule: the gradient of a column rarely changes by more than λ does.
        const double least = (2.0 * lambda - before) * s.scale[j];
        if (s.scale[j] > 0.0 && j != s.target && s.place[j] < 0 && __builtin_fabs(s.gradient[j]) >= least)
            include(s, j);
    }
    s.value = evaluate(s, s.eta, s.residual, nullptr) + penalty(s);
    set_gradient(s);
    double last = 0.0;
    for (int64_t steps = 0; steps < most_steps;) {
        const double worst = set_violation(s);
        if (worst <= s.tol) {
            int64_t joined = 0;
            for (int64_t j = 0; j < m; ++j) {
                if (j == s.target || s.place[j] >= 0 || !(s.scale[j] > 0.0)) continue;
                s.gradient[j] = dot(column(s, j), s.residual, n);
                if (violation(0.0, s.gradient[j], s.l1[j]) > s.tol * s.scale[j]) {
                    include(s, j);
                    ++joined;
                }
            }
            if (!joined) return true;
            last = 0.0;
            continue;
        }
        if (s.total == 0.0 || (last > 0.0 && worst > 0.3 * last)) refresh(s, 0.5);
        extend_matrix(s);
        const double inner = 0.02 * worst > 0.1 * s.tol ? 0.02 * worst : 0.1 * s.tol;
        const bool moved = move(s, inner);
        ++steps;
        set_gradient(s);
        if (moved) {
            last = worst;
        } else {
            if (!s.stale) return worst <= 100.0 * s.tol;  // rounding: the model is new and no length lowers the loss
            refresh(s, 0.5);
            last = 0.0;
            continue;
        }
        s.stale = true;
    }
    return false;
}

int64_t logistic_path(const LogisticData& data, int64_t target, const LogisticPathOptions& options, double* doubles,
                      int64_t* integers, double* coefficients, double* lambdas, double* likelihood, int64_t* failed) {
    const int64_t n = data.n, m = data.m;
    PathState s{data,    target,  options.tol, doubles, doubles + n, doubles + 2 * n, doubles + 3 * n,
                nullptr, nullptr, nullptr,     nullptr, nullptr,     nullptr,         nullptr,
                nullptr, nullptr, nullptr,     nullptr, nullptr,     nullptr,         nullptr};
    double* next = doubles + 4 * n;
    s.matrix = next, next += m * m;
    s.beta = next, next += m;
    s.scale = next, next += m;
    s.gradient = next, next += m;
    s.l1 = next, next += m;
    s.sums = next, next += m;
    s.step = next, next += m;
    s.products = next, next += m;
    s.point = next, next += m;
    s.slope = next, next += m;
    s.moved = next;
    s.set = integers, s.place = integers + m, s.active = integers + 2 * m;
    *failed = 0;
    for (int64_t j = 0; j < m; ++j) {
        const double mean = dot(column(s, j), data.weight, n), variance = mean * (1.0 - mean);  // x² = x
        s.beta[j] = 0.0;
        s.scale[j] = variance > 1e-14 ? __builtin_sqrt(variance) : 0.0;
        s.place[j] = -1;
        s.gradient[j] = 0.0;
        if (j == target) s.intercept = mean;
    }
    for (int64_t k = 0; k < options.n_lambdas * m; ++k) coefficients[k] = 0.0;
    if (s.scale[target] == 0.0) {  // a constant column: no regression
        coefficients[target] = s.intercept > 0.5 ? __builtin_inf() : -__builtin_inf();
        lambdas[0] = likelihood[0] = 0.0;
        return 1;
    }
    s.intercept = fast_log(s.intercept / (1.0 - s.intercept));
    for (int64_t i = 0; i < n; ++i) s.eta[i] = s.intercept;
    const double null = evaluate(s, s.eta, s.residual, nullptr);
    double largest = 0.0;
    for (int64_t j = 0; j < m; ++j) {
        if (j == target || !(s.scale[j] > 0.0)) continue;
        s.gradient[j] = dot(column(s, j), s.residual, n);
        const double size = __builtin_fabs(s.gradient[j]) / s.scale[j];
        largest = size > largest ? size : largest;
    }
    const double spread = options.n_lambdas > 1 ? fast_log(options.ratio) / (options.n_lambdas - 1) : 0.0;
    double before = largest, explained = 0.0, lowest = __builtin_inf();
    for (int64_t k = 0; k < options.n_lambdas; ++k) {
        const double lambda = options.lambdas ? options.lambdas[k] : largest * fast_exp(spread * k);
        if (!solve(s, lambda, before, options.most_steps)) ++*failed;
        before = lambda;
        lambdas[k] = lambda;
        likelihood[k] = -(s.value - penalty(s));
        double* row = coefficients + k * m;
        for (int64_t j = 0; j < m; ++j) row[j] = s.beta[j];
        row[target] = s.intercept;
        const double share = 1.0 + likelihood[k] / null;
        if (!options.lambdas && k + 1 >= options.least &&
            (share > options.most_deviance || share - explained < options.least_gain))
            return k + 1;
        explained = share;
        if (options.worse > 0.0) {
            int64_t couplings = 0;
            for (int64_t a = 0; a < s.count; ++a) couplings += s.beta[s.set[a]] != 0.0;
            const double criterion = options.price * static_cast<double>(couplings) - likelihood[k];
            lowest = criterion < lowest ? criterion : lowest;
            if (criterion > lowest + options.worse * options.price) return k + 1;
        }
    }
    return options.n_lambdas;
}

}  // namespace ff::FF_ISA

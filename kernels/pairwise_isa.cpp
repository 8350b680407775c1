#include "pairwise.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

static constexpr int64_t T = pairwise_tile;
static constexpr int64_t P = pairwise_panel;
static constexpr int64_t B = pairwise_batch;

// ---- Matrix products with a 0/1 matrix -----------------------------------------------------------------------------
// Four columns of a 0/1 matrix have 16 combinations, so four multiply-adds become one look-up of a sum that is made
// once for a chunk of samples ("four Russians"): a quarter of the arithmetic of a general product, in full precision.
// 32 variables are done together: 8 tables of 16 lines of a panel are 16 KB and stay in the first-level cache.

// out[i, :] = bias[:] + sum_k c_ik matrix[k, :], for the columns of one panel.
static void fields_panel(const double* matrix, int64_t stride, const double* bias, const uint32_t* rows,
                         int64_t row_words, int64_t n, double* table, double* out) {
    for (int64_t i = 0; i < n; ++i)
        for (int64_t v = 0; v < P; ++v) out[i * P + v] = bias[v];
    for (int64_t word = 0; word < row_words; ++word) {
        for (int64_t g = 0; g < 8; ++g) {
            double* line = table + g * 16 * P;
            for (int64_t v = 0; v < P; ++v) line[v] = 0.0;
            for (int64_t bit = 0; bit < 4; ++bit) {
                const double* w = matrix + (word * 32 + g * 4 + bit) * stride;
                for (int64_t s = 0; s < (1 << bit); ++s)
                    for (int64_t v = 0; v < P; ++v) line[((1 << bit) + s) * P + v] = line[s * P + v] + w[v];
            }
        }
        for (int64_t i = 0; i < n; ++i) {
            const uint64_t code = rows[i * row_words + word];
            double sum[P];
            for (int64_t v = 0; v < P; ++v) sum[v] = out[i * P + v];
#pragma GCC unroll 8
            for (int64_t g = 0; g < 8; ++g) {
                const double* line = table + g * 16 * P + ((code >> (4 * g)) & 15) * P;
                for (int64_t v = 0; v < P; ++v) sum[v] += line[v];
            }
            for (int64_t v = 0; v < P; ++v) out[i * P + v] = sum[v];
        }
    }
}

// outer[k, :] += sum_i c_ik residual[i, :], for the columns of one panel: sums by combination, then by variable.
static void outer_panel(const double* residual, const uint32_t* rows, int64_t row_words, int64_t n, double* table,
                        double* outer, int64_t stride) {
    for (int64_t word = 0; word < row_words; ++word) {
        for (int64_t v = 0; v < 8 * 16 * P; ++v) table[v] = 0.0;
        for (int64_t i = 0; i < n; ++i) {
            const uint64_t code = rows[i * row_words + word];
            double r[P];
            for (int64_t v = 0; v < P; ++v) r[v] = residual[i * P + v];
#pragma GCC unroll 8
            for (int64_t g = 0; g < 8; ++g) {
                double* line = table + g * 16 * P + ((code >> (4 * g)) & 15) * P;
                for (int64_t v = 0; v < P; ++v) line[v] += r[v];
            }
        }
        for (int64_t g = 0; g < 8; ++g) {
            for (int64_t bit = 0; bit < 4; ++bit) {
                double* to = outer + (word * 32 + g * 4 + bit) * stride;
                for (int64_t s = 0; s < 16; ++s) {
                    if (!(s >> bit & 1)) continue;
                    const double* line = table + (g * 16 + s) * P;
                    for (int64_t v = 0; v < P; ++v) to[v] += line[v];
                }
            }
        }
    }
}

// ---- One batch of blocks -------------------------------------------------------------------------------------------
// The pair (a, b), a < b, of a block has the number b (b - 1) / 2 + a. Tables are (2^k, B): entry F is a set of flips.

// table[F] = prod_{a in F} one[a] prod_{a < b in F} two[ab], or the sum of the same.
template <int K, bool sum>
static inline void flip_table(int k_given, const double* one, const double* two, double* table) {
    const int k = K ? K : k_given;
    for (int64_t v = 0; v < B; ++v) table[v] = sum ? 0.0 : 1.0;
    for (int b = 0; b < k; ++b) {
        const int size = 1 << b;
        double* upper = table + size * B;
        for (int64_t v = 0; v < B; ++v) upper[v] = one[b * B + v];
        for (int a = 0; a < b; ++a) {
            const double* pair = two + (b * (b - 1) / 2 + a) * B;
            for (int s = 0; s < (1 << a); ++s)
                for (int64_t v = 0; v < B; ++v)
                    upper[((1 << a) + s) * B + v] = sum ? upper[s * B + v] + pair[v] : upper[s * B + v] * pair[v];
        }
        for (int64_t v = 0; v < size * B; ++v) upper[v] = sum ? upper[v] + table[v] : upper[v] * table[v];
    }
}

// table[F] becomes the sum over all sets that contain F.
template <int K>
static inline void superset_sums(int k_given, double* table) {
    const int k = K ? K : k_given;
    for (int b = 0; b < k; ++b)
        for (int s = 0; s < (1 << k); ++s)
            if (!(s >> b & 1))
                for (int64_t v = 0; v < B; ++v) table[s * B + v] += table[(s | 1 << b) * B + v];
}

// What a batch of blocks reads and writes; one, two: exp of (s_a H_a, s_a s_b q_ab), or these themselves where they are
// too large to be exponentiated (`safe`).
struct Batch {
    double one[pairwise_most * pairwise_batch];
    double done[pairwise_most * pairwise_batch];
    double two[pairwise_most * (pairwise_most - 1) / 2 * pairwise_batch];
    double dtwo[pairwise_most * (pairwise_most - 1) / 2 * pairwise_batch];
    double sign[pairwise_most * pairwise_batch];
    double pi[pairwise_most * pairwise_batch];
    double pi_pair[pairwise_most * (pairwise_most - 1) / 2 * pairwise_batch];
    double value[pairwise_batch];
};

// Fills pi, pi_pair and value by mode: probabilities (gradient, scores), their derivatives (hessian), variances
// (diagonal); value is log p, or the score times the direction (products).
template <int K, bool safe>
static inline void solve_batch(PairwiseMode mode, int k_given, double state0, double gap, Batch& batch, double* table,
                               double* dtable) {
    const int k = K ? K : k_given;
    double shift[B], inverse[B];
    flip_table<K, safe>(k, batch.one, batch.two, table);
    for (int64_t v = 0; v < B; ++v) shift[v] = 0.0;
    if (safe) {
        for (int s = 1; s < (1 << k); ++s)
            for (int64_t v = 0; v < B; ++v) shift[v] = table[s * B + v] > shift[v] ? table[s * B + v] : shift[v];
        for (int s = 0; s < (1 << k); ++s)
            for (int64_t v = 0; v < B; ++v) table[s * B + v] = fast_exp(table[s * B + v] - shift[v]);
    }
    const bool direction = mode == PairwiseMode::hessian || mode == PairwiseMode::products;
    if (direction) {
        flip_table<K, true>(k, batch.done, batch.dtwo, dtable);
        for (int64_t v = 0; v < (B << k); ++v) dtable[v] *= table[v];
        superset_sums<K>(k, dtable);
    }
    superset_sums<K>(k, table);
    for (int64_t v = 0; v < B; ++v) inverse[v] = 1.0 / table[v];
    if (mode == PairwiseMode::products) {
        for (int64_t v = 0; v < B; ++v) batch.value[v] = -dtable[v] * inverse[v];
        return;
    }
    if (mode == PairwiseMode::gradient || mode == PairwiseMode::values)
        for (int64_t v = 0; v < B; ++v) batch.value[v] = -(fast_log(table[v]) + shift[v]);
    if (mode == PairwiseMode::values) return;
    for (int b = 0; b < k; ++b) {
        const double* t = table + (int64_t{1} << b) * B;
        for (int64_t v = 0; v < B; ++v) batch.pi[b * B + v] = t[v] * inverse[v];
        for (int a = 0; a < b; ++a) {
            const double* tt = table + ((int64_t{1} << b) + (int64_t{1} << a)) * B;
            double* out = batch.pi_pair + (b * (b - 1) / 2 + a) * B;
            for (int64_t v = 0; v < B; ++v) out[v] = tt[v] * inverse[v];
        }
    }
    if (mode == PairwiseMode::hessian) {
        for (int b = 0; b < k; ++b) {
            const double* t = dtable + (int64_t{1} << b) * B;
            for (int64_t v = 0; v < B; ++v) batch.pi[b * B + v] = (t[v] - batch.pi[b * B + v] * dtable[v]) * inverse[v];
            for (int a = 0; a < b; ++a) {
                const double* tt = dtable + ((int64_t{1} << b) + (int64_t{1} << a)) * B;
                double* out = batch.pi_pair + (b * (b - 1) / 2 + a) * B;
                for (int64_t v = 0; v < B; ++v) out[v] = (tt[v] - out[v] * dtable[v]) * inverse[v];
            }
        }
    }
    if (mode == PairwiseMode::diagonal) {
        // Pairs first: the variance of x_a x_b in the block, less what the outer product counts for this pair.
        for (int b = 1; b < k; ++b)
            for (int a = 0; a < b; ++a) {
                double* out = batch.pi_pair + (b * (b - 1) / 2 + a) * B;
                for (int64_t v = 0; v < B; ++v) {
                    const double pa = batch.pi[a * B + v], pb = batch.pi[b * B + v], p11 = out[v];
                    const double xa = batch.sign[a * B + v] > 0 ? state0 : state0 + gap;
                    const double xb = batch.sign[b * B + v] > 0 ? state0 : state0 + gap;
                    const double ya = 2.0 * state0 + gap - xa, yb = 2.0 * state0 + gap - xb;
                    const double p10 = pa - p11, p01 = pb - p11, p00 = 1.0 - pa - pb + p11;
                    const double mean = p00 * xa * xb + p10 * ya * xb + p01 * xa * yb + p11 * ya * yb;
                    const double d00 = xa * xb - mean, d10 = ya * xb - mean, d01 = xa * yb - mean, d11 = ya * yb - mean;
                    const double variance = p00 * d00 * d00 + p10 * d10 * d10 + p01 * d01 * d01 + p11 * d11 * d11;
                    out[v] = variance - gap * gap * (pa * (1.0 - pa) * xb * xb + pb * (1.0 - pb) * xa * xa);
                }
            }
        for (int64_t v = 0; v < k * B; ++v) batch.pi[v] *= 1.0 - batch.pi[v];
    }
}

static void solve(bool safe, PairwiseMode mode, int k, double state0, double gap, Batch& batch, double* table,
                  double* dtable) {
    if (safe) return solve_batch<0, true>(mode, k, state0, gap, batch, table, dtable);
    if (k == 1) return solve_batch<1, false>(mode, k, state0, gap, batch, table, dtable);
    if (k == 2) return solve_batch<2, false>(mode, k, state0, gap, batch, table, dtable);
    if (k == 3) return solve_batch<3, false>(mode, k, state0, gap, batch, table, dtable);
    if (k == 4) return solve_batch<4, false>(mode, k, state0, gap, batch, table, dtable);
    solve_batch<0, false>(mode, k, state0, gap, batch, table, dtable);
}

// ---- One chunk of samples ------------------------------------------------------------------------------------------

// Lane arrays are (variables, stride): sample l of the chunk is column l.
struct Lanes {
    double *sign, *delta, *exp_delta, *direction, *pi;
    int64_t stride;
};

struct Work {
    Lanes lanes, compact;
    double *indicator, *panel, *table, *by_row, *by_row_direction, *by_row_pi, *weight, *tile_weight, *log_sum,
        *product, *linear, *flips, *dflips;
    Batch* batch;
    int64_t used;
};

static double* take(double* base, Work& work, int64_t count) {
    double* at = base ? base + work.used : nullptr;
    work.used += (count + 7) / 8 * 8;
    return at;
}

static int64_t largest_block(const PairwisePlan& plan) {
    int64_t k = 1;
    for (int64_t p = 0; p < plan.n_parts; ++p) k = plan.parts[p].k > k ? plan.parts[p].k : k;
    return k;
}

static bool only_singles(const PairwisePlan& plan) {
    for (int64_t p = 0; p < plan.n_parts; ++p)
        if (plan.parts[p].form == 1 || plan.parts[p].k > 1) return false;
    return true;
}

static bool has_direction(const PairwisePlan& plan) {
    return plan.mode == PairwiseMode::hessian || plan.mode == PairwiseMode::products;
}

// Without blocks the variables of a dense field are done panel by panel, and only one panel is held at a time.
static int64_t held_variables(const PairwisePlan& plan) { return plan.dense && only_singles(plan) ? P : plan.m_padded; }

static Work lay_out(const PairwisePlan& plan, double* base) {
    Work work{};
    const int64_t held = held_variables(plan), c = plan.chunk, k = largest_block(plan);
    const bool blocks = !only_singles(plan), direction = has_direction(plan);
    work.lanes.stride = c;
    work.lanes.sign = take(base, work, held * c);
    work.lanes.delta = take(base, work, held * c);
    work.lanes.pi = take(base, work, held * c);
    work.lanes.exp_delta = take(base, work, blocks ? held * c : 0);
    work.lanes.direction = take(base, work, direction ? held * c : 0);
    const int64_t small = blocks ? plan.m_padded * T : 0;
    work.compact.stride = T;
    work.compact.sign = take(base, work, small);
    work.compact.delta = take(base, work, small);
    work.compact.pi = take(base, work, small);
    work.compact.exp_delta = take(base, work, small);
    work.compact.direction = take(base, work, direction ? small : 0);
    work.indicator = take(base, work, plan.dense ? 0 : plan.m_padded * c);
    work.panel = take(base, work, c * P);
    work.table = take(base, work, 8 * 16 * P);
    work.by_row = take(base, work, blocks ? plan.m * c : 0);
    work.by_row_direction = take(base, work, blocks && direction ? plan.m * c : 0);
    work.by_row_pi = take(base, work, blocks ? plan.m * c : 0);
    work.weight = take(base, work, c);
    work.tile_weight = take(base, work, T);
    work.log_sum = take(base, work, c);
    work.product = take(base, work, c);
    work.linear = take(base, work, c);
    work.flips = take(base, work, B << k);
    work.dflips = take(base, work, B << k);
    work.batch = reinterpret_cast<Batch*>(take(base, work, sizeof(Batch) / sizeof(double)));
    return work;
}

int64_t pairwise_scratch(const PairwisePlan& plan) { return lay_out(plan, nullptr).used; }

// s_j for the variables j0..j1-1 (line j - j0), and c_j where `indicator` is wanted.
static void unpack_signs(const PairwisePlan& plan, int64_t row0, int64_t lanes, int64_t j0, int64_t j1, Work& work) {
    for (int64_t j = j0; j < j1; ++j) {
        double* sign = work.lanes.sign + (j - j0) * plan.chunk;
        double* indicator = plan.dense ? nullptr : work.indicator + (j - j0) * plan.chunk;
        for (int64_t t = 0; t < lanes; t += T) {
            const uint64_t word = plan.columns[(row0 + t) / T * plan.m + j];
            for (int64_t l = 0; l < T; ++l)
                sign[t + l] = bits_to_double(0x3ff0000000000000LL | static_cast<int64_t>((word >> l) << 63));
            if (indicator)
                for (int64_t l = 0; l < T; ++l) indicator[t + l] = 0.5 - 0.5 * sign[t + l];
        }
    }
}

// out[j - j0, l] = s_j (bias_j + sum_k q_jk c_k).
static void signed_fields(const PairwisePlan& plan, const double* q, const double* bias, const double* matrix,
                          int64_t row0, int64_t lanes, int64_t j0, int64_t j1, Work& work, double* out) {
    const int64_t stride = plan.chunk;
    if (plan.dense) {
        for (int64_t j = j0; j < j1; j += P) {
            const int64_t width = j1 - j < P ? j1 - j : P;
            double panel_bias[P];
            for (int64_t v = 0; v < P; ++v) panel_bias[v] = v < width ? bias[j + v] : 0.0;
            fields_panel(matrix + j, plan.m_padded, panel_bias, plan.rows + row0 * plan.row_words, plan.row_words,
                         lanes, work.table, work.panel);
            for (int64_t v = 0; v < width; ++v) {
                double* to = out + (j - j0 + v) * stride;
                for (int64_t l = 0; l < lanes; ++l) to[l] = work.panel[l * P + v];
            }
        }
    } else {
        for (int64_t j = j0; j < j1; ++j) {
            double* to = out + (j - j0) * stride;
            for (int64_t l = 0; l < lanes; ++l) to[l] = bias[j];
            for (int64_t e = plan.adjacent_pointer[j]; e < plan.adjacent_pointer[j + 1]; ++e) {
                const double weight = q[plan.adjacent_edge[e]];
                const double* c = work.indicator + plan.adjacent[e] * stride;
                for (int64_t l = 0; l < lanes; ++l) to[l] += weight * c[l];
            }
        }
    }
    for (int64_t j = j0; j < j1; ++j) {
        const double* sign = work.lanes.sign + (j - j0) * stride;
        double* to = out + (j - j0) * stride;
        for (int64_t l = 0; l < lanes; ++l) to[l] *= sign[l];
    }
}

static double weighted_sum(const double* a, const double* b, int64_t n) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
}

// log_sum += beta (log of product - linear), and both start again.
static void flush_logs(double beta, double sign, double* product, double* linear, double* log_sum, int64_t n) {
    for (int64_t l = 0; l < n; ++l) {
        log_sum[l] += beta * (sign * fast_log(product[l]) - linear[l]);
        product[l] = 1.0;
        linear[l] = 0.0;
    }
}

// Single variables given the rest, p(flip) = exp(d) / (1 + exp(d)). Logs are taken of products of up to 64 terms in
// (1, 2]: one logarithm for many variables.
static void single_part(const PairwisePlan& plan, const double* beta, int64_t j0, int64_t j1, int64_t n, Work& work) {
    double *product = work.product, *linear = work.linear, *weight = work.weight;
    const bool values = plan.mode == PairwiseMode::gradient || plan.mode == PairwiseMode::values;
    for (int64_t l = 0; l < n; ++l) product[l] = 1.0;
    for (int64_t l = 0; l < n; ++l) linear[l] = 0.0;
    double current = 0.0;
    int terms = 0;
    for (int64_t j = j0; j < j1; ++j) {
        const double b = beta[j];
        if (b == 0.0) continue;
        const double* delta = work.lanes.delta + (j - j0) * plan.chunk;
        double* pi = work.lanes.pi + (j - j0) * plan.chunk;
        if (values) {
            if (terms && (b != current || terms == 64)) {
                flush_logs(current, -1.0, product, linear, work.log_sum, n);
                terms = 0;
            }
            current = b;
            ++terms;
            for (int64_t l = 0; l < n; ++l) {
                const double d = delta[l];
                const double e = fast_exp(d > 0.0 ? -d : d), one = 1.0 + e;
                product[l] *= one;
                linear[l] += d > 0.0 ? d : 0.0;
                pi[l] += b * weight[l] * ((d > 0.0 ? 1.0 : e) / one);
            }
            continue;
        }
        const double* direction = work.lanes.direction ? work.lanes.direction + (j - j0) * plan.chunk : delta;
        for (int64_t l = 0; l < n; ++l) {
            const double d = delta[l];
            const double e = fast_exp(d > 0.0 ? -d : d), one = 1.0 + e;
            const double p = (d > 0.0 ? 1.0 : e) / one, v = e / (one * one);
            if (plan.mode == PairwiseMode::hessian) pi[l] += b * weight[l] * v * direction[l];
            if (plan.mode == PairwiseMode::diagonal) pi[l] += b * weight[l] * v;
            if (plan.mode == PairwiseMode::scores) pi[l] += b * weight[l] * p;
            if (plan.mode == PairwiseMode::products) work.log_sum[l] -= b * p * direction[l];
        }
    }
    if (terms) flush_logs(current, -1.0, product, linear, work.log_sum, n);
}

// Pairs of variables, value and gradient, without exponentials: those of the fields are shared by all pairs, and the
// log is taken of a product of probabilities that cannot underflow (`most_terms` of them).
static void pair_tile(const PairwisePlan& plan, const PairwisePart& part, const Lanes& lanes, const double* weight,
                      double* log_sum, int64_t most_terms, PairwiseSums* sums) {
    double product[T], linear[T];
    for (int64_t l = 0; l < T; ++l) product[l] = 1.0;
    for (int64_t l = 0; l < T; ++l) linear[l] = 0.0;
    double current = 0.0;
    int64_t terms = 0;
    for (int64_t c = 0; c < part.n_components; ++c) {
        const int64_t a = plan.targets[part.target + 2 * c], b = plan.targets[part.target + 2 * c + 1];
        const int64_t edge = plan.pairs[part.pair + c];
        const double beta = plan.beta[part.beta + c];
        if (terms && (beta != current || terms == most_terms)) {
            flush_logs(current, 1.0, product, linear, log_sum, T);
            terms = 0;
        }
        current = beta;
        ++terms;
        const double plus = edge < 0 ? 1.0 : plan.exp_q[edge], minus = edge < 0 ? 1.0 : plan.exp_minus_q[edge];
        const double *one_a = lanes.exp_delta + a * lanes.stride, *one_b = lanes.exp_delta + b * lanes.stride;
        const double *sign_a = lanes.sign + a * lanes.stride, *sign_b = lanes.sign + b * lanes.stride;
        double* __restrict pi_a = lanes.pi + a * lanes.stride, * __restrict pi_b = lanes.pi + b * lanes.stride;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int64_t l = 0; l < T; ++l) {
            const double sign = sign_a[l] * sign_b[l];
            const double both = one_a[l] * one_b[l] * (sign > 0.0 ? plus : minus);
            const double inverse = 1.0 / (1.0 + one_a[l] + one_b[l] + both);
            product[l] *= inverse;
            const double scaled = beta * weight[l] * inverse;
            pi_a[l] += scaled * (one_a[l] + both);
            pi_b[l] += scaled * (one_b[l] + both);
            sum += sign * (scaled * both);
        }
        if (edge >= 0) sums->edges[edge] -= sum;
    }
    if (terms) flush_logs(current, 1.0, product, linear, log_sum, T);
}

// Blocks of any size for one tile. `rows` are the samples of the tile (for the modes with output for each sample).
static void block_tile(const PairwisePlan& plan, const PairwisePart& part, bool safe, const Lanes& lanes,
                       const double* weight, double* log_sum, const int64_t* rows, Work& work, PairwiseSums* sums) {
    const int k = static_cast<int>(part.k), n_pairs = k * (k - 1) / 2;
    const bool direction = has_direction(plan), diagonal = plan.mode == PairwiseMode::diagonal;
    const bool by_row = plan.mode == PairwiseMode::values || plan.mode == PairwiseMode::products;
    Batch& batch = *work.batch;
    const double* ones = safe ? lanes.delta : lanes.exp_delta;
    for (int64_t c = 0; c < part.n_components; ++c) {
        const int32_t* target = plan.targets + part.target + c * k;
        const int32_t* pair = plan.pairs + part.pair + c * n_pairs;
        const double beta = plan.beta[part.beta + c];
        for (int64_t start = 0; start < T; start += B) {
            for (int a = 0; a < k; ++a) {
                const int64_t at = target[a] * lanes.stride + start;
                for (int64_t v = 0; v < B; ++v) batch.one[a * B + v] = ones[at + v];
                for (int64_t v = 0; v < B; ++v) batch.sign[a * B + v] = lanes.sign[at + v];
                if (direction)
                    for (int64_t v = 0; v < B; ++v) batch.done[a * B + v] = lanes.direction[at + v];
            }
            for (int b = 1, p = 0; b < k; ++b)
                for (int a = 0; a < b; ++a, ++p) {
                    const int64_t edge = pair[p];
                    const double q = edge < 0 ? 0.0 : plan.q[edge], dq = edge < 0 || !direction ? 0.0 : plan.dq[edge];
                    const double plus = safe ? q : edge < 0 ? 1.0 : plan.exp_q[edge];
                    const double minus = safe ? -q : edge < 0 ? 1.0 : plan.exp_minus_q[edge];
                    for (int64_t v = 0; v < B; ++v) {
                        const double sign = batch.sign[a * B + v] * batch.sign[b * B + v];
                        batch.two[p * B + v] = sign > 0.0 ? plus : minus;
                        batch.dtwo[p * B + v] = sign * dq;
                    }
                }
            solve(safe, plan.mode, k, plan.state0, plan.state_gap, batch, work.flips, work.dflips);
            if (by_row || plan.mode == PairwiseMode::gradient)
                for (int64_t v = 0; v < B; ++v) log_sum[start + v] += beta * batch.value[v];
            if (by_row) continue;
            double scale[B];
            for (int64_t v = 0; v < B; ++v) scale[v] = beta * weight[start + v];
            for (int a = 0; a < k; ++a) {
                double* pi = lanes.pi + target[a] * lanes.stride + start;
                for (int64_t v = 0; v < B; ++v) pi[v] += scale[v] * batch.pi[a * B + v];
            }
            for (int b = 1, p = 0; b < k; ++b)
                for (int a = 0; a < b; ++a, ++p) {
                    if (pair[p] < 0) continue;
                    double term[B], sum = 0.0;
                    for (int64_t v = 0; v < B; ++v) {
                        const double sign = batch.sign[a * B + v] * batch.sign[b * B + v];
                        term[v] = (diagonal ? 1.0 : -sign) * scale[v] * batch.pi_pair[p * B + v];
                    }
                    for (int64_t v = 0; v < B; ++v) sum += term[v];
                    sums->edges[pair[p]] += sum;
                    if (plan.mode == PairwiseMode::scores)
                        for (int64_t v = 0; v < B; ++v)
                            if (rows[start + v] < plan.n)
                                plan.pair_terms[rows[start + v] * plan.n_edges + pair[p]] += term[v];
                }
        }
    }
}

// A list of (sample, component): lanes are entries, gathered from arrays with the variables of a sample together.
static void entry_part(const PairwisePlan& plan, const PairwisePart& part, bool safe, int64_t row0, int64_t n,
                       Work& work, PairwiseSums* sums) {
    const int k = static_cast<int>(part.k), n_pairs = k * (k - 1) / 2;
    const bool direction = has_direction(plan), diagonal = plan.mode == PairwiseMode::diagonal;
    const bool by_entry = plan.mode == PairwiseMode::values || plan.mode == PairwiseMode::products;
    const int64_t m = plan.m;
    const int64_t* pointer = plan.indptr + part.indptr;
    const int32_t* components = plan.entry_component + part.entry;
    Batch& batch = *work.batch;
    int64_t row = row0;
    const int64_t last = pointer[row0 + n];
    for (int64_t first = pointer[row0]; first < last; first += B) {
        int64_t rows[B], component[B], entry[B];
        double scale[B];
        for (int64_t v = 0; v < B; ++v) {
            // A last batch that is not full repeats its last entry without weight.
            const bool real = first + v < last;
            const int64_t e = real ? first + v : last - 1;
            while (pointer[row + 1] <= e) ++row;
            entry[v] = part.entry + e;
            rows[v] = row;
            component[v] = components[e];
            scale[v] = real ? plan.beta[part.beta + component[v]] : 0.0;
            if (real && part.entry_weight >= 0 && !by_entry) scale[v] *= plan.entry_weight[part.entry_weight + e];
        }
        for (int64_t v = 0; v < B; ++v) {
            const int32_t* target = plan.targets + part.target + component[v] * k;
            const int32_t* pair = plan.pairs + part.pair + component[v] * n_pairs;
            const uint64_t* words = plan.columns + rows[v] / T * m;
            const int64_t at = (rows[v] - row0) * m;
            for (int a = 0; a < k; ++a) {
                batch.one[a * B + v] = work.by_row[at + target[a]];
                batch.sign[a * B + v] = words[target[a]] >> (rows[v] % T) & 1 ? -1.0 : 1.0;
                if (direction) batch.done[a * B + v] = work.by_row_direction[at + target[a]];
            }
            for (int b = 1, p = 0; b < k; ++b)
                for (int a = 0; a < b; ++a, ++p) {
                    const int64_t edge = pair[p];
                    const double sign = batch.sign[a * B + v] * batch.sign[b * B + v];
                    const double* weights = safe ? plan.q : sign > 0.0 ? plan.exp_q : plan.exp_minus_q;
                    batch.two[p * B + v] = edge < 0 ? (safe ? 0.0 : 1.0) : safe ? sign * weights[edge] : weights[edge];
                    batch.dtwo[p * B + v] = edge < 0 || !direction ? 0.0 : sign * plan.dq[edge];
                }
        }
        solve(safe, plan.mode, k, plan.state0, plan.state_gap, batch, work.flips, work.dflips);
        if (by_entry) {
            for (int64_t v = 0; v < B && first + v < last; ++v) plan.entry_out[entry[v]] = scale[v] * batch.value[v];
            continue;
        }
        if (plan.mode == PairwiseMode::gradient)
            for (int64_t v = 0; v < B; ++v) sums->value += scale[v] * batch.value[v];
        for (int64_t v = 0; v < B; ++v) {
            const int32_t* target = plan.targets + part.target + component[v] * k;
            const int32_t* pair = plan.pairs + part.pair + component[v] * n_pairs;
            double* pi = work.by_row_pi + (rows[v] - row0) * m;
            for (int a = 0; a < k; ++a) pi[target[a]] += scale[v] * batch.pi[a * B + v];
            for (int b = 1, p = 0; b < k; ++b)
                for (int a = 0; a < b; ++a, ++p) {
                    if (pair[p] < 0) continue;
                    const double sign = batch.sign[a * B + v] * batch.sign[b * B + v];
                    const double term = (diagonal ? 1.0 : -sign) * scale[v] * batch.pi_pair[p * B + v];
                    sums->edges[pair[p]] += term;
                    if (plan.mode == PairwiseMode::scores) plan.pair_terms[rows[v] * plan.n_edges + pair[p]] += term;
                }
        }
    }
}

// to (columns, lines) = from (lines, columns) transposed, in squares that stay in the cache.
static void transpose(const double* from, int64_t lines, int64_t columns, int64_t from_stride, double* to,
                      int64_t to_stride, bool add) {
    for (int64_t i0 = 0; i0 < lines; i0 += 16)
        for (int64_t j0 = 0; j0 < columns; j0 += 16) {
            const int64_t i1 = i0 + 16 < lines ? i0 + 16 : lines, j1 = j0 + 16 < columns ? j0 + 16 : columns;
            for (int64_t j = j0; j < j1; ++j)
                for (int64_t i = i0; i < i1; ++i)
                    to[j * to_stride + i] = (add ? to[j * to_stride + i] : 0.0) + from[i * from_stride + j];
        }
}

// The weights of the chunk's samples in this part, 0 beyond the last sample; how many are not 0.
static int64_t load_weights(const PairwisePlan& plan, const PairwisePart& part, int64_t row0, int64_t lanes,
                            double* weight) {
    int64_t count = 0;
    for (int64_t l = 0; l < lanes; ++l) {
        const int64_t row = row0 + l;
        weight[l] = row >= plan.n ? 0.0 : part.row_weight < 0 ? 1.0 : plan.row_weight[part.row_weight + row];
        count += weight[l] != 0.0;
    }
    return count;
}

static void gather_lanes(const double* from, int64_t stride, const int64_t* lane, int64_t m, double* to) {
    for (int64_t j = 0; j < m; ++j)
        for (int64_t l = 0; l < T; ++l) to[j * T + l] = from[j * stride + lane[l]];
}

// All components of a part with blocks of k >= 2, for the samples with a weight: tile by tile, or gathered into full
// tiles where fewer than half of the samples have one.
static void block_part(const PairwisePlan& plan, const PairwisePart& part, bool safe, double bound, int64_t row0,
                       int64_t lanes, int64_t chosen, Work& work, PairwiseSums* sums) {
    const bool pairs = part.k == 2 && !safe && plan.mode == PairwiseMode::gradient;
    const int64_t most_terms = static_cast<int64_t>(600.0 / (bound > 10.0 ? bound : 10.0));
    int64_t rows[T];
    if (2 * chosen > lanes) {
        for (int64_t t = 0; t < lanes; t += T) {
            Lanes tile = work.lanes;
            tile.sign += t;
            tile.delta += t;
            tile.exp_delta += t;
            tile.pi += t;
            if (tile.direction) tile.direction += t;
            for (int64_t l = 0; l < T; ++l) rows[l] = row0 + t + l;
            if (pairs)
                pair_tile(plan, part, tile, work.weight + t, work.log_sum + t, most_terms, sums);
            else
                block_tile(plan, part, safe, tile, work.weight + t, work.log_sum + t, rows, work, sums);
        }
        return;
    }
    for (int64_t next = 0; next < lanes;) {
        int64_t lane[T], count = 0;
        double tile_log[T];
        for (; next < lanes && count < T; ++next)
            if (work.weight[next] != 0.0) lane[count++] = next;
        if (!count) break;
        for (int64_t l = 0; l < T; ++l) {
            if (l >= count) lane[l] = lane[count - 1];
            work.tile_weight[l] = l < count ? work.weight[lane[l]] : 0.0;
            rows[l] = l < count ? row0 + lane[l] : plan.n;
            tile_log[l] = 0.0;
        }
        Lanes& tile = work.compact;
        gather_lanes(work.lanes.sign, plan.chunk, lane, plan.m, tile.sign);
        gather_lanes(work.lanes.delta, plan.chunk, lane, plan.m, tile.delta);
        gather_lanes(work.lanes.exp_delta, plan.chunk, lane, plan.m, tile.exp_delta);
        if (tile.direction) gather_lanes(work.lanes.direction, plan.chunk, lane, plan.m, tile.direction);
        for (int64_t i = 0; i < plan.m * T; ++i) tile.pi[i] = 0.0;
        if (pairs)
            pair_tile(plan, part, tile, work.tile_weight, tile_log, most_terms, sums);
        else
            block_tile(plan, part, safe, tile, work.tile_weight, tile_log, rows, work, sums);
        for (int64_t l = 0; l < count; ++l) work.log_sum[lane[l]] += tile_log[l];
        for (int64_t j = 0; j < plan.m; ++j)
            for (int64_t l = 0; l < count; ++l) work.lanes.pi[j * plan.chunk + lane[l]] += tile.pi[j * T + l];
    }
}

// All parts for the variables j0..j1-1 (all of them, unless there are only single variables).
static void all_parts(const PairwisePlan& plan, int64_t row0, int64_t lanes, int64_t j0, int64_t j1, Work& work,
                      PairwiseSums* sums) {
    const bool blocks = !only_singles(plan);
    double largest = 0.0;
    if (blocks) {
        for (int64_t j = j0; j < j1; ++j) {
            const double* delta = work.lanes.delta + (j - j0) * plan.chunk;
            double* exp_delta = work.lanes.exp_delta + (j - j0) * plan.chunk;
            double line = 0.0;
#pragma omp simd reduction(max : line)
            for (int64_t l = 0; l < lanes; ++l) {
                const double size = delta[l] < 0.0 ? -delta[l] : delta[l];
                line = size > line ? size : line;
            }
            largest = line > largest ? line : largest;
            for (int64_t l = 0; l < lanes; ++l) exp_delta[l] = fast_exp(delta[l]);
        }
    }
    const int64_t n = plan.n - row0 < lanes ? plan.n - row0 : lanes;
    const bool by_row = plan.mode == PairwiseMode::values || plan.mode == PairwiseMode::products;
    for (int64_t p = 0; p < plan.n_parts; ++p) {
        const PairwisePart& part = plan.parts[p];
        const double k = static_cast<double>(part.k);
        const double bound = k * largest + 0.5 * k * (k - 1.0) * plan.largest_q;
        const bool safe = !(bound < 600.0);
        if (part.form == 1) {
            transpose(safe ? work.lanes.delta : work.lanes.exp_delta, plan.m, n, plan.chunk, work.by_row, plan.m,
                      false);
            if (has_direction(plan))
                transpose(work.lanes.direction, plan.m, n, plan.chunk, work.by_row_direction, plan.m, false);
            for (int64_t i = 0; i < n * plan.m; ++i) work.by_row_pi[i] = 0.0;
            entry_part(plan, part, safe, row0, n, work, sums);
            transpose(work.by_row_pi, n, plan.m, plan.m, work.lanes.pi, plan.chunk, true);
            continue;
        }
        const int64_t chosen = load_weights(plan, part, row0, lanes, work.weight);
        if (!chosen) continue;
        for (int64_t l = 0; l < lanes; ++l) work.log_sum[l] = 0.0;
        if (part.k == 1)
            single_part(plan, plan.beta + part.beta, j0, j1, lanes, work);
        else
            block_part(plan, part, safe, bound, row0, lanes, chosen, work, sums);
        if (by_row)
            for (int64_t l = 0; l < n; ++l)
                plan.row_out[p * plan.n + row0 + l] += work.weight[l] != 0.0 ? work.log_sum[l] : 0.0;
        else
            sums->value += weighted_sum(work.weight, work.log_sum, lanes);
    }
}

// From the flips to the sums over samples: r = -s pi, its sums, and its products with c.
static void collect(const PairwisePlan& plan, int64_t row0, int64_t lanes, int64_t j0, int64_t j1, Work& work,
                    PairwiseSums* sums) {
    const int64_t stride = plan.chunk;
    for (int64_t j = j0; j < j1; ++j) {
        double* pi = work.lanes.pi + (j - j0) * stride;
        const double* sign = work.lanes.sign + (j - j0) * stride;
        double sum = 0.0;
        if (plan.mode != PairwiseMode::diagonal)
            for (int64_t l = 0; l < lanes; ++l) pi[l] *= -sign[l];
#pragma omp simd reduction(+ : sum)
        for (int64_t l = 0; l < lanes; ++l) sum += pi[l];
        sums->biases[j] += sum;
    }
    if (plan.mode == PairwiseMode::scores) {
        for (int64_t j = j0; j < j1; ++j)
            for (int64_t l = 0; l < lanes && row0 + l < plan.n; ++l)
                plan.residual[(row0 + l) * plan.m + j] = work.lanes.pi[(j - j0) * stride + l];
        return;
    }
    if (plan.dense) {
        for (int64_t j = j0; j < j1; j += P) {
            const int64_t width = j1 - j < P ? j1 - j : P;
            if (width < P)
                for (int64_t i = 0; i < lanes * P; ++i) work.panel[i] = 0.0;
            transpose(work.lanes.pi + (j - j0) * stride, width, lanes, stride, work.panel, P, false);
            outer_panel(work.panel, plan.rows + row0 * plan.row_words, plan.row_words, lanes, work.table,
                        sums->outer + j, plan.m_padded);
        }
    } else {
        for (int64_t e = 0; e < plan.n_edges; ++e) {
            const int64_t a = plan.edge_a[e] * stride, b = plan.edge_b[e] * stride;
            const double *ra = work.lanes.pi + a, *rb = work.lanes.pi + b;
            const double *ca = work.indicator + a, *cb = work.indicator + b;
            double sum = 0.0;
#pragma omp simd reduction(+ : sum)
            for (int64_t l = 0; l < lanes; ++l) sum += ra[l] * cb[l] + rb[l] * ca[l];
            sums->edges[e] += plan.outer_scale * sum;
        }
    }
}

void pairwise_chunks(const PairwisePlan& plan, int64_t first, int64_t last, double* scratch, PairwiseSums* sums) {
    Work work = lay_out(plan, scratch);
    if (!has_direction(plan)) work.lanes.direction = work.compact.direction = nullptr;
    const int64_t step = held_variables(plan);
    const bool by_row = plan.mode == PairwiseMode::values || plan.mode == PairwiseMode::products;
    for (int64_t chunk = first; chunk < last; ++chunk) {
        const int64_t row0 = chunk * plan.chunk;
        const int64_t lanes = plan.n_padded - row0 < plan.chunk ? plan.n_padded - row0 : plan.chunk;
        for (int64_t j0 = 0; j0 < plan.m; j0 += step) {
            const int64_t j1 = j0 + step < plan.m ? j0 + step : plan.m;
            unpack_signs(plan, row0, lanes, j0, j1, work);
            signed_fields(plan, plan.q, plan.bias, plan.matrix, row0, lanes, j0, j1, work, work.lanes.delta);
            if (has_direction(plan))
                signed_fields(plan, plan.dq, plan.dbias, plan.dmatrix, row0, lanes, j0, j1, work, work.lanes.direction);
            for (int64_t j = j0; j < j1; ++j)
                for (int64_t l = 0; l < lanes; ++l) work.lanes.pi[(j - j0) * plan.chunk + l] = 0.0;
            all_parts(plan, row0, lanes, j0, j1, work, sums);
            if (!by_row) collect(plan, row0, lanes, j0, j1, work, sums);
        }
    }
}

}  // namespace ff::FF_ISA

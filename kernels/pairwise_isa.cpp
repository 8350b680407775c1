#include "bit_products.hpp"
#include "pairwise.hpp"
#include "pairwise_blocks.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

static constexpr int64_t T = pairwise_tile;
static constexpr int64_t gathered = 8;  // batches of listed entries that are gathered before the first is solved

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
    work.batch = reinterpret_cast<Batch*>(take(base, work, gathered * sizeof(Batch) / sizeof(double)));
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
            transpose(work.panel, lanes, width, P, out + (j - j0) * stride, stride, false);
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
#pragma omp simd
                for (int64_t v = 0; v < B; ++v) batch.one[a * B + v] = ones[at + v];
#pragma omp simd
                for (int64_t v = 0; v < B; ++v) batch.sign[a * B + v] = lanes.sign[at + v];
                if (direction)
#pragma omp simd
                    for (int64_t v = 0; v < B; ++v) batch.d_one[a * B + v] = lanes.direction[at + v];
            }
            for (int b = 1, p = 0; b < k; ++b)
                for (int a = 0; a < b; ++a, ++p) {
                    const int64_t edge = pair[p];
                    const double q = edge < 0 ? 0.0 : plan.q[edge], dq = edge < 0 || !direction ? 0.0 : plan.dq[edge];
                    const double plus = safe ? q : edge < 0 ? 1.0 : plan.exp_q[edge];
                    const double minus = safe ? -q : edge < 0 ? 1.0 : plan.exp_minus_q[edge];
#pragma omp simd
                    for (int64_t v = 0; v < B; ++v) {
                        const double sign = batch.sign[a * B + v] * batch.sign[b * B + v];
                        batch.two[p * B + v] = sign > 0.0 ? plus : minus;
                        batch.d_two[p * B + v] = sign * dq;
                    }
                }
            solve(safe, plan.mode, k, plan.state0, plan.state_gap, batch, work.flips, work.dflips);
            if (by_row || plan.mode == PairwiseMode::gradient)
#pragma omp simd
                for (int64_t v = 0; v < B; ++v) log_sum[start + v] += beta * batch.value[v];
            if (by_row) continue;
            double scale[B];
#pragma omp simd
            for (int64_t v = 0; v < B; ++v) scale[v] = beta * weight[start + v];
            for (int a = 0; a < k; ++a) {
                double* pi = lanes.pi + target[a] * lanes.stride + start;
#pragma omp simd
                for (int64_t v = 0; v < B; ++v) pi[v] += scale[v] * batch.pi[a * B + v];
            }
            for (int b = 1, p = 0; b < k; ++b)
                for (int a = 0; a < b; ++a, ++p) {
                    if (pair[p] < 0) continue;
                    double term[B], sum = 0.0;
#pragma omp simd
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
// Several batches are gathered before the first is solved: a vector load that follows its scalar stores at once has to
// wait.
struct EntryBatch {
    int64_t rows[pairwise_batch], component[pairwise_batch];
    double scale[pairwise_batch];
};

template <int K>
static void gather_batch(const PairwisePlan& plan, const PairwisePart& part, bool safe, int64_t row0, int64_t first,
                         int64_t last, int64_t& row, const Work& work, EntryBatch& entries, Batch& batch) {
    const int k = K ? K : static_cast<int>(part.k), n_pairs = k * (k - 1) / 2;
    const bool direction = has_direction(plan);
    const bool weighted =
        part.entry_weight >= 0 && plan.mode != PairwiseMode::values && plan.mode != PairwiseMode::products;
    const int64_t* pointer = plan.indptr + part.indptr;
    const int32_t* components = plan.entry_component + part.entry;
    const double* weights[2] = {safe ? plan.q : plan.exp_q, safe ? plan.q : plan.exp_minus_q};
    for (int64_t v = 0; v < B; ++v) {
        // A last batch that is not full repeats its last entry without weight.
        const bool real = first + v < last;
        const int64_t e = real ? first + v : last - 1;
        while (pointer[row + 1] <= e) ++row;
        const int64_t component = components[e];
        double scale = real ? plan.beta[part.beta + component] : 0.0;
        if (weighted) scale *= plan.entry_weight[part.entry_weight + e];
        entries.rows[v] = row;
        entries.component[v] = component;
        entries.scale[v] = scale;
        const int32_t* target = plan.targets + part.target + component * k;
        const int32_t* pair = plan.pairs + part.pair + component * n_pairs;
        const uint64_t* words = plan.columns + row / T * plan.m;
        const int64_t at = (row - row0) * plan.m;
        uint64_t flipped[pairwise_most];
        for (int a = 0; a < k; ++a) {
            flipped[a] = words[target[a]] >> (row % T) & 1;
            batch.one[a * B + v] = work.by_row[at + target[a]];
            batch.sign[a * B + v] = bits_to_double(static_cast<int64_t>(0x3ff0000000000000ULL | flipped[a] << 63));
            if (direction) batch.d_one[a * B + v] = work.by_row_direction[at + target[a]];
        }
        for (int b = 1, p = 0; b < k; ++b)
            for (int a = 0; a < b; ++a, ++p) {
                const int64_t edge = pair[p];
                // Signs are random: they choose an address, not a branch.
                const uint64_t differ = flipped[a] ^ flipped[b];
                if (edge < 0) {
                    batch.two[p * B + v] = safe ? 0.0 : 1.0;
                    batch.d_two[p * B + v] = 0.0;
                    continue;
                }
                batch.two[p * B + v] = weights[differ][edge];
                if (direction) batch.d_two[p * B + v] = (differ ? -1.0 : 1.0) * plan.dq[edge];
            }
        if (safe)
            for (int b = 1, p = 0; b < k; ++b)
                for (int a = 0; a < b; ++a, ++p)
                    if (flipped[a] ^ flipped[b]) batch.two[p * B + v] = -batch.two[p * B + v];
    }
}

template <int K>
static void scatter_batch(const PairwisePlan& plan, const PairwisePart& part, int64_t row0, const EntryBatch& entries,
                          const Batch& batch, Work& work, PairwiseSums* sums) {
    const int k = K ? K : static_cast<int>(part.k), n_pairs = k * (k - 1) / 2;
    const bool diagonal = plan.mode == PairwiseMode::diagonal;
    if (plan.mode == PairwiseMode::gradient)
        for (int64_t v = 0; v < B; ++v) sums->value += entries.scale[v] * batch.value[v];
    for (int64_t v = 0; v < B; ++v) {
        const int32_t* target = plan.targets + part.target + entries.component[v] * k;
        const int32_t* pair = plan.pairs + part.pair + entries.component[v] * n_pairs;
        const double scale = entries.scale[v];
        double* pi = work.by_row_pi + (entries.rows[v] - row0) * plan.m;
        for (int a = 0; a < k; ++a) pi[target[a]] += scale * batch.pi[a * B + v];
        for (int b = 1, p = 0; b < k; ++b)
            for (int a = 0; a < b; ++a, ++p) {
                if (pair[p] < 0) continue;
                const double sign = batch.sign[a * B + v] * batch.sign[b * B + v];
                const double term = (diagonal ? 1.0 : -sign) * scale * batch.pi_pair[p * B + v];
                sums->edges[pair[p]] += term;
                if (plan.mode == PairwiseMode::scores)
                    plan.pair_terms[entries.rows[v] * plan.n_edges + pair[p]] += term;
            }
    }
}

template <int K>
static void entry_part(const PairwisePlan& plan, const PairwisePart& part, bool safe, int64_t row0, int64_t n,
                       Work& work, PairwiseSums* sums) {
    const bool by_entry = plan.mode == PairwiseMode::values || plan.mode == PairwiseMode::products;
    const int64_t* pointer = plan.indptr + part.indptr;
    const int64_t last = pointer[row0 + n];
    int64_t row = row0;
    EntryBatch entries[gathered];
    for (int64_t start = pointer[row0]; start < last; start += gathered * B) {
        const int64_t left = (last - start + B - 1) / B, count = left < gathered ? left : gathered;
        for (int64_t u = 0; u < count; ++u)
            gather_batch<K>(plan, part, safe, row0, start + u * B, last, row, work, entries[u], work.batch[u]);
        for (int64_t u = 0; u < count; ++u)
            solve(safe, plan.mode, static_cast<int>(part.k), plan.state0, plan.state_gap, work.batch[u], work.flips,
                  work.dflips);
        for (int64_t u = 0; u < count; ++u) {
            if (!by_entry) {
                scatter_batch<K>(plan, part, row0, entries[u], work.batch[u], work, sums);
                continue;
            }
            for (int64_t v = 0; v < B && start + u * B + v < last; ++v)
                plan.entry_out[part.entry + start + u * B + v] = entries[u].scale[v] * work.batch[u].value[v];
        }
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
            if (part.k == 1)
                entry_part<1>(plan, part, safe, row0, n, work, sums);
            else if (part.k == 2)
                entry_part<2>(plan, part, safe, row0, n, work, sums);
            else
                entry_part<0>(plan, part, safe, row0, n, work, sums);
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

#include <algorithm>
#include <cmath>

#include "missing_rows.hpp"

namespace ff::FF_ISA {

static constexpr int64_t LANES = missing_lanes;
// Products of exponentials stay within the range of numbers up to this sum of logarithms.
static constexpr double FAR = 500.0;

// E(s) = Σ_a s_a field_a + Σ_{a<b} s_a s_b w_ab for all states, by doubling.
static void energies(const MissingRow& row, const double* weights, const double* field, double* out) {
    out[0] = 0.0;
    for (int64_t a = 0; a < row.k; ++a) {
        const int64_t half = int64_t{1} << a, own = row.missing[a];
        // What adding a changes: its field and its couplings with the states below, again by doubling.
        double* added = out + half;
        added[0] = field[own];
        for (int64_t b = 0; b < a; ++b) {
            const double weight = weights[own * row.m + row.missing[b]];
            const int64_t below = int64_t{1} << b;
            for (int64_t s = 0; s < below; ++s) added[below + s] = added[s] + weight;
        }
        for (int64_t s = 0; s < half; ++s) added[s] += out[s];
    }
}

// Moments of a table over states: ones[a] = Σ_s t(s) s_a, both[a, b] = Σ_s t(s) s_a s_b. `spare` is as long as half of
// the table; both are overwritten.
static void moments(double* table, double* spare, int64_t k, double* ones, double* both) {
    for (int64_t a = k - 1; a >= 0; --a) {
        const int64_t half = int64_t{1} << a;
        std::copy(table + half, table + 2 * half, spare);
        for (int64_t s = 0; s < half; ++s) table[s] += table[half + s];
        for (int64_t b = a - 1; b >= 0; --b) {
            const int64_t quarter = int64_t{1} << b;
            double sum = 0.0;
            for (int64_t s = 0; s < quarter; ++s) sum += spare[quarter + s];
            for (int64_t s = 0; s < quarter; ++s) spare[s] += spare[quarter + s];
            both[a * k + b] = both[b * k + a] = sum;
        }
        ones[a] = spare[0];
        both[a * k + a] = 0.0;
    }
}

// Σ_s t(s) s_a for each lane, into out + a · stride; the table is folded up.
static void lane_marginals(double* table, int64_t k, const double* factor, int64_t count, double* out, int64_t stride) {
    for (int64_t a = k - 1; a >= 0; --a) {
        const int64_t half = int64_t{1} << a;
        double sum[LANES] = {};
        for (int64_t s = 0; s < half; ++s) {
            double *low = table + s * LANES, *high = table + (half + s) * LANES;
            for (int64_t l = 0; l < LANES; ++l) {
                sum[l] += high[l];
                low[l] += high[l];
            }
        }
        for (int64_t l = 0; l < count; ++l) out[a * stride + l] = sum[l] * factor[l];
    }
}

void missing_row(const MissingRow& row) {
    const int64_t m = row.m, k = row.k, states = int64_t{1} << k;
    const bool directed = row.weights_tangent != nullptr;
    double* table = row.scratch;             // (states, lanes) q up to a factor
    double* log_p = table + states * LANES;  // (states,)
    double* p = log_p + states;              // (states,)
    double* by_state = p + states;           // (states,)
    double* moved = by_state + states;       // tangents of the same
    double* log_p_moved = moved + states * LANES;
    double* by_state_moved = log_p_moved + states;
    double* spare = by_state_moved + states;

    energies(row, row.weights, row.field, log_p);
    const auto [least, most] = std::minmax_element(log_p, log_p + states);
    const double highest = *most, range = highest - *least;
    double sum = 0.0;
    for (int64_t s = 0; s < states; ++s) sum += p[s] = std::exp(log_p[s] - highest);
    const double log_z = highest + std::log(sum);
    for (int64_t s = 0; s < states; ++s) {
        log_p[s] -= log_z;
        p[s] /= sum;
    }
    std::fill(by_state, by_state + states, 0.0);
    if (directed) {
        energies(row, row.weights_tangent, row.field_tangent, log_p_moved);
        double mean = 0.0;
        for (int64_t s = 0; s < states; ++s) mean += p[s] * log_p_moved[s];
        for (int64_t s = 0; s < states; ++s) log_p_moved[s] -= mean;
        std::fill(by_state_moved, by_state_moved + states, 0.0);
    }

    double value = 0.0, value_moved = 0.0, pull_sum = 0.0, pull_sum_moved = 0.0;
    for (int64_t first = 0; first < m; first += LANES) {
        const int64_t count = std::min(LANES, m - first);
        double turn[LANES] = {}, scale[LANES] = {}, largest[LANES] = {}, total[LANES] = {};
        bool used = false;
        for (int64_t l = 0; l < count; ++l) {
            turn[l] = 1.0 - 2.0 * row.codes[first + l];
            scale[l] = row.scale[first + l];
            used = used || scale[l] != 0.0;
        }
        if (!used) {
            std::fill(row.turned + first, row.turned + first + count, 0.0);
            if (directed) std::fill(row.turned_tangent + first, row.turned_tangent + first + count, 0.0);
            for (int64_t a = 0; a < k; ++a) {
                std::fill(row.cross + a * m + first, row.cross + a * m + first + count, 0.0);
                if (directed)
                    std::fill(row.cross_tangent + a * m + first, row.cross_tangent + a * m + first + count, 0.0);
            }
            continue;
        }
        // The logarithms of the factors: d_j w_{j a}, and at the state 0 what keeps the products below 1.
        double factor[most_missing][LANES], spread[LANES] = {};
        for (int64_t l = 0; l < count; ++l) largest[l] = turn[l] * row.field[first + l];
        for (int64_t a = 0; a < k; ++a) {
            const double* weight = row.weights + row.missing[a] * m + first;
            for (int64_t l = 0; l < LANES; ++l) factor[a][l] = 0.0;
            for (int64_t l = 0; l < count; ++l) {
                factor[a][l] = turn[l] * weight[l];
                spread[l] += std::fabs(factor[a][l]);
                if (factor[a][l] > 0) largest[l] += factor[a][l];
            }
        }
        double widest = 0.0;
        for (int64_t l = 0; l < count; ++l) widest = std::max(widest, spread[l]);
        const bool products = range + widest <= FAR;
        for (int64_t l = 0; l < LANES; ++l) {
            const double begin = l < count ? turn[l] * row.field[first + l] - largest[l] : 0.0;
            table[l] = products ? std::exp(begin) : begin + largest[l];
        }
        for (int64_t a = 0; a < k; ++a) {
            const int64_t half = int64_t{1} << a;
            double by[LANES];
            for (int64_t l = 0; l < LANES; ++l) by[l] = products ? std::exp(factor[a][l]) : factor[a][l];
            double* to = table + half * LANES;
            if (products)
                for (int64_t s = 0; s < half; ++s)
                    for (int64_t l = 0; l < LANES; ++l) to[s * LANES + l] = table[s * LANES + l] * by[l];
            else
                for (int64_t s = 0; s < half; ++s)
                    for (int64_t l = 0; l < LANES; ++l) to[s * LANES + l] = table[s * LANES + l] + by[l];
        }
        if (!products) {
            for (int64_t l = 0; l < LANES; ++l) largest[l] = -INFINITY;
            for (int64_t s = 0; s < states; ++s)
                for (int64_t l = 0; l < LANES; ++l) {
                    table[s * LANES + l] += log_p[s];
                    largest[l] = std::max(largest[l], table[s * LANES + l]);
                }
        }
        for (int64_t s = 0; s < states; ++s) {
            double* at = table + s * LANES;
            const double share = p[s];
            if (products)
                for (int64_t l = 0; l < LANES; ++l) at[l] *= share;
            else
                for (int64_t l = 0; l < LANES; ++l) at[l] = std::exp(at[l] - largest[l]);
            for (int64_t l = 0; l < LANES; ++l) total[l] += at[l];
        }

        double pull[LANES] = {}, inverse[LANES], log_rho_moved[LANES] = {}, pull_moved[LANES] = {};
        for (int64_t l = 0; l < LANES; ++l) inverse[l] = 1.0 / total[l];
        if (directed) {
            for (int64_t l = 0; l < LANES; ++l) moved[l] = l < count ? turn[l] * row.field_tangent[first + l] : 0.0;
            for (int64_t a = 0; a < k; ++a) {
                const int64_t half = int64_t{1} << a;
                const double* weight = row.weights_tangent + row.missing[a] * m + first;
                double by[LANES] = {};
                for (int64_t l = 0; l < count; ++l) by[l] = turn[l] * weight[l];
                double* to = moved + half * LANES;
                for (int64_t s = 0; s < half; ++s)
                    for (int64_t l = 0; l < LANES; ++l) to[s * LANES + l] = moved[s * LANES + l] + by[l];
            }
            // From here on `moved` is the table times the tangent of its logarithm.
            for (int64_t s = 0; s < states; ++s)
                for (int64_t l = 0; l < LANES; ++l) {
                    double& at = moved[s * LANES + l];
                    at = (at + log_p_moved[s]) * table[s * LANES + l];
                    log_rho_moved[l] += at;
                }
            for (int64_t l = 0; l < LANES; ++l) log_rho_moved[l] *= inverse[l];
        }
        for (int64_t l = 0; l < count; ++l) {
            const double log_rho = largest[l] + std::log(total[l]);
            // log(1 + ρ) and ρ / (1 + ρ), both for large and small ρ
            const double small = std::exp(-std::fabs(log_rho));
            const double odds = std::max(log_rho, 0.0) + std::log1p(small);
            const double share = (log_rho > 0 ? 1.0 : small) / (1.0 + small);
            value -= scale[l] * odds;
            pull[l] = -scale[l] * share;
            pull_sum += pull[l];
            row.turned[first + l] = pull[l] * turn[l];
            if (directed) {
                value_moved += pull[l] * log_rho_moved[l];
                pull_moved[l] = pull[l] * (log_rho > 0 ? small : 1.0) / (1.0 + small) * log_rho_moved[l];
                pull_sum_moved += pull_moved[l];
                row.turned_tangent[first + l] = pull_moved[l] * turn[l];
            }
        }
        double each[LANES], each_moved[LANES] = {};
        for (int64_t l = 0; l < LANES; ++l) each[l] = pull[l] * inverse[l];
        for (int64_t l = 0; l < LANES; ++l) each_moved[l] = (pull_moved[l] - pull[l] * log_rho_moved[l]) * inverse[l];
        for (int64_t s = 0; s < states; ++s) {
            const double* at = table + s * LANES;
            double add = 0.0;
            for (int64_t l = 0; l < LANES; ++l) add += each[l] * at[l];
            by_state[s] += add;
            if (directed) {
                const double* to = moved + s * LANES;
                double add_moved = 0.0;
                for (int64_t l = 0; l < LANES; ++l) add_moved += each_moved[l] * at[l] + each[l] * to[l];
                by_state_moved[s] += add_moved;
            }
        }
        lane_marginals(table, k, inverse, count, row.cross + first, m);
        if (directed) {
            lane_marginals(moved, k, inverse, count, row.cross_tangent + first, m);
            for (int64_t a = 0; a < k; ++a)
                for (int64_t l = 0; l < count; ++l)
                    row.cross_tangent[a * m + first + l] -= row.cross[a * m + first + l] * log_rho_moved[l];
        }
    }

    for (int64_t s = 0; s < states; ++s) by_state[s] -= p[s] * pull_sum;
    moments(by_state, log_p, k, row.ones, row.both);
    *row.value = value;
    if (directed) {
        for (int64_t s = 0; s < states; ++s) by_state_moved[s] -= p[s] * (log_p_moved[s] * pull_sum + pull_sum_moved);
        moments(by_state_moved, spare, k, row.ones_tangent, row.both_tangent);
        *row.value_tangent = value_moved;
    }
}

}  // namespace ff::FF_ISA

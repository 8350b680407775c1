#include "pairwise_information.hpp"

namespace ff::FF_ISA {

// P(S) for all sets S of a block: the sum of the probabilities of the flips that contain S.
static void flip_probabilities(int64_t k, const double* field, const double* pair, double* p) {
    const int64_t states = int64_t{1} << k;
    p[0] = 0.0;
    double largest = 0.0;
    for (int64_t a = 0; a < k; ++a) {
        const int64_t half = int64_t{1} << a;
        for (int64_t f = 0; f < half; ++f) {
            double energy = p[f] + field[a];
            for (int64_t b = 0; b < a; ++b)
                if (f >> b & 1) energy += pair[a * (a - 1) / 2 + b];
            p[half + f] = energy;
            largest = energy > largest ? energy : largest;
        }
    }
    double total = 0.0;
    for (int64_t f = 0; f < states; ++f) total += p[f] = __builtin_exp(p[f] - largest);
    for (int64_t f = 0; f < states; ++f) p[f] /= total;
    for (int64_t a = 0; a < k; ++a)
        for (int64_t f = 0; f < states; ++f)
            if (!(f >> a & 1)) p[f] += p[f | int64_t{1} << a];
}

static void add_products(const int64_t* left, int64_t n_left, const int64_t* right, int64_t n_right, double value,
                         int64_t size, double* out) {
    for (int64_t i = 0; i < n_left; ++i) {
        double* row = out + left[i] * size;
        for (int64_t j = 0; j < n_right; ++j) row[right[j]] += value;
    }
}

void pairwise_information(const PairwiseBlocks& of, int64_t first, int64_t last, double* numbers, int64_t* places,
                          double* out) {
    const int64_t m = of.m, k = of.k, size = of.n_edges + m, pairs = k * (k - 1) / 2;
    double *field = numbers, *p = numbers + m, *local = p + (int64_t{1} << k);
    int64_t *features = places, *counts = places + m * (m + 1), *mask = counts + m, *edge = mask + k + pairs;
    for (int64_t i = first; i < last; ++i) {
        const double sample = of.row_weight ? of.row_weight[i] : 1.0;
        const int64_t begin = of.indptr ? of.indptr[i] : 0, end = of.indptr ? of.indptr[i + 1] : of.n_components;
        if (sample == 0.0 || begin == end) continue;
        const uint8_t* c = of.codes + i * m;
        for (int64_t a = 0; a < m; ++a) {
            // The features that change with variable a: its bias, and its edges to ones.
            double sum = of.bias[a];
            int64_t* own = features + a * (m + 1);
            int64_t count = 0;
            own[count++] = of.n_edges + a;
            for (int64_t b = 0; b < m; ++b)
                if (c[b] && of.edge_number[a * m + b] >= 0) {
                    sum += of.matrix[a * m + b];
                    own[count++] = of.edge_number[a * m + b];
                }
            field[a] = sum;
            counts[a] = count;
        }
        for (int64_t at = begin; at < end; ++at) {
            const int64_t component = of.indptr ? of.component[at] : at;
            double weight = sample * of.beta[component];
            if (of.indptr && of.entry_weight) weight *= of.entry_weight[at];
            if (weight == 0.0) continue;
            const int32_t* block = of.targets + component * k;
            for (int64_t a = 0; a < k; ++a) {
                local[a] = (c[block[a]] ? -1.0 : 1.0) * field[block[a]];
                mask[a] = int64_t{1} << a;
                for (int64_t b = 0; b < a; ++b) {
                    const int64_t pair = k + a * (a - 1) / 2 + b;
                    const int64_t place = static_cast<int64_t>(block[a]) * m + block[b];
                    local[pair] = (c[block[a]] == c[block[b]] ? 1.0 : -1.0) * of.matrix[place];
                    mask[pair] = int64_t{1} << a | int64_t{1} << b;
                    edge[pair] = of.edge_number[place];
                }
            }
            flip_probabilities(k, local, local + k, p);
            for (int64_t s = 0; s < k + pairs; ++s) {
                if (s >= k && edge[s] < 0) continue;
                const int64_t* left = s < k ? features + block[s] * (m + 1) : edge + s;
                const int64_t n_left = s < k ? counts[block[s]] : 1;
                for (int64_t t = 0; t <= s; ++t) {
                    if (t >= k && edge[t] < 0) continue;
                    const int64_t* right = t < k ? features + block[t] * (m + 1) : edge + t;
                    const int64_t n_right = t < k ? counts[block[t]] : 1;
                    int64_t ones =
                        0;  // variables that are 1 and in just one of the two sets: their signs do not cancel
                    for (int64_t a = 0; a < k; ++a) ones += (mask[s] ^ mask[t]) >> a & c[block[a]];
                    const double value = p[mask[s] | mask[t]] - p[mask[s]] * p[mask[t]];
                    const double signed_value = (ones & 1 ? -weight : weight) * value;
                    add_products(left, n_left, right, n_right, s == t ? 0.5 * signed_value : signed_value, size, out);
                }
            }
        }
    }
}

}  // namespace ff::FF_ISA

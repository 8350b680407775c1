// Scores of tokens: the weights of their features, gathered.
#pragma once

#include "chain.hpp"
#include "chain_products.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {
namespace {

// Rows of weights at this distance (in tokens) are fetched ahead of their use.
constexpr int64_t ahead = 4;

// acc += Σ value * row over the hot rows and, where every pair has a weight, the cold ones; C vectors of columns.
template <int C>
FF_INLINE void gather_block(const ChainData& data, const ChainWeights& weights, const double* hot_table,
                            const double* last_row, int64_t token, int64_t column, double* row) {
    v4 acc[C];
    for (int c = 0; c < C; ++c) acc[c] = load(row + column + 4 * c);
    for (int64_t q = data.hot_ptr[token]; q < data.hot_ptr[token + 1]; ++q) {
        const double* from = hot_table + data.hot_rows[q] * data.padded + column;
        if (data.hot_values) {
            const v4 value = splat(data.hot_values[q]);
            for (int c = 0; c < C; ++c) acc[c] += value * load(from + 4 * c);
        } else {
            for (int c = 0; c < C; ++c) acc[c] += load(from + 4 * c);
        }
    }
    if (!data.pair_ptr)
        for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
            const int64_t feature = data.cold_places[q];
            // The last row of the parameters may have nothing behind it to fill the padding: a copy is read instead.
            const double* from =
                (feature == data.n_features - 1 ? last_row : weights.state + feature * data.n_labels) + column;
            if (data.cold_values) {
                const v4 value = splat(data.cold_values[q]);
                for (int c = 0; c < C; ++c) acc[c] += value * load(from + 4 * c);
            } else {
                for (int c = 0; c < C; ++c) acc[c] += load(from + 4 * c);
            }
        }
    for (int c = 0; c < C; ++c) store(row + column + 4 * c, acc[c]);
}

FF_INLINE void fetch_ahead(const ChainData& data, const ChainWeights& weights, int64_t token) {
    for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
        const int64_t place = data.cold_places[q];
        if (data.pair_ptr) {
            __builtin_prefetch(weights.state + (data.cold_labels ? place : data.pair_ptr[place]));
        } else {
            const double* row = weights.state + place * data.n_labels;
            const int64_t lines = data.n_labels < 64 ? data.n_labels : 64;
            for (int64_t j = 0; j < lines; j += 8) __builtin_prefetch(row + j);
        }
    }
}

// row += Σ value * weight over the listed pairs of a token's cold features.
FF_INLINE void add_listed(const ChainData& data, const ChainWeights& weights, int64_t token, double* row) {
    const int64_t end = data.cold_ptr[token + 1];
    for (int64_t q = data.cold_ptr[token]; q < end; ++q) {
        const int64_t place = data.cold_places[q];
        const double value = data.cold_values ? data.cold_values[q] : 1.0;
        if (data.cold_labels) {
            row[data.cold_labels[q]] += value * weights.state[place];
        } else {
            for (int64_t pair = data.pair_ptr[place]; pair < data.pair_ptr[place + 1]; ++pair)
                row[data.pair_labels[pair]] += value * weights.state[pair];
        }
    }
}

// Scores of the tokens first..last, which are one whole sequence.
FF_INLINE void score_tokens(const ChainData& data, const ChainWeights& weights, const double* hot_table,
                            const double* last_row, int64_t first, int64_t last, double* scores) {
    const int64_t padded = data.padded;
    for (int64_t token = first; token < last; ++token) {
        double* row = scores + (token - first) * padded;
        std::memcpy(row, weights.base, static_cast<size_t>(padded) * sizeof(double));
        if (data.active && !data.active[token]) continue;
        if (token + ahead < data.n_tokens) fetch_ahead(data, weights, token + ahead);
        in_blocks(padded / 4, [&](auto size, int64_t block) FF_ALWAYS {
            gather_block<decltype(size)::value>(data, weights, hot_table, last_row, token, 4 * block, row);
        });
        if (data.pair_ptr) add_listed(data, weights, token, row);
    }
    if (last == first) return;
    double* row = scores;
    for (int64_t j = 0; j < padded; ++j) row[j] += weights.start[j];
    row = scores + (last - first - 1) * padded;
    for (int64_t j = 0; j < padded; ++j) row[j] += weights.end[j];
}

void fill_hot_table(const ChainData& data, const ChainWeights& weights, double* table) {
    for (int64_t h = 0; h < data.n_hot; ++h) {
        double* row = table + h * data.padded;
        const int64_t feature = data.hot_features[h];
        for (int64_t j = 0; j < data.padded; ++j) row[j] = 0.0;
        if (data.pair_ptr) {
            for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair)
                row[data.pair_labels[pair]] = weights.state[pair];
        } else {
            for (int64_t j = 0; j < data.n_labels; ++j) row[j] = weights.state[feature * data.n_labels + j];
        }
    }
}

void fill_last_row(const ChainData& data, const ChainWeights& weights, double* row) {
    for (int64_t j = 0; j < data.padded; ++j)
        row[j] = data.n_features > 0 && !data.pair_ptr && j < data.n_labels
                     ? weights.state[(data.n_features - 1) * data.n_labels + j]
                     : 0.0;
}

// ψ = exp(s - max s) and the max of each token.
FF_INLINE void exponentiate(const double* scores, double* psi, double* tops, int64_t tokens, int64_t padded) {
    for (int64_t t = 0; t < tokens; ++t) {
        const double* row = scores + t * padded;
        double* out = psi + t * padded;
        v4 most = load(row);
        for (int64_t j = 4; j < padded; j += 4) most = larger(load(row + j), most);
        const double top = largest(most);
        tops[t] = top;
        for (int64_t j = 0; j < padded; ++j) out[j] = fast_exp_negative(row[j] - top);
    }
}

}  // namespace
}  // namespace ff::FF_ISA

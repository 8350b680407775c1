// From residuals of tokens to the gradient: sums over the tokens of each feature, and over chunks.
#pragma once

#include "chain.hpp"
#include "chain_lists.hpp"
#include "chain_products.hpp"
#include "chain_segment.hpp"
#include "team.hpp"

namespace ff::FF_ISA {
namespace {

// This thread's memory for the lists of a sequence.
inline double* lists_of_thread(const ChainScratch& scratch) {
    return scratch.lists + thread_number() * scratch.list_size;
}

// The residuals of tokens first..last, added to the rows of their hot features, C vectors from `column` on.
template <int C>
FF_INLINE void scatter_block(const ChainData& data, const double* residuals, bool squares, int64_t first, int64_t last,
                             int64_t column, double* hot_gradient) {
    const int64_t padded = data.padded;
    for (int64_t token = first; token < last; ++token) {
        const double* residual = residuals + token * padded + column;
        v4 row[C];
        for (int c = 0; c < C; ++c) row[c] = load(residual + 4 * c);
        for (int64_t q = data.hot_ptr[token]; q < data.hot_ptr[token + 1]; ++q) {
            double* to = hot_gradient + data.hot_rows[q] * padded + column;
            if (data.hot_values) {
                const double value = data.hot_values[q];
                const v4 scale = splat(squares ? value * value : value);
                for (int c = 0; c < C; ++c) store(to + 4 * c, load(to + 4 * c) + scale * row[c]);
            } else {
                for (int c = 0; c < C; ++c) store(to + 4 * c, load(to + 4 * c) + row[c]);
            }
        }
    }
}

// What the tokens of one sequence add to their chunk: start, end and hot features.
void scatter_sequence(const ChainData& all, const ChainScratch& scratch, const double* residuals, bool squares,
                      int64_t sequence, double* hot_gradient, double* start, double* end) {
    const int64_t first = all.offsets[sequence], last = all.offsets[sequence + 1], padded = all.padded;
    if (first == last) return;
    const ChainData data = listed(all, first, last, lists_of_thread(scratch));
    for (int64_t j = 0; j < padded; ++j) {
        start[j] += residuals[first * padded + j];
        end[j] += residuals[(last - 1) * padded + j];
    }
    in_blocks(padded / 4, [&](auto size, int64_t block) FF_ALWAYS {
        scatter_block<decltype(size)::value>(data, residuals, squares, first, last, 4 * block, hot_gradient);
    });
}

// row += scale * residual over C vectors of labels.
template <int C>
FF_INLINE void add_row(double* row, const double* residual, double scale) {
    const v4 by = splat(scale);
    for (int c = 0; c < C; ++c) store(row + 4 * c, load(row + 4 * c) + by * load(residual + 4 * c));
}

// Weights of cold features are fetched this many tokens ahead.
constexpr int64_t scatter_ahead = 6;

// Features whose weights are first..last-1.
struct FeatureRange {
    int64_t first, last;
};

FF_INLINE FeatureRange feature_range(const ChainData& data, int64_t range, int64_t ranges) {
    const int64_t first = data.slice_features[range * chain_slices / ranges],
                  last = data.slice_features[(range + 1) * chain_slices / ranges];
    if (data.pair_ptr) return {data.pair_ptr[first], data.pair_ptr[last]};
    return {first * data.n_labels, last * data.n_labels};
}

// The first weight of a cold entry: a pair, those of a feature, or its row.
FF_INLINE int64_t first_weight(const ChainData& data, int64_t place) {
    if (data.cold_labels) return place;
    return data.pair_ptr ? data.pair_ptr[place] : place * data.n_labels;
}

// Another thread may be adding to weights outside the range: fetching those would take them from its cache.
FF_INLINE void fetch_weights(const ChainData& data, int64_t token, const FeatureRange& range, double* state) {
    for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
        const int64_t at = first_weight(data, data.cold_places[q]);
        if (at < range.first || at >= range.last) continue;
        double* row = state + at;
        __builtin_prefetch(row, 1);
        if (data.pair_ptr) continue;
        const int64_t most = data.n_labels < 64 ? data.n_labels : 64;
        for (int64_t j = 8; j < most; j += 8) __builtin_prefetch(row + j, 1);
        __builtin_prefetch(row + most - 1, 1);
    }
}

// What the tokens first..last add to the gradient of a range of cold features, token by token.
FF_INLINE void cold_gradient(const ChainData& data, const double* residuals, bool squares, int64_t first, int64_t last,
                             const FeatureRange& range, double* state) {
    const int64_t padded = data.padded, K = data.n_labels, whole = K / 4;
    for (int64_t token = first; token < last; ++token) {
        if (token + scatter_ahead < last) fetch_weights(data, token + scatter_ahead, range, state);
        const double* residual = residuals + token * padded;
        for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
            const int64_t place = data.cold_places[q], at = first_weight(data, place);
            if (at < range.first || at >= range.last) continue;
            double scale = data.cold_values ? data.cold_values[q] : 1.0;
            if (squares) scale *= scale;
            if (data.cold_labels) {
                state[at] += scale * residual[data.cold_labels[q]];
            } else if (data.pair_ptr) {
                for (int64_t pair = at; pair < data.pair_ptr[place + 1]; ++pair)
                    state[pair] += scale * residual[data.pair_labels[pair]];
            } else {
                in_blocks(whole, [&](auto size, int64_t vector) FF_ALWAYS {
                    add_row<decltype(size)::value>(state + at + 4 * vector, residual + 4 * vector, scale);
                });
                // The last labels do not fill a vector, and the next row of the parameters is not ours to write.
                for (int64_t j = 4 * whole; j < K; ++j) state[at + j] += scale * residual[j];
            }
        }
    }
}

// The tokens of a block: the order of a weight's sum depends neither on blocks nor on ranges.
void block_gradient(const ChainData& data, const ChainScratch& scratch, const double* residuals, bool squares,
                    int64_t block, const FeatureRange& range, double* state) {
    if (!data.feature_ptr)
        return cold_gradient(data, residuals, squares, data.block_offset[block], data.block_offset[block + 1], range,
                             state);
    for (int64_t i = data.chunk_ptr[block * data.n_chunks]; i < data.chunk_ptr[(block + 1) * data.n_chunks]; ++i) {
        const int64_t first = data.offsets[i], last = data.offsets[i + 1];
        cold_gradient(listed(data, first, last, lists_of_thread(scratch)), residuals, squares, first, last, range,
                      state);
    }
}

// The hot features: their sums over chunks, in order.
void hot_gradient(const ChainData& data, const ChainScratch& scratch, double* state, int n_threads) {
    const int64_t padded = data.padded;
    const auto sum = [&](int64_t h) {
        double* total = scratch.hot_gradient + h * padded;
        for (int64_t c = 1; c < data.n_chunks; ++c) {
            const double* row = scratch.hot_gradient + (c * data.n_hot + h) * padded;
            for (int64_t j = 0; j < padded; ++j) total[j] += row[j];
        }
        const int64_t feature = data.hot_features[h];
        if (data.pair_ptr) {
            for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair)
                state[pair] = total[data.pair_labels[pair]];
        } else {
            for (int64_t j = 0; j < data.n_labels; ++j) state[feature * data.n_labels + j] = total[j];
        }
    };
    for_each_task(data.n_hot, n_threads, sum, 256);
}

// edges = by_row + by_columnᵀ - M ∘ outer, or the derivative of that; `sums` are the first `parts` of outer, by_row,
// by_column and outer_tangent one after another, and `edges` may be the first of them.
void put_edges_together(const ChainData& data, const Chain& chain, int64_t parts, const double* sums, double* edges) {
    const int64_t padded = data.padded, square = padded * padded, K = data.n_labels;
    const double *outer = sums, *by_row = sums + square, *by_column = sums + 2 * square,
                 *outer_tangent = sums + 3 * square;
    for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < K; ++j) {
            const int64_t k = i * padded + j;
            const double m = chain.forward[k];
            double edge = m * outer[k];
            if (chain.tangent) edge = m * outer_tangent[k] + chain.forward_tangent[k] * outer[k];
            if (chain.squares) edge = m * outer[k] - m * m * outer_tangent[k];
            edges[k] = (parts > 2 ? by_row[k] + by_column[j * padded + i] : by_row[k]) - edge;
        }
}

// The sums over chunks, in order.
void reduce_chunks(const ChainData& data, const Chain& chain, int64_t parts, const ChainScratch& scratch,
                   const ChainOutput& out) {
    const int64_t padded = data.padded, square = padded * padded;
    double* total = scratch.edges;
    for (int64_t c = 1; c < data.n_chunks; ++c)
        for (int64_t k = 0; k < parts * square; ++k) total[k] += scratch.edges[c * 4 * square + k];
    put_edges_together(data, chain, parts, total, out.transitions);
    double* start = scratch.ends;
    for (int64_t c = 1; c < data.n_chunks; ++c)
        for (int64_t j = 0; j < 2 * padded; ++j) start[j] += scratch.ends[c * 2 * padded + j];
    for (int64_t j = 0; j < data.n_labels; ++j) {
        out.start[j] = start[j];
        out.end[j] = start[padded + j];
    }
    for (int64_t k = 0; k < data.n_columns; ++k) {
        double acc = 0.0;
        for (int64_t c = 0; c < data.n_chunks; ++c) acc += scratch.column_gradient[c * data.n_columns + k];
        out.columns[k] = acc;
    }
}

// The state weights' part of the score of one sequence, added to `state`.
void add_state_score(const ChainData& all, const ChainScratch& scratch, const double* residuals, int64_t sequence,
                     double* state) {
    const int64_t K = all.n_labels, first = all.offsets[sequence], last = all.offsets[sequence + 1];
    const ChainData data = listed(all, first, last, lists_of_thread(scratch));
    for (int64_t token = first; token < last; ++token) {
        const double* residual = residuals + token * data.padded;
        const auto add = [&](int64_t feature, double value) {
            if (data.pair_ptr) {
                for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair)
                    state[pair] += value * residual[data.pair_labels[pair]];
            } else {
                for (int64_t j = 0; j < K; ++j) state[feature * K + j] += value * residual[j];
            }
        };
        for (int64_t q = data.hot_ptr[token]; q < data.hot_ptr[token + 1]; ++q)
            add(data.hot_features[data.hot_rows[q]], data.hot_values ? data.hot_values[q] : 1.0);
        for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
            const double value = data.cold_values ? data.cold_values[q] : 1.0;
            if (data.cold_labels)
                state[data.cold_places[q]] += value * residual[data.cold_labels[q]];
            else
                add(data.cold_places[q], value);
        }
    }
}

// The score of one sequence from its residuals and its sums of edges; those of label-pair features are in place.
void put_score_together(const ChainData& data, const ChainScratch& scratch, const Chain& chain, const double* residuals,
                        int64_t sequence, const ChainPlaces& places, double* edges, double* score) {
    const int64_t first = data.offsets[sequence], last = data.offsets[sequence + 1], K = data.n_labels;
    if (first == last) return;
    add_state_score(data, scratch, residuals, sequence, score);
    double* at = score + places.n_state;
    put_edges_together(data, chain, 4, edges, edges);
    for (int64_t k = 0; k < places.n_transitions; ++k) *at++ = edges[places.transitions[k]];
    if (places.start)
        for (int64_t j = 0; j < K; ++j) *at++ = residuals[first * data.padded + j];
    if (places.end)
        for (int64_t j = 0; j < K; ++j) *at++ = residuals[(last - 1) * data.padded + j];
}

}  // namespace
}  // namespace ff::FF_ISA

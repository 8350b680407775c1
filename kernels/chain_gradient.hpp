// From residuals of tokens to the gradient: sums over the tokens of each feature, and over chunks.
#pragma once

#include "chain.hpp"
#include "chain_products.hpp"
#include "chain_segment.hpp"
#include "team.hpp"

namespace ff::FF_ISA {
namespace {

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
void scatter_sequence(const ChainData& data, const double* residuals, bool squares, int64_t sequence,
                      double* hot_gradient, double* start, double* end) {
    const int64_t first = data.offsets[sequence], last = data.offsets[sequence + 1], padded = data.padded;
    if (first == last) return;
    for (int64_t j = 0; j < padded; ++j) {
        start[j] += residuals[first * padded + j];
        end[j] += residuals[(last - 1) * padded + j];
    }
    in_blocks(padded / 4, [&](auto size, int64_t block) FF_ALWAYS {
        scatter_block<decltype(size)::value>(data, residuals, squares, first, last, 4 * block, hot_gradient);
    });
}

// Sums the residuals of a feature's tokens over C vectors of labels, in registers.
template <int C, bool ADD>
FF_INLINE void gather_residuals(const ChainData& data, const double* residuals, bool squares, int64_t begin,
                                int64_t end, double* row) {
    v4 acc[C];
    for (int c = 0; c < C; ++c) acc[c] = splat(0.0);
    for (int64_t q = begin; q < end; ++q) {
        const double* from = residuals + data.feature_tokens[q] * data.padded;
        if (data.feature_values) {
            const double value = data.feature_values[q];
            const v4 scale = splat(squares ? value * value : value);
            for (int c = 0; c < C; ++c) acc[c] += scale * load(from + 4 * c);
        } else {
            for (int c = 0; c < C; ++c) acc[c] += load(from + 4 * c);
        }
    }
    for (int c = 0; c < C; ++c) store(row + 4 * c, ADD ? load(row + 4 * c) + acc[c] : acc[c]);
}

// What the tokens of a block add to the gradient of one cold feature: the sum of their residuals. The first block that
// has the feature writes.
template <bool ADD>
FF_INLINE void gather_gradient(const ChainData& data, const double* residuals, bool squares, int64_t place,
                               double* state) {
    const int64_t begin = data.feature_ptr[place], end = data.feature_ptr[place + 1], padded = data.padded;
    const int64_t feature = ADD ? data.block_features[place] : ~data.block_features[place];
    if (!data.pair_ptr) {
        double* row = state + feature * data.n_labels;
        const int64_t whole = data.n_labels / 4;
        in_blocks(whole, [&](auto size, int64_t block) FF_ALWAYS {
            gather_residuals<decltype(size)::value, ADD>(data, residuals + 4 * block, squares, begin, end,
                                                         row + 4 * block);
        });
        // The last labels do not fill a vector, and the next row of the parameters is not ours to write.
        const int64_t rest = data.n_labels - 4 * whole;
        if (rest == 0) return;
        double last[4];
        gather_residuals<1, false>(data, residuals + 4 * whole, squares, begin, end, last);
        for (int64_t j = 0; j < rest; ++j) row[4 * whole + j] = ADD ? row[4 * whole + j] + last[j] : last[j];
        return;
    }
    for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair) {
        const double* from = residuals + data.pair_labels[pair];
        double acc = 0.0;
        if (data.feature_values) {
            for (int64_t q = begin; q < end; ++q) {
                const double value = data.feature_values[q];
                acc += (squares ? value * value : value) * from[data.feature_tokens[q] * padded];
            }
        } else {
            for (int64_t q = begin; q < end; ++q) acc += from[data.feature_tokens[q] * padded];
        }
        state[pair] = ADD ? state[pair] + acc : acc;
    }
}

// Rows of a gradient with a weight for every pair are written here and there in a block: they are fetched ahead.
constexpr int64_t rows_ahead = 6;

FF_INLINE void fetch_row(const ChainData& data, int64_t place, double* state) {
    const int64_t feature = data.block_features[place] < 0 ? ~data.block_features[place] : data.block_features[place];
    double* row = state + feature * data.n_labels;
    const int64_t most = data.n_labels < 64 ? data.n_labels : 64;
    for (int64_t j = 0; j < most; j += 8) __builtin_prefetch(row + j, 1);
    __builtin_prefetch(row + most - 1, 1);
}

// One piece of the cold features of a block.
void block_gradient(const ChainData& data, const double* residuals, bool squares, int64_t block, int64_t piece,
                    double* state) {
    const int64_t end = data.block_ptr[block + 1], entries = data.feature_ptr[end], padded = data.padded;
    const int64_t first = data.block_ptr[block] + piece * chain_piece;
    const int64_t last = first + chain_piece < end ? first + chain_piece : end;
    int64_t fetched = data.feature_ptr[first];
    for (int64_t place = first; place < last; ++place) {
        // Rows of the next entries, whichever features they belong to.
        for (; fetched < data.feature_ptr[place] + 12 && fetched < entries; ++fetched) {
            const double* row = residuals + data.feature_tokens[fetched] * padded;
            for (int64_t j = 0; j < padded && j < 64; j += 8) __builtin_prefetch(row + j);
        }
        if (!data.pair_ptr && place + rows_ahead < end) fetch_row(data, place + rows_ahead, state);
        if (data.block_features[place] < 0)
            gather_gradient<false>(data, residuals, squares, place, state);
        else
            gather_gradient<true>(data, residuals, squares, place, state);
    }
}

// The hot features: their sums over chunks, in order. Features that no token has get 0.
void hot_gradient(const ChainData& data, const ChainScratch& scratch, double* state, int n_threads) {
    const int64_t padded = data.padded;
    for (int64_t k = 0; k < data.n_unused; ++k) {
        const int64_t feature = data.unused_features[k], K = data.n_labels;
        const int64_t first = data.pair_ptr ? data.pair_ptr[feature] : feature * K;
        const int64_t last = data.pair_ptr ? data.pair_ptr[feature + 1] : first + K;
        for (int64_t place = first; place < last; ++place) state[place] = 0.0;
    }
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
void add_state_score(const ChainData& data, const double* residuals, int64_t sequence, double* state) {
    const int64_t K = data.n_labels;
    for (int64_t token = data.offsets[sequence]; token < data.offsets[sequence + 1]; ++token) {
        const double* residual = residuals + token * data.padded;
        auto add_row = [&](int64_t feature, double value) {
            double* row = state + feature * K;
            for (int64_t j = 0; j < K; ++j) row[j] += value * residual[j];
        };
        for (int64_t q = data.hot_ptr[token]; q < data.hot_ptr[token + 1]; ++q) {
            const int64_t feature = data.hot_features[data.hot_rows[q]];
            const double value = data.hot_values ? data.hot_values[q] : 1.0;
            if (data.pair_ptr) {
                for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair)
                    state[pair] += value * residual[data.pair_labels[pair]];
            } else {
                add_row(feature, value);
            }
        }
        for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
            const double value = data.cold_values ? data.cold_values[q] : 1.0;
            if (data.pair_ptr)
                state[data.cold_places[q]] += value * residual[data.cold_labels[q]];
            else
                add_row(data.cold_places[q], value);
        }
    }
}

// The score of one sequence from its residuals and its sums of edges; those of label-pair features are in place.
void put_score_together(const ChainData& data, const Chain& chain, const double* residuals, int64_t sequence,
                        const ChainPlaces& places, double* edges, double* score) {
    const int64_t first = data.offsets[sequence], last = data.offsets[sequence + 1], K = data.n_labels;
    if (first == last) return;
    add_state_score(data, residuals, sequence, score);
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

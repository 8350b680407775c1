// What every pass over the sequences starts with: the exponentiated transitions, and a worker in a thread's memory.
#pragma once

#include "chain_worker.hpp"
#include "team.hpp"

namespace ff::FF_ISA {
namespace {

// `both`: rows and columns of M are used, not its products alone.
inline Chain prepare(const ChainData& data, const ChainWeights& weights, const ChainWeights* direction, bool both,
                     const ChainScratch& scratch) {
    const int64_t padded = data.padded, square = padded * padded, K = data.n_labels;
    Chain chain{};
    double* matrices = scratch.matrices;
    double top = weights.transitions[0];
    for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < K; ++j) {
            const double a = weights.transitions[i * padded + j];
            top = a > top ? a : top;
        }
    for (int64_t k = 0; k < (direction ? 4 : both ? 2 : 1) * square; ++k) matrices[k] = 0.0;
    for (int64_t i = 0; i < K; ++i) {
        double* row = matrices + i * padded;
        const double* from = weights.transitions + i * padded;
        for (int64_t j = 0; j < K; ++j) row[j] = fast_exp(from[j] - top);
    }
    for (int64_t i = 0; both && i < K; ++i)
        for (int64_t j = 0; j < K; ++j) {
            const double m = matrices[i * padded + j];
            matrices[square + j * padded + i] = m;
            if (direction) {
                const double d = m * direction->transitions[i * padded + j];
                matrices[2 * square + i * padded + j] = d;
                matrices[3 * square + j * padded + i] = d;
            }
        }
    chain.n_labels = K;
    chain.padded = padded;
    chain.transitions = weights.transitions;
    chain.tangent_transitions = direction ? direction->transitions : nullptr;
    chain.forward = matrices;
    chain.backward = matrices + square;
    pack_panels(chain.forward, K, padded, matrices + 4 * square);
    pack_columns(chain.forward, K, padded, matrices + 5 * square);
    chain.forward_panels = matrices + 4 * square;
    chain.backward_panels = matrices + 5 * square;
    chain.forward_tangent = matrices + 2 * square;
    chain.backward_tangent = matrices + 3 * square;
    chain.top = top;
    chain.tangent = direction != nullptr;
    return chain;
}

// How many of the four sums of edges (outer, by_row, by_column, outer_tangent) are used: whole sequences with known
// labels have no label behind them, and only derivatives need the last. Memory that nobody touches costs nothing.
inline int64_t edge_parts(const ChainData& data, bool derivatives, const ChainFamily* families, int64_t n_families) {
    if (derivatives) return 4;
    for (int64_t f = 0; f < n_families; ++f)
        if (families[f].width != 0) return 3;
    return data.partial ? 3 : 2;
}

inline int64_t widest(const ChainData& data, const ChainFamily* families, int64_t n_families) {
    int64_t width = 1;
    for (int64_t f = 0; f < n_families; ++f) width = families[f].width > width ? families[f].width : width;
    if (width > data.max_tokens) width = data.max_tokens > 0 ? data.max_tokens : 1;
    return width;
}

// A worker in the memory of this thread; its sums of edges go to `edges` (4 x padded x padded), those of label-pair
// features to `columns`.
inline Worker worker_at(const Batch& shared, int64_t width, double* edges, double* columns) {
    const ChainData& data = shared.data;
    const int64_t padded = data.padded, square = padded * padded;
    Worker worker{shared};
    double* own = shared.scratch.threads + thread_number() * shared.scratch.thread_size;
    cut(data, width, shared.direction != nullptr, own, &worker.room);
    fill_last_row(data, shared.weights, worker.room.last_row);
    if (shared.direction) fill_last_row(data, *shared.direction, worker.room.last_row + padded);
    worker.columns = columns;
    worker.chain.outer = edges;
    worker.chain.by_row = edges + square;
    worker.chain.by_column = edges + 2 * square;
    worker.chain.outer_tangent = edges + 3 * square;
    return worker;
}

inline void clear(double* numbers, int64_t count) {
    std::memset(numbers, 0, static_cast<size_t>(count) * sizeof(double));
}

}  // namespace
}  // namespace ff::FF_ISA

// One evaluation of a chain model: token scores, recursions, residuals, gradient or the score of each sequence.
#include "chain_blocks.hpp"
#include "chain_gradient.hpp"
#include "chain_prepare.hpp"
#include "team.hpp"

namespace ff::FF_ISA {
namespace {

// All sequences of a chunk; `done` is called for each when it is.
template <class Done>
void run_chunk(const ChainData& data, const Worker& worker, int64_t chunk, Done done) {
    const int64_t last = data.chunk_ptr[chunk + 1];
    for (int64_t q = data.chunk_ptr[chunk]; q < last;) {
        const int64_t end = batch_end(data, q, last);
        worker.run_sequences(data.order + q, end - q);
        for (; q < end; ++q) done(data.order[q]);
    }
}

}  // namespace

int64_t chain_room(const ChainData& data, int64_t max_width, bool tangent) {
    return cut(data, max_width, tangent, nullptr, nullptr);
}

void chain_evaluate(const ChainData& data, const ChainWeights& weights, const ChainWeights* direction,
                    const ChainFamily* families, int64_t n_families, const double* row_weight, bool observed,
                    bool squares, const ChainScratch& scratch, const ChainOutput& out, int n_threads) {
    const int64_t padded = data.padded, square = padded * padded;
    const int64_t parts = edge_parts(data, direction || squares, families, n_families);
    Chain chain = prepare(data, weights, direction, parts > 2, scratch);
    chain.squares = squares;
    fill_hot_table(data, weights, scratch.hot_table);
    fill_column_factors(data, weights, scratch.column_factors);
    if (direction) fill_hot_table(data, *direction, scratch.hot_tangent);
    const int64_t width = widest(data, families, n_families);
    // The sequences of chunk c in a block; their residuals go to `residuals`.
    const auto run = [&](int64_t block, int64_t c, double* residuals) {
        if (out.interruption && out.interruption->asked()) return;
        ChainOutput part = out;
        part.residuals = residuals;
        const Batch shared{data,
                           weights,
                           direction,
                           families,
                           n_families,
                           row_weight,
                           scratch,
                           part,
                           chain,
                           {},
                           nullptr,
                           observed,
                           observed && data.partial};
        if (!residuals) {
            const Worker worker = worker_at(shared, width, scratch.edges, scratch.column_gradient);
            run_chunk(data, worker, block * data.n_chunks + c, [](int64_t) {});
            return;
        }
        double* edges = scratch.edges + c * 4 * square;
        double* hot = scratch.hot_gradient + c * data.n_hot * padded;
        double* ends = scratch.ends + c * 2 * padded;
        double* columns = scratch.column_gradient + c * data.n_columns;
        if (block == 0) {
            clear(edges, parts * square);
            clear(hot, data.n_hot * padded);
            clear(ends, 2 * padded);
            clear(columns, data.n_columns);
        }
        const Worker worker = worker_at(shared, width, edges, columns);
        run_chunk(data, worker, block * data.n_chunks + c, [&](int64_t sequence) {
            scatter_sequence(data, scratch, residuals, squares, sequence, hot, ends, ends + padded);
        });
    };
    if (!out.residuals && !out.state) {  // values only: no block waits for another
        for_each_task(data.n_blocks * data.n_chunks, n_threads,
                      [&](int64_t k) { run(k / data.n_chunks, k % data.n_chunks, nullptr); });
        return;
    }
    if (!out.state) {
        for_each_task(data.n_chunks, n_threads, [&](int64_t c) {
            for (int64_t block = 0; block < data.n_blocks; ++block) run(block, c, out.residuals);
        });
    } else {
        sum_in_blocks(data, scratch, out.residuals, n_threads, run,
                      [&](int64_t block, int64_t number, double* residuals) {
                          const FeatureRange range = feature_range(data, number, scratch.ranges);
                          if (block == 0) clear(out.state + range.first, range.last - range.first);
                          block_gradient(data, scratch, residuals, squares, block, range, out.state);
                      });
        hot_gradient(data, scratch, out.state, n_threads);
    }
    reduce_chunks(data, chain, parts, scratch, out);
}

void chain_state_gradient(const ChainData& data, const double* residuals, bool squares, const ChainScratch& scratch,
                          double* state, double* start, double* end, int n_threads) {
    const int64_t padded = data.padded;
    for_each_task(data.n_chunks, n_threads, [&](int64_t c) {
        double* hot = scratch.hot_gradient + c * data.n_hot * padded;
        double* ends = scratch.ends + c * 2 * padded;
        clear(hot, data.n_hot * padded);
        clear(ends, 2 * padded);
        for (int64_t block = 0; block < data.n_blocks; ++block) {
            const int64_t chunk = block * data.n_chunks + c;
            for (int64_t q = data.chunk_ptr[chunk]; q < data.chunk_ptr[chunk + 1]; ++q)
                scatter_sequence(data, scratch, residuals, squares, data.order[q], hot, ends, ends + padded);
        }
    });
    for_each_task(n_threads, n_threads, [&](int64_t number) {
        const FeatureRange range = feature_range(data, number, n_threads);
        clear(state + range.first, range.last - range.first);
        for (int64_t block = 0; block < data.n_blocks; ++block)
            block_gradient(data, scratch, residuals, squares, block, range, state);
    });
    hot_gradient(data, scratch, state, n_threads);
    for (int64_t j = 0; j < padded; ++j) start[j] = end[j] = 0.0;
    for (int64_t c = 0; c < data.n_chunks; ++c)
        for (int64_t j = 0; j < padded; ++j) {
            start[j] += scratch.ends[c * 2 * padded + j];
            end[j] += scratch.ends[(c * 2 + 1) * padded + j];
        }
}

void chain_sequence_scores(const ChainData& data, const ChainWeights& weights, const ChainFamily* families,
                           int64_t n_families, int64_t first, int64_t last, const ChainPlaces& places,
                           const ChainScratch& scratch, const ChainOutput& out, double* scores, int n_threads) {
    const int64_t square = data.padded * data.padded, r = places.n_parameters;
    const Chain chain = prepare(data, weights, nullptr, true, scratch);
    fill_hot_table(data, weights, scratch.hot_table);
    fill_column_factors(data, weights, scratch.column_factors);
    const int64_t width = widest(data, families, n_families);
    const auto score = [&](int64_t sequence) {
        for (int64_t f = 0; f < n_families; ++f) {
            double* edges = scratch.edges + thread_number() * 4 * square;
            double* row = scores + ((sequence - first) * n_families + f) * r;
            clear(edges, 4 * square);
            clear(row, r);
            ChainFamily family = families[f];
            family.beta = 1.0;
            ChainOutput own = out;
            own.residuals =
                scratch.residuals + (thread_number() * data.max_tokens - data.offsets[sequence]) * data.padded;
            const Batch shared{data, weights, nullptr, &family, 1,    nullptr,     scratch,
                               own,  chain,   {},      nullptr, true, data.partial};
            const Worker worker = worker_at(shared, width, edges, row + r - data.n_columns);
            worker.run_sequences(&sequence, 1);
            put_score_together(data, scratch, worker.chain, own.residuals, sequence, places, edges, row);
        }
    };
    for_each_task(last - first, n_threads, [&](int64_t k) { score(first + k); }, 4);
}

void chain_token_scores(const ChainData& data, const ChainWeights& weights, const ChainScratch& scratch, double* scores,
                        int n_threads) {
    const int64_t padded = data.padded;
    fill_hot_table(data, weights, scratch.hot_table);
    double* last_row = scratch.hot_table + data.n_hot * padded;
    fill_last_row(data, weights, last_row);
    const auto score = [&](int64_t i) {
        const int64_t first = data.offsets[i], last = data.offsets[i + 1];
        score_tokens(listed(data, first, last, lists_of_thread(scratch)), weights, scratch.hot_table, last_row, first,
                     last, scores + first * padded);
    };
    for_each_task(data.n_sequences, n_threads, score, 64);
}

}  // namespace ff::FF_ISA

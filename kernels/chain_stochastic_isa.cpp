// Stochastic gradient steps: score, recursions and residuals of a batch, then the weights that it uses.
#include "chain_gradient.hpp"
#include "chain_prepare.hpp"
#include "chain_stochastic.hpp"

namespace ff::FF_ISA {
namespace {

// row <- (row + scale * residual) * shrink over C vectors; `allowed` (0 or 1) keeps labels without a weight at 0.
template <int C>
FF_INLINE void step_row(double* row, const double* residual, const double* allowed, double scale, double shrink) {
    const v4 by = splat(scale), less = splat(shrink);
    for (int c = 0; c < C; ++c) {
        v4 change = by * load(residual + 4 * c);
        if (allowed) change *= load(allowed + 4 * c);
        store(row + 4 * c, (load(row + 4 * c) + change) * less);
    }
}

struct Stepper {
    const ChainData& data;
    const ChainMoving& moving;
    const ChainPass& pass;
    double* hot_table;
    double rate;

    double shrink(double share) const { return 1.0 / (1.0 + rate * pass.precision * share); }

    double hot_share(int64_t row) const {
        const int64_t feature = data.hot_features[row];
        return pass.shares[data.pair_ptr ? data.pair_ptr[feature] : feature];
    }

    void step_hot(int64_t token, const double* residual) const {
        const int64_t padded = data.padded;
        for (int64_t q = data.hot_ptr[token]; q < data.hot_ptr[token + 1]; ++q) {
            const int64_t h = data.hot_rows[q];
            const double scale = data.hot_values ? rate * data.hot_values[q] : rate;
            // A feature without a label has no weights, and no share.
            if (data.pair_ptr && data.pair_ptr[data.hot_features[h]] == data.pair_ptr[data.hot_features[h] + 1])
                continue;
            const double less = shrink(hot_share(h));
            const double* allowed = pass.hot_allowed ? pass.hot_allowed + h * padded : nullptr;
            in_blocks(padded / 4, [&](auto size, int64_t block) FF_ALWAYS {
                step_row<decltype(size)::value>(hot_table + h * padded + 4 * block, residual + 4 * block,
                                                allowed ? allowed + 4 * block : nullptr, scale, less);
            });
        }
    }

    void step_cold(int64_t token, const double* residual) const {
        const int64_t K = data.n_labels, whole = K / 4;
        for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
            const int64_t place = data.cold_places[q];
            const double scale = data.cold_values ? rate * data.cold_values[q] : rate;
            if (data.cold_labels) {
                double& weight = moving.state[place];
                weight = (weight + scale * residual[data.cold_labels[q]]) * shrink(pass.shares[place]);
                continue;
            }
            if (data.pair_ptr) {
                for (int64_t pair = data.pair_ptr[place]; pair < data.pair_ptr[place + 1]; ++pair)
                    moving.state[pair] =
                        (moving.state[pair] + scale * residual[data.pair_labels[pair]]) * shrink(pass.shares[pair]);
                continue;
            }
            const double less = shrink(pass.shares[place]);
            double* row = moving.state + place * K;
            in_blocks(whole, [&](auto size, int64_t block) FF_ALWAYS {
                step_row<decltype(size)::value>(row + 4 * block, residual + 4 * block, nullptr, scale, less);
            });
            for (int64_t j = 4 * whole; j < K; ++j) row[j] = (row[j] + scale * residual[j]) * less;
        }
    }

    // Transitions and the weights of first and last labels; `edges` is the gradient of transitions.
    void step_shared(const double* edges, const double* first, const double* last) const {
        const int64_t padded = data.padded, K = data.n_labels;
        const double less = shrink(pass.batch_share);
        for (int64_t i = 0; i < K; ++i)
            for (int64_t j = 0; j < K; ++j) {
                const int64_t k = i * padded + j;
                if (pass.allowed[k]) moving.transitions[k] = (moving.transitions[k] + rate * edges[k]) * less;
            }
        for (int64_t j = 0; j < K; ++j) {
            if (pass.start_weights) moving.start[j] = (moving.start[j] + rate * first[j]) * less;
            if (pass.end_weights) moving.end[j] = (moving.end[j] + rate * last[j]) * less;
        }
    }
};

// The hot rows back to where θ has them.
void keep_hot_table(const ChainData& data, const double* table, double* state) {
    for (int64_t h = 0; h < data.n_hot; ++h) {
        const int64_t feature = data.hot_features[h];
        const double* row = table + h * data.padded;
        if (data.pair_ptr) {
            for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair)
                state[pair] = row[data.pair_labels[pair]];
        } else {
            for (int64_t j = 0; j < data.n_labels; ++j) state[feature * data.n_labels + j] = row[j];
        }
    }
}

}  // namespace

void chain_stochastic_pass(const ChainData& data, const ChainMoving& moving, int64_t n_state,
                           const ChainFamily* families, int64_t n_families, const double* row_weight,
                           const ChainPass& pass, const ChainScratch& scratch, double* values) {
    const int64_t padded = data.padded, square = padded * padded;
    const ChainWeights weights{moving.state, n_state, moving.transitions, moving.base, moving.start,
                               moving.end,   nullptr};
    fill_hot_table(data, weights, scratch.hot_table);
    const int64_t width = widest(data, families, n_families);
    ChainOutput out{};
    out.values = values;
    for (int64_t b = 0; b < pass.n_batches; ++b) {
        const int64_t* sequences = data.order + pass.batches[b];
        const int64_t count = pass.ends[b] - pass.batches[b];
        int64_t first = data.n_tokens;
        for (int64_t i = 0; i < count; ++i)
            first = data.offsets[sequences[i]] < first ? data.offsets[sequences[i]] : first;
        out.residuals = scratch.residuals - first * padded;
        const int64_t parts = edge_parts(data, false, families, n_families);
        const Chain chain = prepare(data, weights, nullptr, parts > 2, scratch);
        clear(scratch.edges, parts * square);
        clear(scratch.ends, 2 * padded);
        const Batch shared{data, weights, nullptr, families, n_families, row_weight,  scratch,
                           out,  chain,   {},      nullptr,  true,       data.partial};
        const Worker worker = worker_at(shared, width, scratch.edges, nullptr);
        worker.run_sequences(sequences, count);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t begin = data.offsets[sequences[i]], end = data.offsets[sequences[i] + 1];
            if (begin == end) continue;
            const ChainData own = listed(data, begin, end, lists_of_thread(scratch));
            const Stepper stepper{own, moving, pass, scratch.hot_table, pass.rates[b]};
            for (int64_t token = begin; token < end; ++token) {
                const double* residual = out.residuals + token * padded;
                stepper.step_hot(token, residual);
                stepper.step_cold(token, residual);
            }
            for (int64_t j = 0; j < padded; ++j) {
                scratch.ends[j] += out.residuals[begin * padded + j];
                scratch.ends[padded + j] += out.residuals[(end - 1) * padded + j];
            }
        }
        put_edges_together(data, worker.chain, parts, scratch.edges, scratch.edges);
        const Stepper stepper{data, moving, pass, scratch.hot_table, pass.rates[b]};
        stepper.step_shared(scratch.edges, scratch.ends, scratch.ends + padded);
    }
    keep_hot_table(data, scratch.hot_table, moving.state);
}

}  // namespace ff::FF_ISA

// The sequences of one chunk, four at a time: the whole sequence, its windows, its runs of unknown labels.
#pragma once

#include "chain_batch.hpp"
#include "chain_gradient.hpp"
#include "chain_token_scores.hpp"

namespace ff::FF_ISA {
namespace {

struct Worker : Batch {
    // The weight of the segment that is the whole sequence: FL, and windows that are not shorter.
    double whole_weight(int64_t sequence, int64_t length) const {
        double total = 0.0;
        for (int64_t f = 0; f < n_families; ++f) {
            const ChainFamily& family = families[f];
            if (family.width != 0 && family.width < length) continue;
            if (family.rows && !family.rows[sequence]) continue;
            if (family.indptr && family.indptr[sequence] == family.indptr[sequence + 1]) continue;
            total += family.beta;
        }
        return row_weight ? total * row_weight[sequence] : total;
    }
    // Whether a window, which is not the whole sequence, has a likelihood: with the labels beside it known, and a label
    // inside to speak of.
    bool counts(const int32_t* labels, int64_t length, int64_t t, int64_t width) const {
        if (!partial) return true;
        if ((t > 0 && labels[t - 1] < 0) || (t + width < length && labels[t + width] < 0)) return false;
        return any_known(labels + t, width);
    }

    static bool any_known(const int32_t* labels, int64_t n) {
        for (int64_t p = 0; p < n; ++p)
            if (labels[p] >= 0) return true;
        return n == 0;
    }

    // The weight of a segment, to the runs of unknown labels in it (each by its first token).
    void weigh_runs(const int32_t* labels, int64_t n, double weight, double* run_weights) const {
        for (int64_t p = 0; p < n; ++p)
            if (labels[p] < 0 && (p == 0 || labels[p - 1] >= 0)) run_weights[p] += weight;
    }

    // Sums over the unknown labels of these sequences, given the known ones: segments of negative weight.
    void run_unknown(const int64_t* sequences, int64_t count, const int64_t* local) const {
        Segment segments[chain_batch];
        int64_t owners[chain_batch], positions[chain_batch], n = 0;
        auto flush = [&] {
            if (n == 0) return;
            run_batch(segments, n, owners, positions);
            if (out.residuals && !data.edge_ptr) sum_edges(segments, n, 0);
            n = 0;
        };
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = data.offsets[sequences[b]], length = data.offsets[sequences[b] + 1] - first;
            const int32_t* labels = data.labels + first;
            for (int64_t t = 0; t < length; ++t) {
                if (labels[t] >= 0) continue;
                const int64_t begin = t;
                while (t + 1 < length && labels[t + 1] < 0) ++t;
                const double weight = room.run_weights[local[b] + begin];
                if (weight == 0.0) continue;
                Segment s = segment_at(first, local[b], begin, t + 1 - begin, -weight);
                s.left = begin > 0 ? labels[begin - 1] : -1;
                s.right = t + 1 < length ? labels[t + 1] : -1;
                s.c = room.c + local[b] + b + begin;
                s.observed = false;
                int64_t place = n++;  // longest first
                for (; place > 0 && segments[place - 1].length < s.length; --place) {
                    segments[place] = segments[place - 1];
                    owners[place] = owners[place - 1];
                    positions[place] = positions[place - 1];
                }
                segments[place] = s;
                owners[place] = sequences[b];
                positions[place] = begin;
                if (n == chain_batch) flush();
            }
        }
        flush();
    }

    // Windows of one token: a softmax for each.
    void run_single(const ChainFamily& family, int64_t sequence, int64_t local, double weight) const {
        const int64_t padded = data.padded, first = data.offsets[sequence];
        const int64_t length = data.offsets[sequence + 1] - first;
        const int32_t* labels = data.labels + first;
        const bool listed = family.indptr != nullptr;
        const int64_t begin = listed ? family.indptr[sequence] : 0;
        const int64_t end = listed ? family.indptr[sequence + 1] : length;
        const v4 whole = splat(weight), inverse_weight = splat(1.0 / weight);
        double value = 0.0, product = 1.0;
        for (int64_t q = begin; q < end; ++q) {
            const int64_t t = listed ? family.indices[q] : q;
            if (!counts(labels, length, t, 1)) continue;
            const int32_t left = t > 0 ? labels[t - 1] : -1, right = t + 1 < length ? labels[t + 1] : -1;
            const double* psi = room.psi + (local + t) * padded;
            const double* into = left >= 0 ? chain.forward + left * padded : nullptr;
            const double* from = right >= 0 ? chain.backward + right * padded : nullptr;
            double* p = room.rows;
            v4 total = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) {
                v4 x = load(psi + j);
                if (into) x *= load(into + j);
                if (from) x *= load(from + j);
                store(p + j, x);
                total += x;
            }
            const double c = sum(total);
            Segment s{};
            s.length = 1;
            s.left = left;
            s.right = right;
            s.weight = weight;
            s.scores = room.scores + (local + t) * padded;
            s.labels = labels + t;
            s.residuals = out.residuals ? out.residuals + (first + t) * padded : nullptr;
            s.observed = observed;
            if (!(c > tiny_scale)) {
                run_log(s, sequence, t);
                continue;
            }
            product *= c;
            if (product < 1e-100 || product > 1e100) {
                value -= fast_log(product);
                product = 1.0;
            }
            value -= room.tops[local + t] + chain.top * static_cast<double>((left >= 0) + (right >= 0));
            if (observed) value += path_score(s, s.scores, chain.transitions, 0, padded);
            if (!s.residuals) continue;
            const v4 scale = whole * splat(1.0 / c);
            double* row = left >= 0 ? chain.by_row + left * padded : nullptr;
            double* column = right >= 0 ? chain.by_column + right * padded : nullptr;
            for (int64_t j = 0; j < padded; j += 4) {
                v4 x = load(p + j) * scale;
                if (chain.squares) x *= 1.0 - x * inverse_weight;
                store(s.residuals + j, load(s.residuals + j) - x);
                if (row) store(row + j, load(row + j) - x);
                if (column) store(column + j, load(column + j) - x);
            }
            if (observed && !chain.squares) {
                const int32_t y = labels[t];
                s.residuals[y] += weight;
                if (row) row[y] += weight;
                if (column) column[y] += weight;
            }
        }
        out.values[sequence] += weight * (value - fast_log(product));
    }

    void run_windows(const ChainFamily& family, int64_t sequence, int64_t local, double weight) const {
        const int64_t padded = data.padded, first = data.offsets[sequence], width = family.width;
        const int64_t length = data.offsets[sequence + 1] - first;
        const int32_t* labels = data.labels + first;
        const bool listed = family.indptr != nullptr;
        const int64_t begin = listed ? family.indptr[sequence] : 0;
        const int64_t end = listed ? family.indptr[sequence + 1] : length - width + 1;
        Segment segments[chain_windows];
        int64_t positions[chain_windows], sequences[chain_batch];
        for (int64_t b = 0; b < chain_batch; ++b) sequences[b] = sequence;
        for (int64_t q = begin; q < end;) {
            int64_t count = 0;
            for (; q < end && count < chain_windows; ++q) {
                const int64_t t = listed ? family.indices[q] : q;
                if (!counts(labels, length, t, width)) continue;
                positions[count++] = t;
                if (partial) weigh_runs(labels + t, width, weight, room.run_weights + local + t);
            }
            for (int64_t b = 0; b < count; ++b) {
                const int64_t t = positions[b];
                Segment& s = segments[b];
                s.length = width;
                s.left = t > 0 ? labels[t - 1] : -1;
                s.right = t + width < length ? labels[t + width] : -1;
                s.weight = weight;
                s.scores = room.scores + (local + t) * padded;
                s.tangent_scores = room.tangent_scores + (local + t) * padded;
                s.psi = room.psi + (local + t) * padded;
                s.tops = room.tops + local + t;
                s.labels = labels + t;
                s.residuals = out.residuals ? out.residuals + (first + t) * padded : nullptr;
                s.stride = count * padded;
                s.alpha = room.window_alpha + b * padded;
                s.g = room.window_g + b * padded;
                s.nodes = room.window_nodes + b * padded;
                s.alpha_tangent = room.window_alpha_tangent + b * padded;
                s.g_tangent = room.window_g_tangent + b * padded;
                s.c = room.window_c + b;
                s.c_stride = count;
                s.fresh = false;
                s.observed = observed;
            }
            for (int64_t b = 0; b < count; b += chain_batch)
                run_batch(segments + b, count - b < chain_batch ? count - b : chain_batch, sequences, positions + b);
            if (out.residuals && !data.edge_ptr && count > 0) sum_edges(segments, count, count);
        }
    }

    // Scores of the edges into each token of a sequence that has label-pair features.
    void fill_edges(int64_t sequence, const ChainWeights& from, double* edges) const {
        const int64_t first = data.offsets[sequence], length = data.offsets[sequence + 1] - first;
        const int64_t square = data.padded * data.padded;
        for (int64_t t = 0; t < length; ++t) {
            double* edge = edges + t * square;
            std::memcpy(edge, from.transitions, static_cast<size_t>(square) * sizeof(double));
            for (int64_t q = data.edge_ptr[first + t]; q < data.edge_ptr[first + t + 1]; ++q) {
                const int64_t feature = data.edge_features[q];
                const double value = data.edge_values ? data.edge_values[q] : 1.0;
                for (int64_t k = data.column_ptr[feature]; k < data.column_ptr[feature + 1]; ++k)
                    edge[data.columns[k]] += value * from.columns[k];
            }
        }
    }

    // Windows of one token take a row and a column of scores: log space is cheaper for them.
    bool takes_matrices() const {
        bool wide = false;
        for (int64_t f = 0; f < n_families; ++f) wide = wide || families[f].width != 1;
        return wide && !chain.tangent && !chain.squares;
    }

    // exp(A_t - max A) of the edges into each token: the shared matrix but for the label pairs that have features
    // there.
    void fill_matrices(int64_t sequence) const {
        const int64_t first = data.offsets[sequence], length = data.offsets[sequence + 1] - first;
        const int64_t square = data.padded * data.padded;
        for (int64_t t = 1; t < length; ++t) {
            double* matrix = room.edge_matrices + t * square;
            const double* score = room.edge_scores + t * square;
            std::memcpy(matrix, chain.forward, static_cast<size_t>(square) * sizeof(double));
            for (int64_t q = data.edge_ptr[first + t]; q < data.edge_ptr[first + t + 1]; ++q) {
                const int64_t feature = data.edge_features[q];
                if (!data.edge_values) {
                    for (int64_t k = data.column_ptr[feature]; k < data.column_ptr[feature + 1]; ++k)
                        matrix[data.columns[k]] *= scratch.column_factors[k];
                    continue;
                }
                for (int64_t k = data.column_ptr[feature]; k < data.column_ptr[feature + 1]; ++k) {
                    const double exponent = score[data.columns[k]] - chain.top;
                    matrix[data.columns[k]] = exponent < largest_exponent ? fast_exp(exponent) : __builtin_nan("");
                }
            }
        }
    }

    void scatter_edges(int64_t sequence) const {
        const int64_t first = data.offsets[sequence], length = data.offsets[sequence + 1] - first;
        const int64_t square = data.padded * data.padded;
        for (int64_t t = 1; t < length; ++t) {
            const double* edge = room.edge_out + t * square;
            for (int64_t k = 0; k < square; ++k) chain.by_row[k] += edge[k];
            for (int64_t q = data.edge_ptr[first + t]; q < data.edge_ptr[first + t + 1]; ++q) {
                const int64_t feature = data.edge_features[q];
                double value = data.edge_values ? data.edge_values[q] : 1.0;
                if (chain.squares) value *= value;
                for (int64_t k = data.column_ptr[feature]; k < data.column_ptr[feature + 1]; ++k)
                    columns[k] += value * edge[data.columns[k]];
            }
        }
    }

    void run_sequences(const int64_t* sequences, int64_t count) const {
        const int64_t padded = data.padded;
        // With label-pair features each sequence has its own edges: one at a time.
        if (data.edge_ptr && count > 1) {
            for (int64_t b = 0; b < count; ++b) run_sequences(sequences + b, 1);
            return;
        }
        int64_t local[chain_batch];
        double whole[chain_batch];
        int64_t tokens = 0;
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = data.offsets[sequences[b]], last = data.offsets[sequences[b] + 1];
            local[b] = tokens;
            out.values[sequences[b]] = 0.0;
            if (chain.tangent) out.tangents[sequences[b]] = 0.0;
            const ChainData own = listed(data, first, last, lists_of_thread(scratch));
            score_tokens(own, weights, scratch.hot_table, room.last_row, first, last, room.scores + tokens * padded);
            if (direction)
                score_tokens(own, *direction, scratch.hot_tangent, room.last_row + padded, first, last,
                             room.tangent_scores + tokens * padded);
            // The whole sequence goes first and writes its residuals; windows add to them.
            whole[b] = whole_weight(sequences[b], last - first);
            if (partial) {
                double* run_weights = room.run_weights + tokens;
                for (int64_t t = 0; t < last - first; ++t) run_weights[t] = 0.0;
                if (!any_known(data.labels + first, last - first)) whole[b] = 0.0;  // log Z - log Z
                weigh_runs(data.labels + first, last - first, whole[b], run_weights);
            }
            if (out.residuals && (whole[b] == 0.0 || chain.tangent || chain.squares || data.edge_ptr))
                clear(out.residuals + first * padded, last - first);
            tokens += last - first;
        }
        exponentiate(room.scores, room.psi, room.tops, tokens, padded);
        if (data.edge_ptr) {
            fill_edges(sequences[0], weights, room.edge_scores);
            if (takes_matrices()) fill_matrices(sequences[0]);
            if (direction) fill_edges(sequences[0], *direction, room.edge_tangent);
            std::memset(room.edge_out, 0, static_cast<size_t>((tokens + 1) * padded * padded) * sizeof(double));
        }
        Segment segments[chain_batch];
        int64_t chosen[chain_batch], positions[chain_batch] = {0, 0, 0, 0}, n_chosen = 0;
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = data.offsets[sequences[b]], length = data.offsets[sequences[b] + 1] - first;
            if (whole[b] == 0.0 || length == 0) continue;
            Segment& s = segments[n_chosen];
            s = segment_at(first, local[b], 0, length, whole[b]);
            s.c = room.c + local[b] + b;
            s.fresh = !chain.tangent && !chain.squares && !data.edge_ptr;
            chosen[n_chosen++] = sequences[b];
        }
        if (n_chosen > 0) {
            run_batch(segments, n_chosen, chosen, positions);
            if (out.residuals && !data.edge_ptr) sum_edges(segments, n_chosen, 0);
        }
        for (int64_t f = 0; f < n_families; ++f) {
            const ChainFamily& family = families[f];
            if (family.width == 0) continue;
            for (int64_t b = 0; b < count; ++b) {
                const int64_t length = data.offsets[sequences[b] + 1] - data.offsets[sequences[b]];
                if (length <= family.width) continue;
                if (family.rows && !family.rows[sequences[b]]) continue;
                const double weight = row_weight ? family.beta * row_weight[sequences[b]] : family.beta;
                if (weight == 0.0) continue;
                if (family.width == 1 && !chain.tangent && !data.edge_ptr)
                    run_single(family, sequences[b], local[b], weight);
                else
                    run_windows(family, sequences[b], local[b], weight);
            }
        }
        if (partial && !chain.squares) run_unknown(sequences, count, local);
        if (out.residuals && data.edge_ptr) scatter_edges(sequences[0]);
    }
};

}  // namespace
}  // namespace ff::FF_ISA

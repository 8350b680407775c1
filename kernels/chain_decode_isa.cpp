#include "chain_decode.hpp"
#include "chain_log_space.hpp"
#include "team.hpp"

namespace ff::FF_ISA {
namespace {

// The label before `label` on the best path, found again from the stored row: the same sums give the same bits.
int32_t best_before(const double* row, const double* edge, int64_t label, int64_t K, int64_t padded) {
    int32_t best = 0;
    double top = row[0] + edge[label];
    for (int64_t i = 1; i < K; ++i) {
        const double x = row[i] + edge[i * padded + label];
        if (x > top) {
            top = x;
            best = static_cast<int32_t>(i);
        }
    }
    return best;
}

}  // namespace

void chain_viterbi(const ChainScores& chain, int64_t max_tokens, double* work, int32_t* labels, double* best,
                   int n_threads) {
    const int64_t K = chain.n_labels, padded = chain.padded;
    for_each_task(
        chain.n_sequences, n_threads,
        [&](int64_t s) {
            double* delta = work + thread_number() * max_tokens * padded;
            const int64_t first = chain.offsets[s], length = chain.offsets[s + 1] - first;
            best[s] = 0.0;
            if (length == 0) return;
            std::memcpy(delta, chain.scores + first * padded, static_cast<size_t>(padded) * sizeof(double));
            for (int64_t t = 1; t < length; ++t) {
                const double* before = delta + (t - 1) * padded;
                const double* edge = chain.edges + (first + t) * chain.edge_stride;
                const double* score = chain.scores + (first + t) * padded;
                double* row = delta + t * padded;
                for (int64_t j = 0; j < padded; j += 16) {
                    const int64_t vectors = (padded - j) / 4 < 4 ? (padded - j) / 4 : 4;
                    v4 top[4];
                    for (int64_t c = 0; c < vectors; ++c) top[c] = splat(-__builtin_inf());
                    for (int64_t i = 0; i < K; ++i) {
                        const v4 x = splat(before[i]);
                        const double* from = edge + i * padded + j;
                        for (int64_t c = 0; c < vectors; ++c) top[c] = larger(x + load(from + 4 * c), top[c]);
                    }
                    for (int64_t c = 0; c < vectors; ++c) store(row + j + 4 * c, top[c] + load(score + j + 4 * c));
                }
            }
            const double* last = delta + (length - 1) * padded;
            int32_t label = 0;
            for (int64_t j = 1; j < K; ++j)
                if (last[j] > last[label]) label = static_cast<int32_t>(j);
            best[s] = last[label];
            labels[first + length - 1] = label;
            for (int64_t t = length - 1; t > 0; --t) {
                label = best_before(delta + (t - 1) * padded, chain.edges + (first + t) * chain.edge_stride, label, K,
                                    padded);
                labels[first + t - 1] = label;
            }
        },
        32);
}

void chain_n_best(const ChainScores& chain, int64_t max_tokens, int64_t count, double* work, int32_t* back,
                  int32_t* labels, double* best, int n_threads) {
    const int64_t K = chain.n_labels, padded = chain.padded, n_tokens = chain.offsets[chain.n_sequences];
    for_each_task(
        chain.n_sequences, n_threads,
        [&](int64_t s) {
            const int64_t block = max_tokens * padded * count;
            double* delta = work + thread_number() * block;
            int32_t* from = back + thread_number() * block;
            const int64_t first = chain.offsets[s], length = chain.offsets[s + 1] - first;
            double* top = best + s * count;
            for (int64_t r = 0; r < count; ++r) top[r] = -__builtin_inf();
            if (length == 0) {
                top[0] = 0.0;  // the empty path
                return;
            }
            // List of label j at t: delta[(t, j, rank)], best first; `from` is (label before) * count + its rank.
            for (int64_t j = 0; j < K; ++j)
                for (int64_t r = 0; r < count; ++r)
                    delta[j * count + r] = r == 0 ? chain.scores[first * padded + j] : -__builtin_inf();
            for (int64_t t = 1; t < length; ++t) {
                const double* edge = chain.edges + (first + t) * chain.edge_stride;
                for (int64_t j = 0; j < K; ++j) {
                    double* list = delta + (t * padded + j) * count;
                    int32_t* source = from + (t * padded + j) * count;
                    for (int64_t r = 0; r < count; ++r) {
                        list[r] = -__builtin_inf();
                        source[r] = 0;
                    }
                    for (int64_t i = 0; i < K; ++i) {
                        const double* before = delta + ((t - 1) * padded + i) * count;
                        const double step = edge[i * padded + j] + chain.scores[(first + t) * padded + j];
                        for (int64_t r = 0; r < count; ++r) {
                            const double x = before[r] + step;
                            if (!(x > list[count - 1])) break;
                            int64_t place = count - 1;
                            for (; place > 0 && x > list[place - 1]; --place) {
                                list[place] = list[place - 1];
                                source[place] = source[place - 1];
                            }
                            list[place] = x;
                            source[place] = static_cast<int32_t>(i * count + r);
                        }
                    }
                }
            }
            // The ends of the best paths, then each of them backwards.
            const double* last = delta + (length - 1) * padded * count;
            int32_t* end = labels;  // rank r of sequence s ends in labels[r, last token] while the list is built
            for (int64_t j = 0; j < K; ++j)
                for (int64_t r = 0; r < count; ++r) {
                    const double x = last[j * count + r];
                    if (!(x > top[count - 1])) break;
                    int64_t place = count - 1;
                    for (; place > 0 && x > top[place - 1]; --place) {
                        top[place] = top[place - 1];
                        end[place * n_tokens + first + length - 1] = end[(place - 1) * n_tokens + first + length - 1];
                    }
                    top[place] = x;
                    end[place * n_tokens + first + length - 1] = static_cast<int32_t>(j * count + r);
                }
            for (int64_t r = 0; r < count; ++r) {
                int32_t* path = labels + r * n_tokens + first;
                if (!(top[r] > -__builtin_inf())) {
                    for (int64_t t = 0; t < length; ++t) path[t] = -1;
                    continue;
                }
                int32_t state = path[length - 1];
                for (int64_t t = length - 1; t >= 0; --t) {
                    path[t] = static_cast<int32_t>(state / count);
                    if (t > 0) state = from[(t * padded + state / count) * count + state % count];
                }
            }
        },
        8);
}

void chain_marginals(const ChainScores& chain, int64_t max_tokens, double* work, double* nodes, double* edges,
                     double* log_z, int n_threads) {
    const int64_t padded = chain.padded, square = padded * padded;
    const int64_t room = (4 * max_tokens + 4) * padded + square;
    for_each_task(
        chain.n_sequences, n_threads,
        [&](int64_t s) {
            const int64_t first = chain.offsets[s], length = chain.offsets[s + 1] - first;
            log_z[s] = 0.0;
            if (length == 0) return;
            double* own = work + thread_number() * room;
            Chain shared{};
            shared.n_labels = chain.n_labels;
            shared.padded = padded;
            Segment segment{};
            segment.length = length;
            segment.left = segment.right = -1;
            segment.weight = -1.0;
            segment.scores = chain.scores + first * padded;
            segment.residuals = nodes + first * padded;
            std::memset(segment.residuals, 0, static_cast<size_t>(length * padded) * sizeof(double));
            // Where nobody asks for edges they are added up in a corner of the scratch.
            double* out = edges ? edges + first * square : own + (4 * max_tokens + 4) * padded;
            std::memset(out, 0, static_cast<size_t>(edges ? length * square : square) * sizeof(double));
            const Edges into{chain.edges + first * chain.edge_stride, nullptr, chain.edge_stride, out,
                             edges ? square : 0};
            log_segment(shared, segment, into, own);
            log_z[s] = segment.log_z;
        },
        8);
}

}  // namespace ff::FF_ISA

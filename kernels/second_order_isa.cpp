// Values, residuals and sums of arcs of second-order chains, chunk by chunk.
#include "chain_token_scores.hpp"
#include "second_order.hpp"
#include "second_order_lanes.hpp"
#include "second_order_pairs.hpp"
#include "team.hpp"

namespace ff::FF_ISA {
namespace {

// The memory of one thread.
struct TripleRoom {
    double *psi, *tops;  // of the sequences in step
    LaneRoom lanes;
    SegmentRoom segment;
    PairRoom pair;
};

// Lays out the memory of a thread and returns its size in doubles; `own` null: only the size.
int64_t cut_triples(const TripleArcs& arcs, const TripleChains& chains, double* own, TripleRoom* room) {
    const int64_t tokens = chains.max_tokens, S = arcs.n_states, padded = chains.padded;
    const int64_t size = chains.tangent_scores ? 8 : 4;
    int64_t used = 0;
    const auto take = [&](int64_t count) {
        double* at = own ? own + used : nullptr;
        used += (count + 7) / 8 * 8;
        return at;
    };
    TripleRoom cut{};
    cut.psi = take(chain_batch * tokens * padded);
    cut.tops = take(chain_batch * tokens);
    // A segment is not at work at the same time as lanes, and needs no more than they do.
    cut.lanes.alpha = take((tokens + 3) * S * size);
    cut.lanes.g = take((tokens + 3) * S * size);
    cut.lanes.psi = take(tokens * arcs.n_labels * size);
    cut.lanes.inverse = take((tokens + 3) * size);
    cut.lanes.nodes = take(tokens * arcs.n_labels * size);
    cut.lanes.sums = take(arcs.n_arcs * size);
    cut.segment.alpha = cut.lanes.alpha;
    cut.segment.g = cut.lanes.g;
    cut.segment.scales = cut.lanes.inverse;
    cut.segment.by_label = take(2 * padded);
    cut.pair.values = cut.lanes.alpha;
    cut.pair.ends = take(2 * padded);
    cut.pair.end_sums = take(padded);
    if (room) *room = cut;
    return used;
}

struct TripleWorker {
    const WeightedArcs& arcs;
    const TripleChains& chains;
    const TripleOutput& out;
    double* arc_sums;
    TripleRoom room;

    const int32_t* labels_of(int64_t sequence) const { return chains.labels + chains.offsets[sequence]; }

    static bool any_known(const int32_t* labels, int64_t n) {
        for (int64_t p = 0; p < n; ++p)
            if (labels[p] >= 0) return true;
        return false;
    }
    static bool all_known(const int32_t* labels, int64_t n) {
        for (int64_t p = 0; p < n; ++p)
            if (labels[p] < 0) return false;
        return true;
    }

    double whole_weight(int64_t sequence, int64_t length) const {
        double total = 0.0;
        for (int64_t f = 0; f < chains.n_families; ++f) {
            const ChainFamily& family = chains.families[f];
            if (family.width != 0 && family.width < length) continue;
            if (family.rows && !family.rows[sequence]) continue;
            if (family.indptr && family.indptr[sequence] == family.indptr[sequence + 1]) continue;
            total += family.beta;
        }
        return chains.row_weight ? total * chains.row_weight[sequence] : total;
    }

    TripleSegment segment_at(int64_t sequence, int64_t local, int64_t t, int64_t width, double weight) const {
        const int64_t first = chains.offsets[sequence], length = chains.offsets[sequence + 1] - first;
        const int64_t padded = chains.padded, K = arcs.n_labels, behind = length - t - width;
        TripleSegment s{};
        s.free = width;
        s.length = width + (behind < 2 ? behind : 2);
        s.labels = chains.labels ? chains.labels + first + t : nullptr;
        const int64_t a = t > 1 ? s.labels[-2] : K, b = t > 0 ? s.labels[-1] : K;
        s.before = a < 0 || b < 0 ? -1 : arcs.pairs[a * (K + 1) + b];
        s.scores = chains.scores + (first + t) * padded;
        s.psi = room.psi + (local + t) * padded;
        s.tops = room.tops + local + t;
        s.tangent_scores = chains.tangent_scores ? chains.tangent_scores + (first + t) * padded : nullptr;
        s.weight = weight;
        return s;
    }

    template <class N>
    bool run_plain(const TripleSegment& s, const TripleSums& sums, double& log_z, double& slope) {
        return (is_pair(s, sums) && run_pair<N>(arcs, s, chains.padded, room.pair, sums, log_z, slope)) ||
               run_segment<N>(arcs, s, chains.padded, room.segment, sums, log_z, slope);
    }

    // Minus weight times log Z, with what belongs to it.
    void subtract(const TripleSegment& s, int64_t sequence, int64_t t) {
        const int64_t token = chains.offsets[sequence] + t;
        double log_z = -__builtin_inf(), slope = 0.0;
        if (s.before >= 0) {
            const TripleSums sums{out.residuals ? out.residuals + token * chains.padded : nullptr, arc_sums,
                                  out.states ? out.states + token * arcs.n_states : nullptr,
                                  chains.tangent_scores != nullptr, chains.squares};
            const bool good = chains.tangent_scores ? run_plain<DualNumber>(s, sums, log_z, slope)
                                                    : run_plain<PlainNumber>(s, sums, log_z, slope);
            if (!good) run_segment<LogNumber>(arcs, s, chains.padded, room.segment, sums, log_z, slope);
        }
        add_value(sequence, -s.weight, log_z, slope);
    }

    void add_value(int64_t sequence, double weight, double value, double slope) {
        // Forbidden labels: minus infinity whatever else there is.
        out.values[sequence] += value == -__builtin_inf() ? value : weight * value;
        if (out.tangents) out.tangents[sequence] += weight * slope;
    }

    // The score of the labels of a segment, all of them known, and their counts. False: they are forbidden.
    bool add_path(const TripleSegment& s, int64_t sequence, int64_t t) {
        double value = 0.0, slope = 0.0;
        int32_t state = s.before;
        for (int64_t p = 0; p < s.length; ++p) {
            const int32_t y = s.labels[p], arc = state < 0 ? -1 : arcs.next[state * arcs.n_labels + y];
            if (arc < 0) return false;
            value += arcs.weights[arc];
            if (arcs.slopes) slope += arcs.slopes[arc];
            if (p < s.free) {
                value += s.scores[p * chains.padded + y];
                if (s.tangent_scores) slope += s.tangent_scores[p * chains.padded + y];
            }
            state = arcs.to[arc];
        }
        add_value(sequence, s.weight, value, slope);
        if (!out.residuals || chains.tangent_scores || chains.squares) return true;
        double* residuals = out.residuals + (chains.offsets[sequence] + t) * chains.padded;
        state = s.before;
        for (int64_t p = 0; p < s.length; ++p) {
            const int32_t arc = arcs.next[state * arcs.n_labels + s.labels[p]];
            arc_sums[arc] += s.weight;
            if (p < s.free) residuals[p * chains.padded + s.labels[p]] += s.weight;
            state = arcs.to[arc];
        }
        return true;
    }

    // What is known of a segment, plus weight times its log-probability. False: it is forbidden.
    bool add_known(const TripleSegment& s, int64_t sequence, int64_t t) {
        if (all_known(s.labels, s.length)) return add_path(s, sequence, t);
        if (chains.squares && out.residuals) return true;  // what unknown labels take away is left out
        TripleSegment known = s;
        known.fixed = true;
        known.weight = -s.weight;
        const double before = out.values[sequence];
        subtract(known, sequence, t);
        if (out.values[sequence] > -__builtin_inf()) return true;
        out.values[sequence] = before;
        return false;
    }

    void run_windows(const ChainFamily& family, int64_t sequence, int64_t local, double weight) {
        const int64_t length = chains.offsets[sequence + 1] - chains.offsets[sequence], width = family.width;
        const int32_t* labels = labels_of(sequence);
        const bool listed = family.indptr != nullptr;
        const int64_t begin = listed ? family.indptr[sequence] : 0;
        const int64_t end = listed ? family.indptr[sequence + 1] : length - width + 1;
        for (int64_t q = begin; q < end; ++q) {
            const int64_t t = listed ? family.indices[q] : q;
            const TripleSegment s = segment_at(sequence, local, t, width, weight);
            const int64_t left = t < 2 ? t : 2;
            if (!all_known(labels + t - left, left) || !all_known(s.labels + width, s.length - width) ||
                !any_known(s.labels, width))
                continue;
            if (s.before < 0 || !add_known(s, sequence, t)) {
                out.values[sequence] = -__builtin_inf();
                continue;
            }
            subtract(s, sequence, t);
        }
    }

    template <bool TANGENT>
    void run_whole(const int64_t* sequences, const int64_t* local, int64_t count, const double* weights) {
        LaneSequence lanes[chain_batch];
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = chains.offsets[sequences[b]], padded = chains.padded;
            lanes[b] = {chains.offsets[sequences[b] + 1] - first,
                        room.psi + local[b] * padded,
                        room.tops + local[b],
                        TANGENT ? chains.tangent_scores + first * padded : nullptr,
                        weights[b],
                        out.residuals ? out.residuals + first * padded : nullptr,
                        out.states ? out.states + first * arcs.n_states : nullptr,
                        0.0,
                        0.0,
                        true};
        }
        run_lanes<TANGENT>(arcs, lanes, count, chains.padded, room.lanes);
        for (int64_t b = 0; b < count; ++b) {
            if (lanes[b].good) {
                add_value(sequences[b], -weights[b], lanes[b].log_z, lanes[b].slope);
                continue;
            }
            if (out.states) {
                double* rows = out.states + chains.offsets[sequences[b]] * arcs.n_states;
                for (int64_t k = 0; k < lanes[b].length * arcs.n_states; ++k) rows[k] = 0.0;
            }
            subtract(segment_at(sequences[b], local[b], 0, lanes[b].length, weights[b]), sequences[b], 0);
        }
    }

    void run_sequences(const int64_t* sequences, int64_t count) {
        int64_t local[chain_batch], chosen[chain_batch], chosen_local[chain_batch], n_chosen = 0, tokens = 0;
        double weights[chain_batch];
        for (int64_t b = 0; b < count; ++b) {
            const int64_t sequence = sequences[b], first = chains.offsets[sequence];
            const int64_t length = chains.offsets[sequence + 1] - first;
            local[b] = tokens;
            out.values[sequence] = 0.0;
            if (out.tangents) out.tangents[sequence] = 0.0;
            exponentiate(chains.scores + first * chains.padded, room.psi + tokens * chains.padded, room.tops + tokens,
                         length, chains.padded);
            tokens += length;
            const double weight = whole_weight(sequence, length);
            if (weight == 0.0 || length == 0) continue;
            const TripleSegment whole = segment_at(sequence, local[b], 0, length, weight);
            if (chains.observed) {
                if (!any_known(whole.labels, length)) continue;  // log Z - log Z
                if (!add_known(whole, sequence, 0)) {
                    out.values[sequence] = -__builtin_inf();
                    continue;
                }
            }
            if (chains.squares) {
                subtract(whole, sequence, 0);
                continue;
            }
            chosen[n_chosen] = sequence;
            chosen_local[n_chosen] = local[b];
            weights[n_chosen++] = weight;
        }
        if (n_chosen > 0) {
            if (chains.tangent_scores)
                run_whole<true>(chosen, chosen_local, n_chosen, weights);
            else
                run_whole<false>(chosen, chosen_local, n_chosen, weights);
        }
        for (int64_t f = 0; f < chains.n_families; ++f) {
            const ChainFamily& family = chains.families[f];
            if (family.width == 0) continue;
            for (int64_t b = 0; b < count; ++b) {
                if (chains.offsets[sequences[b] + 1] - chains.offsets[sequences[b]] <= family.width) continue;
                if (family.rows && !family.rows[sequences[b]]) continue;
                const double weight = chains.row_weight ? family.beta * chains.row_weight[sequences[b]] : family.beta;
                if (weight != 0.0) run_windows(family, sequences[b], local[b], weight);
            }
        }
    }
};

WeightedArcs weighted(const TripleArcs& arcs, const TripleChains& chains, double* shared) {
    WeightedArcs result{};
    static_cast<TripleArcs&>(result) = arcs;
    const int64_t n = arcs.n_arcs;
    double *factors = shared, *in_order = shared + n, *tangents = shared + 2 * n, *in_tangents = shared + 3 * n;
    double top = n > 0 ? chains.weights[0] : 0.0;
    for (int64_t a = 0; a < n; ++a) top = chains.weights[a] > top ? chains.weights[a] : top;
    for (int64_t a = 0; a < n; ++a) factors[a] = fast_exp_negative(chains.weights[a] - top);
    for (int64_t k = 0; k < n; ++k) in_order[k] = factors[arcs.in_arcs[k]];
    if (chains.tangent_weights) {
        for (int64_t a = 0; a < n; ++a) tangents[a] = factors[a] * chains.tangent_weights[a];
        for (int64_t k = 0; k < n; ++k) in_tangents[k] = tangents[arcs.in_arcs[k]];
    }
    result.weights = chains.weights;
    result.slopes = chains.tangent_weights;
    result.factors = factors;
    result.in_order = in_order;
    result.tangents = tangents;
    result.in_tangents = in_tangents;
    result.top = top;
    return result;
}

}  // namespace

int64_t triple_room(const TripleArcs& arcs, const TripleChains& chains) {
    return cut_triples(arcs, chains, nullptr, nullptr);
}

int64_t triple_places(const TripleArcs& arcs, const TripleChains& chains) {
    return (chains.max_tokens + 3) * (arcs.n_states + 1) + arcs.n_states + 2 * arcs.n_labels;
}

void triple_evaluate(const TripleArcs& arcs, const TripleChains& chains, const TripleScratch& scratch,
                     const TripleOutput& out, int n_threads) {
    const WeightedArcs own = weighted(arcs, chains, scratch.shared);
    const int64_t size = chains.tangent_scores ? 8 : 4, rows = (chains.max_tokens + 3) * arcs.n_states;
    for_each_task(chains.n_chunks, n_threads, [&](int64_t chunk) {
        TripleWorker worker{own, chains, out, out.arcs ? out.arcs + chunk * arcs.n_arcs : nullptr, {}};
        cut_triples(arcs, chains, scratch.threads + thread_number() * scratch.thread_size, &worker.room);
        SegmentRoom& segment = worker.room.segment;
        segment.lists = scratch.places + thread_number() * scratch.place_size;
        segment.counts = segment.lists + rows;
        segment.seen = segment.counts + chains.max_tokens + 3;
        for (int64_t s = 0; s < arcs.n_states; ++s) segment.seen[s] = 0;
        // As with the numbers: a pair is not at work at the same time as another segment.
        PairRoom& pair = worker.room.pair;
        pair.second = segment.lists;
        pair.third = segment.lists + arcs.n_states;
        pair.counts = segment.seen + arcs.n_states;
        pair.last = pair.counts + arcs.n_labels;
        if (out.arcs) {
            for (int64_t a = 0; a < arcs.n_arcs; ++a) worker.arc_sums[a] = 0.0;
            for (int64_t k = 0; k < arcs.n_arcs * size; ++k) worker.room.lanes.sums[k] = 0.0;
        }
        const int64_t last = chains.chunk_ptr[chunk + 1];
        for (int64_t q = chains.chunk_ptr[chunk]; q < last; q += chain_batch) {
            if (out.interruption->asked()) break;
            worker.run_sequences(chains.order + q, last - q < chain_batch ? last - q : chain_batch);
        }
        if (!out.arcs) return;
        if (chains.tangent_scores)
            fold_lanes<true>(own, worker.room.lanes.sums, worker.arc_sums);
        else
            fold_lanes<false>(own, worker.room.lanes.sums, worker.arc_sums);
    });
}

}  // namespace ff::FF_ISA

// One segment at a time: windows, segments with some labels known, squares, and whatever underflows elsewhere.
//
// α_p(s) = ψ_p(s) Σ α_{p-1}(r) M(r, s) / c_p over the states that can be reached, g_p = ψ_p β_p / c_p backwards. Only
// reachable states are listed, so a fixed label costs one arc for each state before it.
#pragma once

#include "second_order.hpp"
#include "second_order_numbers.hpp"

namespace ff::FF_ISA {
namespace {

// The arcs with their weights of one evaluation.
struct WeightedArcs : TripleArcs {
    const double *weights, *slopes;        // U, and its direction or null
    const double *factors, *in_order;      // M = exp(U - max U), by arc and by arc that enters
    const double *tangents, *in_tangents;  // M times the direction; null without one
    double top;                            // max U
};

struct TripleSegment {
    int64_t free, length;   // free tokens, and with them the one or two fixed tokens behind
    int32_t before;         // state before the first token
    const int32_t* labels;  // of its tokens, those behind included
    bool fixed;             // labels that are known are fixed in the free tokens too
    const double *scores, *psi, *tops, *tangent_scores;  // rows of the first token
    double weight;                                       // minus this times the expectations is summed
};

struct TripleSums {
    double* residuals;  // row of the segment's first token; null: values only
    double* arcs;
    double* states;  // row of the first token; null: not wanted
    bool tangent, squares;
};

struct SegmentRoom {
    double *alpha, *g;  // 2 x (max_tokens + 3) x n_states
    double* scales;     // 2 x (max_tokens + 3)
    double* by_label;   // 2 x padded
    int32_t* lists;     // (max_tokens + 3) x n_states
    int32_t* counts;    // max_tokens + 3
    int32_t* seen;      // n_states
    int32_t tick;
};

// The arcs that leave a state, or the one to `label` where that is fixed.
template <class Body>
FF_INLINE void each_arc(const TripleArcs& arcs, int32_t state, int32_t label, Body body) {
    if (label >= 0) {
        const int32_t arc = arcs.next[state * arcs.n_labels + label];
        if (arc >= 0) body(arc);
        return;
    }
    for (int64_t arc = arcs.out_ptr[state]; arc < arcs.out_ptr[state + 1]; ++arc) body(arc);
}

// log Z (with its derivative) of a segment, and minus its weighted expectations. False: this kind of number is not good
// enough, and nothing was summed. log Z is -inf where no labels are allowed.
template <class N>
bool run_segment(const WeightedArcs& arcs, const TripleSegment& s, int64_t padded, SegmentRoom& room,
                 const TripleSums& sums, double& log_z, double& slope) {
    const int64_t S = arcs.n_states, K = arcs.n_labels;
    N* alpha = reinterpret_cast<N*>(room.alpha);
    N* g = reinterpret_cast<N*>(room.g);
    N* scales = reinterpret_cast<N*>(room.scales);
    const auto factor = [&](int64_t arc) FF_ALWAYS {
        return N::potential(arcs.factors[arc], arcs.weights[arc], arcs.slopes ? arcs.slopes[arc] : 0.0);
    };
    const auto clamp = [&](int64_t p) FF_ALWAYS { return p >= s.free || s.fixed ? s.labels[p] : -1; };
    const auto psi = [&](int64_t p, int32_t label) FF_ALWAYS {
        if (p >= s.free) return N::one();
        const int64_t k = p * padded + label;
        return N::potential(s.psi[k], s.scores[k], s.tangent_scores ? s.tangent_scores[k] : 0.0);
    };
    // Row 0 of α and of the lists is the state before; row p + 1 is token p.
    room.lists[0] = s.before;
    room.counts[0] = 1;
    alpha[s.before] = N::one();
    log_z = 0.0;
    slope = 0.0;
    for (int64_t p = 0; p < s.length; ++p) {
        const N* before = alpha + p * S;
        N* row = alpha + (p + 1) * S;
        int32_t* list = room.lists + (p + 1) * S;
        const int32_t tick = ++room.tick, label = clamp(p);
        int32_t count = 0;
        for (int32_t k = 0; k < room.counts[p]; ++k) {
            const int32_t state = room.lists[p * S + k];
            each_arc(arcs, state, label, [&](int64_t arc) FF_ALWAYS {
                const int32_t to = arcs.to[arc];
                const N x = before[state] * factor(arc);
                if (room.seen[to] != tick) {
                    room.seen[to] = tick;
                    list[count++] = to;
                    row[to] = x;
                } else {
                    row[to] = row[to] + x;
                }
            });
        }
        room.counts[p + 1] = count;
        N total{};
        for (int32_t k = 0; k < count; ++k) {
            const int32_t state = list[k];
            row[state] = row[state] * psi(p, arcs.label[state]);
            total = k == 0 ? row[state] : total + row[state];
        }
        if (count == 0 || !total.usable()) {
            log_z = -__builtin_inf();
            return N::logs;
        }
        scales[p] = total;
        for (int32_t k = 0; k < count; ++k) row[list[k]] = row[list[k]] / total;
        log_z += total.log();
        if (!N::logs) log_z += (p < s.free ? s.tops[p] : 0.0) + arcs.top;
        slope += total.log_slope();
    }
    if (!sums.residuals) return true;
    for (int64_t p = s.length - 1; p >= 0; --p) {
        const bool last = p + 1 == s.length;
        const int32_t label = last ? -1 : clamp(p + 1);
        for (int32_t k = 0; k < room.counts[p + 1]; ++k) {
            const int32_t state = room.lists[(p + 1) * S + k];
            N beta = last ? N::one() : N::potential(0.0, -__builtin_inf(), 0.0);
            if (!last)
                each_arc(arcs, state, label,
                         [&](int64_t arc) FF_ALWAYS { beta = beta + factor(arc) * g[(p + 1) * S + arcs.to[arc]]; });
            const N x = beta * psi(p, arcs.label[state]) / scales[p];
            if (!x.bounded()) return false;
            g[p * S + state] = x;
        }
    }
    for (int64_t p = 0; p < s.length; ++p) {
        const int32_t label = clamp(p);
        for (int64_t j = 0; j < 2 * padded; ++j) room.by_label[j] = 0.0;
        for (int32_t k = 0; k < room.counts[p]; ++k) {
            const int32_t state = room.lists[p * S + k];
            each_arc(arcs, state, label, [&](int64_t arc) FF_ALWAYS {
                const int32_t to = arcs.to[arc], y = arcs.label[to];
                const N x = alpha[p * S + state] * factor(arc) * g[p * S + to];
                const double v = x.value();
                if (!(v > 0.0)) return;
                const double d = x.slope();
                sums.arcs[arc] -= s.weight * (sums.tangent ? d : sums.squares ? v * (1.0 - v) : v);
                room.by_label[y] += v;
                room.by_label[padded + y] += d;
                if (sums.states && p < s.free) sums.states[p * S + to] += v;
            });
        }
        if (p >= s.free) continue;
        double* nodes = sums.residuals + p * padded;
        for (int64_t j = 0; j < K; ++j) {
            const double v = room.by_label[j];
            nodes[j] -= s.weight * (sums.tangent ? room.by_label[padded + j] : sums.squares ? v * (1.0 - v) : v);
        }
    }
    return true;
}

}  // namespace
}  // namespace ff::FF_ISA

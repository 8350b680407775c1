// Windows of two free tokens, by far the most common segments of PL2: sums over the pairs of labels that are allowed.
//
// After the labels a, b a pair (x, y) weighs M(a, b, x) ψ(x) · M(b, x, y) · M(x, y, c) · M(y, c, d) ψ(y), where c and d
// are the labels behind. The last two factors depend on y alone. What underflows here is left to `run_segment`.
#pragma once

#include "second_order_segment.hpp"

namespace ff::FF_ISA {
namespace {

struct PairRoom {
    double *values, *ends, *end_sums;         // 2 x n_states, 2 x n_labels, n_labels
    int32_t *second, *third, *counts, *last;  // n_states, n_states, n_labels, n_labels
};

// Whether `run_pair` may be called for a segment.
FF_INLINE bool is_pair(const TripleSegment& s, const TripleSums& sums) {
    return s.free == 2 && !s.fixed && !sums.squares && !sums.states;
}

// As `run_segment`. False: the sum is 0 or nearly so, and nothing was summed.
template <class N>
bool run_pair(const WeightedArcs& arcs, const TripleSegment& s, int64_t padded, const PairRoom& room,
              const TripleSums& sums, double& log_z, double& slope) {
    const int64_t K = arcs.n_labels;
    N* values = reinterpret_cast<N*>(room.values);
    N* ends = reinterpret_cast<N*>(room.ends);
    const auto factor = [&](int64_t arc) FF_ALWAYS {
        return N::potential(arcs.factors[arc], arcs.weights[arc], arcs.slopes ? arcs.slopes[arc] : 0.0);
    };
    const auto psi = [&](int64_t p, int64_t label) FF_ALWAYS {
        const int64_t k = p * padded + label;
        // 0 · -inf: a label that is ruled out has no slope.
        return N::potential(s.psi[k], s.scores[k], s.tangent_scores && s.psi[k] > 0.0 ? s.tangent_scores[k] : 0.0);
    };
    const bool one_behind = s.length > 2, two_behind = s.length > 3;
    for (int64_t y = 0; y < K; ++y) {
        ends[y] = psi(1, y);
        room.last[y] = -1;
        if (!two_behind) continue;
        const int32_t state = arcs.pairs[y * (K + 1) + s.labels[2]];
        const int32_t arc = state < 0 ? -1 : arcs.next[state * K + s.labels[3]];
        room.last[y] = arc;
        ends[y] = arc < 0 ? N{} : ends[y] * factor(arc);
    }
    const int64_t begin = arcs.out_ptr[s.before], end = arcs.out_ptr[s.before + 1];
    int64_t count = 0;
    N total{};
    for (int64_t first = begin; first < end; ++first) {
        const int32_t middle = arcs.to[first];
        const N x = factor(first) * psi(0, arcs.label[middle]);
        for (int64_t second = arcs.out_ptr[middle]; second < arcs.out_ptr[middle + 1]; ++second) {
            const int32_t state = arcs.to[second], third = one_behind ? arcs.next[state * K + s.labels[2]] : 0;
            // What is forbidden is overwritten by the next pair.
            room.second[count] = static_cast<int32_t>(second);
            room.third[count] = third;
            const N y = x * factor(second) * ends[arcs.label[state]];
            if (third < 0) continue;
            values[count] = one_behind ? y * factor(third) : y;
            total = total + values[count++];
        }
        room.counts[first - begin] = static_cast<int32_t>(count);
    }
    if (!total.usable()) return false;
    log_z = total.log() + s.tops[0] + s.tops[1] + static_cast<double>(s.length) * arcs.top;
    slope = total.log_slope();
    if (!sums.residuals) return true;
    double *nodes = sums.residuals, *nodes_behind = sums.residuals + padded;
    for (int64_t y = 0; y < K; ++y) room.end_sums[y] = 0.0;
    const N scale = N::one() / total;
    int64_t k = 0;
    for (int64_t first = begin; first < end; ++first) {
        double sum = 0.0;
        for (; k < room.counts[first - begin]; ++k) {
            const N probability = values[k] * scale;
            const double x = s.weight * (sums.tangent ? probability.slope() : probability.value());
            sum += x;
            sums.arcs[room.second[k]] -= x;
            if (one_behind) sums.arcs[room.third[k]] -= x;
            room.end_sums[arcs.label[arcs.to[room.second[k]]]] += x;
        }
        sums.arcs[first] -= sum;
        nodes[arcs.label[arcs.to[first]]] -= sum;
    }
    for (int64_t y = 0; y < K; ++y) {
        nodes_behind[y] -= room.end_sums[y];
        if (room.last[y] >= 0) sums.arcs[room.last[y]] -= room.end_sums[y];
    }
    return true;
}

}  // namespace
}  // namespace ff::FF_ISA

// Up to four whole sequences in step, one in each lane of a vector: the arcs are read once for all of them.
//
// Row p of α and g is n_states vectors (two for each state with a derivative: value and slope). A sequence that is over
// has ψ = 0 in its lane, so that everything after its end is 0.
#pragma once

#include "second_order_segment.hpp"

namespace ff::FF_ISA {
namespace {

template <bool TANGENT>
struct Lane;
template <>
struct Lane<false> {
    static constexpr int64_t size = 4;
    v4 x;
    FF_ALWAYS static Lane zero() { return {splat(0.0)}; }
    FF_ALWAYS static Lane read(const double* p) { return {load(p)}; }
    FF_ALWAYS static Lane factor(const double* values, const double*, int64_t k) { return {splat(values[k])}; }
    FF_ALWAYS void write(double* p) const { store(p, x); }
};
template <>
struct Lane<true> {
    static constexpr int64_t size = 8;
    v4 x, d;
    FF_ALWAYS static Lane zero() { return {splat(0.0), splat(0.0)}; }
    FF_ALWAYS static Lane read(const double* p) { return {load(p), load(p + 4)}; }
    FF_ALWAYS static Lane factor(const double* values, const double* slopes, int64_t k) {
        return {splat(values[k]), splat(slopes[k])};
    }
    FF_ALWAYS void write(double* p) const {
        store(p, x);
        store(p + 4, d);
    }
};
FF_INLINE Lane<false> operator*(Lane<false> a, Lane<false> b) { return {a.x * b.x}; }
FF_INLINE Lane<false> operator+(Lane<false> a, Lane<false> b) { return {a.x + b.x}; }
FF_INLINE Lane<true> operator*(Lane<true> a, Lane<true> b) { return {a.x * b.x, a.x * b.d + a.d * b.x}; }
FF_INLINE Lane<true> operator+(Lane<true> a, Lane<true> b) { return {a.x + b.x, a.d + b.d}; }

struct LaneSequence {
    int64_t length;
    const double *psi, *tops, *tangent_scores;  // rows of the first token
    double weight;
    double* residuals;  // null: values only
    double* states;
    double log_z, slope;
    bool good;
};

struct LaneRoom {
    double *alpha, *g;  // (max_tokens + 1) x n_states x size
    double* psi;        // max_tokens x n_labels x size
    double* inverse;    // max_tokens x size, 1 / c
    double* beta;       // n_states x size
    double* nodes;      // max_tokens x n_labels x size
    double* sums;       // n_arcs x size, Σ α g; M is multiplied in at the end of a chunk
};

// log Z of each sequence, and minus its weighted expectations where it is good.
template <bool TANGENT>
void run_lanes(const WeightedArcs& arcs, LaneSequence* sequences, int64_t count, int64_t padded, const LaneRoom& room) {
    using N = Lane<TANGENT>;
    constexpr int64_t size = N::size;
    const int64_t S = arcs.n_states, K = arcs.n_labels;
    int64_t longest = 0;
    for (int64_t b = 0; b < count; ++b) {
        longest = sequences[b].length > longest ? sequences[b].length : longest;
        sequences[b].log_z = sequences[b].slope = 0.0;
        sequences[b].good = true;
    }
    for (int64_t p = 0; p < longest; ++p)
        for (int64_t j = 0; j < K; ++j) {
            double* to = room.psi + (p * K + j) * size;
            N::zero().write(to);
            for (int64_t b = 0; b < count; ++b) {
                const LaneSequence& s = sequences[b];
                if (p >= s.length) continue;
                to[b] = s.psi[p * padded + j];
                // 0 · -inf: a label that is ruled out has no slope.
                if (TANGENT) to[4 + b] = to[b] > 0.0 ? to[b] * s.tangent_scores[p * padded + j] : 0.0;
            }
        }
    for (int64_t s = 0; s < S; ++s) N::zero().write(room.alpha + s * size);
    store(room.alpha, splat(1.0));
    for (int64_t p = 0; p < longest; ++p) {
        const double* before = room.alpha + p * S * size;
        double* row = room.alpha + (p + 1) * S * size;
        N total = N::zero();
        for (int64_t s = 0; s < S; ++s) {
            N x = N::zero();
            for (int64_t k = arcs.in_ptr[s]; k < arcs.in_ptr[s + 1]; ++k)
                x = x + N::factor(arcs.in_order, arcs.in_tangents, k) * N::read(before + arcs.in_from[k] * size);
            if (arcs.label[s] >= 0) x = x * N::read(room.psi + (p * K + arcs.label[s]) * size);
            x.write(row + s * size);
            total = total + x;
        }
        double c[size], inverse[size];
        total.write(c);
        for (int64_t b = 0; b < 4; ++b) {
            const bool usable = c[b] > 1e-200;
            inverse[b] = usable ? 1.0 / c[b] : 0.0;
            if constexpr (TANGENT) inverse[4 + b] = usable ? -c[4 + b] / c[b] / c[b] : 0.0;
            if (b >= count || p >= sequences[b].length) continue;
            LaneSequence& s = sequences[b];
            s.good = s.good && usable;
            s.log_z += fast_log(c[b]) + s.tops[p] + arcs.top;
            if constexpr (TANGENT) s.slope += usable ? c[4 + b] / c[b] : 0.0;
        }
        const N scale = N::read(inverse);
        scale.write(room.inverse + p * size);
        for (int64_t s = 0; s < S; ++s) (N::read(row + s * size) * scale).write(row + s * size);
    }
    if (!sequences[0].residuals) return;
    v4 most = splat(0.0);
    for (int64_t p = longest - 1; p >= 0; --p) {
        const double* behind = room.g + (p + 1) * S * size;
        const double* alpha = room.alpha + (p + 1) * S * size;
        double* row = room.g + p * S * size;
        const N scale = N::read(room.inverse + p * size);
        double start[size];
        N::zero().write(start);
        bool ends = false;
        for (int64_t b = 0; b < count; ++b)
            if (sequences[b].length == p + 1) {
                start[b] = 1.0;
                ends = true;
            }
        const N begin = N::read(start);
        for (int64_t j = 0; j < K; ++j) N::zero().write(room.nodes + (p * K + j) * size);
        for (int64_t s = 0; s < S; ++s) {
            N beta = N::zero();
            if (p + 1 < longest)
                for (int64_t a = arcs.out_ptr[s]; a < arcs.out_ptr[s + 1]; ++a)
                    beta = beta + N::factor(arcs.factors, arcs.tangents, a) * N::read(behind + arcs.to[a] * size);
            if (ends) beta = beta + begin;
            if (arcs.label[s] < 0) {
                N::zero().write(row + s * size);
                continue;
            }
            double* node = room.nodes + (p * K + arcs.label[s]) * size;
            const N marginal = N::read(alpha + s * size) * beta;
            (N::read(node) + marginal).write(node);
            const N x = beta * scale * N::read(room.psi + (p * K + arcs.label[s]) * size);
            most = larger(x.x, most);  // in this order a NaN does not hide what came before
            x.write(row + s * size);
            if (sequences[0].states) {
                double numbers[size];
                marginal.write(numbers);
                for (int64_t b = 0; b < count; ++b)
                    if (p < sequences[b].length) sequences[b].states[p * S + s] = numbers[b];
            }
        }
    }
    double weights[4] = {0.0, 0.0, 0.0, 0.0};
    for (int64_t b = 0; b < count; ++b) {
        LaneSequence& s = sequences[b];
        s.good = s.good && most[b] < 1e100;
        if (!s.good) continue;
        weights[b] = s.weight;
        for (int64_t p = 0; p < s.length; ++p)
            for (int64_t j = 0; j < K; ++j)
                s.residuals[p * padded + j] -= s.weight * room.nodes[(p * K + j) * size + (TANGENT ? 4 : 0) + b];
    }
    for (int64_t b = 0; b < count; ++b) {
        if (sequences[b].good) continue;
        for (int64_t k = b; k < longest * S * size; k += 4) room.alpha[k] = room.g[k] = 0.0;
    }
    const v4 weight = load(weights);
    for (int64_t p = 0; p < longest; ++p) {
        const double* alpha = room.alpha + p * S * size;
        const double* row = room.g + p * S * size;
        for (int64_t s = 0; s < S; ++s) {
            N x = N::read(alpha + s * size);
            x.x *= weight;
            if constexpr (TANGENT) x.d *= weight;
            for (int64_t a = arcs.out_ptr[s]; a < arcs.out_ptr[s + 1]; ++a) {
                double* to = room.sums + a * size;
                (N::read(to) + x * N::read(row + arcs.to[a] * size)).write(to);
            }
        }
    }
}

// What the lanes of a chunk have summed, to its arcs.
template <bool TANGENT>
void fold_lanes(const WeightedArcs& arcs, const double* sums, double* out) {
    using N = Lane<TANGENT>;
    for (int64_t a = 0; a < arcs.n_arcs; ++a) {
        const N x = N::read(sums + a * N::size) * N::factor(arcs.factors, arcs.tangents, a);
        if constexpr (TANGENT)
            out[a] -= sum(x.d);
        else
            out[a] -= sum(x.x);
    }
}

}  // namespace
}  // namespace ff::FF_ISA

#include <cmath>
#include <cstring>

#include "gibbs.hpp"
#include "philox_lanes.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

namespace {

constexpr int L = gibbs_lanes;
using Random = PhiloxLanes<L>;

template <class Sweep>
void run_chains(const GibbsRun& run, int64_t m, const Sweep& sweep) {
    Random random(run.random.seed, run.random.stream, run.random.first);
    const int64_t asked_every = gibbs_sweeps_between(m);
    int64_t since = 0;
    const auto sweeps = [&](int64_t count) {
        for (int64_t s = 0; s < count; ++s) {
            if (++since > asked_every) {
                since = 1;
                if (!run.take(run.context, -1)) return false;
            }
            sweep(random);
        }
        return true;
    };
    if (!sweeps(run.burn_in)) return;
    for (int64_t draw = 0; draw < run.draws; ++draw)
        if (!sweeps(run.thin) || !run.take(run.context, draw)) return;
}

typedef double Lanes __attribute__((vector_size(8 * gibbs_pad), aligned(8), may_alias));
constexpr int vectors = L / gibbs_pad;

// Numbers i, j, k and l of the eight in two vectors.
#if defined(__clang__) || __GNUC__ >= 12
#define FF_FOUR_OF(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int64_t Places __attribute__((vector_size(8 * gibbs_pad)));
#define FF_FOUR_OF(a, b, i, j, k, l) __builtin_shuffle(a, b, Places{i, j, k, l})
#endif

// A square of four chains and four states is turned: line i becomes state i of each chain.
inline void turn(const Lanes* line, double* out) {
    const Lanes a = FF_FOUR_OF(line[0], line[1], 0, 4, 2, 6);
    const Lanes b = FF_FOUR_OF(line[0], line[1], 1, 5, 3, 7);
    const Lanes c = FF_FOUR_OF(line[2], line[3], 0, 4, 2, 6);
    const Lanes d = FF_FOUR_OF(line[2], line[3], 1, 5, 3, 7);
    *reinterpret_cast<Lanes*>(out) = FF_FOUR_OF(a, c, 0, 1, 4, 5);
    *reinterpret_cast<Lanes*>(out + L) = FF_FOUR_OF(b, d, 0, 1, 4, 5);
    *reinterpret_cast<Lanes*>(out + 2 * L) = FF_FOUR_OF(a, c, 2, 3, 6, 7);
    *reinterpret_cast<Lanes*>(out + 3 * L) = FF_FOUR_OF(b, d, 2, 3, 6, 7);
}

// score (states, lanes) = own + the rows of all neighbours, for four chains with B vectors of states.
template <int B>
inline void add_rows(const RowsField& field, int64_t v, const int32_t* state, double* score) {
    const Lanes* own = reinterpret_cast<const Lanes*>(field.own + field.own_ptr[v]);
    Lanes sum[B][gibbs_pad];
    for (int b = 0; b < B; ++b)
        for (int l = 0; l < gibbs_pad; ++l) sum[b][l] = own[b];
    for (int64_t k = field.indptr[v]; k < field.indptr[v + 1]; ++k) {
        const double* rows = field.rows + field.row_ptr[k];
        const int32_t* other = state + static_cast<int64_t>(field.neighbour[k]) * L;
        for (int l = 0; l < gibbs_pad; ++l) {
            const Lanes* row = reinterpret_cast<const Lanes*>(rows + other[l] * (B * gibbs_pad));
            for (int b = 0; b < B; ++b) sum[b][l] += row[b];
        }
    }
    for (int b = 0; b < B; ++b) turn(sum[b], score + b * gibbs_pad * L);
}

// The same for all chains and any number of states: the rows of a neighbour are read once for the whole group.
void add_wide_rows(const RowsField& field, int64_t v, const int32_t* state, double* sum, double* score) {
    const int64_t width = field.width[v];
    for (int l = 0; l < L; ++l)
        std::memcpy(sum + l * width, field.own + field.own_ptr[v], static_cast<size_t>(width) * sizeof(double));
    for (int64_t k = field.indptr[v]; k < field.indptr[v + 1]; ++k) {
        const int32_t* other = state + static_cast<int64_t>(field.neighbour[k]) * L;
        for (int l = 0; l < L; ++l) {
            const Lanes* row = reinterpret_cast<const Lanes*>(field.rows + field.row_ptr[k] + other[l] * width);
            Lanes* to = reinterpret_cast<Lanes*>(sum + l * width);
            for (int64_t b = 0; b < width / gibbs_pad; ++b) to[b] += row[b];
        }
    }
    for (int l = 0; l < L; l += gibbs_pad)
        for (int64_t s = 0; s < width; s += gibbs_pad) {
            Lanes line[gibbs_pad];
            for (int i = 0; i < gibbs_pad; ++i) line[i] = *reinterpret_cast<const Lanes*>(sum + (l + i) * width + s);
            turn(line, score + s * L + l);
        }
}

template <int B>
void add_all_rows(const RowsField& field, int64_t v, const int32_t* state, double* score) {
    for (int l = 0; l < L; l += gibbs_pad) add_rows<B>(field, v, state + l, score + l);
}

// For each chain, the state with the share `uniform` of the weights before it; `own` where no state has a weight.
inline void choose(double* score, int64_t states, const double* uniform, int32_t* own) {
    alignas(64) double largest[L], total[L];
    std::memcpy(largest, score, sizeof largest);
    for (int64_t s = 1; s < states; ++s) {
#pragma omp simd
        for (int l = 0; l < L; ++l) largest[l] = score[s * L + l] > largest[l] ? score[s * L + l] : largest[l];
    }
    for (int l = 0; l < L; ++l) total[l] = 0.0;
    for (int64_t s = 0; s < states; ++s) {
#pragma omp simd
        for (int l = 0; l < L; ++l) score[s * L + l] = total[l] += fast_exp_negative(score[s * L + l] - largest[l]);
    }
    alignas(64) double chosen[L];
    for (int l = 0; l < L; ++l) chosen[l] = 0.0;
    // A uniform number may be rounded to 1: the last state with a weight is then the one.
    for (int64_t s = 0; s + 1 < states; ++s) {
#pragma omp simd
        for (int l = 0; l < L; ++l)
            chosen[l] += (uniform[l] * total[l] >= score[s * L + l]) & (score[s * L + l] < total[l]) ? 1.0 : 0.0;
    }
    for (int l = 0; l < L; ++l)
        if (largest[l] > -INFINITY) own[l] = static_cast<int32_t>(chosen[l]);
}

}  // namespace

void gibbs_odds(const OddsField& field, const GibbsRun& run, double* state) {
    run_chains(run, field.m, [&](Random& random) {
        for (int64_t v = 0; v < field.m; ++v) {
            if (field.fixed[v]) continue;
            Lanes sum[vectors];
            for (int b = 0; b < vectors; ++b) sum[b] = field.constant[v] - Lanes{};
            for (int64_t k = field.indptr[v]; k < field.indptr[v + 1]; ++k) {
                const Lanes* other =
                    reinterpret_cast<const Lanes*>(state + static_cast<int64_t>(field.neighbour[k]) * L);
                const double weight = field.weight[k];
                for (int b = 0; b < vectors; ++b) sum[b] += weight * other[b];
            }
            alignas(64) double odds[L];
            std::memcpy(odds, sum, sizeof odds);
            const double* uniform = random.next();
            double* own = state + v * L;
#pragma omp simd
            for (int l = 0; l < L; ++l) own[l] = uniform[l] * (1.0 + fast_exp(odds[l])) < 1.0 ? 0.0 : 1.0;
        }
    });
}

void gibbs_rows(const RowsField& field, const GibbsRun& run, int32_t* state, double* score) {
    run_chains(run, field.m, [&](Random& random) {
        for (int64_t v = 0; v < field.m; ++v) {
            if (field.fixed[v]) continue;
            switch (field.width[v] / gibbs_pad) {
                case 1:
                    add_all_rows<1>(field, v, state, score);
                    break;
                case 2:
                    add_all_rows<2>(field, v, state, score);
                    break;
                case 3:
                    add_all_rows<3>(field, v, state, score);
                    break;
                default:
                    add_wide_rows(field, v, state, score + field.width[v] * L, score);
            }
            choose(score, field.cardinality[v], random.next(), state + v * L);
        }
    });
}

}  // namespace ff::FF_ISA

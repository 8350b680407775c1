// The best label sequences of second-order chains.
#include "chain_products.hpp"
#include "second_order.hpp"
#include "team.hpp"

namespace ff::FF_ISA {

void triple_n_best(const TripleArcs& arcs, const TripleChains& chains, int64_t count, double* work, int64_t* back,
                   int32_t* labels, double* best, Interruption& interruption, int n_threads) {
    const int64_t S = arcs.n_states, n_tokens = chains.offsets[chains.n_sequences];
    const double none = -__builtin_inf();
    const auto decode = [&](int64_t s) {
        if (interruption.asked()) return;
        const int64_t block = chains.max_tokens * S * count;
        double* delta = work + thread_number() * block;
        int64_t* source = back + thread_number() * block;
        const int64_t first = chains.offsets[s], length = chains.offsets[s + 1] - first;
        double* top = best + s * count;
        for (int64_t r = 0; r < count; ++r) top[r] = none;
        if (length == 0) {
            top[0] = 0.0;  // the empty path
            return;
        }
        // x goes into a list of the best, best first; earlier ones stay before equal ones.
        const auto insert = [count](double* list, int64_t* sources, double x, int64_t from) {
            if (!(x > list[count - 1])) return false;
            int64_t place = count - 1;
            for (; place > 0 && x > list[place - 1]; --place) {
                list[place] = list[place - 1];
                sources[place] = sources[place - 1];
            }
            list[place] = x;
            sources[place] = from;
            return true;
        };
        for (int64_t t = 0; t < length; ++t) {
            const double* score = chains.scores + (first + t) * chains.padded;
            for (int64_t state = 0; state < S; ++state) {
                double* list = delta + (t * S + state) * count;
                int64_t* sources = source + (t * S + state) * count;
                for (int64_t r = 0; r < count; ++r) {
                    list[r] = none;
                    sources[r] = 0;
                }
                if (arcs.label[state] < 0) continue;
                const double own = score[arcs.label[state]];
                for (int64_t k = arcs.in_ptr[state]; k < arcs.in_ptr[state + 1]; ++k) {
                    const int64_t from = arcs.in_from[k];
                    const double step = chains.weights[arcs.in_arcs[k]] + own;
                    if (t == 0) {
                        if (from == 0) insert(list, sources, step, 0);
                        continue;
                    }
                    const double* before = delta + ((t - 1) * S + from) * count;
                    for (int64_t r = 0; r < count; ++r)
                        if (!insert(list, sources, before[r] + step, from * count + r)) break;
                }
            }
        }
        // The places in the last lists that the best paths end at.
        int64_t* ends = source;  // the lists of the first token have no sources
        for (int64_t r = 0; r < count; ++r) ends[r] = 0;
        for (int64_t state = 0; state < S; ++state)
            for (int64_t r = 0; r < count; ++r)
                if (!insert(top, ends, delta[((length - 1) * S + state) * count + r], state * count + r)) break;
        for (int64_t r = 0; r < count; ++r) {
            int32_t* path = labels + r * n_tokens + first;
            int64_t at = ends[r];
            for (int64_t t = length - 1; t >= 0; --t) {
                path[t] = top[r] > none ? arcs.label[at / count] : -1;
                if (t > 0) at = source[t * S * count + at];
            }
        }
    };
    for_each_task(chains.n_sequences, n_threads, decode, 8);
}

}  // namespace ff::FF_ISA

// Gibbs sampling of a discrete field: each chain keeps, for every factor, the flat index of its current table entry, so
// that a variable's conditional costs its factors times its states.
#include <algorithm>
#include <cmath>
#include <vector>

#include "bindings.hpp"
#include "philox.hpp"

namespace ff {

namespace {

struct Field {
    const int32_t* cardinality;
    const int32_t* factor_ptr;  // (m + 1) factors of each variable
    const int32_t* factor;
    const int32_t* stride;  // of the variable in that factor
    const uint8_t* fixed;   // variables that keep their value
};

void sweep_chain(const Field& field, const double* log_tables, int64_t m, int64_t* entry, int32_t* state,
                 int64_t sweeps, Philox& random, double* weight) {
    for (int64_t sweep = 0; sweep < sweeps; ++sweep) {
        for (int64_t v = 0; v < m; ++v) {
            if (field.fixed[v]) continue;
            const int32_t card = field.cardinality[v], now = state[v];
            double largest = -INFINITY;
            for (int32_t s = 0; s < card; ++s) {
                double score = 0.0;
                for (int32_t k = field.factor_ptr[v]; k < field.factor_ptr[v + 1]; ++k)
                    score += log_tables[entry[field.factor[k]] + static_cast<int64_t>(s - now) * field.stride[k]];
                weight[s] = score;
                largest = std::max(largest, score);
            }
            double total = 0.0;
            for (int32_t s = 0; s < card; ++s) total += weight[s] = std::exp(weight[s] - largest);
            double rest = random.next() * total;
            int32_t chosen = now;
            for (int32_t s = 0; s < card; ++s) {
                if (weight[s] > 0.0) chosen = s;
                if (rest < weight[s]) break;
                rest -= weight[s];
            }
            if (chosen != now) {
                for (int32_t k = field.factor_ptr[v]; k < field.factor_ptr[v + 1]; ++k)
                    entry[field.factor[k]] += static_cast<int64_t>(chosen - now) * field.stride[k];
                state[v] = chosen;
            }
        }
    }
}

}  // namespace

void bind_gibbs(nb::module_& module) {
    module.def(
        "gibbs",
        [](In<double> log_tables, In<int32_t> cardinality, In<int32_t> factor_ptr, In<int32_t> factor,
           In<int32_t> stride, In<uint8_t> fixed, In2<int64_t> entries, In2<int32_t> start, int64_t burn_in,
           int64_t thin, uint64_t seed, uint32_t stream, Out2<int32_t> draws, int n_threads) {
            const int64_t m = static_cast<int64_t>(cardinality.shape(0));
            const int64_t chains = static_cast<int64_t>(start.shape(0)), n = static_cast<int64_t>(draws.shape(0));
            const int64_t factors = static_cast<int64_t>(entries.shape(1));
            if (static_cast<int64_t>(start.shape(1)) != m || static_cast<int64_t>(draws.shape(1)) != m ||
                static_cast<int64_t>(factor_ptr.shape(0)) != m + 1 || static_cast<int64_t>(fixed.shape(0)) != m ||
                factor.shape(0) != stride.shape(0) || static_cast<int64_t>(entries.shape(0)) != chains)
                throw nb::value_error("gibbs: the arrays do not belong together");
            const Field field{cardinality.data(), factor_ptr.data(), factor.data(), stride.data(), fixed.data()};
            const double* tables = log_tables.data();
            int32_t* out = draws.data();
            const int32_t most = m ? *std::max_element(field.cardinality, field.cardinality + m) : 1;
            nb::gil_scoped_release release;
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
            for (int64_t chain = 0; chain < chains; ++chain) {
                Philox random(seed, stream, static_cast<uint64_t>(chain));
                std::vector<int64_t> entry(entries.data() + chain * factors, entries.data() + (chain + 1) * factors);
                std::vector<int32_t> state(start.data() + chain * m, start.data() + (chain + 1) * m);
                std::vector<double> weight(static_cast<size_t>(most));
                sweep_chain(field, tables, m, entry.data(), state.data(), burn_in, random, weight.data());
                for (int64_t i = chain; i < n; i += chains) {
                    sweep_chain(field, tables, m, entry.data(), state.data(), thin, random, weight.data());
                    std::copy(state.begin(), state.end(), out + i * m);
                }
            }
        },
        "Draw i comes from chain i mod chains, every `thin` sweeps after `burn_in` sweeps.");
}

}  // namespace ff

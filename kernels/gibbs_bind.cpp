// Gibbs sampling of a discrete field: each chain keeps, for every factor, the flat index of its current table entry, so
// that a variable's conditional costs its factors times its states. For binary pairs a chain keeps the log odds
// of every variable instead: a variable that keeps its state costs one exponential, and one that changes its
// neighbours.
#include <algorithm>
#include <cmath>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "interruption.hpp"
#include "philox.hpp"
#include "team.hpp"

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

struct PairwiseField {
    const double* constant;
    const int64_t* indptr;  // (m + 1) neighbours of each variable
    const int32_t* neighbour;
    const double* weight;
    const uint8_t* fixed;
};

void pairwise_odds(const PairwiseField& field, int64_t m, const int32_t* state, double* odds) {
    for (int64_t v = 0; v < m; ++v) {
        odds[v] = field.constant[v];
        for (int64_t k = field.indptr[v]; k < field.indptr[v + 1]; ++k)
            if (state[field.neighbour[k]]) odds[v] += field.weight[k];
    }
}

void sweep_pairwise(const PairwiseField& field, int64_t m, int32_t* state, int64_t sweeps, Philox& random,
                    double* odds) {
    for (int64_t sweep = 0; sweep < sweeps; ++sweep) {
        for (int64_t v = 0; v < m; ++v) {
            if (field.fixed[v]) continue;
            const int32_t chosen = random.next() * (1.0 + std::exp(odds[v])) < 1.0 ? 0 : 1;
            if (chosen == state[v]) continue;
            const double sign = chosen ? 1.0 : -1.0;
            for (int64_t k = field.indptr[v]; k < field.indptr[v + 1]; ++k)
                odds[field.neighbour[k]] += sign * field.weight[k];
            state[v] = chosen;
        }
    }
}

// Every table entry that a chain can come to, whatever its free variables do, lies in the tables: from each factor's
// entry down to that with all free variables in state 0, and up to that with all of them in their last.
void check_reach(const Checks& checks, const Field& field, int64_t m, int64_t factors, int64_t table_size,
                 const int64_t* entry, const int32_t* state) {
    checks.within("an entry of a start lies outside the tables", entry, factors, 0, table_size);
    std::vector<int64_t> lowest(entry, entry + factors), highest(entry, entry + factors);
    for (int64_t v = 0; v < m; ++v) {
        const int64_t now = state[v], last = field.cardinality[v] - 1;
        checks.require(now >= 0 && now <= last, "start has a state that its variable does not have");
        if (field.fixed[v]) continue;
        for (int32_t k = field.factor_ptr[v]; k < field.factor_ptr[v + 1]; ++k) {
            const size_t f = static_cast<size_t>(field.factor[k]);
            lowest[f] -= now * field.stride[k];
            highest[f] += (last - now) * field.stride[k];
            checks.require(lowest[f] >= 0 && highest[f] < table_size,
                           "entries, start and stride do not belong together: a chain would leave the tables");
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
            const Checks checks("gibbs");
            checks.threads(n_threads);
            const int64_t ends = checks.pointers("factor_ptr", factor_ptr.data(), m);
            checks.length("factor", factor.shape(0), static_cast<size_t>(ends));
            checks.within("factor names a factor that does not exist", factor.data(), ends, 0, factors);
            checks.within("a cardinality must be at least 1", cardinality.data(), m, 1, INT32_MAX);
            checks.within("a stride must be at least 1", stride.data(), ends, 1, int64_t{INT32_MAX} + 1);
            checks.require(chains >= 1, "at least one chain is needed");
            checks.require(burn_in >= 0 && thin >= 1, "burn_in must not be negative, and thin must be at least 1");
            const Field field{cardinality.data(), factor_ptr.data(), factor.data(), stride.data(), fixed.data()};
            for (int64_t chain = 0; chain < chains; ++chain)
                check_reach(checks, field, m, factors, static_cast<int64_t>(log_tables.shape(0)),
                            entries.data() + chain * factors, start.data() + chain * m);
            const double* tables = log_tables.data();
            int32_t* out = draws.data();
            const int32_t most = m ? *std::max_element(field.cardinality, field.cardinality + m) : 1;
            nb::gil_scoped_release release;
            // The chains' own copies of where they are, and a line of weights for each thread.
            std::vector<int64_t> entry(entries.data(), entries.data() + chains * factors);
            std::vector<int32_t> state(start.data(), start.data() + chains * m);
            const int team = static_cast<int>(std::clamp<int64_t>(chains, 1, n_threads));
            std::vector<double> weights(static_cast<size_t>(team) * static_cast<size_t>(most));
            Interruption interruption;
            for_each_task(chains, team, [&](int64_t chain) {
                Philox random(seed, stream, static_cast<uint64_t>(chain));
                int64_t* own_entry = entry.data() + chain * factors;
                int32_t* own_state = state.data() + chain * m;
                double* weight = weights.data() + static_cast<int64_t>(thread_number()) * most;
                sweep_chain(field, tables, m, own_entry, own_state, burn_in, random, weight);
                for (int64_t i = chain; i < n && !interruption.asked(); i += chains) {
                    sweep_chain(field, tables, m, own_entry, own_state, thin, random, weight);
                    std::copy(own_state, own_state + m, out + i * m);
                }
            });
            interruption.raise();
        },
        nb::kw_only(), nb::arg("log_tables"), nb::arg("cardinality"), nb::arg("factor_ptr"), nb::arg("factor"),
        nb::arg("stride"), nb::arg("fixed"), nb::arg("entries"), nb::arg("start"), nb::arg("burn_in"), nb::arg("thin"),
        nb::arg("seed"), nb::arg("stream"), nb::arg("draws").noconvert(), nb::arg("n_threads"),
        "Draw i comes from chain i mod chains, every `thin` sweeps after `burn_in` sweeps.");
    module.def(
        "gibbs_pairwise",
        [](In<double> constant, In<int64_t> indptr, In<int32_t> neighbour, In<double> weight, In<uint8_t> fixed,
           In2<int32_t> start, int64_t burn_in, int64_t thin, uint64_t seed, uint32_t stream, Out2<int32_t> draws,
           int n_threads) {
            const int64_t m = static_cast<int64_t>(constant.shape(0));
            const int64_t chains = static_cast<int64_t>(start.shape(0)), n = static_cast<int64_t>(draws.shape(0));
            if (static_cast<int64_t>(start.shape(1)) != m || static_cast<int64_t>(draws.shape(1)) != m ||
                static_cast<int64_t>(indptr.shape(0)) != m + 1 || static_cast<int64_t>(fixed.shape(0)) != m ||
                neighbour.shape(0) != weight.shape(0))
                throw nb::value_error("gibbs_pairwise: the arrays do not belong together");
            const Checks checks("gibbs_pairwise");
            checks.threads(n_threads);
            const int64_t ends = checks.pointers("indptr", indptr.data(), m);
            checks.length("neighbour", neighbour.shape(0), static_cast<size_t>(ends));
            checks.within("neighbour names a variable that does not exist", neighbour.data(), ends, 0, m);
            checks.within("start has a state that its variable does not have", start.data(), chains * m, 0, 2);
            checks.require(chains >= 1, "at least one chain is needed");
            checks.require(burn_in >= 0 && thin >= 1, "burn_in must not be negative, and thin must be at least 1");
            const PairwiseField field{constant.data(), indptr.data(), neighbour.data(), weight.data(), fixed.data()};
            int32_t* out = draws.data();
            nb::gil_scoped_release release;
            const int team = static_cast<int>(std::clamp<int64_t>(chains, 1, n_threads));
            std::vector<double> all_odds(static_cast<size_t>(team * m));
            std::vector<int32_t> states(start.data(), start.data() + chains * m);
            for_each_task(chains, team, [&](int64_t chain) {
                Philox random(seed, stream, static_cast<uint64_t>(chain));
                int32_t* state = states.data() + chain * m;
                double* odds = all_odds.data() + static_cast<int64_t>(thread_number()) * m;
                pairwise_odds(field, m, state, odds);
                sweep_pairwise(field, m, state, burn_in, random, odds);
                for (int64_t i = chain; i < n; i += chains) {
                    sweep_pairwise(field, m, state, thin, random, odds);
                    std::copy(state, state + m, out + i * m);
                }
            });
        },
        nb::kw_only(), nb::arg("constant"), nb::arg("indptr"), nb::arg("neighbour"), nb::arg("weight"),
        nb::arg("fixed"), nb::arg("start"), nb::arg("burn_in"), nb::arg("thin"), nb::arg("seed"), nb::arg("stream"),
        nb::arg("draws").noconvert(), nb::arg("n_threads"),
        "The same for two states, with log odds of a constant and the weights of neighbours in state 1.");
}

}  // namespace ff

// Gibbs sampling of a discrete field. In general each chain keeps, for every factor, the flat index of its current
// table entry, so that a variable's conditional costs its factors times its states. Pairwise fields have kernels of
// their own (gibbs.hpp) that run several chains together.
#include <algorithm>
#include <cmath>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "gibbs.hpp"
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

// Most numbers in the rows of a field: for larger ones the second copy of the tables is not worth its memory.
constexpr int64_t most_row_numbers = int64_t{1} << 24;

// The tables of a pairwise field as rows (RowsField). `found` is false for other fields, for very large ones, and where
// the chains do not agree on where a factor's table begins.
class PairRows {
  public:
    PairRows(const Field& field, const double* tables, int64_t table_size, int64_t m, int64_t factors, int64_t chains,
             const int64_t* entries, const int32_t* start)
        : field_(field), m_(m) {
        for (int64_t v = 0; v < m; ++v) {
            for (int32_t k = field.factor_ptr[v]; k < field.factor_ptr[v + 1]; ++k) of_factor_.push_back({v, k});
        }
        std::stable_sort(of_factor_.begin(), of_factor_.end(), [&](const Member& a, const Member& b) {
            return field.factor[a.place] < field.factor[b.place];
        });
        found = find_pairs(factors) && find_tables(table_size, factors, chains, entries, start) && size_of_rows();
        if (found) fill(tables);
    }

    RowsField rows() const {
        return {m_,           field_.cardinality, width_.data(),     own_ptr_.data(),
                own_.data(),  indptr_.data(),     neighbour_.data(), row_ptr_.data(),
                rows_.data(), field_.fixed};
    }
    int64_t widest() const { return m_ ? *std::max_element(width_.begin(), width_.end()) : 0; }

    bool found;

  private:
    struct Member {
        int64_t variable;
        int32_t place;  // in field.factor and field.stride
    };

    bool find_pairs(int64_t factors) {
        first_.assign(static_cast<size_t>(factors) + 1, 0);
        for (const Member& member : of_factor_) ++first_[static_cast<size_t>(field_.factor[member.place]) + 1];
        for (size_t f = 0; f < static_cast<size_t>(factors); ++f) {
            if (first_[f + 1] > 2) return false;
            first_[f + 1] += first_[f];
            if (first_[f + 1] - first_[f] == 2 && of_factor_[first_[f]].variable == of_factor_[first_[f] + 1].variable)
                return false;
        }
        return true;
    }

    // Where the entries of each factor begin, with all of its variables in state 0.
    bool find_tables(int64_t table_size, int64_t factors, int64_t chains, const int64_t* entries,
                     const int32_t* start) {
        for (int64_t f = 0; f < factors; ++f) {
            int64_t reach = 0;
            for (size_t i = first_[static_cast<size_t>(f)]; i < first_[static_cast<size_t>(f) + 1]; ++i)
                reach += int64_t{field_.cardinality[of_factor_[i].variable] - 1} * field_.stride[of_factor_[i].place];
            for (int64_t chain = 0; chain < chains; ++chain) {
                int64_t begin = entries[chain * factors + f];
                for (size_t i = first_[static_cast<size_t>(f)]; i < first_[static_cast<size_t>(f) + 1]; ++i)
                    begin -= int64_t{start[chain * m_ + of_factor_[i].variable]} * field_.stride[of_factor_[i].place];
                if (chain == 0) begin_.push_back(begin);
                if (begin != begin_.back() || begin < 0 || begin + reach >= table_size) return false;
            }
        }
        return true;
    }

    bool size_of_rows() {
        int64_t own = 0, all = 0;
        for (int64_t v = 0; v < m_; ++v) {
            const int64_t width = (int64_t{field_.cardinality[v]} + gibbs_pad - 1) / gibbs_pad * gibbs_pad;
            if (width > most_row_numbers) return false;
            width_.push_back(static_cast<int32_t>(width));
            own_ptr_.push_back(own);
            own += width;
            indptr_.push_back(static_cast<int64_t>(neighbour_.size()));
            for (int32_t k = field_.factor_ptr[v]; k < field_.factor_ptr[v + 1]; ++k) {
                const size_t f = static_cast<size_t>(field_.factor[k]);
                if (first_[f + 1] - first_[f] < 2) continue;
                const Member& other = of_factor_[first_[f] + (of_factor_[first_[f]].variable == v)];
                neighbour_.push_back(static_cast<int32_t>(other.variable));
                row_ptr_.push_back(all);
                all += width * field_.cardinality[other.variable];
                if (own + all > most_row_numbers) return false;
            }
        }
        indptr_.push_back(static_cast<int64_t>(neighbour_.size()));
        own_.assign(static_cast<size_t>(own), 0.0);
        rows_.assign(static_cast<size_t>(all), 0.0);
        return true;
    }

    void fill(const double* tables) {
        size_t next = 0;
        for (int64_t v = 0; v < m_; ++v) {
            const int64_t states = field_.cardinality[v], width = width_[static_cast<size_t>(v)];
            double* own = own_.data() + own_ptr_[static_cast<size_t>(v)];
            for (int32_t k = field_.factor_ptr[v]; k < field_.factor_ptr[v + 1]; ++k) {
                const size_t f = static_cast<size_t>(field_.factor[k]);
                const double* table = tables + begin_[f];
                if (first_[f + 1] - first_[f] < 2) {
                    for (int64_t s = 0; s < states; ++s) own[s] += table[s * field_.stride[k]];
                    continue;
                }
                const Member& other = of_factor_[first_[f] + (of_factor_[first_[f]].variable == v)];
                double* row = rows_.data() + row_ptr_[next++];
                for (int64_t t = 0; t < field_.cardinality[other.variable]; ++t, row += width)
                    for (int64_t s = 0; s < states; ++s)
                        row[s] = table[t * field_.stride[other.place] + s * field_.stride[k]];
            }
        }
    }

    const Field field_;
    const int64_t m_;
    std::vector<Member> of_factor_;  // variables of each factor
    std::vector<size_t> first_;      // (factors + 1)
    std::vector<int64_t> begin_;
    std::vector<int32_t> width_, neighbour_;
    std::vector<int64_t> own_ptr_, indptr_, row_ptr_;
    std::vector<double> own_, rows_;
};

// The draws of all groups of chains: `run(group, states)` samples from states (m, lanes) that it changes.
template <class State>
struct Groups {
    const int32_t* start;
    int64_t m, chains, n;
    int32_t* out;
    Interruption& interruption;

    struct Group {
        const Groups& all;
        int64_t first;
        State* state;
    };

    // Draw i comes from chain i mod chains.
    static bool take(void* context, int64_t draw) {
        const Group& group = *static_cast<const Group*>(context);
        const Groups& all = group.all;
        if (all.interruption.asked()) return false;
        for (int l = 0; draw >= 0 && l < gibbs_lanes && group.first + l < all.chains; ++l) {
            const int64_t i = draw * all.chains + group.first + l;
            if (i >= all.n) break;
            for (int64_t v = 0; v < all.m; ++v)
                all.out[i * all.m + v] = static_cast<int32_t>(group.state[v * gibbs_lanes + l]);
        }
        return true;
    }

    template <class Sample>
    void run(int64_t burn_in, int64_t thin, uint64_t seed, uint32_t stream, int n_threads, const Sample& sample) {
        const int64_t groups = (chains + gibbs_lanes - 1) / gibbs_lanes;
        const int team = static_cast<int>(std::clamp<int64_t>(groups, 1, n_threads));
        const int64_t size = m * gibbs_lanes;
        std::vector<State> states(static_cast<size_t>(team * size));
        for_each_task(groups, team, [&](int64_t g) {
            Group group{*this, g * gibbs_lanes, states.data() + thread_number() * size};
            // Lanes without a chain repeat the last one.
            for (int64_t v = 0; v < m; ++v)
                for (int l = 0; l < gibbs_lanes; ++l)
                    group.state[v * gibbs_lanes + l] = start[std::min(group.first + l, chains - 1) * m + v];
            const int64_t draws = (n - group.first + chains - 1) / chains;
            const GibbsRandom random{seed, stream, static_cast<uint64_t>(group.first)};
            sample(GibbsRun{random, burn_in, thin, draws, &take, &group}, group.state);
        });
    }
};

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
            Interruption interruption;
            if (chains >= gibbs_fewest) {
                const PairRows pairs(field, tables, static_cast<int64_t>(log_tables.shape(0)), m, factors, chains,
                                     entries.data(), start.data());
                if (pairs.found) {
                    const RowsField rows = pairs.rows();
                    const int64_t line = 2 * pairs.widest() * gibbs_lanes;
                    std::vector<double> lines(static_cast<size_t>(n_threads * line));
                    Groups<int32_t>{start.data(), m, chains, n, out, interruption}.run(
                        burn_in, thin, seed, stream, n_threads, [&](const GibbsRun& run, int32_t* state) {
                            FF_CALL(gibbs_rows)(rows, run, state, lines.data() + thread_number() * line);
                        });
                    interruption.raise();
                    return;
                }
            }
            // The chains' own copies of where they are, and a line of weights for each thread.
            std::vector<int64_t> entry(entries.data(), entries.data() + chains * factors);
            std::vector<int32_t> state(start.data(), start.data() + chains * m);
            const int team = static_cast<int>(std::clamp<int64_t>(chains, 1, n_threads));
            std::vector<double> weights(static_cast<size_t>(team) * static_cast<size_t>(most));
            for_each_task(chains, team, [&](int64_t chain) {
                Philox random(seed, stream, static_cast<uint64_t>(chain));
                int64_t* own_entry = entry.data() + chain * factors;
                int32_t* own_state = state.data() + chain * m;
                double* weight = weights.data() + static_cast<int64_t>(thread_number()) * most;
                const auto sweep = [&](int64_t sweeps) {
                    const int64_t step = gibbs_sweeps_between(m);
                    for (int64_t s = 0; s < sweeps && !interruption.asked(); s += step)
                        sweep_chain(field, tables, m, own_entry, own_state, std::min(step, sweeps - s), random, weight);
                };
                sweep(burn_in);
                for (int64_t i = chain; i < n && !interruption.asked(); i += chains) {
                    sweep(thin);
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
            const OddsField field{m, constant.data(), indptr.data(), neighbour.data(), weight.data(), fixed.data()};
            int32_t* out = draws.data();
            nb::gil_scoped_release release;
            Interruption interruption;
            Groups<double>{start.data(), m, chains, n, out, interruption}.run(
                burn_in, thin, seed, stream, n_threads,
                [&](const GibbsRun& run, double* state) { FF_CALL(gibbs_odds)(field, run, state); });
            interruption.raise();
        },
        nb::kw_only(), nb::arg("constant"), nb::arg("indptr"), nb::arg("neighbour"), nb::arg("weight"),
        nb::arg("fixed"), nb::arg("start"), nb::arg("burn_in"), nb::arg("thin"), nb::arg("seed"), nb::arg("stream"),
        nb::arg("draws").noconvert(), nb::arg("n_threads"),
        "The same for two states, with log odds of a constant and the weights of neighbours in state 1.");
}

}  // namespace ff

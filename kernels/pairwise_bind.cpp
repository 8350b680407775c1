// Python's way into the sums over blocks of a binary pairwise field: a problem is checked once, when it is compiled,
// and then evaluated at one point after the other.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "elementwise.hpp"
#include "interruption.hpp"
#include "pairwise.hpp"
#include "team.hpp"

namespace ff {

namespace {

const Checks checks("pairwise");

struct AlignedDelete {
    void operator()(double* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<double[], AlignedDelete>;

Buffer aligned(int64_t count) {
    return Buffer(static_cast<double*>(
        ::operator new[](sizeof(double) * static_cast<size_t>(count > 0 ? count : 1), std::align_val_t{64})));
}

// Samples, graph and blocks of a problem, as named in pairwise.hpp. `meta` goes with the weights that are stored here,
// `meta_weighted` with those of an evaluation.
struct PairwiseArrays {
    int64_t n;
    In2<uint64_t> columns;
    In2<uint32_t> rows;
    In2<int32_t> edges;
    In<int64_t> adjacent_pointer;
    In<int32_t> adjacent, adjacent_edge;
    In2<int64_t> meta, meta_weighted;
    In<int32_t> targets, pairs;
    In<double> beta;
    In<int64_t> indptr;
    In<int32_t> entry_component;
    In<double> row_weight, entry_weight;
};

// Where an evaluation is made, and where its results go. Null pointers are not needed by its mode.
struct PairwisePoint {
    PairwiseMode mode;
    In<double> q, bias;
    const double *dq = nullptr, *dbias = nullptr;
    double state0 = 0.0, state_gap = 1.0;
    std::optional<In<double>> row_weight = std::nullopt, entry_weight = std::nullopt;
    double *edges_out = nullptr, *biases_out = nullptr, *outer_out = nullptr;
    double *row_out = nullptr, *entry_out = nullptr, *residual = nullptr, *pair_terms = nullptr;
    int n_threads = 1;
};

class PairwiseBlocks {
  public:
    explicit PairwiseBlocks(const PairwiseArrays& arrays) : arrays_(arrays) {
        check_samples();
        check_graph();
        check_blocks();
        parts_ = read_parts(arrays_.meta);
        weighted_parts_ = read_parts(arrays_.meta_weighted);
        check_weights(parts_, arrays_.row_weight, arrays_.entry_weight);
        ends_.resize(static_cast<size_t>(2 * plan_.n_edges));
        for (int64_t e = 0; e < plan_.n_edges; ++e) {
            ends_[static_cast<size_t>(e)] = arrays_.edges.data()[2 * e];
            ends_[static_cast<size_t>(plan_.n_edges + e)] = arrays_.edges.data()[2 * e + 1];
        }
        plan_.edge_a = ends_.data();
        plan_.edge_b = ends_.data() + plan_.n_edges;
    }

    PairwiseBlocks(const PairwiseBlocks&) = delete;

    void check_direction(const In<double>& dq, const In<double>& dbias) const {
        checks.length("dq", dq.shape(0), static_cast<size_t>(plan_.n_edges));
        checks.length("dbias", dbias.shape(0), static_cast<size_t>(plan_.m));
    }

    void check_sums(const Out<double>& edges_out, const Out<double>& biases_out) const {
        checks.length("edges_out", edges_out.shape(0), static_cast<size_t>(plan_.n_edges));
        checks.length("biases_out", biases_out.shape(0), static_cast<size_t>(plan_.m));
    }

    void check_outer(const Out2<double>& outer_out) const {
        const auto size = static_cast<size_t>(plan_.m);
        checks.require(plan_.dense && outer_out.shape(0) == size && outer_out.shape(1) == size,
                       "outer_out must be variables by variables, for a problem with matrix products");
    }

    void check_lines(const Out2<double>& row_out, const Out<double>& entry_out) const {
        checks.require(
            parts_.empty() || (row_out.shape(0) == parts_.size() && static_cast<int64_t>(row_out.shape(1)) == plan_.n),
            "row_out needs a line for each part and a column for each sample");
        checks.length("entry_out", entry_out.shape(0), arrays_.entry_component.shape(0));
    }

    void check_scores(const Out2<double>& residual, const Out2<double>& pair_terms) const {
        const auto is = [&](const Out2<double>& table, int64_t width) {
            return static_cast<int64_t>(table.shape(0)) == plan_.n && static_cast<int64_t>(table.shape(1)) == width;
        };
        checks.require(is(residual, plan_.m) && is(pair_terms, plan_.n_edges),
                       "residual must be samples by variables and pair_terms samples by edges");
    }

    double evaluate(const PairwisePoint& at) const;

  private:
    void check_samples();
    void check_graph();
    void check_blocks();
    std::vector<PairwisePart> read_parts(const In2<int64_t>& meta) const;
    void check_weights(const std::vector<PairwisePart>& parts, const In<double>& row_weight,
                       const In<double>& entry_weight) const;
    void finish(const PairwisePoint& at, const PairwisePlan& plan, const PairwiseSums& total) const;

    PairwiseArrays arrays_;
    PairwisePlan plan_{};  // without what changes from one evaluation to the next
    std::vector<PairwisePart> parts_, weighted_parts_;
    std::vector<int32_t> ends_;
};

void PairwiseBlocks::check_samples() {
    const int64_t n = arrays_.n, tiles = static_cast<int64_t>(arrays_.columns.shape(0));
    checks.require(n >= 1 && tiles == (n + pairwise_tile - 1) / pairwise_tile, "columns needs one line for 64 samples");
    plan_.n = n;
    plan_.n_padded = tiles * pairwise_tile;
    plan_.m = static_cast<int64_t>(arrays_.columns.shape(1));
    checks.require(plan_.m >= 1, "there are no variables");
    plan_.m_padded = (plan_.m + pairwise_panel - 1) / pairwise_panel * pairwise_panel;
    plan_.row_words = (plan_.m + 31) / 32;
    plan_.dense = arrays_.rows.shape(0) > 0;
    if (plan_.dense)
        checks.require(static_cast<int64_t>(arrays_.rows.shape(0)) == plan_.n_padded &&
                           static_cast<int64_t>(arrays_.rows.shape(1)) == plan_.row_words,
                       "rows needs 64 lines for each line of columns and a word for 32 variables");
    plan_.columns = arrays_.columns.data();
    plan_.rows = arrays_.rows.data();
    // Chunks depend on the sizes only, so that the sums are the same for any number of threads.
    plan_.chunk = std::min<int64_t>(512, plan_.n_padded);
}

void PairwiseBlocks::check_graph() {
    plan_.n_edges = static_cast<int64_t>(arrays_.edges.shape(0));
    const int64_t m = plan_.m, n_edges = plan_.n_edges;
    checks.require(n_edges == 0 || arrays_.edges.shape(1) == 2, "edges must have two columns");
    checks.within("an edge names a variable that does not exist", arrays_.edges.data(), 2 * n_edges, 0, m);
    if (plan_.dense) return;
    checks.length("adjacent_pointer", arrays_.adjacent_pointer.shape(0), static_cast<size_t>(m + 1));
    checks.length("adjacent", arrays_.adjacent.shape(0), static_cast<size_t>(2 * n_edges));
    checks.length("adjacent_edge", arrays_.adjacent_edge.shape(0), static_cast<size_t>(2 * n_edges));
    checks.require(checks.pointers("adjacent_pointer", arrays_.adjacent_pointer.data(), m) == 2 * n_edges,
                   "the adjacency must list every edge twice");
    checks.within("adjacent names a variable that does not exist", arrays_.adjacent.data(), 2 * n_edges, 0, m);
    checks.within("adjacent_edge names an edge that does not exist", arrays_.adjacent_edge.data(), 2 * n_edges, 0,
                  n_edges);
    plan_.adjacent_pointer = arrays_.adjacent_pointer.data();
    plan_.adjacent = arrays_.adjacent.data();
    plan_.adjacent_edge = arrays_.adjacent_edge.data();
}

void PairwiseBlocks::check_blocks() {
    checks.within("a block names a variable that does not exist", arrays_.targets.data(),
                  static_cast<int64_t>(arrays_.targets.shape(0)), 0, plan_.m);
    checks.within("a block names an edge that does not exist", arrays_.pairs.data(),
                  static_cast<int64_t>(arrays_.pairs.shape(0)), -1, plan_.n_edges);
    plan_.targets = arrays_.targets.data();
    plan_.pairs = arrays_.pairs.data();
    plan_.beta = arrays_.beta.data();
    plan_.indptr = arrays_.indptr.data();
    plan_.entry_component = arrays_.entry_component.data();
}

std::vector<PairwisePart> PairwiseBlocks::read_parts(const In2<int64_t>& meta) const {
    static_assert(sizeof(PairwisePart) == sizeof(int64_t) * pairwise_meta_columns);
    checks.require(meta.shape(0) == 0 || meta.shape(1) == pairwise_meta_columns, "meta must have ten columns");
    checks.length("meta_weighted", arrays_.meta_weighted.shape(0), arrays_.meta.shape(0));
    std::vector<PairwisePart> parts;
    for (size_t s = 0; s < meta.shape(0); ++s) {
        const int64_t* line = meta.data() + s * pairwise_meta_columns;
        const PairwisePart part{line[0], line[1], line[2], line[3], line[4],
                                line[5], line[6], line[7], line[8], line[9]};
        const int64_t k = part.k, count = part.n_components;
        checks.require(k >= 1 && k <= pairwise_most, "blocks must have 1 to 12 variables");
        checks.require(part.form == 0 || part.form == 1, "the form of a part must be 0 or 1");
        checks.range("beta", part.beta, count, arrays_.beta.shape(0));
        if (part.form == 0 && k == 1) {
            checks.require(count == plan_.m, "single variables need one weight each");
        } else {
            checks.range("targets", part.target, count * k, arrays_.targets.shape(0));
            checks.range("pairs", part.pair, count * (k * (k - 1) / 2), arrays_.pairs.shape(0));
        }
        if (part.form == 1) {
            checks.range("indptr", part.indptr, plan_.n + 1, arrays_.indptr.shape(0));
            const int64_t entries = checks.pointers("indptr", arrays_.indptr.data() + part.indptr, plan_.n);
            checks.range("entry_component", part.entry, entries, arrays_.entry_component.shape(0));
            checks.within("an entry names a component that does not exist", arrays_.entry_component.data() + part.entry,
                          entries, 0, count);
        }
        parts.push_back(part);
    }
    return parts;
}

void PairwiseBlocks::check_weights(const std::vector<PairwisePart>& parts, const In<double>& row_weight,
                                   const In<double>& entry_weight) const {
    for (const PairwisePart& part : parts) {
        if (part.form == 0 && part.row_weight != -1)
            checks.range("row_weight", part.row_weight, plan_.n, row_weight.shape(0));
        if (part.form == 1 && part.entry_weight != -1)
            checks.range("entry_weight", part.entry_weight, plan_.indptr[part.indptr + plan_.n], entry_weight.shape(0));
    }
}

// The sums of all tasks, for the modes that sum.
void PairwiseBlocks::finish(const PairwisePoint& at, const PairwisePlan& plan, const PairwiseSums& total) const {
    for (int64_t e = 0; e < plan.n_edges; ++e) {
        at.edges_out[e] = total.edges[e];
        if (plan.dense)
            at.edges_out[e] += plan.outer_scale * (total.outer[plan.edge_a[e] * plan.m_padded + plan.edge_b[e]] +
                                                   total.outer[plan.edge_b[e] * plan.m_padded + plan.edge_a[e]]);
    }
    std::copy(total.biases, total.biases + plan.m, at.biases_out);
    if (at.outer_out)
        for (int64_t k = 0; k < plan.m; ++k)
            std::copy(total.outer + k * plan.m_padded, total.outer + k * plan.m_padded + plan.m,
                      at.outer_out + k * plan.m);
}

double PairwiseBlocks::evaluate(const PairwisePoint& at) const {
    const int64_t m = plan_.m, n_edges = plan_.n_edges;
    const bool direction = at.mode == PairwiseMode::hessian || at.mode == PairwiseMode::products;
    checks.threads(at.n_threads);
    checks.length("q", at.q.shape(0), static_cast<size_t>(n_edges));
    checks.length("bias", at.bias.shape(0), static_cast<size_t>(m));
    checks.require(at.row_weight.has_value() == at.entry_weight.has_value(), "row_weight needs entry_weight");
    const std::vector<PairwisePart>& parts = at.row_weight ? weighted_parts_ : parts_;
    const In<double>& row_weight = at.row_weight ? *at.row_weight : arrays_.row_weight;
    const In<double>& entry_weight = at.entry_weight ? *at.entry_weight : arrays_.entry_weight;
    if (at.row_weight) check_weights(parts, row_weight, entry_weight);
    nb::gil_scoped_release release;

    PairwisePlan plan = plan_;
    plan.mode = at.mode;
    plan.parts = parts.data();
    plan.n_parts = static_cast<int64_t>(parts.size());
    plan.row_weight = row_weight.data();
    plan.entry_weight = entry_weight.data();
    plan.q = at.q.data();
    plan.bias = at.bias.data();
    plan.dq = at.dq;
    plan.dbias = at.dbias;
    plan.state0 = at.state0;
    plan.state_gap = at.state_gap;
    plan.outer_scale = at.mode == PairwiseMode::diagonal
                           ? at.state_gap * at.state_gap * at.state_gap * (2.0 * at.state0 + at.state_gap)
                           : 1.0;
    plan.row_out = at.row_out;
    plan.entry_out = at.entry_out;
    plan.residual = at.residual;
    plan.pair_terms = at.pair_terms;

    Buffer exponents = aligned(3 * n_edges);
    for (int64_t e = 0; e < n_edges; ++e) {
        exponents[2 * n_edges + e] = -plan.q[e];
        // The negation keeps NaN out of the fast route.
        if (!(std::fabs(plan.q[e]) <= plan.largest_q)) plan.largest_q = std::fabs(plan.q[e]);
    }
    FF_CALL(exp_array)(plan.q, exponents.get(), n_edges);
    FF_CALL(exp_array)(exponents.get() + 2 * n_edges, exponents.get() + n_edges, n_edges);
    plan.exp_q = exponents.get();
    plan.exp_minus_q = exponents.get() + n_edges;

    const int64_t matrix_size = plan.dense ? plan.row_words * 32 * plan.m_padded : 0;
    Buffer matrices = aligned(direction ? 2 * matrix_size : matrix_size);
    std::fill(matrices.get(), matrices.get() + (direction ? 2 * matrix_size : matrix_size), 0.0);
    plan.matrix = matrices.get();
    plan.dmatrix = matrices.get() + matrix_size;
    if (plan.dense)
        for (int64_t e = 0; e < n_edges; ++e)
            for (int which = 0; which < (direction ? 2 : 1); ++which) {
                double* to = matrices.get() + which * matrix_size;
                const double weight = which ? plan.dq[e] : plan.q[e];
                to[plan.edge_a[e] * plan.m_padded + plan.edge_b[e]] += weight;
                to[plan.edge_b[e] * plan.m_padded + plan.edge_a[e]] += weight;
            }

    // Tasks depend on the sizes only, as chunks do.
    const int64_t chunks = (plan.n_padded + plan.chunk - 1) / plan.chunk;
    const int64_t sums_size = (n_edges + m + 7) / 8 * 8 + matrix_size;
    const int64_t most_tasks = std::clamp<int64_t>((int64_t{1} << 21) / sums_size, 8, 32);
    const int64_t chunks_of_task = (chunks + most_tasks - 1) / most_tasks;
    const int64_t tasks = (chunks + chunks_of_task - 1) / chunks_of_task;
    Buffer memory = aligned(tasks * sums_size);
    std::vector<PairwiseSums> sums(static_cast<size_t>(tasks));
    for (int64_t t = 0; t < tasks; ++t) {
        double* base = memory.get() + t * sums_size;
        sums[static_cast<size_t>(t)] = PairwiseSums{0.0, base, base + n_edges, base + (n_edges + m + 7) / 8 * 8};
    }
    const int team = static_cast<int>(std::min<int64_t>(at.n_threads, tasks));
    const int64_t scratch_size = (FF_CALL(pairwise_scratch)(plan) + 7) / 8 * 8;
    Buffer scratch = aligned(team * scratch_size);
    Interruption interruption;
    for_each_task(tasks, team, [&](int64_t t) {
        double* own = scratch.get() + thread_number() * scratch_size;
        PairwiseSums& task = sums[static_cast<size_t>(t)];
        std::fill(task.edges, task.edges + sums_size, 0.0);
        const int64_t last = std::min((t + 1) * chunks_of_task, chunks);
        for (int64_t chunk = t * chunks_of_task; chunk < last && !interruption.asked(); ++chunk)
            FF_CALL(pairwise_chunks)(plan, chunk, chunk + 1, own, &task);
    });
    interruption.raise();
    double value = 0.0;
    for (const PairwiseSums& task : sums) value += task.value;
    if (!at.edges_out) return value;
    PairwiseSums& total = sums[0];
    for (int64_t t = 1; t < tasks; ++t) {
        const double* from = sums[static_cast<size_t>(t)].edges;
        for (int64_t i = 0; i < sums_size; ++i) total.edges[i] += from[i];
    }
    finish(at, plan, total);
    return value;
}

using Weights = std::optional<In<double>>;

}  // namespace

void bind_pairwise(nb::module_& module) {
    nb::class_<PairwiseBlocks>(module, "PairwiseBlocks",
                               "Blocks of a binary pairwise field given all the rest, compiled with samples.\n\n"
                               "The arrays are those of kernels/pairwise.hpp. Their indices are checked here, once.")
        .def(
            "__init__",
            [](PairwiseBlocks* self, int64_t n, In2<uint64_t> columns, In2<uint32_t> rows, In2<int32_t> edges,
               In<int64_t> adjacent_pointer, In<int32_t> adjacent, In<int32_t> adjacent_edge, In2<int64_t> meta,
               In2<int64_t> meta_weighted, In<int32_t> targets, In<int32_t> pairs, In<double> beta, In<int64_t> indptr,
               In<int32_t> entry_component, In<double> row_weight, In<double> entry_weight) {
                new (self) PairwiseBlocks(PairwiseArrays{n, columns, rows, edges, adjacent_pointer, adjacent,
                                                         adjacent_edge, meta, meta_weighted, targets, pairs, beta,
                                                         indptr, entry_component, row_weight, entry_weight});
            },
            nb::kw_only(), nb::arg("n"), nb::arg("columns"), nb::arg("rows"), nb::arg("edges"),
            nb::arg("adjacent_pointer"), nb::arg("adjacent"), nb::arg("adjacent_edge"), nb::arg("meta"),
            nb::arg("meta_weighted"), nb::arg("targets"), nb::arg("pairs"), nb::arg("beta"), nb::arg("indptr"),
            nb::arg("entry_component"), nb::arg("row_weight"), nb::arg("entry_weight"))
        .def(
            "gradient",
            [](const PairwiseBlocks& self, In<double> q, In<double> bias, Weights row_weight, Weights entry_weight,
               Out<double> edges_out, Out<double> biases_out, std::optional<Out2<double>> outer_out, int n_threads) {
                self.check_sums(edges_out, biases_out);
                PairwisePoint at{PairwiseMode::gradient, q, bias};
                if (outer_out) {
                    self.check_outer(*outer_out);
                    at.outer_out = outer_out->data();
                }
                at.row_weight = row_weight;
                at.entry_weight = entry_weight;
                at.edges_out = edges_out.data();
                at.biases_out = biases_out.data();
                at.n_threads = n_threads;
                return self.evaluate(at);
            },
            nb::arg("q"), nb::arg("bias"), nb::kw_only(), nb::arg("row_weight") = nb::none(),
            nb::arg("entry_weight") = nb::none(), nb::arg("edges_out").noconvert(), nb::arg("biases_out").noconvert(),
            nb::arg("outer_out").noconvert() = nb::none(), nb::arg("n_threads"),
            "The value; its gradient goes to edges_out and biases_out. outer_out[k, j] takes the sum of r_j c_k.")
        .def(
            "hessian_product",
            [](const PairwiseBlocks& self, In<double> q, In<double> bias, In<double> dq, In<double> dbias,
               Weights row_weight, Weights entry_weight, Out<double> edges_out, Out<double> biases_out, int n_threads) {
                self.check_direction(dq, dbias);
                self.check_sums(edges_out, biases_out);
                PairwisePoint at{PairwiseMode::hessian, q, bias};
                at.dq = dq.data();
                at.dbias = dbias.data();
                at.row_weight = row_weight;
                at.entry_weight = entry_weight;
                at.edges_out = edges_out.data();
                at.biases_out = biases_out.data();
                at.n_threads = n_threads;
                self.evaluate(at);
            },
            nb::arg("q"), nb::arg("bias"), nb::arg("dq"), nb::arg("dbias"), nb::kw_only(),
            nb::arg("row_weight") = nb::none(), nb::arg("entry_weight") = nb::none(), nb::arg("edges_out").noconvert(),
            nb::arg("biases_out").noconvert(), nb::arg("n_threads"),
            "The Hessian times the direction (dq, dbias), into edges_out and biases_out.")
        .def(
            "diagonal",
            [](const PairwiseBlocks& self, In<double> q, In<double> bias, double state0, double state_gap,
               Weights row_weight, Weights entry_weight, Out<double> edges_out, Out<double> biases_out, int n_threads) {
                self.check_sums(edges_out, biases_out);
                PairwisePoint at{PairwiseMode::diagonal, q, bias};
                at.state0 = state0;
                at.state_gap = state_gap;
                at.row_weight = row_weight;
                at.entry_weight = entry_weight;
                at.edges_out = edges_out.data();
                at.biases_out = biases_out.data();
                at.n_threads = n_threads;
                self.evaluate(at);
            },
            nb::arg("q"), nb::arg("bias"), nb::kw_only(), nb::arg("state0"), nb::arg("state_gap"),
            nb::arg("row_weight") = nb::none(), nb::arg("entry_weight") = nb::none(), nb::arg("edges_out").noconvert(),
            nb::arg("biases_out").noconvert(), nb::arg("n_threads"),
            "The curvature of each parameter, for variables with the states state0 and state0 + state_gap.")
        .def(
            "values",
            [](const PairwiseBlocks& self, In<double> q, In<double> bias, Out2<double> row_out, Out<double> entry_out,
               int n_threads) {
                self.check_lines(row_out, entry_out);
                PairwisePoint at{PairwiseMode::values, q, bias};
                at.row_out = row_out.data();
                at.entry_out = entry_out.data();
                at.n_threads = n_threads;
                self.evaluate(at);
            },
            nb::arg("q"), nb::arg("bias"), nb::kw_only(), nb::arg("row_out").noconvert(),
            nb::arg("entry_out").noconvert(), nb::arg("n_threads"),
            "The log-likelihood of each sample (parts, n) or listed entry.")
        .def(
            "products",
            [](const PairwiseBlocks& self, In<double> q, In<double> bias, In<double> dq, In<double> dbias,
               Out2<double> row_out, Out<double> entry_out, int n_threads) {
                self.check_direction(dq, dbias);
                self.check_lines(row_out, entry_out);
                PairwisePoint at{PairwiseMode::products, q, bias};
                at.dq = dq.data();
                at.dbias = dbias.data();
                at.row_out = row_out.data();
                at.entry_out = entry_out.data();
                at.n_threads = n_threads;
                self.evaluate(at);
            },
            nb::arg("q"), nb::arg("bias"), nb::arg("dq"), nb::arg("dbias"), nb::kw_only(),
            nb::arg("row_out").noconvert(), nb::arg("entry_out").noconvert(), nb::arg("n_threads"),
            "The score of each sample (parts, n) or listed entry times the direction (dq, dbias).")
        .def(
            "scores",
            [](const PairwiseBlocks& self, In<double> q, In<double> bias, Out2<double> residual,
               Out2<double> pair_terms, int n_threads) {
                self.check_scores(residual, pair_terms);
                PairwisePoint at{PairwiseMode::scores, q, bias};
                at.residual = residual.data();
                at.pair_terms = pair_terms.data();
                at.n_threads = n_threads;
                self.evaluate(at);
            },
            nb::arg("q"), nb::arg("bias"), nb::kw_only(), nb::arg("residual").noconvert(),
            nb::arg("pair_terms").noconvert(), nb::arg("n_threads"),
            "The residuals (n, variables) and pair terms (n, edges) of which the scores are made.");
}

}  // namespace ff

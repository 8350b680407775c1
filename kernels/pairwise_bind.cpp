#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "elementwise.hpp"
#include "pairwise.hpp"

namespace ff {

namespace {

struct AlignedDelete {
    void operator()(double* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<double[], AlignedDelete>;

Buffer aligned(int64_t count) {
    return Buffer(static_cast<double*>(
        ::operator new[](sizeof(double) * static_cast<size_t>(count > 0 ? count : 1), std::align_val_t{64})));
}

void require(bool holds, const char* message) {
    if (!holds) throw std::invalid_argument(std::string("pairwise: ") + message);
}

// Whether low <= index < high for all; written so that it becomes vector code.
bool all_within(const int32_t* index, int64_t count, int64_t low, int64_t high) {
    int32_t least = 0, most = -1;
    for (int64_t i = 0; i < count; ++i) {
        least = std::min(least, index[i]);
        most = std::max(most, index[i]);
    }
    return count == 0 || (least >= low && most < high);
}

bool inside(int64_t offset, int64_t count, size_t size) {
    return offset >= 0 && count >= 0 && offset <= static_cast<int64_t>(size) &&
           count <= static_cast<int64_t>(size) - offset;
}

}  // namespace

static double pairwise(int mode, int64_t n, In2<uint64_t> columns, In2<uint32_t> rows, In2<int32_t> edges,
                       In<int64_t> adjacent_pointer, In<int32_t> adjacent, In<int32_t> adjacent_edge, In<double> q,
                       In<double> bias, In<double> dq, In<double> dbias, double state0, double state_gap,
                       In2<int64_t> meta, In<int32_t> targets, In<int32_t> pairs, In<double> beta,
                       In<double> row_weight, In<int64_t> indptr, In<int32_t> entry_component, In<double> entry_weight,
                       Out<double> edges_out, Out<double> biases_out, Out2<double> row_out, Out<double> entry_out,
                       Out2<double> residual, Out2<double> pair_terms, int n_threads) {
    nb::gil_scoped_release release;
    PairwisePlan plan{};
    require(mode >= 0 && mode <= 5, "unknown mode");
    require(n_threads >= 1, "n_threads must be at least 1");
    plan.mode = static_cast<PairwiseMode>(mode);
    const bool direction = plan.mode == PairwiseMode::hessian || plan.mode == PairwiseMode::products;
    plan.n = n;
    const int64_t tiles = static_cast<int64_t>(columns.shape(0));
    plan.n_padded = tiles * pairwise_tile;
    require(n >= 1 && tiles == (n + pairwise_tile - 1) / pairwise_tile, "columns needs one line for 64 samples");
    plan.m = static_cast<int64_t>(columns.shape(1));
    require(plan.m >= 1, "there are no variables");
    plan.m_padded = (plan.m + pairwise_panel - 1) / pairwise_panel * pairwise_panel;
    plan.n_edges = static_cast<int64_t>(edges.shape(0));
    plan.row_words = (plan.m + 31) / 32;
    plan.dense = rows.shape(0) > 0;
    if (plan.dense)
        require(static_cast<int64_t>(rows.shape(0)) == plan.n_padded &&
                    static_cast<int64_t>(rows.shape(1)) == plan.row_words,
                "rows needs 64 lines for each line of columns and a word for 32 variables");
    require(plan.n_edges == 0 || edges.shape(1) == 2, "edges must have two columns");
    const int64_t m = plan.m, n_edges = plan.n_edges;
    require(all_within(edges.data(), 2 * n_edges, 0, m), "an edge names a variable that does not exist");
    require(static_cast<int64_t>(q.shape(0)) == n_edges && static_cast<int64_t>(bias.shape(0)) == m,
            "q needs one number for each edge and bias one for each variable");
    if (direction)
        require(static_cast<int64_t>(dq.shape(0)) == n_edges && static_cast<int64_t>(dbias.shape(0)) == m,
                "dq needs one number for each edge and dbias one for each variable");
    if (!plan.dense) {
        require(static_cast<int64_t>(adjacent_pointer.shape(0)) == m + 1 &&
                    static_cast<int64_t>(adjacent.shape(0)) == 2 * n_edges &&
                    static_cast<int64_t>(adjacent_edge.shape(0)) == 2 * n_edges,
                "the adjacency must list every edge twice");
        const int64_t* p = adjacent_pointer.data();
        require(p[0] == 0 && p[m] == 2 * n_edges, "the adjacency's pointers must run from 0 to twice the edges");
        for (int64_t j = 0; j < m; ++j) require(p[j] <= p[j + 1], "the adjacency's pointers must not decrease");
        require(
            all_within(adjacent.data(), 2 * n_edges, 0, m) && all_within(adjacent_edge.data(), 2 * n_edges, 0, n_edges),
            "the adjacency names something that does not exist");
    }
    require(all_within(targets.data(), static_cast<int64_t>(targets.shape(0)), 0, m),
            "a block names a variable that does not exist");
    require(all_within(pairs.data(), static_cast<int64_t>(pairs.shape(0)), -1, n_edges),
            "a block names an edge that does not exist");
    plan.n_parts = static_cast<int64_t>(meta.shape(0));
    require(plan.n_parts == 0 || meta.shape(1) == pairwise_meta_columns, "meta must have ten columns");
    static_assert(sizeof(PairwisePart) == sizeof(int64_t) * pairwise_meta_columns);
    std::vector<PairwisePart> parts(static_cast<size_t>(plan.n_parts));
    for (int64_t s = 0; s < plan.n_parts; ++s) {
        const int64_t* line = meta.data() + s * pairwise_meta_columns;
        const PairwisePart part{line[0], line[1], line[2], line[3], line[4],
                                line[5], line[6], line[7], line[8], line[9]};
        const int64_t k = part.k, count = part.n_components;
        require(k >= 1 && k <= pairwise_most, "blocks must have 1 to 12 variables");
        require(part.form == 0 || part.form == 1, "the form of a part must be 0 or 1");
        require(inside(part.beta, count, beta.shape(0)), "beta is too short");
        if (part.form == 0 && k == 1) {
            require(count == m, "single variables need one weight each");
        } else {
            require(inside(part.target, count * k, targets.shape(0)), "targets is too short");
            require(inside(part.pair, count * (k * (k - 1) / 2), pairs.shape(0)), "pairs is too short");
        }
        if (part.form == 0) {
            require(part.row_weight == -1 || inside(part.row_weight, n, row_weight.shape(0)),
                    "row_weight is too short");
        } else {
            require(inside(part.indptr, n + 1, indptr.shape(0)), "indptr is too short");
            const int64_t* p = indptr.data() + part.indptr;
            require(p[0] == 0, "indptr must begin with 0");
            int64_t falls = 0;
            for (int64_t i = 0; i < n; ++i) falls += p[i + 1] < p[i];
            require(falls == 0, "indptr must not decrease");
            require(inside(part.entry, p[n], entry_component.shape(0)), "entry_component is too short");
            require(all_within(entry_component.data() + part.entry, p[n], 0, count),
                    "an entry names a component that does not exist");
            require(part.entry_weight == -1 || inside(part.entry_weight, p[n], entry_weight.shape(0)),
                    "entry_weight is too short");
        }
        parts[static_cast<size_t>(s)] = part;
    }
    const bool by_row = plan.mode == PairwiseMode::values || plan.mode == PairwiseMode::products;
    if (by_row) {
        require(plan.n_parts == 0 || (static_cast<int64_t>(row_out.shape(0)) == plan.n_parts &&
                                      static_cast<int64_t>(row_out.shape(1)) == n),
                "row_out needs a line for each part and a column for each sample");
        require(entry_out.shape(0) == entry_component.shape(0), "entry_out needs one number for each entry");
    } else {
        require(static_cast<int64_t>(edges_out.shape(0)) == n_edges && static_cast<int64_t>(biases_out.shape(0)) == m,
                "edges_out needs one number for each edge and biases_out one for each variable");
    }
    if (plan.mode == PairwiseMode::scores)
        require(static_cast<int64_t>(residual.shape(0)) == n && static_cast<int64_t>(residual.shape(1)) == m &&
                    static_cast<int64_t>(pair_terms.shape(0)) == n &&
                    static_cast<int64_t>(pair_terms.shape(1)) == n_edges,
                "residual must be samples by variables and pair_terms samples by edges");

    plan.columns = columns.data();
    plan.rows = rows.data();
    plan.adjacent_pointer = adjacent_pointer.data();
    plan.adjacent = adjacent.data();
    plan.adjacent_edge = adjacent_edge.data();
    plan.q = q.data();
    plan.bias = bias.data();
    plan.dq = dq.data();
    plan.dbias = dbias.data();
    plan.state0 = state0;
    plan.state_gap = state_gap;
    plan.outer_scale =
        plan.mode == PairwiseMode::diagonal ? state_gap * state_gap * state_gap * (2.0 * state0 + state_gap) : 1.0;
    plan.parts = parts.data();
    plan.targets = targets.data();
    plan.pairs = pairs.data();
    plan.beta = beta.data();
    plan.row_weight = row_weight.data();
    plan.entry_weight = entry_weight.data();
    plan.indptr = indptr.data();
    plan.entry_component = entry_component.data();
    plan.row_out = row_out.data();
    plan.entry_out = entry_out.data();
    plan.residual = residual.data();
    plan.pair_terms = pair_terms.data();

    std::vector<int32_t> ends(static_cast<size_t>(2 * n_edges));
    Buffer exponents = aligned(3 * n_edges);
    for (int64_t e = 0; e < n_edges; ++e) {
        ends[static_cast<size_t>(e)] = edges.data()[2 * e];
        ends[static_cast<size_t>(n_edges + e)] = edges.data()[2 * e + 1];
        exponents[2 * n_edges + e] = -q.data()[e];
        // The negation keeps NaN out of the fast route.
        if (!(std::fabs(q.data()[e]) <= plan.largest_q)) plan.largest_q = std::fabs(q.data()[e]);
    }
    plan.edge_a = ends.data();
    plan.edge_b = ends.data() + n_edges;
    FF_CALL(exp_array)(q.data(), exponents.get(), n_edges);
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
                const double weight = which ? dq.data()[e] : q.data()[e];
                to[plan.edge_a[e] * plan.m_padded + plan.edge_b[e]] += weight;
                to[plan.edge_b[e] * plan.m_padded + plan.edge_a[e]] += weight;
            }

    // Chunks and tasks depend on the sizes only, so that the sums are the same for any number of threads.
    plan.chunk = std::min<int64_t>(512, plan.n_padded);
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
    const int threads = static_cast<int>(std::min<int64_t>(n_threads, tasks));
    const int64_t scratch_size = (FF_CALL(pairwise_scratch)(plan) + 7) / 8 * 8;
    Buffer scratch = aligned(threads * scratch_size);
    int64_t next = 0;
    (void)next;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        double* own = nullptr;
#pragma omp critical(pairwise_scratch_share)
        {
            own = scratch.get() + next * scratch_size;
            ++next;
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t t = 0; t < tasks; ++t) {
            PairwiseSums& task = sums[static_cast<size_t>(t)];
            std::fill(task.edges, task.edges + sums_size, 0.0);
            FF_CALL(pairwise_chunks)
            (plan, t * chunks_of_task, std::min((t + 1) * chunks_of_task, chunks), own, &task);
        }
    }
    double value = 0.0;
    for (const PairwiseSums& task : sums) value += task.value;
    if (by_row) return value;
    PairwiseSums& total = sums[0];
    for (int64_t t = 1; t < tasks; ++t) {
        const double* from = sums[static_cast<size_t>(t)].edges;
        for (int64_t i = 0; i < sums_size; ++i) total.edges[i] += from[i];
    }
    for (int64_t e = 0; e < n_edges; ++e) {
        edges_out.data()[e] = total.edges[e];
        if (plan.dense)
            edges_out.data()[e] += plan.outer_scale * (total.outer[plan.edge_a[e] * plan.m_padded + plan.edge_b[e]] +
                                                       total.outer[plan.edge_b[e] * plan.m_padded + plan.edge_a[e]]);
    }
    std::copy(total.biases, total.biases + m, biases_out.data());
    return value;
}

void bind_pairwise(nb::module_& module) {
    module.def("pairwise", &pairwise, nb::arg("mode"), nb::arg("n"), nb::arg("columns"), nb::arg("rows"),
               nb::arg("edges"), nb::arg("adjacent_pointer"), nb::arg("adjacent"), nb::arg("adjacent_edge"),
               nb::arg("q"), nb::arg("bias"), nb::arg("dq"), nb::arg("dbias"), nb::arg("state0"), nb::arg("state_gap"),
               nb::arg("meta"), nb::arg("targets"), nb::arg("pairs"), nb::arg("beta"), nb::arg("row_weight"),
               nb::arg("indptr"), nb::arg("entry_component"), nb::arg("entry_weight"), nb::arg("edges_out"),
               nb::arg("biases_out"), nb::arg("row_out"), nb::arg("entry_out"), nb::arg("residual"),
               nb::arg("pair_terms"), nb::arg("n_threads"),
               "Sums over samples for blocks of a binary pairwise field given all the rest; returns the value.\n\n"
               "The modes and arrays are those of kernels/pairwise.hpp; arrays that a mode does not need are empty.");
}

}  // namespace ff

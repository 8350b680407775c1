#include <string>
#include <vector>

#include "bindings.hpp"
#include "pairwise_information.hpp"

namespace ff {

// Samples are split into so many ranges, whatever the number of threads.
constexpr int64_t information_ranges = 8;
constexpr int64_t information_largest = 12;

void bind_pairwise_information(nb::module_& module) {
    module.def(
        "pairwise_information",
        [](In2<uint8_t> codes, In2<int32_t> edge_number, In2<double> matrix, In<double> bias, In2<int32_t> targets,
           In<double> beta, In<double> row_weight, In<int64_t> indptr, In<int32_t> component, In<double> entry_weight,
           Out2<double> out, int n_threads) {
            const auto refuse = [](const std::string& what) {
                throw nb::value_error(("pairwise_information: " + what).c_str());
            };
            const auto need = [&](const char* name, size_t given, size_t wanted) {
                if (given != wanted)
                    refuse(std::string(name) + " has " + std::to_string(given) + " entries where " +
                           std::to_string(wanted) + " are needed");
            };
            const size_t n = codes.shape(0), m = codes.shape(1), k = targets.shape(1), count = targets.shape(0);
            if (k < 1 || k > static_cast<size_t>(information_largest) || k > m)
                refuse("a block must have 1 to " + std::to_string(information_largest) + " variables of the field");
            if (n_threads < 1) refuse("there must be at least one thread");
            need("edge_number", edge_number.shape(0), m);
            need("a row of edge_number", edge_number.shape(1), m);
            need("matrix", matrix.shape(0), m);
            need("a row of matrix", matrix.shape(1), m);
            need("bias", bias.shape(0), m);
            need("beta", beta.shape(0), count);
            if (row_weight.shape(0)) need("row_weight", row_weight.shape(0), n);
            const size_t size = out.shape(0);
            need("a row of out", out.shape(1), size);
            if (size < m) refuse("out has fewer rows than there are variables");
            const int64_t n_edges = static_cast<int64_t>(size - m);
            for (size_t e = 0; e < m * m; ++e)
                if (edge_number.data()[e] < -1 || edge_number.data()[e] >= n_edges)
                    refuse("edge_number names an edge that is not there");
            for (size_t t = 0; t < count * k; ++t)
                if (targets.data()[t] < 0 || static_cast<size_t>(targets.data()[t]) >= m)
                    refuse("targets name a variable that is not there");
            const bool listed = indptr.shape(0) > 0;
            if (listed) {
                need("indptr", indptr.shape(0), n + 1);
                if (indptr.data()[0] < 0 || indptr.data()[n] > static_cast<int64_t>(component.shape(0)))
                    refuse("indptr reaches beyond the entries");
                for (size_t i = 0; i < n; ++i)
                    if (indptr.data()[i] > indptr.data()[i + 1]) refuse("indptr must not decrease");
                for (size_t e = 0; e < component.shape(0); ++e)
                    if (component.data()[e] < 0 || static_cast<size_t>(component.data()[e]) >= count)
                        refuse("component names a block that is not there");
                if (entry_weight.shape(0)) need("entry_weight", entry_weight.shape(0), component.shape(0));
            }
            const PairwiseBlocks of{static_cast<int64_t>(n),
                                    static_cast<int64_t>(m),
                                    n_edges,
                                    codes.data(),
                                    edge_number.data(),
                                    matrix.data(),
                                    bias.data(),
                                    static_cast<int64_t>(k),
                                    static_cast<int64_t>(count),
                                    targets.data(),
                                    beta.data(),
                                    row_weight.shape(0) ? row_weight.data() : nullptr,
                                    listed ? indptr.data() : nullptr,
                                    component.data(),
                                    entry_weight.shape(0) ? entry_weight.data() : nullptr};
            nb::gil_scoped_release release;
            const auto run = FF_CALL(pairwise_information);
            std::vector<double> sums(static_cast<size_t>(information_ranges) * size * size);
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 1)
            for (int64_t range = 0; range < information_ranges; ++range) {
                std::vector<double> numbers(static_cast<size_t>(information_doubles(of.m, of.k)));
                std::vector<int64_t> places(static_cast<size_t>(information_integers(of.m, of.k)));
                run(of, of.n * range / information_ranges, of.n * (range + 1) / information_ranges, numbers.data(),
                    places.data(), sums.data() + static_cast<size_t>(range) * size * size);
            }
            for (int64_t range = 0; range < information_ranges; ++range) {
                const double* own = sums.data() + static_cast<size_t>(range) * size * size;
                for (size_t a = 0; a < size; ++a)
                    for (size_t b = 0; b < size; ++b) out.data()[a * size + b] += own[a * size + b] + own[b * size + a];
            }
        },
        nb::arg("codes"), nb::arg("edge_number"), nb::arg("matrix"), nb::arg("bias"), nb::arg("targets"),
        nb::arg("beta"), nb::arg("row_weight"), nb::arg("indptr"), nb::arg("component"), nb::arg("entry_weight"),
        nb::arg("out").noconvert(), nb::arg("n_threads"),
        "Add the information of the blocks to out (edges and biases, squared): the covariances of their statistics.");
}

}  // namespace ff

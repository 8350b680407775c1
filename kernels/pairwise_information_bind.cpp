#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "interruption.hpp"
#include "pairwise_information.hpp"
#include "team.hpp"

namespace ff {

// Samples are split into this many ranges, whatever the number of threads.
constexpr int64_t information_ranges = 8;
constexpr int64_t information_largest = 12;

void bind_pairwise_information(nb::module_& module) {
    module.def(
        "pairwise_information",
        [](In2<uint8_t> codes, In2<int32_t> edge_number, In2<double> matrix, In<double> bias, In2<int32_t> targets,
           In<double> beta, In<double> row_weight, In<int64_t> indptr, In<int32_t> component, In<double> entry_weight,
           Out2<double> out, int n_threads) {
            const Checks checks("pairwise_information");
            const size_t n = codes.shape(0), m = codes.shape(1), k = targets.shape(1), count = targets.shape(0);
            checks.require(k >= 1 && k <= static_cast<size_t>(information_largest) && k <= m,
                           "a block must have 1 to 12 variables of the field");
            checks.threads(n_threads);
            checks.length("edge_number", edge_number.shape(0), m);
            checks.length("a row of edge_number", edge_number.shape(1), m);
            checks.length("matrix", matrix.shape(0), m);
            checks.length("a row of matrix", matrix.shape(1), m);
            checks.length("bias", bias.shape(0), m);
            checks.length("beta", beta.shape(0), count);
            checks.length_or_none("row_weight", row_weight.shape(0), n);
            const size_t size = out.shape(0);
            checks.length("a row of out", out.shape(1), size);
            checks.require(size >= m, "out has fewer rows than there are variables");
            const int64_t n_edges = static_cast<int64_t>(size - m);
            checks.within("edge_number names an edge that does not exist", edge_number.data(),
                          static_cast<int64_t>(m * m), -1, n_edges);
            checks.within("targets name a variable that does not exist", targets.data(),
                          static_cast<int64_t>(count * k), 0, static_cast<int64_t>(m));
            const bool listed = indptr.shape(0) > 0;
            if (listed) {
                checks.length("indptr", indptr.shape(0), n + 1);
                checks.range("component", 0, checks.pointers("indptr", indptr.data(), static_cast<int64_t>(n)),
                             component.shape(0));
                checks.within("component names a block that does not exist", component.data(),
                              static_cast<int64_t>(component.shape(0)), 0, static_cast<int64_t>(count));
                checks.length_or_none("entry_weight", entry_weight.shape(0), component.shape(0));
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
            const int team = static_cast<int>(std::min<int64_t>(n_threads, information_ranges));
            const int64_t doubles = information_doubles(of.m, of.k), integers = information_integers(of.m, of.k);
            std::vector<double> numbers(static_cast<size_t>(team * doubles));
            std::vector<int64_t> places(static_cast<size_t>(team * integers));
            Interruption interruption;
            for_each_task(information_ranges, team, [&](int64_t range) {
                if (interruption.asked()) return;
                const int64_t thread = thread_number();
                run(of, of.n * range / information_ranges, of.n * (range + 1) / information_ranges,
                    numbers.data() + thread * doubles, places.data() + thread * integers,
                    sums.data() + static_cast<size_t>(range) * size * size);
            });
            interruption.raise();
            for (int64_t range = 0; range < information_ranges; ++range) {
                const double* own = sums.data() + static_cast<size_t>(range) * size * size;
                for (size_t a = 0; a < size; ++a)
                    for (size_t b = 0; b < size; ++b) out.data()[a * size + b] += own[a * size + b] + own[b * size + a];
            }
        },
        nb::kw_only(), nb::arg("codes"), nb::arg("edge_number"), nb::arg("matrix"), nb::arg("bias"), nb::arg("targets"),
        nb::arg("beta"), nb::arg("row_weight"), nb::arg("indptr"), nb::arg("component"), nb::arg("entry_weight"),
        nb::arg("out").noconvert(), nb::arg("n_threads"),
        "Add the information of the blocks to out (edges and biases, squared): the covariances of their statistics.");
}

}  // namespace ff

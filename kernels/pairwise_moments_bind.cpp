#include <algorithm>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "pairwise_moments.hpp"

namespace ff {

void bind_pairwise_moments(nb::module_& module) {
    module.def(
        "pairwise_moments",
        [](In2<int32_t> edges, In2<uint8_t> codes, In<double> residual, In<double> pair_terms, In<double> weight,
           double state0, double gap, int64_t families, Out<double> out, int n_threads) {
            const size_t n = codes.shape(0), m = codes.shape(1), n_edges = edges.shape(0);
            const auto need = [](const char* name, size_t given, size_t wanted) {
                if (given != wanted)
                    throw nb::value_error((std::string("pairwise_moments: ") + name + " has " + std::to_string(given) +
                                           " entries where " + std::to_string(wanted) + " are needed")
                                              .c_str());
            };
            if (families < 1) throw nb::value_error("pairwise_moments: there must be at least one family");
            if (n_threads < 1) throw nb::value_error("pairwise_moments: there must be at least one thread");
            const size_t count = static_cast<size_t>(families);
            need("an edge", edges.shape(1), 2);
            need("residual", residual.shape(0), count * n * m);
            need("pair_terms", pair_terms.shape(0), count * n * n_edges);
            if (weight.shape(0)) need("weight", weight.shape(0), n);
            need("out", out.shape(0), count * count * n_edges);
            for (size_t e = 0; e < 2 * n_edges; ++e)
                if (edges.data()[e] < 0 || static_cast<size_t>(edges.data()[e]) >= m)
                    throw nb::value_error("pairwise_moments: an edge joins variables that are not there");
            const PairwiseScores of{edges.data(),
                                    codes.data(),
                                    residual.data(),
                                    pair_terms.data(),
                                    weight.shape(0) ? weight.data() : nullptr,
                                    state0,
                                    gap,
                                    static_cast<int64_t>(n),
                                    static_cast<int64_t>(m),
                                    static_cast<int64_t>(n_edges),
                                    families};
            nb::gil_scoped_release release;
            const auto run = FF_CALL(pairwise_moments);
            const int64_t chunks = (of.n_edges + EDGE_CHUNK - 1) / EDGE_CHUNK;
            std::vector<double> scores(static_cast<size_t>(n_threads) * count * EDGE_CHUNK);
        // Thread t takes the chunks t, t + n_threads, …: no chunk is shared, so nothing is reduced.
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
            for (int thread = 0; thread < n_threads; ++thread)
                for (int64_t chunk = thread; chunk < chunks; chunk += n_threads)
                    run(of, chunk * EDGE_CHUNK, std::min(EDGE_CHUNK, of.n_edges - chunk * EDGE_CHUNK),
                        scores.data() + static_cast<size_t>(thread) * count * EDGE_CHUNK, out.data());
        },
        nb::arg("edges"), nb::arg("codes"), nb::arg("residual"), nb::arg("pair_terms"), nb::arg("weight"),
        nb::arg("state0"), nb::arg("gap"), nb::arg("families"), nb::arg("out").noconvert(), nb::arg("n_threads"),
        "Add the weighted products of the scores of families f <= g along each edge to out (families, families, "
        "edges).");
}

}  // namespace ff

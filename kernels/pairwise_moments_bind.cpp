#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "pairwise_moments.hpp"
#include "team.hpp"

namespace ff {

void bind_pairwise_moments(nb::module_& module) {
    module.def(
        "pairwise_moments",
        [](In2<int32_t> edges, In2<uint8_t> codes, In<double> residual, In<double> pair_terms, In<double> weight,
           double state0, double gap, int64_t families, Out<double> out, int n_threads) {
            const size_t n = codes.shape(0), m = codes.shape(1), n_edges = edges.shape(0);
            const Checks checks("pairwise_moments");
            checks.require(families >= 1, "there must be at least one family");
            checks.threads(n_threads);
            const size_t count = static_cast<size_t>(families);
            checks.length("an edge", edges.shape(1), 2);
            checks.length("residual", residual.shape(0), count * n * m);
            checks.length("pair_terms", pair_terms.shape(0), count * n * n_edges);
            checks.length_or_none("weight", weight.shape(0), n);
            checks.length("out", out.shape(0), count * count * n_edges);
            checks.within("an edge joins variables that do not exist", edges.data(), static_cast<int64_t>(2 * n_edges),
                          0, static_cast<int64_t>(m));
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
            // No edge is in two chunks, so nothing is reduced.
            for_each_task(chunks, n_threads, [&](int64_t chunk) {
                run(of, chunk * EDGE_CHUNK, std::min(EDGE_CHUNK, of.n_edges - chunk * EDGE_CHUNK),
                    scores.data() + static_cast<size_t>(thread_number()) * count * EDGE_CHUNK, out.data());
            });
        },
        nb::kw_only(), nb::arg("edges"), nb::arg("codes"), nb::arg("residual"), nb::arg("pair_terms"),
        nb::arg("weight"), nb::arg("state0"), nb::arg("gap"), nb::arg("families"), nb::arg("out").noconvert(),
        nb::arg("n_threads"),
        "Add the weighted products of the scores of families f <= g along each edge to out (families, families, "
        "edges).");
}

}  // namespace ff

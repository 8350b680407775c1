// Chains whose scores are known: best paths and marginals.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "chain.hpp"
#include "chain_arrays.hpp"
#include "chain_decode.hpp"

namespace ff {

namespace {

using Scores = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using EdgeScores = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// Edges (1, padded, padded) are shared by all tokens; (n_tokens, padded, padded) belong to each.
ChainScores check_scores(const In<int64_t>& offsets, const Scores& scores, const EdgeScores& edges, int64_t n_labels,
                         int64_t& max_tokens) {
    need(offsets.shape(0) >= 1, "chains: offsets needs n_sequences + 1 entries");
    const int64_t n = static_cast<int64_t>(offsets.shape(0)) - 1, n_tokens = static_cast<int64_t>(scores.shape(0));
    const int64_t padded = static_cast<int64_t>(scores.shape(1));
    check_pointers(offsets, n, n_tokens, "chains: offsets must rise from 0 to n_tokens");
    need(n_labels >= 1 && n_labels <= padded && padded % chain_lane == 0, "chains: scores must have padded rows");
    need(static_cast<int64_t>(edges.shape(1)) == padded && static_cast<int64_t>(edges.shape(2)) == padded &&
             (edges.shape(0) == 1 || static_cast<int64_t>(edges.shape(0)) == n_tokens),
         "chains: edges must be (1 or n_tokens) x padded x padded");
    max_tokens = 1;
    for (int64_t i = 0; i < n; ++i) max_tokens = std::max(max_tokens, offsets.data()[i + 1] - offsets.data()[i]);
    const bool own = static_cast<int64_t>(edges.shape(0)) == n_tokens && n_tokens != 1;
    return {n, n_labels, padded, offsets.data(), scores.data(), edges.data(), own ? padded * padded : 0};
}

}  // namespace

void bind_chain_decode(nb::module_& module) {
    module.def(
        "chain_viterbi",
        [](In<int64_t> offsets, Scores scores, EdgeScores edges, int64_t n_labels, Out<int32_t> labels,
           Out<double> best, int n_threads) {
            int64_t longest = 0;
            const ChainScores chain = check_scores(offsets, scores, edges, n_labels, longest);
            need(labels.shape(0) == scores.shape(0) && static_cast<int64_t>(best.shape(0)) == chain.n_sequences &&
                     n_threads >= 1,
                 "chain_viterbi: labels needs n_tokens entries and best n_sequences");
            nb::gil_scoped_release release;
            auto work = room(n_threads * longest * chain.padded);
            FF_CALL(chain_viterbi)(chain, longest, work.get(), labels.data(), best.data(), n_threads);
        },
        nb::kw_only(), nb::arg("offsets"), nb::arg("scores"), nb::arg("edges"), nb::arg("n_labels"),
        nb::arg("labels").noconvert(), nb::arg("best").noconvert(), nb::arg("n_threads"),
        "The best path of each sequence, and its score.");
    module.def(
        "chain_n_best",
        [](In<int64_t> offsets, Scores scores, EdgeScores edges, int64_t n_labels, Out2<int32_t> labels,
           Out2<double> best, int n_threads) {
            int64_t longest = 0;
            const ChainScores chain = check_scores(offsets, scores, edges, n_labels, longest);
            const int64_t count = static_cast<int64_t>(best.shape(1));
            need(static_cast<int64_t>(labels.shape(0)) == count && labels.shape(1) == scores.shape(0) &&
                     static_cast<int64_t>(best.shape(0)) == chain.n_sequences && count >= 1 && n_threads >= 1,
                 "chain_n_best: labels must be count x n_tokens and best n_sequences x count");
            need(count * chain.padded < (int64_t(1) << 31), "chain_n_best: too many paths are asked for");
            nb::gil_scoped_release release;
            const int64_t size = n_threads * longest * chain.padded * count;
            auto work = room(size);
            std::unique_ptr<int32_t[]> back(new int32_t[static_cast<size_t>(size)]);
            FF_CALL(chain_n_best)
            (chain, longest, count, work.get(), back.get(), labels.data(), best.data(), n_threads);
        },
        nb::kw_only(), nb::arg("offsets"), nb::arg("scores"), nb::arg("edges"), nb::arg("n_labels"),
        nb::arg("labels").noconvert(), nb::arg("best").noconvert(), nb::arg("n_threads"),
        "The best paths of each sequence, best first, and their scores.");
    module.def(
        "chain_marginals",
        [](In<int64_t> offsets, Scores scores, EdgeScores edges, int64_t n_labels, Out2<double> nodes,
           std::optional<nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>> pairs, Out<double> log_z,
           int n_threads) {
            int64_t longest = 0;
            const ChainScores chain = check_scores(offsets, scores, edges, n_labels, longest);
            need(nodes.shape(0) == scores.shape(0) && nodes.shape(1) == scores.shape(1) &&
                     static_cast<int64_t>(log_z.shape(0)) == chain.n_sequences && n_threads >= 1,
                 "chain_marginals: nodes must have the shape of scores and log_z one entry a sequence");
            need(!pairs || (pairs->shape(0) == scores.shape(0) && pairs->shape(1) == scores.shape(1) &&
                            pairs->shape(2) == scores.shape(1)),
                 "chain_marginals: pairs must be n_tokens x padded x padded");
            nb::gil_scoped_release release;
            auto work = room(n_threads * ((4 * longest + 4) * chain.padded + chain.padded * chain.padded));
            FF_CALL(chain_marginals)
            (chain, longest, work.get(), nodes.data(), pairs ? pairs->data() : nullptr, log_z.data(), n_threads);
        },
        nb::kw_only(), nb::arg("offsets"), nb::arg("scores"), nb::arg("edges"), nb::arg("n_labels"),
        nb::arg("nodes").noconvert(), nb::arg("pairs").noconvert().none(), nb::arg("log_z").noconvert(),
        nb::arg("n_threads"), "Node and edge marginals and log Z of each sequence, in log space.");
}

}  // namespace ff

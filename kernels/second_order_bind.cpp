// Second-order chains: values, residuals, sums of arcs, and best paths.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "chain_arguments.hpp"
#include "second_order.hpp"

namespace ff {

namespace {

// The states and arcs of a model, checked once. Python holds the arrays.
class LabelTriples {
  public:
    LabelTriples(int64_t n_labels, In<int32_t> label, In2<int32_t> pairs, In<int32_t> from, In<int32_t> to)
        : label_(label), pairs_(pairs), from_(from), to_(to) {
        const int64_t S = static_cast<int64_t>(label.shape(0)), n = static_cast<int64_t>(from.shape(0));
        need(n_labels >= 1 && S >= 1 && label.data()[0] == -1, "triples: state 0 must be the start, with label -1");
        need(S < (int64_t(1) << 31) && n < (int64_t(1) << 31), "triples: there are too many states or arcs");
        for (int64_t s = 1; s < S; ++s)
            need(label.data()[s] >= 0 && label.data()[s] < n_labels, "triples: a label is out of range");
        need(static_cast<int64_t>(pairs.shape(0)) == n_labels + 1 && pairs.shape(1) == pairs.shape(0),
             "triples: pairs must be (n_labels + 1) x (n_labels + 1)");
        for (size_t k = 0; k < pairs.size(); ++k)
            need(pairs.data()[k] >= -1 && pairs.data()[k] < S, "triples: a pair has a state that does not exist");
        need(pairs.data()[pairs.size() - 1] == 0, "triples: two start symbols must be state 0");
        need(to.shape(0) == from.shape(0), "triples: from and to must have the same length");
        check_range(from, 0, S, "triples: an arc leaves a state that does not exist");
        check_range(to, 1, S, "triples: an arc enters a state that does not exist");
        out_.assign(static_cast<size_t>(S) + 1, 0);
        in_.assign(static_cast<size_t>(S) + 1, 0);
        next_.assign(static_cast<size_t>(S * n_labels), -1);
        for (int64_t a = 0; a < n; ++a) {
            const int64_t here = from.data()[a], label_to = label.data()[to.data()[a]];
            need(a == 0 || here > from.data()[a - 1] ||
                     (here == from.data()[a - 1] && label_to > label.data()[to.data()[a - 1]]),
                 "triples: arcs must be sorted by the state they leave and by label");
            ++out_[static_cast<size_t>(here) + 1];
            ++in_[static_cast<size_t>(to.data()[a]) + 1];
            next_[static_cast<size_t>(here * n_labels + label_to)] = static_cast<int32_t>(a);
        }
        for (size_t s = 0; s < static_cast<size_t>(S); ++s) {
            out_[s + 1] += out_[s];
            in_[s + 1] += in_[s];
        }
        in_arcs_.resize(static_cast<size_t>(n));
        in_from_.resize(static_cast<size_t>(n));
        std::vector<int64_t> place(in_.begin(), in_.end() - 1);
        for (int64_t a = 0; a < n; ++a) {
            const size_t at = static_cast<size_t>(place[static_cast<size_t>(to.data()[a])]++);
            in_arcs_[at] = static_cast<int32_t>(a);
            in_from_[at] = from.data()[a];
        }
        arcs_ = {n_labels,    S,           n,         label.data(), pairs.data(),    next_.data(),
                 out_.data(), from.data(), to.data(), in_.data(),   in_arcs_.data(), in_from_.data()};
    }
    LabelTriples(const LabelTriples&) = delete;
    LabelTriples& operator=(const LabelTriples&) = delete;

    const TripleArcs& arcs() const { return arcs_; }
    ScratchPool& scratch() const { return scratch_; }

  private:
    In<int32_t> label_;
    In2<int32_t> pairs_;
    In<int32_t> from_, to_;
    std::vector<int64_t> out_, in_;
    std::vector<int32_t> next_, in_arcs_, in_from_;
    TripleArcs arcs_{};
    mutable ScratchPool scratch_;
};

// Offsets, scores and weights of an evaluation or a decoding.
TripleChains check_chains(const TripleArcs& arcs, const In<int64_t>& offsets, const In2<double>& scores,
                          const In<double>& weights) {
    need(offsets.shape(0) >= 1, "triples: offsets needs n_sequences + 1 entries");
    TripleChains chains{};
    chains.n_sequences = static_cast<int64_t>(offsets.shape(0)) - 1;
    chains.padded = static_cast<int64_t>(scores.shape(1));
    check_pointers(offsets, chains.n_sequences, static_cast<int64_t>(scores.shape(0)),
                   "triples: offsets must rise from 0 to n_tokens");
    need(arcs.n_labels <= chains.padded && chains.padded % chain_lane == 0, "triples: scores must have padded rows");
    need(static_cast<int64_t>(weights.shape(0)) == arcs.n_arcs, "triples: weights needs one entry an arc");
    chains.offsets = offsets.data();
    chains.scores = scores.data();
    chains.weights = weights.data();
    for (int64_t i = 0; i < chains.n_sequences; ++i)
        chains.max_tokens = std::max(chains.max_tokens, offsets.data()[i + 1] - offsets.data()[i]);
    return chains;
}

void evaluate(const LabelTriples& triples, In<int64_t> offsets, Maybe<int32_t> labels, In2<double> scores,
              In<double> weights, std::optional<In2<double>> tangent_scores, Maybe<double> tangent_weights,
              const std::vector<FamilyArrays>& family_arrays, Maybe<double> row_weight, bool squares,
              In<int64_t> chunk_ptr, In<int64_t> order, Out<double> values, std::optional<Out<double>> tangents,
              std::optional<Out2<double>> residuals, std::optional<Out2<double>> arc_sums,
              std::optional<Out2<double>> states, int n_threads) {
    const TripleArcs& arcs = triples.arcs();
    TripleChains chains = check_chains(arcs, offsets, scores, weights);
    const size_t n = static_cast<size_t>(chains.n_sequences), n_tokens = scores.shape(0);
    ChainData sizes{};
    sizes.n_sequences = chains.n_sequences;
    sizes.offsets = offsets.data();
    const std::vector<ChainFamily> families = check_families(sizes, family_arrays);
    chains.observed = labels.has_value();
    for (const ChainFamily& family : families)
        need(chains.observed || family.width == 0, "triples: windows need labels");
    if (labels) {
        need(labels->shape(0) == n_tokens, "triples: labels needs one entry a token");
        check_range(*labels, -1, arcs.n_labels, "triples: a label is out of range");
        chains.labels = labels->data();
    }
    const bool tangent = tangent_scores.has_value();
    need(tangent == tangent_weights.has_value() && tangent == tangents.has_value() && !(tangent && squares),
         "triples: scores, weights and values of a direction go together, and squares have none");
    if (tangent) {
        need(tangent_scores->shape(0) == n_tokens && tangent_scores->shape(1) == scores.shape(1) &&
                 tangent_weights->shape(0) == weights.shape(0) && tangents->shape(0) == n,
             "triples: a direction must have the shapes of scores, weights and values");
        chains.tangent_scores = tangent_scores->data();
        chains.tangent_weights = tangent_weights->data();
    }
    need(!row_weight || row_weight->shape(0) == n, "triples: row_weight needs one entry a sequence");
    need(chunk_ptr.shape(0) >= 1 && order.shape(0) == n, "triples: order must list all sequences");
    chains.n_chunks = static_cast<int64_t>(chunk_ptr.shape(0)) - 1;
    check_pointers(chunk_ptr, chains.n_chunks, chains.n_sequences, "triples: chunk_ptr must rise to n_sequences");
    std::vector<bool> listed(n, false);
    for (size_t k = 0; k < n; ++k) {
        const int64_t i = order.data()[k];
        need(i >= 0 && i < chains.n_sequences && !listed[static_cast<size_t>(i)],
             "triples: order must list each sequence once");
        listed[static_cast<size_t>(i)] = true;
    }
    need(values.shape(0) == n && n_threads >= 1, "triples: values needs one entry a sequence");
    need(residuals.has_value() == arc_sums.has_value() && (!states || residuals),
         "triples: residuals and sums of arcs go together");
    need(!residuals || (residuals->shape(0) == n_tokens && residuals->shape(1) == scores.shape(1) &&
                        static_cast<int64_t>(arc_sums->shape(0)) == chains.n_chunks &&
                        static_cast<int64_t>(arc_sums->shape(1)) == arcs.n_arcs),
         "triples: residuals must be n_tokens x padded and sums of arcs n_chunks x n_arcs");
    need(!states || (states->shape(0) == n_tokens && static_cast<int64_t>(states->shape(1)) == arcs.n_states),
         "triples: states must be n_tokens x n_states");
    chains.families = families.data();
    chains.n_families = static_cast<int64_t>(families.size());
    chains.row_weight = pointer(row_weight);
    chains.squares = squares;
    chains.chunk_ptr = chunk_ptr.data();
    chains.order = order.data();
    nb::gil_scoped_release release;
    const int used_threads = static_cast<int>(std::clamp<int64_t>(chains.n_chunks, 1, n_threads));
    TripleScratch scratch{};
    scratch.thread_size = FF_CALL(triple_room)(arcs, chains);
    scratch.place_size = FF_CALL(triple_places)(arcs, chains);
    const int64_t places = (used_threads * scratch.place_size + 1) / 2;
    const ScratchPool::Lease lease =
        triples.scratch().take(4 * arcs.n_arcs + 8 + used_threads * scratch.thread_size + places);
    scratch.shared = lease.data();
    scratch.threads = lease.data() + (4 * arcs.n_arcs + 7) / 8 * 8;
    scratch.places = reinterpret_cast<int32_t*>(scratch.threads + used_threads * scratch.thread_size);
    Interruption interruption;
    TripleOutput out{values.data(),
                     tangents ? tangents->data() : nullptr,
                     residuals ? residuals->data() : nullptr,
                     arc_sums ? arc_sums->data() : nullptr,
                     states ? states->data() : nullptr,
                     &interruption};
    if (residuals) std::fill_n(residuals->data(), residuals->size(), 0.0);
    if (states) std::fill_n(states->data(), states->size(), 0.0);
    FF_CALL(triple_evaluate)(arcs, chains, scratch, out, used_threads);
    interruption.raise();
}

void n_best(const LabelTriples& triples, In<int64_t> offsets, In2<double> scores, In<double> weights,
            Out2<int32_t> labels, Out2<double> best, int n_threads) {
    const TripleArcs& arcs = triples.arcs();
    const TripleChains chains = check_chains(arcs, offsets, scores, weights);
    const int64_t count = static_cast<int64_t>(best.shape(1));
    need(static_cast<int64_t>(labels.shape(0)) == count && labels.shape(1) == scores.shape(0) &&
             static_cast<int64_t>(best.shape(0)) == chains.n_sequences && count >= 1 && n_threads >= 1,
         "triples: labels must be count x n_tokens and best n_sequences x count");
    nb::gil_scoped_release release;
    const int64_t size = n_threads * chains.max_tokens * arcs.n_states * count;
    const auto work = room(size);
    const std::unique_ptr<int64_t[]> back(new int64_t[static_cast<size_t>(std::max<int64_t>(size, 1))]);
    Interruption interruption;
    FF_CALL(triple_n_best)
    (arcs, chains, count, work.get(), back.get(), labels.data(), best.data(), interruption, n_threads);
    interruption.raise();
}

}  // namespace

void bind_second_order(nb::module_& module) {
    nb::class_<LabelTriples>(module, "LabelTriples", "The allowed triples of labels as arcs between pairs of labels.")
        .def(nb::init<int64_t, In<int32_t>, In2<int32_t>, In<int32_t>, In<int32_t>>(), nb::kw_only(),
             nb::arg("n_labels"), nb::arg("label"), nb::arg("pairs"), nb::arg("from_state"), nb::arg("to_state"))
        .def_prop_ro("n_states", [](const LabelTriples& t) { return t.arcs().n_states; })
        .def_prop_ro("n_arcs", [](const LabelTriples& t) { return t.arcs().n_arcs; });
    module.def("triple_evaluate", &evaluate, nb::arg("triples"), nb::kw_only(), nb::arg("offsets"),
               nb::arg("labels").none(), nb::arg("scores"), nb::arg("weights"), nb::arg("tangent_scores").none(),
               nb::arg("tangent_weights").none(), nb::arg("families"), nb::arg("row_weight").none(), nb::arg("squares"),
               nb::arg("chunk_ptr"), nb::arg("order"), nb::arg("values").noconvert(),
               nb::arg("tangents").noconvert().none(), nb::arg("residuals").noconvert().none(),
               nb::arg("arcs").noconvert().none(), nb::arg("states").noconvert().none(), nb::arg("n_threads"),
               "Log-likelihood of each sequence, residuals of tokens and of arcs; without labels minus log Z.");
    module.def("triple_n_best", &n_best, nb::arg("triples"), nb::kw_only(), nb::arg("offsets"), nb::arg("scores"),
               nb::arg("weights"), nb::arg("labels").noconvert(), nb::arg("best").noconvert(), nb::arg("n_threads"),
               "The best paths of each sequence, best first, and their scores.");
}

}  // namespace ff

// Chains: values, residuals, gradients and scores of their sequences.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "chain.hpp"
#include "chain_arguments.hpp"

namespace ff {

namespace {

void evaluate(const ChainTokens& tokens, const WeightArrays& weight_arrays,
              const std::optional<WeightArrays>& direction_arrays, const std::vector<FamilyArrays>& family_arrays,
              Maybe<double> row_weight, bool observed, bool squares, Out<double> values,
              std::optional<Out<double>> tangents, std::optional<Out2<double>> residuals,
              const std::optional<GradientArrays>& gradient, int n_threads) {
    const ChainData& d = tokens.data();
    const ChainWeights weights = check_weights(tokens, weight_arrays);
    std::optional<ChainWeights> direction;
    if (direction_arrays) direction = check_weights(tokens, *direction_arrays);
    const std::vector<ChainFamily> families = check_families(tokens.data(), family_arrays);
    const int64_t width = widest(d, families);
    const bool windows =
        std::any_of(families.begin(), families.end(), [](const ChainFamily& f) { return f.width > 0; });
    need(!d.partial || observed || !windows,
         "chains: windows beside unknown labels (-1) are left out of likelihoods only");
    need(!(direction && squares), "chains: squares have no direction");
    need(static_cast<int64_t>(values.shape(0)) == d.n_sequences, "chains: values needs one entry a sequence");
    need(!row_weight || static_cast<int64_t>(row_weight->shape(0)) == d.n_sequences,
         "chains: row_weight needs one entry a sequence");
    need(direction.has_value() == tangents.has_value(), "chains: tangents go with a direction");
    need(!tangents || static_cast<int64_t>(tangents->shape(0)) == d.n_sequences,
         "chains: tangents needs one entry a sequence");
    need(!residuals || (static_cast<int64_t>(residuals->shape(0)) == d.n_tokens &&
                        static_cast<int64_t>(residuals->shape(1)) == d.padded),
         "chains: residuals must be n_tokens x padded");
    need(n_threads >= 1, "chains: n_threads must be at least 1");
    ChainOutput out{};
    out.values = values.data();
    out.tangents = tangents ? tangents->data() : nullptr;
    out.residuals = residuals ? residuals->data() : nullptr;
    const int64_t square = d.padded * d.padded;
    auto spare = room(gradient ? 0 : square + 2 * d.padded + d.n_columns);
    if (gradient) {
        const auto& [state, transitions, start, end, columns] = *gradient;
        need(static_cast<int64_t>(state.shape(0)) == tokens.n_state() &&
                 static_cast<int64_t>(transitions.shape(0)) == d.padded &&
                 static_cast<int64_t>(transitions.shape(1)) == d.padded &&
                 static_cast<int64_t>(start.shape(0)) == d.padded && static_cast<int64_t>(end.shape(0)) == d.padded &&
                 static_cast<int64_t>(columns.shape(0)) == d.n_columns,
             "chains: the gradient's arrays must have the shapes of the weights");
        out.state = state.data();
        out.transitions = transitions.data();
        out.start = start.data();
        out.end = end.data();
        out.columns = columns.data();
    } else {
        out.transitions = spare.get();
        out.start = spare.get() + square;
        out.end = out.start + d.padded;
        out.columns = out.end + d.padded;
    }
    nb::gil_scoped_release release;
    const int used_threads = static_cast<int>(std::min<int64_t>(n_threads, d.n_chunks));
    ChainScratch scratch{};
    scratch.places = used_threads > 1 ? std::min(chain_places, d.n_blocks) : 1;
    std::vector<int64_t> block_places(gradient ? static_cast<size_t>(d.n_blocks) : 0);
    scratch.block_places = block_places.data();
    // Each range reads the lists of all tokens: with two threads one sums the features while the other one goes on.
    scratch.ranges = std::max(1, used_threads / 2);
    std::vector<int64_t> task_ptr(1, 0);
    if (gradient)
        for (int64_t group = 0; group < 2 * d.n_blocks; ++group)
            task_ptr.push_back(task_ptr.back() + (group % 2 ? scratch.ranges : d.n_chunks));
    scratch.task_ptr = task_ptr.data();
    const ScratchPool::Lease lease =
        lay_out(tokens, width, direction.has_value(), gradient || residuals ? d.n_chunks : 1,
                gradient && !residuals ? scratch.places * d.max_block_tokens : 0, used_threads, scratch);
    Interruption interruption;
    out.interruption = &interruption;
    FF_CALL(chain_evaluate)
    (d, weights, direction ? &*direction : nullptr, families.data(), static_cast<int64_t>(families.size()),
     row_weight ? row_weight->data() : nullptr, observed, squares, scratch, out, used_threads);
    interruption.raise();
}

void sequence_scores(const ChainTokens& tokens, const WeightArrays& weight_arrays,
                     const std::vector<FamilyArrays>& family_arrays, int64_t first, In<int64_t> transition_places,
                     bool start, bool end, nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu> scores,
                     int n_threads) {
    const ChainData& d = tokens.data();
    const ChainWeights weights = check_weights(tokens, weight_arrays);
    const std::vector<ChainFamily> families = check_families(tokens.data(), family_arrays);
    const int64_t last = first + static_cast<int64_t>(scores.shape(0)), square = d.padded * d.padded;
    ChainPlaces places{};
    places.n_parameters = static_cast<int64_t>(scores.shape(2));
    places.n_state = tokens.n_state();
    places.n_transitions = static_cast<int64_t>(transition_places.shape(0));
    places.transitions = transition_places.data();
    places.start = start;
    places.end = end;
    need(first >= 0 && last <= d.n_sequences, "chains: scores are asked for sequences that do not exist");
    need(scores.shape(1) == families.size() && places.n_parameters == places.n_state + places.n_transitions +
                                                                          (int64_t(start) + int64_t(end)) * d.n_labels +
                                                                          d.n_columns,
         "chains: scores must be sequences x families x parameters");
    for (int64_t k = 0; k < places.n_transitions; ++k)
        need(places.transitions[k] >= 0 && places.transitions[k] < square,
             "chains: a transition is outside the label pairs");
    need(n_threads >= 1, "chains: n_threads must be at least 1");
    nb::gil_scoped_release release;
    const int used_threads = static_cast<int>(std::clamp<int64_t>(last - first, 1, n_threads));
    ChainScratch scratch{};
    const ScratchPool::Lease lease =
        lay_out(tokens, widest(d, families), false, used_threads, used_threads * d.max_tokens, used_threads, scratch);
    const auto values = room(d.n_sequences);
    ChainOutput out{};
    out.values = values.get();
    FF_CALL(chain_sequence_scores)
    (d, weights, families.data(), static_cast<int64_t>(families.size()), first, last, places, scratch, out,
     scores.data(), used_threads);
}

}  // namespace

void bind_chain(nb::module_& module) {
    nb::class_<ChainTokens>(module, "ChainTokens", "Sequences of tokens with features: read-only, checked once.")
        .def(nb::init<In<int64_t>, In<int64_t>, In<int32_t>, Maybe<double>, In<int32_t>, int64_t, int64_t,
                      Maybe<uint8_t>, Maybe<int64_t>, Maybe<int32_t>, Maybe<int64_t>, Maybe<int32_t>, Maybe<double>,
                      Maybe<int64_t>, Maybe<int32_t>, int64_t, bool>(),
             nb::kw_only(), nb::arg("offsets"), nb::arg("indptr"), nb::arg("indices"), nb::arg("values").none(),
             nb::arg("labels"), nb::arg("n_labels"), nb::arg("n_features"), nb::arg("active").none() = nb::none(),
             nb::arg("pair_ptr").none() = nb::none(), nb::arg("pair_labels").none() = nb::none(),
             nb::arg("edge_ptr").none() = nb::none(), nb::arg("edge_features").none() = nb::none(),
             nb::arg("edge_values").none() = nb::none(), nb::arg("column_ptr").none() = nb::none(),
             nb::arg("columns").none() = nb::none(), nb::arg("block_tokens") = 0, nb::arg("compact") = false)
        .def(
            "selected",
            [](const ChainTokens& whole, In<uint8_t> keep, In<int64_t> pair_ptr, In<int32_t> pair_labels,
               Maybe<int64_t> column_ptr, Maybe<int32_t> columns) {
                return std::make_unique<ChainTokens>(whole, keep, pair_ptr, pair_labels, column_ptr, columns);
            },
            nb::keep_alive<0, 1>(), nb::kw_only(), nb::arg("keep"), nb::arg("pair_ptr"), nb::arg("pair_labels"),
            nb::arg("column_ptr").none() = nb::none(), nb::arg("columns").none() = nb::none(),
            "The same tokens where all state weights but those in `keep`, and all weights of label pairs with features "
            "but `columns`, are 0; these are numbered anew.")
        .def_prop_ro("padded", [](const ChainTokens& t) { return t.data().padded; })
        .def_prop_ro("n_blocks", [](const ChainTokens& t) { return t.data().n_blocks; })
        .def_prop_ro("n_chunks", [](const ChainTokens& t) { return t.data().n_chunks; })
        .def_prop_ro("n_hot", [](const ChainTokens& t) { return t.data().n_hot; });
    module.def("chain_evaluate", &evaluate, nb::arg("tokens"), nb::arg("weights"), nb::kw_only(),
               nb::arg("direction").none(), nb::arg("families"), nb::arg("row_weight").none(), nb::arg("observed"),
               nb::arg("squares"), nb::arg("values").noconvert(), nb::arg("tangents").noconvert().none(),
               nb::arg("residuals").noconvert().none(), nb::arg("gradient").noconvert().none(), nb::arg("n_threads"),
               "Log-likelihood of each sequence, token residuals and gradient, in one pass.");
    module.def(
        "chain_scores",
        [](const ChainTokens& tokens, const WeightArrays& arrays, Out2<double> scores, int n_threads) {
            const ChainData& d = tokens.data();
            const ChainWeights weights = check_weights(tokens, arrays);
            need(static_cast<int64_t>(scores.shape(0)) == d.n_tokens &&
                     static_cast<int64_t>(scores.shape(1)) == d.padded && n_threads >= 1,
                 "chain_scores: scores must be n_tokens x padded");
            nb::gil_scoped_release release;
            ChainScratch scratch{};
            scratch.list_size = list_room(d);
            const auto memory = room((d.n_hot + 1) * d.padded + n_threads * scratch.list_size);
            scratch.hot_table = memory.get();
            scratch.lists = memory.get() + (d.n_hot + 1) * d.padded;
            FF_CALL(chain_token_scores)(d, weights, scratch, scores.data(), n_threads);
        },
        nb::arg("tokens"), nb::arg("weights"), nb::kw_only(), nb::arg("scores").noconvert(), nb::arg("n_threads"),
        "Scores of all tokens, start and end weights included.");
    module.def(
        "chain_state_gradient",
        [](const ChainTokens& tokens, In2<double> residuals, bool squares, Out<double> state, Out<double> start,
           Out<double> end, int n_threads) {
            const ChainData& d = tokens.data();
            need(static_cast<int64_t>(residuals.shape(0)) == d.n_tokens &&
                     static_cast<int64_t>(residuals.shape(1)) == d.padded && n_threads >= 1,
                 "chain_state_gradient: residuals must be n_tokens x padded");
            need(static_cast<int64_t>(state.shape(0)) == tokens.n_state() &&
                     static_cast<int64_t>(start.shape(0)) == d.padded && static_cast<int64_t>(end.shape(0)) == d.padded,
                 "chain_state_gradient: the gradient's arrays must have the shapes of the weights");
            nb::gil_scoped_release release;
            ChainScratch scratch{};
            const int used_threads = static_cast<int>(std::min<int64_t>(n_threads, chain_slices));
            const int64_t hot = d.n_chunks * d.n_hot * d.padded, ends = d.n_chunks * 2 * d.padded;
            scratch.list_size = list_room(d);
            const ScratchPool::Lease lease = tokens.scratch().take(hot + ends + used_threads * scratch.list_size);
            scratch.hot_gradient = lease.data();
            scratch.ends = lease.data() + hot;
            scratch.lists = lease.data() + hot + ends;
            FF_CALL(chain_state_gradient)
            (d, residuals.data(), squares, scratch, state.data(), start.data(), end.data(), used_threads);
        },
        nb::arg("tokens"), nb::kw_only(), nb::arg("residuals"), nb::arg("squares"), nb::arg("state").noconvert(),
        nb::arg("start").noconvert(), nb::arg("end").noconvert(), nb::arg("n_threads"),
        "The gradient of state, start and end weights from residuals of tokens.");
    module.def("chain_sequence_scores", &sequence_scores, nb::arg("tokens"), nb::arg("weights"), nb::kw_only(),
               nb::arg("families"), nb::arg("first"), nb::arg("transition_places"), nb::arg("start"), nb::arg("end"),
               nb::arg("scores").noconvert(), nb::arg("n_threads"),
               "Gradient of the log-likelihood of each sequence from `first` on, by family and without its weight.");
}

}  // namespace ff

// Stochastic gradient steps on the weights of a chain.
#include "chain_arguments.hpp"
#include "chain_stochastic.hpp"

namespace ff {

namespace {

// The batches of the data: where each begins in ChainData::order, and n_sequences at the end. Batches end with chunks.
std::vector<int64_t> batches_of(const ChainData& d) {
    std::vector<int64_t> begins;
    for (int64_t c = 0; c < d.n_blocks * d.n_chunks; ++c)
        for (int64_t q = d.chunk_ptr[c]; q < d.chunk_ptr[c + 1]; q = batch_end(d, q, d.chunk_ptr[c + 1]))
            begins.push_back(q);
    begins.push_back(d.n_sequences);
    return begins;
}

// 1 for the labels of the hot features, where pairs are listed.
std::vector<double> labels_of_hot(const ChainData& d) {
    std::vector<double> allowed;
    if (!d.pair_ptr) return allowed;
    allowed.assign(static_cast<size_t>(d.n_hot * d.padded), 0.0);
    for (int64_t h = 0; h < d.n_hot; ++h)
        for (int64_t p = d.pair_ptr[d.hot_features[h]]; p < d.pair_ptr[d.hot_features[h] + 1]; ++p)
            allowed[static_cast<size_t>(h * d.padded + d.pair_labels[p])] = 1.0;
    return allowed;
}

void stochastic_pass(const ChainTokens& tokens, const GradientArrays& weights, In<double> base,
                     const std::vector<FamilyArrays>& family_arrays, Maybe<double> row_weight, In<int64_t> visits,
                     In<double> rates, double precision, In<double> shares, In<int64_t> transition_places, bool start,
                     bool end, Out<double> values) {
    const ChainData& d = tokens.data();
    const auto& [state, transitions, first, last, columns] = weights;
    const int64_t square = d.padded * d.padded;
    need(!d.edge_ptr, "chains: stochastic steps are not available for features of label pairs");
    need(static_cast<int64_t>(state.shape(0)) == tokens.n_state() &&
             static_cast<int64_t>(transitions.shape(0)) == d.padded &&
             static_cast<int64_t>(transitions.shape(1)) == d.padded &&
             static_cast<int64_t>(first.shape(0)) == d.padded && static_cast<int64_t>(last.shape(0)) == d.padded &&
             static_cast<int64_t>(base.shape(0)) == d.padded && columns.shape(0) == 0,
         "chains: the weights have the wrong shapes");
    need(static_cast<int64_t>(shares.shape(0)) == (d.pair_ptr ? tokens.n_state() : d.n_features),
         "chains: shares needs one entry a feature, or a pair where pairs are listed");
    need(static_cast<int64_t>(values.shape(0)) == d.n_sequences, "chains: values needs one entry a sequence");
    need(!row_weight || static_cast<int64_t>(row_weight->shape(0)) == d.n_sequences,
         "chains: row_weight needs one entry a sequence");
    need(visits.shape(0) == rates.shape(0), "chains: every visit needs a rate");
    const std::vector<ChainFamily> families = check_families(tokens.data(), family_arrays);
    const std::vector<int64_t> begins = batches_of(d);
    const int64_t n_batches = static_cast<int64_t>(begins.size()) - 1;
    std::vector<uint8_t> allowed(static_cast<size_t>(square), 0);
    for (size_t k = 0; k < transition_places.shape(0); ++k) {
        const int64_t place = transition_places.data()[k];
        need(place >= 0 && place < square, "chains: a transition is outside the label pairs");
        allowed[static_cast<size_t>(place)] = 1;
    }
    std::vector<int64_t> from, to;
    int64_t rows = 0;
    for (size_t v = 0; v < visits.shape(0); ++v) {
        const int64_t batch = visits.data()[v];
        need(batch >= 0 && batch < n_batches, "chains: a visit is outside the batches");
        from.push_back(begins[static_cast<size_t>(batch)]);
        to.push_back(begins[static_cast<size_t>(batch) + 1]);
        int64_t lowest = d.n_tokens, highest = 0;
        for (int64_t q = from.back(); q < to.back(); ++q) {
            lowest = std::min(lowest, d.offsets[d.order[q]]);
            highest = std::max(highest, d.offsets[d.order[q] + 1]);
        }
        rows = std::max(rows, highest - lowest);
    }
    const std::vector<double> hot_allowed = labels_of_hot(d);
    ChainPass pass{};
    pass.n_batches = static_cast<int64_t>(from.size());
    pass.batches = from.data();
    pass.ends = to.data();
    pass.rates = rates.data();
    pass.precision = precision;
    pass.batch_share = 1.0 / static_cast<double>(std::max<int64_t>(n_batches, 1));
    pass.shares = shares.data();
    pass.allowed = allowed.data();
    pass.hot_allowed = d.pair_ptr ? hot_allowed.data() : nullptr;
    pass.start_weights = start;
    pass.end_weights = end;
    const ChainMoving moving{state.data(), transitions.data(), base.data(), first.data(), last.data()};
    nb::gil_scoped_release release;
    ChainScratch scratch{};
    const ScratchPool::Lease lease = lay_out(tokens, widest(d, families), false, 1, rows, 1, scratch);
    FF_CALL(chain_stochastic_pass)
    (d, moving, tokens.n_state(), families.data(), static_cast<int64_t>(families.size()), pointer(row_weight), pass,
     scratch, values.data());
}

}  // namespace

void bind_chain_stochastic(nb::module_& module) {
    module.def(
        "chain_batches",
        [](const ChainTokens& tokens) { return static_cast<int64_t>(batches_of(tokens.data()).size()) - 1; },
        nb::arg("tokens"), "The number of batches that stochastic steps go by.");
    module.def("chain_stochastic_pass", &stochastic_pass, nb::arg("tokens"), nb::arg("weights").noconvert(),
               nb::kw_only(), nb::arg("base"), nb::arg("families"), nb::arg("row_weight").none(), nb::arg("visits"),
               nb::arg("rates"), nb::arg("precision"), nb::arg("shares"), nb::arg("transition_places"),
               nb::arg("start"), nb::arg("end"), nb::arg("values").noconvert(),
               "One stochastic gradient step for each visited batch; the weights change in place.");
}

}  // namespace ff

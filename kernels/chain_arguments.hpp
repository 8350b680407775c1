// What the functions of chains are given besides the tokens: weights, families, and the memory of an evaluation.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "chain.hpp"
#include "chain_arrays.hpp"
#include "chain_lists.hpp"
#include "chain_tokens.hpp"

namespace ff {

// (state, transitions, base, start, end, columns): see ChainWeights.
using WeightArrays = std::tuple<In<double>, In2<double>, In<double>, In<double>, In<double>, In<double>>;
using GradientArrays = std::tuple<Out<double>, Out2<double>, Out<double>, Out<double>, Out<double>>;
// (width, beta, rows, indptr, indices)
using FamilyArrays = std::tuple<int64_t, double, Maybe<uint8_t>, Maybe<int64_t>, Maybe<int64_t>>;

static inline ChainWeights check_weights(const ChainTokens& tokens, const WeightArrays& arrays) {
    const ChainData& d = tokens.data();
    const auto& [state, transitions, base, start, end, columns] = arrays;
    const size_t padded = static_cast<size_t>(d.padded);
    need(static_cast<int64_t>(state.shape(0)) == tokens.n_state(), "chains: state weights have the wrong length");
    need(transitions.shape(0) == padded && transitions.shape(1) == padded,
         "chains: transitions must be padded x padded");
    need(base.shape(0) == padded && start.shape(0) == padded && end.shape(0) == padded,
         "chains: base, start and end must have the padded length");
    need(static_cast<int64_t>(columns.shape(0)) == d.n_columns, "chains: columns have the wrong length");
    return {state.data(), tokens.n_state(), transitions.data(), base.data(), start.data(), end.data(), columns.data()};
}

// Of the data only the sequences are used.
static inline std::vector<ChainFamily> check_families(const ChainData& d, const std::vector<FamilyArrays>& families) {
    std::vector<ChainFamily> result;
    for (const auto& [width, beta, rows, indptr, indices] : families) {
        need(width >= 0, "chains: a window's width must be positive, or 0 for the whole sequence");
        need(!rows || static_cast<int64_t>(rows->shape(0)) == d.n_sequences, "chains: rows needs one entry a sequence");
        need(indptr.has_value() == indices.has_value(), "chains: indptr and indices of a selection go together");
        if (indptr) {
            check_pointers(*indptr, d.n_sequences, static_cast<int64_t>(indices->shape(0)),
                           "chains: indptr of a selection must rise from 0 to its indices");
            for (int64_t i = 0; i < d.n_sequences; ++i) {
                const int64_t length = d.offsets[i + 1] - d.offsets[i];
                const int64_t windows = length == 0 ? 0 : width == 0 || length <= width ? 1 : length - width + 1;
                for (int64_t q = indptr->data()[i]; q < indptr->data()[i + 1]; ++q)
                    need(indices->data()[q] >= 0 && indices->data()[q] < windows,
                         "chains: a selected window is outside its sequence");
            }
        }
        result.push_back({width, beta, pointer(rows), pointer(indptr), pointer(indices)});
    }
    return result;
}

static inline int64_t widest(const ChainData& d, const std::vector<ChainFamily>& families) {
    int64_t width = 1;
    for (const ChainFamily& family : families)
        width = std::max(width, std::min(family.width, std::max<int64_t>(d.max_tokens, 1)));
    return width;
}

// One block of memory for an evaluation whose gradient is summed in `parts` parts from `rows` rows of residuals. It is
// kept from one evaluation to the next: fresh pages would cost as much as a recursion.
static inline ScratchPool::Lease lay_out(const ChainTokens& tokens, int64_t width, bool tangent, int64_t parts,
                                         int64_t rows, int n_threads, ChainScratch& scratch) {
    const ChainData& d = tokens.data();
    scratch.thread_size = FF_CALL(chain_room)(d, width, tangent);
    scratch.list_size = list_room(d);
    const int64_t square = d.padded * d.padded;
    const int64_t sizes[] = {d.n_hot * d.padded,
                             tangent ? d.n_hot * d.padded : 0,
                             6 * square,
                             parts * 4 * square,
                             parts * d.n_hot * d.padded,
                             parts * 2 * d.padded,
                             parts * d.n_columns,
                             d.n_columns,
                             rows * d.padded,
                             n_threads * scratch.thread_size,
                             n_threads * scratch.list_size};
    double** const places[] = {&scratch.hot_table,       &scratch.hot_tangent,    &scratch.matrices,
                               &scratch.edges,           &scratch.hot_gradient,   &scratch.ends,
                               &scratch.column_gradient, &scratch.column_factors, &scratch.residuals,
                               &scratch.threads,         &scratch.lists};
    int64_t used = 0;
    for (const int64_t size : sizes) used += (size + 7) / 8 * 8;
    ScratchPool::Lease lease = tokens.scratch().take(used);
    double* at = lease.data();
    for (size_t i = 0; i < std::size(sizes); ++i) {
        *places[i] = at;
        at += (sizes[i] + 7) / 8 * 8;
    }
    return lease;
}

}  // namespace ff

// Linear chains of labels given token scores: exact sums, marginals, gradients and decoding.
//
// A sequence of T tokens and K labels has the score Σ_t s_t(y_t) + Σ_t A(y_{t-1}, y_t). Weights of the first and the
// last label are part of s. A segment is a run of tokens whose labels are free given the label before it and the label
// after it (where there are any): the whole sequence is one, a window of PLk is another, and one recursion serves
// both. Rows of labels are padded to a multiple of four numbers; the padding has the score -inf, the probability 0.
//
// Unknown labels inside a segment are summed out of its likelihood: the log of the summed probability is the score of
// what is known, plus log Z of each run of unknown labels given the labels beside it, minus log Z of the segment. A
// window beside an unknown label, or without a known one inside, counts nothing. So a run lies in a window as a whole
// or not at all, and one recursion with the (negated) weight of all segments around it is enough.
#pragma once

#include <cstdint>

#include "interruption.hpp"
#include "isa.hpp"

namespace ff {

constexpr int64_t chain_lane = 4;      // doubles in a vector
constexpr int64_t chain_places = 2;    // blocks whose residuals several threads hold at once
constexpr int64_t chain_slices = 64;   // ranges of features with about as many entries each
constexpr int64_t chain_batch = 4;     // segments that go through the recursion in step
constexpr int32_t cold_row = -1;       // of a feature that has weights, but no row in the hot table
constexpr int64_t chain_windows = 32;  // windows of one sequence whose edges are summed in one product

// Which segments of which sequences count, and how much.
struct ChainFamily {
    int64_t width;          // tokens of a window; 0 is the whole sequence
    double beta;            // weight of each segment
    const uint8_t* rows;    // (n_sequences), selects whole sequences; null: all
    const int64_t* indptr;  // (n_sequences + 1), a sparse list of windows by their first token; null: all windows
    const int64_t* indices;
};

// Tokens and their features, read-only. Frequent ("hot") features have a padded row in a table that stays in the cache;
// the others ("cold") are gathered from the parameters.
struct ChainData {
    // Sequences go block by block, so that residuals are held for one block only; n_chunks chunks of a block run side
    // by side, and chunk c of all blocks adds to the same sums.
    int64_t n_sequences, n_tokens, n_labels, padded, n_features, n_hot, n_chunks, n_blocks;
    int64_t max_block_tokens;
    int64_t max_tokens;           // of one sequence
    int64_t max_entries;          // features of the tokens of one sequence
    int64_t batch_tokens;         // at most, unless one sequence has more
    int64_t max_batch_tokens;     // of sequences that go together: see batch_end
    const int64_t* offsets;       // (n_sequences + 1)
    const int32_t* labels;        // (n_tokens); -1 is unknown
    bool partial;                 // whether any is
    const uint8_t* active;        // (n_tokens), tokens in some selected segment; null: all
    const int64_t* chunk_ptr;     // (n_blocks * n_chunks + 1) into order
    const int64_t* block_offset;  // (n_blocks + 1), first token of each block
    const int64_t* order;         // sequences by chunk, longest first among neighbours
    const uint32_t* hot_ptr;      // (n_tokens + 1)
    const uint16_t* hot_rows;     // rows of the hot table
    const double* hot_values;     // null: all 1
    const uint32_t* cold_ptr;     // (n_tokens + 1)
    const int32_t* cold_places;   // features; with cold_labels one entry for each pair of a feature: the pair
    const uint16_t* cold_labels;  // labels of those pairs: faster and larger, for few labels; null: features
    const double* cold_values;
    // Instead of these lists, for which see chain_lists.hpp; null: the lists are there.
    const int64_t* feature_ptr;  // (n_tokens + 1)
    const int32_t* features;
    const double* feature_values;   // null: all 1
    const int32_t* row_of;          // (n_features), row of the hot table, or cold_row
    const int32_t* hot_features;    // (n_hot), the feature of each row
    const int64_t* slice_features;  // (chain_slices + 1), where each slice of the features begins
    const int64_t* pair_ptr;        // (n_features + 1), labels of each feature; null: every label, row by row
    const int32_t* pair_labels;
    // Features of label pairs: token -> edge feature -> columns (previous label * padded + label).
    int64_t n_columns;
    const int64_t* edge_ptr;  // (n_tokens + 1); null: none
    const int32_t* edge_features;
    const double* edge_values;
    const int64_t* column_ptr;  // (n_edge_features + 1)
    const int32_t* columns;
};

// The end of the batch that begins at place q of `order`, in a chunk that ends at `last`: long sequences with many
// labels go by twos and threes, or alone. The recursions need the longest first, so a batch also ends before a sequence
// that is longer than the one before it.
static inline int64_t batch_end(const ChainData& data, int64_t q, int64_t last) {
    int64_t tokens = 0, before = 0, end = q;
    for (; end < last && end < q + chain_batch; ++end) {
        const int64_t length = data.offsets[data.order[end] + 1] - data.offsets[data.order[end]];
        tokens += length;
        if (end > q && (tokens > data.batch_tokens || length > before)) break;
        before = length;
    }
    return end;
}

// The weights of one evaluation, or a direction in which it is differentiated.
struct ChainWeights {
    const double* state;  // by feature and label, or by pair
    int64_t state_size;
    const double* transitions;  // padded x padded, padding 0
    const double* base;         // (padded), the score that every token starts from
    const double* start;        // (padded)
    const double* end;          // (padded)
    const double* columns;      // (n_columns)
};

// Scratch of one evaluation; the binding allocates it.
struct ChainScratch {
    double* hot_table;        // n_hot x padded
    double* hot_tangent;      // the same for the direction
    double* matrices;         // 6 x padded x padded: exp(A - max A), its transpose, both times the direction, panels
    double* edges;            // n_chunks x 4 x padded x padded, of which FL alone touches two: see edge_parts
    double* hot_gradient;     // n_chunks x n_hot x padded
    double* ends;             // n_chunks x 2 x padded
    double* column_gradient;  // n_chunks x n_columns
    double* column_factors;   // (n_columns)
    double* residuals;        // places x max_block_tokens x padded, for gradients whose residuals nobody wants
    int64_t places;           // blocks whose residuals are held at once
    int64_t* block_places;    // (n_blocks)
    const int64_t* task_ptr;  // (2 n_blocks + 1), a block's chunks and its ranges of features: see team.hpp
    int64_t ranges;           // ranges of features that are summed side by side
    double* threads;          // n_threads x thread_size
    int64_t thread_size;
    double* lists;  // n_threads x list_room, see chain_lists.hpp
    int64_t list_size;
};

// What comes out. Null pointers are not computed.
struct ChainOutput {
    double* values;       // (n_sequences), log-likelihood times weight
    double* tangents;     // (n_sequences), its derivative in the direction
    double* residuals;    // n_tokens x padded, observed - expected (or their derivative); a gradient needs none
    double* transitions;  // padded x padded
    double* start;        // (padded)
    double* end;          // (padded)
    double* state;        // as ChainWeights::state
    double* columns;      // (n_columns)
    Interruption* interruption = nullptr;  // asked before each chunk; what a call leaves behind is then of no use
};

// Where the weights are in θ: state, transitions, start, end and columns follow each other.
struct ChainPlaces {
    int64_t n_parameters, n_state, n_transitions;
    const int64_t* transitions;  // (n_transitions), places in a padded x padded matrix
    bool start, end;             // whether there are such weights
};

}  // namespace ff

// The doubles of scratch that each thread needs.
FF_DECLARE_LEVELS(int64_t chain_room(const ff::ChainData& data, int64_t max_width, bool tangent))

FF_DECLARE_LEVELS(void chain_evaluate(const ff::ChainData& data, const ff::ChainWeights& weights,
                                      const ff::ChainWeights* direction, const ff::ChainFamily* families,
                                      int64_t n_families, const double* row_weight, bool observed, bool squares,
                                      const ff::ChainScratch& scratch, const ff::ChainOutput& out, int n_threads))
// ∇ log-likelihood of the sequences first..last by family, without β: scores (last - first) x n_families x
// n_parameters. Of `out` only values are used, as scratch; `scratch.edges` has 4 x padded x padded and
// `scratch.residuals` max_tokens x padded for each thread.
FF_DECLARE_LEVELS(void chain_sequence_scores(const ff::ChainData& data, const ff::ChainWeights& weights,
                                             const ff::ChainFamily* families, int64_t n_families, int64_t first,
                                             int64_t last, const ff::ChainPlaces& places,
                                             const ff::ChainScratch& scratch, const ff::ChainOutput& out,
                                             double* scores, int n_threads))
// Of `scratch` the lists are used, and hot_table, which has a row more than there are hot features.
FF_DECLARE_LEVELS(void chain_token_scores(const ff::ChainData& data, const ff::ChainWeights& weights,
                                          const ff::ChainScratch& scratch, double* scores, int n_threads))
// The gradient of state, start and end weights from residuals that are there already. Of `scratch` hot_gradient, ends
// and the lists are used.
FF_DECLARE_LEVELS(void chain_state_gradient(const ff::ChainData& data, const double* residuals, bool squares,
                                            const ff::ChainScratch& scratch, double* state, double* start, double* end,
                                            int n_threads))

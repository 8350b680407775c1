// Chains of labels whose edges see three labels: Σ_t s_t(y_t) + Σ_t U(y_{t-2}, y_{t-1}, y_t).
//
// A state is the pair (y_{t-1}, y_t) and an arc the step (a, b) -> (b, c): a first-order chain over states with a
// sparse list of arcs. Labels before the first are a start symbol, and state 0 is (start, start). A triple without an
// arc is forbidden. The arcs are sorted by the state they leave, then by label. A segment is a run of tokens whose
// labels are free given two labels before and two behind it; the last two are tokens with a fixed label after the free
// ones.
#pragma once

#include <cstdint>

#include "chain.hpp"
#include "interruption.hpp"
#include "isa.hpp"

namespace ff {

struct TripleArcs {
    int64_t n_labels, n_states, n_arcs;
    const int32_t* label;    // (n_states), the label of a state; -1: the start
    const int32_t* pairs;    // (n_labels + 1) x (n_labels + 1): the state of two labels (n_labels: start); -1: none
    const int32_t* next;     // n_states x n_labels: the arc of a state and the next label; -1: forbidden
    const int64_t* out_ptr;  // (n_states + 1) into the arcs
    const int32_t* from;     // (n_arcs)
    const int32_t* to;       // (n_arcs)
    const int64_t* in_ptr;   // (n_states + 1) into the arcs sorted by the state they enter
    const int32_t* in_arcs;
    const int32_t* in_from;  // from[in_arcs]
};

// Sequences with the scores of their tokens, and which segments count.
struct TripleChains {
    int64_t n_sequences, padded, max_tokens;
    const int64_t* offsets;
    const int32_t* labels;          // (n_tokens), -1 is unknown; null: only sums over all labels are asked for
    const double* scores;           // n_tokens x padded, -inf at labels that are ruled out
    const double* tangent_scores;   // the same for a direction; null: no derivative
    const double* weights;          // (n_arcs)
    const double* tangent_weights;  // (n_arcs)
    const ChainFamily* families;
    int64_t n_families;
    const double* row_weight;
    bool observed, squares;
    int64_t n_chunks;          // chunks run side by side and have sums of their own
    const int64_t* chunk_ptr;  // (n_chunks + 1) into order
    const int64_t* order;
};

// What comes out. Null pointers are not computed.
struct TripleOutput {
    double* values;     // (n_sequences), log-likelihood times weight; -inf where the labels are forbidden
    double* tangents;   // (n_sequences)
    double* residuals;  // n_tokens x padded, observed - expected (or the derivative); must be 0 at the start
    double* arcs;       // n_chunks x n_arcs, the same for arcs
    double* states;     // n_tokens x n_states, probabilities of states in whole sequences
    Interruption* interruption;
};

// Memory of an evaluation: `shared` is 4 x n_arcs doubles, `threads` and `places` are those of each thread.
struct TripleScratch {
    double* shared;
    double* threads;
    int64_t thread_size;
    int32_t* places;
    int64_t place_size;
};

}  // namespace ff

// The doubles and int32 of scratch that each thread needs.
FF_DECLARE_LEVELS(int64_t triple_room(const ff::TripleArcs& arcs, const ff::TripleChains& chains))
FF_DECLARE_LEVELS(int64_t triple_places(const ff::TripleArcs& arcs, const ff::TripleChains& chains))
FF_DECLARE_LEVELS(void triple_evaluate(const ff::TripleArcs& arcs, const ff::TripleChains& chains,
                                       const ff::TripleScratch& scratch, const ff::TripleOutput& out, int n_threads))
// The `count` best paths, best first: labels count x n_tokens (-1 where there are fewer paths), scores n_sequences x
// count (-inf). `work`: n_threads x max_tokens x n_states x count doubles, `back` as many int64.
FF_DECLARE_LEVELS(void triple_n_best(const ff::TripleArcs& arcs, const ff::TripleChains& chains, int64_t count,
                                     double* work, int64_t* back, int32_t* labels, double* best,
                                     ff::Interruption& interruption, int n_threads))

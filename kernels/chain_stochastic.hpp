// Stochastic gradient steps on the weights of a chain, a few sequences at a time.
//
// A step on the batch B moves every weight by `rate` times the gradient of Σ_{i in B} log-likelihood - its share of the
// penalty. A weight's penalty is shared out over the places where it has a gradient: the tokens of its feature, or all
// batches for transitions and the weights of first and last labels. So the expected step is the gradient of the whole
// penalised sum, and weights that a batch does not use cost nothing. The penalty's part is taken implicitly, w <- (w +
// rate * gradient) / (1 + rate * penalty), which no rate makes unstable.
#pragma once

#include "chain.hpp"

namespace ff {

// A pass over batches of chain_batch sequences.
struct ChainPass {
    int64_t n_batches;
    const int64_t* batches;     // where each batch begins in ChainData::order, in the order of the visits
    const int64_t* ends;        // and where it ends
    const double* rates;        // (n_batches)
    double precision;           // 1/σ²
    double batch_share;         // 1 / batches of the data: the share of each in the penalty of transitions
    const double* shares;       // 1 / tokens that have the feature, by listed pair or by feature
    const uint8_t* allowed;     // (padded x padded), label pairs that have a transition weight
    const double* hot_allowed;  // (n_hot x padded), 1 for the labels of a hot feature; null: all
    bool start_weights, end_weights;
};

// The weights, which the steps change.
struct ChainMoving {
    double* state;
    double* transitions;
    const double* base;
    double* start;
    double* end;
};

}  // namespace ff

// The log-likelihood of each sequence before its step goes to `values`.
FF_DECLARE_LEVELS(void chain_stochastic_pass(const ff::ChainData& data, const ff::ChainMoving& moving, int64_t n_state,
                                             const ff::ChainFamily* families, int64_t n_families,
                                             const double* row_weight, const ff::ChainPass& pass,
                                             const ff::ChainScratch& scratch, double* values))

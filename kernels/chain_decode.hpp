// Best label sequences and marginals of chains whose token scores are known.
//
// Scores are tokens x padded with -inf in the padding (and at labels that are ruled out). Edge scores are one padded x
// padded matrix (edge_stride 0) or one for each token, that of the edge into it.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

struct ChainScores {
    int64_t n_sequences, n_labels, padded;
    const int64_t* offsets;
    const double* scores;
    const double* edges;
    int64_t edge_stride;
};

}  // namespace ff

// The best path of each sequence and its score; ties go to the smaller label. `work`: n_threads x max_tokens x padded.
FF_DECLARE_LEVELS(void chain_viterbi(const ff::ChainScores& chain, int64_t max_tokens, double* work, int32_t* labels,
                                     double* best, int n_threads))
// The `count` best paths, best first: labels count x n_tokens, path scores n_sequences x count (-inf where there are
// fewer paths). `work`: n_threads x max_tokens x padded x count doubles, `back` as many int32.
FF_DECLARE_LEVELS(void chain_n_best(const ff::ChainScores& chain, int64_t max_tokens, int64_t count, double* work,
                                    int32_t* back, int32_t* labels, double* best, int n_threads))
// Node marginals (tokens x padded), edge marginals (tokens x padded x padded; null: not wanted) and log Z, in log
// space. `work`: n_threads x ((4 max_tokens + 4) x padded + padded x padded).
FF_DECLARE_LEVELS(void chain_marginals(const ff::ChainScores& chain, int64_t max_tokens, double* work, double* nodes,
                                       double* edges, double* log_z, int n_threads))

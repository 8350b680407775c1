// Binary pairwise fields, log p(c) = sum_e q_e c_a c_b + sum_j bias_j c_j - log Z with c in {0, 1}: blocks A given all
// the rest.
//
// Everything is measured from the observed state. With s_j = 1 - 2 c_j and the local field H_j = bias_j + sum_k q_jk
// c_k, flipping the set F of a block changes the energy by
//     D(F) = sum_{a in F} s_a H_a + sum_{a < b in F} s_a s_b q_ab,
// so that log p(c_A | rest) = -log sum_F exp D(F). With pi_a, pi_ab the probabilities that a, and both a and b, are
// flipped, the gradient for the bias of a is -s_a pi_a =: r_a, and for the weight of the pair (a, b)
//     r_a c_b + r_b c_a - s_a s_b pi_ab [a and b in the same block].
// The first two terms are a matrix product over samples for all blocks at once; the last is summed block by block.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

constexpr int64_t pairwise_tile = 64;   // samples that a block kernel holds at once, the bits of one word
constexpr int64_t pairwise_panel = 16;  // columns of the matrix products that are done together
constexpr int64_t pairwise_batch = 8;   // lanes of a table of flips
constexpr int pairwise_most = 12;       // variables of the largest block
constexpr int pairwise_meta_columns = 10;

enum class PairwiseMode : int {
    gradient = 0,  // value and gradient, summed
    hessian = 1,   // Hessian times the direction (dq, dbias), summed
    diagonal = 2,  // curvature of each parameter, summed; see pairwise_isa.cpp
    values = 3,    // log-likelihood for each sample or entry
    products = 4,  // score times direction for each sample or entry
    scores = 5,    // r and the pair terms for each sample
};

// One group of components with blocks of one size; a line of `meta` holds these numbers in this order.
struct PairwisePart {
    int64_t k;             // variables in a block
    int64_t n_components;  // m where k = 1 and form = 0: one weight for each variable
    int64_t target;        // where its blocks begin in `targets` (n_components, k)
    int64_t pair;          // where its edges begin in `pairs` (n_components, k (k - 1) / 2), -1 is no edge
    int64_t beta;          // where its weights begin in `beta` (n_components)
    int64_t form;          // 0: all components for samples with a weight; 1: a list of entries
    int64_t row_weight;    // where the samples' weights begin, -1 is all ones (form 0)
    int64_t indptr;        // where the sample pointers begin (form 1)
    int64_t entry;         // where its entries begin in `entry_component` (form 1)
    int64_t entry_weight;  // where the entries' weights begin, -1 is all ones (form 1)
};

struct PairwisePlan {
    PairwiseMode mode;
    bool dense;                    // products by tables of 4 columns, else edge by edge
    int64_t n, n_padded;           // samples, rounded up to whole tiles
    int64_t m, m_padded, n_edges;  // variables, rounded up to whole panels
    int64_t chunk;                 // samples of a chunk, whole tiles
    const uint64_t* columns;       // (tiles, m): bit i of a word is sample i of the tile
    const uint32_t* rows;          // (n_padded, row_words): bit j of a row is variable j
    int64_t row_words;
    const int32_t *edge_a, *edge_b;
    const int64_t* adjacent_pointer;
    const int32_t *adjacent, *adjacent_edge;
    const double *q, *bias, *dq, *dbias;  // weights and direction
    const double *exp_q, *exp_minus_q;    // exp(q), exp(-q)
    const double *matrix, *dmatrix;       // (32 row_words, m_padded): symmetric q and dq, for dense
    double largest_q, state0, state_gap;
    double outer_scale;  // what the outer product counts with: 1, or gap^2 (x1^2 - x0^2) for the diagonal
    int64_t n_parts;
    const PairwisePart* parts;
    const int32_t *targets, *pairs;
    const double *beta, *row_weight, *entry_weight;
    const int64_t* indptr;
    const int32_t* entry_component;
    // Outputs for each sample or entry (modes values, products, scores).
    double* row_out;     // (n_parts, n)
    double* entry_out;   // entries
    double* residual;    // (n, m)
    double* pair_terms;  // (n, n_edges)
};

// Sums of one task, in its own memory.
struct PairwiseSums {
    double value;
    double* edges;   // (n_edges)
    double* biases;  // (m)
    double* outer;   // (32 row_words, m_padded), for dense: outer[k, j] = sum r_j c_k
};

}  // namespace ff

// Numbers of scratch that one thread needs.
FF_DECLARE_LEVELS(int64_t pairwise_scratch(const PairwisePlan& plan))
// Add the chunks first..last-1 to `sums`. `scratch` is aligned to 64 bytes.
FF_DECLARE_LEVELS(void pairwise_chunks(const PairwisePlan& plan, int64_t first, int64_t last, double* scratch,
                                       PairwiseSums* sums))

// Gibbs sweeps of pairwise fields, a group of chains at a time.
//
// All chains of a group visit the same variable together, so that its weights are read once, the random numbers of the
// group are made together, and the chains' sums do not wait for each other. A chain's draws depend on its number only,
// not on its group.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

constexpr int gibbs_lanes = 16;      // chains of a group
constexpr int64_t gibbs_fewest = 5;  // fewer chains are quicker one by one

struct GibbsRandom {
    uint64_t seed;
    uint32_t stream;
    uint64_t first;  // number of the group's first chain
};

// Sweeps of m variables between two questions whether to go on: a small part of a second, also in wide fields.
constexpr int64_t gibbs_sweeps_between(int64_t m) { return m < 4096 ? 4096 / (m < 1 ? 1 : m) : 1; }

// What a group's chains are asked for: after `burn_in` sweeps, every `thin` sweeps, the state of each chain.
struct GibbsRun {
    GibbsRandom random;
    int64_t burn_in, thin, draws;
    // Takes the states (m, lanes) of one draw; false ends the run. Asked with draw = -1 between sweeps.
    bool (*take)(void* context, int64_t draw);
    void* context;
};

// Two states: the log odds of a variable are a constant and the weights of its neighbours in state 1.
struct OddsField {
    int64_t m;
    const double* constant;
    const int64_t* indptr;  // (m + 1) neighbours of each variable
    const int32_t* neighbour;
    const double* weight;
    const uint8_t* fixed;  // variables that keep their value
};

constexpr int gibbs_pad = 4;  // a variable's scores are padded to a multiple of this

// Any number of states: for each neighbour of a variable and each state of it, a row of log weights of the variable's
// states, padded with 0.
struct RowsField {
    int64_t m;
    const int32_t* cardinality;
    const int32_t* width;    // (m) cardinality, padded
    const int64_t* own_ptr;  // (m) where the variable's own row begins
    const double* own;
    const int64_t* indptr;  // (m + 1) neighbours of each variable
    const int32_t* neighbour;
    const int64_t* row_ptr;  // where the rows of each neighbour begin
    const double* rows;
    const uint8_t* fixed;
};

}  // namespace ff

// `state` (m, lanes) is where the chains start, 0 or 1, and is theirs to change.
FF_DECLARE_LEVELS(void gibbs_odds(const OddsField& field, const GibbsRun& run, double* state))
// The same for any states; `score` (2, largest width, lanes) is scratch.
FF_DECLARE_LEVELS(void gibbs_rows(const RowsField& field, const GibbsRun& run, int32_t* state, double* score))

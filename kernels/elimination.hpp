// Exact sums over the free variables of a clamped factor graph, by variable elimination.
//
// A program is the elimination of one set of free variables, compiled by Python into flat arrays. Bucket b eliminates
// one variable: it multiplies its inputs (reduced factors and messages of earlier buckets) into a table over
// (separator, variable), the variable fastest, and sums the variable out into its message over the separator. Every
// separator value leaves a conditional p(variable | separator), and a pass back over the buckets turns those into
// clique marginals.
//
// A configuration is one assignment of the clamped variables: for each factor of its program the flat index `base` of
// the table entry where all free variables are 0. W configurations go through a program at a time, one in each lane.
//
// Tables come in twice: as exp(log table - shift), for the pass in probability space, and as logarithms for the batches
// in which that pass could lose something to underflow; those are done again in log space.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

struct Programs {
    int64_t n_programs;
    const int32_t* bucket_ptr;    // (n_programs + 1) buckets of each program
    const int32_t* factor_ptr;    // (n_programs + 1) reduced factors of each program
    const int64_t* cell_count;    // (n_programs) cells of working memory
    const int32_t* factor_size;   // reduced table size
    const int32_t* factor_cell;   // first cell of the reduced table
    const int64_t* factor_entry;  // first index into entry_offset
    const int32_t* entry_offset;  // offset in the flat tables of each reduced entry
    const int32_t* bucket_size;   // table size: separator size times cardinality
    const int32_t* bucket_card;   // cardinality of the eliminated variable
    const int64_t* bucket_cell;   // first cell of the table
    const int64_t* message_cell;  // first cell of the message
    const int32_t* input_ptr;     // (n_buckets + 1) inputs of each bucket
    const int32_t*
        input_source;  // >= 0: factor of the program (counted over all programs); < 0: -1 - bucket of the message
    const int64_t* input_map;      // first index into maps
    const int32_t* maps;           // index into the input's table for each entry of the bucket's table
    const int32_t* bucket_var;     // the eliminated variable
    const int32_t* separator_ptr;  // (n_buckets + 1)
    const int32_t* separator_var;  // variables of the separator
    const int32_t* separator_stride;
};

struct Tables {
    const double* potential;   // exp(log table - shift of the factor)
    const double* logarithm;   // log table
    const double* direction;   // derivative of the log table, or null
    const double* shift;       // (configurations' factors) sum of shifts is added to log Z: see factor_shift
    const int32_t* factor_id;  // graph factor of each reduced factor
};

struct Batch {
    int64_t program;
    int64_t first;  // first configuration
    int64_t count;  // configurations in this batch, at most the number of lanes
    int64_t base;   // index of the first configuration's bases
};

struct Request {
    const int64_t* bases;    // for each configuration, one for each factor of its program
    const double* weight;    // (configurations) or null
    double* log_z;           // (configurations) or null
    double* slope;           // (configurations) derivative of log Z along `direction`, or null
    double* marginals;       // flat tables: sum of weight * marginal, or null
    double* marginal_slope;  // flat tables: sum of weight * derivative of the marginal, or null
    double* each;            // marginals of each configuration in the order of its program's reduced entries, or null
    const int64_t* each_start;  // (configurations) where they go
};

}  // namespace ff

// Run batches first..last. `work` holds the largest cell_count * lanes * (tangents ? 2 : 1) doubles, plus
// lanes for each bucket. lanes is 1 or 8. Returns the number of batches that were done again in log space.
FF_DECLARE_LEVELS(int64_t eliminate(const ff::Programs& programs, const ff::Tables& tables, const ff::Request& request,
                                    const ff::Batch* batches, int64_t first, int64_t last, int lanes, double* work))

// Forward pass of one configuration with one lane, in log space; leaves in `work` the conditionals (or, with
// `maximise`, the max-marginal tables) from which decode() reads states. Returns log Z (or the maximum).
FF_DECLARE_LEVELS(double forward_once(const ff::Programs& programs, const ff::Tables& tables, const int64_t* bases,
                                      bool maximise, double* work))

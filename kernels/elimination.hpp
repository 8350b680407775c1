// Exact sums over the free variables of a clamped factor graph, by variable elimination.
//
// A template is the elimination of some free variables, compiled by Python into flat arrays. Bucket b eliminates one
// variable: it multiplies its inputs (reduced tables and messages of earlier buckets) into a table over (separator,
// variable), the variable fastest, and sums the variable out into its message over the separator. Every separator value
// leaves a conditional p(variable | separator), and a pass back over the buckets turns those into clique marginals.
//
// A program binds a template to the factors of a graph. Factors that have the same free variables form a group, whose
// reduced table is the product of theirs; a dense field has many factors but few groups. Programs of the same shape
// share one template, whatever variables they are about.
//
// A configuration is one assignment of the clamped variables: for each member factor of its program the flat index
// `base` of the table entry where all free variables are 0. W configurations go through a program at a time, one in
// each lane. The pass is made in probability space; a batch in which it could lose something to underflow is done
// again in log space.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

struct Programs {
    // templates
    const int32_t* bucket_ptr;    // (templates + 1)
    const int32_t* group_ptr;     // (templates + 1)
    const int64_t* cell_count;    // (templates) cells of working memory
    const int32_t* group_size;    // entries of a group's reduced table
    const int64_t* group_cell;    // its first cell
    const int32_t* bucket_size;   // table size: separator size times cardinality
    const int32_t* bucket_card;   // cardinality of the eliminated variable
    const int64_t* bucket_cell;   // first cell of the table
    const int64_t* message_cell;  // first cell of the message
    const int32_t* input_ptr;     // (buckets + 1)
    const int32_t* input_source;  // >= 0: group; < 0: -1 - bucket whose message it is (both counted over all templates)
    const int64_t* input_map;     // first index into maps
    const int32_t* maps;          // index into the input's table for each entry of the bucket's table
    const int32_t* bucket_var;    // the eliminated variable, counted among the free ones
    const int32_t* separator_ptr;  // (buckets + 1)
    const int32_t* separator_var;
    const int32_t* separator_stride;
    const int32_t* wide;      // (templates) 1: no maps, messages are made and dropped as needed (elimination_wide.hpp)
    const int64_t* step_ptr;  // (inputs + 1) empty for templates that are not wide
    const int64_t* input_step;  // entries from one state to the next of the variable and of each of the separator's
    // programs
    int64_t n_programs;
    const int32_t* program_template;
    const int64_t* program_member;    // (programs + 1) first member
    const int64_t* program_group;     // (programs) where its group_member pointers start
    const int32_t* group_member;      // for each program: groups + 1 pointers into its members
    const int64_t* member_entry;      // (members) first index into entry_offset
    const int32_t* entry_offset;      // offset in the flat tables of each entry of the group's reduced table
    const int64_t* program_variable;  // (programs + 1)
    const int32_t* variable;          // the free variables of each program
};

struct Tables {
    const double* logarithm;  // flat log tables
    const double* direction;  // their derivative, or null
};

struct Batch {
    int64_t program;
    int64_t first;  // first configuration
    int64_t count;  // configurations in this batch, at most the number of lanes
    int64_t base;   // index of the first configuration's bases
};

struct Request {
    const int64_t* bases;       // for each configuration, one for each member of its program
    const double* weight;       // (configurations) or null
    double* log_z;              // (configurations) or null
    double* slope;              // (configurations) derivative of log Z along `direction`, or null
    double* marginals;          // flat tables: sum of weight * marginal, or null
    double* marginal_slope;     // flat tables: sum of weight * derivative of the marginal, or null
    double* each;               // marginals of each configuration, member by member, or null
    const int64_t* each_start;  // (configurations) where they go
};

}  // namespace ff

// Run batches first..last. `work` holds the largest cell_count * lanes * (tangents ? 2 : 1) doubles, plus
// lanes for each bucket. lanes is 1 or 8. Returns the number of batches that were done again in log space.
FF_DECLARE_LEVELS(int64_t eliminate(const ff::Programs& programs, const ff::Tables& tables, const ff::Request& request,
                                    const ff::Batch* batches, int64_t first, int64_t last, int lanes, double* work))

// The two ends of a wide elimination of one configuration, for its groups alone: their reduced tables, in log space or
// relative to the largest entry, whose logarithm is added to log Z (false where log space is needed), and what they add
// to the request. Cells are those of one lane.
FF_DECLARE_LEVELS(bool gather_once(const ff::Programs& programs, const ff::Tables& tables, const ff::Batch& batch,
                                   const int64_t* bases, bool log_space, double* cells, double* log_z))
FF_DECLARE_LEVELS(void scatter_once(const ff::Programs& programs, const ff::Request& request, const ff::Batch& batch,
                                    bool tangent, const double* cells))

// Forward pass of one configuration with one lane, in log space; leaves in `work` the conditionals (or, with
// `maximise`, the max-marginal tables) from which decode() reads states. Returns log Z (or the maximum).
FF_DECLARE_LEVELS(double forward_once(const ff::Programs& programs, const ff::Tables& tables, const int64_t* bases,
                                      bool maximise, double* work))

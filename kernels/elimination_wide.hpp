// One step of a wide elimination: tables so large that neither they nor index maps of them are stored.
//
// Bucket b sums one variable out of the product of its inputs: message[s] = Σ_v Π_i input_i[s, v]. Every message is
// laid out with the variable that is summed out next running slowest, so that the messages which a bucket takes are
// read in long contiguous runs. The separator is cut in an outer part, over which the kernel counts, and an inner block
// of its fastest variables, over which it runs vector loops. The small inputs (reduced tables of groups) are multiplied
// into coefficients of an inner block, which are used again until an outer variable of theirs changes.
//
// Messages are not normalised: `factor` of an input (1 / its largest entry) goes into the coefficients. The way back
// takes the marginal of the separator and adds p(s) input / message to the marginals of all inputs.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

enum class WideMode { sum, log_sum, maximum };
// How an input runs over an inner block: all of it, not at all, each entry twice, or by `map`.
enum class WideKind { contiguous, constant, twice, mapped };

constexpr int64_t wide_block = 1024;  // most entries of an inner block with more than one variable

struct WideInput {
    const double* value;
    const double* slope;  // with tangents
    double* total;        // on the way back: the marginal, and its derivative
    double* total_slope;
    int64_t unit;               // doubles from one entry to the next
    int64_t variable_step;      // entries from one state of the eliminated variable to the next
    const int64_t* outer_step;  // and of the outer variables of the separator
    const int32_t* map;         // offset of each entry of the inner block
    double factor;
    WideKind kind;
};

struct WideBucket {
    int32_t card;
    int32_t digits;             // outer variables
    const int32_t* outer_card;  // their states
    int64_t outer, inner;       // entries
    const WideInput* inputs;    // the small ones first
    int32_t small, count;
    double* message;
    double* message_slope;
    const double* marginal;  // of the separator, on the way back
    const double* marginal_slope;
    double* scratch;  // wide_scratch doubles
    int64_t* places;  // 2 for each input
    int32_t* digit;   // one for each outer variable
};

// Coefficients, their sums on the way back, tables and one more block, each with its derivative.
static inline int64_t wide_scratch(int64_t card, int64_t inner) { return (6 * card + 2) * inner; }

struct WideRange {
    double largest, smallest;  // entries of the message
};

}  // namespace ff

FF_DECLARE_LEVELS(ff::WideRange wide_forward(const ff::WideBucket& bucket, ff::WideMode mode, bool tangent))
FF_DECLARE_LEVELS(void wide_backward(const ff::WideBucket& bucket, ff::WideMode mode, bool tangent))

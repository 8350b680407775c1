// How many sequences of an alignment agree with each one in at least a given number of columns.
//
// Sequences are bytes, padded to whole vectors with values that differ between any two of them by construction: the
// padding of the left operand is 254, that of the right 255. Each thread counts for its own sequences, so the result
// does not depend on the number of threads.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {
constexpr int64_t identity_width = 64;  // columns are padded to a multiple of this
}

// out[i] = number of j with at least `least` equal columns, for the sequences first..last-1 of `left` (n, padded).
FF_DECLARE_LEVELS(void count_neighbours(const uint8_t* left, const uint8_t* right, int64_t n, int64_t padded,
                                        int64_t least, int64_t first, int64_t last, int64_t* out))

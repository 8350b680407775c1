// Sums of x xᵀ over lists of the rows x of a matrix.
#pragma once

#include <cstdint>

#include "isa.hpp"

// Columns that are summed at a time; the width of the matrix is a multiple of it, and at most GRAM_NUMBERS.
constexpr int64_t GRAM_TILE = 8, GRAM_NUMBERS = 4096;

// Add Σ x xᵀ over the `count` listed rows of x (· × width) to out (width × width), a symmetric matrix.
FF_DECLARE_LEVELS(void row_gram(const double* x, int64_t width, const int32_t* rows, int64_t count, double* out))

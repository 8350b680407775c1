// Vector exp and log over arrays: the reference use of vecmath.hpp, and what its tests call.
#pragma once

#include <cstdint>

#include "isa.hpp"

FF_DECLARE_LEVELS(void exp_array(const double* x, double* out, int64_t n))
FF_DECLARE_LEVELS(void log_array(const double* x, double* out, int64_t n))

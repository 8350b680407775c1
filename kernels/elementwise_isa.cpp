#include "elementwise.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

void exp_array(const double* x, double* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = fast_exp(x[i]);
}

void log_array(const double* x, double* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = fast_log(x[i]);
}

}  // namespace ff::FF_ISA

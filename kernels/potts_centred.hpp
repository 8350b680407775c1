// The curvature of a Potts field near independence, applied to a vector; see
// src/fieldfit/models/potts_preconditioner.py.
//
// With f the frequencies of the states of a site, v = f (1 - f), g the vector's entries of the fields and w the weights
// of the sites, the couplings of an edge (a, b) become
//     c(s, t) = (vector(s, t) - g_a(s) f_b(t) - f_a(s) g_b(t)) / max((w_a + w_b) v_a(s) v_b(t) + 1/sigma2(s, t), floor)
// and each end gets the sums of c(s, t) over its neighbour's states, weighted with f, which belong to its fields.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff {

// One edge. The arrays of the two ends have q numbers.
struct CentredEdge {
    int64_t q;
    const double* vector;     // (q, q)
    const double* precision;  // (q, q)
    const double *frequency_a, *frequency_b, *field_a, *field_b;
    double weight, floor;
    double* out;                // (q, q)
    double *shift_a, *shift_b;  // set
};

}  // namespace ff

FF_DECLARE_LEVELS(void centred_edge(const CentredEdge& edge))

#include "potts_centred.hpp"

namespace ff::FF_ISA {

void centred_edge(const CentredEdge& edge) {
    const int64_t q = edge.q;
    for (int64_t t = 0; t < q; ++t) edge.shift_b[t] = 0.0;
    for (int64_t s = 0; s < q; ++s) {
        const double f = edge.frequency_a[s], g = edge.field_a[s], curvature = edge.weight * f * (1.0 - f);
        const double *vector = edge.vector + s * q, *precision = edge.precision + s * q;
        double* out = edge.out + s * q;
        for (int64_t t = 0; t < q; ++t) {
            const double other = edge.frequency_b[t];
            const double stiff = curvature * other * (1.0 - other) + precision[t];
            const double c = (vector[t] - g * other - f * edge.field_b[t]) / (stiff > edge.floor ? stiff : edge.floor);
            out[t] = c;
            edge.shift_b[t] += c * f;
        }
        double shift = 0.0;
#pragma omp simd reduction(+ : shift)
        for (int64_t t = 0; t < q; ++t) shift += out[t] * edge.frequency_b[t];
        edge.shift_a[s] = shift;
    }
}

}  // namespace ff::FF_ISA

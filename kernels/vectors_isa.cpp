#include "team.hpp"
#include "vectors.hpp"

namespace ff::FF_ISA {

// Calls body(chunk, first, length) for each chunk. Short vectors stay on one thread: waking others costs more.
template <class Body>
static inline void for_chunks(int64_t n, int threads, const Body& body) {
    const int64_t chunks = vector_chunks(n);
    const auto call = [&](int64_t c) {
        const int64_t first = c * vector_chunk;
        body(c, first, n - first < vector_chunk ? n - first : vector_chunk);
    };
    for_each_task(chunks, chunks > 15 ? threads : 1, call, 8);
}

static inline void add_in_order(const double* partial, int64_t chunks, int64_t width, double* sums) {
    for (int64_t k = 0; k < width; ++k) sums[k] = 0.0;
    for (int64_t c = 0; c < chunks; ++c)
        for (int64_t k = 0; k < width; ++k) sums[k] += partial[c * width + k];
}

static inline double larger(double a, double b) { return a > b ? a : b; }

template <class T>
static inline void append_pair(const PairSource& source, T* steps, T* changes, int64_t n, int64_t used, int64_t slot,
                               double* partial, double* sums, int threads) {
    for_chunks(n, threads, [&](int64_t c, int64_t first, int64_t length) {
        const double *q = source.search_gradient + first, *change = source.change + first;
        {
            const double *x1 = source.new_point + first, *x0 = source.old_point + first;
            T *s = steps + slot * n + first, *u = changes + slot * n + first;
            for (int64_t i = 0; i < length; ++i) s[i] = static_cast<T>(x1[i] - x0[i]);
            if (source.image) {
                const double* image = source.image + first;
                for (int64_t i = 0; i < length; ++i) u[i] = static_cast<T>(image[i]);
            } else if (source.diagonal) {
                const double* diagonal = source.diagonal + first;
                for (int64_t i = 0; i < length; ++i) u[i] = static_cast<T>(change[i] / diagonal[i]);
            } else {
                for (int64_t i = 0; i < length; ++i) u[i] = static_cast<T>(change[i]);
            }
        }
        for (int64_t row = 0; row < used; ++row) {
            const T *s = steps + row * n + first, *u = changes + row * n + first;
            double sy = 0.0, uy = 0.0, sq = 0.0, uq = 0.0;
#pragma omp simd reduction(+ : sy, uy, sq, uq)
            for (int64_t i = 0; i < length; ++i) {
                const double si = s[i], ui = u[i];
                sy += si * change[i];
                uy += ui * change[i];
                sq += si * q[i];
                uq += ui * q[i];
            }
            double* out = partial + (c * used + row) * 4;
            out[0] = sy;
            out[1] = uy;
            out[2] = sq;
            out[3] = uq;
        }
    });
    add_in_order(partial, vector_chunks(n), 4 * used, sums);
}

template <class T>
static inline double combine_rows(const Combination& how, const T* steps, const T* changes, int64_t n, int64_t used,
                                  double* direction, double* trial, double* partial, int threads) {
    for_chunks(n, threads, [&](int64_t c, int64_t first, int64_t length) {
        double total[vector_chunk];
        const double* q = how.search_gradient + first;
        if (how.image) {
            const double* image = how.image + first;
            for (int64_t i = 0; i < length; ++i) total[i] = how.scale * image[i];
        } else if (how.diagonal) {
            const double* diagonal = how.diagonal + first;
            for (int64_t i = 0; i < length; ++i) total[i] = how.scale * q[i] / diagonal[i];
        } else {
            for (int64_t i = 0; i < length; ++i) total[i] = how.scale * q[i];
        }
        for (int64_t row = 0; row < used; ++row) {
            const T *s = steps + row * n + first, *u = changes + row * n + first;
            const double a = how.step_weight[row], b = how.change_weight[row];
            for (int64_t i = 0; i < length; ++i)
                total[i] += a * static_cast<double>(s[i]) + b * static_cast<double>(u[i]);
        }
        const double* x = how.point + first;
        double *d = direction + first, *out = trial + first;
        double slope = 0.0;
#pragma omp simd reduction(+ : slope)
        for (int64_t i = 0; i < length; ++i) {
            d[i] = -total[i];
            out[i] = x[i] - how.step * total[i];
            slope -= q[i] * total[i];
        }
        partial[c] = slope;
    });
    double slope;
    add_in_order(partial, vector_chunks(n), 1, &slope);
    return slope;
}

void append_pair_float(const PairSource& source, float* steps, float* changes, int64_t n, int64_t used, int64_t slot,
                       double* partial, double* sums, int threads) {
    append_pair(source, steps, changes, n, used, slot, partial, sums, threads);
}

void append_pair_double(const PairSource& source, double* steps, double* changes, int64_t n, int64_t used, int64_t slot,
                        double* partial, double* sums, int threads) {
    append_pair(source, steps, changes, n, used, slot, partial, sums, threads);
}

double combine_rows_float(const Combination& how, const float* steps, const float* changes, int64_t n, int64_t used,
                          double* direction, double* trial, double* partial, int threads) {
    return combine_rows(how, steps, changes, n, used, direction, trial, partial, threads);
}

double combine_rows_double(const Combination& how, const double* steps, const double* changes, int64_t n, int64_t used,
                           double* direction, double* trial, double* partial, int threads) {
    return combine_rows(how, steps, changes, n, used, direction, trial, partial, threads);
}

void step_along(const double* point, const double* direction, double step, int64_t n, double* trial, int threads) {
    for_chunks(n, threads, [&](int64_t, int64_t first, int64_t length) {
        const double *x = point + first, *d = direction + first;
        double* out = trial + first;
        for (int64_t i = 0; i < length; ++i) out[i] = x[i] + step * d[i];
    });
}

void keep_gradient(const double* gradient, const double* direction, int64_t n, double* kept, double* partial,
                   double* sums, int threads) {
    for_chunks(n, threads, [&](int64_t c, int64_t first, int64_t length) {
        const double* g = gradient + first;
        double* out = kept + first;
        double slope = 0.0, finite = 0.0, norm = 0.0;
        if (direction) {
            const double* d = direction + first;
#pragma omp simd reduction(+ : slope)
            for (int64_t i = 0; i < length; ++i) slope += g[i] * d[i];
        }
        // 0 · g is NaN exactly where g is not finite.
#pragma omp simd reduction(+ : finite) reduction(max : norm)
        for (int64_t i = 0; i < length; ++i) {
            finite += 0.0 * g[i];
            norm = larger(__builtin_fabs(g[i]), norm);
            out[i] = g[i];
        }
        partial[3 * c] = slope;
        partial[3 * c + 1] = norm;
        partial[3 * c + 2] = finite;
    });
    sums[0] = sums[1] = sums[2] = 0.0;
    for (int64_t c = 0; c < vector_chunks(n); ++c) {
        sums[0] += partial[3 * c];
        sums[1] = larger(partial[3 * c + 1], sums[1]);
        sums[2] += partial[3 * c + 2];
    }
}

void pseudo_gradient(const double* point, const double* gradient, const double* l1, int64_t n, double* pseudo,
                     double* partial, double* sums, int threads) {
    for_chunks(n, threads, [&](int64_t c, int64_t first, int64_t length) {
        const double *x = point + first, *g = gradient + first, *weight = l1 + first;
        double* out = pseudo + first;
        double penalty = 0.0, norm = 0.0;
#pragma omp simd reduction(+ : penalty) reduction(max : norm)
        for (int64_t i = 0; i < length; ++i) {
            const double up = g[i] + weight[i], down = g[i] - weight[i];
            // At 0 the smaller of the two one-sided slopes counts, and 0 where both of them go uphill.
            const double at_zero = up < 0.0 ? up : (down > 0.0 ? down : 0.0);
            const double q = x[i] > 0.0 ? up : (x[i] < 0.0 ? down : at_zero);
            out[i] = q;
            penalty += weight[i] * __builtin_fabs(x[i]);
            norm = larger(__builtin_fabs(q), norm);
        }
        partial[2 * c] = penalty;
        partial[2 * c + 1] = norm;
    });
    sums[0] = sums[1] = 0.0;
    for (int64_t c = 0; c < vector_chunks(n); ++c) {
        sums[0] += partial[2 * c];
        sums[1] = larger(partial[2 * c + 1], sums[1]);
    }
}

void cg_update(double alpha, const double* p, const double* product, const double* diagonal, int64_t n, double* x,
               double* r, double* z, double* partial, double* sums, int threads) {
    for_chunks(n, threads, [&](int64_t c, int64_t first, int64_t length) {
        const double *pc = p + first, *hp = product + first;
        double *xc = x + first, *rc = r + first;
        double rr = 0.0, rz = 0.0, norm = 0.0;
#pragma omp simd reduction(+ : rr) reduction(max : norm)
        for (int64_t i = 0; i < length; ++i) {
            xc[i] += alpha * pc[i];
            const double ri = rc[i] - alpha * hp[i];
            rc[i] = ri;
            rr += ri * ri;
            norm = larger(__builtin_fabs(ri), norm);
        }
        if (z) {
            const double* d = diagonal + first;
            double* zc = z + first;
#pragma omp simd reduction(+ : rz)
            for (int64_t i = 0; i < length; ++i) {
                const double zi = rc[i] / d[i];
                zc[i] = zi;
                rz += rc[i] * zi;
            }
        } else {
            rz = rr;
        }
        partial[3 * c] = rr;
        partial[3 * c + 1] = rz;
        partial[3 * c + 2] = norm;
    });
    sums[0] = sums[1] = sums[2] = 0.0;
    for (int64_t c = 0; c < vector_chunks(n); ++c) {
        sums[0] += partial[3 * c];
        sums[1] += partial[3 * c + 1];
        sums[2] = larger(partial[3 * c + 2], sums[2]);
    }
}

void cg_direction(double beta, const double* z, int64_t n, double* p, int threads) {
    for_chunks(n, threads, [&](int64_t, int64_t first, int64_t length) {
        const double* zc = z + first;
        double* pc = p + first;
        for (int64_t i = 0; i < length; ++i) pc[i] = zc[i] + beta * pc[i];
    });
}

double inner_product(const double* a, const double* b, int64_t n, double* partial, int threads) {
    for_chunks(n, threads, [&](int64_t c, int64_t first, int64_t length) {
        const double *ac = a + first, *bc = b + first;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < length; ++i) sum += ac[i] * bc[i];
        partial[c] = sum;
    });
    double sum;
    add_in_order(partial, vector_chunks(n), 1, &sum);
    return sum;
}

}  // namespace ff::FF_ISA

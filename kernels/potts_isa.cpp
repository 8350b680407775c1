// One target site of a Potts field: fields, conditional probabilities, residuals and their sums by neighbour.
#include "potts.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

// Vectors by name: plain loops over a row are not kept in registers by the compilers. Rows of 4 take the short ones.
#if defined(__GNUC__)
#if defined(__AVX512F__)
static constexpr int64_t LONG = 8, SHORT = 4;
#elif defined(__AVX__)
static constexpr int64_t LONG = 4, SHORT = 4;
#else
static constexpr int64_t LONG = 2, SHORT = 2;
#endif
#define FF_VECTOR(n) double type __attribute__((vector_size(8 * n), aligned(8), may_alias))
#else
static constexpr int64_t LONG = 1, SHORT = 1;
#define FF_VECTOR(n) double type
#endif

// A template argument would lose the attributes of the type, above all that rows need not be aligned.
struct LongVector {
    typedef FF_VECTOR(LONG);
};
struct ShortVector {
    typedef FF_VECTOR(SHORT);
};
#undef FF_VECTOR

// Numbers of a row that are done together: sums of this width stay in registers.
static constexpr int64_t PANEL = 8 * LONG < 32 ? 8 * LONG : 32;

// fields[i, :] += sum over the neighbours of a group of rows[k, x_ik, :], V vectors wide.
template <class Vector, int V>
static void add_rows(const double* rows, int64_t q, int64_t padded, const uint8_t* const* columns, int64_t neighbours,
                     int64_t count, double* fields) {
    typedef typename Vector::type Lanes;
    const int64_t table = q * padded;
    for (int64_t i = 0; i < count; ++i) {
        Lanes* to = reinterpret_cast<Lanes*>(fields + i * padded);
        Lanes sum[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[v] = to[v];
        const double* base = rows;
        for (int64_t k = 0; k < neighbours; ++k, base += table) {
            const Lanes* from = reinterpret_cast<const Lanes*>(base + columns[k][i] * padded);
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) sum[v] += from[v];
        }
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) to[v] = sum[v];
    }
}

// gradient[k, x_ik, :] += residual[i, :] for the neighbours of a group.
template <class Vector, int V>
static void scatter_rows(const double* residual, int64_t q, int64_t padded, const uint8_t* const* columns,
                         int64_t neighbours, int64_t count, double* gradient) {
    typedef typename Vector::type Lanes;
    const int64_t table = q * padded;
    for (int64_t i = 0; i < count; ++i) {
        const Lanes* from = reinterpret_cast<const Lanes*>(residual + i * padded);
        Lanes r[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) r[v] = from[v];
        double* base = gradient;
        for (int64_t k = 0; k < neighbours; ++k, base += table) {
            Lanes* to = reinterpret_cast<Lanes*>(base + columns[k][i] * padded);
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) to[v] += r[v];
        }
    }
}

typedef void (*AddRows)(const double*, int64_t, int64_t, const uint8_t* const*, int64_t, int64_t, double*);

template <bool scatter, class Vector>
static AddRows rows_of_width(int64_t vectors) {
#define FF_WIDTH(v) \
    case v:         \
        return scatter ? scatter_rows<Vector, v> : add_rows<Vector, v>;
    switch (vectors) {
        FF_WIDTH(1)
        FF_WIDTH(2)
        FF_WIDTH(3)
        FF_WIDTH(4)
        FF_WIDTH(5)
        FF_WIDTH(6)
        FF_WIDTH(7)
        default:
            return scatter ? scatter_rows<Vector, 8> : add_rows<Vector, 8>;
    }
#undef FF_WIDTH
}

// All neighbours, group by group, and panel by panel where a row is wider than the registers.
template <bool scatter>
static void all_rows(const PottsTask& task, const uint8_t* const* columns, const double* from, double* to,
                     int64_t count) {
    const int64_t table = task.q * task.padded;
    int64_t group = potts_group_bytes / (8 * table);
    if (group < 1) group = 1;
    for (int64_t first = 0; first < task.degree; first += group) {
        const int64_t size = first + group < task.degree ? group : task.degree - first;
        for (int64_t panel = 0; panel < task.padded; panel += PANEL) {
            const int64_t width = panel + PANEL < task.padded ? PANEL : task.padded - panel;
            const AddRows run = width < LONG ? rows_of_width<scatter, ShortVector>(width / SHORT)
                                             : rows_of_width<scatter, LongVector>(width / LONG);
            if (scatter)
                run(from + panel, task.q, task.padded, columns + first, size, count, to + first * table + panel);
            else
                run(from + first * table + panel, task.q, task.padded, columns + first, size, count, to + panel);
        }
    }
}

// Fields become exp(field - largest); the logarithm of their sum and the sum itself go to `log_sum` and `sum`.
static void exponentials(double* fields, int64_t count, int64_t padded, double* log_sum, double* sum) {
    for (int64_t i = 0; i < count; ++i) {
        double* row = fields + i * padded;
        double largest = row[0];
        for (int64_t a = 1; a < padded; ++a) largest = row[a] > largest ? row[a] : largest;
        log_sum[i] = largest;
        for (int64_t a = 0; a < padded; ++a) row[a] -= largest;
    }
    const int64_t size = count * padded;
#pragma omp simd
    for (int64_t a = 0; a < size; ++a) fields[a] = fast_exp_negative(fields[a]);
    for (int64_t i = 0; i < count; ++i) {
        const double* row = fields + i * padded;
        double parts[4] = {0.0, 0.0, 0.0, 0.0};
        for (int64_t a = 0; a < padded; a += 4)
            for (int64_t l = 0; l < 4; ++l) parts[l] += row[a + l];
        sum[i] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) log_sum[i] += fast_log(sum[i]);
}

double potts_task(const PottsTask& task) {
    const int64_t q = task.q, padded = task.padded;
    double* fields = task.scratch;
    double* moved = fields + potts_chunk * padded;
    double* log_sum = moved + potts_chunk * padded;
    double* sum = log_sum + potts_chunk;
    const bool directed = task.mode == PottsMode::hessian || task.mode == PottsMode::products;
    double total = 0.0;
    for (int64_t start = 0; start < task.count; start += potts_chunk) {
        const int64_t count = start + potts_chunk < task.count ? potts_chunk : task.count - start;
        const uint8_t* own = nullptr;
        if (task.samples) {
            // Listed samples are brought together, so that the loops over samples are the same.
            const int64_t* which = task.samples + start;
            uint8_t* to = task.gathered;
            for (int64_t i = 0; i < count; ++i) to[i] = task.own[which[i]];
            own = to;
            for (int64_t k = 0; k < task.degree; ++k) {
                to += potts_chunk;
                for (int64_t i = 0; i < count; ++i) to[i] = task.columns[k][which[i]];
                task.pointers[k] = to;
            }
        } else {
            own = task.own + task.first + start;
            for (int64_t k = 0; k < task.degree; ++k) task.pointers[k] = task.columns[k] + task.first + start;
        }
        for (int64_t i = 0; i < count; ++i)
            for (int64_t a = 0; a < padded; ++a) fields[i * padded + a] = task.field[a];
        all_rows<false>(task, task.pointers, task.rows, fields, count);
        if (directed) {
            for (int64_t i = 0; i < count; ++i)
                for (int64_t a = 0; a < padded; ++a) moved[i * padded + a] = task.field_direction[a];
            all_rows<false>(task, task.pointers, task.direction, moved, count);
        }
        double observed[potts_chunk];  // the fields themselves become exponentials
        for (int64_t i = 0; i < count; ++i) observed[i] = fields[i * padded + own[i]];
        exponentials(fields, count, padded, log_sum, sum);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t place = start + i;
            const int64_t sample = task.samples ? task.samples[place] : task.first + place;
            double weight = task.beta;
            if (task.sample_weight) weight *= task.sample_weight[sample];
            if (task.entry_weight) weight *= task.entry_weight[place];
            const double value = observed[i] - log_sum[i];
            double* row = fields + i * padded;
            const double inverse = 1.0 / sum[i];
            switch (task.mode) {
                case PottsMode::gradient: {
                    total += weight * value;
                    const double scale = -weight * inverse;
                    for (int64_t a = 0; a < padded; ++a) row[a] *= scale;
                    row[own[i]] += weight;
                    break;
                }
                case PottsMode::hessian: {
                    const double* along = moved + i * padded;
                    double mean = 0.0;
                    for (int64_t a = 0; a < padded; ++a) mean += row[a] * along[a];
                    mean *= inverse;
                    const double scale = -weight * inverse;
                    for (int64_t a = 0; a < padded; ++a) row[a] *= scale * (along[a] - mean);
                    break;
                }
                case PottsMode::diagonal:
                    for (int64_t a = 0; a < padded; ++a) {
                        const double p = row[a] * inverse;
                        row[a] = weight * p * (1.0 - p);
                    }
                    break;
                case PottsMode::values:
                    task.out[place] = weight * value;
                    break;
                case PottsMode::products: {
                    const double* along = moved + i * padded;
                    double mean = 0.0;
                    for (int64_t a = 0; a < padded; ++a) mean += row[a] * along[a];
                    task.out[place] = weight * (along[own[i]] - mean * inverse);
                    break;
                }
                case PottsMode::residuals:
                    for (int64_t a = 0; a < q; ++a) task.out[place * q + a] = -weight * row[a] * inverse;
                    task.out[place * q + own[i]] += weight;
                    break;
            }
        }
        if (task.gradient) {
            for (int64_t i = 0; i < count; ++i)
                for (int64_t a = 0; a < padded; ++a) task.field_gradient[a] += fields[i * padded + a];
            all_rows<true>(task, task.pointers, fields, task.gradient, count);
        }
    }
    return total;
}

}  // namespace ff::FF_ISA

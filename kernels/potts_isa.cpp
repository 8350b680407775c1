// One target site of a Potts field: fields, conditional probabilities, residuals and their sums by neighbour.
#include "potts.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

// Vectors by name: plain loops over a row are not kept in registers by the compilers. Rows of 32 bytes take short ones.
#if defined(__AVX512F__)
static constexpr int64_t LONG = 64, SHORT = 32;
#elif defined(__AVX__)
static constexpr int64_t LONG = 32, SHORT = 32;
#else
static constexpr int64_t LONG = 16, SHORT = 16;
#endif

// A template argument would lose the attributes of the type, above all that rows need not be aligned.
template <class Real, int64_t bytes>
struct Vector {
    typedef Real type __attribute__((vector_size(bytes), aligned(sizeof(Real)), may_alias));
};

// Bytes of a row that are done together: sums of this width stay in registers.
static constexpr int64_t PANEL = 8 * LONG < 256 ? 8 * LONG : 256;

// Where the rows of a group of neighbours are: that of neighbour k in sample i begins at places[k * potts_chunk + i].
struct Group {
    int64_t size, padded;  // neighbours, numbers of a row
    const uint16_t* places;
    int64_t count;  // samples
};

// fields[i, :] += sum over the neighbours of a group of rows[k, x_ik, :], V vectors wide.
template <class Real, int64_t bytes, int V, bool full>
static void add_rows(const Group& group, const Real* rows, Real* fields) {
    typedef typename Vector<Real, bytes>::type Lanes;
    const int64_t padded = group.padded, size = full ? potts_group : group.size;
    for (int64_t i = 0; i < group.count; ++i) {
        Lanes* to = reinterpret_cast<Lanes*>(fields + i * padded);
        const uint16_t* places = group.places + i;
        Lanes sum[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[v] = to[v];
#pragma GCC unroll 8
        for (int64_t k = 0; k < size; ++k) {
            const Lanes* from = reinterpret_cast<const Lanes*>(rows + places[k * potts_chunk]);
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) sum[v] += from[v];
        }
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) to[v] = sum[v];
    }
}

// gradient[k, x_ik, :] += residual[i, :] for the neighbours of a group.
template <class Real, int64_t bytes, int V, bool full>
static void scatter_rows(const Group& group, const Real* residual, Real* gradient) {
    typedef typename Vector<Real, bytes>::type Lanes;
    const int64_t padded = group.padded, size = full ? potts_group : group.size;
    for (int64_t i = 0; i < group.count; ++i) {
        const Lanes* from = reinterpret_cast<const Lanes*>(residual + i * padded);
        const uint16_t* places = group.places + i;
        Lanes r[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) r[v] = from[v];
#pragma GCC unroll 8
        for (int64_t k = 0; k < size; ++k) {
            Lanes* to = reinterpret_cast<Lanes*>(gradient + places[k * potts_chunk]);
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) to[v] += r[v];
        }
    }
}

template <class Real>
using RowLoop = void (*)(const Group&, const Real*, Real*);

template <bool scatter, class Real, int64_t bytes, int V>
static RowLoop<Real> rows_of_width(bool full) {
    if (scatter) return full ? scatter_rows<Real, bytes, V, true> : scatter_rows<Real, bytes, V, false>;
    return full ? add_rows<Real, bytes, V, true> : add_rows<Real, bytes, V, false>;
}

template <bool scatter, class Real>
static RowLoop<Real> row_loop(int64_t width, bool full) {
    if (width < LONG) return rows_of_width<scatter, Real, SHORT, 32 / SHORT>(full);
    switch (width / LONG) {
        case 1:
            return rows_of_width<scatter, Real, LONG, 1>(full);
        case 2:
            return rows_of_width<scatter, Real, LONG, 2>(full);
        case 3:
            return rows_of_width<scatter, Real, LONG, 3>(full);
        case 4:
            return rows_of_width<scatter, Real, LONG, 4>(full);
        case 5:
            return rows_of_width<scatter, Real, LONG, 5>(full);
        case 6:
            return rows_of_width<scatter, Real, LONG, 6>(full);
        case 7:
            return rows_of_width<scatter, Real, LONG, 7>(full);
        default:
            return rows_of_width<scatter, Real, LONG, 8>(full);
    }
}

// Neighbours of a group.
template <class Real>
static int64_t group_size(const PottsTask<Real>& task) {
    const int64_t fits = potts_group_bytes / (task.row.q * task.row.padded * static_cast<int64_t>(sizeof(Real)));
    return fits < 1 ? 1 : (fits < potts_group ? fits : potts_group);
}

// The places of the rows of all neighbours in samples start..start + count - 1 of the task, in their groups. They are
// less than the 32,768 bytes of a group or, where one neighbour has more, 256 * 256.
template <class Real>
static void find_places(const PottsTask<Real>& task, int64_t start, int64_t count) {
    const int64_t size = group_size(task);
    const uint16_t padded = static_cast<uint16_t>(task.row.padded);
    for (int64_t k = 0; k < task.degree; ++k) {
        uint16_t* to = task.places + k * potts_chunk;
        const uint16_t table = static_cast<uint16_t>(k % size * task.row.q * task.row.padded);
        if (task.samples) {
            const uint8_t* column = task.columns[k];
            const int64_t* which = task.samples + start;
            for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(table + padded * column[which[i]]);
        } else {
            const uint8_t* column = task.columns[k] + task.first + start;
            for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(table + padded * column[i]);
        }
    }
}

// All neighbours, group by group, and panel by panel where a row is wider than the registers.
template <bool scatter, class Real>
static void all_rows(const PottsTask<Real>& task, const Real* from, Real* to, int64_t count) {
    const int64_t padded = task.row.padded, table = task.row.q * padded;
    const int64_t size = group_size(task), panel_width = PANEL / sizeof(Real);
    for (int64_t first = 0; first < task.degree; first += size) {
        const int64_t here = first + size < task.degree ? size : task.degree - first;
        const Group group{here, padded, task.places + first * potts_chunk, count};
        for (int64_t panel = 0; panel < padded; panel += panel_width) {
            const int64_t width = padded - panel < panel_width ? padded - panel : panel_width;
            const RowLoop<Real> run =
                row_loop<scatter, Real>(width * static_cast<int64_t>(sizeof(Real)), here == potts_group);
            if (scatter)
                run(group, from + panel, to + first * table + panel);
            else
                run(group, from + first * table + panel, to + panel);
        }
    }
}

// Fields become exp(field - largest); the logarithm of their sum and the sum itself go to `log_sum` and `sum`, and what
// a state that the rows leave out adds to the sum goes to `last`.
template <class Real>
static void exponentials(const PottsRow& shape, Real* fields, int64_t count, double* log_sum, double* sum,
                         double* last) {
    const int64_t padded = shape.padded;
    const bool reduced = shape.reduced();
    for (int64_t i = 0; i < count; ++i) {
        Real* row = fields + i * padded;
        Real parts[4] = {row[0], row[1], row[2], row[3]};
        for (int64_t a = 4; a < padded; a += 4)
            for (int64_t l = 0; l < 4; ++l) parts[l] = row[a + l] > parts[l] ? row[a + l] : parts[l];
        const Real left = parts[0] > parts[1] ? parts[0] : parts[1], right = parts[2] > parts[3] ? parts[2] : parts[3];
        Real largest = left > right ? left : right;
        if (reduced && largest < 0) largest = 0;
        log_sum[i] = static_cast<double>(largest);
        for (int64_t a = 0; a < padded; ++a) row[a] -= largest;
    }
    const int64_t size = count * padded;
#pragma omp simd
    for (int64_t a = 0; a < size; ++a) fields[a] = fast_exp_negative(fields[a]);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) last[i] = reduced ? fast_exp_negative(-log_sum[i]) : 0.0;
    for (int64_t i = 0; i < count; ++i) {
        const Real* row = fields + i * padded;
        Real parts[4] = {0, 0, 0, 0};
        for (int64_t a = 0; a < padded; a += 4)
            for (int64_t l = 0; l < 4; ++l) parts[l] += row[a + l];
        sum[i] = static_cast<double>((parts[0] + parts[1]) + (parts[2] + parts[3])) + last[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) log_sum[i] += fast_log(sum[i]);
}

template <class Real>
static void fill_rows(Real* rows, const Real* with, int64_t count, int64_t padded) {
    for (int64_t i = 0; i < count; ++i)
        for (int64_t a = 0; a < padded; ++a) rows[i * padded + a] = with[a];
}

template <class Real>
static Real mean_of(const Real* weight, const Real* along, int64_t padded) {
    Real mean = 0;
    for (int64_t a = 0; a < padded; ++a) mean += weight[a] * along[a];
    return mean;
}

// fields = field + sums of rows, for samples start..start + count - 1 of the task, whose places are known.
template <class Real>
static void sum_fields(const PottsTask<Real>& task, const Real* field, const Real* rows, Real* fields, int64_t count) {
    fill_rows(fields, field, count, task.row.padded);
    all_rows<false>(task, rows, fields, count);
}

template <class Real>
static void scatter_residuals(const PottsTask<Real>& task, const Real* residuals, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        for (int64_t a = 0; a < task.row.padded; ++a) task.field_gradient[a] += residuals[i * task.row.padded + a];
    all_rows<true>(task, residuals, task.gradient, count);
}

// The modes that pass fields or residuals of all samples of the task on.
template <class Real>
static void pass_on(const PottsTask<Real>& task) {
    for (int64_t start = 0; start < task.count; start += potts_chunk) {
        const int64_t count = start + potts_chunk < task.count ? potts_chunk : task.count - start;
        const int64_t place = start * task.row.padded;
        find_places(task, start, count);
        if (task.mode == PottsMode::scatter) {
            scatter_residuals(task, task.fields + place, count);
        } else {
            sum_fields(task, task.field, task.rows, task.fields + place, count);
            if (task.moved) sum_fields(task, task.field_direction, task.direction, task.moved + place, count);
        }
    }
}

template <class Real>
static double run_task(const PottsTask<Real>& task) {
    if (task.mode == PottsMode::fields || task.mode == PottsMode::scatter) {
        pass_on(task);
        return 0.0;
    }
    const int64_t q = task.row.q, states = task.row.states, padded = task.row.padded;
    Real *fields = task.fields, *moved = task.moved;
    double log_sum[potts_chunk], sum[potts_chunk], last[potts_chunk], observed[potts_chunk];
    uint8_t listed[potts_chunk];
    const bool directed = task.mode == PottsMode::hessian || task.mode == PottsMode::products;
    double total = 0.0;
    for (int64_t start = 0; start < task.count; start += potts_chunk) {
        const int64_t count = start + potts_chunk < task.count ? potts_chunk : task.count - start;
        const uint8_t* own = listed;
        if (task.samples)
            for (int64_t i = 0; i < count; ++i) listed[i] = task.own[task.samples[start + i]];
        else
            own = task.own + task.first + start;
        find_places(task, start, count);
        sum_fields(task, task.field, task.rows, fields, count);
        if (directed) sum_fields(task, task.field_direction, task.direction, moved, count);
        // The fields themselves become exponentials.
        for (int64_t i = 0; i < count; ++i)
            observed[i] = own[i] < states ? static_cast<double>(fields[i * padded + own[i]]) : 0.0;
        exponentials(task.row, fields, count, log_sum, sum, last);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t place = start + i;
            const int64_t sample = task.samples ? task.samples[place] : task.first + place;
            double weight = task.beta;
            if (task.sample_weight) weight *= task.sample_weight[sample];
            if (task.entry_weight) weight *= task.entry_weight[place];
            const double value = observed[i] - log_sum[i];
            Real* row = fields + i * padded;
            const Real* along = moved + i * padded;
            const double inverse = 1.0 / sum[i];
            switch (task.mode) {
                case PottsMode::gradient: {
                    total += weight * value;
                    const Real scale = static_cast<Real>(-weight * inverse);
                    for (int64_t a = 0; a < padded; ++a) row[a] *= scale;
                    if (own[i] < states) row[own[i]] += static_cast<Real>(weight);
                    break;
                }
                case PottsMode::hessian: {
                    const Real mean = static_cast<Real>(inverse) * mean_of(row, along, padded);
                    const Real scale = static_cast<Real>(-weight * inverse);
                    for (int64_t a = 0; a < padded; ++a) row[a] *= scale * (along[a] - mean);
                    break;
                }
                case PottsMode::diagonal:
                    for (int64_t a = 0; a < padded; ++a) {
                        const Real p = row[a] * static_cast<Real>(inverse);
                        row[a] = static_cast<Real>(weight) * p * (1 - p);
                    }
                    break;
                case PottsMode::values:
                    task.out[place] = weight * value;
                    break;
                case PottsMode::products: {
                    const double mean = inverse * static_cast<double>(mean_of(row, along, padded));
                    const double here = own[i] < states ? static_cast<double>(along[own[i]]) : 0.0;
                    task.out[place] = weight * (here - mean);
                    break;
                }
                case PottsMode::residuals:
                    for (int64_t a = 0; a < q; ++a)
                        task.out[place * q + a] =
                            -weight * inverse * (a < states ? static_cast<double>(row[a]) : last[i]);
                    task.out[place * q + own[i]] += weight;
                    break;
                default:
                    break;
            }
        }
        if (task.gradient) scatter_residuals(task, fields, count);
    }
    return total;
}

double potts_task_double(const PottsTask<double>& task) { return run_task(task); }

double potts_task_single(const PottsTask<float>& task) { return run_task(task); }

}  // namespace ff::FF_ISA

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

// Where a group's rows are, and the states of its neighbours: byte g of words[i] is that of neighbour g in sample i.
template <class Real>
struct Group {
    int64_t size, table, padded;  // neighbours, numbers of a neighbour's rows, numbers of a row
    const uint64_t* words;
    int64_t count;
};

// fields[i, :] += sum over the neighbours of a group of rows[k, x_ik, :], V vectors wide.
template <class Real, int64_t bytes, int V, bool full>
static void add_rows(const Group<Real>& group, const Real* rows, Real* fields) {
    typedef typename Vector<Real, bytes>::type Lanes;
    const int64_t table = group.table, padded = group.padded;
    for (int64_t i = 0; i < group.count; ++i) {
        Lanes* to = reinterpret_cast<Lanes*>(fields + i * padded);
        Lanes sum[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) sum[v] = to[v];
        uint64_t word = group.words[i];
        const Real* base = rows;
        const int64_t size = full ? potts_group : group.size;
#pragma GCC unroll 8
        for (int64_t k = 0; k < size; ++k, base += table, word >>= 8) {
            const Lanes* from = reinterpret_cast<const Lanes*>(base + static_cast<int64_t>(word & 255) * padded);
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) sum[v] += from[v];
        }
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) to[v] = sum[v];
    }
}

// gradient[k, x_ik, :] += residual[i, :] for the neighbours of a group.
template <class Real, int64_t bytes, int V, bool full>
static void scatter_rows(const Group<Real>& group, const Real* residual, Real* gradient) {
    typedef typename Vector<Real, bytes>::type Lanes;
    const int64_t table = group.table, padded = group.padded;
    for (int64_t i = 0; i < group.count; ++i) {
        const Lanes* from = reinterpret_cast<const Lanes*>(residual + i * padded);
        Lanes r[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) r[v] = from[v];
        uint64_t word = group.words[i];
        Real* base = gradient;
        const int64_t size = full ? potts_group : group.size;
#pragma GCC unroll 8
        for (int64_t k = 0; k < size; ++k, base += table, word >>= 8) {
            Lanes* to = reinterpret_cast<Lanes*>(base + static_cast<int64_t>(word & 255) * padded);
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) to[v] += r[v];
        }
    }
}

template <class Real>
using RowLoop = void (*)(const Group<Real>&, const Real*, Real*);

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
        case 6:
            return rows_of_width<scatter, Real, LONG, 6>(full);
        default:
            return rows_of_width<scatter, Real, LONG, 8>(full);
    }
}

// Neighbours of a group.
template <class Real>
static int64_t group_size(const PottsTask<Real>& task) {
    const int64_t fits = potts_group_bytes / (task.q * task.padded * static_cast<int64_t>(sizeof(Real)));
    return fits < 1 ? 1 : (fits < potts_group ? fits : potts_group);
}

// The states of all neighbours in samples start..start + count - 1 of the task, group by group.
template <class Real>
static void pack_states(const PottsTask<Real>& task, int64_t start, int64_t count) {
    const int64_t size = group_size(task);
    uint64_t* to = task.words;
    for (int64_t first = 0; first < task.degree; first += size, to += potts_chunk) {
        const int64_t last = first + size < task.degree ? first + size : task.degree;
        for (int64_t i = 0; i < count; ++i) to[i] = 0;
        for (int64_t k = first; k < last; ++k) {
            const int64_t shift = 8 * (k - first);
            if (task.samples) {
                const uint8_t* column = task.columns[k];
                const int64_t* which = task.samples + start;
                for (int64_t i = 0; i < count; ++i) to[i] |= static_cast<uint64_t>(column[which[i]]) << shift;
            } else {
                const uint8_t* column = task.columns[k] + task.first + start;
                for (int64_t i = 0; i < count; ++i) to[i] |= static_cast<uint64_t>(column[i]) << shift;
            }
        }
    }
}

// All neighbours, group by group, and panel by panel where a row is wider than the registers.
template <bool scatter, class Real>
static void all_rows(const PottsTask<Real>& task, const Real* from, Real* to, int64_t count) {
    const int64_t table = task.q * task.padded, size = group_size(task), panel_width = PANEL / sizeof(Real);
    Group<Real> group{size, table, task.padded, task.words, count};
    for (int64_t first = 0; first < task.degree; first += size, group.words += potts_chunk) {
        if (first + size > task.degree) group.size = task.degree - first;
        for (int64_t panel = 0; panel < task.padded; panel += panel_width) {
            const int64_t width = task.padded - panel < panel_width ? task.padded - panel : panel_width;
            const RowLoop<Real> run =
                row_loop<scatter, Real>(width * static_cast<int64_t>(sizeof(Real)), group.size == potts_group);
            if (scatter)
                run(group, from + panel, to + first * table + panel);
            else
                run(group, from + first * table + panel, to + panel);
        }
    }
}

// Fields become exp(field - largest); the logarithm of their sum and the sum itself go to `log_sum` and `sum`.
template <class Real>
static void exponentials(Real* fields, int64_t count, int64_t padded, double* log_sum, double* sum) {
    for (int64_t i = 0; i < count; ++i) {
        Real* row = fields + i * padded;
        Real parts[4] = {row[0], row[1], row[2], row[3]};
        for (int64_t a = 4; a < padded; a += 4)
            for (int64_t l = 0; l < 4; ++l) parts[l] = row[a + l] > parts[l] ? row[a + l] : parts[l];
        const Real left = parts[0] > parts[1] ? parts[0] : parts[1], right = parts[2] > parts[3] ? parts[2] : parts[3];
        const Real largest = left > right ? left : right;
        log_sum[i] = static_cast<double>(largest);
        for (int64_t a = 0; a < padded; ++a) row[a] -= largest;
    }
    const int64_t size = count * padded;
#pragma omp simd
    for (int64_t a = 0; a < size; ++a) fields[a] = fast_exp_negative(fields[a]);
    for (int64_t i = 0; i < count; ++i) {
        const Real* row = fields + i * padded;
        Real parts[4] = {0, 0, 0, 0};
        for (int64_t a = 0; a < padded; a += 4)
            for (int64_t l = 0; l < 4; ++l) parts[l] += row[a + l];
        sum[i] = static_cast<double>((parts[0] + parts[1]) + (parts[2] + parts[3]));
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

// fields = field + sums of rows, for samples start..start + count - 1 of the task, whose states are packed.
template <class Real>
static void sum_fields(const PottsTask<Real>& task, const Real* field, const Real* rows, Real* fields, int64_t count) {
    fill_rows(fields, field, count, task.padded);
    all_rows<false>(task, rows, fields, count);
}

template <class Real>
static void scatter_residuals(const PottsTask<Real>& task, const Real* residuals, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        for (int64_t a = 0; a < task.padded; ++a) task.field_gradient[a] += residuals[i * task.padded + a];
    all_rows<true>(task, residuals, task.gradient, count);
}

// The modes that pass fields or residuals of all samples of the task on.
template <class Real>
static void pass_on(const PottsTask<Real>& task) {
    for (int64_t start = 0; start < task.count; start += potts_chunk) {
        const int64_t count = start + potts_chunk < task.count ? potts_chunk : task.count - start;
        const int64_t place = start * task.padded;
        pack_states(task, start, count);
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
    const int64_t q = task.q, padded = task.padded;
    Real *fields = task.fields, *moved = task.moved;
    double log_sum[potts_chunk], sum[potts_chunk], observed[potts_chunk];
    uint8_t states[potts_chunk];
    const bool directed = task.mode == PottsMode::hessian || task.mode == PottsMode::products;
    double total = 0.0;
    for (int64_t start = 0; start < task.count; start += potts_chunk) {
        const int64_t count = start + potts_chunk < task.count ? potts_chunk : task.count - start;
        const uint8_t* own = states;
        if (task.samples)
            for (int64_t i = 0; i < count; ++i) states[i] = task.own[task.samples[start + i]];
        else
            own = task.own + task.first + start;
        pack_states(task, start, count);
        sum_fields(task, task.field, task.rows, fields, count);
        if (directed) sum_fields(task, task.field_direction, task.direction, moved, count);
        // The fields themselves become exponentials.
        for (int64_t i = 0; i < count; ++i) observed[i] = static_cast<double>(fields[i * padded + own[i]]);
        exponentials(fields, count, padded, log_sum, sum);
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
                    row[own[i]] += static_cast<Real>(weight);
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
                    task.out[place] = weight * (static_cast<double>(along[own[i]]) - mean);
                    break;
                }
                case PottsMode::residuals:
                    for (int64_t a = 0; a < q; ++a)
                        task.out[place * q + a] = -weight * inverse * static_cast<double>(row[a]);
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

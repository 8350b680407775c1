// Target sites of a Potts field: fields, conditional probabilities, residuals and their sums by neighbour.
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

// Samples whose sums are in registers together, for a panel of V vectors.
#if defined(__AVX512F__)
static constexpr int add_samples(int) { return 4; }
static constexpr int scatter_samples(int V) { return V <= 3 ? 8 : 4; }
#else
static constexpr int add_samples(int V) { return V <= 3 ? 4 : 2; }
static constexpr int scatter_samples(int) { return 1; }
#endif

// One panel of the rows of a group of neighbours: that of neighbour k has the state states[k * potts_chunk + i] in
// sample i.
struct Group {
    int64_t size;  // neighbours
    const uint8_t* states;
    int64_t count;      // samples
    int64_t q, padded;  // padded: numbers from one sample's fields to those of the next
    bool first;         // sums begin with the field of the targets, not with those of the groups before
};

// The states of a few samples, read at once: for all that the compiler knows, a store to a row may change them.
template <int samples>
struct FewStates {
    explicit FewStates(const uint8_t* from) { std::memcpy(&word, from, samples); }
    int64_t operator[](int s) const { return static_cast<uint8_t>(word >> (8 * s)); }
    uint64_t word = 0;
};

// fields[i, :] += sum over the neighbours of a group of rows[k, x_ik, :], V vectors wide, for `samples` at a time.
// Returns the first sample that is left.
template <class Real, int64_t bytes, int V, int samples>
static int64_t add_rows(const Group& group, int64_t from, const Real* field, const Real* rows, Real* fields) {
    typedef typename Vector<Real, bytes>::type Lanes;
    constexpr int64_t width = V * (bytes / static_cast<int64_t>(sizeof(Real)));
    const int64_t padded = group.padded, table = group.q * width, size = group.size, count = group.count;
    const Real* before = group.first ? field : fields;
    const int64_t by_sample = group.first ? 0 : padded;
    int64_t i = from;
    for (; i + samples <= count; i += samples) {
        Lanes sum[samples][V];
#pragma GCC unroll 8
        for (int s = 0; s < samples; ++s)
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) sum[s][v] = reinterpret_cast<const Lanes*>(before + (i + s) * by_sample)[v];
        const Real* neighbour = rows;
        const uint8_t* states = group.states + i;
#pragma GCC unroll 4
        for (int64_t k = 0; k < size; ++k, neighbour += table, states += potts_chunk) {
            const FewStates<samples> state(states);
#pragma GCC unroll 8
            for (int s = 0; s < samples; ++s) {
                const Lanes* row = reinterpret_cast<const Lanes*>(neighbour + state[s] * width);
#pragma GCC unroll 16
                for (int v = 0; v < V; ++v) sum[s][v] += row[v];
            }
        }
#pragma GCC unroll 8
        for (int s = 0; s < samples; ++s)
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) reinterpret_cast<Lanes*>(fields + (i + s) * padded)[v] = sum[s][v];
    }
    return i;
}

// gradient[k, x_ik, :] += residual[i, :] for the neighbours of a group.
template <class Real, int64_t bytes, int V, int samples>
static int64_t scatter_rows(const Group& group, int64_t from, const Real* residual, Real* gradient) {
    typedef typename Vector<Real, bytes>::type Lanes;
    constexpr int64_t width = V * (bytes / static_cast<int64_t>(sizeof(Real)));
    const int64_t padded = group.padded, table = group.q * width, size = group.size, count = group.count;
    const uint8_t* all_states = group.states;
    int64_t i = from;
    for (; i + samples <= count; i += samples) {
        Lanes r[samples][V];
#pragma GCC unroll 8
        for (int s = 0; s < samples; ++s)
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) r[s][v] = reinterpret_cast<const Lanes*>(residual + (i + s) * padded)[v];
        Real* neighbour = gradient;
        const uint8_t* states = all_states + i;
#pragma GCC unroll 4
        for (int64_t k = 0; k < size; ++k, neighbour += table, states += potts_chunk) {
            const FewStates<samples> state(states);
#pragma GCC unroll 8
            for (int s = 0; s < samples; ++s) {
                Lanes* row = reinterpret_cast<Lanes*>(neighbour + state[s] * width);
#pragma GCC unroll 16
                for (int v = 0; v < V; ++v) row[v] += r[s][v];
            }
        }
    }
    return i;
}

template <class Real>
using RowLoop = void (*)(const Group&, const Real*, const Real*, Real*);

// A few samples at a time, and the rest one by one.
template <class Real, int64_t bytes, int V>
struct Add {
    static void run(const Group& group, const Real* field, const Real* rows, Real* fields) {
        const int64_t left = add_rows<Real, bytes, V, add_samples(V)>(group, 0, field, rows, fields);
        add_rows<Real, bytes, V, 1>(group, left, field, rows, fields);
    }
};

template <class Real, int64_t bytes, int V>
struct Scatter {
    static void run(const Group& group, const Real*, const Real* residual, Real* gradient) {
        const int64_t left = scatter_rows<Real, bytes, V, scatter_samples(V)>(group, 0, residual, gradient);
        scatter_rows<Real, bytes, V, 1>(group, left, residual, gradient);
    }
};

// Add or Scatter for panels of `width` bytes.
template <class Real, template <class, int64_t, int> class Loop>
static RowLoop<Real> row_loop(int64_t width) {
    if (width < LONG) return Loop<Real, SHORT, 32 / SHORT>::run;
    switch (width / LONG) {
        case 1:
            return Loop<Real, LONG, 1>::run;
        case 2:
            return Loop<Real, LONG, 2>::run;
        case 3:
            return Loop<Real, LONG, 3>::run;
        case 4:
            return Loop<Real, LONG, 4>::run;
#if !defined(__AVX512F__)
        case 5:
            return Loop<Real, LONG, 5>::run;
        case 6:
            return Loop<Real, LONG, 6>::run;
        case 7:
            return Loop<Real, LONG, 7>::run;
        case 8:
            return Loop<Real, LONG, 8>::run;
#endif
        default:
            return nullptr;
    }
}

// The states of the neighbours for samples start..start + count - 1 of the task.
template <class Real>
static void find_states(const PottsTask<Real>& task, int64_t start, int64_t count) {
    for (int64_t k = 0; k < task.degree; ++k) {
        uint8_t* to = task.states + k * potts_chunk;
        const uint8_t* column = task.columns[k];
        if (task.samples)
            for (int64_t i = 0; i < count; ++i) to[i] = column[task.samples[start + i]];
        else
            std::memcpy(to, column + task.first + start, static_cast<size_t>(count));
    }
}

// Calls run(loop, group, panel, rows) for all groups of neighbours, panel by panel: `panel` is the first number of the
// panel in a row, `rows` that of the group's rows.
template <class Real, template <class, int64_t, int> class Loop, class Do>
static void each_group(const PottsTask<Real>& task, int64_t count, Do&& run) {
    constexpr int64_t bytes = sizeof(Real);
    const PottsRow& row = task.row;
    for (int64_t p = 0; p < row.panels; ++p) {
        const int64_t panel = row.panel(p), width = row.panel(p + 1) - panel, table = row.q * width;
        const int64_t fits = potts_group_bytes / (table * bytes), size = fits < 1 ? 1 : fits;
        const RowLoop<Real> loop = row_loop<Real, Loop>(width * bytes);
        for (int64_t first = 0; first < task.degree; first += size) {
            const int64_t here = first + size < task.degree ? size : task.degree - first;
            const Group group{here, task.states + first * potts_chunk, count, row.q, row.padded, first == 0};
            run(loop, group, panel, task.degree * row.q * panel + first * table);
        }
    }
}

// The largest of some numbers, and their sum, four at a time.
template <class Real>
static Real largest_of(const Real* numbers, int64_t count) {
    typedef typename Vector<Real, 4 * sizeof(Real)>::type Lanes;
    Real largest = numbers[0];
    int64_t a = 0;
    if (count >= 4) {
        Lanes parts = *reinterpret_cast<const Lanes*>(numbers);
        for (a = 4; a + 4 <= count; a += 4) {
            const Lanes next = *reinterpret_cast<const Lanes*>(numbers + a);
            parts = next > parts ? next : parts;
        }
        const Real left = parts[0] > parts[1] ? parts[0] : parts[1], right = parts[2] > parts[3] ? parts[2] : parts[3];
        largest = left > right ? left : right;
    }
    for (; a < count; ++a) largest = numbers[a] > largest ? numbers[a] : largest;
    return largest;
}

template <class Real>
static Real sum_of(const Real* numbers, int64_t count) {
    typedef typename Vector<Real, 4 * sizeof(Real)>::type Lanes;
    Lanes parts = {0, 0, 0, 0};
    int64_t a = 0;
    for (; a + 4 <= count; a += 4) parts += *reinterpret_cast<const Lanes*>(numbers + a);
    Real sum = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    for (; a < count; ++a) sum += numbers[a];
    return sum;
}

// Samples whose probabilities are computed together: their fields stay in the first-level cache.
static constexpr int64_t BLOCK = 64;

// The conditional probabilities of one target in a block of samples: the field of the observed state, the largest
// field, the sum of exp(field - largest) and its logarithm plus the largest, and what a state that the rows leave out
// adds to the sum.
struct Conditionals {
    double observed[BLOCK], largest[BLOCK], sum[BLOCK], log_sum[BLOCK], last[BLOCK];
    uint8_t own[BLOCK];
};

// The fields of a block of samples become exp(field - largest), each target by itself.
template <class Real>
static void exponentials(const PottsTask<Real>& task, Real* fields, int64_t start, int64_t count, Conditionals* by) {
    const int64_t states = task.row.states, padded = task.row.padded, targets = task.row.targets;
    const bool reduced = task.row.reduced();
    for (int64_t t = 0; t < targets; ++t) {
        Conditionals& target = by[t];
        for (int64_t i = 0; i < count; ++i) {
            Real* row = fields + i * padded + t * states;
            const uint8_t own = task.own[t][task.samples ? task.samples[start + i] : task.first + start + i];
            target.own[i] = own;
            target.observed[i] = own < states ? static_cast<double>(row[own]) : 0.0;
            Real largest = largest_of(row, states);
            if (reduced && largest < 0) largest = 0;
            target.largest[i] = static_cast<double>(largest);
            for (int64_t a = 0; a < states; ++a) row[a] -= largest;
        }
    }
    const int64_t size = count * padded;
#pragma omp simd
    for (int64_t a = 0; a < size; ++a) fields[a] = fast_exp_negative(fields[a]);
    for (int64_t t = 0; t < targets; ++t) {
        Conditionals& target = by[t];
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) target.last[i] = reduced ? fast_exp_negative(-target.largest[i]) : 0.0;
        for (int64_t i = 0; i < count; ++i)
            target.sum[i] = static_cast<double>(sum_of(fields + i * padded + t * states, states)) + target.last[i];
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) target.log_sum[i] = target.largest[i] + fast_log(target.sum[i]);
    }
}

template <class Real>
static Real mean_of(const Real* weight, const Real* along, int64_t states) {
    Real mean = 0;
    for (int64_t a = 0; a < states; ++a) mean += weight[a] * along[a];
    return mean;
}

// fields = field + sums of rows, for a chunk of samples.
template <class Real>
static void sum_fields(const PottsTask<Real>& task, const Real* field, const Real* rows, Real* fields, int64_t count) {
    const int64_t padded = task.row.padded;
    for (int64_t i = 0; i < count && task.degree == 0; ++i)
        for (int64_t a = 0; a < padded; ++a) fields[i * padded + a] = field[a];
    each_group<Real, Add>(task, count, [&](RowLoop<Real> loop, const Group& group, int64_t panel, int64_t first) {
        loop(group, field + panel, rows + first, fields + panel);
    });
}

template <class Real>
static void scatter_residuals(const PottsTask<Real>& task, const Real* residuals, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        for (int64_t a = 0; a < task.row.padded; ++a) task.field_gradient[a] += residuals[i * task.row.padded + a];
    each_group<Real, Scatter>(task, count, [&](RowLoop<Real> loop, const Group& group, int64_t panel, int64_t first) {
        loop(group, nullptr, residuals + panel, task.gradient + first);
    });
}

// The modes that pass fields or residuals of all samples of the task on.
template <class Real>
static void pass_on(const PottsTask<Real>& task) {
    for (int64_t start = 0; start < task.count; start += potts_chunk) {
        const int64_t count = start + potts_chunk < task.count ? potts_chunk : task.count - start;
        const int64_t place = start * task.row.padded;
        find_states(task, start, count);
        if (task.mode == PottsMode::scatter) {
            scatter_residuals(task, task.fields + place, count);
        } else {
            sum_fields(task, task.field, task.rows, task.fields + place, count);
            if (task.moved) sum_fields(task, task.field_direction, task.direction, task.moved + place, count);
        }
    }
}

// The result of one target in a block of samples, whose fields become residuals in the modes with sums; returns its
// share of the value.
template <class Real>
static double results(const PottsTask<Real>& task, int64_t t, const Conditionals& target, Real* fields,
                      const Real* moved, int64_t start, int64_t count) {
    const int64_t q = task.row.q, states = task.row.states, padded = task.row.padded;
    double total = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t place = start + i;
        const int64_t sample = task.samples ? task.samples[place] : task.first + place;
        double weight = task.beta[t];
        if (task.sample_weight) weight *= task.sample_weight[sample];
        if (task.entry_weight) weight *= task.entry_weight[place];
        const double value = target.observed[i] - target.log_sum[i];
        Real* row = fields + i * padded + t * states;
        const Real* along = moved ? moved + i * padded + t * states : nullptr;
        const uint8_t own = target.own[i];
        const double inverse = 1.0 / target.sum[i];
        switch (task.mode) {
            case PottsMode::gradient: {
                total += weight * value;
                const Real scale = static_cast<Real>(-weight * inverse);
                for (int64_t a = 0; a < states; ++a) row[a] *= scale;
                if (own < states) row[own] += static_cast<Real>(weight);
                break;
            }
            case PottsMode::hessian: {
                const Real mean = static_cast<Real>(inverse) * mean_of(row, along, states);
                const Real scale = static_cast<Real>(-weight * inverse);
                for (int64_t a = 0; a < states; ++a) row[a] *= scale * (along[a] - mean);
                break;
            }
            case PottsMode::diagonal:
                for (int64_t a = 0; a < states; ++a) {
                    const Real p = row[a] * static_cast<Real>(inverse);
                    row[a] = static_cast<Real>(weight) * p * (1 - p);
                }
                break;
            case PottsMode::values:
                task.out[t * task.count + place] = weight * value;
                break;
            case PottsMode::products: {
                const double mean = inverse * static_cast<double>(mean_of(row, along, states));
                const double here = own < states ? static_cast<double>(along[own]) : 0.0;
                task.out[t * task.count + place] = weight * (here - mean);
                break;
            }
            case PottsMode::residuals: {
                double* out = task.out + (t * task.count + place) * q;
                for (int64_t a = 0; a < q; ++a)
                    out[a] = -weight * inverse * (a < states ? static_cast<double>(row[a]) : target.last[i]);
                out[own] += weight;
                break;
            }
            default:
                break;
        }
    }
    return total;
}

template <class Real>
static double run_task(const PottsTask<Real>& task) {
    if (task.mode == PottsMode::fields || task.mode == PottsMode::scatter) {
        pass_on(task);
        return 0.0;
    }
    const int64_t padded = task.row.padded;
    const bool directed = task.mode == PottsMode::hessian || task.mode == PottsMode::products;
    Conditionals by[potts_most_joined];
    double total = 0.0;
    for (int64_t start = 0; start < task.count; start += potts_chunk) {
        const int64_t count = start + potts_chunk < task.count ? potts_chunk : task.count - start;
        find_states(task, start, count);
        sum_fields(task, task.field, task.rows, task.fields, count);
        if (directed) sum_fields(task, task.field_direction, task.direction, task.moved, count);
        for (int64_t from = 0; from < count; from += BLOCK) {
            const int64_t here = from + BLOCK < count ? BLOCK : count - from;
            Real* fields = task.fields + from * padded;
            const Real* moved = directed ? task.moved + from * padded : nullptr;
            exponentials(task, fields, start + from, here, by);
            for (int64_t t = 0; t < task.row.targets; ++t)
                total += results(task, t, by[t], fields, moved, start + from, here);
        }
        if (task.gradient) scatter_residuals(task, task.fields, count);
    }
    return total;
}

double potts_task_double(const PottsTask<double>& task) { return run_task(task); }

double potts_task_single(const PottsTask<float>& task) { return run_task(task); }

}  // namespace ff::FF_ISA

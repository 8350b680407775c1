#include "elimination.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

namespace {

// A cell holds, for each lane, a value and (with tangents) its derivative along the direction.
template <int W, bool TANGENT>
struct Layout {
    static constexpr int stride = TANGENT ? 2 * W : W;
};

// The smallest ratio of entries that a message may have in probability space. Beyond it an entry that a later bucket
// could need may have been lost to underflow, and the batch is done again in log space.
constexpr double smallest_ratio = 1e-100;
constexpr double smallest_maximum = 1e-200;

constexpr double minus_infinity = -__builtin_inf();

// The last bucket of a connected piece: nothing takes its message. (A separator of size 1 may still have variables.)
inline bool is_root(const Programs& p, int32_t b) { return p.separator_ptr[b + 1] == p.separator_ptr[b]; }

// Reduced tables of all groups: the sum of the members' log tables, in probability space relative to the largest entry,
// whose logarithm goes to log Z. False where a whole table is forbidden (log space knows what to do).
template <int W, bool TANGENT, bool LOG>
bool gather_groups(const Programs& p, const Tables& t, const Batch& batch, const int64_t* bases, double* cells,
                   double* log_z) {
    constexpr int stride = Layout<W, TANGENT>::stride;
    const int32_t model = p.program_template[batch.program];
    const int64_t m0 = p.program_member[batch.program];
    const int64_t n_members = p.program_member[batch.program + 1] - m0;
    const int32_t* member_ptr = p.group_member + p.program_group[batch.program];
    const int64_t* base[W];
    for (int lane = 0; lane < W; ++lane)
        base[lane] = bases + batch.base + (lane < batch.count ? lane : batch.count - 1) * n_members;
    bool good = true;
    for (int32_t g = p.group_ptr[model]; g < p.group_ptr[model + 1]; ++g, ++member_ptr) {
        double* cell = cells + p.group_cell[g] * stride;
        double largest[W];
        for (int lane = 0; lane < W; ++lane) largest[lane] = minus_infinity;
        for (int32_t e = 0; e < p.group_size[g]; ++e) {
            double sum[W], slope[W];
            for (int lane = 0; lane < W; ++lane) {
                sum[lane] = 0.0;
                slope[lane] = 0.0;
            }
            for (int32_t member = member_ptr[0]; member < member_ptr[1]; ++member) {
                const int64_t offset = p.entry_offset[p.member_entry[m0 + member] + e];
                for (int lane = 0; lane < W; ++lane) {
                    const int64_t index = base[lane][member] + offset;
                    sum[lane] += t.logarithm[index];
                    if constexpr (TANGENT) slope[lane] += t.direction[index];
                }
            }
            double* out = cell + static_cast<int64_t>(e) * stride;
            for (int lane = 0; lane < W; ++lane) {
                out[lane] = sum[lane];
                if constexpr (TANGENT) out[W + lane] = slope[lane];
                largest[lane] = sum[lane] > largest[lane] ? sum[lane] : largest[lane];
            }
        }
        if constexpr (!LOG) {
            for (int lane = 0; lane < W; ++lane) {
                good = good && largest[lane] > minus_infinity;
                log_z[lane] += largest[lane];
            }
            for (int32_t e = 0; e < p.group_size[g]; ++e) {
                double* out = cell + static_cast<int64_t>(e) * stride;
                for (int lane = 0; lane < W; ++lane) {
                    out[lane] = fast_exp(out[lane] - largest[lane]);
                    if constexpr (TANGENT) out[W + lane] *= out[lane];
                }
            }
        }
    }
    return good;
}

// Multiply the inputs of a bucket into its table.
template <int W, bool TANGENT, bool LOG>
void multiply_inputs(const Programs& p, int32_t b, double* cells) {
    constexpr int stride = Layout<W, TANGENT>::stride;
    double* table = cells + p.bucket_cell[b] * stride;
    const int32_t size = p.bucket_size[b];
    const int32_t i0 = p.input_ptr[b], i1 = p.input_ptr[b + 1];
    for (int32_t i = i0; i < i1; ++i) {
        const int32_t from = p.input_source[i];
        const double* input = cells + (from >= 0 ? p.group_cell[from] : p.message_cell[-1 - from]) * stride;
        const int32_t* map = p.maps + p.input_map[i];
        for (int32_t e = 0; e < size; ++e) {
            double* out = table + static_cast<int64_t>(e) * stride;
            const double* in = input + static_cast<int64_t>(map[e]) * stride;
            if (i == i0) {
                for (int lane = 0; lane < stride; ++lane) out[lane] = in[lane];
            } else if constexpr (LOG) {
                for (int lane = 0; lane < stride; ++lane) out[lane] += in[lane];
            } else {
                if constexpr (TANGENT) {
                    for (int lane = 0; lane < W; ++lane)
                        out[W + lane] = out[W + lane] * in[lane] + out[lane] * in[W + lane];
                }
                for (int lane = 0; lane < W; ++lane) out[lane] *= in[lane];
            }
        }
    }
    if (i0 == i1) {  // a variable that no factor touches
        for (int32_t e = 0; e < size; ++e) {
            double* out = table + static_cast<int64_t>(e) * stride;
            for (int lane = 0; lane < stride; ++lane) out[lane] = (LOG || lane >= W) ? 0.0 : 1.0;
        }
    }
}

// Sum the variable out in probability space: message over the separator, conditionals in place of the table. False if
// an entry may have been lost.
template <int W, bool TANGENT>
bool sum_out(const Programs& p, int32_t b, double* cells, double* log_z, double* slope) {
    constexpr int stride = Layout<W, TANGENT>::stride;
    double* table = cells + p.bucket_cell[b] * stride;
    double* message = cells + p.message_cell[b] * stride;
    const int32_t card = p.bucket_card[b], separator = p.bucket_size[b] / card;
    double largest[W], smallest[W];
    for (int lane = 0; lane < W; ++lane) {
        largest[lane] = 0.0;
        smallest[lane] = __builtin_inf();
    }
    for (int32_t s = 0; s < separator; ++s) {
        double* row = table + static_cast<int64_t>(s) * card * stride;
        double sum[W], sum_slope[W], inverse[W];
        for (int lane = 0; lane < W; ++lane) {
            sum[lane] = 0.0;
            sum_slope[lane] = 0.0;
        }
        for (int32_t v = 0; v < card; ++v) {
            for (int lane = 0; lane < W; ++lane) {
                sum[lane] += row[v * stride + lane];
                if constexpr (TANGENT) sum_slope[lane] += row[v * stride + W + lane];
            }
        }
        for (int lane = 0; lane < W; ++lane) {
            inverse[lane] = 1.0 / sum[lane];
            largest[lane] = sum[lane] > largest[lane] ? sum[lane] : largest[lane];
            smallest[lane] = sum[lane] < smallest[lane] ? sum[lane] : smallest[lane];
            message[static_cast<int64_t>(s) * stride + lane] = sum[lane];
            if constexpr (TANGENT) message[static_cast<int64_t>(s) * stride + W + lane] = sum_slope[lane];
        }
        for (int32_t v = 0; v < card; ++v) {
            for (int lane = 0; lane < W; ++lane) {
                const double conditional = row[v * stride + lane] * inverse[lane];
                row[v * stride + lane] = conditional;
                if constexpr (TANGENT)
                    row[v * stride + W + lane] =
                        (row[v * stride + W + lane] - conditional * sum_slope[lane]) * inverse[lane];
            }
        }
    }
    bool good = true;
    for (int lane = 0; lane < W; ++lane)
        good = good && largest[lane] > smallest_maximum && largest[lane] < __builtin_inf() &&
               smallest[lane] > smallest_ratio * largest[lane];
    if (!good) return false;
    if (is_root(p, b)) {
        for (int lane = 0; lane < W; ++lane) {
            log_z[lane] += fast_log(largest[lane]);
            if constexpr (TANGENT) slope[lane] += message[W + lane] / largest[lane];
        }
    } else {
        double scale[W];
        for (int lane = 0; lane < W; ++lane) {
            scale[lane] = 1.0 / largest[lane];
            log_z[lane] += fast_log(largest[lane]);
        }
        for (int32_t s = 0; s < separator; ++s) {
            double* cell = message + static_cast<int64_t>(s) * stride;
            for (int lane = 0; lane < W; ++lane) {
                cell[lane] *= scale[lane];
                if constexpr (TANGENT) cell[W + lane] *= scale[lane];
            }
        }
    }
    return true;
}

// The same in log space; a tangent there is the derivative of the logarithm.
template <int W, bool TANGENT>
void sum_out_log(const Programs& p, int32_t b, double* cells, double* log_z, double* slope) {
    constexpr int stride = Layout<W, TANGENT>::stride;
    double* table = cells + p.bucket_cell[b] * stride;
    double* message = cells + p.message_cell[b] * stride;
    const int32_t card = p.bucket_card[b], separator = p.bucket_size[b] / card;
    for (int32_t s = 0; s < separator; ++s) {
        double* row = table + static_cast<int64_t>(s) * card * stride;
        double* out = message + static_cast<int64_t>(s) * stride;
        for (int lane = 0; lane < W; ++lane) {
            double largest = minus_infinity;
            for (int32_t v = 0; v < card; ++v)
                largest = row[v * stride + lane] > largest ? row[v * stride + lane] : largest;
            const bool empty = largest == minus_infinity;
            double sum = 0.0, sum_slope = 0.0;
            for (int32_t v = 0; v < card; ++v) {
                const double term = empty ? 0.0 : fast_exp(row[v * stride + lane] - largest);
                sum += term;
                if constexpr (TANGENT) sum_slope += term == 0.0 ? 0.0 : term * row[v * stride + W + lane];
                row[v * stride + lane] = term;
            }
            out[lane] = empty ? minus_infinity : largest + fast_log(sum);
            const double inverse = empty ? 0.0 : 1.0 / sum;
            if constexpr (TANGENT) out[W + lane] = sum_slope * inverse;
            for (int32_t v = 0; v < card; ++v) {
                const double conditional = row[v * stride + lane] * inverse;
                row[v * stride + lane] = conditional;
                if constexpr (TANGENT)
                    row[v * stride + W + lane] =
                        conditional == 0.0 ? 0.0 : conditional * (row[v * stride + W + lane] - out[W + lane]);
            }
        }
    }
    if (is_root(p, b)) {
        for (int lane = 0; lane < W; ++lane) {
            log_z[lane] += message[lane];
            if constexpr (TANGENT) slope[lane] += message[W + lane];
        }
    }
}

template <int W, bool TANGENT, bool LOG>
bool forward(const Programs& p, const Tables& t, const Batch& batch, const int64_t* bases, double* cells, double* log_z,
             double* slope) {
    for (int lane = 0; lane < W; ++lane) {
        log_z[lane] = 0.0;
        slope[lane] = 0.0;
    }
    if (!gather_groups<W, TANGENT, LOG>(p, t, batch, bases, cells, log_z)) return false;
    const int32_t model = p.program_template[batch.program];
    for (int32_t b = p.bucket_ptr[model]; b < p.bucket_ptr[model + 1]; ++b) {
        multiply_inputs<W, TANGENT, LOG>(p, b, cells);
        if constexpr (LOG) {
            sum_out_log<W, TANGENT>(p, b, cells, log_z, slope);
        } else {
            if (!sum_out<W, TANGENT>(p, b, cells, log_z, slope)) return false;
        }
    }
    return true;
}

// From conditionals p(variable | separator) to clique marginals, root first. Messages become marginals of separators.
template <int W, bool TANGENT>
void backward(const Programs& p, const Batch& batch, double* cells) {
    constexpr int stride = Layout<W, TANGENT>::stride;
    const int32_t model = p.program_template[batch.program];
    for (int32_t b = p.bucket_ptr[model + 1] - 1; b >= p.bucket_ptr[model]; --b) {
        double* table = cells + p.bucket_cell[b] * stride;
        const double* message = cells + p.message_cell[b] * stride;
        const int32_t size = p.bucket_size[b], card = p.bucket_card[b], separator = size / card;
        if (!is_root(p, b)) {
            for (int32_t s = 0; s < separator; ++s) {
                const double* weight = message + static_cast<int64_t>(s) * stride;
                double* row = table + static_cast<int64_t>(s) * card * stride;
                for (int32_t v = 0; v < card; ++v, row += stride) {
                    if constexpr (TANGENT)
                        for (int lane = 0; lane < W; ++lane)
                            row[W + lane] = row[W + lane] * weight[lane] + row[lane] * weight[W + lane];
                    for (int lane = 0; lane < W; ++lane) row[lane] *= weight[lane];
                }
            }
        }
        for (int32_t i = p.input_ptr[b]; i < p.input_ptr[b + 1]; ++i) {
            const int32_t from = p.input_source[i];
            double* out;
            int32_t out_size;
            if (from >= 0) {
                out = cells + p.group_cell[from] * stride;
                out_size = p.group_size[from];
            } else {
                out = cells + p.message_cell[-1 - from] * stride;
                out_size = p.bucket_size[-1 - from] / p.bucket_card[-1 - from];
            }
            for (int64_t e = 0; e < static_cast<int64_t>(out_size) * stride; ++e) out[e] = 0.0;
            const int32_t* map = p.maps + p.input_map[i];
            for (int32_t e = 0; e < size; ++e) {
                double* sum = out + static_cast<int64_t>(map[e]) * stride;
                const double* term = table + static_cast<int64_t>(e) * stride;
                for (int lane = 0; lane < stride; ++lane) sum[lane] += term[lane];
            }
        }
    }
}

// Every member of a group has the group's marginal.
template <int W, bool TANGENT>
void scatter(const Programs& p, const Request& r, const Batch& batch, const double* cells) {
    constexpr int stride = Layout<W, TANGENT>::stride;
    const int32_t model = p.program_template[batch.program];
    const int64_t m0 = p.program_member[batch.program];
    const int64_t n_members = p.program_member[batch.program + 1] - m0;
    for (int64_t lane = 0; lane < batch.count; ++lane) {
        const double weight = r.weight ? r.weight[batch.first + lane] : 1.0;
        const int64_t* base = r.bases + batch.base + lane * n_members;
        double* each = r.each ? r.each + r.each_start[batch.first + lane] : nullptr;
        const int32_t* member_ptr = p.group_member + p.program_group[batch.program];
        for (int32_t g = p.group_ptr[model]; g < p.group_ptr[model + 1]; ++g, ++member_ptr) {
            const double* cell = cells + p.group_cell[g] * stride + lane;
            for (int32_t member = member_ptr[0]; member < member_ptr[1]; ++member) {
                const int32_t* offset = p.entry_offset + p.member_entry[m0 + member];
                for (int32_t e = 0; e < p.group_size[g]; ++e) {
                    const int64_t index = base[member] + offset[e];
                    const double* entry = cell + static_cast<int64_t>(e) * stride;
                    if (each) *each++ = entry[0];
                    if (r.marginals) r.marginals[index] += weight * entry[0];
                    if constexpr (TANGENT)
                        if (r.marginal_slope) r.marginal_slope[index] += weight * entry[W];
                }
            }
        }
    }
}

template <int W, bool TANGENT>
int64_t run(const Programs& p, const Tables& t, const Request& r, const Batch* batches, int64_t first, int64_t last,
            double* work) {
    const bool need_marginals = r.marginals || r.marginal_slope || r.each;
    int64_t again = 0;
    for (int64_t i = first; i < last; ++i) {
        const Batch& batch = batches[i];
        double log_z[W], slope[W];
        if (!forward<W, TANGENT, false>(p, t, batch, r.bases, work, log_z, slope)) {
            forward<W, TANGENT, true>(p, t, batch, r.bases, work, log_z, slope);
            ++again;
        }
        for (int64_t lane = 0; lane < batch.count; ++lane) {
            if (r.log_z) r.log_z[batch.first + lane] = log_z[lane];
            if (r.slope) r.slope[batch.first + lane] = slope[lane];
        }
        if (need_marginals) {
            backward<W, TANGENT>(p, batch, work);
            scatter<W, TANGENT>(p, r, batch, work);
        }
    }
    return again;
}

}  // namespace

int64_t eliminate(const Programs& programs, const Tables& tables, const Request& request, const Batch* batches,
                  int64_t first, int64_t last, int lanes, double* work) {
    const bool tangent = tables.direction != nullptr;
    if (lanes == 8)
        return tangent ? run<8, true>(programs, tables, request, batches, first, last, work)
                       : run<8, false>(programs, tables, request, batches, first, last, work);
    return tangent ? run<1, true>(programs, tables, request, batches, first, last, work)
                   : run<1, false>(programs, tables, request, batches, first, last, work);
}

bool gather_once(const Programs& p, const Tables& t, const Batch& batch, const int64_t* bases, bool log_space,
                 double* cells, double* log_z) {
    if (t.direction)
        return log_space ? gather_groups<1, true, true>(p, t, batch, bases, cells, log_z)
                         : gather_groups<1, true, false>(p, t, batch, bases, cells, log_z);
    return log_space ? gather_groups<1, false, true>(p, t, batch, bases, cells, log_z)
                     : gather_groups<1, false, false>(p, t, batch, bases, cells, log_z);
}

void scatter_once(const Programs& p, const Request& r, const Batch& batch, bool tangent, const double* cells) {
    tangent ? scatter<1, true>(p, r, batch, cells) : scatter<1, false>(p, r, batch, cells);
}

double forward_once(const Programs& p, const Tables& t, const int64_t* bases, bool maximise, double* work) {
    const Batch batch{0, 0, 1, 0};
    double log_z = 0.0, slope = 0.0;
    if (!maximise) {
        forward<1, false, true>(p, t, batch, bases, work, &log_z, &slope);
        return log_z;
    }
    gather_groups<1, false, true>(p, t, batch, bases, work, &log_z);
    const int32_t model = p.program_template[0];
    for (int32_t b = p.bucket_ptr[model]; b < p.bucket_ptr[model + 1]; ++b) {
        multiply_inputs<1, false, true>(p, b, work);
        const double* table = work + p.bucket_cell[b];
        double* message = work + p.message_cell[b];
        const int32_t card = p.bucket_card[b], separator = p.bucket_size[b] / card;
        for (int32_t s = 0; s < separator; ++s) {
            double largest = minus_infinity;
            for (int32_t v = 0; v < card; ++v)
                largest = table[static_cast<int64_t>(s) * card + v] > largest
                              ? table[static_cast<int64_t>(s) * card + v]
                              : largest;
            message[s] = largest;
        }
        if (is_root(p, b)) log_z += message[0];
    }
    return log_z;
}

}  // namespace ff::FF_ISA

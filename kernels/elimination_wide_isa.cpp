#include "elimination_wide.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

namespace {

constexpr double minus_infinity = -__builtin_inf();

// Counts over the outer part of the separator and keeps the place of every input.
struct Odometer {
    int32_t* digit;
    int64_t* place;

    explicit Odometer(const WideBucket& b) : digit(b.digit), place(b.places) {
        for (int32_t d = 0; d < b.digits; ++d) digit[d] = 0;
        for (int32_t i = 0; i < b.count; ++i) place[i] = 0;
    }

    // To the next block; true where a small input has moved.
    bool advance(const WideBucket& b) {
        bool moved = false;
        for (int32_t d = b.digits - 1; d >= 0; --d) {
            const bool carry = ++digit[d] == b.outer_card[d];
            const int64_t steps = carry ? 1 - static_cast<int64_t>(b.outer_card[d]) : 1;
            for (int32_t i = 0; i < b.count; ++i) {
                const int64_t step = b.inputs[i].outer_step[d];
                place[i] += steps * step;
                moved = moved || (i < b.small && step != 0 && b.outer_card[d] > 1);
            }
            if (!carry) break;
            digit[d] = 0;
        }
        return moved;
    }
};

// Product (or, in log space, sum) of the small inputs for every state of the variable and entry of the block.
template <bool LOG, bool TANGENT>
void coefficients(const WideBucket& b, const Odometer& at, double* value, double* slope) {
    double factor = 1.0;
    if constexpr (!LOG)
        for (int32_t i = b.small; i < b.count; ++i) factor *= b.inputs[i].factor;
    for (int32_t v = 0; v < b.card; ++v) {
        double* c = value + v * b.inner;
        double* d = slope + v * b.inner;
        for (int64_t e = 0; e < b.inner; ++e) c[e] = LOG ? 0.0 : factor;
        if constexpr (TANGENT)
            for (int64_t e = 0; e < b.inner; ++e) d[e] = 0.0;
        for (int32_t i = 0; i < b.small; ++i) {
            const WideInput& input = b.inputs[i];
            const int64_t first = at.place[i] + v * input.variable_step;
            if (!TANGENT && input.kind == WideKind::constant) {
                const double x = input.value[first];
                for (int64_t e = 0; e < b.inner; ++e) c[e] = LOG ? c[e] + x : c[e] * x;
                continue;
            }
            for (int64_t e = 0; e < b.inner; ++e) {
                const int64_t index = (first + input.map[e]) * input.unit;
                const double x = input.value[index];
                if constexpr (TANGENT) d[e] = LOG ? d[e] + input.slope[index] : d[e] * x + c[e] * input.slope[index];
                c[e] = LOG ? c[e] + x : c[e] * x;
            }
        }
    }
}

// out = a · input over a block, or added to out.
template <bool ADD>
void multiply(const WideInput& input, int64_t place, const double* in, const double* a, int64_t n, double* out) {
    const double* x = in + place;
    switch (input.kind) {
        case WideKind::contiguous:
            for (int64_t e = 0; e < n; ++e) out[e] = ADD ? out[e] + a[e] * x[e] : a[e] * x[e];
            break;
        case WideKind::constant: {
            const double y = x[0];
            for (int64_t e = 0; e < n; ++e) out[e] = ADD ? out[e] + a[e] * y : a[e] * y;
            break;
        }
        case WideKind::twice:
            for (int64_t j = 0; j < n / 2; ++j) {
                out[2 * j] = ADD ? out[2 * j] + a[2 * j] * x[j] : a[2 * j] * x[j];
                out[2 * j + 1] = ADD ? out[2 * j + 1] + a[2 * j + 1] * x[j] : a[2 * j + 1] * x[j];
            }
            break;
        case WideKind::mapped:
            for (int64_t e = 0; e < n; ++e) {
                const double y = x[input.map[e]];
                out[e] = ADD ? out[e] + a[e] * y : a[e] * y;
            }
            break;
    }
}

// out += input (log space, and derivatives there).
inline void add(const WideInput& input, const double* x, int64_t n, double* out) {
    for (int64_t e = 0; e < n; ++e) out[e] += x[input.map[e]];
}

// total += the entries of a block.
inline void add_to_total(const WideInput& input, const double* from, int64_t n, double* total) {
    switch (input.kind) {
        case WideKind::contiguous:
            for (int64_t e = 0; e < n; ++e) total[e] += from[e];
            break;
        case WideKind::twice:
            for (int64_t j = 0; j < n / 2; ++j) total[j] += from[2 * j] + from[2 * j + 1];
            break;
        default:
            for (int64_t e = 0; e < n; ++e) total[input.map[e]] += from[e];
            break;
    }
}

// The table of a block for one state of the variable: coefficients times the messages.
template <bool LOG, bool TANGENT>
void table_block(const WideBucket& b, const Odometer& at, int32_t v, const double* c, const double* d, double* table,
                 double* slope) {
    if constexpr (LOG) {
        for (int64_t e = 0; e < b.inner; ++e) table[e] = c[e];
        if constexpr (TANGENT)
            for (int64_t e = 0; e < b.inner; ++e) slope[e] = d[e];
        for (int32_t i = b.small; i < b.count; ++i) {
            const int64_t place = at.place[i] + v * b.inputs[i].variable_step;
            add(b.inputs[i], b.inputs[i].value + place, b.inner, table);
            if constexpr (TANGENT) add(b.inputs[i], b.inputs[i].slope + place, b.inner, slope);
        }
    } else {
        const double* from = c;
        if constexpr (TANGENT)
            for (int64_t e = 0; e < b.inner; ++e) slope[e] = d[e];
        for (int32_t i = b.small; i < b.count; ++i) {
            const int64_t place = at.place[i] + v * b.inputs[i].variable_step;
            if constexpr (TANGENT) {
                multiply<false>(b.inputs[i], place, b.inputs[i].value, slope, b.inner, slope);
                multiply<true>(b.inputs[i], place, b.inputs[i].slope, from, b.inner, slope);
            }
            multiply<false>(b.inputs[i], place, b.inputs[i].value, from, b.inner, table);
            from = table;
        }
        if (b.small == b.count)
            for (int64_t e = 0; e < b.inner; ++e) table[e] = c[e];
    }
}

struct Scratch {
    double *value, *slope, *sum, *sum_slope, *table, *table_slope, *extra, *extra_slope;
    explicit Scratch(const WideBucket& b) {
        const int64_t size = b.card * b.inner;
        value = b.scratch;
        slope = value + size;
        sum = slope + size;
        sum_slope = sum + size;
        table = sum_slope + size;
        table_slope = table + size;
        extra = table_slope + size;
        extra_slope = extra + b.inner;
    }
};

template <WideMode MODE, bool TANGENT>
WideRange forward(const WideBucket& b) {
    constexpr bool LOG = MODE != WideMode::sum;
    const Scratch s(b);
    Odometer at(b);
    const int64_t n = b.inner;
    WideRange range{LOG ? minus_infinity : 0.0, __builtin_inf()};
    double largest[8], smallest[8];
    for (int k = 0; k < 8; ++k) {
        largest[k] = range.largest;
        smallest[k] = range.smallest;
    }
    bool moved = true;
    for (int64_t o = 0; o < b.outer; ++o) {
        if (moved) coefficients<LOG, TANGENT>(b, at, s.value, s.slope);
        double* out = b.message + o * n;
        if constexpr (!LOG && !TANGENT) {
            const int32_t last = b.count - 1;
            for (int32_t v = 0; v < b.card; ++v) {
                const double* from = s.value + v * n;
                if (b.small == b.count) {
                    for (int64_t e = 0; e < n; ++e) out[e] = v ? out[e] + from[e] : from[e];
                    continue;
                }
                for (int32_t i = b.small; i < last; ++i) {
                    const WideInput& input = b.inputs[i];
                    multiply<false>(input, at.place[i] + v * input.variable_step, input.value, from, n, s.extra);
                    from = s.extra;
                }
                const WideInput& input = b.inputs[last];
                const int64_t place = at.place[last] + v * input.variable_step;
                if (v)
                    multiply<true>(input, place, input.value, from, n, out);
                else
                    multiply<false>(input, place, input.value, from, n, out);
            }
        } else {
            for (int32_t v = 0; v < b.card; ++v)
                table_block<LOG, TANGENT>(b, at, v, s.value + v * n, s.slope + v * n, s.table + v * n,
                                          s.table_slope + v * n);
            double* out_slope = TANGENT ? b.message_slope + o * n : nullptr;
            for (int64_t e = 0; e < n; ++e) {
                if constexpr (LOG) {
                    double most = minus_infinity;
                    for (int32_t v = 0; v < b.card; ++v) most = s.table[v * n + e] > most ? s.table[v * n + e] : most;
                    if (MODE == WideMode::maximum || most == minus_infinity) {
                        out[e] = most;
                        if constexpr (TANGENT) out_slope[e] = 0.0;
                        continue;
                    }
                    double sum = 0.0, sum_slope = 0.0;
                    for (int32_t v = 0; v < b.card; ++v) {
                        const double term = fast_exp(s.table[v * n + e] - most);
                        sum += term;
                        if constexpr (TANGENT)
                            if (term != 0.0) sum_slope += term * s.table_slope[v * n + e];
                    }
                    out[e] = most + fast_log(sum);
                    if constexpr (TANGENT) out_slope[e] = sum_slope / sum;
                } else {
                    double sum = 0.0, sum_slope = 0.0;
                    for (int32_t v = 0; v < b.card; ++v) {
                        sum += s.table[v * n + e];
                        sum_slope += s.table_slope[v * n + e];
                    }
                    out[e] = sum;
                    if constexpr (TANGENT) out_slope[e] = sum_slope;
                }
            }
        }
        int64_t e = 0;
        for (; e + 8 <= n; e += 8)
            for (int k = 0; k < 8; ++k) {
                largest[k] = out[e + k] > largest[k] ? out[e + k] : largest[k];
                smallest[k] = out[e + k] < smallest[k] ? out[e + k] : smallest[k];
            }
        for (; e < n; ++e) {
            largest[0] = out[e] > largest[0] ? out[e] : largest[0];
            smallest[0] = out[e] < smallest[0] ? out[e] : smallest[0];
        }
        moved = at.advance(b);
    }
    for (int k = 0; k < 8; ++k) {
        range.largest = largest[k] > range.largest ? largest[k] : range.largest;
        range.smallest = smallest[k] < range.smallest ? smallest[k] : range.smallest;
    }
    return range;
}

// Give what has been summed over the blocks with the same coefficients to the marginals of the small inputs.
template <bool TANGENT>
void flush(const WideBucket& b, const int64_t* place, const Scratch& s) {
    for (int32_t v = 0; v < b.card; ++v)
        for (int32_t i = 0; i < b.small; ++i) {
            const WideInput& input = b.inputs[i];
            const int64_t first = place[i] + v * input.variable_step;
            for (int64_t e = 0; e < b.inner; ++e) {
                const int64_t index = (first + input.map[e]) * input.unit;
                input.total[index] += s.sum[v * b.inner + e];
                if constexpr (TANGENT) input.total_slope[index] += s.sum_slope[v * b.inner + e];
            }
        }
    for (int64_t e = 0; e < b.card * b.inner; ++e) s.sum[e] = 0.0;
    if constexpr (TANGENT)
        for (int64_t e = 0; e < b.card * b.inner; ++e) s.sum_slope[e] = 0.0;
}

template <bool LOG, bool TANGENT>
void backward(const WideBucket& b) {
    const Scratch s(b);
    Odometer at(b);
    const int64_t n = b.inner;
    for (int64_t e = 0; e < b.card * n; ++e) s.sum[e] = s.sum_slope[e] = 0.0;
    int64_t* used = b.places + b.count;  // the places of the small inputs for which s.sum holds marginals
    bool moved = true;
    for (int64_t o = 0; o < b.outer; ++o) {
        if (moved) {
            if (o) flush<TANGENT>(b, used, s);
            coefficients<LOG, TANGENT>(b, at, s.value, s.slope);
            for (int32_t i = 0; i < b.small; ++i) used[i] = at.place[i];
        }
        const double *message = b.message + o * n, *p = b.marginal + o * n;
        const double* message_slope = TANGENT ? b.message_slope + o * n : nullptr;
        const double* p_slope = TANGENT ? b.marginal_slope + o * n : nullptr;
        if constexpr (!LOG) {
            for (int64_t e = 0; e < n; ++e) s.extra[e] = p[e] / message[e];
            if constexpr (TANGENT)
                for (int64_t e = 0; e < n; ++e)
                    s.extra_slope[e] = (p_slope[e] - s.extra[e] * message_slope[e]) / message[e];
        }
        for (int32_t v = 0; v < b.card; ++v) {
            double *table = s.table + v * n, *slope = s.table_slope + v * n;
            double *sum = s.sum + v * n, *sum_slope = s.sum_slope + v * n;
            table_block<LOG, TANGENT>(b, at, v, s.value + v * n, s.slope + v * n, table, slope);
            for (int64_t e = 0; e < n; ++e) {
                if constexpr (LOG) {
                    const double conditional = message[e] == minus_infinity ? 0.0 : fast_exp(table[e] - message[e]);
                    if constexpr (TANGENT) {
                        slope[e] = conditional == 0.0
                                       ? 0.0
                                       : p_slope[e] * conditional + p[e] * conditional * (slope[e] - message_slope[e]);
                        sum_slope[e] += slope[e];
                    }
                    table[e] = p[e] * conditional;
                } else {
                    if constexpr (TANGENT) {
                        slope[e] = s.extra_slope[e] * table[e] + s.extra[e] * slope[e];
                        sum_slope[e] += slope[e];
                    }
                    table[e] *= s.extra[e];
                }
                sum[e] += table[e];
            }
            for (int32_t i = b.small; i < b.count; ++i) {
                const WideInput& input = b.inputs[i];
                const int64_t place = at.place[i] + v * input.variable_step;
                add_to_total(input, table, n, input.total + place);
                if constexpr (TANGENT) add_to_total(input, slope, n, input.total_slope + place);
            }
        }
        moved = at.advance(b);
    }
    flush<TANGENT>(b, used, s);
}

}  // namespace

WideRange wide_forward(const WideBucket& bucket, WideMode mode, bool tangent) {
    switch (mode) {
        case WideMode::sum:
            return tangent ? forward<WideMode::sum, true>(bucket) : forward<WideMode::sum, false>(bucket);
        case WideMode::log_sum:
            return tangent ? forward<WideMode::log_sum, true>(bucket) : forward<WideMode::log_sum, false>(bucket);
        default:
            return forward<WideMode::maximum, false>(bucket);
    }
}

void wide_backward(const WideBucket& bucket, WideMode mode, bool tangent) {
    if (mode == WideMode::sum)
        tangent ? backward<false, true>(bucket) : backward<false, false>(bucket);
    else
        tangent ? backward<true, true>(bucket) : backward<true, false>(bucket);
}

}  // namespace ff::FF_ISA

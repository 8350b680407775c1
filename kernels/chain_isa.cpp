// One evaluation of a chain model: token scores, recursions, residuals, gradient.
#include "chain_segment.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace ff::FF_ISA {
namespace {

// Rows of weights at this distance (in tokens) are fetched ahead of their use.
constexpr int64_t ahead = 4;

// One thread's memory, cut out of one block.
struct Room {
    double *scores, *tangent_scores, *psi, *alpha, *g, *nodes, *alpha_tangent, *g_tangent, *tops, *c, *beta, *rows;
    double *window_alpha, *window_g, *window_nodes, *window_alpha_tangent, *window_g_tangent, *window_c;
    double *log_work, *edge_scores, *edge_tangent, *edge_out, *last_row, *run_weights;
};

int64_t cut(const ChainData& data, int64_t width, bool tangent, double* base, Room* room) {
    int64_t used = 0;
    const int64_t padded = data.padded;
    auto take = [&](double** place, int64_t size) {
        if (room) *place = base + used;
        used += (size + 7) / 8 * 8;
    };
    Room spare;
    Room& r = room ? *room : spare;
    const int64_t batch = data.max_batch_tokens, twice = tangent ? 1 : 0;
    const int64_t windows = chain_windows * width;
    take(&r.scores, batch * padded);
    take(&r.tangent_scores, twice * batch * padded);
    take(&r.psi, batch * padded);
    take(&r.alpha, batch * padded);
    take(&r.g, batch * padded);
    take(&r.nodes, batch * padded);
    take(&r.alpha_tangent, twice * batch * padded);
    take(&r.g_tangent, twice * batch * padded);
    take(&r.tops, batch);
    take(&r.c, batch + chain_batch);
    take(&r.beta, chain_batch * padded);
    take(&r.rows, 5 * padded);
    take(&r.window_alpha, windows * padded);
    take(&r.window_g, windows * padded);
    take(&r.window_nodes, windows * padded);
    take(&r.window_alpha_tangent, twice * windows * padded);
    take(&r.window_g_tangent, twice * windows * padded);
    take(&r.window_c, chain_windows * (width + 1));
    take(&r.log_work, (4 * data.max_tokens + 4) * padded);
    take(&r.last_row, 2 * padded);
    take(&r.run_weights, data.partial ? batch : 0);
    if (data.edge_ptr) {
        take(&r.edge_scores, (data.max_tokens + 1) * padded * padded);
        take(&r.edge_tangent, twice * (data.max_tokens + 1) * padded * padded);
        take(&r.edge_out, (data.max_tokens + 1) * padded * padded);
    }
    return used;
}

// acc += Σ value * row over the hot rows and, where every pair has a weight, the cold ones; C vectors of columns.
template <int C>
FF_INLINE void gather_block(const ChainData& data, const ChainWeights& weights, const double* hot_table,
                            const double* last_row, int64_t token, int64_t column, double* row) {
    v4 acc[C];
    for (int c = 0; c < C; ++c) acc[c] = load(row + column + 4 * c);
    for (int64_t q = data.hot_ptr[token]; q < data.hot_ptr[token + 1]; ++q) {
        const double* from = hot_table + data.hot_rows[q] * data.padded + column;
        if (data.hot_values) {
            const v4 value = splat(data.hot_values[q]);
            for (int c = 0; c < C; ++c) acc[c] += value * load(from + 4 * c);
        } else {
            for (int c = 0; c < C; ++c) acc[c] += load(from + 4 * c);
        }
    }
    if (!data.pair_ptr)
        for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
            const int64_t feature = data.cold_places[q];
            // The last row of the parameters may have nothing behind it to fill the padding: a copy is read instead.
            const double* from =
                (feature == data.n_features - 1 ? last_row : weights.state + feature * data.n_labels) + column;
            if (data.cold_values) {
                const v4 value = splat(data.cold_values[q]);
                for (int c = 0; c < C; ++c) acc[c] += value * load(from + 4 * c);
            } else {
                for (int c = 0; c < C; ++c) acc[c] += load(from + 4 * c);
            }
        }
    for (int c = 0; c < C; ++c) store(row + column + 4 * c, acc[c]);
}

FF_INLINE void fetch_ahead(const ChainData& data, const ChainWeights& weights, int64_t token) {
    for (int64_t q = data.cold_ptr[token]; q < data.cold_ptr[token + 1]; ++q) {
        const int64_t place = data.cold_places[q];
        if (data.pair_ptr) {
            __builtin_prefetch(weights.state + place);
        } else {
            const double* row = weights.state + place * data.n_labels;
            const int64_t lines = data.n_labels < 64 ? data.n_labels : 64;
            for (int64_t j = 0; j < lines; j += 8) __builtin_prefetch(row + j);
        }
    }
}

// Scores of the tokens first..last, which are one whole sequence.
FF_INLINE void score_tokens(const ChainData& data, const ChainWeights& weights, const double* hot_table,
                            const double* last_row, int64_t first, int64_t last, double* scores) {
    const int64_t padded = data.padded;
    for (int64_t token = first; token < last; ++token) {
        double* row = scores + (token - first) * padded;
        std::memcpy(row, weights.base, static_cast<size_t>(padded) * sizeof(double));
        if (data.active && !data.active[token]) continue;
        if (token + ahead < data.n_tokens) fetch_ahead(data, weights, token + ahead);
        int64_t column = 0;
        for (; column + 32 <= padded; column += 32)
            gather_block<8>(data, weights, hot_table, last_row, token, column, row);
        switch ((padded - column) / 4) {
            case 1:
                gather_block<1>(data, weights, hot_table, last_row, token, column, row);
                break;
            case 2:
                gather_block<2>(data, weights, hot_table, last_row, token, column, row);
                break;
            case 3:
                gather_block<3>(data, weights, hot_table, last_row, token, column, row);
                break;
            case 4:
                gather_block<4>(data, weights, hot_table, last_row, token, column, row);
                break;
            case 5:
                gather_block<5>(data, weights, hot_table, last_row, token, column, row);
                break;
            case 6:
                gather_block<6>(data, weights, hot_table, last_row, token, column, row);
                break;
            case 7:
                gather_block<7>(data, weights, hot_table, last_row, token, column, row);
                break;
            default:
                break;
        }
        if (data.pair_ptr) {
            const int64_t end = data.cold_ptr[token + 1];
            if (data.cold_values) {
                for (int64_t q = data.cold_ptr[token]; q < end; ++q)
                    row[data.cold_labels[q]] += data.cold_values[q] * weights.state[data.cold_places[q]];
            } else {
                for (int64_t q = data.cold_ptr[token]; q < end; ++q)
                    row[data.cold_labels[q]] += weights.state[data.cold_places[q]];
            }
        }
    }
    if (last == first) return;
    double* row = scores;
    for (int64_t j = 0; j < padded; ++j) row[j] += weights.start[j];
    row = scores + (last - first - 1) * padded;
    for (int64_t j = 0; j < padded; ++j) row[j] += weights.end[j];
}

void fill_hot_table(const ChainData& data, const ChainWeights& weights, double* table) {
    for (int64_t h = 0; h < data.n_hot; ++h) {
        double* row = table + h * data.padded;
        const int64_t feature = data.hot_features[h];
        for (int64_t j = 0; j < data.padded; ++j) row[j] = 0.0;
        if (data.pair_ptr) {
            for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair)
                row[data.pair_labels[pair]] = weights.state[pair];
        } else {
            for (int64_t j = 0; j < data.n_labels; ++j) row[j] = weights.state[feature * data.n_labels + j];
        }
    }
}

void fill_last_row(const ChainData& data, const ChainWeights& weights, double* row) {
    for (int64_t j = 0; j < data.padded; ++j)
        row[j] = data.n_features > 0 && !data.pair_ptr && j < data.n_labels
                     ? weights.state[(data.n_features - 1) * data.n_labels + j]
                     : 0.0;
}

// exp of what is at most 0: fast_exp without the steps that only large arguments need.
FF_INLINE double exp_negative(double x) {
    constexpr double shift = 0x1.8p52;
    const double clamped = x < -708.39 ? -708.39 : x;
    const double rounded = clamped * 1.4426950408889634074 + shift;
    const double k = rounded - shift;
    double r = clamped - k * 0x1.62e42fefa3800p-1;
    r = r - k * 0x1.ef35793c76730p-45;
    double p = 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const double scale = bits_to_double((double_to_bits(rounded) - double_to_bits(shift) + 1023) << 52);
    return x < -708.39 ? 0.0 : p * scale;
}

// ψ = exp(s - max s) and the max of each token.
FF_INLINE void exponentiate(const double* scores, double* psi, double* tops, int64_t tokens, int64_t padded) {
    for (int64_t t = 0; t < tokens; ++t) {
        const double* row = scores + t * padded;
        double* out = psi + t * padded;
        v4 most = load(row);
        for (int64_t j = 4; j < padded; j += 4) most = larger(load(row + j), most);
        const double top = largest(most);
        tops[t] = top;
        for (int64_t j = 0; j < padded; ++j) out[j] = exp_negative(row[j] - top);
    }
}

// Everything that the sequences of one chunk need; evaluates them four at a time.
struct Worker {
    const ChainData& data;
    const ChainWeights& weights;
    const ChainWeights* direction;
    const ChainFamily* families;
    int64_t n_families;
    const double* row_weight;
    const ChainScratch& scratch;
    const ChainOutput& out;
    Chain chain;
    Room room;
    double* columns;  // gradient of label-pair features of this chunk
    bool observed;    // the labels count
    bool partial;     // and some of them are unknown

    // The weight of the segment that is the whole sequence: FL, and windows that are not shorter.
    double whole_weight(int64_t sequence, int64_t length) const {
        double total = 0.0;
        for (int64_t f = 0; f < n_families; ++f) {
            const ChainFamily& family = families[f];
            if (family.width != 0 && family.width < length) continue;
            if (family.rows && !family.rows[sequence]) continue;
            if (family.indptr && family.indptr[sequence] == family.indptr[sequence + 1]) continue;
            total += family.beta;
        }
        return row_weight ? total * row_weight[sequence] : total;
    }

    void clear(double* rows, int64_t count) const {
        std::memset(rows, 0, static_cast<size_t>(count * data.padded) * sizeof(double));
    }

    Edges edges_from(int64_t position) const {
        const int64_t square = data.padded * data.padded;
        if (data.edge_ptr)
            return {room.edge_scores + position * square, direction ? room.edge_tangent + position * square : nullptr,
                    square, room.edge_out + position * square, square};
        return {chain.transitions, chain.tangent_transitions, 0, chain.by_row, 0};
    }

    // Adds the value of a finished segment; log_z is in place.
    void add_value(const Segment& s, int64_t sequence, const Edges& edges) const {
        const double path = s.observed ? path_score(s, s.scores, edges.scores, edges.stride, data.padded) : 0.0;
        out.values[sequence] += s.weight * (path - s.log_z);
        if (chain.tangent) {
            const double slope =
                s.observed ? path_score(s, s.tangent_scores, edges.tangent, edges.stride, data.padded) : 0.0;
            out.tangents[sequence] += s.weight * (slope - s.log_z_tangent);
        }
    }

    // log Z of a segment that went well in probability space.
    void finish_log_z(Segment& s) const {
        double total = chain.top * static_cast<double>(s.length - 1 + (s.left >= 0) + (s.right >= 0));
        double product = 1.0;
        for (int64_t p = 0; p < s.length; ++p) {
            total += s.tops[p];
            // One logarithm for many tokens: scales are above 1e-200, so a product above 1e-100 can take one more.
            product *= s.c[p * s.c_stride];
            if (product < 1e-100 || product > 1e100) {
                total += fast_log(product);
                product = 1.0;
            }
        }
        total += fast_log(product) + fast_log(s.c[s.length * s.c_stride]);
        s.log_z = total;
    }

    void sum_edges(const Segment* segments, int64_t count, int64_t windows) const {
        // Rows of whole sequences follow each other; those of windows are ordered by position.
        const int64_t padded = data.padded;
        auto add = [&](double* alpha, double* g, double* da, double* dg, int64_t n) {
            add_outer(chain.outer, alpha, g, n, padded, padded);
            if (chain.tangent) {
                add_outer(chain.outer_tangent, da, g, n, padded, padded);
                add_outer(chain.outer_tangent, alpha, dg, n, padded, padded);
            }
        };
        if (windows == 0) {
            for (int64_t b = 0; b < count; ++b) {
                const Segment& s = segments[b];
                if (!s.good) continue;
                add(s.alpha, s.g + padded, s.alpha_tangent, s.g_tangent + padded, s.length - 1);
                if (chain.squares) square_edges(s.alpha, s.g + padded, s.length - 1, &s, 0);
            }
            return;
        }
        for (int64_t b = 0; b < windows; ++b)
            if (!segments[b].good)
                for (int64_t p = 0; p < segments[b].length; ++p)
                    for (int64_t j = 0; j < padded; ++j) {
                        const int64_t at = p * segments[b].stride + j;
                        segments[b].g[at] = segments[b].alpha[at] = 0.0;
                        if (chain.tangent) segments[b].g_tangent[at] = segments[b].alpha_tangent[at] = 0.0;
                    }
        const Segment& s = segments[0];
        for (int64_t p = 0; p + 1 < s.length; ++p)
            add(s.alpha + p * s.stride, s.g + (p + 1) * s.stride, s.alpha_tangent + p * s.stride,
                s.g_tangent + (p + 1) * s.stride, windows);
        if (chain.squares)
            for (int64_t p = 0; p + 1 < s.length; ++p)
                square_edges(s.alpha + p * s.stride, s.g + (p + 1) * s.stride, windows, segments, 1);
    }

    // outer_tangent += Σ α² (g²/w): with M² it is the sum of squared edge marginals. Uses the rows of `nodes`.
    void square_edges(const double* alpha, const double* g, int64_t n, const Segment* segments, int64_t step) const {
        const int64_t padded = data.padded;
        double *a = room.rows, *b = room.rows + padded;
        for (int64_t t = 0; t < n; ++t) {
            const double weight = segments[t * step].weight;
            for (int64_t j = 0; j < padded; ++j) {
                const double x = alpha[t * padded + j], y = g[t * padded + j];
                a[j] = x * x;
                b[j] = y * y / weight;
            }
            add_outer(chain.outer_tangent, a, b, 1, padded, padded);
        }
    }

    void run_log(Segment& s, int64_t sequence, int64_t position) const {
        const Edges edges = edges_from(position);
        log_segment(chain, s, edges, room.log_work);
        add_value(s, sequence, edges);
    }

    // Whether a window, which is not the whole sequence, has a likelihood: with the labels beside it known, and a label
    // inside to speak of.
    bool counts(const int32_t* labels, int64_t length, int64_t t, int64_t width) const {
        if (!partial) return true;
        if ((t > 0 && labels[t - 1] < 0) || (t + width < length && labels[t + width] < 0)) return false;
        return any_known(labels + t, width);
    }

    static bool any_known(const int32_t* labels, int64_t n) {
        for (int64_t p = 0; p < n; ++p)
            if (labels[p] >= 0) return true;
        return n == 0;
    }

    // The weight of a segment, to the runs of unknown labels in it (each by its first token).
    void weigh_runs(const int32_t* labels, int64_t n, double weight, double* run_weights) const {
        for (int64_t p = 0; p < n; ++p)
            if (labels[p] < 0 && (p == 0 || labels[p - 1] >= 0)) run_weights[p] += weight;
    }

    // Sums over the unknown labels of these sequences, given the known ones: segments of negative weight.
    void run_unknown(const int64_t* sequences, int64_t count, const int64_t* local) const {
        Segment segments[chain_batch];
        int64_t owners[chain_batch], positions[chain_batch], n = 0;
        auto flush = [&] {
            if (n == 0) return;
            run_batch(segments, n, owners, positions);
            if (out.residuals && !data.edge_ptr) sum_edges(segments, n, 0);
            n = 0;
        };
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = data.offsets[sequences[b]], length = data.offsets[sequences[b] + 1] - first;
            const int32_t* labels = data.labels + first;
            for (int64_t t = 0; t < length; ++t) {
                if (labels[t] >= 0) continue;
                const int64_t begin = t;
                while (t + 1 < length && labels[t + 1] < 0) ++t;
                const double weight = room.run_weights[local[b] + begin];
                if (weight == 0.0) continue;
                Segment s = segment_at(first, local[b], begin, t + 1 - begin, -weight);
                s.left = begin > 0 ? labels[begin - 1] : -1;
                s.right = t + 1 < length ? labels[t + 1] : -1;
                s.c = room.c + local[b] + b + begin;
                s.observed = false;
                int64_t place = n++;  // longest first
                for (; place > 0 && segments[place - 1].length < s.length; --place) {
                    segments[place] = segments[place - 1];
                    owners[place] = owners[place - 1];
                    positions[place] = positions[place - 1];
                }
                segments[place] = s;
                owners[place] = sequences[b];
                positions[place] = begin;
                if (n == chain_batch) flush();
            }
        }
        flush();
    }

    // Tokens t..t + length of a sequence whose first token is `first`, and the local one `local`: a segment without
    // neighbours whose rows follow each other.
    Segment segment_at(int64_t first, int64_t local, int64_t t, int64_t length, double weight) const {
        const int64_t padded = data.padded, at = (local + t) * padded;
        Segment s{};
        s.length = length;
        s.left = s.right = -1;
        s.weight = weight;
        s.scores = room.scores + at;
        s.tangent_scores = room.tangent_scores + at;
        s.psi = room.psi + at;
        s.tops = room.tops + local + t;
        s.labels = data.labels + first + t;
        s.residuals = out.residuals ? out.residuals + (first + t) * padded : nullptr;
        s.stride = padded;
        s.alpha = room.alpha + at;
        s.g = room.g + at;
        s.nodes = room.nodes + at;
        s.alpha_tangent = room.alpha_tangent + at;
        s.g_tangent = room.g_tangent + at;
        s.c_stride = 1;
        s.fresh = false;
        s.observed = observed;
        return s;
    }

    // Up to four segments together; those that fail go to log space.
    void run_batch(Segment* segments, int64_t count, const int64_t* sequences, const int64_t* positions) const {
        if (data.edge_ptr) {
            for (int64_t b = 0; b < count; ++b) {
                segments[b].good = false;
                run_log(segments[b], sequences[b], positions[b]);
            }
            return;
        }
        if (chain.tangent) {
            for (int64_t b = 0; b < count; ++b) tangent_segment(chain, segments[b], room.rows);
        } else {
            forward_batch(chain, segments, count);
            if (segments[0].residuals) backward_batch(chain, segments, count, room.beta);
        }
        for (int64_t b = 0; b < count; ++b) {
            if (segments[b].good) {
                finish_log_z(segments[b]);
                add_value(segments[b], sequences[b], edges_from(positions[b]));
            } else {
                if (segments[b].fresh && segments[b].residuals) clear(segments[b].residuals, segments[b].length);
                run_log(segments[b], sequences[b], positions[b]);
            }
        }
    }

    // Windows of one token: a softmax for each.
    void run_single(const ChainFamily& family, int64_t sequence, int64_t local, double weight) const {
        const int64_t padded = data.padded, first = data.offsets[sequence];
        const int64_t length = data.offsets[sequence + 1] - first;
        const int32_t* labels = data.labels + first;
        const bool listed = family.indptr != nullptr;
        const int64_t begin = listed ? family.indptr[sequence] : 0;
        const int64_t end = listed ? family.indptr[sequence + 1] : length;
        const v4 whole = splat(weight), inverse_weight = splat(1.0 / weight);
        double value = 0.0, product = 1.0;
        for (int64_t q = begin; q < end; ++q) {
            const int64_t t = listed ? family.indices[q] : q;
            if (!counts(labels, length, t, 1)) continue;
            const int32_t left = t > 0 ? labels[t - 1] : -1, right = t + 1 < length ? labels[t + 1] : -1;
            const double* psi = room.psi + (local + t) * padded;
            const double* into = left >= 0 ? chain.forward + left * padded : nullptr;
            const double* from = right >= 0 ? chain.backward + right * padded : nullptr;
            double* p = room.rows;
            v4 total = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) {
                v4 x = load(psi + j);
                if (into) x *= load(into + j);
                if (from) x *= load(from + j);
                store(p + j, x);
                total += x;
            }
            const double c = sum(total);
            Segment s{};
            s.length = 1;
            s.left = left;
            s.right = right;
            s.weight = weight;
            s.scores = room.scores + (local + t) * padded;
            s.labels = labels + t;
            s.residuals = out.residuals ? out.residuals + (first + t) * padded : nullptr;
            s.observed = observed;
            if (!(c > tiny_scale)) {
                run_log(s, sequence, t);
                continue;
            }
            product *= c;
            if (product < 1e-100 || product > 1e100) {
                value -= fast_log(product);
                product = 1.0;
            }
            value -= room.tops[local + t] + chain.top * static_cast<double>((left >= 0) + (right >= 0));
            if (observed) value += path_score(s, s.scores, chain.transitions, 0, padded);
            if (!s.residuals) continue;
            const v4 scale = whole * splat(1.0 / c);
            double* row = left >= 0 ? chain.by_row + left * padded : nullptr;
            double* column = right >= 0 ? chain.by_column + right * padded : nullptr;
            for (int64_t j = 0; j < padded; j += 4) {
                v4 x = load(p + j) * scale;
                if (chain.squares) x *= 1.0 - x * inverse_weight;
                store(s.residuals + j, load(s.residuals + j) - x);
                if (row) store(row + j, load(row + j) - x);
                if (column) store(column + j, load(column + j) - x);
            }
            if (observed && !chain.squares) {
                const int32_t y = labels[t];
                s.residuals[y] += weight;
                if (row) row[y] += weight;
                if (column) column[y] += weight;
            }
        }
        out.values[sequence] += weight * (value - fast_log(product));
    }

    void run_windows(const ChainFamily& family, int64_t sequence, int64_t local, double weight) const {
        const int64_t padded = data.padded, first = data.offsets[sequence], width = family.width;
        const int64_t length = data.offsets[sequence + 1] - first;
        const int32_t* labels = data.labels + first;
        const bool listed = family.indptr != nullptr;
        const int64_t begin = listed ? family.indptr[sequence] : 0;
        const int64_t end = listed ? family.indptr[sequence + 1] : length - width + 1;
        Segment segments[chain_windows];
        int64_t positions[chain_windows], sequences[chain_batch];
        for (int64_t b = 0; b < chain_batch; ++b) sequences[b] = sequence;
        for (int64_t q = begin; q < end;) {
            int64_t count = 0;
            for (; q < end && count < chain_windows; ++q) {
                const int64_t t = listed ? family.indices[q] : q;
                if (!counts(labels, length, t, width)) continue;
                positions[count++] = t;
                if (partial) weigh_runs(labels + t, width, weight, room.run_weights + local + t);
            }
            for (int64_t b = 0; b < count; ++b) {
                const int64_t t = positions[b];
                Segment& s = segments[b];
                s.length = width;
                s.left = t > 0 ? labels[t - 1] : -1;
                s.right = t + width < length ? labels[t + width] : -1;
                s.weight = weight;
                s.scores = room.scores + (local + t) * padded;
                s.tangent_scores = room.tangent_scores + (local + t) * padded;
                s.psi = room.psi + (local + t) * padded;
                s.tops = room.tops + local + t;
                s.labels = labels + t;
                s.residuals = out.residuals ? out.residuals + (first + t) * padded : nullptr;
                s.stride = count * padded;
                s.alpha = room.window_alpha + b * padded;
                s.g = room.window_g + b * padded;
                s.nodes = room.window_nodes + b * padded;
                s.alpha_tangent = room.window_alpha_tangent + b * padded;
                s.g_tangent = room.window_g_tangent + b * padded;
                s.c = room.window_c + b;
                s.c_stride = count;
                s.fresh = false;
                s.observed = observed;
            }
            for (int64_t b = 0; b < count; b += chain_batch)
                run_batch(segments + b, count - b < chain_batch ? count - b : chain_batch, sequences, positions + b);
            if (out.residuals && !data.edge_ptr && count > 0) sum_edges(segments, count, count);
        }
    }

    // Scores of the edges into each token of a sequence that has label-pair features.
    void fill_edges(int64_t sequence, const ChainWeights& from, double* edges) const {
        const int64_t first = data.offsets[sequence], length = data.offsets[sequence + 1] - first;
        const int64_t square = data.padded * data.padded;
        for (int64_t t = 0; t < length; ++t) {
            double* edge = edges + t * square;
            std::memcpy(edge, from.transitions, static_cast<size_t>(square) * sizeof(double));
            for (int64_t q = data.edge_ptr[first + t]; q < data.edge_ptr[first + t + 1]; ++q) {
                const int64_t feature = data.edge_features[q];
                const double value = data.edge_values ? data.edge_values[q] : 1.0;
                for (int64_t k = data.column_ptr[feature]; k < data.column_ptr[feature + 1]; ++k)
                    edge[data.columns[k]] += value * from.columns[k];
            }
        }
    }

    void scatter_edges(int64_t sequence) const {
        const int64_t first = data.offsets[sequence], length = data.offsets[sequence + 1] - first;
        const int64_t square = data.padded * data.padded;
        for (int64_t t = 1; t < length; ++t) {
            const double* edge = room.edge_out + t * square;
            for (int64_t k = 0; k < square; ++k) chain.by_row[k] += edge[k];
            for (int64_t q = data.edge_ptr[first + t]; q < data.edge_ptr[first + t + 1]; ++q) {
                const int64_t feature = data.edge_features[q];
                double value = data.edge_values ? data.edge_values[q] : 1.0;
                if (chain.squares) value *= value;
                for (int64_t k = data.column_ptr[feature]; k < data.column_ptr[feature + 1]; ++k)
                    columns[k] += value * edge[data.columns[k]];
            }
        }
    }

    void run_sequences(const int64_t* sequences, int64_t count, double* hot_gradient, double* start, double* end) {
        const int64_t padded = data.padded;
        // With label-pair features each sequence has its own edges: one at a time.
        if (data.edge_ptr && count > 1) {
            for (int64_t b = 0; b < count; ++b) run_sequences(sequences + b, 1, hot_gradient, start, end);
            return;
        }
        int64_t local[chain_batch];
        double whole[chain_batch];
        int64_t tokens = 0;
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = data.offsets[sequences[b]], last = data.offsets[sequences[b] + 1];
            local[b] = tokens;
            out.values[sequences[b]] = 0.0;
            if (chain.tangent) out.tangents[sequences[b]] = 0.0;
            score_tokens(data, weights, scratch.hot_table, room.last_row, first, last, room.scores + tokens * padded);
            if (direction)
                score_tokens(data, *direction, scratch.hot_tangent, room.last_row + padded, first, last,
                             room.tangent_scores + tokens * padded);
            // The whole sequence goes first and writes its residuals; windows add to them.
            whole[b] = whole_weight(sequences[b], last - first);
            if (partial) {
                double* run_weights = room.run_weights + tokens;
                for (int64_t t = 0; t < last - first; ++t) run_weights[t] = 0.0;
                if (!any_known(data.labels + first, last - first)) whole[b] = 0.0;  // log Z - log Z
                weigh_runs(data.labels + first, last - first, whole[b], run_weights);
            }
            if (out.residuals && (whole[b] == 0.0 || chain.tangent || chain.squares || data.edge_ptr))
                clear(out.residuals + first * padded, last - first);
            tokens += last - first;
        }
        exponentiate(room.scores, room.psi, room.tops, tokens, padded);
        if (data.edge_ptr) {
            fill_edges(sequences[0], weights, room.edge_scores);
            if (direction) fill_edges(sequences[0], *direction, room.edge_tangent);
            std::memset(room.edge_out, 0, static_cast<size_t>((tokens + 1) * padded * padded) * sizeof(double));
        }
        Segment segments[chain_batch];
        int64_t chosen[chain_batch], positions[chain_batch] = {0, 0, 0, 0}, n_chosen = 0;
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = data.offsets[sequences[b]], length = data.offsets[sequences[b] + 1] - first;
            if (whole[b] == 0.0 || length == 0) continue;
            Segment& s = segments[n_chosen];
            s = segment_at(first, local[b], 0, length, whole[b]);
            s.c = room.c + local[b] + b;
            s.fresh = !chain.tangent && !chain.squares && !data.edge_ptr;
            chosen[n_chosen++] = sequences[b];
        }
        if (n_chosen > 0) {
            run_batch(segments, n_chosen, chosen, positions);
            if (out.residuals && !data.edge_ptr) sum_edges(segments, n_chosen, 0);
        }
        for (int64_t f = 0; f < n_families; ++f) {
            const ChainFamily& family = families[f];
            if (family.width == 0) continue;
            for (int64_t b = 0; b < count; ++b) {
                const int64_t length = data.offsets[sequences[b] + 1] - data.offsets[sequences[b]];
                if (length <= family.width) continue;
                if (family.rows && !family.rows[sequences[b]]) continue;
                const double weight = row_weight ? family.beta * row_weight[sequences[b]] : family.beta;
                if (weight == 0.0) continue;
                if (family.width == 1 && !chain.tangent && !data.edge_ptr)
                    run_single(family, sequences[b], local[b], weight);
                else
                    run_windows(family, sequences[b], local[b], weight);
            }
        }
        if (partial && !chain.squares) run_unknown(sequences, count, local);
        if (!out.residuals) return;
        if (data.edge_ptr) scatter_edges(sequences[0]);
        for (int64_t b = 0; b < count; ++b) {
            const int64_t first = data.offsets[sequences[b]], last = data.offsets[sequences[b] + 1];
            if (first == last) continue;
            for (int64_t j = 0; j < padded; ++j) {
                start[j] += out.residuals[first * padded + j];
                end[j] += out.residuals[(last - 1) * padded + j];
            }
            scatter_hot(first, last, hot_gradient);
        }
    }

    template <int C>
    void scatter_block(int64_t first, int64_t last, int64_t column, double* hot_gradient) const {
        const int64_t padded = data.padded;
        for (int64_t token = first; token < last; ++token) {
            const double* residual = out.residuals + token * padded + column;
            v4 row[C];
            for (int c = 0; c < C; ++c) row[c] = load(residual + 4 * c);
            for (int64_t q = data.hot_ptr[token]; q < data.hot_ptr[token + 1]; ++q) {
                double* to = hot_gradient + data.hot_rows[q] * padded + column;
                if (data.hot_values) {
                    const double value = data.hot_values[q];
                    const v4 scale = splat(chain.squares ? value * value : value);
                    for (int c = 0; c < C; ++c) store(to + 4 * c, load(to + 4 * c) + scale * row[c]);
                } else {
                    for (int c = 0; c < C; ++c) store(to + 4 * c, load(to + 4 * c) + row[c]);
                }
            }
        }
    }

    void scatter_hot(int64_t first, int64_t last, double* hot_gradient) const {
        int64_t column = 0;
        for (; column + 32 <= data.padded; column += 32) scatter_block<8>(first, last, column, hot_gradient);
        switch ((data.padded - column) / 4) {
            case 1:
                scatter_block<1>(first, last, column, hot_gradient);
                break;
            case 2:
                scatter_block<2>(first, last, column, hot_gradient);
                break;
            case 3:
                scatter_block<3>(first, last, column, hot_gradient);
                break;
            case 4:
                scatter_block<4>(first, last, column, hot_gradient);
                break;
            case 5:
                scatter_block<5>(first, last, column, hot_gradient);
                break;
            case 6:
                scatter_block<6>(first, last, column, hot_gradient);
                break;
            case 7:
                scatter_block<7>(first, last, column, hot_gradient);
                break;
            default:
                break;
        }
    }
};

// Sums the residuals of a feature's tokens over C vectors of labels, in registers.
template <int C>
FF_INLINE void gather_residuals(const ChainData& data, const double* residuals, bool squares, int64_t begin,
                                int64_t end, double* row) {
    v4 acc[C];
    for (int c = 0; c < C; ++c) acc[c] = splat(0.0);
    for (int64_t q = begin; q < end; ++q) {
        const double* from = residuals + data.feature_tokens[q] * data.padded;
        if (data.feature_values) {
            const double value = data.feature_values[q];
            const v4 scale = splat(squares ? value * value : value);
            for (int c = 0; c < C; ++c) acc[c] += scale * load(from + 4 * c);
        } else {
            for (int c = 0; c < C; ++c) acc[c] += load(from + 4 * c);
        }
    }
    for (int c = 0; c < C; ++c) store(row + 4 * c, acc[c]);
}

// Gradient of one cold feature: the sum of its tokens' residuals.
FF_INLINE void gather_gradient(const ChainData& data, const double* residuals, bool squares, int64_t feature,
                               double* state) {
    const int64_t begin = data.feature_ptr[feature], end = data.feature_ptr[feature + 1], padded = data.padded;
    if (!data.pair_ptr) {
        double* row = state + feature * data.n_labels;
        const int64_t whole = data.n_labels / 4;
        int64_t done = 0;
        for (; done + 8 <= whole; done += 8)
            gather_residuals<8>(data, residuals + 4 * done, squares, begin, end, row + 4 * done);
        residuals += 4 * done;
        row += 4 * done;
        switch (whole - done) {
            case 1:
                gather_residuals<1>(data, residuals, squares, begin, end, row);
                break;
            case 2:
                gather_residuals<2>(data, residuals, squares, begin, end, row);
                break;
            case 3:
                gather_residuals<3>(data, residuals, squares, begin, end, row);
                break;
            case 4:
                gather_residuals<4>(data, residuals, squares, begin, end, row);
                break;
            case 5:
                gather_residuals<5>(data, residuals, squares, begin, end, row);
                break;
            case 6:
                gather_residuals<6>(data, residuals, squares, begin, end, row);
                break;
            case 7:
                gather_residuals<7>(data, residuals, squares, begin, end, row);
                break;
            default:
                break;
        }
        // The last labels do not fill a vector, and the next row of the parameters is not ours to write.
        const int64_t rest = data.n_labels - 4 * whole;
        if (rest == 0) return;
        double last[4];
        gather_residuals<1>(data, residuals + 4 * (whole - done), squares, begin, end, last);
        for (int64_t j = 0; j < rest; ++j) row[4 * (whole - done) + j] = last[j];
        return;
    }
    for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair) {
        const double* from = residuals + data.pair_labels[pair];
        double acc = 0.0;
        if (data.feature_values) {
            for (int64_t q = begin; q < end; ++q) {
                const double value = data.feature_values[q];
                acc += (squares ? value * value : value) * from[data.feature_tokens[q] * padded];
            }
        } else {
            for (int64_t q = begin; q < end; ++q) acc += from[data.feature_tokens[q] * padded];
        }
        state[pair] = acc;
    }
}

void state_gradient(const ChainData& data, const ChainScratch& scratch, const ChainOutput& out, bool squares,
                    int n_threads) {
    constexpr int64_t block = 1024;
    const int64_t blocks = (data.n_features + block - 1) / block;
    const int64_t padded = data.padded;
    (void)n_threads;
#pragma omp parallel num_threads(n_threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t last = (b + 1) * block < data.n_features ? (b + 1) * block : data.n_features;
            int64_t fetched = data.feature_ptr[b * block];
            const int64_t end = data.feature_ptr[data.n_features];
            for (int64_t feature = b * block; feature < last; ++feature) {
                // Rows of the next entries, whichever features they belong to.
                for (; fetched < data.feature_ptr[feature] + 12 && fetched < end; ++fetched) {
                    const double* row = out.residuals + data.feature_tokens[fetched] * padded;
                    for (int64_t j = 0; j < padded && j < 64; j += 8) __builtin_prefetch(row + j);
                }
                gather_gradient(data, out.residuals, squares, feature, out.state);
            }
        }
        // Hot features come after: their cold sums above are empty.
#pragma omp for schedule(static)
        for (int64_t h = 0; h < data.n_hot; ++h) {
            double* total = scratch.hot_gradient + h * padded;
            for (int64_t c = 1; c < data.n_chunks; ++c) {
                const double* row = scratch.hot_gradient + (c * data.n_hot + h) * padded;
                for (int64_t j = 0; j < padded; ++j) total[j] += row[j];
            }
            const int64_t feature = data.hot_features[h];
            if (data.pair_ptr) {
                for (int64_t pair = data.pair_ptr[feature]; pair < data.pair_ptr[feature + 1]; ++pair)
                    out.state[pair] = total[data.pair_labels[pair]];
            } else {
                for (int64_t j = 0; j < data.n_labels; ++j) out.state[feature * data.n_labels + j] = total[j];
            }
        }
    }
}

// Puts the sums over chunks together: edges = by_row + by_columnᵀ - M ∘ outer, or the derivative of that.
void reduce_edges(const ChainData& data, const Chain& chain, const ChainScratch& scratch, const ChainOutput& out) {
    const int64_t padded = data.padded, square = padded * padded, K = data.n_labels;
    double* total = scratch.edges;
    for (int64_t c = 1; c < data.n_chunks; ++c)
        for (int64_t k = 0; k < 4 * square; ++k) total[k] += scratch.edges[c * 4 * square + k];
    const double *outer = total, *outer_tangent = total + square, *by_row = total + 2 * square,
                 *by_column = total + 3 * square;
    for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < K; ++j) {
            const int64_t k = i * padded + j;
            const double m = chain.forward[k];
            double edge = m * outer[k];
            if (chain.tangent) edge = m * outer_tangent[k] + chain.forward_tangent[k] * outer[k];
            if (chain.squares) edge = m * outer[k] - m * m * outer_tangent[k];
            out.transitions[k] = by_row[k] + by_column[j * padded + i] - edge;
        }
    double* start = scratch.ends;
    for (int64_t c = 1; c < data.n_chunks; ++c)
        for (int64_t j = 0; j < 2 * padded; ++j) start[j] += scratch.ends[c * 2 * padded + j];
    for (int64_t j = 0; j < K; ++j) {
        out.start[j] = start[j];
        out.end[j] = start[padded + j];
    }
    for (int64_t k = 0; k < data.n_columns; ++k) {
        double acc = 0.0;
        for (int64_t c = 0; c < data.n_chunks; ++c) acc += scratch.column_gradient[c * data.n_columns + k];
        out.columns[k] = acc;
    }
}

Chain prepare(const ChainData& data, const ChainWeights& weights, const ChainWeights* direction,
              const ChainScratch& scratch) {
    const int64_t padded = data.padded, square = padded * padded, K = data.n_labels;
    Chain chain{};
    double* matrices = scratch.matrices;
    double top = weights.transitions[0];
    for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < K; ++j) {
            const double a = weights.transitions[i * padded + j];
            top = a > top ? a : top;
        }
    for (int64_t k = 0; k < 4 * square; ++k) matrices[k] = 0.0;
    for (int64_t i = 0; i < K; ++i) {
        double* row = matrices + i * padded;
        const double* from = weights.transitions + i * padded;
        for (int64_t j = 0; j < K; ++j) row[j] = fast_exp(from[j] - top);
    }
    for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < K; ++j) {
            const double m = matrices[i * padded + j];
            matrices[square + j * padded + i] = m;
            if (direction) {
                const double d = m * direction->transitions[i * padded + j];
                matrices[2 * square + i * padded + j] = d;
                matrices[3 * square + j * padded + i] = d;
            }
        }
    chain.n_labels = K;
    chain.padded = padded;
    chain.transitions = weights.transitions;
    chain.tangent_transitions = direction ? direction->transitions : nullptr;
    chain.forward = matrices;
    chain.backward = matrices + square;
    chain.forward_tangent = matrices + 2 * square;
    chain.backward_tangent = matrices + 3 * square;
    chain.top = top;
    chain.tangent = direction != nullptr;
    return chain;
}

}  // namespace

int64_t chain_room(const ChainData& data, int64_t max_width, bool tangent) {
    return cut(data, max_width, tangent, nullptr, nullptr);
}

void chain_evaluate(const ChainData& data, const ChainWeights& weights, const ChainWeights* direction,
                    const ChainFamily* families, int64_t n_families, const double* row_weight, bool observed,
                    bool squares, const ChainScratch& scratch, const ChainOutput& out, int n_threads) {
    const int64_t padded = data.padded, square = padded * padded;
    Chain chain = prepare(data, weights, direction, scratch);
    chain.squares = squares;
    fill_hot_table(data, weights, scratch.hot_table);
    if (direction) fill_hot_table(data, *direction, scratch.hot_tangent);
    int64_t width = 1;
    for (int64_t f = 0; f < n_families; ++f) width = families[f].width > width ? families[f].width : width;
    if (width > data.max_tokens) width = data.max_tokens > 0 ? data.max_tokens : 1;
    (void)n_threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
    for (int64_t c = 0; c < data.n_chunks; ++c) {
#ifdef _OPENMP
        const int thread = omp_get_thread_num();
#else
        const int thread = 0;
#endif
        Worker worker{data,
                      weights,
                      direction,
                      families,
                      n_families,
                      row_weight,
                      scratch,
                      out,
                      chain,
                      {},
                      nullptr,
                      observed,
                      observed && data.partial};
        cut(data, width, direction != nullptr, scratch.threads + thread * scratch.thread_size, &worker.room);
        fill_last_row(data, weights, worker.room.last_row);
        if (direction) fill_last_row(data, *direction, worker.room.last_row + padded);
        double* edges = scratch.edges + c * 4 * square;
        double* hot = scratch.hot_gradient + c * data.n_hot * padded;
        double* ends = scratch.ends + c * 2 * padded;
        if (out.residuals) {
            std::memset(edges, 0, static_cast<size_t>(4 * square) * sizeof(double));
            std::memset(hot, 0, static_cast<size_t>(data.n_hot * padded) * sizeof(double));
            std::memset(ends, 0, static_cast<size_t>(2 * padded) * sizeof(double));
        }
        worker.columns = scratch.column_gradient + c * data.n_columns;
        for (int64_t k = 0; k < data.n_columns && out.residuals; ++k) worker.columns[k] = 0.0;
        worker.chain.outer = edges;
        worker.chain.outer_tangent = edges + square;
        worker.chain.by_row = edges + 2 * square;
        worker.chain.by_column = edges + 3 * square;
        const int64_t last = data.chunk_ptr[c + 1];
        for (int64_t q = data.chunk_ptr[c]; q < last; q += chain_batch)
            worker.run_sequences(data.order + q, last - q < chain_batch ? last - q : chain_batch, hot, ends,
                                 ends + padded);
    }
    if (!out.residuals) return;
    reduce_edges(data, chain, scratch, out);
    if (out.state) state_gradient(data, scratch, out, squares, n_threads);
}

void chain_token_scores(const ChainData& data, const ChainWeights& weights, double* hot_table, double* scores,
                        int n_threads) {
    const int64_t padded = data.padded;
    fill_hot_table(data, weights, hot_table);
    double* last_row = hot_table + data.n_hot * padded;
    fill_last_row(data, weights, last_row);
    (void)n_threads;
#pragma omp parallel for schedule(dynamic, 64) num_threads(n_threads)
    for (int64_t i = 0; i < data.n_sequences; ++i)
        score_tokens(data, weights, hot_table, last_row, data.offsets[i], data.offsets[i + 1],
                     scores + data.offsets[i] * padded);
}

}  // namespace ff::FF_ISA

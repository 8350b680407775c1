// Segments of one chunk through the recursions, a few at a time: values, residuals and sums of edges.
#pragma once

#include "chain_log_space.hpp"
#include "chain_tangent.hpp"

namespace ff::FF_ISA {
namespace {

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

// What a thread has at hand while it works on a chunk, and what it does with segments there.
struct Batch {
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
};

}  // namespace
}  // namespace ff::FF_ISA

// The samples and the graph of a Potts field as the bindings hold them, and the couplings of a site as rows.
#pragma once

#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "potts.hpp"

namespace ff {

// Checked once; kernels then use what is here without looking again.
class PottsGraph {
  protected:
    PottsGraph(In2<uint8_t> columns, In2<int32_t> edges, int64_t q)
        : columns_(columns),
          edges_(edges),
          m_(static_cast<int64_t>(columns.shape(0))),
          n_(static_cast<int64_t>(columns.shape(1))),
          n_edges_(static_cast<int64_t>(edges.shape(0))),
          q_(q) {
        need(q >= 2 && q <= 256, "a site must have 2 to 256 states");
        need(m_ >= 1 && n_ >= 1, "there must be at least one site and one sample");
        need(n_edges_ == 0 || edges.shape(1) == 2, "edges must have two columns");
        uint8_t largest = 0;
        for (int64_t i = 0; i < m_ * n_; ++i) largest = std::max(largest, columns.data()[i]);
        need(largest < q, "a sample has a state that does not exist");
        start_.assign(static_cast<size_t>(m_) + 1, 0);
        const int32_t* ends = edges.data();
        for (int64_t e = 0; e < 2 * n_edges_; ++e) {
            need(ends[e] >= 0 && ends[e] < m_, "an edge names a site that does not exist");
            ++start_[static_cast<size_t>(ends[e]) + 1];
        }
        for (int64_t e = 0; e < n_edges_; ++e) need(ends[2 * e] != ends[2 * e + 1], "an edge joins a site to itself");
        for (int64_t j = 0; j < m_; ++j) {
            degree_ = std::max(degree_, start_[static_cast<size_t>(j) + 1]);
            start_[static_cast<size_t>(j) + 1] += start_[static_cast<size_t>(j)];
        }
        half_.resize(static_cast<size_t>(2 * n_edges_));
        std::vector<int64_t> next(start_.begin(), start_.end() - 1);
        for (int64_t e = 0; e < 2 * n_edges_; ++e) half_[static_cast<size_t>(next[static_cast<size_t>(ends[e])]++)] = e;
        complete_ = is_complete();
    }

    static void need(bool condition, const char* message) {
        if (!condition) throw nb::value_error(message);
    }

    int64_t degree_of(int64_t j) const { return start_[static_cast<size_t>(j) + 1] - start_[static_cast<size_t>(j)]; }

    // The neighbour at a place among the edges of all sites.
    int64_t neighbour(int64_t place) const { return edges_.data()[half_[static_cast<size_t>(place)] ^ 1]; }

    // Calls run(place, half) for each edge of a site.
    template <class Do>
    void each_edge(int64_t j, Do&& run) const {
        for (int64_t place = start_[static_cast<size_t>(j)]; place < start_[static_cast<size_t>(j) + 1]; ++place)
            run(place, half_[static_cast<size_t>(place)]);
    }

    // The number of neighbours whose rows a task lists: those of its one target or, if it has several, all sites.
    int64_t neighbours_of(int64_t first, const PottsRow& shape) const {
        return shape.targets > 1 ? m_ : degree_of(first);
    }

    // Where among them the neighbour is that a place among the edges of site j names.
    int64_t listed_at(int64_t j, int64_t place, const PottsRow& shape) const {
        return shape.targets > 1 ? neighbour(place) : place - start_[static_cast<size_t>(j)];
    }

    // The couplings of the targets first, first + 1, ... as rows: of edge (a, b) by the state of b where the target is
    // a, and the other way round.
    template <class Real>
    void lay_out(int64_t first, const PottsRow& shape, const double* couplings, Real* rows) const {
        const int64_t neighbours = neighbours_of(first, shape), q = q_;
        const int64_t listed = shape.targets * shape.states, last = shape.panel(shape.panels - 1);
        const int64_t width = shape.padded - last;
        for (int64_t row = 0; row < neighbours * q; ++row) {
            Real* to = rows + neighbours * q * last + row * width - last;
            std::fill(to + listed, to + shape.padded, Real{0});
        }
        for (int64_t t = 0; t < shape.targets; ++t) {
            const int64_t j = first + t;
            if (shape.targets > 1)
                each_piece(shape, t, neighbours, j, [&](const Piece& piece) {
                    for (int64_t s = 0; s < q; ++s) {
                        Real* to = rows + piece.offset + s * piece.stride;
                        std::fill(to, to + piece.end - piece.begin, Real{0});
                    }
                });
            each_edge(j, [&](int64_t place, int64_t half) {
                const double* table = couplings + half / 2 * q * q;
                each_piece(shape, t, neighbours, listed_at(j, place, shape),
                           [&](const Piece& piece) { lay_out_piece(half, shape, piece, table, rows + piece.offset); });
            });
        }
    }

    // Of the rows of target t, those of one neighbour become the table of an edge, or are added to it. A state that the
    // rows leave out has what makes the sum over states 0.
    void take_block(int64_t half, const PottsRow& shape, int64_t t, int64_t neighbours, int64_t k, const double* rows,
                    double* by_edge, bool add) const {
        const int64_t q = q_;
        double* table = by_edge + half / 2 * q * q;
        double last[256];
        if (!add) std::fill(table, table + q * q, 0.0);
        std::fill(last, last + q, 0.0);
        each_piece(shape, t, neighbours, k, [&](const Piece& piece) {
            const double* from = rows + piece.offset;
            if (half % 2)
                for (int64_t s = 0; s < q; ++s, from += piece.stride) {
                    const int64_t states = piece.end - piece.begin;
                    double *to = table + s * q + piece.begin, sums[4] = {0.0, 0.0, 0.0, 0.0};
                    int64_t a = 0;
                    for (; a + 4 <= states; a += 4)
                        for (int64_t l = 0; l < 4; ++l) {
                            to[a + l] += from[a + l];
                            sums[l] += from[a + l];
                        }
                    for (; a < states; ++a) {
                        to[a] += from[a];
                        sums[0] += from[a];
                    }
                    last[s] -= (sums[0] + sums[1]) + (sums[2] + sums[3]);
                }
            else
                for (int64_t a = piece.begin; a < piece.end; ++a, ++from)
                    for (int64_t s = 0; s < q; ++s) {
                        table[a * q + s] += from[s * piece.stride];
                        last[s] -= from[s * piece.stride];
                    }
        });
        if (!shape.reduced()) return;
        const int64_t by_other = half % 2 ? q : 1, by_own = half % 2 ? 1 : q;
        for (int64_t s = 0; s < q; ++s) table[s * by_other + shape.states * by_own] += last[s];
    }

    // The numbers of one target in a row, for all states.
    void take_row(const PottsRow& shape, int64_t t, const double* row, double* to) const {
        const double* from = row + t * shape.states;
        std::copy(from, from + shape.states, to);
        if (shape.reduced()) {
            double sum = 0.0;
            for (int64_t a = 0; a < shape.states; ++a) sum += from[a];
            to[shape.states] = -sum;
        }
    }

    // The fields of the targets, padded with what adds nothing: -inf to a field, 0 to a direction.
    template <class Real>
    void lay_out_field(int64_t first, const PottsRow& shape, const double* fields, Real* to, Real padding) const {
        for (int64_t t = 0; t < shape.targets; ++t) {
            const double* from = fields + (first + t) * q_;
            const double base = shape.reduced() ? from[shape.states] : 0.0;
            for (int64_t a = 0; a < shape.states; ++a) to[t * shape.states + a] = static_cast<Real>(from[a] - base);
        }
        std::fill(to + shape.targets * shape.states, to + shape.padded, padding);
    }

    // The states begin..end - 1 of a target in the rows of one neighbour: those of the neighbour's state s begin at
    // offset + s * stride.
    struct Piece {
        int64_t begin, end, offset, stride;
    };

    template <class Real>
    static void lay_out_piece(int64_t half, const PottsRow& shape, const Piece& piece, const double* table, Real* to) {
        const int64_t q = shape.q;
        if (half % 2) {
            for (int64_t s = 0; s < q; ++s, to += piece.stride, table += q) {
                const double base = shape.reduced() ? table[shape.states] : 0.0;
                for (int64_t a = piece.begin; a < piece.end; ++a)
                    to[a - piece.begin] = static_cast<Real>(table[a] - base);
            }
            return;
        }
        const double* base = shape.reduced() ? table + shape.states * q : nullptr;
        for (int64_t a = piece.begin; a < piece.end; ++a, ++to)
            for (int64_t s = 0; s < q; ++s)
                to[s * piece.stride] = static_cast<Real>(base ? table[a * q + s] - base[s] : table[a * q + s]);
    }

    // The pieces of target t in the rows of neighbour k: one for each panel that has some of its states.
    template <class Do>
    static void each_piece(const PottsRow& shape, int64_t t, int64_t neighbours, int64_t k, Do&& run) {
        const int64_t from = t * shape.states, to = from + shape.states;
        for (int64_t p = 0; p < shape.panels; ++p) {
            const int64_t panel = shape.panel(p), next = shape.panel(p + 1), width = next - panel;
            const int64_t begin = std::max(from, panel), end = std::min(to, next);
            if (begin < end)
                run(Piece{begin - from, end - from, neighbours * shape.q * panel + k * shape.q * width + begin - panel,
                          width});
        }
    }

    // Whether each site has each other site as a neighbour once.
    bool is_complete() const {
        if (n_edges_ != m_ * (m_ - 1) / 2) return false;
        std::vector<int64_t> seen(static_cast<size_t>(m_), -1);
        for (int64_t j = 0; j < m_; ++j)
            for (int64_t place = start_[static_cast<size_t>(j)]; place < start_[static_cast<size_t>(j) + 1]; ++place) {
                int64_t& last = seen[static_cast<size_t>(neighbour(place))];
                if (last == j) return false;
                last = j;
            }
        return true;
    }

    In2<uint8_t> columns_;
    In2<int32_t> edges_;
    int64_t m_, n_, n_edges_, q_, degree_ = 0;
    std::vector<int64_t> start_,
        half_;  // the edges of each site: half 2 e is the first end of edge e, 2 e + 1 the second
    bool complete_ = false;
};

}  // namespace ff

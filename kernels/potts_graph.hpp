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
    }

    static void need(bool condition, const char* message) {
        if (!condition) throw nb::value_error(message);
    }

    int64_t degree_of(int64_t j) const { return start_[static_cast<size_t>(j) + 1] - start_[static_cast<size_t>(j)]; }

    // The neighbour at a place among the edges of all sites.
    int64_t neighbour(int64_t place) const { return edges_.data()[half_[static_cast<size_t>(place)] ^ 1]; }

    // The rows of a site's couplings: of edge (a, b) by the state of b where the site is a, and the other way round.
    template <class Real>
    void lay_out(int64_t j, const PottsRow& shape, const double* couplings, Real* rows) const {
        const int64_t begin = start_[static_cast<size_t>(j)], end = start_[static_cast<size_t>(j) + 1];
        for (int64_t place = begin; place < end; ++place, rows += q_ * shape.padded) {
            const int64_t half = half_[static_cast<size_t>(place)];
            const double* table = couplings + half / 2 * q_ * q_;
            const int64_t by_other = half % 2 ? q_ : 1, by_own = half % 2 ? 1 : q_;
            for (int64_t s = 0; s < q_; ++s) {
                Real* row = rows + s * shape.padded;
                const double* from = table + s * by_other;
                const double base = shape.reduced() ? from[shape.states * by_own] : 0.0;
                for (int64_t a = 0; a < shape.states; ++a) row[a] = static_cast<Real>(from[a * by_own] - base);
                std::fill(row + shape.states, row + shape.padded, Real{0});
            }
        }
    }

    // The rows of one end of an edge become its table, or are added to it. A state that the rows leave out has what
    // makes the sum over states 0.
    void take_block(int64_t half, const PottsRow& shape, const double* rows, double* by_edge, bool add) const {
        double* table = by_edge + half / 2 * q_ * q_;
        const int64_t by_other = half % 2 ? q_ : 1, by_own = half % 2 ? 1 : q_;
        for (int64_t s = 0; s < q_; ++s, rows += shape.padded) {
            double* to = table + s * by_other;
            if (!add)
                for (int64_t a = 0; a < q_; ++a) to[a * by_own] = 0.0;
            for (int64_t a = 0; a < shape.states; ++a) to[a * by_own] += rows[a];
            if (shape.reduced()) to[shape.states * by_own] += last_of(shape, rows);
        }
    }

    // The numbers of one row, for all states.
    void take_row(const PottsRow& shape, const double* row, double* to) const {
        std::copy(row, row + shape.states, to);
        if (shape.reduced()) to[shape.states] = last_of(shape, row);
    }

    // The field of a site, padded with what adds nothing: -inf to a field, 0 to a direction.
    template <class Real>
    void lay_out_field(int64_t j, const PottsRow& shape, const double* fields, Real* to, Real padding) const {
        const double* from = fields + j * q_;
        const double base = shape.reduced() ? from[shape.states] : 0.0;
        for (int64_t a = 0; a < shape.states; ++a) to[a] = static_cast<Real>(from[a] - base);
        std::fill(to + shape.states, to + shape.padded, padding);
    }

    // What the left-out state of a row has.
    static double last_of(const PottsRow& shape, const double* row) {
        double sum = 0.0;
        for (int64_t a = 0; a < shape.states; ++a) sum += row[a];
        return -sum;
    }

    In2<uint8_t> columns_;
    In2<int32_t> edges_;
    int64_t m_, n_, n_edges_, q_, degree_ = 0;
    std::vector<int64_t> start_,
        half_;  // the edges of each site: half 2 e is the first end of edge e, 2 e + 1 the second
};

}  // namespace ff

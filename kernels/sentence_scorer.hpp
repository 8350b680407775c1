// The best labels of one sentence whose features are known.
#pragma once

#include <nanobind/stl/optional.h>

#include <vector>

#include "chain.hpp"
#include "chain_arrays.hpp"
#include "chain_decode.hpp"

namespace ff {

// Matrices of label pairs of a sentence may have this many entries; longer sentences take the general way.
constexpr int64_t most_edge_scores = int64_t{1} << 22;

class SentenceScorer {
  public:
    SentenceScorer(int64_t n_features, nb::object names, In<double> state, In2<double> transitions, In<double> base,
                   In<double> start, In<double> end, Maybe<int64_t> pair_ptr, Maybe<int32_t> pair_labels,
                   Maybe<double> columns, Maybe<int64_t> column_ptr, Maybe<int32_t> column_places)
        : names_(nb::cast<nb::list>(names)),
          state_(state),
          transitions_(transitions),
          base_(base),
          start_(start),
          end_(end),
          pair_ptr_(pair_ptr),
          pair_labels_(pair_labels),
          columns_(columns),
          column_ptr_(column_ptr),
          column_places_(column_places),
          n_labels_(static_cast<int64_t>(nb::len(names_))),
          padded_(static_cast<int64_t>(transitions.shape(0))) {
        const size_t padded = static_cast<size_t>(padded_);
        need(n_labels_ >= 1 && n_labels_ <= padded_ && padded_ % chain_lane == 0 && transitions.shape(1) == padded &&
                 base.shape(0) == padded && start.shape(0) == padded && end.shape(0) == padded,
             "SentenceScorer: transitions, base, start and end must have padded rows");
        need(pair_ptr.has_value() == pair_labels.has_value(), "SentenceScorer: pair_ptr and pair_labels go together");
        const int64_t weights = static_cast<int64_t>(state.shape(0));
        if (pair_ptr) {
            check_pointers(*pair_ptr, n_features, weights, "SentenceScorer: pair_ptr must rise to the weights");
            check_range(*pair_labels, 0, n_labels_, "SentenceScorer: a pair's label is outside 0..n_labels-1");
            need(static_cast<int64_t>(pair_labels->shape(0)) == weights, "SentenceScorer: a weight for each pair");
        } else {
            need(weights == n_features * n_labels_, "SentenceScorer: a weight for each feature and label");
        }
        need(columns.has_value() == column_ptr.has_value() && columns.has_value() == column_places.has_value(),
             "SentenceScorer: columns, column_ptr and column_places go together");
        if (columns) {
            const int64_t count = static_cast<int64_t>(columns->shape(0));
            check_pointers(*column_ptr, n_features, count, "SentenceScorer: column_ptr must rise to the columns");
            check_range(*column_places, 0, padded_ * padded_, "SentenceScorer: a column's place is outside the matrix");
            need(static_cast<int64_t>(column_places->shape(0)) == count, "SentenceScorer: a place for each column");
        }
    }

    // The labels of a sentence, or None where it is too long. The features of token t end at ends[t]; codes below 0 are
    // unknown features; `values` null: all are 1.
    nb::object best(const std::vector<int32_t>& codes, const double* values, const std::vector<size_t>& ends) const {
        const int64_t n = static_cast<int64_t>(ends.size()), square = padded_ * padded_;
        if (columns_ && n > most_edge_scores / square) return nb::none();
        std::vector<double> scores(static_cast<size_t>(n * padded_)), work(scores.size());
        std::vector<int32_t> labels(ends.size());
        size_t q = 0;
        for (int64_t t = 0; t < n; ++t) {
            double* row = scores.data() + t * padded_;
            for (int64_t j = 0; j < padded_; ++j) row[j] = base_.data()[j];
            for (; q < ends[static_cast<size_t>(t)]; ++q)
                if (codes[q] >= 0) add_state(codes[q], values ? values[q] : 1.0, row);
            if (t == 0)
                for (int64_t j = 0; j < padded_; ++j) row[j] += start_.data()[j];
            if (t == n - 1)
                for (int64_t j = 0; j < padded_; ++j) row[j] += end_.data()[j];
        }
        std::vector<double> edges;
        if (columns_) edges = own_edges(codes, values, ends);
        const int64_t offsets[2] = {0, n};
        double best = 0.0;
        const ChainScores chain{1,
                                n_labels_,
                                padded_,
                                offsets,
                                scores.data(),
                                columns_ ? edges.data() : transitions_.data(),
                                columns_ ? square : 0};
        FF_CALL(chain_viterbi)(chain, n, work.data(), labels.data(), &best, 1);
        nb::list result;
        for (const int32_t label : labels) result.append(names_[static_cast<size_t>(label)]);
        return result;
    }

  private:
    void add_state(int64_t code, double value, double* row) const {
        if (pair_ptr_) {
            for (int64_t k = pair_ptr_->data()[code]; k < pair_ptr_->data()[code + 1]; ++k)
                row[pair_labels_->data()[k]] += value * state_.data()[k];
        } else {
            const double* weights = state_.data() + code * n_labels_;
            for (int64_t j = 0; j < n_labels_; ++j) row[j] += value * weights[j];
        }
    }

    // The scores of label pairs, a matrix for the edge into each token.
    std::vector<double> own_edges(const std::vector<int32_t>& codes, const double* values,
                                  const std::vector<size_t>& ends) const {
        const int64_t square = padded_ * padded_;
        std::vector<double> edges;
        edges.reserve(ends.size() * static_cast<size_t>(square));
        size_t q = 0;
        for (const size_t end : ends) {
            edges.insert(edges.end(), transitions_.data(), transitions_.data() + square);
            double* matrix = edges.data() + edges.size() - square;
            for (; q < end; ++q) {
                if (codes[q] < 0) continue;
                for (int64_t k = column_ptr_->data()[codes[q]]; k < column_ptr_->data()[codes[q] + 1]; ++k)
                    matrix[column_places_->data()[k]] += (values ? values[q] : 1.0) * columns_->data()[k];
            }
        }
        return edges;
    }

    nb::list names_;
    In<double> state_;
    In2<double> transitions_;
    In<double> base_, start_, end_;
    Maybe<int64_t> pair_ptr_;
    Maybe<int32_t> pair_labels_;
    Maybe<double> columns_;
    Maybe<int64_t> column_ptr_;
    Maybe<int32_t> column_places_;
    int64_t n_labels_, padded_;
};

}  // namespace ff

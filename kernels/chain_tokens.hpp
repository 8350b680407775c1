// The tokens of a chain model: read-only, checked once, their frequent features apart from the others.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "chain.hpp"
#include "chain_arrays.hpp"
#include "chain_lists.hpp"
#include "scratch_pool.hpp"

namespace ff {

// Owns the arrays that it was given, and the features of each token by frequency; `compact`, or with many labels, the
// rows of frequent features only.
class ChainTokens {
  public:
    ChainTokens(In<int64_t> offsets, In<int64_t> indptr, In<int32_t> indices, Maybe<double> values, In<int32_t> labels,
                int64_t n_labels, int64_t n_features, Maybe<uint8_t> active, Maybe<int64_t> pair_ptr,
                Maybe<int32_t> pair_labels, Maybe<int64_t> edge_ptr, Maybe<int32_t> edge_features,
                Maybe<double> edge_values, Maybe<int64_t> column_ptr, Maybe<int32_t> columns, int64_t block_tokens,
                bool compact)
        : offsets_(offsets),
          feature_ptr_(indptr),
          features_(indices),
          feature_values_(values),
          labels_(labels),
          active_(active),
          pair_ptr_(pair_ptr),
          pair_labels_(pair_labels),
          edge_ptr_(edge_ptr),
          edge_features_(edge_features),
          edge_values_(edge_values),
          column_ptr_(column_ptr),
          columns_(columns) {
        ChainData& d = data_;
        need(offsets.shape(0) >= 1, "ChainTokens: offsets needs n_sequences + 1 entries");
        need(n_labels >= 1 && n_labels < (int64_t(1) << 16), "ChainTokens: n_labels must be 1 to 65535");
        need(n_features >= 0 && n_features < (int64_t(1) << 31), "ChainTokens: n_features does not fit");
        d.n_sequences = static_cast<int64_t>(offsets.shape(0)) - 1;
        d.n_tokens = static_cast<int64_t>(labels.shape(0));
        need(d.n_tokens < (int64_t(1) << 31), "ChainTokens: more than 2^31 tokens; split the sequences into shards");
        d.n_labels = n_labels;
        d.n_features = n_features;
        d.padded = (n_labels + chain_lane - 1) / chain_lane * chain_lane;
        check_pointers(offsets, d.n_sequences, d.n_tokens, "ChainTokens: offsets must rise from 0 to n_tokens");
        check_pointers(indptr, d.n_tokens, static_cast<int64_t>(indices.shape(0)),
                       "ChainTokens: indptr must rise from 0 to the number of indices");
        check_range(indices, 0, n_features, "ChainTokens: a feature index is outside 0..n_features-1");
        check_range(labels, -1, n_labels, "ChainTokens: a label is outside -1..n_labels-1");
        d.partial = std::any_of(labels.data(), labels.data() + d.n_tokens, [](int32_t y) { return y < 0; });
        need(!values || values->shape(0) == indices.shape(0), "ChainTokens: values and indices differ in length");
        need(!active || static_cast<int64_t>(active->shape(0)) == d.n_tokens, "ChainTokens: active needs n_tokens");
        need(pair_ptr.has_value() == pair_labels.has_value(), "ChainTokens: pair_ptr and pair_labels go together");
        if (pair_ptr) {
            n_state_ = static_cast<int64_t>(pair_labels->shape(0));
            need(n_state_ < (int64_t(1) << 31), "ChainTokens: more than 2^31 pairs");
            check_pointers(*pair_ptr, n_features, n_state_, "ChainTokens: pair_ptr must rise from 0 to the pairs");
            check_range(*pair_labels, 0, n_labels, "ChainTokens: a pair's label is outside 0..n_labels-1");
        } else {
            need(n_labels > 1, "ChainTokens: with one label, list the pairs: a row would be shorter than its padding");
            n_state_ = n_features * n_labels;
        }
        d.n_columns = 0;
        if (edge_ptr) {
            need(edge_features && column_ptr && columns && column_ptr->shape(0) >= 1,
                 "ChainTokens: label-pair features need edge_ptr, edge_features, column_ptr and columns");
            const int64_t n_edge_features = static_cast<int64_t>(column_ptr->shape(0)) - 1;
            check_pointers(*edge_ptr, d.n_tokens, static_cast<int64_t>(edge_features->shape(0)),
                           "ChainTokens: edge_ptr must rise from 0 to the number of edge_features");
            check_range(*edge_features, 0, n_edge_features, "ChainTokens: an edge feature is out of range");
            need(!edge_values || edge_values->shape(0) == edge_features->shape(0),
                 "ChainTokens: edge_values and edge_features differ in length");
            d.n_columns = static_cast<int64_t>(columns->shape(0));
            check_pointers(*column_ptr, n_edge_features, d.n_columns, "ChainTokens: column_ptr must rise to columns");
            check_range(*columns, 0, d.padded * d.padded, "ChainTokens: a column is outside the label pairs");
        }
        d.offsets = offsets_.data();
        d.labels = labels_.data();
        d.active = pointer(active_);
        d.pair_ptr = pointer(pair_ptr_);
        d.pair_labels = pointer(pair_labels_);
        d.edge_ptr = pointer(edge_ptr_);
        d.edge_features = pointer(edge_features_);
        d.edge_values = pointer(edge_values_);
        d.column_ptr = pointer(column_ptr_);
        d.columns = pointer(columns_);
        nb::gil_scoped_release release;
        need(block_tokens >= 0, "ChainTokens: block_tokens must not be negative");
        make_chunks(block_tokens, static_cast<int64_t>(indices.shape(0)) * (values ? 12 : 4) + d.n_tokens * 12,
                    compact ? 6 : 16);
        split_features(compact || !few_labels());
    }

    // The same tokens where only the state weights `keep` of `whole` are not 0; these are numbered anew, in order.
    // Their labels are `pair_labels`, by feature at `pair_ptr`. No cold entry is left of features without any. Likewise
    // `columns` are the label pairs whose weights are not 0, by feature at `column_ptr`; without them no label pair has
    // a feature. What is the same is not copied: `whole` has to stay.
    ChainTokens(const ChainTokens& whole, In<uint8_t> keep, In<int64_t> pair_ptr, In<int32_t> pair_labels,
                Maybe<int64_t> column_ptr, Maybe<int32_t> columns)
        : offsets_(whole.offsets_),
          feature_ptr_(whole.feature_ptr_),
          features_(whole.features_),
          feature_values_(whole.feature_values_),
          labels_(whole.labels_),
          active_(whole.active_),
          pair_ptr_(pair_ptr),
          pair_labels_(pair_labels),
          edge_ptr_(whole.edge_ptr_),
          edge_features_(whole.edge_features_),
          edge_values_(whole.edge_values_),
          column_ptr_(column_ptr),
          columns_(columns),
          scratch_(whole.scratch_),
          data_(whole.data_),
          n_state_(static_cast<int64_t>(pair_labels.shape(0))) {
        ChainData& d = data_;
        need(static_cast<int64_t>(keep.shape(0)) == whole.n_state_, "ChainTokens: keep needs one entry a state weight");
        check_pointers(pair_ptr, d.n_features, n_state_, "ChainTokens: pair_ptr must rise from 0 to the pairs");
        d.pair_ptr = pair_ptr.data();
        d.pair_labels = pair_labels.data();
        check_kept(whole.data_, keep.data());
        check_kept_columns(whole);
        nb::gil_scoped_release release;
        select_edges(whole.data_);
        std::vector<double> memory(static_cast<size_t>(list_room(whole.data_)));
        select_hot(whole.data_, memory.data());
        select_cold(whole.data_, keep.data(), memory.data());
        d.feature_ptr = nullptr;
    }

    const ChainData& data() const { return data_; }
    int64_t n_state() const { return n_state_; }
    ScratchPool& scratch() const { return *scratch_; }

  private:
    // Sequences that are sorted by length, so that those which go together are about equally long.
    static constexpr int64_t sorted_together = 16 * chain_batch;
    static constexpr int64_t most_entries = int64_t(1) << 32;
    static constexpr const char* too_many =
        "ChainTokens: more than 2^32 entries of features; split the sequences into shards";
    static constexpr int64_t chunk_tokens = 128;  // of a block, so that several sequences go together

    void check_kept_columns(const ChainTokens& whole) const {
        need(column_ptr_.has_value() == columns_.has_value(), "ChainTokens: column_ptr and columns go together");
        if (!columns_) return;
        need(whole.column_ptr_ && column_ptr_->shape(0) == whole.column_ptr_->shape(0),
             "ChainTokens: column_ptr needs one entry more than there are features of label pairs");
        const int64_t n_columns = static_cast<int64_t>(columns_->shape(0));
        check_pointers(*column_ptr_, static_cast<int64_t>(column_ptr_->shape(0)) - 1, n_columns,
                       "ChainTokens: column_ptr must rise to columns");
        check_range(*columns_, 0, data_.padded * data_.padded, "ChainTokens: a column is outside the label pairs");
    }

    // The features of label pairs that have a column left.
    void select_edges(const ChainData& whole) {
        ChainData& d = data_;
        d.n_columns = columns_ ? static_cast<int64_t>(columns_->shape(0)) : 0;
        d.column_ptr = pointer(column_ptr_);
        d.columns = pointer(columns_);
        if (!columns_) {
            d.edge_ptr = nullptr;
            return;
        }
        kept_edge_ptr_.assign(1, 0);
        for (int64_t t = 0; t < d.n_tokens; ++t) {
            for (int64_t q = whole.edge_ptr[t]; q < whole.edge_ptr[t + 1]; ++q) {
                const int32_t f = whole.edge_features[q];
                if (d.column_ptr[f] == d.column_ptr[f + 1]) continue;
                kept_edge_features_.push_back(f);
                if (whole.edge_values) kept_edge_values_.push_back(whole.edge_values[q]);
            }
            kept_edge_ptr_.push_back(static_cast<int64_t>(kept_edge_features_.size()));
        }
        d.edge_ptr = kept_edge_ptr_.data();
        d.edge_features = kept_edge_features_.data();
        if (whole.edge_values) d.edge_values = kept_edge_values_.data();
    }

    // Blocks and chunks of about equal numbers of tokens, whatever the threads. The sums of all chunks take memory in
    // proportion to the data, within limits; the residuals of a block (`block_tokens`, if that is given; several
    // threads hold two) fit the second-level cache, unless a chunk would then have too few sequences.
    void make_chunks(int64_t block_tokens, int64_t data_bytes, int64_t most) {
        ChainData& d = data_;
        const int64_t bytes = 2 * d.padded * d.padded * 8 + d.n_columns * 8 + hot_bytes();
        d.n_chunks = std::clamp<int64_t>(data_bytes / (2 * bytes), 2, most);
        d.n_chunks = std::clamp<int64_t>(d.n_tokens / 256, 1, d.n_chunks);
        if (!block_tokens)
            block_tokens = std::max<int64_t>((int64_t(few_labels() ? 1024 : 256) << 10) / (d.padded * 8),
                                             chunk_tokens * d.n_chunks);
        d.n_blocks = std::max<int64_t>(1, (d.n_tokens + block_tokens - 1) / std::max<int64_t>(1, block_tokens));
        const int64_t chunks = d.n_blocks * d.n_chunks;
        chunk_ptr_.assign(static_cast<size_t>(chunks) + 1, 0);
        order_.resize(static_cast<size_t>(d.n_sequences));
        for (int64_t i = 0; i < d.n_sequences; ++i) order_[static_cast<size_t>(i)] = i;
        int64_t sequence = 0;
        for (int64_t c = 0; c < chunks; ++c) {
            const double share = static_cast<double>(c + 1) / static_cast<double>(chunks);
            const int64_t until = static_cast<int64_t>(share * static_cast<double>(d.n_tokens));
            while (sequence < d.n_sequences && d.offsets[sequence] < until) ++sequence;
            chunk_ptr_[static_cast<size_t>(c) + 1] = c + 1 == chunks ? d.n_sequences : sequence;
        }
        d.max_block_tokens = 0;
        block_offset_.clear();
        for (int64_t b = 0; b <= d.n_blocks; ++b)
            block_offset_.push_back(d.offsets[chunk_ptr_[static_cast<size_t>(b * d.n_chunks)]]);
        for (size_t b = 0; b + 1 < block_offset_.size(); ++b)
            d.max_block_tokens = std::max(d.max_block_tokens, block_offset_[b + 1] - block_offset_[b]);
        d.block_offset = block_offset_.data();
        auto length = [&](int64_t i) { return d.offsets[i + 1] - d.offsets[i]; };
        d.max_tokens = d.max_batch_tokens = 0;
        for (int64_t i = 0; i < d.n_sequences; ++i) d.max_tokens = std::max(d.max_tokens, length(i));
        d.batch_tokens = std::max(batch_bytes() / (d.padded * 8), d.max_tokens);
        d.chunk_ptr = chunk_ptr_.data();
        d.order = order_.data();
        for (int64_t c = 0; c < chunks; ++c) {
            const int64_t begin = chunk_ptr_[static_cast<size_t>(c)], end = chunk_ptr_[static_cast<size_t>(c) + 1];
            // By length among neighbours only: sequences that are close in the data share features in the cache.
            for (int64_t q = begin; q < end; q += sorted_together)
                std::stable_sort(order_.begin() + q, order_.begin() + std::min(q + sorted_together, end),
                                 [&](int64_t a, int64_t b) { return length(a) > length(b); });
            for (int64_t q = begin; q < end;) {
                int64_t tokens = 0;
                for (const int64_t stop = batch_end(d, q, end); q < stop; ++q)
                    tokens += length(order_[static_cast<size_t>(q)]);
                d.max_batch_tokens = std::max(d.max_batch_tokens, tokens);
            }
        }
    }

    bool few_labels() const { return data_.padded <= 64; }

    // With few labels, the pairs of each token's cold features are listed one by one: sums over features would take a
    // noticeable part of an evaluation. With many labels the recursions take nearly all of it.
    bool lists_pairs() const { return data_.pair_ptr && few_labels(); }

    int64_t cold_entries(int64_t feature) const {
        return lists_pairs() ? data_.pair_ptr[feature + 1] - data_.pair_ptr[feature] : 1;
    }

    // Frequent features have a table of this size; with many labels the recursions need the cache.
    int64_t hot_bytes() const { return int64_t(few_labels() ? 384 : 64) << 10; }

    // For the scores of sequences that go together; each thread has five times as much.
    int64_t batch_bytes() const { return int64_t(few_labels() ? 96 : 56) << 10; }

    // The most frequent features get rows of a table that fits the second-level cache. Tokens that are not active lose
    // their features.
    void split_features(bool compact) {
        ChainData& d = data_;
        const int64_t* indptr = feature_ptr_.data();
        const int32_t* indices = features_.data();
        const size_t n_features = static_cast<size_t>(d.n_features);
        std::vector<int64_t> count(n_features + 1, 0);
        for (int64_t t = 0; t < d.n_tokens; ++t)
            if (!d.active || d.active[t])
                for (int64_t q = indptr[t]; q < indptr[t + 1]; ++q) ++count[static_cast<size_t>(indices[q])];
        const int64_t limit = std::max<int64_t>(1, hot_bytes() / (d.padded * 8));
        std::vector<int32_t> frequent;
        for (int64_t f = 0; f < d.n_features; ++f)
            if (count[static_cast<size_t>(f)] >= 2 * d.n_chunks) frequent.push_back(static_cast<int32_t>(f));
        std::stable_sort(frequent.begin(), frequent.end(), [&](int32_t a, int32_t b) {
            return count[static_cast<size_t>(a)] > count[static_cast<size_t>(b)];
        });
        if (static_cast<int64_t>(frequent.size()) > limit) frequent.resize(static_cast<size_t>(limit));
        hot_features_ = frequent;
        d.n_hot = static_cast<int64_t>(hot_features_.size());
        std::vector<int32_t> hot_of(n_features, cold_row);
        for (size_t h = 0; h < hot_features_.size(); ++h)
            hot_of[static_cast<size_t>(hot_features_[h])] = static_cast<int32_t>(h);
        d.max_entries = 0;
        for (int64_t i = 0; i < d.n_sequences; ++i)
            d.max_entries = std::max(d.max_entries, indptr[d.offsets[i + 1]] - indptr[d.offsets[i]]);
        need(d.max_entries < most_entries, "ChainTokens: a sequence has more than 2^32 entries of features");
        if (!compact) list_features(hot_of);
        slice_features(count, hot_of);
        point_at_hot();
        if (!compact) return point_at_cold();
        row_of_ = std::move(hot_of);
        d.row_of = row_of_.data();
        d.feature_ptr = indptr;
        d.features = indices;
        d.feature_values = pointer(feature_values_);
    }

    // The features of each token by frequency; `hot_of` has the rows of frequent ones.
    void list_features(const std::vector<int32_t>& hot_of) {
        const ChainData& d = data_;
        const size_t n_tokens = static_cast<size_t>(d.n_tokens);
        const int64_t* indptr = feature_ptr_.data();
        const int32_t* indices = features_.data();
        const double* values = pointer(feature_values_);
        int64_t all_hot = 0, all_cold = 0;
        hot_ptr_.assign(n_tokens + 1, 0);
        cold_ptr_.assign(n_tokens + 1, 0);
        for (int64_t t = 0; t < d.n_tokens; ++t) {
            int64_t hot = 0, cold = 0;
            if (!d.active || d.active[t])
                for (int64_t q = indptr[t]; q < indptr[t + 1]; ++q) {
                    if (hot_of[static_cast<size_t>(indices[q])] >= 0)
                        ++hot;
                    else
                        cold += cold_entries(indices[q]);
                }
            all_hot += hot;
            all_cold += cold;
            need(all_hot < most_entries && all_cold < most_entries, too_many);
            hot_ptr_[static_cast<size_t>(t) + 1] = static_cast<uint32_t>(all_hot);
            cold_ptr_[static_cast<size_t>(t) + 1] = static_cast<uint32_t>(all_cold);
        }
        hot_rows_.resize(static_cast<size_t>(hot_ptr_[n_tokens]));
        cold_places_.resize(static_cast<size_t>(cold_ptr_[n_tokens]));
        if (lists_pairs()) cold_labels_.resize(cold_places_.size());
        if (values) {
            hot_values_.resize(hot_rows_.size());
            cold_values_.resize(cold_places_.size());
        }
        size_t hot = 0, cold = 0;
        for (int64_t t = 0; t < d.n_tokens; ++t) {
            if (d.active && !d.active[t]) continue;
            for (int64_t q = indptr[t]; q < indptr[t + 1]; ++q) {
                const int32_t row = hot_of[static_cast<size_t>(indices[q])];
                if (row >= 0) {
                    if (values) hot_values_[hot] = values[q];
                    hot_rows_[hot++] = static_cast<uint16_t>(row);
                } else if (lists_pairs()) {
                    for (int64_t pair = d.pair_ptr[indices[q]]; pair < d.pair_ptr[indices[q] + 1]; ++pair) {
                        if (values) cold_values_[cold] = values[q];
                        cold_labels_[cold] = static_cast<uint16_t>(d.pair_labels[pair]);
                        cold_places_[cold++] = static_cast<int32_t>(pair);
                    }
                } else {
                    if (values) cold_values_[cold] = values[q];
                    cold_places_[cold++] = indices[q];
                }
            }
        }
    }

    // Ranges of features whose cold entries are about equally many.
    void slice_features(const std::vector<int64_t>& count, const std::vector<int32_t>& hot_of) {
        ChainData& d = data_;
        const auto cold = [&](int64_t f) {
            const size_t at = static_cast<size_t>(f);
            return hot_of[at] < 0 ? static_cast<double>(count[at] * cold_entries(f)) : 0.0;
        };
        double all = 0.0, entries = 0.0;
        for (int64_t f = 0; f < d.n_features; ++f) all += cold(f);
        slice_features_.assign(1, 0);
        int64_t feature = 0;
        for (int64_t slice = 1; slice < chain_slices; ++slice) {
            const double until = all * static_cast<double>(slice) / static_cast<double>(chain_slices);
            for (; feature < d.n_features && entries < until; ++feature) entries += cold(feature);
            slice_features_.push_back(feature);
        }
        slice_features_.push_back(d.n_features);
        d.slice_features = slice_features_.data();
    }

    static const double* filled(const std::vector<double>& v) { return v.empty() ? nullptr : v.data(); }

    void point_at_hot() {
        ChainData& d = data_;
        d.n_hot = static_cast<int64_t>(hot_features_.size());
        d.hot_features = hot_features_.data();
        d.hot_ptr = hot_ptr_.data();
        d.hot_rows = hot_rows_.data();
        d.hot_values = filled(hot_values_);
    }

    void point_at_cold() {
        ChainData& d = data_;
        d.cold_ptr = cold_ptr_.data();
        d.cold_places = cold_places_.data();
        d.cold_labels = lists_pairs() ? cold_labels_.data() : nullptr;
        d.cold_values = filled(cold_values_);
    }

    // The first state weight of a feature; its last one is before that of the next feature.
    static int64_t first_pair(const ChainData& d, int64_t feature) {
        return d.pair_ptr ? d.pair_ptr[feature] : feature * d.n_labels;
    }

    bool keeps(int64_t feature) const { return data_.pair_ptr[feature + 1] > data_.pair_ptr[feature]; }

    // The labels of the weights that are kept must be those of `whole`.
    void check_kept(const ChainData& whole, const uint8_t* keep) const {
        for (int64_t feature = 0; feature < whole.n_features; ++feature) {
            int64_t at = data_.pair_ptr[feature];
            const int64_t first = first_pair(whole, feature), last = first_pair(whole, feature + 1);
            for (int64_t pair = first; pair < last; ++pair) {
                if (!keep[pair]) continue;
                const int64_t label = whole.pair_ptr ? whole.pair_labels[pair] : pair - first;
                need(at < data_.pair_ptr[feature + 1] && data_.pair_labels[at] == label,
                     "ChainTokens: pair_ptr and pair_labels must list the weights in keep");
                ++at;
            }
            need(at == data_.pair_ptr[feature + 1],
                 "ChainTokens: pair_ptr and pair_labels must list the weights in keep");
        }
    }

    // Hot rows of each token. Where most are left, empty rows stay, so that the lists are those of `whole`.
    void select_hot(const ChainData& whole, double* memory) {
        const size_t n_tokens = static_cast<size_t>(whole.n_tokens);
        std::vector<int32_t> row_of(static_cast<size_t>(whole.n_hot), -1);
        for (int64_t h = 0; h < whole.n_hot; ++h) {
            if (!keeps(whole.hot_features[h])) continue;
            row_of[static_cast<size_t>(h)] = static_cast<int32_t>(hot_features_.size());
            hot_features_.push_back(whole.hot_features[h]);
        }
        if (!whole.feature_ptr && 4 * static_cast<int64_t>(hot_features_.size()) > 3 * whole.n_hot) return;
        hot_ptr_.assign(n_tokens + 1, 0);
        const auto each = [&](auto visit) {
            each_token(whole, memory, [&](const ChainData& d, int64_t token) {
                for (size_t q = d.hot_ptr[token]; q < d.hot_ptr[token + 1]; ++q) {
                    const int32_t row = row_of[static_cast<size_t>(d.hot_rows[q])];
                    if (row >= 0) visit(d, token, q, row);
                }
            });
        };
        each([&](const ChainData&, int64_t token, size_t, int32_t) { ++hot_ptr_[static_cast<size_t>(token) + 1]; });
        int64_t all = 0;
        for (uint32_t& end : hot_ptr_) {
            all += end;
            need(all < most_entries, too_many);
            end = static_cast<uint32_t>(all);
        }
        hot_rows_.reserve(static_cast<size_t>(all));
        if (whole.hot_values || whole.feature_values) hot_values_.reserve(static_cast<size_t>(all));
        each([&](const ChainData& d, int64_t, size_t q, int32_t row) {
            if (d.hot_values) hot_values_.push_back(d.hot_values[q]);
            hot_rows_.push_back(static_cast<uint16_t>(row));
        });
        point_at_hot();
    }

    // visit(data, token) with the lists of the token in `data`, for all tokens in order.
    template <class Visit>
    static void each_token(const ChainData& whole, double* memory, Visit visit) {
        for (int64_t i = 0; i < whole.n_sequences; ++i) {
            const int64_t first = whole.offsets[i], last = whole.offsets[i + 1];
            const ChainData own = listed(whole, first, last, memory);
            for (int64_t token = first; token < last; ++token) visit(own, token);
        }
    }

    // Cold entries of each token, without those that have no weight left.
    void select_cold(const ChainData& whole, const uint8_t* keep, double* memory) {
        const ChainData& d = data_;
        const size_t n_tokens = static_cast<size_t>(d.n_tokens);
        std::vector<int32_t> number;  // of each pair that is kept
        if (whole.cold_labels) {
            number.assign(static_cast<size_t>(whole.pair_ptr[whole.n_features]), -1);
            int32_t next = 0;
            for (size_t pair = 0; pair < number.size(); ++pair)
                if (keep[pair]) number[pair] = next++;
        }
        // visit(data, q, place) for what is left of each entry of a token.
        const auto each = [&](const ChainData& from, int64_t token, auto visit) {
            for (size_t q = from.cold_ptr[token]; q < from.cold_ptr[token + 1]; ++q) {
                const int32_t place = from.cold_places[q];
                if (whole.cold_labels) {
                    if (number[static_cast<size_t>(place)] >= 0) visit(from, q, number[static_cast<size_t>(place)]);
                } else if (lists_pairs()) {
                    for (int64_t pair = d.pair_ptr[place]; pair < d.pair_ptr[place + 1]; ++pair)
                        visit(from, q, static_cast<int32_t>(pair));
                } else if (keeps(place)) {
                    visit(from, q, place);
                }
            }
        };
        int64_t all = 0;
        cold_ptr_.assign(n_tokens + 1, 0);
        each_token(whole, memory, [&](const ChainData& from, int64_t token) {
            each(from, token, [&](const ChainData&, size_t, int32_t) { ++all; });
            need(all < most_entries, too_many);
            cold_ptr_[static_cast<size_t>(token) + 1] = static_cast<uint32_t>(all);
        });
        cold_places_.reserve(static_cast<size_t>(all));
        if (lists_pairs()) cold_labels_.reserve(static_cast<size_t>(all));
        if (whole.cold_values || whole.feature_values) cold_values_.reserve(static_cast<size_t>(all));
        each_token(whole, memory, [&](const ChainData& from, int64_t token) {
            each(from, token, [&](const ChainData&, size_t q, int32_t place) {
                if (from.cold_values) cold_values_.push_back(from.cold_values[q]);
                if (lists_pairs()) cold_labels_.push_back(static_cast<uint16_t>(d.pair_labels[place]));
                cold_places_.push_back(place);
            });
        });
        point_at_cold();
    }

    In<int64_t> offsets_, feature_ptr_;
    In<int32_t> features_;
    Maybe<double> feature_values_;
    In<int32_t> labels_;
    Maybe<uint8_t> active_;
    Maybe<int64_t> pair_ptr_;
    Maybe<int32_t> pair_labels_;
    std::vector<int64_t> kept_edge_ptr_;
    std::vector<int32_t> kept_edge_features_;
    std::vector<double> kept_edge_values_;
    Maybe<int64_t> edge_ptr_;
    Maybe<int32_t> edge_features_;
    Maybe<double> edge_values_;
    Maybe<int64_t> column_ptr_;
    Maybe<int32_t> columns_;
    std::vector<int64_t> chunk_ptr_, order_, block_offset_, slice_features_;
    std::vector<uint32_t> hot_ptr_, cold_ptr_;
    std::vector<uint16_t> hot_rows_, cold_labels_;
    std::vector<int32_t> hot_features_, cold_places_, row_of_;
    std::vector<double> hot_values_, cold_values_;
    std::shared_ptr<ScratchPool> scratch_ = std::make_shared<ScratchPool>();  // shared with selections of weights
    ChainData data_{};
    int64_t n_state_ = 0;
};

}  // namespace ff

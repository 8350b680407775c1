// Chains: a read-only description of the tokens, checked once, and the functions that evaluate and decode it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "chain.hpp"
#include "chain_decode.hpp"

namespace ff {

namespace {

constexpr int64_t sorted_together = 16 * chain_batch;

template <class T>
using Maybe = std::optional<In<T>>;

void need(bool fine, const char* message) {
    if (!fine) throw nb::value_error(message);
}

// indptr of n rows into an array of `size` entries.
void check_pointers(const In<int64_t>& pointers, int64_t n, int64_t size, const char* message) {
    need(static_cast<int64_t>(pointers.shape(0)) == n + 1, message);
    const int64_t* p = pointers.data();
    need(p[0] == 0 && p[n] == size, message);
    for (int64_t i = 0; i < n; ++i) need(p[i] <= p[i + 1], message);
}

void check_range(const In<int32_t>& values, int64_t low, int64_t high, const char* message) {
    const int32_t* p = values.data();
    for (size_t i = 0; i < values.shape(0); ++i) need(p[i] >= low && p[i] < high, message);
}

template <class T>
const T* pointer(const Maybe<T>& array) {
    return array ? array->data() : nullptr;
}

// Memory for evaluations, handed out and taken back. It holds no results: only pages that are mapped already.
class ScratchPool {
  public:
    class Lease {
      public:
        Lease(ScratchPool& pool, std::unique_ptr<double[]> block, int64_t size)
            : pool_(pool), block_(std::move(block)), size_(size) {}
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;
        ~Lease() { pool_.give(std::move(block_), size_); }
        double* data() const { return block_.get(); }

      private:
        ScratchPool& pool_;
        std::unique_ptr<double[]> block_;
        int64_t size_;
    };

    Lease take(int64_t size) {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            if (kept_ && kept_size_ >= size) {
                const int64_t had = kept_size_;
                kept_size_ = 0;
                return Lease(*this, std::move(kept_), had);
            }
        }
        // Not set to zero: the kernels write before they read, and pages that nobody touches cost nothing.
        return Lease(*this, std::unique_ptr<double[]>(new double[static_cast<size_t>(size)]), size);
    }

  private:
    void give(std::unique_ptr<double[]> block, int64_t size) {
        std::lock_guard<std::mutex> guard(mutex_);
        if (size > kept_size_) {
            kept_ = std::move(block);
            kept_size_ = size;
        }
    }

    std::mutex mutex_;
    std::unique_ptr<double[]> kept_;
    int64_t kept_size_ = 0;
};

// Owns the arrays that it was given, and what it derives from them: features by frequency and by token.
class ChainTokens {
  public:
    ChainTokens(In<int64_t> offsets, In<int64_t> indptr, In<int32_t> indices, Maybe<double> values, In<int32_t> labels,
                int64_t n_labels, int64_t n_features, Maybe<uint8_t> active, Maybe<int64_t> pair_ptr,
                Maybe<int32_t> pair_labels, Maybe<int64_t> edge_ptr, Maybe<int32_t> edge_features,
                Maybe<double> edge_values, Maybe<int64_t> column_ptr, Maybe<int32_t> columns, bool transpose)
        : offsets_(offsets),
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
        need(n_labels >= 1 && n_labels < (int64_t(1) << 20), "ChainTokens: n_labels must be at least 1");
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
        make_chunks();
        split_features(indptr.data(), indices.data(), values ? values->data() : nullptr, transpose);
    }

    const ChainData& data() const { return data_; }
    int64_t n_state() const { return n_state_; }
    ScratchPool& scratch() const { return scratch_; }

  private:
    // Chunks of about equal numbers of tokens, whatever the threads; fewer where the sums of edges are large.
    void make_chunks() {
        ChainData& d = data_;
        const int64_t bytes = 4 * d.padded * d.padded * 8 + d.n_columns * 8;
        int64_t chunks = std::clamp<int64_t>((int64_t(48) << 20) / bytes, 4, 16);
        chunks = std::clamp<int64_t>(std::min(chunks, d.n_tokens / 256), 1, chunks);
        d.n_chunks = chunks;
        chunk_ptr_.assign(static_cast<size_t>(chunks) + 1, 0);
        order_.resize(static_cast<size_t>(d.n_sequences));
        for (int64_t i = 0; i < d.n_sequences; ++i) order_[static_cast<size_t>(i)] = i;
        int64_t sequence = 0;
        for (int64_t c = 0; c < chunks; ++c) {
            const int64_t until = c + 1 == chunks ? d.n_tokens + 1 : d.n_tokens / chunks * (c + 1);
            while (sequence < d.n_sequences && d.offsets[sequence] < until) ++sequence;
            chunk_ptr_[static_cast<size_t>(c) + 1] = c + 1 == chunks ? d.n_sequences : sequence;
        }
        auto length = [&](int64_t i) { return d.offsets[i + 1] - d.offsets[i]; };
        d.max_tokens = d.max_batch_tokens = 0;
        for (int64_t c = 0; c < chunks; ++c) {
            const int64_t begin = chunk_ptr_[static_cast<size_t>(c)], end = chunk_ptr_[static_cast<size_t>(c) + 1];
            // By length among neighbours only: sequences that are close in the data share features in the cache.
            for (int64_t q = begin; q < end; q += sorted_together)
                std::stable_sort(order_.begin() + q, order_.begin() + std::min(q + sorted_together, end),
                                 [&](int64_t a, int64_t b) { return length(a) > length(b); });
            for (int64_t q = begin; q < end; q += chain_batch) {
                int64_t tokens = 0;
                for (int64_t b = q; b < std::min(q + chain_batch, end); ++b) {
                    tokens += length(order_[static_cast<size_t>(b)]);
                    d.max_tokens = std::max(d.max_tokens, length(order_[static_cast<size_t>(b)]));
                }
                d.max_batch_tokens = std::max(d.max_batch_tokens, tokens);
            }
        }
        d.chunk_ptr = chunk_ptr_.data();
        d.order = order_.data();
    }

    // The most frequent features get rows of a table that fits the second-level cache; the others go by token and
    // (where a gradient will be asked for) by feature. Tokens that are not active lose their features.
    void split_features(const int64_t* indptr, const int32_t* indices, const double* values, bool transpose) {
        ChainData& d = data_;
        const size_t n_tokens = static_cast<size_t>(d.n_tokens), n_features = static_cast<size_t>(d.n_features);
        std::vector<int64_t> count(n_features + 1, 0);
        for (int64_t t = 0; t < d.n_tokens; ++t)
            if (!d.active || d.active[t])
                for (int64_t q = indptr[t]; q < indptr[t + 1]; ++q) ++count[static_cast<size_t>(indices[q])];
        const int64_t limit = std::max<int64_t>(1, (int64_t(384) << 10) / (d.padded * 8));
        std::vector<int32_t> frequent;
        for (int64_t f = 0; f < d.n_features; ++f)
            if (count[static_cast<size_t>(f)] >= 2 * d.n_chunks) frequent.push_back(static_cast<int32_t>(f));
        std::stable_sort(frequent.begin(), frequent.end(), [&](int32_t a, int32_t b) {
            return count[static_cast<size_t>(a)] > count[static_cast<size_t>(b)];
        });
        if (static_cast<int64_t>(frequent.size()) > limit) frequent.resize(static_cast<size_t>(limit));
        hot_features_ = frequent;
        d.n_hot = static_cast<int64_t>(hot_features_.size());
        std::vector<int32_t> hot_of(n_features, -1);
        for (size_t h = 0; h < hot_features_.size(); ++h)
            hot_of[static_cast<size_t>(hot_features_[h])] = static_cast<int32_t>(h);
        hot_ptr_.assign(n_tokens + 1, 0);
        cold_ptr_.assign(n_tokens + 1, 0);
        for (int64_t t = 0; t < d.n_tokens; ++t) {
            int64_t hot = 0, cold = 0;
            if (!d.active || d.active[t])
                for (int64_t q = indptr[t]; q < indptr[t + 1]; ++q) {
                    if (hot_of[static_cast<size_t>(indices[q])] >= 0)
                        ++hot;
                    else
                        cold += d.pair_ptr ? d.pair_ptr[indices[q] + 1] - d.pair_ptr[indices[q]] : 1;
                }
            hot_ptr_[static_cast<size_t>(t) + 1] = hot_ptr_[static_cast<size_t>(t)] + hot;
            cold_ptr_[static_cast<size_t>(t) + 1] = cold_ptr_[static_cast<size_t>(t)] + cold;
        }
        hot_rows_.resize(static_cast<size_t>(hot_ptr_[n_tokens]));
        cold_places_.resize(static_cast<size_t>(cold_ptr_[n_tokens]));
        if (d.pair_ptr) cold_labels_.resize(cold_places_.size());
        if (values) {
            hot_values_.resize(hot_rows_.size());
            cold_values_.resize(cold_places_.size());
        }
        feature_ptr_.assign(n_features + 1, 0);
        size_t hot = 0, cold = 0;
        for (int64_t t = 0; t < d.n_tokens; ++t) {
            if (d.active && !d.active[t]) continue;
            for (int64_t q = indptr[t]; q < indptr[t + 1]; ++q) {
                const int32_t row = hot_of[static_cast<size_t>(indices[q])];
                if (row >= 0) {
                    if (values) hot_values_[hot] = values[q];
                    hot_rows_[hot++] = row;
                } else if (d.pair_ptr) {
                    ++feature_ptr_[static_cast<size_t>(indices[q]) + 1];
                    for (int64_t pair = d.pair_ptr[indices[q]]; pair < d.pair_ptr[indices[q] + 1]; ++pair) {
                        if (values) cold_values_[cold] = values[q];
                        cold_labels_[cold] = d.pair_labels[pair];
                        cold_places_[cold++] = static_cast<int32_t>(pair);
                    }
                } else {
                    ++feature_ptr_[static_cast<size_t>(indices[q]) + 1];
                    if (values) cold_values_[cold] = values[q];
                    cold_places_[cold++] = indices[q];
                }
            }
        }
        if (transpose) {
            for (size_t f = 0; f < n_features; ++f) feature_ptr_[f + 1] += feature_ptr_[f];
            const size_t entries = static_cast<size_t>(feature_ptr_[n_features]);
            feature_tokens_.resize(entries);
            if (values) feature_values_.resize(entries);
            std::copy(feature_ptr_.begin(), feature_ptr_.end(), count.begin());
            for (int64_t t = 0; t < d.n_tokens; ++t) {
                if (d.active && !d.active[t]) continue;
                for (int64_t q = indptr[t]; q < indptr[t + 1]; ++q) {
                    const size_t feature = static_cast<size_t>(indices[q]);
                    if (hot_of[feature] >= 0) continue;
                    const size_t at = static_cast<size_t>(count[feature]++);
                    feature_tokens_[at] = static_cast<int32_t>(t);
                    if (values) feature_values_[at] = values[q];
                }
            }
        } else {
            feature_ptr_.clear();
        }
        d.hot_ptr = hot_ptr_.data();
        d.hot_rows = hot_rows_.data();
        d.hot_values = values ? hot_values_.data() : nullptr;
        d.cold_ptr = cold_ptr_.data();
        d.cold_places = cold_places_.data();
        d.cold_labels = d.pair_ptr ? cold_labels_.data() : nullptr;
        d.cold_values = values ? cold_values_.data() : nullptr;
        d.hot_features = hot_features_.data();
        d.feature_ptr = transpose ? feature_ptr_.data() : nullptr;
        d.feature_tokens = feature_tokens_.data();
        d.feature_values = values ? feature_values_.data() : nullptr;
    }

    In<int64_t> offsets_;
    In<int32_t> labels_;
    Maybe<uint8_t> active_;
    Maybe<int64_t> pair_ptr_;
    Maybe<int32_t> pair_labels_;
    Maybe<int64_t> edge_ptr_;
    Maybe<int32_t> edge_features_;
    Maybe<double> edge_values_;
    Maybe<int64_t> column_ptr_;
    Maybe<int32_t> columns_;
    std::vector<int64_t> chunk_ptr_, order_, hot_ptr_, cold_ptr_, feature_ptr_;
    std::vector<int32_t> hot_features_, hot_rows_, cold_places_, cold_labels_, feature_tokens_;
    std::vector<double> hot_values_, cold_values_, feature_values_;
    mutable ScratchPool scratch_;
    ChainData data_{};
    int64_t n_state_ = 0;
};

// (state, transitions, base, start, end, columns): see ChainWeights.
using WeightArrays = std::tuple<In<double>, In2<double>, In<double>, In<double>, In<double>, In<double>>;
using GradientArrays = std::tuple<Out<double>, Out2<double>, Out<double>, Out<double>, Out<double>>;
// (width, beta, rows, indptr, indices)
using FamilyArrays = std::tuple<int64_t, double, Maybe<uint8_t>, Maybe<int64_t>, Maybe<int64_t>>;

ChainWeights check_weights(const ChainTokens& tokens, const WeightArrays& arrays) {
    const ChainData& d = tokens.data();
    const auto& [state, transitions, base, start, end, columns] = arrays;
    const size_t padded = static_cast<size_t>(d.padded);
    need(static_cast<int64_t>(state.shape(0)) == tokens.n_state(), "chains: state weights have the wrong length");
    need(transitions.shape(0) == padded && transitions.shape(1) == padded,
         "chains: transitions must be padded x padded");
    need(base.shape(0) == padded && start.shape(0) == padded && end.shape(0) == padded,
         "chains: base, start and end must have the padded length");
    need(static_cast<int64_t>(columns.shape(0)) == d.n_columns, "chains: columns have the wrong length");
    return {state.data(), tokens.n_state(), transitions.data(), base.data(), start.data(), end.data(), columns.data()};
}

std::vector<ChainFamily> check_families(const ChainTokens& tokens, const std::vector<FamilyArrays>& families) {
    const ChainData& d = tokens.data();
    std::vector<ChainFamily> result;
    for (const auto& [width, beta, rows, indptr, indices] : families) {
        need(width >= 0, "chains: a window's width must be positive, or 0 for the whole sequence");
        need(!rows || static_cast<int64_t>(rows->shape(0)) == d.n_sequences, "chains: rows needs one entry a sequence");
        need(indptr.has_value() == indices.has_value(), "chains: indptr and indices of a selection go together");
        if (indptr) {
            check_pointers(*indptr, d.n_sequences, static_cast<int64_t>(indices->shape(0)),
                           "chains: indptr of a selection must rise from 0 to its indices");
            for (int64_t i = 0; i < d.n_sequences; ++i) {
                const int64_t length = d.offsets[i + 1] - d.offsets[i];
                const int64_t windows = length == 0 ? 0 : width == 0 || length <= width ? 1 : length - width + 1;
                for (int64_t q = indptr->data()[i]; q < indptr->data()[i + 1]; ++q)
                    need(indices->data()[q] >= 0 && indices->data()[q] < windows,
                         "chains: a selected window is outside its sequence");
            }
        }
        result.push_back({width, beta, pointer(rows), pointer(indptr), pointer(indices)});
    }
    return result;
}

std::unique_ptr<double[]> room(int64_t size) {
    return std::unique_ptr<double[]>(new double[static_cast<size_t>(std::max<int64_t>(size, 1))]);
}

void evaluate(const ChainTokens& tokens, const WeightArrays& weight_arrays,
              const std::optional<WeightArrays>& direction_arrays, const std::vector<FamilyArrays>& family_arrays,
              Maybe<double> row_weight, bool observed, bool squares, Out<double> values,
              std::optional<Out<double>> tangents, std::optional<Out2<double>> residuals,
              const std::optional<GradientArrays>& gradient, int n_threads) {
    const ChainData& d = tokens.data();
    const ChainWeights weights = check_weights(tokens, weight_arrays);
    std::optional<ChainWeights> direction;
    if (direction_arrays) direction = check_weights(tokens, *direction_arrays);
    const std::vector<ChainFamily> families = check_families(tokens, family_arrays);
    int64_t width = 1;
    bool windows = false;
    for (const ChainFamily& family : families) {
        width = std::max(width, std::min(family.width, std::max<int64_t>(d.max_tokens, 1)));
        windows = windows || family.width > 0;
    }
    need(!d.partial || observed || !windows,
         "chains: windows beside unknown labels (-1) are left out of likelihoods only");
    need(!(direction && squares), "chains: squares have no direction");
    need(static_cast<int64_t>(values.shape(0)) == d.n_sequences, "chains: values needs one entry a sequence");
    need(!row_weight || static_cast<int64_t>(row_weight->shape(0)) == d.n_sequences,
         "chains: row_weight needs one entry a sequence");
    need(direction.has_value() == tangents.has_value(), "chains: tangents go with a direction");
    need(!tangents || static_cast<int64_t>(tangents->shape(0)) == d.n_sequences,
         "chains: tangents needs one entry a sequence");
    need(!residuals || (static_cast<int64_t>(residuals->shape(0)) == d.n_tokens &&
                        static_cast<int64_t>(residuals->shape(1)) == d.padded),
         "chains: residuals must be n_tokens x padded");
    need(!gradient || residuals.has_value(), "chains: a gradient needs room for residuals");
    need(n_threads >= 1, "chains: n_threads must be at least 1");
    ChainOutput out{};
    out.values = values.data();
    out.tangents = tangents ? tangents->data() : nullptr;
    out.residuals = residuals ? residuals->data() : nullptr;
    const int64_t square = d.padded * d.padded;
    auto spare = room(gradient ? 0 : square + 2 * d.padded + d.n_columns);
    if (gradient) {
        const auto& [state, transitions, start, end, columns] = *gradient;
        need(d.feature_ptr != nullptr, "chains: these tokens were made for decoding, without features by token");
        need(static_cast<int64_t>(state.shape(0)) == tokens.n_state() &&
                 static_cast<int64_t>(transitions.shape(0)) == d.padded &&
                 static_cast<int64_t>(transitions.shape(1)) == d.padded &&
                 static_cast<int64_t>(start.shape(0)) == d.padded && static_cast<int64_t>(end.shape(0)) == d.padded &&
                 static_cast<int64_t>(columns.shape(0)) == d.n_columns,
             "chains: the gradient's arrays must have the shapes of the weights");
        out.state = state.data();
        out.transitions = transitions.data();
        out.start = start.data();
        out.end = end.data();
        out.columns = columns.data();
    } else {
        out.transitions = spare.get();
        out.start = spare.get() + square;
        out.end = out.start + d.padded;
        out.columns = out.end + d.padded;
    }
    nb::gil_scoped_release release;
    ChainScratch scratch{};
    scratch.thread_size = FF_CALL(chain_room)(d, width, direction.has_value());
    const int64_t chunks = d.n_chunks;
    const int64_t used_threads = std::min<int64_t>(n_threads, chunks);
    // One block, kept from one evaluation to the next: fresh pages would cost as much as a recursion.
    int64_t used = 0;
    auto place = [&](int64_t size) {
        const int64_t at = used;
        used += (size + 7) / 8 * 8;
        return at;
    };
    const int64_t hot_table = place(d.n_hot * d.padded), hot_tangent = place(direction ? d.n_hot * d.padded : 0),
                  matrices = place(4 * square), edges = place(chunks * 4 * square),
                  hot_gradient = place(chunks * d.n_hot * d.padded), ends = place(chunks * 2 * d.padded),
                  columns = place(chunks * d.n_columns), threads = place(used_threads * scratch.thread_size);
    ScratchPool::Lease lease = tokens.scratch().take(used);
    scratch.hot_table = lease.data() + hot_table;
    scratch.hot_tangent = lease.data() + hot_tangent;
    scratch.matrices = lease.data() + matrices;
    scratch.edges = lease.data() + edges;
    scratch.hot_gradient = lease.data() + hot_gradient;
    scratch.ends = lease.data() + ends;
    scratch.column_gradient = lease.data() + columns;
    scratch.threads = lease.data() + threads;
    FF_CALL(chain_evaluate)
    (d, weights, direction ? &*direction : nullptr, families.data(), static_cast<int64_t>(families.size()),
     row_weight ? row_weight->data() : nullptr, observed, squares, scratch, out, static_cast<int>(used_threads));
}

using Scores = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using EdgeScores = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// Edges (1, padded, padded) are shared by all tokens; (n_tokens, padded, padded) belong to each.
ChainScores check_scores(const In<int64_t>& offsets, const Scores& scores, const EdgeScores& edges, int64_t n_labels,
                         int64_t& max_tokens) {
    need(offsets.shape(0) >= 1, "chains: offsets needs n_sequences + 1 entries");
    const int64_t n = static_cast<int64_t>(offsets.shape(0)) - 1, n_tokens = static_cast<int64_t>(scores.shape(0));
    const int64_t padded = static_cast<int64_t>(scores.shape(1));
    check_pointers(offsets, n, n_tokens, "chains: offsets must rise from 0 to n_tokens");
    need(n_labels >= 1 && n_labels <= padded && padded % chain_lane == 0, "chains: scores must have padded rows");
    need(static_cast<int64_t>(edges.shape(1)) == padded && static_cast<int64_t>(edges.shape(2)) == padded &&
             (edges.shape(0) == 1 || static_cast<int64_t>(edges.shape(0)) == n_tokens),
         "chains: edges must be (1 or n_tokens) x padded x padded");
    max_tokens = 1;
    for (int64_t i = 0; i < n; ++i) max_tokens = std::max(max_tokens, offsets.data()[i + 1] - offsets.data()[i]);
    const bool own = static_cast<int64_t>(edges.shape(0)) == n_tokens && n_tokens != 1;
    return {n, n_labels, padded, offsets.data(), scores.data(), edges.data(), own ? padded * padded : 0};
}

}  // namespace

void bind_chain(nb::module_& module) {
    nb::class_<ChainTokens>(module, "ChainTokens", "Sequences of tokens with features: read-only, checked once.")
        .def(nb::init<In<int64_t>, In<int64_t>, In<int32_t>, Maybe<double>, In<int32_t>, int64_t, int64_t,
                      Maybe<uint8_t>, Maybe<int64_t>, Maybe<int32_t>, Maybe<int64_t>, Maybe<int32_t>, Maybe<double>,
                      Maybe<int64_t>, Maybe<int32_t>, bool>(),
             nb::arg("offsets"), nb::arg("indptr"), nb::arg("indices"), nb::arg("values").none(), nb::arg("labels"),
             nb::arg("n_labels"), nb::arg("n_features"), nb::arg("active").none() = nb::none(),
             nb::arg("pair_ptr").none() = nb::none(), nb::arg("pair_labels").none() = nb::none(),
             nb::arg("edge_ptr").none() = nb::none(), nb::arg("edge_features").none() = nb::none(),
             nb::arg("edge_values").none() = nb::none(), nb::arg("column_ptr").none() = nb::none(),
             nb::arg("columns").none() = nb::none(), nb::arg("transpose") = true)
        .def_prop_ro("padded", [](const ChainTokens& t) { return t.data().padded; })
        .def_prop_ro("n_chunks", [](const ChainTokens& t) { return t.data().n_chunks; })
        .def_prop_ro("n_hot", [](const ChainTokens& t) { return t.data().n_hot; });
    module.def("chain_evaluate", &evaluate, nb::arg("tokens"), nb::arg("weights"), nb::arg("direction").none(),
               nb::arg("families"), nb::arg("row_weight").none(), nb::arg("observed"), nb::arg("squares"),
               nb::arg("values"), nb::arg("tangents").none(), nb::arg("residuals").none(), nb::arg("gradient").none(),
               nb::arg("n_threads"), "Log-likelihood of each sequence, token residuals and gradient, in one pass.");
    module.def(
        "chain_scores",
        [](const ChainTokens& tokens, const WeightArrays& arrays, Out2<double> scores, int n_threads) {
            const ChainData& d = tokens.data();
            const ChainWeights weights = check_weights(tokens, arrays);
            need(static_cast<int64_t>(scores.shape(0)) == d.n_tokens &&
                     static_cast<int64_t>(scores.shape(1)) == d.padded && n_threads >= 1,
                 "chain_scores: scores must be n_tokens x padded");
            nb::gil_scoped_release release;
            auto table = room((d.n_hot + 1) * d.padded);
            FF_CALL(chain_token_scores)(d, weights, table.get(), scores.data(), n_threads);
        },
        nb::arg("tokens"), nb::arg("weights"), nb::arg("scores"), nb::arg("n_threads"),
        "Scores of all tokens, start and end weights included.");
    module.def(
        "chain_viterbi",
        [](In<int64_t> offsets, Scores scores, EdgeScores edges, int64_t n_labels, Out<int32_t> labels,
           Out<double> best, int n_threads) {
            int64_t longest = 0;
            const ChainScores chain = check_scores(offsets, scores, edges, n_labels, longest);
            need(labels.shape(0) == scores.shape(0) && static_cast<int64_t>(best.shape(0)) == chain.n_sequences &&
                     n_threads >= 1,
                 "chain_viterbi: labels needs n_tokens entries and best n_sequences");
            nb::gil_scoped_release release;
            auto work = room(n_threads * longest * chain.padded);
            FF_CALL(chain_viterbi)(chain, longest, work.get(), labels.data(), best.data(), n_threads);
        },
        nb::arg("offsets"), nb::arg("scores"), nb::arg("edges"), nb::arg("n_labels"), nb::arg("labels"),
        nb::arg("best"), nb::arg("n_threads"), "The best path of each sequence, and its score.");
    module.def(
        "chain_n_best",
        [](In<int64_t> offsets, Scores scores, EdgeScores edges, int64_t n_labels, Out2<int32_t> labels,
           Out2<double> best, int n_threads) {
            int64_t longest = 0;
            const ChainScores chain = check_scores(offsets, scores, edges, n_labels, longest);
            const int64_t count = static_cast<int64_t>(best.shape(1));
            need(static_cast<int64_t>(labels.shape(0)) == count && labels.shape(1) == scores.shape(0) &&
                     static_cast<int64_t>(best.shape(0)) == chain.n_sequences && count >= 1 && n_threads >= 1,
                 "chain_n_best: labels must be count x n_tokens and best n_sequences x count");
            need(count * chain.padded < (int64_t(1) << 31), "chain_n_best: too many paths are asked for");
            nb::gil_scoped_release release;
            const int64_t size = n_threads * longest * chain.padded * count;
            auto work = room(size);
            std::unique_ptr<int32_t[]> back(new int32_t[static_cast<size_t>(size)]);
            FF_CALL(chain_n_best)
            (chain, longest, count, work.get(), back.get(), labels.data(), best.data(), n_threads);
        },
        nb::arg("offsets"), nb::arg("scores"), nb::arg("edges"), nb::arg("n_labels"), nb::arg("labels"),
        nb::arg("best"), nb::arg("n_threads"), "The best paths of each sequence, best first, and their scores.");
    module.def(
        "chain_marginals",
        [](In<int64_t> offsets, Scores scores, EdgeScores edges, int64_t n_labels, Out2<double> nodes,
           std::optional<nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>> pairs, Out<double> log_z,
           int n_threads) {
            int64_t longest = 0;
            const ChainScores chain = check_scores(offsets, scores, edges, n_labels, longest);
            need(nodes.shape(0) == scores.shape(0) && nodes.shape(1) == scores.shape(1) &&
                     static_cast<int64_t>(log_z.shape(0)) == chain.n_sequences && n_threads >= 1,
                 "chain_marginals: nodes must have the shape of scores and log_z one entry a sequence");
            need(!pairs || (pairs->shape(0) == scores.shape(0) && pairs->shape(1) == scores.shape(1) &&
                            pairs->shape(2) == scores.shape(1)),
                 "chain_marginals: pairs must be n_tokens x padded x padded");
            nb::gil_scoped_release release;
            auto work = room(n_threads * ((4 * longest + 4) * chain.padded + chain.padded * chain.padded));
            FF_CALL(chain_marginals)
            (chain, longest, work.get(), nodes.data(), pairs ? pairs->data() : nullptr, log_z.data(), n_threads);
        },
        nb::arg("offsets"), nb::arg("scores"), nb::arg("edges"), nb::arg("n_labels"), nb::arg("nodes"),
        nb::arg("pairs").none(), nb::arg("log_z"), nb::arg("n_threads"),
        "Node and edge marginals and log Z of each sequence, in log space.");
}

}  // namespace ff

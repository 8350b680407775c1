// Training by mistakes: the averaged perceptron, passive-aggressive updates and AROW on the weights of a chain.
//
// Each sequence is tagged with the current weights. If its best path ŷ differs from its labels y, the weights move
// along δ = f(x, y) - f(x, ŷ), the difference of the features on the two paths.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cmath>
#include <vector>

#include "chain_arrays.hpp"

namespace ff {

namespace {

enum class Rule : int { perceptron = 0, passive_aggressive = 1, arow = 2 };

struct MistakeRule {
    Rule rule;
    int type;              // of passive-aggressive updates: 0 (PA), 1 (PA-I) or 2 (PA-II)
    double c;              // their aggressiveness
    bool error_sensitive;  // whether the cost of a mistake is √(wrong labels) instead of 1
    double gamma;          // of AROW
};

struct Sequences {
    const int64_t *offsets, *indptr;
    const int32_t *indices, *labels;
    const double* values;     // null: 1
    const int64_t* pair_ptr;  // null: every feature has a weight for each label
    const int32_t* pair_labels;
    const int32_t* transition_at;  // (K x K), the place of each transition's weight; -1: none
    int64_t n_labels;

    double value(int64_t entry) const { return values ? values[entry] : 1.0; }

    // The place of the weight of a feature for a label; -1: none.
    int64_t place(int64_t feature, int32_t label) const {
        if (!pair_ptr) return feature * n_labels + label;
        for (int64_t p = pair_ptr[feature]; p < pair_ptr[feature + 1]; ++p)
            if (pair_labels[p] == label) return p;
        return -1;
    }
};

class Learner {
  public:
    // `second`: Σ u · step for averages, where u counts the visits; AROW: the variance of each weight.
    Learner(const Sequences& data, const MistakeRule& rule, double* weights, double* second, int64_t n_weights,
            int64_t longest)
        : data_(data), rule_(rule), weights_(weights), second_(second), delta_(static_cast<size_t>(n_weights), 0.0) {
        const size_t cells = static_cast<size_t>(longest * data.n_labels);
        best_.resize(cells);
        before_.resize(cells);
        path_.resize(static_cast<size_t>(longest));
        edges_.resize(static_cast<size_t>(data.n_labels * data.n_labels));
    }

    // The loss of a sequence, after a step if its best path has a wrong label. `visit` is u.
    double visit(int64_t sequence, double visit) {
        const int64_t first = data_.offsets[sequence], length = data_.offsets[sequence + 1] - first;
        const int32_t* labels = data_.labels + first;
        if (length == 0) return 0.0;
        const double best = tag(first, length);
        int64_t wrong = 0;
        for (int64_t t = 0; t < length; ++t) wrong += labels[t] != path_[static_cast<size_t>(t)];
        if (wrong == 0) return 0.0;
        const double behind = best - score(first, length, labels);
        collect(first, length, labels);
        const double loss = step(behind, static_cast<double>(wrong), visit);
        for (const int64_t place : active_) delta_[static_cast<size_t>(place)] = 0.0;
        active_.clear();
        moved_ = true;
        return rule_.rule == Rule::perceptron ? static_cast<double>(wrong) / static_cast<double>(length) : loss;
    }

  private:
    // Moves the weights along δ; returns the cost of the mistake.
    double step(double behind, double wrong, double visit) {
        if (rule_.rule == Rule::perceptron) {
            move(1.0, visit);
            return wrong;
        }
        if (rule_.rule == Rule::passive_aggressive) {
            const double cost = behind + (rule_.error_sensitive ? std::sqrt(wrong) : 1.0);
            double norm = 0.0;
            for (const int64_t k : active_) norm += delta(k) * delta(k);
            double tau = 0.0;
            if (rule_.type == 2)
                tau = cost / (norm + 0.5 / rule_.c);
            else if (norm > 0.0)
                tau = rule_.type == 1 ? std::min(rule_.c, cost / norm) : cost / norm;
            move(tau, visit);
            return cost;
        }
        const double cost = behind + wrong;
        double spread = rule_.gamma;
        for (const int64_t k : active_) spread += delta(k) * delta(k) * second_[k];
        for (const int64_t k : active_) {
            const double d = delta(k);
            weights_[k] += cost / spread * second_[k] * d;
            second_[k] = 1.0 / (1.0 / second_[k] + d * d / rule_.gamma);
        }
        return cost;
    }

    double delta(int64_t place) const { return delta_[static_cast<size_t>(place)]; }

    void move(double by, double visit) {
        for (const int64_t k : active_) {
            weights_[k] += by * delta(k);
            second_[k] += by * visit * delta(k);
        }
    }

    void add(int64_t place, double value) {
        if (place < 0) return;
        if (delta(place) == 0.0) active_.push_back(place);  // a sum that returned to 0 may be listed twice
        delta_[static_cast<size_t>(place)] += value;
    }

    // δ of a sequence. Tokens and edges that are alike on both paths cancel.
    void collect(int64_t first, int64_t length, const int32_t* labels) {
        const int64_t K = data_.n_labels;
        for (int64_t t = 0; t < length; ++t) {
            const int32_t right = labels[t], wrong = path_[static_cast<size_t>(t)];
            if (right != wrong)
                for (int64_t q = data_.indptr[first + t]; q < data_.indptr[first + t + 1]; ++q) {
                    add(data_.place(data_.indices[q], right), data_.value(q));
                    add(data_.place(data_.indices[q], wrong), -data_.value(q));
                }
            if (t == 0) continue;
            const int64_t into = labels[t - 1] * K + right, instead = path_[static_cast<size_t>(t - 1)] * K + wrong;
            if (into == instead) continue;
            add(data_.transition_at[into], 1.0);
            add(data_.transition_at[instead], -1.0);
        }
        // Each place once: those listed twice, and those without a difference, go.
        std::sort(active_.begin(), active_.end());
        active_.erase(std::unique(active_.begin(), active_.end()), active_.end());
    }

    void score_token(int64_t token, double* row) const {
        const int64_t K = data_.n_labels;
        std::fill(row, row + K, 0.0);
        for (int64_t q = data_.indptr[token]; q < data_.indptr[token + 1]; ++q) {
            const int64_t feature = data_.indices[q];
            const double value = data_.value(q);
            if (data_.pair_ptr) {
                for (int64_t p = data_.pair_ptr[feature]; p < data_.pair_ptr[feature + 1]; ++p)
                    row[data_.pair_labels[p]] += value * weights_[p];
            } else {
                const double* from = weights_ + feature * K;
                for (int64_t j = 0; j < K; ++j) row[j] += value * from[j];
            }
        }
    }

    double score(int64_t first, int64_t length, const int32_t* labels) {
        const int64_t K = data_.n_labels;
        double total = 0.0;
        for (int64_t t = 0; t < length; ++t) {
            for (int64_t q = data_.indptr[first + t]; q < data_.indptr[first + t + 1]; ++q) {
                const int64_t place = data_.place(data_.indices[q], labels[t]);
                if (place >= 0) total += data_.value(q) * weights_[place];
            }
            if (t > 0) total += edges_[static_cast<size_t>(labels[t - 1] * K + labels[t])];
        }
        return total;
    }

    // The best path to path_ and its score; ties go to the smaller label.
    double tag(int64_t first, int64_t length) {
        const int64_t K = data_.n_labels;
        if (moved_)
            for (int64_t k = 0; k < K * K; ++k) {
                const int32_t at = data_.transition_at[k];
                edges_[static_cast<size_t>(k)] = at < 0 ? 0.0 : weights_[at];
            }
        moved_ = false;
        row_.resize(static_cast<size_t>(K));
        for (int64_t t = 0; t < length; ++t) {
            double* to = best_.data() + t * K;
            score_token(first + t, row_.data());
            if (t == 0) {
                std::copy(row_.begin(), row_.end(), to);
                continue;
            }
            const double* from = best_.data() + (t - 1) * K;
            int32_t* back = before_.data() + t * K;
            for (int64_t j = 0; j < K; ++j) {
                to[j] = from[0] + edges_[static_cast<size_t>(j)];
                back[j] = 0;
            }
            for (int64_t i = 1; i < K; ++i) {
                const double* edge = edges_.data() + i * K;
                for (int64_t j = 0; j < K; ++j) {
                    const double x = from[i] + edge[j];
                    back[j] = x > to[j] ? static_cast<int32_t>(i) : back[j];
                    to[j] = x > to[j] ? x : to[j];
                }
            }
            for (int64_t j = 0; j < K; ++j) to[j] += row_[static_cast<size_t>(j)];
        }
        const double* last = best_.data() + (length - 1) * K;
        int32_t label = static_cast<int32_t>(std::max_element(last, last + K) - last);
        const double top = last[label];
        for (int64_t t = length - 1; t >= 0; --t) {
            path_[static_cast<size_t>(t)] = label;
            if (t > 0) label = before_[static_cast<size_t>(t * K + label)];
        }
        return top;
    }

    const Sequences& data_;
    const MistakeRule& rule_;
    double *weights_, *second_;
    std::vector<double> delta_, best_, edges_, row_;
    std::vector<int32_t> before_, path_;
    std::vector<int64_t> active_;
    bool moved_ = true;
};

std::pair<double, int64_t> mistakes_pass(In<int64_t> offsets, In<int64_t> indptr, In<int32_t> indices,
                                         Maybe<double> values, In<int32_t> labels, Maybe<int64_t> pair_ptr,
                                         Maybe<int32_t> pair_labels, In2<int32_t> transition_at, In<int64_t> order,
                                         Out<double> weights, Out<double> second, int rule, int type, double c,
                                         bool error_sensitive, double gamma, double visits) {
    const int64_t n = static_cast<int64_t>(offsets.shape(0)) - 1, tokens = static_cast<int64_t>(labels.shape(0));
    const int64_t K = static_cast<int64_t>(transition_at.shape(0)), size = static_cast<int64_t>(weights.shape(0));
    need(n >= 0 && K > 0 && static_cast<int64_t>(transition_at.shape(1)) == K, "chains: no labels or no sequences");
    check_pointers(offsets, n, tokens, "chains: the offsets of sequences are wrong");
    check_pointers(indptr, tokens, static_cast<int64_t>(indices.shape(0)), "chains: indptr is wrong");
    check_range(labels, 0, K, "chains: a label is unknown");
    need(!values || values->shape(0) == indices.shape(0), "chains: values needs one entry an index");
    need(pair_ptr.has_value() == pair_labels.has_value(), "chains: pairs need both of their arrays");
    need(static_cast<int64_t>(second.shape(0)) == size, "chains: the two arrays of weights have different lengths");
    need(rule >= 0 && rule <= 2 && type >= 0 && type <= 2, "chains: unknown rule");
    int64_t n_features = size / K;
    if (pair_ptr) {
        n_features = static_cast<int64_t>(pair_ptr->shape(0)) - 1;
        const int64_t pairs = static_cast<int64_t>(pair_labels->shape(0));
        check_pointers(*pair_ptr, n_features, pairs, "chains: pair_ptr is wrong");
        need(pairs <= size, "chains: too few weights");
        check_range(*pair_labels, 0, K, "chains: a pair has an unknown label");
    }
    check_range(indices, 0, n_features, "chains: a feature is unknown");
    for (int64_t k = 0; k < K * K; ++k)
        need(transition_at.data()[k] >= -1 && transition_at.data()[k] < size, "chains: a transition has no weight");
    for (size_t i = 0; i < order.shape(0); ++i)
        need(order.data()[i] >= 0 && order.data()[i] < n, "chains: a visit is outside the sequences");
    nb::gil_scoped_release release;
    const Sequences data{offsets.data(),       indptr.data(),        indices.data(),
                         labels.data(),        pointer(values),      pointer(pair_ptr),
                         pointer(pair_labels), transition_at.data(), K};
    const MistakeRule how{static_cast<Rule>(rule), type, c, error_sensitive, gamma};
    int64_t longest = 0;
    for (int64_t s = 0; s < n; ++s) longest = std::max(longest, data.offsets[s + 1] - data.offsets[s]);
    Learner learner(data, how, weights.data(), second.data(), size, longest);
    double total = 0.0;
    int64_t mistakes = 0;
    for (size_t i = 0; i < order.shape(0); ++i) {
        const double loss = learner.visit(order.data()[i], visits + static_cast<double>(i));
        total += loss;
        mistakes += loss != 0.0;
    }
    return {total, mistakes};
}

}  // namespace

void bind_chain_mistakes(nb::module_& module) {
    module.def("chain_mistakes_pass", &mistakes_pass, nb::kw_only(), nb::arg("offsets"), nb::arg("indptr"),
               nb::arg("indices"), nb::arg("values").none(), nb::arg("labels"), nb::arg("pair_ptr").none(),
               nb::arg("pair_labels").none(), nb::arg("transition_at"), nb::arg("order"),
               nb::arg("weights").noconvert(), nb::arg("second").noconvert(), nb::arg("rule"), nb::arg("type"),
               nb::arg("c"), nb::arg("error_sensitive"), nb::arg("gamma"), nb::arg("visits"),
               "Visit sequences and learn from mistakes; returns the loss and the number of sequences with mistakes.");
}

}  // namespace ff

// One sentence from attributes to labels in one call, for services that tag one at a time.
#include <nanobind/stl/optional.h>

#include <vector>

#include "attribute_reader.hpp"
#include "chain.hpp"
#include "chain_arrays.hpp"
#include "chain_decode.hpp"

namespace ff {

namespace {

class SentenceTagger {
  public:
    SentenceTagger(nb::object table, nb::object names, In<double> state, In2<double> transitions, In<double> base,
                   In<double> start, In<double> end, Maybe<int64_t> pair_ptr, Maybe<int32_t> pair_labels)
        : owner_(table),
          table_(nb::cast<NameTable&>(table)),
          names_(nb::cast<nb::list>(names)),
          state_(state),
          transitions_(transitions),
          base_(base),
          start_(start),
          end_(end),
          pair_ptr_(pair_ptr),
          pair_labels_(pair_labels),
          n_labels_(static_cast<int64_t>(nb::len(names_))),
          padded_(static_cast<int64_t>(transitions.shape(0))) {
        const size_t padded = static_cast<size_t>(padded_);
        need(n_labels_ >= 1 && n_labels_ <= padded_ && padded_ % chain_lane == 0 && transitions.shape(1) == padded &&
                 base.shape(0) == padded && start.shape(0) == padded && end.shape(0) == padded,
             "SentenceTagger: transitions, base, start and end must have padded rows");
        need(pair_ptr.has_value() == pair_labels.has_value(), "SentenceTagger: pair_ptr and pair_labels go together");
        const int64_t weights = static_cast<int64_t>(state.shape(0));
        if (pair_ptr) {
            check_pointers(*pair_ptr, table_.size(), weights, "SentenceTagger: pair_ptr must rise to the weights");
            check_range(*pair_labels, 0, n_labels_, "SentenceTagger: a pair's label is outside 0..n_labels-1");
            need(static_cast<int64_t>(pair_labels->shape(0)) == weights, "SentenceTagger: a weight for each pair");
        } else {
            need(weights == table_.size() * n_labels_, "SentenceTagger: a weight for each name and label");
        }
    }

    // The labels of a sentence, or None where it is not a list of readable tokens.
    nb::object tag(nb::object sentence) {
        if (!PyList_Check(sentence.ptr()) || PyList_GET_SIZE(sentence.ptr()) == 0) return nb::none();
        const bool words = PyUnicode_Check(PyList_GET_ITEM(sentence.ptr(), 0));
        AttributeReader reader(table_, false);
        std::vector<size_t> ends;
        try {
            for (Py_ssize_t t = 0; t < PyList_GET_SIZE(sentence.ptr()); ++t) {
                nb::object item = nb::borrow(PyList_GET_ITEM(sentence.ptr(), t));
                if (words && PyUnicode_Check(item.ptr()))
                    reader.read_word(item.ptr());
                else
                    reader.read_token(item.ptr());
                ends.push_back(reader.values.size());
            }
        } catch (const Unreadable&) {
            return nb::none();
        }
        reader.flush();
        const int64_t n = static_cast<int64_t>(ends.size());
        std::vector<double> scores(static_cast<size_t>(n * padded_)), work(scores.size());
        std::vector<int32_t> labels(ends.size());
        size_t q = 0;
        for (int64_t t = 0; t < n; ++t) {
            double* row = scores.data() + t * padded_;
            for (int64_t j = 0; j < padded_; ++j)
                row[j] = base_.data()[j] + (t == 0 ? start_.data()[j] : 0.0) + (t == n - 1 ? end_.data()[j] : 0.0);
            for (; q < ends[static_cast<size_t>(t)]; ++q) {
                const int64_t code = reader.codes[q];
                if (code < 0) continue;
                const double value = reader.values[q];
                if (pair_ptr_) {
                    for (int64_t k = pair_ptr_->data()[code]; k < pair_ptr_->data()[code + 1]; ++k)
                        row[pair_labels_->data()[k]] += value * state_.data()[k];
                } else {
                    const double* weights = state_.data() + code * n_labels_;
                    for (int64_t j = 0; j < n_labels_; ++j) row[j] += value * weights[j];
                }
            }
        }
        const int64_t offsets[2] = {0, n};
        double best = 0.0;
        const ChainScores chain{1, n_labels_, padded_, offsets, scores.data(), transitions_.data(), 0};
        FF_CALL(chain_viterbi)(chain, n, work.data(), labels.data(), &best, 1);
        nb::list result;
        for (const int32_t label : labels) result.append(names_[static_cast<size_t>(label)]);
        return result;
    }

  private:
    nb::object owner_;  // of the table
    NameTable& table_;
    nb::list names_;
    In<double> state_;
    In2<double> transitions_;
    In<double> base_, start_, end_;
    Maybe<int64_t> pair_ptr_;
    Maybe<int32_t> pair_labels_;
    int64_t n_labels_, padded_;
};

}  // namespace

void bind_sentence_tagger(nb::module_& module) {
    nb::class_<SentenceTagger>(module, "SentenceTagger", "Labels of single sentences from their attributes.")
        .def(nb::init<nb::object, nb::object, In<double>, In2<double>, In<double>, In<double>, In<double>,
                      Maybe<int64_t>, Maybe<int32_t>>(),
             nb::kw_only(), nb::arg("table"), nb::arg("names"), nb::arg("state"), nb::arg("transitions"),
             nb::arg("base"), nb::arg("start"), nb::arg("end"), nb::arg("pair_ptr").none(),
             nb::arg("pair_labels").none())
        .def("tag", &SentenceTagger::tag, nb::arg("sentence"),
             nb::sig("def tag(self, sentence: typing.Any) -> list[typing.Any] | None"),
             "The best labels of a list of tokens; None where it is not one, or a token cannot be read.");
}

}  // namespace ff

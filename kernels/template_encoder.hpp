// Sentences of words or of rows of columns become codes of features: what templates read (sources), and their features.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "derived_text.hpp"
#include "template_features.hpp"

namespace ff {

// What cells read: a column, a text derived from it, and the values that occur in training.
struct TemplateSource {
    int64_t column;
    Derivation kind;
    int64_t length;
    NameTable vocabulary;

    // The code of the derived text of a word, -1 where it does not occur in training.
    int32_t code(DerivedText& word) const {
        std::string_view text;
        if (!word.derive(kind, length, text)) return -1;
        return vocabulary.find(text.data(), text.size(), hash_of(text));
    }
};

// The room that the encoding of a sentence needs.
struct TemplateRoom {
    int64_t length = 0;
    std::vector<int32_t> codes;
    std::vector<const int32_t*> sources;
    std::vector<int64_t> keys;
};

class TemplateEncoder {
  public:
    TemplateEncoder(std::vector<TemplateSource> sources, NameTable stop_words, int64_t n_columns,
                    TemplateFeatures states, TemplateFeatures pairs, std::vector<nb::object> owned)
        : sources_(std::move(sources)),
          stop_words_(std::move(stop_words)),
          n_columns_(n_columns),
          states_(std::move(states)),
          pairs_(std::move(pairs)),
          owned_(std::move(owned)) {
        for (const TemplateSource& source : sources_) width_ = std::max(width_, source.column + 1);
    }

    const std::vector<TemplateSource>& sources() const { return sources_; }
    const NameTable& stop_words() const { return stop_words_; }
    const TemplateFeatures& states() const { return states_; }
    const TemplateFeatures& pairs() const { return pairs_; }
    int64_t n_features() const { return states_.size() + pairs_.size(); }

    // Read a list of words, or of lists or tuples of texts, all as long as the first; false where it is none, or lacks
    // a column that templates read.
    bool read(PyObject* sentence, TemplateRoom& room) const {
        if (!PyList_Check(sentence)) return false;
        const Py_ssize_t n = PyList_GET_SIZE(sentence);
        if (n == 0) return false;
        PyObject* first = PyList_GET_ITEM(sentence, 0);
        const bool words = PyUnicode_Check(first);
        const int64_t width = words ? 1 : length(first);
        if (width < width_ || width > n_columns_) return false;
        room.length = n;
        room.codes.resize(sources_.size() * static_cast<size_t>(n));
        room.sources.clear();
        for (size_t s = 0; s < sources_.size(); ++s)
            room.sources.push_back(room.codes.data() + s * static_cast<size_t>(n));
        DerivedText word(stop_words_);
        for (Py_ssize_t t = 0; t < n; ++t) {
            if (t >= PyList_GET_SIZE(sentence)) return false;
            const nb::object held = nb::borrow(PyList_GET_ITEM(sentence, t));
            PyObject* token = held.ptr();
            if (words ? !PyUnicode_Check(token) : length(token) != width) return false;
            if (!words)
                for (int64_t column = 0; column < width; ++column)
                    if (!PyUnicode_Check(part(token, column))) return false;
            int64_t current = -1;
            for (size_t s = 0; s < sources_.size(); ++s) {
                if (sources_[s].column != current) {
                    current = sources_[s].column;
                    if (!words && length(token) != width) return false;
                    word.set(words ? token : part(token, current));
                }
                room.codes[s * static_cast<size_t>(n) + static_cast<size_t>(t)] = sources_[s].code(word);
            }
        }
        return true;
    }

  private:
    // The number of columns of a row, -1 where it is no row.
    static int64_t length(PyObject* row) {
        if (PyTuple_Check(row)) return PyTuple_GET_SIZE(row);
        return PyList_Check(row) ? PyList_GET_SIZE(row) : -1;
    }

    static PyObject* part(PyObject* row, int64_t column) {
        return PyTuple_Check(row) ? PyTuple_GET_ITEM(row, column) : PyList_GET_ITEM(row, column);
    }

    std::vector<TemplateSource> sources_;
    NameTable stop_words_;
    int64_t n_columns_, width_ = 0;
    TemplateFeatures states_, pairs_;
    std::vector<nb::object> owned_;  // the arrays of keys
};

}  // namespace ff

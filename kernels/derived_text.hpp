// Texts made from a word: lower case, shape, prefixes, suffixes, membership in a stop list. Texts are UTF-8; lone
// surrogates, which files cannot have but Python's strings can, are encoded like other characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bindings.hpp"
#include "name_table.hpp"

namespace ff {

enum class Derivation { none, lower, shape, stop, prefix, suffix };

// The UTF-8 of a str, which lives as long as the str and `held`.
inline std::string_view utf8_of(PyObject* word, nb::object& held) {
    Py_ssize_t length;
    const char* data = PyUnicode_AsUTF8AndSize(word, &length);
    if (!data) {
        PyErr_Clear();
        held = nb::steal(PyUnicode_AsEncodedString(word, "utf-8", "surrogatepass"));
        if (!held.is_valid()) throw nb::python_error();
        data = PyBytes_AS_STRING(held.ptr());
        length = PyBytes_GET_SIZE(held.ptr());
    }
    return {data, static_cast<size_t>(length)};
}

inline nb::object str_of(std::string_view text) {
    nb::object word =
        nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass"));
    if (!word.is_valid()) throw nb::python_error();
    return word;
}

inline uint64_t hash_of(std::string_view text) { return NameTable::hash(text.data(), text.size()); }

// One word and what is derived from it. The views that it returns are valid until the next call.
class DerivedText {
  public:
    explicit DerivedText(const NameTable& stop_words) : stop_words_(stop_words) {}

    void set(PyObject* word) {
        held_word_ = nb::borrow(word);
        word_ = word;
        text_ = utf8_of(word, held_text_);
        lowered_ = false;
    }

    // The derived text; false where there is none (a prefix longer than the word).
    bool derive(Derivation kind, int64_t length, std::string_view& result) {
        switch (kind) {
            case Derivation::none:
                result = text_;
                return true;
            case Derivation::lower:
                result = lower();
                return true;
            case Derivation::shape:
                result = shape();
                return true;
            case Derivation::stop: {
                const std::string_view key = lower();
                result = stop_words_.find(key.data(), key.size(), hash_of(key)) >= 0 ? "yes" : "no";
                return true;
            }
            case Derivation::prefix:
                return prefix(length, result);
            case Derivation::suffix:
                return suffix(length, result);
        }
        return false;
    }

  private:
    static bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

    bool prefix(int64_t length, std::string_view& result) const {
        size_t end = 0;
        for (int64_t i = 0; i < length; ++i) {
            if (end == text_.size()) return false;
            for (++end; end < text_.size() && continues(text_[end]);) ++end;
        }
        result = text_.substr(0, end);
        return true;
    }

    bool suffix(int64_t length, std::string_view& result) const {
        size_t start = text_.size();
        for (int64_t i = 0; i < length; ++i) {
            if (start == 0) return false;
            for (--start; start > 0 && continues(text_[start]);) --start;
        }
        result = text_.substr(start);
        return true;
    }

    std::string_view lower() {
        if (lowered_) return lower_;
        lowered_ = true;
        if (PyUnicode_IS_ASCII(word_)) {
            lower_.assign(text_);
            for (char& c : lower_)
                if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
            return lower_;
        }
        // The rules of Unicode are Python's.
        nb::object method = nb::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyUnicode_Type), "lower"));
        nb::object made = nb::steal(PyObject_CallOneArg(method.ptr(), word_)), held;
        if (!made.is_valid()) throw nb::python_error();
        lower_.assign(utf8_of(made.ptr(), held));
        return lower_;
    }

    // Capitals as X, small letters as x, digits as d, others as they are, runs cut to two.
    std::string_view shape() {
        shape_.clear();
        const int kind = PyUnicode_KIND(word_);
        const void* data = PyUnicode_DATA(word_);
        Py_UCS4 last = 0, before = 0;
        int64_t marks = 0;
        size_t from = 0;
        for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(word_); ++i) {
            const Py_UCS4 character = PyUnicode_READ(kind, data, i);
            size_t to = from + 1;
            while (to < text_.size() && continues(text_[to])) ++to;
            Py_UCS4 mark = character;
            if (Py_UNICODE_ISDIGIT(character))
                mark = 'd';
            else if (Py_UNICODE_ISALPHA(character))
                mark = Py_UNICODE_ISUPPER(character) ? 'X' : 'x';
            if (marks < 2 || mark != last || mark != before) {
                if (mark == character)
                    shape_.append(text_.substr(from, to - from));
                else
                    shape_.push_back(static_cast<char>(mark));
                before = last;
                last = mark;
                ++marks;
            }
            from = to;
        }
        return shape_;
    }

    const NameTable& stop_words_;
    PyObject* word_ = nullptr;
    nb::object held_word_, held_text_;
    std::string_view text_;
    bool lowered_ = false;
    std::string lower_, shape_;
};

}  // namespace ff

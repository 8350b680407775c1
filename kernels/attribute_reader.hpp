// Reads the attributes of tokens from Python's dicts, lists and sets into codes and values.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "name_table.hpp"

namespace ff {

constexpr int kDepthLimit = 64;
constexpr size_t kBatch = 128;

struct Unreadable {
    std::string message;
};

inline std::string shown(PyObject* object) {
    nb::object text = nb::steal(PyObject_Repr(object));
    const char* utf8 = text.ptr() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
    if (!utf8) {
        PyErr_Clear();
        return "an object that cannot be shown";
    }
    return utf8;
}

// The text of a str or bytes object; it lives as long as the object.
inline bool text_of(PyObject* object, const char*& data, Py_ssize_t& length) {
    if (PyUnicode_Check(object)) {
        data = PyUnicode_AsUTF8AndSize(object, &length);
        if (data) return true;
        PyErr_Clear();
        throw Unreadable{shown(object) + " has a lone surrogate, which is no character"};
    }
    if (!PyBytes_Check(object)) return false;
    data = PyBytes_AS_STRING(object);
    length = PyBytes_GET_SIZE(object);
    return true;
}

class AttributeReader {
  public:
    AttributeReader(NameTable& table, bool grow) : table_(table), grow_(grow) {}

    std::vector<int32_t> codes;
    std::vector<double> values;
    bool ones = true;

    // Look up the names that are waiting. Names are searched in batches because a search waits for memory three times.
    void flush() {
        for (const uint64_t hash : batch_hashes_) table_.prefetch_slot(hash);
        for (const uint64_t hash : batch_hashes_) table_.prefetch_end(hash);
        for (const uint64_t hash : batch_hashes_) table_.prefetch_text(hash);
        size_t start = 0;
        for (size_t i = 0; i < batch_hashes_.size(); ++i) {
            const char* name = batch_text_.data() + start;
            const size_t length = batch_ends_[i] - start;
            codes.push_back(grow_ ? table_.add(name, length, batch_hashes_[i])
                                  : table_.find(name, length, batch_hashes_[i]));
            start = batch_ends_[i];
        }
        batch_text_.clear();
        batch_ends_.clear();
        batch_hashes_.clear();
    }

    void read_token(PyObject* item) {
        name_.clear();
        if (!read_container(item, 0)) throw Unreadable{"a token must be a dict or a list of names; got " + shown(item)};
    }

    // A token that is its own attribute.
    void read_word(PyObject* word) {
        name_.clear();
        read_name(word, 0);
    }

  private:
    void put(double value) {
        batch_text_.append(name_);
        batch_ends_.push_back(batch_text_.size());
        batch_hashes_.push_back(NameTable::hash(name_.data(), name_.size()));
        values.push_back(value);
        if (value != 1.0) ones = false;
        if (batch_hashes_.size() == kBatch) flush();
    }

    void append_name(PyObject* object) {
        const char* data;
        Py_ssize_t length;
        if (!text_of(object, data, length)) throw Unreadable{"an attribute's name must be text; got " + shown(object)};
        name_.append(data, static_cast<size_t>(length));
    }

    // Read a dict, list, tuple or set whose names come after name_; false if it is none of them.
    bool read_container(PyObject* item, int depth) {
        if (depth > kDepthLimit) throw Unreadable{"it is nested deeper than 64 levels"};
        const size_t prefix = name_.size();
        if (PyDict_Check(item)) {
            PyObject *key, *value;
            Py_ssize_t position = 0;
            while (PyDict_Next(item, &position, &key, &value)) {
                // A value's __float__ may run any code, so hold on to what is in use.
                nb::object held_key = nb::borrow(key), held_value = nb::borrow(value);
                append_name(key);
                read_value(value, depth);
                name_.resize(prefix);
            }
            return true;
        }
        if (PyList_Check(item)) {
            for (Py_ssize_t i = 0; i < PyList_GET_SIZE(item); ++i) read_name(PyList_GET_ITEM(item, i), prefix);
            return true;
        }
        if (PyTuple_Check(item)) {
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item); ++i) read_name(PyTuple_GET_ITEM(item, i), prefix);
            return true;
        }
        if (PyAnySet_Check(item)) {
            // A set has another order in every process; features must not.
            nb::object sorted = nb::steal(PySequence_List(item));
            if (!sorted.ptr() || PyList_Sort(sorted.ptr()) != 0) {
                PyErr_Clear();
                throw Unreadable{"an attribute's name must be text; got " + shown(item)};
            }
            return read_container(sorted.ptr(), depth);
        }
        return false;
    }

    void read_name(PyObject* name, size_t prefix) {
        append_name(name);
        put(1.0);
        name_.resize(prefix);
    }

    void read_value(PyObject* value, int depth) {
        const char* data;
        Py_ssize_t length;
        if (text_of(value, data, length)) {
            name_.push_back(':');
            name_.append(data, static_cast<size_t>(length));
            put(1.0);
            return;
        }
        if (PyFloat_CheckExact(value)) {
            put_number(PyFloat_AS_DOUBLE(value));
            return;
        }
        if (PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) || PyAnySet_Check(value)) {
            name_.push_back(':');
            read_container(value, depth + 1);
            return;
        }
        const double number = PyFloat_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            throw Unreadable{"the value of '" + name_ + "' is " + shown(value) + ", neither a number nor text"};
        }
        put_number(number);
    }

    void put_number(double number) {
        if (!std::isfinite(number)) {
            const char* word = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
            throw Unreadable{"the value of '" + name_ + "' is " + word + "; values must be finite"};
        }
        put(number);
    }

    NameTable& table_;
    bool grow_;
    std::string name_, batch_text_;
    std::vector<size_t> batch_ends_;
    std::vector<uint64_t> batch_hashes_;
};

}  // namespace ff

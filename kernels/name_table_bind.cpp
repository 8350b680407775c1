// From Python's dicts and lists of attributes to flat arrays of codes and values: the one kernel that reads objects,
// because the objects are the input and a pass over them in Python takes three times as long.
#include <cmath>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "name_table.hpp"

namespace ff {

namespace {

constexpr int kDepthLimit = 64;
constexpr size_t kBatch = 128;

struct Unreadable {
    std::string message;
};

std::string shown(PyObject* object) {
    nb::object text = nb::steal(PyObject_Repr(object));
    const char* utf8 = text.ptr() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
    if (!utf8) {
        PyErr_Clear();
        return "an object that cannot be shown";
    }
    return utf8;
}

// The text of a str or bytes object; it lives as long as the object.
bool text_of(PyObject* object, const char*& data, Py_ssize_t& length) {
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

class Reader {
  public:
    Reader(NameTable& table, bool grow) : table_(table), grow_(grow) {}

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

template <class T>
nb::object to_array(std::vector<T>&& numbers) {
    auto* kept = new std::vector<T>(std::move(numbers));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// (counts, codes, values or None, failure): failure is None or (token, message).
nb::tuple encode(NameTable& table, nb::list items, bool grow) {
    Reader reader(table, grow);
    std::vector<int64_t> counts;
    nb::object failure = nb::none();
    for (size_t token = 0; token < nb::len(items); ++token) {
        const size_t before = reader.values.size();
        nb::object item = items[token];
        try {
            reader.read_token(item.ptr());
        } catch (const Unreadable& error) {
            nb::object message = nb::steal(
                PyUnicode_DecodeUTF8(error.message.data(), static_cast<Py_ssize_t>(error.message.size()), "replace"));
            failure = nb::make_tuple(token, message);
            break;
        }
        counts.push_back(static_cast<int64_t>(reader.values.size() - before));
    }
    reader.flush();
    nb::object values = reader.ones ? nb::none() : to_array(std::move(reader.values));
    return nb::make_tuple(to_array(std::move(counts)), to_array(std::move(reader.codes)), values, failure);
}

}  // namespace

void bind_name_table(nb::module_& module) {
    nb::class_<NameTable>(module, "NameTable", "Different names with codes in order of arrival.")
        .def(nb::init<>())
        .def("__len__", &NameTable::size)
        .def(
            "add",
            [](NameTable& table, nb::list names) {
                for (size_t i = 0; i < nb::len(names); ++i) {
                    nb::object name = names[i];
                    const char* data;
                    Py_ssize_t length;
                    try {
                        if (!text_of(name.ptr(), data, length)) throw nb::type_error("NameTable.add: names are text");
                    } catch (const Unreadable& error) {
                        throw nb::value_error(error.message.c_str());
                    }
                    table.add(data, static_cast<size_t>(length), NameTable::hash(data, static_cast<size_t>(length)));
                }
            },
            nb::arg("names"), nb::sig("def add(self, names: list[str]) -> None"), "Add the names that are new.")
        .def(
            "names",
            [](const NameTable& table) {
                nb::list names;
                for (int64_t code = 0; code < table.size(); ++code) {
                    nb::object name = nb::steal(
                        PyUnicode_DecodeUTF8(table.text(code), static_cast<Py_ssize_t>(table.length(code)), "replace"));
                    if (!name.ptr()) throw nb::python_error();
                    names.append(name);
                }
                return names;
            },
            nb::sig("def names(self) -> list[str]"), "The names in order of their codes.")
        .def("encode", &encode, nb::arg("items"), nb::arg("grow"),
             nb::sig("def encode(self, items: list[typing.Any], grow: bool) -> tuple[NDArray[numpy.int64], "
                     "NDArray[numpy.int32], NDArray[numpy.float64] | None, tuple[int, str] | None]"),
             "The attributes of each item: (counts, codes, values or None where all are one, failure or None).");
}

}  // namespace ff

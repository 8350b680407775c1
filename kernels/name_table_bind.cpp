// From Python's dicts and lists of attributes to flat arrays of codes and values: the one kernel that reads objects,
// because the objects are the input and a pass over them in Python takes three times as long.
#include <vector>

#include "attribute_reader.hpp"
#include "bindings.hpp"
#include "name_table.hpp"
#include "vector_arrays.hpp"

namespace ff {

namespace {

// (counts, codes, values or None, failure): failure is None or (token, message).
nb::tuple encode(NameTable& table, nb::list items, bool grow) {
    AttributeReader reader(table, grow);
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

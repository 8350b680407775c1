// Bindings of feature templates: texts derived from words, what cells read, and features of whole texts.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <string>

#include "chain_arrays.hpp"
#include "template_encoder.hpp"
#include "vector_arrays.hpp"

namespace ff {

namespace {

NameTable table_of(nb::handle names) {
    NameTable table;
    for (nb::handle name : nb::cast<nb::sequence>(names)) {
        need(PyUnicode_Check(name.ptr()), "TemplateEncoder: values are text");
        nb::object held;
        const std::string_view text = utf8_of(name.ptr(), held);
        table.add(text.data(), text.size(), hash_of(text));
    }
    return table;
}

// The blocks [(templates [[(source, row), …], …], radices, {position: ranks}, keys), …]; `owned` keeps the arrays.
std::vector<TemplateBlock> blocks_of(nb::object given, const std::vector<TemplateSource>& sources, int64_t first,
                                     std::vector<nb::object>& owned) {
    std::vector<TemplateBlock> blocks;
    int64_t start = first;
    const auto table = [&owned](nb::handle array) {
        const auto keys = nb::cast<In<int64_t>>(array);
        owned.push_back(nb::borrow(array));
        return KeyTable(keys.data(), static_cast<int64_t>(keys.shape(0)));
    };
    for (nb::handle item : nb::cast<nb::list>(given)) {
        const nb::tuple parts = nb::cast<nb::tuple>(item);
        need(parts.size() == 4, "TemplateEncoder: a block is (templates, radices, ranks, keys)");
        TemplateBlock block;
        for (nb::handle radix : nb::cast<nb::sequence>(parts[1])) block.radices.push_back(nb::cast<int64_t>(radix));
        block.ranks.resize(block.radices.size());
        for (auto [position, ranks] : nb::cast<nb::dict>(parts[2])) {
            const int64_t place = nb::cast<int64_t>(position);
            need(place >= 1 && place < static_cast<int64_t>(block.ranks.size()),
                 "TemplateEncoder: ranks of no position");
            block.ranks[static_cast<size_t>(place)] = {true, table(ranks)};
        }
        for (nb::handle given_cells : nb::cast<nb::list>(parts[0])) {
            std::vector<TemplateCell> cells;
            for (nb::handle pair : nb::cast<nb::list>(given_cells)) {
                const nb::tuple cell = nb::cast<nb::tuple>(pair);
                cells.push_back({nb::cast<int32_t>(cell[0]), nb::cast<int32_t>(cell[1])});
                need(cells.back().source >= 0 && cells.back().source < static_cast<int32_t>(sources.size()),
                     "TemplateEncoder: a cell of no source");
            }
            need(cells.size() <= block.radices.size(), "TemplateEncoder: a radix for each cell");
            block.templates.push_back(std::move(cells));
        }
        block.keys = table(parts[3]);
        block.start = static_cast<int32_t>(start);
        start += block.keys.size();
        need(start <= INT32_MAX, "TemplateEncoder: more than 2^31 features");
        blocks.push_back(std::move(block));
    }
    return blocks;
}

TemplateEncoder make(nb::object given_sources, nb::object stop_words, int64_t reach, int64_t n_columns,
                     nb::object states, nb::object pairs) {
    std::vector<TemplateSource> sources;
    std::vector<int64_t> sizes;
    for (nb::handle item : nb::cast<nb::list>(given_sources)) {
        const nb::tuple parts = nb::cast<nb::tuple>(item);
        need(parts.size() == 4, "TemplateEncoder: a source is (column, derivation, length, values)");
        sources.push_back({nb::cast<int64_t>(parts[0]), nb::cast<Derivation>(parts[1]), nb::cast<int64_t>(parts[2]),
                           table_of(parts[3])});
        need(sources.back().column >= 0, "TemplateEncoder: columns are counted from 0");
        sizes.push_back(sources.back().vocabulary.size());
    }
    std::vector<nb::object> owned;
    TemplateFeatures of_states(blocks_of(states, sources, 0, owned), sizes, reach);
    TemplateFeatures of_pairs(blocks_of(pairs, sources, of_states.size(), owned), sizes, reach);
    return TemplateEncoder(std::move(sources), table_of(stop_words), n_columns, std::move(of_states),
                           std::move(of_pairs), std::move(owned));
}

// The codes of words in a source.
nb::object codes_of(const TemplateEncoder& encoder, size_t source, nb::sequence words) {
    need(source < encoder.sources().size(), "TemplateEncoder.codes: there is no such source");
    DerivedText word(encoder.stop_words());
    std::vector<int32_t> codes;
    codes.reserve(nb::len(words));
    for (nb::handle item : words) {
        need(PyUnicode_Check(item.ptr()), "TemplateEncoder.codes: words are text");
        word.set(item.ptr());
        codes.push_back(encoder.sources()[source].code(word));
    }
    return to_array(std::move(codes));
}

// (indptr, indices) of the features of a text, given as codes in each source.
nb::tuple features_of(const TemplateEncoder& encoder, In<int64_t> offsets, nb::list codes, bool states, bool pairs) {
    const int64_t n = static_cast<int64_t>(offsets.shape(0)) - 1;
    need(n >= 0 && nb::len(codes) == encoder.sources().size(), "TemplateEncoder.features: codes of each source");
    const int64_t n_tokens = offsets.data()[n];
    check_pointers(offsets, n, n_tokens, "TemplateEncoder.features: offsets must rise from 0");
    std::vector<In<int32_t>> arrays;
    for (nb::handle item : codes) {
        arrays.push_back(nb::cast<In<int32_t>>(item));
        need(static_cast<int64_t>(arrays.back().shape(0)) == n_tokens,
             "TemplateEncoder.features: a code for each token");
    }
    TemplateRoom room;
    room.sources.resize(arrays.size());
    std::vector<int64_t> indptr{0};
    std::vector<int32_t> indices;
    indptr.reserve(static_cast<size_t>(n_tokens) + 1);
    const auto put = [&indices](int32_t code) { indices.push_back(code); };
    for (int64_t s = 0; s < n; ++s) {
        const int64_t first = offsets.data()[s], length = offsets.data()[s + 1] - first;
        for (size_t i = 0; i < arrays.size(); ++i) room.sources[i] = arrays[i].data() + first;
        const CodedSentence sentence{room.sources.data(), length};
        for (int64_t t = 0; t < length; ++t) {
            if (states) encoder.states().visit(sentence, t, room.keys, put);
            if (pairs && t > 0) encoder.pairs().visit(sentence, t, room.keys, put);
            indptr.push_back(static_cast<int64_t>(indices.size()));
        }
    }
    return nb::make_tuple(to_array(std::move(indptr)), to_array(std::move(indices)));
}

}  // namespace

void bind_template_encoder(nb::module_& module) {
    nb::enum_<Derivation>(module, "Derivation", "How a text is made from a word.")
        .value("none", Derivation::none)
        .value("lower", Derivation::lower)
        .value("shape", Derivation::shape)
        .value("stop", Derivation::stop)
        .value("prefix", Derivation::prefix)
        .value("suffix", Derivation::suffix);
    module.def(
        "derive_texts",
        [](Derivation kind, int64_t length, nb::sequence words, nb::object stop_words) {
            const NameTable stops = table_of(stop_words);
            DerivedText word(stops);
            nb::list result;
            for (nb::handle item : words) {
                need(PyUnicode_Check(item.ptr()), "derive_texts: words are text");
                word.set(item.ptr());
                std::string_view text;
                if (word.derive(kind, length, text))
                    result.append(str_of(text));
                else
                    result.append(nb::none());
            }
            return result;
        },
        nb::arg("kind"), nb::arg("length"), nb::arg("words"), nb::arg("stop_words"),
        nb::sig("def derive_texts(kind: Derivation, length: int, words: collections.abc.Sequence[str], stop_words: "
                "collections.abc.Sequence[str]) -> list[str | None]"),
        "The derived text of each word; None where it has none (a prefix longer than the word).");
    module.def(
        "cell_codes",
        [](In<int64_t> offsets, In<int32_t> codes, int64_t row, int64_t size, int64_t reach) {
            const int64_t n = static_cast<int64_t>(offsets.shape(0)) - 1;
            need(n >= 0, "cell_codes: offsets has no entry");
            check_pointers(offsets, n, static_cast<int64_t>(codes.shape(0)),
                           "cell_codes: offsets must rise to the codes");
            std::vector<int32_t> read;
            read.reserve(codes.shape(0));
            for (int64_t s = 0; s < n; ++s) {
                const int64_t first = offsets.data()[s], length = offsets.data()[s + 1] - first;
                for (int64_t t = 0; t < length; ++t)
                    read.push_back(static_cast<int32_t>(cell_code(codes.data() + first, length, t, row, size, reach)));
            }
            return to_array(std::move(read));
        },
        nb::arg("offsets"), nb::arg("codes"), nb::arg("row"), nb::arg("size"), nb::arg("reach"),
        nb::sig("def cell_codes(offsets: NDArray[numpy.int64], codes: NDArray[numpy.int32], row: int, size: int, "
                "reach: int)"
                " -> NDArray[numpy.int32]"),
        "The code that a cell reads at each token: that of the token `row` places away, or one from `size` on where "
        "this "
        "is outside the sentence.");
    nb::class_<TemplateEncoder>(module, "TemplateEncoder", "Codes of features of sentences, from templates.")
        .def(nb::new_(&make), nb::kw_only(), nb::arg("sources"), nb::arg("stop_words"), nb::arg("reach"),
             nb::arg("n_columns"), nb::arg("states"), nb::arg("pairs"))
        .def("codes", &codes_of, nb::arg("source"), nb::arg("words"),
             nb::sig("def codes(self, source: int, words: collections.abc.Sequence[str]) -> NDArray[numpy.int32]"),
             "The code of each word's value in a source, -1 where it does not occur in training.")
        .def("features", &features_of, nb::arg("offsets"), nb::arg("codes"), nb::arg("states"), nb::arg("pairs"),
             nb::sig(
                 "def features(self, offsets: NDArray[numpy.int64], codes: list[NDArray[numpy.int32]], states: bool, "
                 "pairs: bool) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32]]"),
             "(indptr, indices) of the features of a text, given as codes of its tokens in each source.");
}

}  // namespace ff

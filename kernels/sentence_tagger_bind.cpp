// One sentence from attributes or columns to labels in one call, for services that tag one at a time.
#include <vector>

#include "attribute_reader.hpp"
#include "sentence_scorer.hpp"
#include "template_encoder.hpp"

namespace ff {

namespace {

// Reads a list of dicts, lists, sets or words.
class AttributeSentences {
  public:
    explicit AttributeSentences(nb::object table) : owner_(table), table_(nb::cast<NameTable&>(table)) {}

    int64_t n_features() const { return table_.size(); }

    // The labels, or None where the sentence is not a list of readable tokens.
    nb::object tag(nb::object sentence, const SentenceScorer& scorer) const {
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
        return scorer.best(reader.codes, reader.values.data(), ends);
    }

  private:
    nb::object owner_;  // of the table
    NameTable& table_;
};

// Reads a list of words or rows, to which templates apply.
class TemplateSentences {
  public:
    explicit TemplateSentences(nb::object encoder) : owner_(encoder), encoder_(nb::cast<TemplateEncoder&>(encoder)) {}

    int64_t n_features() const { return encoder_.n_features(); }

    nb::object tag(nb::object sentence, const SentenceScorer& scorer) const {
        TemplateRoom room;
        if (!encoder_.read(sentence.ptr(), room)) return nb::none();
        const int64_t n = room.length;
        std::vector<int32_t> codes;
        std::vector<size_t> ends;
        const auto put = [&codes](int32_t code) { codes.push_back(code); };
        const CodedSentence coded{room.sources.data(), n};
        for (int64_t t = 0; t < n; ++t) {
            encoder_.states().visit(coded, t, room.keys, put);
            if (t > 0) encoder_.pairs().visit(coded, t, room.keys, put);
            ends.push_back(codes.size());
        }
        return scorer.best(codes, nullptr, ends);
    }

  private:
    nb::object owner_;  // of the encoder
    const TemplateEncoder& encoder_;
};

template <class Sentences>
class SentenceTagger {
  public:
    SentenceTagger(nb::object reader, nb::object names, In<double> state, In2<double> transitions, In<double> base,
                   In<double> start, In<double> end, Maybe<int64_t> pair_ptr, Maybe<int32_t> pair_labels,
                   Maybe<double> columns, Maybe<int64_t> column_ptr, Maybe<int32_t> column_places)
        : sentences_(reader),
          scorer_(sentences_.n_features(), names, state, transitions, base, start, end, pair_ptr, pair_labels, columns,
                  column_ptr, column_places) {}

    nb::object tag(nb::object sentence) const { return sentences_.tag(sentence, scorer_); }

  private:
    Sentences sentences_;
    SentenceScorer scorer_;
};

template <class Sentences>
void bind_tagger(nb::module_& module, const char* name, const char* about) {
    using Tagger = SentenceTagger<Sentences>;
    nb::class_<Tagger>(module, name, about)
        .def(nb::init<nb::object, nb::object, In<double>, In2<double>, In<double>, In<double>, In<double>,
                      Maybe<int64_t>, Maybe<int32_t>, Maybe<double>, Maybe<int64_t>, Maybe<int32_t>>(),
             nb::kw_only(), nb::arg("reader"), nb::arg("names"), nb::arg("state"), nb::arg("transitions"),
             nb::arg("base"), nb::arg("start"), nb::arg("end"), nb::arg("pair_ptr").none(),
             nb::arg("pair_labels").none(), nb::arg("columns").none(), nb::arg("column_ptr").none(),
             nb::arg("column_places").none())
        .def("tag", &Tagger::tag, nb::arg("sentence"),
             nb::sig("def tag(self, sentence: typing.Any) -> list[typing.Any] | None"),
             "The best labels of a list of tokens; None where it is not one, or a token cannot be read.");
}

}  // namespace

void bind_sentence_tagger(nb::module_& module) {
    bind_tagger<AttributeSentences>(module, "AttributeTagger", "Labels of single sentences from their attributes.");
    bind_tagger<TemplateSentences>(module, "TemplateTagger", "Labels of single sentences from their columns.");
}

}  // namespace ff

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "interruption.hpp"
#include "missing_rows.hpp"
#include "team.hpp"

namespace ff {

namespace {

using Maybe = std::optional<In2<double>>;

// What a call writes, for all rows: see MissingRow.
struct Results {
    Out<double> value;
    Out2<double> turned;
    Out<double> ones, both;
    Out2<double> cross;

    void check(const Checks& checks, size_t n, size_t m, size_t missing, size_t squares) const {
        checks.length("value", value.shape(0), n);
        checks.length("turned", turned.shape(0), n);
        checks.length("a row of turned", turned.shape(1), m);
        checks.length("ones", ones.shape(0), missing);
        checks.length("both", both.shape(0), squares);
        checks.length("cross", cross.shape(0), missing);
        checks.length("a row of cross", cross.shape(1), m);
    }
};

}  // namespace

void bind_missing_rows(nb::module_& module) {
    module.attr("MOST_MISSING") = most_missing;
    module.def(
        "missing_rows",
        [](In2<uint8_t> codes, In<int64_t> pointer, In<int32_t> missing, In2<double> weights, In2<double> field,
           In2<double> scale, Maybe weights_tangent, Maybe field_tangent, Out<double> value, Out2<double> turned,
           Out<double> ones, Out<double> both, Out2<double> cross, std::optional<Out<double>> value_tangent,
           std::optional<Out2<double>> turned_tangent, std::optional<Out<double>> ones_tangent,
           std::optional<Out<double>> both_tangent, std::optional<Out2<double>> cross_tangent, int n_threads) {
            const Checks checks("missing_rows");
            checks.threads(n_threads);
            const size_t n = codes.shape(0), m = codes.shape(1);
            checks.length("pointer", pointer.shape(0), n + 1);
            const int64_t all = checks.pointers("pointer", pointer.data(), static_cast<int64_t>(n));
            checks.length("missing", missing.shape(0), static_cast<size_t>(all));
            checks.within("missing variables must exist", missing.data(), all, 0, static_cast<int64_t>(m));
            std::vector<int64_t> square(n + 1, 0);
            int64_t widest = 0;
            for (size_t i = 0; i < n; ++i) {
                const int64_t k = pointer.data()[i + 1] - pointer.data()[i];
                square[i + 1] = square[i] + k * k;
                widest = std::max(widest, k);
            }
            checks.require(widest <= most_missing, "a row misses too many variables");
            checks.length("weights", weights.shape(0), m);
            checks.length("a row of weights", weights.shape(1), m);
            checks.length("field", field.shape(0), n);
            checks.length("a row of field", field.shape(1), m);
            checks.length("scale", scale.shape(0), n);
            checks.length("a row of scale", scale.shape(1), m);
            const Results plain{value, turned, ones, both, cross};
            plain.check(checks, n, m, static_cast<size_t>(all), static_cast<size_t>(square[n]));
            const bool directed = weights_tangent.has_value();
            checks.require(directed == field_tangent.has_value() && directed == value_tangent.has_value() &&
                               directed == turned_tangent.has_value() && directed == ones_tangent.has_value() &&
                               directed == both_tangent.has_value() && directed == cross_tangent.has_value(),
                           "give all tangents or none");
            std::optional<Results> tangent;
            if (directed) {
                checks.length("weights_tangent", weights_tangent->shape(0), m);
                checks.length("a row of weights_tangent", weights_tangent->shape(1), m);
                checks.length("field_tangent", field_tangent->shape(0), n);
                checks.length("a row of field_tangent", field_tangent->shape(1), m);
                tangent = Results{*value_tangent, *turned_tangent, *ones_tangent, *both_tangent, *cross_tangent};
                tangent->check(checks, n, m, static_cast<size_t>(all), static_cast<size_t>(square[n]));
            }
            nb::gil_scoped_release release;
            const int64_t size = missing_scratch(widest, directed), rows = static_cast<int64_t>(n);
            // Threads have tables of their own: as many threads as fit into most_scratch, and at least one.
            const int64_t useful = std::min(std::max<int64_t>(1, rows), std::max<int64_t>(1, most_scratch / size));
            const int threads = static_cast<int>(std::min<int64_t>(n_threads, useful));
            std::vector<double> scratch(static_cast<size_t>(threads * size));
            Interruption interruption;
            for_each_task(rows, threads, [&](int64_t i) {
                if (interruption.asked()) return;
                const int64_t width = static_cast<int64_t>(m), at = pointer.data()[i];
                MissingRow row{};
                row.m = width;
                row.k = pointer.data()[i + 1] - at;
                row.codes = codes.data() + i * width;
                row.missing = missing.data() + at;
                row.weights = weights.data();
                row.field = field.data() + i * width;
                row.scale = scale.data() + i * width;
                row.scratch = scratch.data() + thread_number() * size;
                const int64_t pairs = square[static_cast<size_t>(i)];
                row.value = plain.value.data() + i;
                row.turned = plain.turned.data() + i * width;
                row.ones = plain.ones.data() + at;
                row.both = plain.both.data() + pairs;
                row.cross = plain.cross.data() + at * width;
                if (directed) {
                    row.weights_tangent = weights_tangent->data();
                    row.field_tangent = field_tangent->data() + i * width;
                    row.value_tangent = tangent->value.data() + i;
                    row.turned_tangent = tangent->turned.data() + i * width;
                    row.ones_tangent = tangent->ones.data() + at;
                    row.both_tangent = tangent->both.data() + pairs;
                    row.cross_tangent = tangent->cross.data() + at * width;
                }
                FF_CALL(missing_row)(row);
            });
            interruption.raise();
        },
        nb::kw_only(), nb::arg("codes"), nb::arg("pointer"), nb::arg("missing"), nb::arg("weights"), nb::arg("field"),
        nb::arg("scale"), nb::arg("weights_tangent").none(), nb::arg("field_tangent").none(),
        nb::arg("value").noconvert(), nb::arg("turned").noconvert(), nb::arg("ones").noconvert(),
        nb::arg("both").noconvert(), nb::arg("cross").noconvert(), nb::arg("value_tangent").noconvert().none(),
        nb::arg("turned_tangent").noconvert().none(), nb::arg("ones_tangent").noconvert().none(),
        nb::arg("both_tangent").noconvert().none(), nb::arg("cross_tangent").noconvert().none(), nb::arg("n_threads"),
        "PL1 of rows with missing values: what values, gradients and, with tangents, Hessian products are made of.");
}

}  // namespace ff

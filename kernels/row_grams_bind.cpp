#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "row_grams.hpp"
#include "team.hpp"

namespace ff {

void bind_row_grams(nb::module_& module) {
    module.def(
        "list_code_pairs",
        [](In2<uint8_t> codes, In2<int64_t> place, Out<int32_t> indptr, Out<int32_t> rows) {
            const Checks checks("list_code_pairs");
            const size_t n = codes.shape(0), m = codes.shape(1);
            checks.require(indptr.shape(0) >= 1, "indptr must not be empty");
            checks.require(place.shape(0) == m && place.shape(1) == m, "place must be variables by variables");
            const int64_t lists = static_cast<int64_t>(indptr.shape(0)) - 1;
            checks.within("a pair has no list", place.data(), static_cast<int64_t>(m * m), 0, lists);
            std::vector<int32_t> next(indptr.shape(0));
            std::vector<int64_t> ones;
            ones.reserve(m);
            const auto for_each_pair = [&](const auto& body) {
                for (size_t i = 0; i < n; ++i) {
                    ones.clear();
                    for (size_t j = 0; j < m; ++j)
                        if (codes.data()[i * m + j]) ones.push_back(static_cast<int64_t>(j));
                    for (size_t a = 0; a < ones.size(); ++a)
                        for (size_t b = a; b < ones.size(); ++b)
                            body(i, place.data()[ones[a] * static_cast<int64_t>(m) + ones[b]]);
                }
            };
            size_t total = 0;
            for_each_pair([&](size_t, int64_t pair) {
                ++next[static_cast<size_t>(pair) + 1];
                ++total;
            });
            checks.length("rows", rows.shape(0), total);
            for (size_t k = 1; k < next.size(); ++k) next[k] += next[k - 1];
            std::copy(next.begin(), next.end(), indptr.data());
            for_each_pair([&](size_t i, int64_t pair) {
                rows.data()[next[static_cast<size_t>(pair)]++] = static_cast<int32_t>(i);
            });
        },
        nb::kw_only(), nb::arg("codes"), nb::arg("place"), nb::arg("indptr").noconvert(), nb::arg("rows").noconvert(),
        "List the rows of codes in which both of two codes are not 0, for each number of place (variables, "
        "variables).");
    module.def(
        "row_grams",
        [](In2<double> x, In<int32_t> indptr, In<int32_t> rows, Out<double> out, int n_threads) {
            const Checks checks("row_grams");
            checks.threads(n_threads);
            checks.require(indptr.shape(0) >= 1, "indptr must not be empty");
            const size_t width = x.shape(1), lists = indptr.shape(0) - 1;
            checks.require(width > 0 && width % GRAM_TILE == 0 && width <= GRAM_NUMBERS,
                           "the width must be a multiple of 8, from 8 to 4096");
            checks.length("out", out.shape(0), lists * width * width);
            const int64_t listed = checks.pointers("indptr", indptr.data(), static_cast<int64_t>(lists));
            checks.length("rows", rows.shape(0), static_cast<size_t>(listed));
            checks.within("a row does not exist", rows.data(), listed, 0, static_cast<int64_t>(x.shape(0)));
            nb::gil_scoped_release release;
            const auto run = FF_CALL(row_gram);
            for_each_task(static_cast<int64_t>(lists), n_threads, [&](int64_t list) {
                run(x.data(), static_cast<int64_t>(width), rows.data() + indptr.data()[list],
                    indptr.data()[list + 1] - indptr.data()[list],
                    out.data() + static_cast<size_t>(list) * width * width);
            });
        },
        nb::kw_only(), nb::arg("x"), nb::arg("indptr"), nb::arg("rows"), nb::arg("out").noconvert(),
        nb::arg("n_threads"),
        "Add the sum of x x' over the rows of x in each list to out (lists, width, width), each list by one thread.");
}

}  // namespace ff

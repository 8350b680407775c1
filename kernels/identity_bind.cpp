#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "identity.hpp"
#include "team.hpp"

namespace ff {

void bind_identity(nb::module_& module) {
    module.def(
        "count_neighbours",
        [](In2<uint8_t> codes, int64_t least, Out<int64_t> out, int n_threads) {
            const int64_t n = static_cast<int64_t>(codes.shape(0)), columns = static_cast<int64_t>(codes.shape(1));
            if (static_cast<int64_t>(out.shape(0)) != n)
                throw nb::value_error("count_neighbours: out needs one number for each sequence");
            if (n_threads < 1) throw nb::value_error("count_neighbours: there must be at least one thread");
            nb::gil_scoped_release release;
            const int64_t padded = (columns + identity_width - 1) / identity_width * identity_width;
            std::vector<uint8_t> left(static_cast<size_t>(n * padded), 254),
                right(static_cast<size_t>(n * padded), 255);
            for (int64_t i = 0; i < n; ++i) {
                std::copy_n(codes.data() + i * columns, columns, left.data() + i * padded);
                std::copy_n(codes.data() + i * columns, columns, right.data() + i * padded);
            }
            constexpr int64_t block = 64;
            const int64_t blocks = (n + block - 1) / block;
            for_each_task(blocks, n_threads, [&](int64_t b) {
                FF_CALL(count_neighbours)
                (left.data(), right.data(), n, padded, least, b * block, std::min((b + 1) * block, n), out.data());
            });
        },
        nb::arg("codes"), nb::arg("least"), nb::arg("out").noconvert(), nb::arg("n_threads"),
        "Set out[i] to the number of rows of codes that equal row i in at least `least` columns, itself included.");
}

}  // namespace ff

// Uniform numbers keyed by (seed, stream, row): what Python needs of the counter-based generator.
#include "bindings.hpp"
#include "philox.hpp"

namespace ff {

void bind_random(nb::module_& module) {
    module.def(
        "uniforms",
        [](uint64_t seed, uint32_t stream, In<int64_t> rows, Out2<double> out) {
            if (out.shape(0) != rows.shape(0)) throw nb::value_error("uniforms: out needs one line for each row");
            const int64_t* row = rows.data();
            double* value = out.data();
            const int64_t n = static_cast<int64_t>(rows.shape(0)), width = static_cast<int64_t>(out.shape(1));
            nb::gil_scoped_release release;
            for (int64_t i = 0; i < n; ++i) {
                Philox random(seed, stream, static_cast<uint64_t>(row[i]));
                for (int64_t j = 0; j < width; ++j) value[i * width + j] = random.next();
            }
        },
        nb::arg("seed"), nb::arg("stream"), nb::arg("rows"), nb::arg("out"),
        "Fill out[i, :] with uniforms on (0, 1) keyed by (seed, stream, rows[i]).");
}

}  // namespace ff

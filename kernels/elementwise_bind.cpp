#include "bindings.hpp"
#include "elementwise.hpp"

namespace ff {

void bind_elementwise(nb::module_& module) {
    module.def(
        "exp_array",
        [](In<double> x, Out<double> out) {
            if (out.shape(0) != x.shape(0)) throw nb::value_error("exp_array: x and out differ in length");
            nb::gil_scoped_release release;
            FF_CALL(exp_array)(x.data(), out.data(), static_cast<int64_t>(x.shape(0)));
        },
        nb::arg("x"), nb::arg("out"), "out = exp(x), within 2 ulp.");
    module.def(
        "log_array",
        [](In<double> x, Out<double> out) {
            if (out.shape(0) != x.shape(0)) throw nb::value_error("log_array: x and out differ in length");
            nb::gil_scoped_release release;
            FF_CALL(log_array)(x.data(), out.data(), static_cast<int64_t>(x.shape(0)));
        },
        nb::arg("x"), nb::arg("out"), "out = log(x), within 2 ulp.");
}

}  // namespace ff

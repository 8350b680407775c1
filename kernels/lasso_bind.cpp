#include <string>
#include <vector>

#include "bindings.hpp"
#include "lasso.hpp"

namespace ff {

void bind_lasso(nb::module_& module) {
    module.def(
        "lasso_descent",
        [](In<double> gradient, In<double> scale, In2<double> left, In2<double> right, In<double> curvature,
           In<double> point, In<double> l1, int64_t limit, double tol, Out<double> step, Out<double> products) {
            const size_t n = gradient.shape(0), k = left.shape(1);
            const auto need = [](const char* name, size_t given, size_t wanted) {
                if (given != wanted)
                    throw nb::value_error((std::string("lasso_descent: ") + name + " has " + std::to_string(given) +
                                           " entries where " + std::to_string(wanted) + " are needed")
                                              .c_str());
            };
            need("scale", scale.shape(0), n);
            need("left", left.shape(0), n);
            need("right", right.shape(0), n);
            need("a row of right", right.shape(1), k);
            need("curvature", curvature.shape(0), n);
            need("point", point.shape(0), n);
            need("l1", l1.shape(0), n);
            need("step", step.shape(0), n);
            need("products", products.shape(0), k);
            for (size_t i = 0; i < n; ++i)
                if (!(curvature.data()[i] > 0)) throw nb::value_error("lasso_descent: curvature must be positive");
            const LassoModel model{gradient.data(),        scale.data(), left.data(), right.data(),
                                   curvature.data(),       point.data(), l1.data(),   static_cast<int64_t>(n),
                                   static_cast<int64_t>(k)};
            nb::gil_scoped_release release;
            std::vector<int64_t> active(n);
            return FF_CALL(lasso_descent)(model, limit, tol, step.data(), products.data(), active.data());
        },
        nb::arg("gradient"), nb::arg("scale"), nb::arg("left"), nb::arg("right"), nb::arg("curvature"),
        nb::arg("point"), nb::arg("l1"), nb::arg("limit"), nb::arg("tol"), nb::arg("step").noconvert(),
        nb::arg("products").noconvert(),
        "Lower g.d + d'Bd/2 + sum l1 |x + d| with B = diag(scale) - left right' over the step d, in place, by "
        "coordinate "
        "descent; returns the passes. products = right' step on entry and exit.");
}

}  // namespace ff

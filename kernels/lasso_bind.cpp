#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "lasso.hpp"

namespace ff {

void bind_lasso(nb::module_& module) {
    module.def(
        "lasso_descent",
        [](In<double> gradient, In<double> scale, In2<double> left, In2<double> right, In<double> curvature,
           In<double> point, In<double> l1, int64_t limit, double tol, Out<double> step, Out<double> products) {
            const size_t n = gradient.shape(0), k = left.shape(1);
            const Checks checks("lasso_descent");
            checks.length("scale", scale.shape(0), n);
            checks.length("left", left.shape(0), n);
            checks.length("right", right.shape(0), n);
            checks.length("a row of right", right.shape(1), k);
            checks.length("curvature", curvature.shape(0), n);
            checks.length("point", point.shape(0), n);
            checks.length("l1", l1.shape(0), n);
            checks.length("step", step.shape(0), n);
            checks.length("products", products.shape(0), k);
            for (size_t i = 0; i < n; ++i)
                if (!(curvature.data()[i] > 0)) throw nb::value_error("lasso_descent: curvature must be positive");
            const LassoModel model{gradient.data(),        scale.data(), left.data(), right.data(),
                                   curvature.data(),       point.data(), l1.data(),   static_cast<int64_t>(n),
                                   static_cast<int64_t>(k)};
            nb::gil_scoped_release release;
            std::vector<int64_t> active(n);
            return FF_CALL(lasso_descent)(model, limit, tol, step.data(), products.data(), active.data());
        },
        nb::kw_only(), nb::arg("gradient"), nb::arg("scale"), nb::arg("left"), nb::arg("right"), nb::arg("curvature"),
        nb::arg("point"), nb::arg("l1"), nb::arg("limit"), nb::arg("tol"), nb::arg("step").noconvert(),
        nb::arg("products").noconvert(),
        "Lower g.d + d'Bd/2 + sum l1 |x + d| with B = diag(scale) - left right' over the step d, in place, by "
        "coordinate "
        "descent; returns the passes. products = right' step on entry and exit.");
}

}  // namespace ff

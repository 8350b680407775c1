#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "vectors.hpp"

namespace ff {

namespace {

using Maybe = std::optional<In<double>>;

void need_length(const char* function, const char* name, size_t given, int64_t wanted) {
    Checks(function).length(name, given, static_cast<size_t>(wanted));
}

const double* pointer(const char* function, const char* name, const Maybe& array, int64_t n) {
    if (!array) return nullptr;
    need_length(function, name, array->shape(0), n);
    return array->data();
}

int need_threads(const char* function, int threads) {
    Checks(function).threads(threads);
    return threads;
}

template <class T>
void bind_history(nb::module_& module) {
    module.def(
        "append_pair",
        [](In<double> new_point, In<double> old_point, In<double> change, In<double> search_gradient, Maybe diagonal,
           Maybe image, Out2<T> steps, Out2<T> changes, int64_t used, int64_t slot, Out2<double> sums, int n_threads) {
            const char* name = "append_pair";
            const int64_t n = static_cast<int64_t>(new_point.shape(0));
            need_length(name, "old_point", old_point.shape(0), n);
            need_length(name, "change", change.shape(0), n);
            need_length(name, "search_gradient", search_gradient.shape(0), n);
            need_length(name, "a row of steps", steps.shape(1), n);
            need_length(name, "a row of changes", changes.shape(1), n);
            need_length(name, "changes", changes.shape(0), static_cast<int64_t>(steps.shape(0)));
            if (used < 1 || used > static_cast<int64_t>(steps.shape(0)) || slot < 0 || slot >= used)
                throw nb::value_error("append_pair: 0 <= slot < used <= rows of the history is needed");
            if (static_cast<int64_t>(sums.shape(0)) < used || sums.shape(1) != 4)
                throw nb::value_error("append_pair: sums must have 4 columns and a row for each used row");
            const PairSource source{new_point.data(),
                                    old_point.data(),
                                    change.data(),
                                    search_gradient.data(),
                                    pointer(name, "diagonal", diagonal, n),
                                    pointer(name, "image", image, n)};
            const int threads = need_threads(name, n_threads);
            nb::gil_scoped_release release;
            std::vector<double> partial(static_cast<size_t>(vector_chunks(n) * used * 4));
            if constexpr (sizeof(T) == 4) FF_CALL(append_pair_float)
            (source, steps.data(), changes.data(), n, used, slot, partial.data(), sums.data(), threads);
            else FF_CALL(append_pair_double)(source, steps.data(), changes.data(), n, used, slot, partial.data(),
                                             sums.data(), threads);
        },
        nb::kw_only(), nb::arg("new_point"), nb::arg("old_point"), nb::arg("change"), nb::arg("search_gradient"),
        nb::arg("diagonal").none(), nb::arg("image").none(), nb::arg("steps").noconvert(),
        nb::arg("changes").noconvert(), nb::arg("used"), nb::arg("slot"), nb::arg("sums").noconvert(),
        nb::arg("n_threads"),
        "Write the pair s, u = M^-1 y into row `slot`; sums[i] = s_i.y, u_i.y, s_i.q, u_i.q for the used rows.");
    module.def(
        "combine_rows",
        [](In<double> point, In<double> search_gradient, Maybe diagonal, Maybe image,
           nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> steps,
           nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu> changes, In<double> step_weight,
           In<double> change_weight, double scale, double step, Out<double> direction, Out<double> trial,
           int n_threads) {
            const char* name = "combine_rows";
            const int64_t n = static_cast<int64_t>(point.shape(0)), used = static_cast<int64_t>(step_weight.shape(0));
            need_length(name, "search_gradient", search_gradient.shape(0), n);
            need_length(name, "a row of steps", steps.shape(1), n);
            need_length(name, "a row of changes", changes.shape(1), n);
            need_length(name, "change_weight", change_weight.shape(0), used);
            need_length(name, "direction", direction.shape(0), n);
            need_length(name, "trial", trial.shape(0), n);
            if (used > static_cast<int64_t>(steps.shape(0)) || used > static_cast<int64_t>(changes.shape(0)))
                throw nb::value_error("combine_rows: there are more weights than rows of the history");
            const Combination how{point.data(),
                                  search_gradient.data(),
                                  pointer(name, "diagonal", diagonal, n),
                                  pointer(name, "image", image, n),
                                  step_weight.data(),
                                  change_weight.data(),
                                  scale,
                                  step};
            const int threads = need_threads(name, n_threads);
            nb::gil_scoped_release release;
            std::vector<double> partial(static_cast<size_t>(vector_chunks(n)));
            if constexpr (sizeof(T) == 4)
                return FF_CALL(combine_rows_float)(how, steps.data(), changes.data(), n, used, direction.data(),
                                                   trial.data(), partial.data(), threads);
            else
                return FF_CALL(combine_rows_double)(how, steps.data(), changes.data(), n, used, direction.data(),
                                                    trial.data(), partial.data(), threads);
        },
        nb::kw_only(), nb::arg("point"), nb::arg("search_gradient"), nb::arg("diagonal").none(),
        nb::arg("image").none(), nb::arg("steps").noconvert(), nb::arg("changes").noconvert(), nb::arg("step_weight"),
        nb::arg("change_weight"), nb::arg("scale"), nb::arg("step"), nb::arg("direction").noconvert(),
        nb::arg("trial").noconvert(), nb::arg("n_threads"),
        "direction = -(scale M^-1 q + sum of weighted rows), trial = point + step direction; gives q.direction.");
}

}  // namespace

void bind_vectors(nb::module_& module) {
    bind_history<float>(module);
    bind_history<double>(module);
    module.def(
        "step_along",
        [](In<double> point, In<double> direction, double step, Out<double> trial, int n_threads) {
            const int64_t n = static_cast<int64_t>(point.shape(0));
            need_length("step_along", "direction", direction.shape(0), n);
            need_length("step_along", "trial", trial.shape(0), n);
            const int threads = need_threads("step_along", n_threads);
            nb::gil_scoped_release release;
            FF_CALL(step_along)(point.data(), direction.data(), step, n, trial.data(), threads);
        },
        nb::arg("point"), nb::arg("direction").noconvert(), nb::arg("step"), nb::kw_only(),
        nb::arg("trial").noconvert(), nb::arg("n_threads"), "trial = point + step direction.");
    module.def(
        "keep_gradient",
        [](In<double> gradient, Maybe direction, Out<double> kept, int n_threads) {
            const int64_t n = static_cast<int64_t>(gradient.shape(0));
            need_length("keep_gradient", "kept", kept.shape(0), n);
            const double* d = pointer("keep_gradient", "direction", direction, n);
            const int threads = need_threads("keep_gradient", n_threads);
            double sums[3];
            {
                nb::gil_scoped_release release;
                std::vector<double> partial(static_cast<size_t>(vector_chunks(n) * 3));
                FF_CALL(keep_gradient)(gradient.data(), d, n, kept.data(), partial.data(), sums, threads);
            }
            return std::make_tuple(sums[0], sums[1], sums[2] == 0.0);
        },
        nb::arg("gradient"), nb::arg("direction").none(), nb::kw_only(), nb::arg("kept").noconvert(),
        nb::arg("n_threads"),
        "Copy the gradient; gives gradient.direction, max |gradient| and whether all entries are finite.");
    module.def(
        "pseudo_gradient",
        [](In<double> point, In<double> gradient, In<double> l1, Out<double> pseudo, int n_threads) {
            const int64_t n = static_cast<int64_t>(point.shape(0));
            need_length("pseudo_gradient", "gradient", gradient.shape(0), n);
            need_length("pseudo_gradient", "l1", l1.shape(0), n);
            need_length("pseudo_gradient", "pseudo", pseudo.shape(0), n);
            const int threads = need_threads("pseudo_gradient", n_threads);
            double sums[2];
            {
                nb::gil_scoped_release release;
                std::vector<double> partial(static_cast<size_t>(vector_chunks(n) * 2));
                FF_CALL(pseudo_gradient)
                (point.data(), gradient.data(), l1.data(), n, pseudo.data(), partial.data(), sums, threads);
            }
            return std::make_tuple(sums[0], sums[1]);
        },
        nb::arg("point"), nb::arg("gradient"), nb::arg("l1"), nb::kw_only(), nb::arg("pseudo").noconvert(),
        nb::arg("n_threads"), "Pseudo-gradient of f(x) + sum l1 |x|; gives sum l1 |x| and max |pseudo|.");
    module.def(
        "cg_update",
        [](double alpha, In<double> p, In<double> product, Maybe diagonal, Out<double> x, Out<double> r,
           std::optional<Out<double>> z, int n_threads) {
            const int64_t n = static_cast<int64_t>(p.shape(0));
            need_length("cg_update", "product", product.shape(0), n);
            need_length("cg_update", "x", x.shape(0), n);
            need_length("cg_update", "r", r.shape(0), n);
            if (diagonal.has_value() != z.has_value())
                throw nb::value_error("cg_update: give both diagonal and z or none");
            if (z) need_length("cg_update", "z", z->shape(0), n);
            const double* d = pointer("cg_update", "diagonal", diagonal, n);
            double* image = z ? z->data() : nullptr;
            const int threads = need_threads("cg_update", n_threads);
            double sums[3];
            {
                nb::gil_scoped_release release;
                std::vector<double> partial(static_cast<size_t>(vector_chunks(n) * 3));
                FF_CALL(cg_update)
                (alpha, p.data(), product.data(), d, n, x.data(), r.data(), image, partial.data(), sums, threads);
            }
            return std::make_tuple(sums[0], sums[1], sums[2]);
        },
        nb::kw_only(), nb::arg("alpha"), nb::arg("p"), nb::arg("product"), nb::arg("diagonal").none(),
        nb::arg("x").noconvert(), nb::arg("r").noconvert(), nb::arg("z").noconvert().none(), nb::arg("n_threads"),
        "x += alpha p, r -= alpha product, z = r / diagonal; gives r.r, r.z (r.r without a diagonal), max |r|.");
    module.def(
        "cg_direction",
        [](double beta, In<double> z, Out<double> p, int n_threads) {
            const int64_t n = static_cast<int64_t>(z.shape(0));
            need_length("cg_direction", "p", p.shape(0), n);
            const int threads = need_threads("cg_direction", n_threads);
            nb::gil_scoped_release release;
            FF_CALL(cg_direction)(beta, z.data(), n, p.data(), threads);
        },
        nb::arg("beta"), nb::arg("z"), nb::kw_only(), nb::arg("p").noconvert(), nb::arg("n_threads"),
        "p = z + beta p.");
    module.def(
        "inner_product",
        [](In<double> a, In<double> b, int n_threads) {
            const int64_t n = static_cast<int64_t>(a.shape(0));
            need_length("inner_product", "b", b.shape(0), n);
            const int threads = need_threads("inner_product", n_threads);
            nb::gil_scoped_release release;
            std::vector<double> partial(static_cast<size_t>(vector_chunks(n)));
            return FF_CALL(inner_product)(a.data(), b.data(), n, partial.data(), threads);
        },
        nb::arg("a"), nb::arg("b"), nb::kw_only(), nb::arg("n_threads"),
        "a.b, the same bits for any number of threads.");
}

}  // namespace ff

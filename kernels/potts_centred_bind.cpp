#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "potts_centred.hpp"
#include "team.hpp"

namespace ff {

// All edges; the shifts (2 edges, q) of their ends are summed in the order of the edges, whatever the number of
// threads.
static void centred_couplings(In2<int32_t> edges, In2<double> frequencies, In<double> weight, In<double> precision,
                              In<double> vector, In<double> fields, double floor, Out<double> out, Out<double> shift,
                              int n_threads) {
    const size_t edge_count = edges.shape(0), sites = frequencies.shape(0), states = frequencies.shape(1);
    const Checks checks("centred_couplings");
    checks.threads(n_threads);
    checks.length("an edge", edges.shape(1), 2);
    checks.length("weight", weight.shape(0), sites);
    checks.length("fields", fields.shape(0), sites * states);
    checks.length("shift", shift.shape(0), sites * states);
    checks.length("precision", precision.shape(0), edge_count * states * states);
    checks.length("vector", vector.shape(0), edge_count * states * states);
    checks.length("out", out.shape(0), edge_count * states * states);
    const int64_t n_edges = static_cast<int64_t>(edge_count), m = static_cast<int64_t>(sites);
    const int64_t q = static_cast<int64_t>(states), table = q * q;
    const int32_t* ends = edges.data();
    checks.within("an edge joins sites that do not exist", ends, 2 * n_edges, 0, m);
    nb::gil_scoped_release release;
    std::vector<double> shifts(static_cast<size_t>(2 * n_edges * q));
    for_each_task(
        n_edges, n_threads,
        [&](int64_t e) {
            const int64_t a = ends[2 * e], b = ends[2 * e + 1];
            FF_CALL(centred_edge)
            (CentredEdge{q, vector.data() + e * table, precision.data() + e * table, frequencies.data() + a * q,
                         frequencies.data() + b * q, fields.data() + a * q, fields.data() + b * q,
                         weight.data()[a] + weight.data()[b], floor, out.data() + e * table, shifts.data() + 2 * e * q,
                         shifts.data() + (2 * e + 1) * q});
        },
        64);
    for (int64_t i = 0; i < m * q; ++i) shift.data()[i] = 0.0;
    for (int64_t e = 0; e < 2 * n_edges; ++e)
        for (int64_t s = 0; s < q; ++s) shift.data()[ends[e] * q + s] += shifts[static_cast<size_t>(e * q + s)];
}

void bind_potts_centred(nb::module_& module) {
    module.def("centred_couplings", &centred_couplings, nb::kw_only(), nb::arg("edges"), nb::arg("frequencies"),
               nb::arg("weight"), nb::arg("precision"), nb::arg("vector"), nb::arg("fields"), nb::arg("floor"),
               nb::arg("out").noconvert(), nb::arg("shift").noconvert(), nb::arg("n_threads"),
               "Divide couplings by their curvature near independence; `shift` gets what belongs to the fields.");
}

}  // namespace ff

#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "interruption.hpp"
#include "logistic_path.hpp"
#include "team.hpp"

namespace ff {

namespace {

// The samples of one weighting that count, as columns, and the scratch memory of a path.
struct Workspace {
    std::vector<float> columns;
    std::vector<double> weight, doubles;
    std::vector<int64_t> integers;
    int64_t weighting = -1;

    // For weightings of up to `most` samples: nothing is allocated later.
    void reserve(int64_t most, int64_t m) {
        columns.reserve(static_cast<size_t>(most * m));
        weight.reserve(static_cast<size_t>(most));
        doubles.reserve(static_cast<size_t>(logistic_path_doubles(most, m)));
        integers.reserve(static_cast<size_t>(logistic_path_integers(m)));
    }

    LogisticData prepare(const uint8_t* codes, const double* weights, int64_t n, int64_t m, int64_t which) {
        if (weighting != which) {
            const double* given = weights + which * n;
            double total = 0.0;
            weight.clear();
            for (int64_t i = 0; i < n; ++i)
                if (given[i] > 0.0) {
                    weight.push_back(given[i]);
                    total += given[i];
                }
            for (double& w : weight) w /= total;
            const int64_t kept = static_cast<int64_t>(weight.size());
            columns.resize(static_cast<size_t>(kept * m));
            int64_t row = 0;
            for (int64_t i = 0; i < n; ++i)
                if (given[i] > 0.0) {
                    for (int64_t j = 0; j < m; ++j)
                        columns[static_cast<size_t>(j * kept + row)] = static_cast<float>(codes[i * m + j]);
                    ++row;
                }
            doubles.resize(static_cast<size_t>(logistic_path_doubles(kept, m)));
            integers.resize(static_cast<size_t>(logistic_path_integers(m)));
            weighting = which;
        }
        return {columns.data(), weight.data(), static_cast<int64_t>(weight.size()), m};
    }
};

}  // namespace

void bind_logistic_path(nb::module_& module) {
    module.def(
        "logistic_paths",
        [](In2<uint8_t> codes, In2<double> weights, In<int64_t> targets, In<double> lambdas, double ratio, double tol,
           int64_t most_steps, int64_t least, double least_gain, double most_deviance, In<double> prices, double worse,
           Out<double> coefficients, Out<double> lambdas_out, Out<double> likelihood, Out<int64_t> counts,
           Out<int64_t> failed, int n_threads) {
            const size_t n = codes.shape(0), m = codes.shape(1), weightings = weights.shape(0);
            const size_t chosen = targets.shape(0), paths = weightings * chosen;
            const Checks checks("logistic_paths");
            checks.threads(n_threads);
            checks.length("a row of weights", weights.shape(1), n);
            checks.length("counts", counts.shape(0), paths);
            checks.length("failed", failed.shape(0), paths);
            const size_t length = paths ? likelihood.shape(0) / paths : 0;
            checks.length("likelihood", likelihood.shape(0), paths * length);
            checks.length("lambdas_out", lambdas_out.shape(0), paths * length);
            checks.length("coefficients", coefficients.shape(0), paths * length * m);
            checks.length_or_none("lambdas", lambdas.shape(0), length);
            checks.require(paths == 0 || length > 0, "there must be at least one lambda");
            checks.within("targets must be columns", targets.data(), static_cast<int64_t>(chosen), 0,
                          static_cast<int64_t>(m));
            checks.length("prices", prices.shape(0), weightings);
            checks.require(ratio > 0.0 && tol > 0.0, "ratio and tol must be positive");
            checks.within("codes must be 0 or 1", codes.data(), static_cast<int64_t>(n * m), 0, 2);
            int64_t most = 0;  // samples that count in a weighting
            for (size_t b = 0; b < weightings; ++b) {
                double total = 0.0;
                int64_t kept = 0;
                for (size_t i = 0; i < n; ++i) {
                    total += weights.data()[b * n + i];
                    kept += weights.data()[b * n + i] > 0.0;
                }
                most = std::max(most, kept);
                checks.require(total > 0.0 && total < __builtin_inf(), "the weights of a row need a positive sum");
            }
            const LogisticPathOptions options{lambdas.shape(0) ? lambdas.data() : nullptr,
                                              static_cast<int64_t>(length),
                                              ratio,
                                              tol,
                                              most_steps,
                                              least,
                                              least_gain,
                                              most_deviance,
                                              0.0,
                                              worse};
            nb::gil_scoped_release release;
            Interruption interruption;
            const int team = static_cast<int>(std::clamp<int64_t>(static_cast<int64_t>(paths), 1, n_threads));
            std::vector<Workspace> workspaces(static_cast<size_t>(team));
            for (Workspace& workspace : workspaces) workspace.reserve(most, static_cast<int64_t>(m));
            for_each_task(static_cast<int64_t>(paths), team, [&](int64_t path) {
                if (interruption.asked()) return;
                Workspace& workspace = workspaces[static_cast<size_t>(thread_number())];
                const int64_t columns = static_cast<int64_t>(m), begin = path * static_cast<int64_t>(length);
                const LogisticData data = workspace.prepare(codes.data(), weights.data(), static_cast<int64_t>(n),
                                                            columns, path / static_cast<int64_t>(chosen));
                LogisticPathOptions own = options;
                own.price = prices.data()[path / static_cast<int64_t>(chosen)];
                counts.data()[path] = FF_CALL(logistic_path)(
                    data, targets.data()[path % static_cast<int64_t>(chosen)], own, workspace.doubles.data(),
                    workspace.integers.data(), coefficients.data() + begin * columns, lambdas_out.data() + begin,
                    likelihood.data() + begin, failed.data() + path);
            });
            interruption.raise();
        },
        nb::kw_only(), nb::arg("codes"), nb::arg("weights"), nb::arg("targets"), nb::arg("lambdas"), nb::arg("ratio"),
        nb::arg("tol"), nb::arg("most_steps"), nb::arg("least"), nb::arg("least_gain"), nb::arg("most_deviance"),
        nb::arg("prices"), nb::arg("worse"), nb::arg("coefficients").noconvert(), nb::arg("lambdas_out").noconvert(),
        nb::arg("likelihood").noconvert(), nb::arg("counts").noconvert(), nb::arg("failed").noconvert(),
        nb::arg("n_threads"),
        "L1 paths of logistic regressions of the columns `targets` of codes on the others, for every row of weights; "
        "see "
        "logistic_path.hpp. coefficients (weightings, targets, lambdas, m) have the intercept at the column's own "
        "place.");
}

}  // namespace ff

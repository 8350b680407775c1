#include <vector>

#include "bindings.hpp"
#include "checks.hpp"
#include "selection.hpp"
#include "team.hpp"

namespace ff {

static void check_bernoulli(const In<int64_t>& sizes, double lam, const In<double>& keep, const In<uint8_t>& active,
                            int n_threads) {
    Checks("bernoulli").threads(n_threads);
    if (!(lam >= 0.0 && lam <= 1.0)) throw nb::value_error("bernoulli: lam must lie in [0, 1]");
    if (active.shape(0) != 0 && active.shape(0) != sizes.shape(0))
        throw nb::value_error("bernoulli: active must be empty or have one entry for each row");
    for (size_t i = 0; i < sizes.shape(0); ++i) {
        if (sizes.data()[i] < 0) throw nb::value_error("bernoulli: a size is negative");
        if (keep.shape(0) != 0 && sizes.data()[i] > static_cast<int64_t>(keep.shape(0)))
            throw nb::value_error("bernoulli: keep must be empty or as long as the largest size");
    }
}

static SubsetNumbers number_subsets(int64_t m, int64_t k) {
    if (k < 1 || k > m || m > INT32_MAX) throw nb::value_error("subsets: 1 <= k <= m < 2^31 is needed");
    SubsetNumbers numbers(m, k);
    if (numbers.count() == INT64_MAX) throw nb::value_error("subsets: there are 2^63 or more of them");
    return numbers;
}

void bind_selection(nb::module_& module) {
    module.def(
        "bernoulli_count",
        [](uint64_t seed, uint32_t stream, int64_t first_row, In<int64_t> sizes, double lam, In<double> keep,
           In<uint8_t> active, Out<int64_t> counts, int n_threads) {
            check_bernoulli(sizes, lam, keep, active, n_threads);
            if (counts.shape(0) != sizes.shape(0)) throw nb::value_error("bernoulli_count: one count for each row");
            const int64_t n = static_cast<int64_t>(sizes.shape(0));
            const int64_t* size = sizes.data();
            const uint8_t* on = active.shape(0) ? active.data() : nullptr;
            int64_t* count = counts.data();
            const BernoulliRow row(lam, keep.shape(0) ? keep.data() : nullptr);
            nb::gil_scoped_release release;
            for_each_task(
                n, n_threads,
                [&](int64_t i) {
                    int64_t found = 0;
                    if (!on || on[i]) {
                        Philox random(seed, stream, static_cast<uint64_t>(first_row + i));
                        row.draw(random, size[i], [&](int64_t) { ++found; });
                    }
                    count[i] = found;
                },
                64);
        },
        nb::kw_only(), nb::arg("seed"), nb::arg("stream"), nb::arg("first_row"), nb::arg("sizes"), nb::arg("lam"),
        nb::arg("keep"), nb::arg("active"), nb::arg("counts").noconvert(), nb::arg("n_threads"),
        "How many components bernoulli_fill will select in each row.");
    module.def(
        "bernoulli_fill",
        [](uint64_t seed, uint32_t stream, int64_t first_row, In<int64_t> sizes, double lam, In<double> keep,
           In<uint8_t> active, In<int64_t> indptr, Out<int64_t> indices, int n_threads) {
            check_bernoulli(sizes, lam, keep, active, n_threads);
            const int64_t n = static_cast<int64_t>(sizes.shape(0));
            if (static_cast<int64_t>(indptr.shape(0)) != n + 1)
                throw nb::value_error("bernoulli_fill: indptr needs one entry more than there are rows");
            const int64_t* begin = indptr.data();
            for (int64_t i = 0; i < n; ++i)
                if (begin[i] < 0 || begin[i + 1] < begin[i]) throw nb::value_error("bernoulli_fill: indptr falls");
            if (begin[n] > static_cast<int64_t>(indices.shape(0)))
                throw nb::value_error("bernoulli_fill: indices is shorter than indptr says");
            const int64_t* size = sizes.data();
            const uint8_t* on = active.shape(0) ? active.data() : nullptr;
            int64_t* index = indices.data();
            const BernoulliRow row(lam, keep.shape(0) ? keep.data() : nullptr);
            nb::gil_scoped_release release;
            for_each_task(
                n, n_threads,
                [&](int64_t i) {
                    if (on && !on[i]) return;
                    int64_t at = begin[i];
                    const int64_t end = begin[i + 1];
                    Philox random(seed, stream, static_cast<uint64_t>(first_row + i));
                    row.draw(random, size[i], [&](int64_t j) {
                        if (at < end) index[at++] = j;
                    });
                },
                64);
        },
        nb::kw_only(), nb::arg("seed"), nb::arg("stream"), nb::arg("first_row"), nb::arg("sizes"), nb::arg("lam"),
        nb::arg("keep"), nb::arg("active"), nb::arg("indptr"), nb::arg("indices").noconvert(), nb::arg("n_threads"),
        "indices[indptr[i]:indptr[i+1]] = the selected components of row first_row + i, in increasing order.");
    module.def(
        "unrank_subsets",
        [](In<int64_t> ranks, int64_t m, int64_t k, Out2<int64_t> out, int n_threads) {
            if (out.shape(0) != ranks.shape(0) || static_cast<int64_t>(out.shape(1)) != k)
                throw nb::value_error("unrank_subsets: out must have the shape (len(ranks), k)");
            Checks("unrank_subsets").threads(n_threads);
            const SubsetNumbers numbers = number_subsets(m, k);
            const int64_t n = static_cast<int64_t>(ranks.shape(0));
            const int64_t* rank = ranks.data();
            for (int64_t i = 0; i < n; ++i)
                if (rank[i] < 0 || rank[i] >= numbers.count())
                    throw nb::value_error("unrank_subsets: a rank is out of range");
            int64_t* subset = out.data();
            nb::gil_scoped_release release;
            const int64_t chunk = 4096, chunks = (n + chunk - 1) / chunk;
            for_each_task(chunks, n_threads, [&](int64_t c) {
                int64_t hint = m - 1;
                const int64_t end = std::min(n, (c + 1) * chunk);
                for (int64_t i = c * chunk; i < end; ++i) numbers.unrank(rank[i], subset + i * k, hint);
            });
        },
        nb::arg("ranks"), nb::arg("m"), nb::arg("k"), nb::kw_only(), nb::arg("out").noconvert(), nb::arg("n_threads"),
        "out[i] = the k-subset of 0..m-1 with this number in lexicographic order.");
    module.def(
        "rank_subsets",
        [](In2<int64_t> subsets, int64_t m, Out<int64_t> out, int n_threads) {
            const int64_t n = static_cast<int64_t>(subsets.shape(0)), k = static_cast<int64_t>(subsets.shape(1));
            if (static_cast<int64_t>(out.shape(0)) != n)
                throw nb::value_error("rank_subsets: out needs one entry for each subset");
            Checks("rank_subsets").threads(n_threads);
            const SubsetNumbers numbers = number_subsets(m, k);
            const int64_t* subset = subsets.data();
            for (int64_t i = 0; i < n * k; ++i)
                if (subset[i] >= m || subset[i] <= (i % k ? subset[i - 1] : -1))
                    throw nb::value_error("rank_subsets: a subset does not increase within 0..m-1");
            int64_t* rank = out.data();
            nb::gil_scoped_release release;
            for_each_task(n, n_threads, [&](int64_t i) { rank[i] = numbers.rank(subset + i * k); }, 4096);
        },
        nb::arg("subsets"), nb::arg("m"), nb::kw_only(), nb::arg("out").noconvert(), nb::arg("n_threads"),
        "out[i] = the number of this increasing subset of 0..m-1 in lexicographic order.");
    module.def(
        "partition_ranks",
        [](uint64_t seed, uint32_t stream, In<int64_t> rows, int64_t m, int64_t k, Out2<int64_t> blocks,
           Out<int64_t> remainder, int n_threads) {
            Checks("partition_ranks").threads(n_threads);
            const SubsetNumbers full = number_subsets(m, k);
            const int64_t n = static_cast<int64_t>(rows.shape(0)), whole = m / k, left = m % k;
            const SubsetNumbers rest = number_subsets(m, left ? left : k);
            if (static_cast<int64_t>(blocks.shape(0)) != n || static_cast<int64_t>(blocks.shape(1)) != whole)
                throw nb::value_error("partition_ranks: blocks must have the shape (len(rows), m / k)");
            if (static_cast<int64_t>(remainder.shape(0)) != (left ? n : 0))
                throw nb::value_error("partition_ranks: remainder has one entry for each row if k does not divide m");

            const int64_t* row = rows.data();
            int64_t *block = blocks.data(), *last = remainder.data();
            nb::gil_scoped_release release;
            const int team = n > 64 ? n_threads : 1;
            std::vector<int32_t> orders(static_cast<size_t>(team) * static_cast<size_t>(m));
            const auto divide = [&](int64_t i) {
                int32_t* order = orders.data() + thread_number() * m;
                for (int64_t v = 0; v < m; ++v) order[v] = static_cast<int32_t>(v);
                Philox random(seed, stream, static_cast<uint64_t>(row[i]));
                for (int64_t v = m - 1; v > 0; --v)
                    std::swap(order[v], order[random.below(static_cast<uint32_t>(v + 1))]);
                int64_t* out = block + i * whole;
                for (int64_t b = 0; b < whole; ++b) {
                    std::sort(order + b * k, order + (b + 1) * k);
                    out[b] = full.rank(order + b * k);
                }
                std::sort(out, out + whole);
                if (left) {
                    std::sort(order + whole * k, order + m);
                    last[i] = rest.rank(order + whole * k);
                }
            };
            for_each_task(n, team, divide, 64);
        },
        nb::kw_only(), nb::arg("seed"), nb::arg("stream"), nb::arg("rows"), nb::arg("m"), nb::arg("k"),
        nb::arg("blocks").noconvert(), nb::arg("remainder").noconvert(), nb::arg("n_threads"),
        "A random partition of 0..m-1 for each row: the numbers of its blocks of k (increasing) and of what is left.");
}

}  // namespace ff

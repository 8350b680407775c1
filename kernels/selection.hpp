// Drawing Z at the cost of what is selected, and the numbering of k-subsets in lexicographic order.
//
// Every row has its own generator, keyed by (seed, stream, absolute row): a draw does not depend on shards or threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "philox.hpp"
#include "vecmath.hpp"

namespace ff {

// Independent Bernoulli components of one row. The gaps between candidates are geometric with the largest lambda; a
// candidate j stays with probability keep[j] = lambda_j / max lambda (no thinning if keep is null).
class BernoulliRow {
  public:
    BernoulliRow(double lam, const double* keep) : every_(lam >= 1.0), none_(lam <= 0.0), keep_(keep) {
        inverse_ = every_ || none_ ? 0.0 : 1.0 / std::log1p(-lam);
    }

    // Calls emit(j) for each selected j < size, in increasing order.
    template <class Emit>
    void draw(Philox& random, int64_t size, Emit emit) const {
        if (none_) return;
        int64_t next = 0;
        while (next < size) {
            if (!every_) {
                // The project's own logarithm, not the C library's: shards on other processors must agree bit for bit.
                const double skip = std::floor(baseline::fast_log(random.next()) * inverse_);
                if (!(skip < static_cast<double>(size - next))) return;
                next += static_cast<int64_t>(skip);
            }
            if (!keep_ || random.next() < keep_[next]) emit(next);
            ++next;
        }
    }

  private:
    bool every_, none_;
    const double* keep_;
    double inverse_;
};

// The k-subsets of 0..m-1 in lexicographic order, 1 <= k <= m. With d = m-1-c for the elements c_0 < c_1 < ... the
// number counted from the end is sum_j C(d_j, k-j).
class SubsetNumbers {
  public:
    SubsetNumbers(int64_t m, int64_t k) : m_(m), k_(k), binomials_(static_cast<size_t>((k + 1) * (m + 1))) {
        // C(d, j) at [j * (m + 1) + d], cut off at 2^63 - 1, which no number of a subset reaches.
        for (int64_t j = 0; j <= k; ++j)
            for (int64_t d = 0; d <= m; ++d) {
                int64_t& entry = binomials_[j * (m + 1) + d];
                if (j == 0 || d == 0) {
                    entry = j == 0;
                } else {
                    const int64_t a = binomials_[j * (m + 1) + d - 1], b = binomials_[(j - 1) * (m + 1) + d - 1];
                    entry = a > INT64_MAX - b ? INT64_MAX : a + b;
                }
            }
        last_ = binomials_[k * (m + 1) + m] - 1;
    }

    // INT64_MAX means: too many to number.
    int64_t count() const { return last_ + 1; }

    template <class T>
    int64_t rank(const T* sorted) const {
        int64_t rest = last_;
        for (int64_t j = 0; j < k_; ++j) rest -= binomials_[(k_ - j) * (m_ + 1) + (m_ - 1 - sorted[j])];
        return rest;
    }

    // `hint` is m-1 minus the first element of the subset before this one: sorted numbers mostly share it.
    void unrank(int64_t index, int64_t* out, int64_t& hint) const {
        int64_t rest = last_ - index, bound = m_;
        for (int64_t j = 0; j + 1 < k_; ++j) {
            const int64_t* column = binomials_.data() + (k_ - j) * (m_ + 1);
            int64_t d = hint;
            if (j > 0 || column[d] > rest || column[d + 1] <= rest)
                d = std::upper_bound(column, column + bound, rest) - column - 1;
            if (j == 0) hint = d;
            rest -= column[d];
            out[j] = m_ - 1 - d;
            bound = d;
        }
        out[k_ - 1] = m_ - 1 - rest;  // C(d, 1) = d
    }

  private:
    int64_t m_, k_;
    std::vector<int64_t> binomials_;
    int64_t last_;
};

}  // namespace ff

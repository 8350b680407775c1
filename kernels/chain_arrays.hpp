// Checks of the arrays that chain functions are given. What does not fit is refused with a sentence.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "bindings.hpp"

namespace ff {

template <class T>
using Maybe = std::optional<In<T>>;

static inline void need(bool fine, const char* message) {
    if (!fine) throw nb::value_error(message);
}

// indptr of n rows into an array of `size` entries.
static inline void check_pointers(const In<int64_t>& pointers, int64_t n, int64_t size, const char* message) {
    need(static_cast<int64_t>(pointers.shape(0)) == n + 1, message);
    const int64_t* p = pointers.data();
    need(p[0] == 0 && p[n] == size, message);
    for (int64_t i = 0; i < n; ++i) need(p[i] <= p[i + 1], message);
}

static inline void check_range(const In<int32_t>& values, int64_t low, int64_t high, const char* message) {
    const int32_t* p = values.data();
    for (size_t i = 0; i < values.shape(0); ++i) need(p[i] >= low && p[i] < high, message);
}

template <class T>
const T* pointer(const Maybe<T>& array) {
    return array ? array->data() : nullptr;
}

static inline std::unique_ptr<double[]> room(int64_t size) {
    return std::unique_ptr<double[]>(new double[static_cast<size_t>(std::max<int64_t>(size, 1))]);
}

}  // namespace ff

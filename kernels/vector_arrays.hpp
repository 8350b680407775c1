// Vectors handed to Python as arrays, without a copy.
#pragma once

#include <utility>
#include <vector>

#include "bindings.hpp"

namespace ff {

template <class T>
nb::object to_array(std::vector<T>&& numbers) {
    auto* kept = new std::vector<T>(std::move(numbers));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

}  // namespace ff

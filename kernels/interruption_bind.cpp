#include <nanobind/nanobind.h>

#include <chrono>

#include "interruption.hpp"
#include "team.hpp"

namespace ff {

namespace {

constexpr int64_t between = 100'000'000;  // nanoseconds from one look at the signals to the next

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

Interruption::Interruption() : last_(now()) {}

bool Interruption::asked() {
    if (__atomic_load_n(&found_, __ATOMIC_RELAXED)) return true;
    if (thread_number() != 0) return false;
    const int64_t time = now();
    if (time - last_ < between) return false;
    last_ = time;
    const nanobind::gil_scoped_acquire acquire;
    const bool found = PyErr_CheckSignals() != 0;  // the exception stays set until raise()
    if (found) __atomic_store_n(&found_, true, __ATOMIC_RELAXED);
    return found;
}

void Interruption::raise() const {
    if (!found_) return;
    const nanobind::gil_scoped_acquire acquire;
    throw nanobind::python_error();
}

}  // namespace ff

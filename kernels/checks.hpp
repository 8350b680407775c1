// Checks of what Python hands over. Each throws a ValueError with a sentence that begins with the kernel's name.
// Problems that are evaluated again and again check their indices once, when they are made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace ff {

class Checks {
  public:
    explicit Checks(const char* kernel) : kernel_(kernel) {}

    void require(bool holds, const char* message) const {
        if (!holds) throw std::invalid_argument(std::string(kernel_) + ": " + message);
    }

    void length(const char* name, size_t given, size_t wanted) const {
        if (given != wanted)
            throw std::invalid_argument(std::string(kernel_) + ": " + name + " has " + std::to_string(given) +
                                        " entries where " + std::to_string(wanted) + " are needed");
    }

    // For arrays of which an empty one stands for "not wanted" or "all ones".
    void length_or_none(const char* name, size_t given, size_t wanted) const {
        if (given) length(name, given, wanted);
    }

    // [offset, offset + count) lies in an array of this size.
    void range(const char* name, int64_t offset, int64_t count, size_t size) const {
        const int64_t all = static_cast<int64_t>(size);
        if (offset < 0 || count < 0 || offset > all || count > all - offset)
            throw std::invalid_argument(std::string(kernel_) + ": " + name + " is too short");
    }

    // low <= index < high for all; written so that it becomes vector code.
    template <class T>
    void within(const char* message, const T* index, int64_t count, int64_t low, int64_t high) const {
        if (count <= 0) return;
        T least = index[0], most = index[0];
        for (int64_t i = 0; i < count; ++i) {
            least = std::min(least, index[i]);
            most = std::max(most, index[i]);
        }
        require(least >= low && most < high, message);
    }

    // count + 1 pointers that begin with 0 and do not decrease; returns the last.
    template <class T>
    int64_t pointers(const char* name, const T* pointer, int64_t count) const {
        int64_t falls = pointer[0] != 0;
        for (int64_t i = 0; i < count; ++i) falls += pointer[i + 1] < pointer[i];
        if (falls)
            throw std::invalid_argument(std::string(kernel_) + ": " + name + " must begin with 0 and not decrease");
        return static_cast<int64_t>(pointer[count]);
    }

    void threads(int n_threads) const { require(n_threads >= 1, "n_threads must be at least 1"); }

  private:
    const char* kernel_;
};

}  // namespace ff

#include <cstring>

#include "identity.hpp"

namespace ff::FF_ISA {

#if defined(__GNUC__)
#if defined(__AVX2__)
static constexpr int64_t BYTES = 32;
#else
static constexpr int64_t BYTES = 16;
#endif
typedef uint8_t ByteLanes __attribute__((vector_size(BYTES), aligned(1), may_alias));
typedef uint64_t WordLanes __attribute__((vector_size(BYTES), aligned(1), may_alias));

static int64_t equal_columns(const uint8_t* a, const uint8_t* b, int64_t padded) {
    int64_t total = 0;
    // A byte holds at most 255 matches.
    for (int64_t begin = 0; begin < padded; begin += 255 * BYTES) {
        const int64_t end = begin + 255 * BYTES < padded ? begin + 255 * BYTES : padded;
        ByteLanes count{};
        for (int64_t c = begin; c < end; c += BYTES) {
            ByteLanes x, y;
            std::memcpy(&x, a + c, sizeof x);
            std::memcpy(&y, b + c, sizeof y);
            count -= reinterpret_cast<ByteLanes>(x == y);
        }
        const WordLanes words = reinterpret_cast<WordLanes>(count);
        const WordLanes pairs = (words & 0x00ff00ff00ff00ffULL) + ((words >> 8) & 0x00ff00ff00ff00ffULL);
        uint64_t sum = 0;
        for (int64_t l = 0; l < BYTES / 8; ++l) sum += pairs[l];
        total += static_cast<int64_t>((sum * 0x0001000100010001ULL) >> 48);
    }
    return total;
}
#else
static int64_t equal_columns(const uint8_t* a, const uint8_t* b, int64_t padded) {
    int64_t total = 0;
    for (int64_t c = 0; c < padded; ++c) total += a[c] == b[c];
    return total;
}
#endif

void count_neighbours(const uint8_t* left, const uint8_t* right, int64_t n, int64_t padded, int64_t least,
                      int64_t first, int64_t last, int64_t* out) {
    for (int64_t i = first; i < last; ++i) {
        int64_t near = 0;
        for (int64_t j = 0; j < n; ++j) near += equal_columns(left + i * padded, right + j * padded, padded) >= least;
        out[i] = near;
    }
}

}  // namespace ff::FF_ISA

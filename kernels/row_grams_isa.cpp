#include "row_grams.hpp"

namespace ff::FF_ISA {

// Vectors of the processor's own width: the compiler keeps longer ones in memory. LANES numbers in each, and HEIGHT
// rows of a tile, whose sums fit in the registers.
#if defined(__AVX512F__)
constexpr int64_t LANES = 8, HEIGHT = 8;
#elif defined(__AVX2__)
constexpr int64_t LANES = 4, HEIGHT = 4;
#else
constexpr int64_t LANES = 2, HEIGHT = 2;
#endif
constexpr int64_t VECTORS = GRAM_TILE / LANES;

typedef double Lanes __attribute__((vector_size(8 * LANES)));

// The lower half of Σ x xᵀ over `count` rows that lie one after the other.
static void add_tiles(const double* x, int64_t width, int64_t count, double* out) {
    for (int64_t top = 0; top < width; top += HEIGHT)
        for (int64_t left = 0; left <= top; left += GRAM_TILE) {
            Lanes sums[HEIGHT][VECTORS] = {};
            for (const double* row = x; row < x + count * width; row += width) {
                const Lanes* values = reinterpret_cast<const Lanes*>(row + left);
#pragma GCC unroll 8
                for (int64_t u = 0; u < HEIGHT; ++u)
#pragma GCC unroll 4
                    for (int64_t v = 0; v < VECTORS; ++v) sums[u][v] += row[top + u] * values[v];
            }
#pragma GCC unroll 8
            for (int64_t u = 0; u < HEIGHT; ++u)
#pragma GCC unroll 4
                for (int64_t v = 0; v < VECTORS; ++v)
#pragma GCC unroll 8
                    for (int64_t k = 0; k < LANES; ++k) out[(top + u) * width + left + v * LANES + k] += sums[u][v][k];
        }
}

void row_gram(const double* x, int64_t width, const int32_t* rows, int64_t count, double* out) {
    alignas(8 * GRAM_TILE) double near[GRAM_NUMBERS];  // copies of some rows stay in the first cache
    const int64_t most = GRAM_NUMBERS / width;
    for (int64_t first = 0; first < count; first += most) {
        const int64_t some = count - first < most ? count - first : most;
        for (int64_t k = 0; k < some; ++k)
            for (int64_t j = 0; j < width; ++j) near[k * width + j] = x[rows[first + k] * width + j];
        add_tiles(near, width, some, out);
    }
    for (int64_t i = 0; i < width; ++i)
        for (int64_t j = i + 1; j < width; ++j) out[i * width + j] = out[j * width + i];
}

}  // namespace ff::FF_ISA

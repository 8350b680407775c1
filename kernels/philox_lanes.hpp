// The random numbers of several rows at once: lane l has those that Philox(seed, stream, first + l) gives one after
// the other.
#pragma once

#include <cstdint>

#include "isa.hpp"

namespace ff::FF_ISA {

template <int L>
class PhiloxLanes {
  public:
    PhiloxLanes(uint64_t seed, uint32_t stream, uint64_t first)
        : key0_(static_cast<uint32_t>(seed)), key1_(static_cast<uint32_t>(seed >> 32)), stream_(stream) {
        for (int l = 0; l < L; ++l) {
            row0_[l] = static_cast<uint32_t>(first + static_cast<uint64_t>(l));
            row1_[l] = static_cast<uint32_t>((first + static_cast<uint64_t>(l)) >> 32);
        }
    }

    // Uniform on (0, 1) for each lane; two of them come out of one block of the cipher.
    const double* next() {
        if (!second_) block();
        second_ = !second_;
        return uniforms_[second_ ? 0 : 1];
    }

  private:
    void block() {
        uint32_t c0[L], c1[L], c2[L], c3[L];
#pragma omp simd
        for (int l = 0; l < L; ++l) {
            c0[l] = position_;
            c1[l] = stream_;
            c2[l] = row0_[l];
            c3[l] = row1_[l];
        }
        ++position_;
        uint32_t k0 = key0_, k1 = key1_;
        for (int round = 0; round < 10; ++round) {
#pragma omp simd
            for (int l = 0; l < L; ++l) {
                const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0[l];
                const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2[l];
                c0[l] = static_cast<uint32_t>(p1 >> 32) ^ c1[l] ^ k0;
                c2[l] = static_cast<uint32_t>(p0 >> 32) ^ c3[l] ^ k1;
                c1[l] = static_cast<uint32_t>(p1);
                c3[l] = static_cast<uint32_t>(p0);
            }
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        unit(c0, c1, uniforms_[0]);
        unit(c2, c3, uniforms_[1]);
    }

    // The 53 highest bits of high·2^32 + low, by parts: their sum is exact, and so is each product.
    static void unit(const uint32_t* low, const uint32_t* high, double* out) {
#pragma omp simd
        for (int l = 0; l < L; ++l) {
            const double upper = static_cast<double>(static_cast<int32_t>(high[l] ^ 0x80000000u)) + 0x1p31;
            const double lower = static_cast<double>(static_cast<int32_t>(low[l] >> 11));
            out[l] = ((upper * 0x1p21 + lower) + 0.5) * 0x1p-53;
        }
    }

    uint32_t key0_, key1_, stream_, position_ = 0;
    bool second_ = false;
    alignas(64) uint32_t row0_[L];
    alignas(64) uint32_t row1_[L];
    alignas(64) double uniforms_[2][L];
};

}  // namespace ff::FF_ISA

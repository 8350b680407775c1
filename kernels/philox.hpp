// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// A number is a pure function of (seed, stream, row, position), so that a draw is the same whatever the order, the
// number of threads or the shard it is made in.
#pragma once

#include <cstdint>

namespace ff {

class Philox {
  public:
    // `stream` keeps uses apart (a term of a policy, a Gibbs sweep); `row` is the sample.
    Philox(uint64_t seed, uint32_t stream, uint64_t row)
        : key0_(static_cast<uint32_t>(seed)),
          key1_(static_cast<uint32_t>(seed >> 32)),
          stream_(stream),
          row0_(static_cast<uint32_t>(row)),
          row1_(static_cast<uint32_t>(row >> 32)) {}

    // Uniform on (0, 1), never 0 or 1, with 53 random bits; two of them come out of one block of the cipher.
    double next() {
        if (held_ == 0) {
            block();
            held_ = 2;
        }
        --held_;
        const uint64_t bits = held_ == 1 ? (static_cast<uint64_t>(word_[1]) << 32) | word_[0]
                                         : (static_cast<uint64_t>(word_[3]) << 32) | word_[2];
        return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
    }

    // Uniform on 0..bound-1 (bound < 2^32).
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(next() * bound); }

  private:
    void block() {
        uint32_t c0 = position_++, c1 = stream_, c2 = row0_, c3 = row1_;
        uint32_t k0 = key0_, k1 = key1_;
        for (int round = 0; round < 10; ++round) {
            const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
            const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
            const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
            const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
            c1 = static_cast<uint32_t>(p1);
            c3 = static_cast<uint32_t>(p0);
            c0 = n0;
            c2 = n2;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        word_[0] = c0;
        word_[1] = c1;
        word_[2] = c2;
        word_[3] = c3;
    }

    uint32_t key0_, key1_, stream_, row0_, row1_;
    uint32_t position_ = 0;
    uint32_t word_[4] = {0, 0, 0, 0};
    int held_ = 0;
};

}  // namespace ff

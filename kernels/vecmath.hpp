// exp and log without branches, tables or library calls, so that a plain loop over them becomes vector code.
//
// GCC vectorises calls to libm only under -ffast-math, which a library must not use. Both are within 2 ulp of the
// true value; exp gives 0 below -708.39 (no denormals) and infinity above 709.78, log wants normal positive numbers,
// 0 (gives -inf), infinity or NaN.
#pragma once

#include <cstdint>
#include <cstring>

#include "isa.hpp"

namespace ff::FF_ISA {

static inline double bits_to_double(int64_t bits) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int64_t double_to_bits(double value) {
    int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// exp(x) = p 2^k with p near 1, for x within -708.39..709.78; 2^k is in the low bits of `rounded`.
struct ReducedExp {
    double p, rounded;
};

// Adding 1.5 * 2^52 rounds to the nearest integer and leaves it in the low bits.
constexpr double exp_shift = 0x1.8p52;

static inline __attribute__((always_inline)) ReducedExp reduced_exp(double x) {
    // x = k ln 2 + r with |r| <= ln 2 / 2
    const double rounded = x * 1.4426950408889634074 + exp_shift;
    const double k = rounded - exp_shift;
    double r = x - k * 0x1.62e42fefa3800p-1;
    r = r - k * 0x1.ef35793c76730p-45;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return {p, rounded};
}

static inline double fast_exp(double x) {
    const double clamped = x < -708.39 ? -708.39 : (x > 709.78 ? 709.78 : x);
    const ReducedExp reduced = reduced_exp(clamped);
    // 2^k in two steps of half the exponent, so that k = 1024 (x just below the overflow) does not wrap.
    const int64_t whole = double_to_bits(reduced.rounded) - double_to_bits(exp_shift);
    const int64_t half = whole >> 1;
    const double scale1 = bits_to_double(static_cast<int64_t>(static_cast<uint64_t>(half + 1023) << 52));
    const double scale2 = bits_to_double(static_cast<int64_t>(static_cast<uint64_t>(whole - half + 1023) << 52));
    double result = reduced.p * scale1 * scale2;
    result = x < -708.39 ? 0.0 : result;
    result = x > 709.78 ? __builtin_inf() : result;
    return x != x ? x : result;
}

// exp of what is at most 0, without the steps that only large arguments need. NaN stays NaN, whatever its scale.
static inline __attribute__((always_inline)) double fast_exp_negative(double x) {
    const ReducedExp reduced = reduced_exp(x < -708.39 ? -708.39 : x);
    const int64_t whole = double_to_bits(reduced.rounded) - double_to_bits(exp_shift);
    const double scale = bits_to_double(static_cast<int64_t>(static_cast<uint64_t>(whole + 1023) << 52));
    return x < -708.39 ? 0.0 : reduced.p * scale;
}

// The same in single precision: within 2 ulp, 0 below -87.33.
static inline __attribute__((always_inline)) float fast_exp_negative(float x) {
    const float clamped = x < -87.33f ? -87.33f : x;
    const float rounded = clamped * 1.44269504f + 0x1.8p23f;
    const float k = rounded - 0x1.8p23f;
    float r = clamped - k * 0x1.62e4p-1f;
    r = r - k * 0x1.7f7d1cp-20f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    std::memcpy(&bits, &rounded, sizeof bits);
    // The low bits of `rounded` are k; 127 is the bias of the exponent.
    bits = (bits + 127u) << 23;
    float scale;
    std::memcpy(&scale, &bits, sizeof scale);
    return x < -87.33f ? 0.0f : p * scale;
}

static inline double fast_log(double x) {
    // x = 2^k m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m-1)/(m+1).
    const int64_t bits = double_to_bits(x);
    const int64_t offset = bits - 0x3fe6a09e667f3bcdLL;  // bits of sqrt(1/2)
    // The exponent as a double without an integer conversion (AVX2 has none for 64 bits).
    const int64_t exponent = ((offset >> 32) >> 20);
    const double k = bits_to_double(0x4338000000000000LL + exponent) - 0x1.8p52;
    const double m = bits_to_double(bits - static_cast<int64_t>(static_cast<uint64_t>(exponent) << 52));
    const double f = m - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    double q = 0x1.2f112df3e5244p-3;
    q = q * z + 0x1.39a09d078c69fp-3;
    q = q * z + 0x1.7466496cb03dep-3;
    q = q * z + 0x1.c71c51d8e78afp-3;
    q = q * z + 0x1.2492494229359p-2;
    q = q * z + 0x1.999999997fa04p-2;
    q = q * z + 0x1.5555555555593p-1;
    const double r = z * q;
    const double h = 0.5 * f * f;
    double result = k * 0x1.62e42fefa3800p-1 - ((h - (s * (h + r) + k * 0x1.ef35793c76730p-45)) - f);
    result = x == 0.0 ? -__builtin_inf() : result;
    return x < __builtin_inf() ? result : x;
}

}  // namespace ff::FF_ISA

// Numbers that a recursion over one segment can be made of: plain, with a derivative, and logarithms with a derivative.
//
// One recursion serves all three. Logarithms are for segments whose probabilities underflow.
#pragma once

#include <cmath>

#include "chain_products.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {
namespace {

struct PlainNumber {
    static constexpr bool logs = false;
    double x;
    static PlainNumber one() { return {1.0}; }
    // exp(score), of which `exponential` is given; `slope` is the derivative of the score.
    static PlainNumber potential(double exponential, double, double) { return {exponential}; }
    bool usable() const { return x > 1e-200; }
    bool bounded() const { return x < 1e100; }
    double log() const { return fast_log(x); }
    double log_slope() const { return 0.0; }
    double value() const { return x; }
    double slope() const { return 0.0; }
};
FF_INLINE PlainNumber operator*(PlainNumber a, PlainNumber b) { return {a.x * b.x}; }
FF_INLINE PlainNumber operator+(PlainNumber a, PlainNumber b) { return {a.x + b.x}; }
FF_INLINE PlainNumber operator/(PlainNumber a, PlainNumber b) { return {a.x / b.x}; }

struct DualNumber {
    static constexpr bool logs = false;
    double x, d;
    static DualNumber one() { return {1.0, 0.0}; }
    static DualNumber potential(double exponential, double, double slope) { return {exponential, exponential * slope}; }
    bool usable() const { return x > 1e-200; }
    bool bounded() const { return x < 1e100; }
    double log() const { return fast_log(x); }
    double log_slope() const { return d / x; }
    double value() const { return x; }
    double slope() const { return d; }
};
FF_INLINE DualNumber operator*(DualNumber a, DualNumber b) { return {a.x * b.x, a.x * b.d + a.d * b.x}; }
FF_INLINE DualNumber operator+(DualNumber a, DualNumber b) { return {a.x + b.x, a.d + b.d}; }
FF_INLINE DualNumber operator/(DualNumber a, DualNumber b) {
    const double x = a.x / b.x;
    return {x, (a.d - x * b.d) / b.x};
}

// log x and its derivative.
struct LogNumber {
    static constexpr bool logs = true;
    double l, d;
    static LogNumber one() { return {0.0, 0.0}; }
    static LogNumber potential(double, double score, double slope) { return {score, slope}; }
    bool usable() const { return l > -__builtin_inf(); }
    bool bounded() const { return true; }
    double log() const { return l; }
    double log_slope() const { return d; }
    double value() const { return fast_exp(l); }
    double slope() const { return fast_exp(l) * d; }
};
FF_INLINE LogNumber operator*(LogNumber a, LogNumber b) { return {a.l + b.l, a.d + b.d}; }
FF_INLINE LogNumber operator/(LogNumber a, LogNumber b) { return {a.l - b.l, a.d - b.d}; }
FF_INLINE LogNumber operator+(LogNumber a, LogNumber b) {
    if (b.l > a.l) {
        const LogNumber other = a;
        a = b;
        b = other;
    }
    if (!(b.l > -__builtin_inf())) return a;
    const double ratio = fast_exp(b.l - a.l), share = ratio / (1.0 + ratio);
    return {a.l + std::log1p(ratio), a.d + share * (b.d - a.d)};
}

}  // namespace
}  // namespace ff::FF_ISA

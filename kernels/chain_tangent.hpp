// The recursions of a segment in probability space, differentiated in a direction: what Hessian products are made of.
#pragma once

#include "chain_segment.hpp"

namespace ff::FF_ISA {
namespace {

// Both passes with derivatives in a direction, one segment at a time (`work`: 5 rows).
FF_INLINE void tangent_segment(const Chain& chain, Segment& s, double* work) {
    const int64_t padded = chain.padded, K = chain.n_labels;
    double* extra = work;
    s.log_z_tangent = 0.0;
    s.good = true;
    for (int64_t p = 0; p < s.length; ++p) {
        double* a = s.alpha + p * s.stride;
        double* d = s.alpha_tangent + p * s.stride;
        const double* psi = s.psi + p * padded;
        const double* ds = s.tangent_scores + p * padded;
        v4 total = splat(0.0), slope = splat(0.0);
        if (p == 0) {
            const double* left = s.left >= 0 ? chain.forward + s.left * padded : nullptr;
            const double* dleft = s.left >= 0 ? chain.tangent_transitions + s.left * padded : nullptr;
            for (int64_t j = 0; j < padded; j += 4) {
                v4 x = load(psi + j), rate = load(ds + j);
                if (left) {
                    x *= load(left + j);
                    rate += load(dleft + j);
                }
                const v4 y = x * rate;
                store(a + j, x);
                store(d + j, y);
                total += x;
                slope += y;
            }
        } else {
            const double* in[2] = {a - s.stride, d - s.stride};
            double* out[2] = {a, d};
            product_rows<2>(in, chain.forward, out, K, padded);
            product_rows<1>(in, chain.forward_tangent, &extra, K, padded);
            for (int64_t j = 0; j < padded; j += 4) {
                const v4 f = load(psi + j), x = f * load(a + j);
                const v4 y = f * (load(d + j) + load(extra + j)) + x * load(ds + j);
                store(a + j, x);
                store(d + j, y);
                total += x;
                slope += y;
            }
        }
        const double c = sum(total), dc = sum(slope);
        s.good = s.good && c > tiny_scale;
        if (!s.good) return;
        const v4 inverse = splat(1.0 / c), move = splat(dc);
        for (int64_t j = 0; j < padded; j += 4) {
            const v4 x = load(a + j) * inverse;
            store(a + j, x);
            store(d + j, (load(d + j) - x * move) * inverse);
        }
        s.c[p * s.c_stride] = c;
        s.g_tangent[p * s.stride] = dc;  // kept until the backward pass overwrites the row
        s.log_z_tangent += dc / c;
    }
    double* beta = work + padded;
    double* dbeta = work + 2 * padded;
    double* next = work + 3 * padded;
    double* dnext = work + 4 * padded;
    {
        const double* a = s.alpha + (s.length - 1) * s.stride;
        const double* d = s.alpha_tangent + (s.length - 1) * s.stride;
        double c = 1.0, dc = 0.0;
        if (s.right >= 0) {
            const double* right = chain.backward + s.right * padded;
            const double* dright = chain.backward_tangent + s.right * padded;
            v4 total = splat(0.0), slope = splat(0.0);
            for (int64_t j = 0; j < padded; j += 4) {
                total += load(a + j) * load(right + j);
                slope += load(d + j) * load(right + j) + load(a + j) * load(dright + j);
            }
            c = sum(total);
            dc = sum(slope);
            s.good = s.good && c > tiny_scale;
            if (!s.good) return;
            for (int64_t j = 0; j < padded; ++j) {
                beta[j] = s.weight * right[j] / c;
                dbeta[j] = (s.weight * dright[j] - beta[j] * dc) / c;
            }
        } else {
            for (int64_t j = 0; j < padded; ++j) {
                beta[j] = s.weight;
                dbeta[j] = 0.0;
            }
        }
        s.c[s.length * s.c_stride] = c;
        s.log_z_tangent += dc / c;
    }
    if (!s.residuals) return;
    v4 most = splat(0.0);
    for (int64_t p = s.length - 1; p >= 0; --p) {
        const double* psi = s.psi + p * padded;
        const double* ds = s.tangent_scores + p * padded;
        double* g = s.g + p * s.stride;
        double* h = s.g_tangent + p * s.stride;
        const v4 inverse = splat(1.0 / s.c[p * s.c_stride]), move = splat(h[0]);
        for (int64_t j = 0; j < padded; j += 4) {
            const v4 f = load(psi + j), x = load(beta + j), y = load(dbeta + j);
            const v4 gx = f * x * inverse;
            most = larger(most, gx * gx);
            store(g + j, gx);
            store(h + j, (f * (y + x * load(ds + j)) - gx * move) * inverse);
        }
        const double* a = s.alpha + p * s.stride;
        const double* d = s.alpha_tangent + p * s.stride;
        double* node = s.nodes + p * s.stride;
        for (int64_t j = 0; j < padded; j += 4)
            store(node + j, load(d + j) * load(beta + j) + load(a + j) * load(dbeta + j));
        if (p > 0) {
            const double* in[2] = {g, h};
            double* out[2] = {next, dnext};
            product_rows<2>(in, chain.backward, out, K, padded);
            product_rows<1>(in, chain.backward_tangent, &extra, K, padded);
            for (int64_t j = 0; j < padded; j += 4) {
                store(beta + j, load(next + j));
                store(dbeta + j, load(dnext + j) + load(extra + j));
            }
        }
    }
    s.good = largest(most) < huge_backward * huge_backward * s.weight * s.weight;
    if (!s.good) return;
    for (int64_t p = 0; p < s.length; ++p) add_residual(chain, s, p, s.nodes + p * s.stride);
}

}  // namespace
}  // namespace ff::FF_ISA

// Which instruction set this translation unit is compiled for, and which one the processor has.
//
// A hot kernel lives in NAME_isa.cpp inside `namespace ff::FF_ISA` and is compiled once for each level. Its header
// declares it with FF_DECLARE_LEVELS, its binding calls it with FF_CALL, which picks the best level once.
#pragma once

#ifndef FF_ISA
#define FF_ISA baseline
#endif

#ifndef FF_HAVE_X86_LEVELS
#define FF_HAVE_X86_LEVELS 0
#endif

#define FF_DECLARE_LEVEL(level, signature) \
    namespace ff::level {                  \
    signature;                             \
    }

#if FF_HAVE_X86_LEVELS == 2
#define FF_DECLARE_LEVELS(signature)      \
    FF_DECLARE_LEVEL(baseline, signature) \
    FF_DECLARE_LEVEL(avx2, signature)     \
    FF_DECLARE_LEVEL(avx512, signature)
#define FF_CALL(function)                           \
    (ff::isa_level() == 2   ? &ff::avx512::function \
     : ff::isa_level() == 1 ? &ff::avx2::function   \
                            : &ff::baseline::function)
#elif FF_HAVE_X86_LEVELS == 1
#define FF_DECLARE_LEVELS(signature)      \
    FF_DECLARE_LEVEL(baseline, signature) \
    FF_DECLARE_LEVEL(avx2, signature)
#define FF_CALL(function) (ff::isa_level() == 1 ? &ff::avx2::function : &ff::baseline::function)
#else
#define FF_DECLARE_LEVELS(signature) FF_DECLARE_LEVEL(baseline, signature)
#define FF_CALL(function) (&ff::baseline::function)
#endif

namespace ff {
// 0 baseline, 1 AVX2 + FMA, 2 AVX-512 (F, DQ, VL, BW), at most what was compiled (FF_HAVE_X86_LEVELS). FIELDFIT_ISA in
// the environment may lower it (tests do).
int isa_level();
}  // namespace ff

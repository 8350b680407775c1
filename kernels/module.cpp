// The extension module: one binding function for each idea, found in NAME_bind.cpp.
#include <nanobind/nanobind.h>

#include <cstdlib>
#include <cstring>

#include "bindings.hpp"
#include "isa.hpp"

namespace nb = nanobind;

namespace ff {

static int detect_level() {
    int level = 0;
#if FF_HAVE_X86_LEVELS
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) level = 1;
    if (level == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        level = 2;
    if (level > FF_HAVE_X86_LEVELS) level = FF_HAVE_X86_LEVELS;
    if (const char* wanted = std::getenv("FIELDFIT_ISA")) {
        if (!std::strcmp(wanted, "baseline")) level = 0;
        if (!std::strcmp(wanted, "avx2") && level > 1) level = 1;
    }
#endif
    return level;
}

int isa_level() {
    static const int level = detect_level();
    return level;
}

}  // namespace ff

NB_MODULE(_kernels, module) {
    // Threads that still run when Python ends keep what they hold. Only fieldfit's tests ask for a report.
    nb::set_leak_warnings(std::getenv("FIELDFIT_REPORT_LEAKS") != nullptr);
    module.doc() = "Compiled kernels of fieldfit: flat arrays in, preallocated arrays out.";
    module.def(
        "isa",
        []() {
            const int level = ff::isa_level();
            return level == 2 ? "avx512" : level == 1 ? "avx2" : "baseline";
        },
        "The instruction set that the kernels use on this processor.");
    ff::bind_random(module);
    ff::bind_elementwise(module);
    ff::bind_chain(module);
    ff::bind_chain_decode(module);
    ff::bind_chain_stochastic(module);
    ff::bind_chain_mistakes(module);
    ff::bind_second_order(module);
    ff::bind_elimination(module);
    ff::bind_elimination_order(module);
    ff::bind_gibbs(module);
    ff::bind_selection(module);
    ff::bind_pairwise(module);
    ff::bind_potts(module);
    ff::bind_potts_blocks(module);
    ff::bind_potts_centred(module);
    ff::bind_identity(module);
    ff::bind_missing_rows(module);
    ff::bind_pairwise_moments(module);
    ff::bind_row_grams(module);
    ff::bind_pairwise_information(module);
    ff::bind_name_table(module);
    ff::bind_template_encoder(module);
    ff::bind_sentence_tagger(module);
    ff::bind_vectors(module);
    ff::bind_lasso(module);
    ff::bind_logistic_path(module);
}

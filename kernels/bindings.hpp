// The binding functions of all ideas, and the array types that they take.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace ff {

namespace nb = nanobind;

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void bind_random(nb::module_& module);
void bind_elementwise(nb::module_& module);
void bind_chain(nb::module_& module);
void bind_chain_decode(nb::module_& module);
void bind_chain_stochastic(nb::module_& module);
void bind_chain_mistakes(nb::module_& module);
void bind_second_order(nb::module_& module);
void bind_elimination(nb::module_& module);
void bind_elimination_order(nb::module_& module);
void bind_gibbs(nb::module_& module);
void bind_selection(nb::module_& module);
void bind_pairwise(nb::module_& module);
void bind_potts(nb::module_& module);
void bind_potts_blocks(nb::module_& module);
void bind_potts_centred(nb::module_& module);
void bind_identity(nb::module_& module);
void bind_missing_rows(nb::module_& module);
void bind_pairwise_moments(nb::module_& module);
void bind_row_grams(nb::module_& module);
void bind_pairwise_information(nb::module_& module);
void bind_name_table(nb::module_& module);
void bind_template_encoder(nb::module_& module);
void bind_sentence_tagger(nb::module_& module);
void bind_vectors(nb::module_& module);
void bind_lasso(nb::module_& module);
void bind_logistic_path(nb::module_& module);

}  // namespace ff

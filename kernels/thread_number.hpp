// The number of the calling thread in its OpenMP team: 0 outside one, or without OpenMP.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

namespace ff {

static inline int thread_number() {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

}  // namespace ff

// The hot and cold features of one sequence, listed where they are needed.
//
// Lists of all tokens take more memory than the features that they are made of. With many labels the recursions take
// nearly all of the time, and a fit with an L1 penalty soon works on a selection with short lists of its own: there
// each pass over a sequence makes its lists anew.
#pragma once

#include "chain.hpp"

namespace ff {

// The doubles of memory that `listed` needs.
static inline int64_t list_room(const ChainData& data) {
    if (!data.feature_ptr) return 0;
    const int64_t values = data.feature_values ? 2 * data.max_entries : 0;
    const int64_t bytes = 2 * (data.max_tokens + 1) * 4 + data.max_entries * (4 + 2);
    return (values + (bytes + 7) / 8 + 7) / 8 * 8;
}

// The data with the lists of the tokens first..last, which are one sequence; no other tokens have lists then.
static inline ChainData listed(const ChainData& data, int64_t first, int64_t last, double* memory) {
    ChainData view = data;
    if (!data.feature_ptr) return view;
    double* hot_values = memory;
    double* cold_values = memory + (data.feature_values ? data.max_entries : 0);
    uint32_t* hot_ptr = reinterpret_cast<uint32_t*>(cold_values + (data.feature_values ? data.max_entries : 0));
    uint32_t* cold_ptr = hot_ptr + data.max_tokens + 1;
    int32_t* cold_places = reinterpret_cast<int32_t*>(cold_ptr + data.max_tokens + 1);
    uint16_t* hot_rows = reinterpret_cast<uint16_t*>(cold_places + data.max_entries);
    uint32_t hot = 0, cold = 0;
    for (int64_t token = first; token < last; ++token) {
        hot_ptr[token - first] = hot;
        cold_ptr[token - first] = cold;
        if (data.active && !data.active[token]) continue;
        for (int64_t q = data.feature_ptr[token]; q < data.feature_ptr[token + 1]; ++q) {
            const int32_t feature = data.features[q], row = data.row_of[feature];
            hot_rows[hot] = static_cast<uint16_t>(row);
            cold_places[cold] = feature;
            if (data.feature_values) hot_values[hot] = cold_values[cold] = data.feature_values[q];
            hot += row >= 0;
            cold += row == cold_row;
        }
    }
    hot_ptr[last - first] = hot;
    cold_ptr[last - first] = cold;
    view.n_tokens = last;  // nothing is fetched ahead of the lists
    view.hot_ptr = hot_ptr - first;
    view.cold_ptr = cold_ptr - first;
    view.hot_rows = hot_rows;
    view.cold_places = cold_places;
    view.hot_values = data.feature_values ? hot_values : nullptr;
    view.cold_values = data.feature_values ? cold_values : nullptr;
    return view;
}

}  // namespace ff

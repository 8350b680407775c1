// Compiled eliminations as Python hands them over: arrays by name, checked once.
#pragma once

#include "bindings.hpp"
#include "elimination.hpp"

namespace ff {

struct ProgramArrays {
    In<int32_t> bucket_ptr, group_ptr;
    In<int64_t> cell_count;
    In<int32_t> group_size;
    In<int64_t> group_cell;
    In<int32_t> bucket_size, bucket_card;
    In<int64_t> bucket_cell, message_cell;
    In<int32_t> input_ptr, input_source;
    In<int64_t> input_map;
    In<int32_t> maps, bucket_var, separator_ptr, separator_var, separator_stride, wide;
    In<int64_t> step_ptr, input_step;
    In<int32_t> program_template;
    In<int64_t> program_member, program_group;
    In<int32_t> group_member;
    In<int64_t> member_entry;
    In<int32_t> entry_offset;
    In<int64_t> program_variable;
    In<int32_t> variable;

    Programs view() const;
    // Throws where an index of a template or program leaves its array.
    void check() const;

  private:
    void check_templates() const;
    void check_programs() const;
};

// Assignments of the clamped variables of each program, for flat tables of one size. Holds the programs' arrays too.
struct ConfigurationArrays {
    ProgramArrays programs;
    In<int64_t> config_ptr, bases;
    int64_t table_size;

    int64_t count() const { return config_ptr.data()[config_ptr.shape(0) - 1]; }
    void check() const;
};

}  // namespace ff

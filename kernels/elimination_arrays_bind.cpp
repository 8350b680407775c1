#include <vector>

#include "checks.hpp"
#include "elimination_arrays.hpp"

namespace ff {

static const Checks checks("Programs");

Programs ProgramArrays::view() const {
    Programs p{};
    p.bucket_ptr = bucket_ptr.data();
    p.group_ptr = group_ptr.data();
    p.cell_count = cell_count.data();
    p.group_size = group_size.data();
    p.group_cell = group_cell.data();
    p.bucket_size = bucket_size.data();
    p.bucket_card = bucket_card.data();
    p.bucket_cell = bucket_cell.data();
    p.message_cell = message_cell.data();
    p.input_ptr = input_ptr.data();
    p.input_source = input_source.data();
    p.input_map = input_map.data();
    p.maps = maps.data();
    p.bucket_var = bucket_var.data();
    p.separator_ptr = separator_ptr.data();
    p.separator_var = separator_var.data();
    p.separator_stride = separator_stride.data();
    p.wide = wide.data();
    p.step_ptr = step_ptr.data();
    p.input_step = input_step.data();
    p.n_programs = static_cast<int64_t>(program_template.shape(0));
    p.program_template = program_template.data();
    p.program_member = program_member.data();
    p.program_group = program_group.data();
    p.group_member = group_member.data();
    p.member_entry = member_entry.data();
    p.entry_offset = entry_offset.data();
    p.program_variable = program_variable.data();
    p.variable = variable.data();
    return p;
}

void ProgramArrays::check() const {
    check_templates();
    check_programs();
}

// The steps of an input of a wide bucket stay in its table.
static void check_steps(const Programs& p, int32_t input, int32_t bucket, const std::vector<int64_t>& cardinality,
                        int64_t table) {
    const int64_t* step = p.input_step + p.step_ptr[input];
    const int32_t* separator = p.separator_var + p.separator_ptr[bucket];
    const int64_t count = p.separator_ptr[bucket + 1] - p.separator_ptr[bucket];
    checks.require(p.step_ptr[input + 1] - p.step_ptr[input] == 1 + count,
                   "an input of a wide bucket needs a step for its variable and each of its separator");
    checks.within("input_step leaves the table of an input", step, 1 + count, 0, table + 1);
    checks.within("separator_var names a variable that does not exist", separator, count, 0,
                  static_cast<int64_t>(cardinality.size()));
    int64_t furthest = (p.bucket_card[bucket] - 1) * step[0];
    for (int64_t k = 0; k < count; ++k) furthest += (cardinality[static_cast<size_t>(separator[k])] - 1) * step[1 + k];
    checks.require(furthest < table, "input_step leaves the table of an input");
}

void ProgramArrays::check_templates() const {
    const size_t templates = cell_count.shape(0);
    checks.length("bucket_ptr", bucket_ptr.shape(0), templates + 1);
    checks.length("group_ptr", group_ptr.shape(0), templates + 1);
    const Programs p = view();
    const size_t buckets =
        static_cast<size_t>(checks.pointers("bucket_ptr", p.bucket_ptr, static_cast<int64_t>(templates)));
    const size_t groups =
        static_cast<size_t>(checks.pointers("group_ptr", p.group_ptr, static_cast<int64_t>(templates)));
    checks.length("group_size", group_size.shape(0), groups);
    checks.length("group_cell", group_cell.shape(0), groups);
    checks.length("bucket_size", bucket_size.shape(0), buckets);
    checks.length("bucket_card", bucket_card.shape(0), buckets);
    checks.length("bucket_cell", bucket_cell.shape(0), buckets);
    checks.length("message_cell", message_cell.shape(0), buckets);
    checks.length("bucket_var", bucket_var.shape(0), buckets);
    checks.length("input_ptr", input_ptr.shape(0), buckets + 1);
    checks.length("separator_ptr", separator_ptr.shape(0), buckets + 1);
    const size_t inputs = static_cast<size_t>(checks.pointers("input_ptr", p.input_ptr, static_cast<int64_t>(buckets)));
    checks.length("input_source", input_source.shape(0), inputs);
    checks.length("input_map", input_map.shape(0), inputs);
    const size_t separators =
        static_cast<size_t>(checks.pointers("separator_ptr", p.separator_ptr, static_cast<int64_t>(buckets)));
    checks.length("separator_var", separator_var.shape(0), separators);
    checks.length("separator_stride", separator_stride.shape(0), separators);
    checks.length("wide", wide.shape(0), templates);
    checks.length("step_ptr", step_ptr.shape(0), inputs + 1);
    checks.length("input_step", input_step.shape(0),
                  static_cast<size_t>(checks.pointers("step_ptr", p.step_ptr, static_cast<int64_t>(inputs))));

    std::vector<int64_t> cardinality;  // of the free variables of a template
    std::vector<char> taken;           // whether a later bucket takes the message of a bucket
    for (size_t t = 0; t < templates; ++t) {
        const int32_t first = p.bucket_ptr[t], last = p.bucket_ptr[t + 1];
        checks.require(p.cell_count[t] >= 0, "cell_count must not be negative");
        const size_t cells = static_cast<size_t>(p.cell_count[t]);
        for (int32_t g = p.group_ptr[t]; g < p.group_ptr[t + 1]; ++g)
            checks.range("the working memory of a group", p.group_cell[g], p.group_size[g], cells);
        checks.within("bucket_var names a variable that does not exist", p.bucket_var + first, last - first, 0,
                      last - first);
        cardinality.assign(static_cast<size_t>(last - first), 1);
        taken.assign(static_cast<size_t>(last - first), 0);
        for (int32_t b = first; b < last; ++b) {
            checks.require(p.bucket_card[b] >= 1 && p.bucket_size[b] % p.bucket_card[b] == 0,
                           "the size of a bucket must be a multiple of its cardinality");
            cardinality[static_cast<size_t>(p.bucket_var[b])] = p.bucket_card[b];
        }
        for (int32_t b = first; b < last; ++b) {
            const int64_t size = p.bucket_size[b], card = p.bucket_card[b];
            if (!p.wide[t]) {
                checks.range("the working memory of a bucket", p.bucket_cell[b], size, cells);
                checks.range("the working memory of a message", p.message_cell[b], size / card, cells);
            }
            for (int32_t i = p.input_ptr[b]; i < p.input_ptr[b + 1]; ++i) {
                const int32_t source = p.input_source[i];
                int64_t table;
                if (source >= 0) {
                    checks.require(source >= p.group_ptr[t] && source < p.group_ptr[t + 1],
                                   "input_source names a group of another template");
                    table = p.group_size[source];
                } else {
                    const int32_t from = -1 - source;
                    checks.require(from >= first && from < b, "input_source must name an earlier bucket");
                    table = p.bucket_size[from] / p.bucket_card[from];
                    checks.require(!taken[static_cast<size_t>(from - first)], "a message is taken twice");
                    taken[static_cast<size_t>(from - first)] = 1;
                }
                if (p.wide[t]) {
                    check_steps(p, i, b, cardinality, table);
                } else {
                    checks.range("maps", p.input_map[i], size, maps.shape(0));
                    checks.within("maps leaves the table of an input", p.maps + p.input_map[i], size, 0, table);
                }
            }
            int64_t furthest = 0;
            for (int32_t k = p.separator_ptr[b]; k < p.separator_ptr[b + 1]; ++k) {
                checks.require(p.separator_var[k] >= 0 && p.separator_var[k] < last - first,
                               "separator_var names a variable that does not exist");
                checks.require(p.separator_stride[k] >= 0, "separator_stride must not be negative");
                furthest += (cardinality[static_cast<size_t>(p.separator_var[k])] - 1) * p.separator_stride[k];
            }
            checks.require((furthest + 1) * card <= size || size == 0,
                           "separator_stride leaves the table of its bucket");
            if (p.wide[t]) {
                int64_t states = card;
                for (int32_t k = p.separator_ptr[b]; k < p.separator_ptr[b + 1]; ++k)
                    states *= cardinality[static_cast<size_t>(p.separator_var[k])];
                checks.require(states == size, "bucket_size must be the number of states of its variables");
            }
        }
        for (int32_t b = first; b < last; ++b)
            checks.require(taken[static_cast<size_t>(b - first)] || p.separator_ptr[b] == p.separator_ptr[b + 1],
                           "a message with a separator must be taken");
    }
}

void ProgramArrays::check_programs() const {
    const size_t templates = cell_count.shape(0), programs = program_template.shape(0);
    checks.length("program_member", program_member.shape(0), programs + 1);
    checks.length("program_group", program_group.shape(0), programs);
    checks.length("program_variable", program_variable.shape(0), programs + 1);
    const Programs p = view();
    checks.within("program_template names a template that does not exist", p.program_template, p.n_programs, 0,
                  static_cast<int64_t>(templates));
    checks.length("member_entry", member_entry.shape(0),
                  static_cast<size_t>(checks.pointers("program_member", p.program_member, p.n_programs)));
    checks.length("variable", variable.shape(0),
                  static_cast<size_t>(checks.pointers("program_variable", p.program_variable, p.n_programs)));
    checks.within("variable must not be negative", p.variable, static_cast<int64_t>(variable.shape(0)), 0, INT32_MAX);
    checks.within("entry_offset must not be negative", p.entry_offset, static_cast<int64_t>(entry_offset.shape(0)), 0,
                  INT32_MAX);
    for (int64_t q = 0; q < p.n_programs; ++q) {
        const int32_t t = p.program_template[q];
        const int64_t members = p.program_member[q + 1] - p.program_member[q];
        const int64_t groups = p.group_ptr[t + 1] - p.group_ptr[t];
        checks.require(p.program_variable[q + 1] - p.program_variable[q] == p.bucket_ptr[t + 1] - p.bucket_ptr[t],
                       "a program needs one variable for each bucket of its template");
        checks.range("group_member", p.program_group[q], groups + 1, group_member.shape(0));
        const int32_t* member = p.group_member + p.program_group[q];
        checks.require(checks.pointers("group_member", member, groups) == members,
                       "group_member must end with the number of members");
        for (int64_t g = 0; g < groups; ++g)
            for (int32_t i = member[g]; i < member[g + 1]; ++i)
                checks.range("entry_offset", p.member_entry[p.program_member[q] + i], p.group_size[p.group_ptr[t] + g],
                             entry_offset.shape(0));
    }
}

void ConfigurationArrays::check() const {
    const Checks own("Configurations");
    const Programs p = programs.view();
    own.length("config_ptr", config_ptr.shape(0), static_cast<size_t>(p.n_programs) + 1);
    own.pointers("config_ptr", config_ptr.data(), p.n_programs);
    own.require(table_size >= 0, "table_size must not be negative");
    int64_t needed = 0;
    for (int64_t q = 0; q < p.n_programs; ++q)
        needed += (config_ptr.data()[q + 1] - config_ptr.data()[q]) * (p.program_member[q + 1] - p.program_member[q]);
    own.length("bases", bases.shape(0), static_cast<size_t>(needed));
    std::vector<int64_t> room;  // how far a member's base may be from the start of the tables
    const int64_t* base = bases.data();
    for (int64_t q = 0; q < p.n_programs; ++q) {
        const int32_t t = p.program_template[q];
        const int64_t members = p.program_member[q + 1] - p.program_member[q];
        const int64_t count = config_ptr.data()[q + 1] - config_ptr.data()[q];
        if (!members || !count) continue;
        room.assign(static_cast<size_t>(members), table_size);
        const int32_t* member = p.group_member + p.program_group[q];
        for (int32_t g = 0; g < p.group_ptr[t + 1] - p.group_ptr[t]; ++g)
            for (int32_t i = member[g]; i < member[g + 1]; ++i) {
                const int32_t* offset = p.entry_offset + p.member_entry[p.program_member[q] + i];
                const int32_t size = p.group_size[p.group_ptr[t] + g];
                if (size) room[static_cast<size_t>(i)] -= *std::max_element(offset, offset + size);
            }
        int64_t outside = 0;
        for (int64_t c = 0; c < count; ++c, base += members)
            for (int64_t i = 0; i < members; ++i) outside += (base[i] < 0) | (base[i] >= room[static_cast<size_t>(i)]);
        own.require(outside == 0, "bases leaves the tables");
    }
}

}  // namespace ff

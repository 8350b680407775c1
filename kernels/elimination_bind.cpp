// Python's way into the eliminations: programs and configurations as flat arrays.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "checks.hpp"
#include "elimination_arrays.hpp"
#include "elimination_wide_run.hpp"
#include "interruption.hpp"
#include "philox.hpp"
#include "team.hpp"

namespace ff {

namespace {

template <class T>
auto data_or_null(const std::optional<T>& array) {
    return array ? array->data() : nullptr;
}

constexpr int64_t wide_lanes = 8;
// Above this many doubles of working memory a program goes one configuration at a time, to stay in the caches.
constexpr int64_t wide_limit = int64_t{1} << 19;
constexpr int64_t most_chunks = 32;
// Batches between two looks at Ctrl-C.
constexpr int64_t at_once = 64;
// Doubles that the separate sums of all chunks may take together.
constexpr int64_t chunk_memory = int64_t{1} << 25;

int64_t eliminate_wide(const Programs& programs, const Tables& tables, const Request& request, const Batch* batches,
                       int64_t first, int64_t last, int64_t message_memory, Interruption& interruption) {
    std::unique_ptr<WideElimination> wide;
    int32_t model = -1;
    int64_t again = 0;
    for (int64_t i = first; i < last && !interruption.asked(); ++i) {
        if (const int32_t needed = programs.program_template[batches[i].program]; needed != model) {
            model = needed;
            wide = std::make_unique<WideElimination>(programs, model, tables.direction != nullptr, message_memory);
        }
        again += wide->run(tables, request, batches[i]);
    }
    return again;
}

int64_t eliminate_all(const Programs& programs, const Tables& tables, const Request& request, const int64_t* config_ptr,
                      int64_t table_size, int64_t message_memory, int n_threads) {
    const int tangent = tables.direction ? 2 : 1;
    enum Way { alone, eight_lanes, wide_tables };
    std::vector<Batch> batches[3];
    int64_t work_size[3] = {0, 0, 0};
    int64_t base = 0;
    for (int64_t p = 0; p < programs.n_programs; ++p) {
        const int64_t count = config_ptr[p + 1] - config_ptr[p];
        const int64_t n_members = programs.program_member[p + 1] - programs.program_member[p];
        const int64_t cells = programs.cell_count[programs.program_template[p]];
        const Way way = programs.wide[programs.program_template[p]]                ? wide_tables
                        : count >= 3 && cells * wide_lanes * tangent <= wide_limit ? eight_lanes
                                                                                   : alone;
        const int64_t lanes = way == eight_lanes ? wide_lanes : 1;
        if (count && way != wide_tables) work_size[way] = std::max(work_size[way], cells * lanes * tangent);
        for (int64_t c = 0; c < count; c += lanes)
            batches[way].push_back(Batch{p, config_ptr[p] + c, std::min(lanes, count - c), base + c * n_members});
        base += count * n_members;
    }
    const bool sums = request.marginals || request.marginal_slope;
    int64_t again = 0;
    Interruption interruption;
    for (const Way way : {alone, eight_lanes, wide_tables}) {
        const int64_t n_batches = static_cast<int64_t>(batches[way].size());
        if (!n_batches) continue;
        // The chunks depend on the work alone, never on the number of threads: the same bits on any machine size.
        int64_t n_chunks = std::min(n_batches, most_chunks);
        const int64_t sums_size = table_size * ((request.marginals ? 1 : 0) + (request.marginal_slope ? 1 : 0));
        if (sums && sums_size) n_chunks = std::max<int64_t>(1, std::min(n_chunks, chunk_memory / sums_size));
        std::vector<double> partial;
        if (sums && n_chunks > 1) partial.assign(static_cast<size_t>(n_chunks * sums_size), 0.0);
        const int team = static_cast<int>(std::min<int64_t>(n_threads, n_chunks));
        std::vector<int64_t> redone(static_cast<size_t>(n_chunks), 0);
        // One piece for each thread, at a distance of whole cache lines; pages that nobody touches cost nothing.
        const int64_t piece = (work_size[way] + 7) / 8 * 8;
        std::unique_ptr<double[]> work(new double[static_cast<size_t>(team * piece)]);
        for_each_task(n_chunks, team, [&](int64_t chunk) {
            double* own_work = work.get() + thread_number() * piece;
            int64_t& own_redone = redone[static_cast<size_t>(chunk)];
            Request part = request;
            if (sums && n_chunks > 1) {
                double* own = partial.data() + chunk * sums_size;
                if (request.marginals) {
                    part.marginals = own;
                    own += table_size;
                }
                if (request.marginal_slope) part.marginal_slope = own;
            }
            const int64_t first = n_batches * chunk / n_chunks, last = n_batches * (chunk + 1) / n_chunks;
            if (way == wide_tables)
                own_redone += eliminate_wide(programs, tables, part, batches[way].data(), first, last, message_memory,
                                             interruption);
            else
                for (int64_t at = first; at < last && !interruption.asked(); at += at_once)
                    own_redone += FF_CALL(eliminate)(programs, tables, part, batches[way].data(), at,
                                                     std::min(at + at_once, last),
                                                     way == eight_lanes ? static_cast<int>(wide_lanes) : 1, own_work);
        });
        interruption.raise();
        for (const int64_t count : redone) again += count;
        if (sums && n_chunks > 1) {
            for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
                const double* own = partial.data() + chunk * sums_size;
                if (request.marginals) {
                    for (int64_t e = 0; e < table_size; ++e) request.marginals[e] += own[e];
                    own += table_size;
                }
                if (request.marginal_slope)
                    for (int64_t e = 0; e < table_size; ++e) request.marginal_slope[e] += own[e];
            }
        }
    }
    return again;
}

// The marginals of each configuration lie in their array.
void check_each(const Programs& p, const int64_t* config_ptr, const int64_t* start, size_t size, const Checks& checks) {
    for (int64_t q = 0; q < p.n_programs; ++q) {
        const int32_t t = p.program_template[q];
        const int32_t* member = p.group_member + p.program_group[q];
        int64_t entries = 0;
        for (int32_t g = 0; g < p.group_ptr[t + 1] - p.group_ptr[t]; ++g)
            entries += static_cast<int64_t>(member[g + 1] - member[g]) * p.group_size[p.group_ptr[t] + g];
        for (int64_t c = config_ptr[q]; c < config_ptr[q + 1]; ++c) checks.range("each", start[c], entries, size);
    }
}

// States of the free variables, the last eliminated first: drawn from the conditionals, or the maximising ones.
void decode(const Programs& p, const double* work, bool maximise, Philox* random, int32_t* states) {
    const int32_t model = p.program_template[0];
    for (int32_t b = p.bucket_ptr[model + 1] - 1; b >= p.bucket_ptr[model]; --b) {
        int64_t s = 0;
        for (int32_t k = p.separator_ptr[b]; k < p.separator_ptr[b + 1]; ++k)
            s += static_cast<int64_t>(states[p.variable[p.separator_var[k]]]) * p.separator_stride[k];
        const int32_t card = p.bucket_card[b];
        const double* row = work + p.bucket_cell[b] + s * card;
        int32_t chosen = 0;
        if (maximise) {
            for (int32_t v = 1; v < card; ++v)
                if (row[v] > row[chosen]) chosen = v;
        } else {
            double rest = random->next();
            // Rounding may leave a little of the unit interval; a state of probability 0 must not get it.
            for (int32_t v = 0; v < card; ++v) {
                if (row[v] > 0.0) chosen = v;
                if (rest < row[v]) break;
                rest -= row[v];
            }
        }
        states[p.variable[p.bucket_var[b]]] = chosen;
    }
}

}  // namespace

void bind_elimination(nb::module_& module) {
    nb::class_<ProgramArrays>(module, "Programs", "Compiled eliminations, whose indices are checked here once.")
        .def(
            "__init__",
            [](ProgramArrays* self, In<int32_t> bucket_ptr, In<int32_t> group_ptr, In<int64_t> cell_count,
               In<int32_t> group_size, In<int64_t> group_cell, In<int32_t> bucket_size, In<int32_t> bucket_card,
               In<int64_t> bucket_cell, In<int64_t> message_cell, In<int32_t> input_ptr, In<int32_t> input_source,
               In<int64_t> input_map, In<int32_t> maps, In<int32_t> bucket_var, In<int32_t> separator_ptr,
               In<int32_t> separator_var, In<int32_t> separator_stride, In<int32_t> wide, In<int64_t> step_ptr,
               In<int64_t> input_step, In<int32_t> program_template, In<int64_t> program_member,
               In<int64_t> program_group, In<int32_t> group_member, In<int64_t> member_entry, In<int32_t> entry_offset,
               In<int64_t> program_variable, In<int32_t> variable) {
                ProgramArrays arrays;
                arrays.bucket_ptr = bucket_ptr;
                arrays.group_ptr = group_ptr;
                arrays.cell_count = cell_count;
                arrays.group_size = group_size;
                arrays.group_cell = group_cell;
                arrays.bucket_size = bucket_size;
                arrays.bucket_card = bucket_card;
                arrays.bucket_cell = bucket_cell;
                arrays.message_cell = message_cell;
                arrays.input_ptr = input_ptr;
                arrays.input_source = input_source;
                arrays.input_map = input_map;
                arrays.maps = maps;
                arrays.bucket_var = bucket_var;
                arrays.separator_ptr = separator_ptr;
                arrays.separator_var = separator_var;
                arrays.separator_stride = separator_stride;
                arrays.wide = wide;
                arrays.step_ptr = step_ptr;
                arrays.input_step = input_step;
                arrays.program_template = program_template;
                arrays.program_member = program_member;
                arrays.program_group = program_group;
                arrays.group_member = group_member;
                arrays.member_entry = member_entry;
                arrays.entry_offset = entry_offset;
                arrays.program_variable = program_variable;
                arrays.variable = variable;
                arrays.check();
                new (self) ProgramArrays(arrays);
            },
            nb::kw_only(), nb::arg("bucket_ptr"), nb::arg("group_ptr"), nb::arg("cell_count"), nb::arg("group_size"),
            nb::arg("group_cell"), nb::arg("bucket_size"), nb::arg("bucket_card"), nb::arg("bucket_cell"),
            nb::arg("message_cell"), nb::arg("input_ptr"), nb::arg("input_source"), nb::arg("input_map"),
            nb::arg("maps"), nb::arg("bucket_var"), nb::arg("separator_ptr"), nb::arg("separator_var"),
            nb::arg("separator_stride"), nb::arg("wide"), nb::arg("step_ptr"), nb::arg("input_step"),
            nb::arg("program_template"), nb::arg("program_member"), nb::arg("program_group"), nb::arg("group_member"),
            nb::arg("member_entry"), nb::arg("entry_offset"), nb::arg("program_variable"), nb::arg("variable"));

    nb::class_<ConfigurationArrays>(module, "Configurations",
                                    "Assignments of the clamped variables of programs, whose indices are checked here "
                                    "once for flat tables of this size.")
        .def(
            "__init__",
            [](ConfigurationArrays* self, const ProgramArrays& programs, In<int64_t> config_ptr, In<int64_t> bases,
               int64_t table_size) {
                const ConfigurationArrays arrays{programs, config_ptr, bases, table_size};
                arrays.check();
                new (self) ConfigurationArrays(arrays);
            },
            nb::arg("programs"), nb::kw_only(), nb::arg("config_ptr"), nb::arg("bases"), nb::arg("table_size"));

    module.def(
        "eliminate",
        [](const ConfigurationArrays& arrays, In<double> logarithm, std::optional<In<double>> direction,
           std::optional<In<double>> weight, std::optional<Out<double>> log_z, std::optional<Out<double>> slope,
           std::optional<Out<double>> marginals, std::optional<Out<double>> marginal_slope,
           std::optional<Out<double>> each, std::optional<In<int64_t>> each_start, int64_t message_memory,
           int n_threads) {
            const Checks checks("eliminate");
            const size_t configs = static_cast<size_t>(arrays.count()), size = static_cast<size_t>(arrays.table_size);
            const auto length = [&](const char* name, const auto& array, size_t wanted) {
                if (array) checks.length(name, array->shape(0), wanted);
            };
            checks.threads(n_threads);
            checks.length("logarithm", logarithm.shape(0), size);
            length("direction", direction, size);
            length("weight", weight, configs);
            length("log_z", log_z, configs);
            length("slope", slope, configs);
            length("marginals", marginals, size);
            length("marginal_slope", marginal_slope, size);
            length("each_start", each_start, configs);
            checks.require(!each == !each_start, "each needs each_start");
            checks.require(direction || (!slope && !marginal_slope), "slopes need a direction");
            const Programs programs = arrays.programs.view();
            if (each) check_each(programs, arrays.config_ptr.data(), each_start->data(), each->shape(0), checks);
            const Tables tables{logarithm.data(), data_or_null(direction)};
            const Request request{arrays.bases.data(), data_or_null(weight),    data_or_null(log_z),
                                  data_or_null(slope), data_or_null(marginals), data_or_null(marginal_slope),
                                  data_or_null(each),  data_or_null(each_start)};
            nb::gil_scoped_release release;
            return eliminate_all(programs, tables, request, arrays.config_ptr.data(), arrays.table_size, message_memory,
                                 n_threads);
        },
        nb::arg("configurations"), nb::arg("logarithm"), nb::kw_only(), nb::arg("direction") = nb::none(),
        nb::arg("weight") = nb::none(), nb::arg("log_z") = nb::none(), nb::arg("slope") = nb::none(),
        nb::arg("marginals") = nb::none(), nb::arg("marginal_slope") = nb::none(), nb::arg("each") = nb::none(),
        nb::arg("each_start") = nb::none(), nb::arg("message_memory"), nb::arg("n_threads"),
        "Log-partition functions, slopes and marginals of all configurations; returns the batches redone in log "
        "space. Wide eliminations keep messages of `message_memory` doubles and make the others again.");

    module.def(
        "eliminate_decode",
        [](const ConfigurationArrays& arrays, In<double> logarithm, bool maximise, uint64_t seed, uint32_t stream,
           int64_t first_row, Out2<int32_t> states, int64_t message_memory) {
            const Checks checks("eliminate_decode");
            const Programs programs = arrays.programs.view();
            checks.require(programs.n_programs == 1 && arrays.count() == 1, "needs one program and one configuration");
            checks.length("logarithm", logarithm.shape(0), static_cast<size_t>(arrays.table_size));
            const Tables tables{logarithm.data(), nullptr};
            int32_t* out = states.data();
            const int64_t rows = static_cast<int64_t>(states.shape(0)), width = static_cast<int64_t>(states.shape(1));
            checks.within("states needs a column for each variable", programs.variable, programs.program_variable[1], 0,
                          width);
            nb::gil_scoped_release release;
            if (programs.wide[programs.program_template[0]]) {
                std::vector<Philox> random;
                for (int64_t i = 0; i < rows; ++i)
                    random.emplace_back(seed, stream, static_cast<uint64_t>(first_row + i));
                return WideElimination(programs, programs.program_template[0], false, message_memory)
                    .decode(tables, arrays.bases.data(), maximise, random, out, width);
            }
            std::unique_ptr<double[]> work(
                new double[static_cast<size_t>(programs.cell_count[programs.program_template[0]]) + 1]);
            const double log_z = FF_CALL(forward_once)(programs, tables, arrays.bases.data(), maximise, work.get());
            for (int64_t i = 0; i < rows; ++i) {
                Philox random(seed, stream, static_cast<uint64_t>(first_row + i));
                decode(programs, work.get(), maximise, &random, out + i * width);
            }
            return log_z;
        },
        nb::arg("configurations"), nb::arg("logarithm"), nb::kw_only(), nb::arg("maximise"), nb::arg("seed"),
        nb::arg("stream"), nb::arg("first_row"), nb::arg("states").noconvert(), nb::arg("message_memory"),
        "Fill the free variables of each line of states: exact draws keyed by (seed, stream, row), or the best state.");
}

}  // namespace ff

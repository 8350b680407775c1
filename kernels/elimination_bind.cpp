// Python's way into the eliminations: programs and configurations as flat arrays. An array of length 0 stands for "not
// wanted" or "all ones".
#include <algorithm>
#include <memory>
#include <vector>

#include "bindings.hpp"
#include "elimination.hpp"
#include "philox.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace ff {

namespace {

struct ProgramArrays {
    In<int32_t> bucket_ptr, group_ptr;
    In<int64_t> cell_count;
    In<int32_t> group_size;
    In<int64_t> group_cell;
    In<int32_t> bucket_size, bucket_card;
    In<int64_t> bucket_cell, message_cell;
    In<int32_t> input_ptr, input_source;
    In<int64_t> input_map;
    In<int32_t> maps, bucket_var, separator_ptr, separator_var, separator_stride;
    In<int32_t> program_template;
    In<int64_t> program_member, program_group;
    In<int32_t> group_member;
    In<int64_t> member_entry;
    In<int32_t> entry_offset;
    In<int64_t> program_variable;
    In<int32_t> variable;

    Programs view() const {
        const size_t templates = cell_count.shape(0), programs = program_template.shape(0);
        if (bucket_ptr.shape(0) != templates + 1 || group_ptr.shape(0) != templates + 1 ||
            program_member.shape(0) != programs + 1 || program_group.shape(0) != programs ||
            program_variable.shape(0) != programs + 1)
            throw nb::value_error("eliminate: the pointers of templates or programs have the wrong length");
        const size_t buckets = static_cast<size_t>(bucket_ptr.data()[templates]);
        const size_t groups = static_cast<size_t>(group_ptr.data()[templates]);
        if (bucket_size.shape(0) != buckets || bucket_card.shape(0) != buckets || bucket_cell.shape(0) != buckets ||
            message_cell.shape(0) != buckets || input_ptr.shape(0) != buckets + 1 || bucket_var.shape(0) != buckets ||
            separator_ptr.shape(0) != buckets + 1 || group_size.shape(0) != groups || group_cell.shape(0) != groups ||
            member_entry.shape(0) != static_cast<size_t>(program_member.data()[programs]) ||
            variable.shape(0) != static_cast<size_t>(program_variable.data()[programs]))
            throw nb::value_error("eliminate: the arrays of the programs do not belong together");
        return Programs{bucket_ptr.data(),
                        group_ptr.data(),
                        cell_count.data(),
                        group_size.data(),
                        group_cell.data(),
                        bucket_size.data(),
                        bucket_card.data(),
                        bucket_cell.data(),
                        message_cell.data(),
                        input_ptr.data(),
                        input_source.data(),
                        input_map.data(),
                        maps.data(),
                        bucket_var.data(),
                        separator_ptr.data(),
                        separator_var.data(),
                        separator_stride.data(),
                        static_cast<int64_t>(programs),
                        program_template.data(),
                        program_member.data(),
                        program_group.data(),
                        group_member.data(),
                        member_entry.data(),
                        entry_offset.data(),
                        program_variable.data(),
                        variable.data()};
    }
};

template <class T>
T* or_null(Out<T>& array) {
    return array.shape(0) ? array.data() : nullptr;
}

template <class T>
const T* or_null(In<T>& array) {
    return array.shape(0) ? array.data() : nullptr;
}

constexpr int64_t wide_lanes = 8;
// Above this many doubles of working memory a program goes one configuration at a time, to stay in the caches.
constexpr int64_t wide_limit = int64_t{1} << 19;
constexpr int64_t most_chunks = 32;
// Doubles that the separate sums of all chunks may take together.
constexpr int64_t chunk_memory = int64_t{1} << 25;

int64_t eliminate_all(const Programs& programs, const Tables& tables, const Request& request, const int64_t* config_ptr,
                      int64_t table_size, int n_threads) {
    const int tangent = tables.direction ? 2 : 1;
    std::vector<Batch> batches[2];  // one lane, eight lanes
    int64_t work_size[2] = {0, 0};
    int64_t base = 0;
    for (int64_t p = 0; p < programs.n_programs; ++p) {
        const int64_t count = config_ptr[p + 1] - config_ptr[p];
        const int64_t n_members = programs.program_member[p + 1] - programs.program_member[p];
        const int64_t cells = programs.cell_count[programs.program_template[p]];
        const int wide = count >= 3 && cells * wide_lanes * tangent <= wide_limit;
        const int64_t lanes = wide ? wide_lanes : 1;
        if (count) work_size[wide] = std::max(work_size[wide], cells * lanes * tangent);
        for (int64_t c = 0; c < count; c += lanes)
            batches[wide].push_back(Batch{p, config_ptr[p] + c, std::min(lanes, count - c), base + c * n_members});
        base += count * n_members;
    }
    const bool sums = request.marginals || request.marginal_slope;
    int64_t again = 0;
    for (int wide = 0; wide < 2; ++wide) {
        const int64_t n_batches = static_cast<int64_t>(batches[wide].size());
        if (!n_batches) continue;
        // The chunks depend on the work alone, never on the number of threads: the same bits on any machine size.
        int64_t n_chunks = std::min(n_batches, most_chunks);
        const int64_t sums_size = table_size * ((request.marginals ? 1 : 0) + (request.marginal_slope ? 1 : 0));
        if (sums && sums_size) n_chunks = std::max<int64_t>(1, std::min(n_chunks, chunk_memory / sums_size));
        std::vector<double> partial;
        if (sums && n_chunks > 1) partial.assign(static_cast<size_t>(n_chunks * sums_size), 0.0);
        const int team = static_cast<int>(std::min<int64_t>(n_threads, n_chunks));
        int64_t redone = 0;
#pragma omp parallel num_threads(team) if (team > 1) reduction(+ : redone)
        {
            std::unique_ptr<double[]> work(new double[static_cast<size_t>(work_size[wide])]);
#pragma omp for schedule(dynamic, 1)
            for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
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
                redone += FF_CALL(eliminate)(programs, tables, part, batches[wide].data(), first, last,
                                             wide ? static_cast<int>(wide_lanes) : 1, work.get());
            }
        }
        again += redone;
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
    nb::class_<ProgramArrays>(module, "Programs", "Read-only views of compiled eliminations.")
        .def(nb::init<In<int32_t>, In<int32_t>, In<int64_t>, In<int32_t>, In<int64_t>, In<int32_t>, In<int32_t>,
                      In<int64_t>, In<int64_t>, In<int32_t>, In<int32_t>, In<int64_t>, In<int32_t>, In<int32_t>,
                      In<int32_t>, In<int32_t>, In<int32_t>, In<int32_t>, In<int64_t>, In<int64_t>, In<int32_t>,
                      In<int64_t>, In<int32_t>, In<int64_t>, In<int32_t>>());

    module.def(
        "eliminate",
        [](const ProgramArrays& arrays, In<double> logarithm, In<double> direction, In<int64_t> config_ptr,
           In<int64_t> bases, In<double> weight, Out<double> log_z, Out<double> slope, Out<double> marginals,
           Out<double> marginal_slope, Out<double> each, In<int64_t> each_start, int n_threads) {
            const Programs programs = arrays.view();
            const size_t n = static_cast<size_t>(programs.n_programs);
            if (config_ptr.shape(0) != n + 1) throw nb::value_error("eliminate: config_ptr has the wrong length");
            const size_t configs = static_cast<size_t>(config_ptr.data()[n]);
            const size_t size = logarithm.shape(0);
            size_t n_bases = 0;
            for (size_t p = 0; p < n; ++p)
                n_bases += static_cast<size_t>(config_ptr.data()[p + 1] - config_ptr.data()[p]) *
                           static_cast<size_t>(programs.program_member[p + 1] - programs.program_member[p]);
            const auto wants = [](size_t length, size_t expected) { return length == 0 || length == expected; };
            if (bases.shape(0) != n_bases || !wants(direction.shape(0), size) || !wants(weight.shape(0), configs) ||
                !wants(log_z.shape(0), configs) || !wants(slope.shape(0), configs) ||
                !wants(marginals.shape(0), size) || !wants(marginal_slope.shape(0), size) ||
                !wants(each_start.shape(0), configs))
                throw nb::value_error("eliminate: an array has the wrong length");
            const Tables tables{logarithm.data(), or_null(direction)};
            const Request request{bases.data(),       or_null(weight),         or_null(log_z), or_null(slope),
                                  or_null(marginals), or_null(marginal_slope), or_null(each),  or_null(each_start)};
            if ((request.slope || request.marginal_slope) && !tables.direction)
                throw nb::value_error("eliminate: slopes need a direction");
            nb::gil_scoped_release release;
            return eliminate_all(programs, tables, request, config_ptr.data(), static_cast<int64_t>(size), n_threads);
        },
        "Log-partition functions, slopes and marginals of all configurations; returns the batches redone in log "
        "space.");

    module.def(
        "eliminate_decode",
        [](const ProgramArrays& arrays, In<double> logarithm, In<int64_t> bases, bool maximise, uint64_t seed,
           uint32_t stream, int64_t first_row, Out2<int32_t> states) {
            const Programs programs = arrays.view();
            if (programs.n_programs != 1 || bases.shape(0) != static_cast<size_t>(programs.program_member[1]))
                throw nb::value_error("eliminate_decode: needs one program and its bases");
            const Tables tables{logarithm.data(), nullptr};
            int32_t* out = states.data();
            const int64_t rows = static_cast<int64_t>(states.shape(0)), width = static_cast<int64_t>(states.shape(1));
            nb::gil_scoped_release release;
            std::unique_ptr<double[]> work(
                new double[static_cast<size_t>(programs.cell_count[programs.program_template[0]]) + 1]);
            const double log_z = FF_CALL(forward_once)(programs, tables, bases.data(), maximise, work.get());
            for (int64_t i = 0; i < rows; ++i) {
                Philox random(seed, stream, static_cast<uint64_t>(first_row + i));
                decode(programs, work.get(), maximise, &random, out + i * width);
            }
            return log_z;
        },
        "Fill the free variables of each line of states: exact draws keyed by (seed, stream, row), or the best state.");
}

}  // namespace ff

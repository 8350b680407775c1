#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "bindings.hpp"
#include "interruption.hpp"
#include "potts.hpp"
#include "potts_graph.hpp"
#include "team.hpp"

namespace ff {

// Samples, graph and selected components, checked once; evaluations then bring parameters only.
class PottsField : private PottsGraph {
  public:
    PottsField(In2<uint8_t> columns, In2<int32_t> edges, int64_t q, In<int64_t> pointer, In<int64_t> samples,
               bool single)
        : PottsGraph(columns, edges, q), pointer_(pointer), samples_(samples), single_(single) {
        listed_ = pointer.shape(0) != 0;
        if (listed_) {
            need(static_cast<int64_t>(pointer.shape(0)) == m_ + 1, "pointer needs one number for each site and one");
            const int64_t* p = pointer.data();
            need(p[0] == 0 && p[m_] == static_cast<int64_t>(samples.shape(0)), "pointer must run over all samples");
            for (int64_t j = 0; j < m_; ++j) need(p[j] <= p[j + 1], "pointer must not decrease");
            for (int64_t i = 0; i < p[m_]; ++i)
                need(samples.data()[i] >= 0 && samples.data()[i] < n_, "a listed sample does not exist");
        }
        // Tasks depend on the sizes only, so that the sums are the same for any number of threads.
        const int64_t size = (2 * n_edges_ * q_ + m_) * ((q_ + 3) / 4 * 4);
        slices_ = m_ >= 16 ? 1 : std::min<int64_t>((31 + m_) / m_, std::max<int64_t>(1, (int64_t{1} << 22) / size));
        slices_ = std::clamp<int64_t>(n_ / (4 * potts_chunk), 1, slices_);
    }

    // Value; adds nothing to what `couplings_out` and `fields_out` held before: they are set.
    double sums(int mode, In<double> couplings, In<double> fields, In<double> couplings_direction,
                In<double> fields_direction, In<double> beta, In<double> sample_weight, In<double> entry_weight,
                Out<double> couplings_out, Out<double> fields_out, int n_threads) const {
        need(mode >= 0 && mode <= 2, "sums are for the modes gradient, hessian and diagonal");
        const Call call = checked(static_cast<PottsMode>(mode), couplings, fields, couplings_direction,
                                  fields_direction, beta, sample_weight, n_threads);
        need(entry_weight.shape(0) == 0 || (listed_ && entry_weight.shape(0) == samples_.shape(0)),
             "entry_weight needs one number for each listed sample");
        need(static_cast<int64_t>(couplings_out.shape(0)) == n_edges_ * q_ * q_ &&
                 static_cast<int64_t>(fields_out.shape(0)) == m_ * q_,
             "the results need the shapes of couplings and fields");
        nb::gil_scoped_release release;
        const double* weights = entry_weight.shape(0) ? entry_weight.data() : nullptr;
        return single_ ? summed<float>(call, weights, couplings_out.data(), fields_out.data(), n_threads)
                       : summed<double>(call, weights, couplings_out.data(), fields_out.data(), n_threads);
    }

    // Numbers of each component of the samples first..first + count - 1, whatever is listed.
    void components(int mode, int64_t first, int64_t count, In<double> couplings, In<double> fields,
                    In<double> couplings_direction, In<double> fields_direction, In<double> beta, Out<double> out,
                    int n_threads) const {
        need(mode >= 3 && mode <= 5, "components are for the modes values, products and residuals");
        const Call call = checked(static_cast<PottsMode>(mode), couplings, fields, couplings_direction,
                                  fields_direction, beta, In<double>(), n_threads);
        need(first >= 0 && count >= 0 && first + count <= n_, "the samples must exist");
        const int64_t numbers = call.mode == PottsMode::residuals ? q_ : 1;
        need(static_cast<int64_t>(out.shape(0)) == m_ * count * numbers, "out has the wrong length");
        nb::gil_scoped_release release;
        if (single_)
            compute<float>(call, first, count, numbers, out.data(), n_threads);
        else
            compute<double>(call, first, count, numbers, out.data(), n_threads);
    }

  private:
    struct Call {
        PottsMode mode;
        bool reduced;
        PottsRow row;  // of all tasks but the last, which may have fewer targets
        bool directed;
        const double *couplings, *fields, *couplings_direction, *fields_direction, *beta, *sample_weight;
    };

    template <class Real>
    struct Worker {
        Real *rows, *direction, *part, *field, *field_direction, *fields, *moved;
        double* sum;
        uint8_t* states;
        const uint8_t **columns, **own;
    };

    // The memory of all threads, allocated before they start: `part` sums residuals in single precision, `sum` in
    // double.
    template <class Real>
    class Workers {
      public:
        Workers(const PottsField& of, const Call& call, int threads, bool gradient, bool sum)
            : neighbours_(call.row.targets > 1 ? of.m_ : of.degree_),
              table_(lines<Real>(call.row.size(neighbours_) + call.row.padded)),
              chunk_(lines<Real>(potts_chunk * call.row.padded)),
              padded_(lines<Real>(call.row.padded)),
              directed_(call.directed),
              part_(gradient && !std::is_same_v<Real, double>),
              size_(table_ * (1 + directed_ + part_) + 2 * padded_ + chunk_ * (1 + directed_)),
              sum_(sum ? lines<double>(call.row.size(neighbours_) + call.row.padded) : 0),
              numbers_(static_cast<size_t>(threads * size_ + 64)),
              sums_(static_cast<size_t>(threads * sum_ + 8)),
              states_(static_cast<size_t>(threads * potts_states(neighbours_))),
              columns_(static_cast<size_t>(threads * (neighbours_ + potts_most_joined))) {}

        Worker<Real> at(int thread) const {
            Worker<Real> own{};
            Real* next = const_cast<Real*>(aligned(numbers_.data())) + thread * size_;
            const auto take = [&next](int64_t size) {
                Real* from = next;
                next += size;
                return size ? from : nullptr;
            };
            own.fields = take(chunk_);
            own.moved = take(directed_ ? chunk_ : 0);
            own.field = take(padded_);
            own.field_direction = take(padded_);
            own.rows = take(table_);
            own.direction = take(directed_ ? table_ : 0);
            own.part = take(part_ ? table_ : 0);
            own.sum = const_cast<double*>(aligned(sums_.data())) + thread * sum_;
            own.states = const_cast<uint8_t*>(states_.data()) + thread * potts_states(neighbours_);
            own.own = const_cast<const uint8_t**>(columns_.data()) + thread * (neighbours_ + potts_most_joined);
            own.columns = own.own + potts_most_joined;
            return own;
        }

      private:
        template <class Number>
        static int64_t lines(int64_t size) {
            constexpr int64_t line = 64 / sizeof(Number);
            return (size + line - 1) / line * line;
        }

        template <class Number>
        static const Number* aligned(const Number* from) {
            const uintptr_t address = reinterpret_cast<uintptr_t>(from);
            return from + (64 - address % 64) % 64 / sizeof(Number);
        }

        int64_t neighbours_, table_, chunk_, padded_;
        bool directed_, part_;
        int64_t size_, sum_;
        std::vector<Real> numbers_;
        std::vector<double> sums_;
        std::vector<uint8_t> states_;
        std::vector<const uint8_t*> columns_;
    };

    template <class Real>
    double summed(const Call& call, const double* weights, double* by_edge, double* by_site, int n_threads) const {
        const int64_t sets = sets_of(call), tasks = sets * slices_, padded = call.row.padded;
        std::vector<double> values(static_cast<size_t>(tasks));
        const int threads = static_cast<int>(std::min<int64_t>(n_threads, tasks));
        const Workers<Real> workers(*this, call, threads, true, slices_ == 1);
        const int64_t slice_size = call.row.size(2 * n_edges_) + m_ * padded;
        std::vector<double> partial(slices_ == 1 ? 0 : static_cast<size_t>(slices_ * slice_size));
        // Of each edge: 0 nothing yet, 1 in use, 2 one end's sums.
        const std::unique_ptr<std::atomic<int>[]> turn(new std::atomic<int>[static_cast<size_t>(n_edges_ + 1)]);
        for (int64_t e = 0; e < n_edges_; ++e) turn[static_cast<size_t>(e)].store(0, std::memory_order_relaxed);
        Interruption interruption;
        for_each_task(tasks, threads, [&](int64_t number) {
            if (interruption.asked()) return;
            const int64_t j = number / slices_ * call.row.targets, slice = number % slices_;
            const Worker<Real> own = workers.at(thread_number());
            PottsTask<Real> task = prepared(call, j, own);
            const int64_t size = task.row.size(task.degree);
            double *gradient = own.sum, *field_gradient = own.sum + size;
            if (slices_ > 1) {
                double* block = partial.data() + slice * slice_size;
                gradient = block + call.row.size(start_[static_cast<size_t>(j)]);
                field_gradient = block + call.row.size(2 * n_edges_) + j * padded;
            }
            std::fill(gradient, gradient + size, 0.0);
            std::fill(field_gradient, field_gradient + task.row.padded, 0.0);
            const int64_t all = listed_ ? pointer_.data()[j + 1] - pointer_.data()[j] : n_;
            const int64_t from = all * slice / slices_, to = all * (slice + 1) / slices_;
            double value = 0.0;
            // Sums in double precision need no second place, and no break.
            const int64_t step = std::is_same_v<Real, double> ? std::max<int64_t>(1, to - from) : potts_flush;
            for (int64_t first = from; first < to; first += step) {
                if (listed_) task.samples = samples_.data() + pointer_.data()[j] + first;
                if (weights) task.entry_weight = weights + pointer_.data()[j] + first;
                task.first = first;
                task.count = std::min(step, to - first);
                if constexpr (std::is_same_v<Real, double>) {
                    task.gradient = gradient;
                    task.field_gradient = field_gradient;
                    value += FF_CALL(potts_task_double)(task);
                } else {
                    task.gradient = own.part;
                    task.field_gradient = own.part + size;
                    std::fill(own.part, own.part + size + task.row.padded, 0.0f);
                    value += FF_CALL(potts_task_single)(task);
                    for (int64_t i = 0; i < size; ++i) gradient[i] += static_cast<double>(own.part[i]);
                    for (int64_t a = 0; a < task.row.padded; ++a)
                        field_gradient[a] += static_cast<double>(task.field_gradient[a]);
                }
            }
            values[static_cast<size_t>(number)] = value;
            for (int64_t t = 0; t < task.row.targets && slices_ == 1; ++t) {
                take_row(task.row, t, field_gradient, by_site + (j + t) * q_);
                each_edge(j + t, [&](int64_t place, int64_t half) {
                    // Two ends add to an edge, and a + b = b + a: the order does not matter, only that they take turns.
                    std::atomic<int>& state = turn[static_cast<size_t>(half / 2)];
                    int before = 1;
                    while ((before = state.exchange(1, std::memory_order_acquire)) == 1) std::this_thread::yield();
                    take_block(half, task.row, t, task.degree, listed_at(j + t, place, task.row), gradient, by_edge,
                               before == 2);
                    state.store(2, std::memory_order_release);
                });
            }
        });
        interruption.raise();
        double value = 0.0;
        for (const double part : values) value += part;
        if (slices_ > 1) {
            std::fill(by_edge, by_edge + n_edges_ * q_ * q_, 0.0);
            for (int64_t slice = 1; slice < slices_; ++slice)
                for (int64_t i = 0; i < slice_size; ++i)
                    partial[static_cast<size_t>(i)] += partial[static_cast<size_t>(slice * slice_size + i)];
            for (int64_t j = 0; j < m_; ++j) {
                const double* rows = partial.data() + call.row.size(start_[static_cast<size_t>(j)]);
                each_edge(j, [&](int64_t place, int64_t half) {
                    take_block(half, call.row, 0, degree_of(j), listed_at(j, place, call.row), rows, by_edge, true);
                });
                take_row(call.row, 0, partial.data() + call.row.size(2 * n_edges_) + j * padded, by_site + j * q_);
            }
        }
        return value;
    }

    template <class Real>
    void compute(const Call& call, int64_t first, int64_t count, int64_t numbers, double* out, int n_threads) const {
        const int64_t sets = sets_of(call);
        const int threads = static_cast<int>(std::min<int64_t>(n_threads, sets));
        const Workers<Real> workers(*this, call, threads, false, false);
        Interruption interruption;
        for_each_task(sets, threads, [&](int64_t number) {
            if (interruption.asked()) return;
            const int64_t j = number * call.row.targets;
            PottsTask<Real> task = prepared(call, j, workers.at(thread_number()));
            task.first = first;
            task.count = count;
            task.out = out + j * count * numbers;
            if constexpr (std::is_same_v<Real, double>)
                FF_CALL(potts_task_double)(task);
            else
                FF_CALL(potts_task_single)(task);
        });
        interruption.raise();
    }

    // Sets of targets that are done together.
    int64_t sets_of(const Call& call) const { return (m_ + call.row.targets - 1) / call.row.targets; }

    Call checked(PottsMode mode, const In<double>& couplings, const In<double>& fields,
                 const In<double>& couplings_direction, const In<double>& fields_direction, const In<double>& beta,
                 const In<double>& sample_weight, int n_threads) const {
        const bool directed = mode == PottsMode::hessian || mode == PottsMode::products;
        const int64_t table = n_edges_ * q_ * q_;
        need(static_cast<int64_t>(couplings.shape(0)) == table && static_cast<int64_t>(fields.shape(0)) == m_ * q_,
             "couplings need a table for each edge and fields a line for each site");
        if (directed)
            need(static_cast<int64_t>(couplings_direction.shape(0)) == table &&
                     static_cast<int64_t>(fields_direction.shape(0)) == m_ * q_,
                 "the direction needs the shapes of couplings and fields");
        need(static_cast<int64_t>(beta.shape(0)) == m_, "beta needs one number for each site");
        const bool weighted = sample_weight.is_valid() && sample_weight.shape(0) != 0;
        need(!weighted || static_cast<int64_t>(sample_weight.shape(0)) == n_,
             "sample_weight needs one number for each sample");
        need(n_threads >= 1, "there must be at least one thread");
        // Sums over the states of p (1 - p) are not 0: the diagonal needs all states.
        const bool reduced = mode != PottsMode::diagonal;
        // Sites are joined if they have the same samples and neighbours. The number does not depend on the threads.
        const int64_t most = complete_ && !listed_ ? std::min(potts_most_joined, m_ / potts_tasks) : 1;
        return Call{mode,
                    reduced,
                    single_ ? PottsRow::joined<float>(q_, reduced, most) : PottsRow::joined<double>(q_, reduced, most),
                    directed,
                    couplings.data(),
                    fields.data(),
                    couplings_direction.data(),
                    fields_direction.data(),
                    beta.data(),
                    weighted ? sample_weight.data() : nullptr};
    }

    // The task of the targets j, j + 1, ... without its samples.
    template <class Real>
    PottsTask<Real> prepared(const Call& call, int64_t j, const Worker<Real>& own) const {
        PottsTask<Real> task{};
        task.mode = call.mode;
        const int64_t targets = std::min(call.row.targets, m_ - j);
        task.row = targets == call.row.targets ? call.row : PottsRow::of<Real>(q_, call.reduced, targets);
        task.degree = neighbours_of(j, task.row);
        for (int64_t t = 0; t < targets; ++t) own.own[t] = columns_.data() + (j + t) * n_;
        each_edge(j, [&](int64_t place, int64_t) {
            own.columns[listed_at(j, place, task.row)] = columns_.data() + neighbour(place) * n_;
        });
        if (targets > 1) own.columns[j] = own.own[0];
        task.own = own.own;
        task.columns = own.columns;
        task.states = own.states;
        task.fields = own.fields;
        task.moved = own.moved;
        task.sample_weight = call.sample_weight;
        task.beta = call.beta + j;
        lay_out(j, task.row, call.couplings, own.rows);
        lay_out_field(j, task.row, call.fields, own.field, -std::numeric_limits<Real>::infinity());
        task.rows = own.rows;
        task.field = own.field;
        if (call.directed) {
            lay_out(j, task.row, call.couplings_direction, own.direction);
            lay_out_field(j, task.row, call.fields_direction, own.field_direction, Real{0});
            task.direction = own.direction;
            task.field_direction = own.field_direction;
        }
        return task;
    }

    In<int64_t> pointer_, samples_;
    int64_t slices_ = 1;
    bool single_, listed_ = false;
};

void bind_potts(nb::module_& module) {
    nb::class_<PottsField>(
        module, "PottsField",
        "The samples, graph and selected components of a Potts field, checked once.\n\n"
        "columns (sites, samples) are the states; pointer and samples list the samples of each site's\n"
        "component, or are empty for all. With `single`, rows are in single precision. Modes are those of "
        "kernels/potts.hpp.")
        .def(nb::init<In2<uint8_t>, In2<int32_t>, int64_t, In<int64_t>, In<int64_t>, bool>(), nb::arg("columns"),
             nb::arg("edges"), nb::arg("q"), nb::arg("pointer"), nb::arg("samples"), nb::arg("single"))
        .def("sums", &PottsField::sums, nb::arg("mode"), nb::arg("couplings"), nb::arg("fields"),
             nb::arg("couplings_direction"), nb::arg("fields_direction"), nb::kw_only(), nb::arg("beta"),
             nb::arg("sample_weight"), nb::arg("entry_weight"), nb::arg("couplings_out").noconvert(),
             nb::arg("fields_out").noconvert(), nb::arg("n_threads"),
             "Set the results to sums over samples and return the value (modes gradient, hessian, diagonal).")
        .def("components", &PottsField::components, nb::arg("mode"), nb::arg("first"), nb::arg("count"),
             nb::arg("couplings"), nb::arg("fields"), nb::arg("couplings_direction"), nb::arg("fields_direction"),
             nb::kw_only(), nb::arg("beta"), nb::arg("out").noconvert(), nb::arg("n_threads"),
             "Numbers of each component of some samples (modes values, products, residuals).");
}

}  // namespace ff

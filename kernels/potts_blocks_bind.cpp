#include <limits>
#include <vector>

#include "bindings.hpp"
#include "interruption.hpp"
#include "potts_blocks.hpp"
#include "potts_graph.hpp"
#include "team.hpp"

namespace ff {

// Samples whose fields and residuals are held at once: as many as fill 64 MB with fields, but at least 16.
constexpr int64_t blocks_chunk = 4 * potts_chunk, blocks_numbers = int64_t{1} << 23;

// Samples, graph and selected blocks, checked once. Blocks that share a site are summed one after the other, in rounds,
// so that the sums are the same for any number of threads.
class PottsBlocks : private PottsGraph {
  public:
    PottsBlocks(In2<uint8_t> columns, In2<int32_t> edges, int64_t q, In<int64_t> block_pointer, In<int32_t> members,
                In<int64_t> pointer, In<int64_t> samples)
        : PottsGraph(columns, edges, q),
          shape_(PottsRow::of<double>(q, false)),
          block_(block_pointer.data(), block_pointer.data() + block_pointer.shape(0)),
          members_(members.data(), members.data() + members.shape(0)),
          pointer_(pointer),
          samples_(samples),
          n_blocks_(static_cast<int64_t>(block_.size()) - 1),
          rows_(std::clamp<int64_t>(blocks_numbers / (m_ * shape_.padded), 16, blocks_chunk)),
          used_(static_cast<size_t>(m_), 0) {
        need(n_blocks_ >= 1 && block_[0] == 0 && block_.back() == static_cast<int64_t>(members_.size()),
             "the pointer of the blocks must run over all members");
        std::vector<int64_t> round(static_cast<size_t>(m_), -1), place(static_cast<size_t>(m_), -1);
        for (int64_t b = 0; b < n_blocks_; ++b) add_block(b, round, place);
        listed_ = pointer.shape(0) != 0;
        if (!listed_) return;
        need(static_cast<int64_t>(pointer.shape(0)) == n_blocks_ + 1,
             "pointer needs one number for each block and one");
        const int64_t* p = pointer.data();
        need(p[0] == 0 && p[n_blocks_] == static_cast<int64_t>(samples.shape(0)), "pointer must run over all samples");
        for (int64_t b = 0; b < n_blocks_; ++b) {
            need(p[b] <= p[b + 1], "pointer must not decrease");
            for (int64_t i = p[b]; i < p[b + 1]; ++i) {
                need(samples.data()[i] >= 0 && samples.data()[i] < n_, "a listed sample does not exist");
                need(i == p[b] || samples.data()[i - 1] < samples.data()[i], "the samples of a block must increase");
            }
        }
    }

    // Sums over the samples first..first + count - 1; returns the value. The results are set.
    double sums(int mode, int64_t first, int64_t count, In<double> couplings, In<double> fields,
                In<double> couplings_direction, In<double> fields_direction, In<double> beta, In<double> sample_weight,
                In<double> rest_weight, Out<double> couplings_out, Out<double> fields_out, int n_threads) const {
        need(mode >= 0 && mode <= 2, "sums are for the modes gradient, hessian and diagonal");
        Call call = checked(static_cast<PottsMode>(mode), first, count, couplings, fields, couplings_direction,
                            fields_direction, beta, sample_weight, n_threads);
        need(rest_weight.shape(0) == 0 || (listed_ && rest_weight.shape(0) == samples_.shape(0)),
             "rest_weight needs one number for each listed sample");
        call.rest_weight = rest_weight.shape(0) ? rest_weight.data() : nullptr;
        need(couplings_out.shape(0) == couplings.shape(0) && fields_out.shape(0) == fields.shape(0),
             "the results need the shapes of couplings and fields");
        nb::gil_scoped_release release;
        double* by_edge = couplings_out.data();
        std::fill(by_edge, by_edge + n_edges_ * q_ * q_, 0.0);
        std::fill(fields_out.data(), fields_out.data() + m_ * q_, 0.0);
        const int64_t width = q_ * shape_.padded;
        // What the ends of each edge add outside their blocks, in the layout of rows.
        std::vector<double> halves(static_cast<size_t>(2 * n_edges_ * width)),
            by_site(static_cast<size_t>(m_ * shape_.padded));
        std::vector<double> values(static_cast<size_t>(n_blocks_), 0.0);
        Buffers buffers(*this, call, true);
        Interruption interruption;
        for (int64_t start = first; start < first + count && !interruption.asked(); start += rows_) {
            const int64_t size = std::min(rows_, first + count - start);
            buffers.fields(start, size, interruption);
            for (const std::vector<int64_t>& round : rounds_) {
                const int64_t blocks = static_cast<int64_t>(round.size());
                const int threads = static_cast<int>(std::min<int64_t>(n_threads, blocks));
                for_each_task(blocks, threads, [&](int64_t i) {
                    if (interruption.asked()) return;
                    const int64_t b = round[static_cast<size_t>(i)];
                    values[static_cast<size_t>(b)] +=
                        buffers.run(b, start, start + size, thread_number(), by_edge, nullptr);
                });
            }
            buffers.scatter(start, size, halves.data(), by_site.data(), interruption);
        }
        interruption.raise();
        for (int64_t j = 0; j < m_; ++j) {
            const double* rows = halves.data() + start_[static_cast<size_t>(j)] * width;
            each_edge(j, [&](int64_t place, int64_t half) {
                take_block(half, shape_, 0, degree_of(j), listed_at(j, place, shape_), rows, by_edge, true);
            });
            std::copy(by_site.data() + j * shape_.padded, by_site.data() + j * shape_.padded + q_,
                      fields_out.data() + j * q_);
        }
        double value = 0.0;
        for (const double part : values) value += part;
        return value;
    }

    // The sums over each sample's blocks, for the samples first..first + count - 1.
    void by_sample(int mode, int64_t first, int64_t count, In<double> couplings, In<double> fields,
                   In<double> couplings_direction, In<double> fields_direction, In<double> beta, Out<double> out,
                   int n_threads) const {
        need(mode == 3 || mode == 4, "numbers of samples are for the modes values and products");
        const Call call = checked(static_cast<PottsMode>(mode), first, count, couplings, fields, couplings_direction,
                                  fields_direction, beta, In<double>(), n_threads);
        need(static_cast<int64_t>(out.shape(0)) == count, "out has the wrong length");
        nb::gil_scoped_release release;
        std::fill(out.data(), out.data() + count, 0.0);
        Buffers buffers(*this, call, false);
        Interruption interruption;
        for (int64_t start = first; start < first + count && !interruption.asked(); start += rows_) {
            const int64_t size = std::min(rows_, first + count - start);
            buffers.fields(start, size, interruption);
            const int threads = static_cast<int>(std::min<int64_t>(n_threads, size));
            // Threads share samples, not blocks: the blocks of a sample are added in their order.
            for_each_task(threads, threads, [&](int64_t share) {
                const int64_t from = start + size * share / threads, to = start + size * (share + 1) / threads;
                for (int64_t b = 0; b < n_blocks_ && !interruption.asked(); ++b)
                    buffers.run(b, from, to, thread_number(), nullptr, out.data() - first);
            });
        }
        interruption.raise();
    }

  private:
    struct Call {
        PottsMode mode;
        bool directed;
        const double *couplings, *fields, *couplings_direction, *fields_direction, *beta, *sample_weight;
        int threads;
        const double* rest_weight = nullptr;
    };

    struct Inside {
        int64_t low, high, edge;
        bool turned;  // the edge is (high, low)
    };

    // Checks a block, finds the edges inside it and puts it into the first round after those of its sites.
    void add_block(int64_t b, std::vector<int64_t>& round, std::vector<int64_t>& place) {
        const int64_t from = block_[static_cast<size_t>(b)], to = block_[static_cast<size_t>(b) + 1], k = to - from;
        need(k >= 1 && k <= potts_block_sites, "a block must have 1 to 12 sites");
        need(block_entries(q_, k) <= potts_block_entries, "the table of a block is too large");
        int64_t last = -1;
        for (int64_t a = 0; a < k; ++a) {
            const int32_t site = members_[static_cast<size_t>(from + a)];
            need(site >= 0 && site < m_, "a block names a site that does not exist");
            need(place[static_cast<size_t>(site)] < 0, "a block names a site twice");
            place[static_cast<size_t>(site)] = a;
            used_[static_cast<size_t>(site)] = 1;
            last = std::max(last, round[static_cast<size_t>(site)]);
        }
        inside_.push_back(static_cast<int64_t>(within_.size()));
        for (int64_t a = 0; a < k; ++a) {
            const size_t site = static_cast<size_t>(members_[static_cast<size_t>(from + a)]);
            for (int64_t at = start_[site]; at < start_[site + 1]; ++at) {
                const int64_t other = place[static_cast<size_t>(neighbour(at))];
                const int64_t half = half_[static_cast<size_t>(at)];
                if (other > a) within_.push_back(Inside{a, other, half / 2, half % 2 == 1});
            }
        }
        if (b == n_blocks_ - 1) inside_.push_back(static_cast<int64_t>(within_.size()));
        most_edges_ = std::max(most_edges_, static_cast<int64_t>(within_.size()) - inside_[static_cast<size_t>(b)]);
        most_sites_ = std::max(most_sites_, k);
        if (static_cast<int64_t>(rounds_.size()) < last + 2) rounds_.resize(static_cast<size_t>(last + 2));
        rounds_[static_cast<size_t>(last + 1)].push_back(b);
        for (int64_t a = 0; a < k; ++a) {
            const size_t site = static_cast<size_t>(members_[static_cast<size_t>(from + a)]);
            place[site] = -1;
            round[site] = last + 1;
        }
    }

    Call checked(PottsMode mode, int64_t first, int64_t count, const In<double>& couplings, const In<double>& fields,
                 const In<double>& couplings_direction, const In<double>& fields_direction, const In<double>& beta,
                 const In<double>& sample_weight, int n_threads) const {
        const bool directed = mode == PottsMode::hessian || mode == PottsMode::products;
        const int64_t table = n_edges_ * q_ * q_;
        need(static_cast<int64_t>(couplings.shape(0)) == table && static_cast<int64_t>(fields.shape(0)) == m_ * q_,
             "couplings need a table for each edge and fields a line for each site");
        if (directed)
            need(couplings_direction.shape(0) == couplings.shape(0) && fields_direction.shape(0) == fields.shape(0),
                 "the direction needs the shapes of couplings and fields");
        need(static_cast<int64_t>(beta.shape(0)) == n_blocks_, "beta needs one number for each block");
        const bool weighted = sample_weight.is_valid() && sample_weight.shape(0) != 0;
        need(!weighted || static_cast<int64_t>(sample_weight.shape(0)) == n_,
             "sample_weight needs one number for each sample");
        need(first >= 0 && count >= 0 && first + count <= n_, "the samples must exist");
        need(n_threads >= 1, "there must be at least one thread");
        return Call{mode,
                    directed,
                    couplings.data(),
                    fields.data(),
                    couplings_direction.data(),
                    fields_direction.data(),
                    beta.data(),
                    weighted ? sample_weight.data() : nullptr,
                    n_threads};
    }

    // The memory of one call: rows of all couplings, and fields and residuals of a chunk of samples.
    class Buffers {
      public:
        Buffers(const PottsBlocks& of, const Call& call, bool residuals)
            : of_(of),
              call_(call),
              width_(of.q_ * of.shape_.padded),
              chunk_(std::min(of.rows_, of.n_) * of.shape_.padded),
              rows_(static_cast<size_t>(2 * of.n_edges_ * width_)),
              direction_(call.directed ? rows_.size() : 0),
              field_(static_cast<size_t>(of.m_ * of.shape_.padded)),
              field_direction_(call.directed ? field_.size() : 0),
              fields_(static_cast<size_t>(of.m_ * chunk_)),
              moved_(call.directed ? fields_.size() : 0),
              residuals_(residuals ? fields_.size() : 0),
              scratch_(block_scratch(of.q_, of.most_sites_, of.most_edges_)),
              numbers_(static_cast<size_t>(call.threads * scratch_)),
              states_(static_cast<size_t>(call.threads * potts_states(of.degree_))),
              columns_(static_cast<size_t>(call.threads * of.degree_)) {
            for_each_task(
                of.m_, call.threads,
                [&](int64_t j) {
                    const int64_t begin = of.start_[static_cast<size_t>(j)];
                    of.lay_out(j, of.shape_, call.couplings, rows_.data() + begin * width_);
                    of.lay_out_field(j, of.shape_, call.fields, field_.data() + j * of.shape_.padded, 0.0);
                    if (!call.directed) return;
                    of.lay_out(j, of.shape_, call.couplings_direction, direction_.data() + begin * width_);
                    of.lay_out_field(j, of.shape_, call.fields_direction,
                                     field_direction_.data() + j * of.shape_.padded, 0.0);
                },
                8);
        }

        // The fields of all sites in blocks, for the samples start..start + size - 1; their residuals become 0.
        void fields(int64_t start, int64_t size, Interruption& interruption) {
            for_each_task(of_.m_, call_.threads, [&](int64_t j) {
                if (!of_.used_[static_cast<size_t>(j)] || interruption.asked()) return;
                PottsTask<double> task = site(PottsMode::fields, j, start, size);
                task.fields = fields_.data() + j * chunk_;
                task.field = field_.data() + j * of_.shape_.padded;
                task.rows = rows_.data() + of_.start_[static_cast<size_t>(j)] * width_;
                if (call_.directed) {
                    task.moved = moved_.data() + j * chunk_;
                    task.field_direction = field_direction_.data() + j * of_.shape_.padded;
                    task.direction = direction_.data() + of_.start_[static_cast<size_t>(j)] * width_;
                }
                FF_CALL(potts_task_double)(task);
                if (!residuals_.empty()) {
                    double* residual = residuals_.data() + j * chunk_;
                    std::fill(residual, residual + size * of_.shape_.padded, 0.0);
                }
            });
        }

        // Adds the residuals to the rows of all neighbours and to the sums of each site.
        void scatter(int64_t start, int64_t size, double* halves, double* by_site, Interruption& interruption) {
            for_each_task(of_.m_, call_.threads, [&](int64_t j) {
                if (!of_.used_[static_cast<size_t>(j)] || interruption.asked()) return;
                PottsTask<double> task = site(PottsMode::scatter, j, start, size);
                task.fields = residuals_.data() + j * chunk_;
                task.gradient = halves + of_.start_[static_cast<size_t>(j)] * width_;
                task.field_gradient = by_site + j * of_.shape_.padded;
                FF_CALL(potts_task_double)(task);
            });
        }

        // One block and its samples from `from` to before `to`, of the chunk whose fields are here.
        double run(int64_t b, int64_t from, int64_t to, int thread, double* by_edge, double* out) {
            const int64_t first = of_.block_[static_cast<size_t>(b)];
            BlockTask task{};
            task.mode = call_.mode;
            task.q = of_.q_;
            task.padded = of_.shape_.padded;
            task.k = of_.block_[static_cast<size_t>(b) + 1] - first;
            task.first = from;
            task.count = to - from;
            task.chunk_first = chunk_first_;
            if (of_.listed_) {
                const int64_t* p = of_.pointer_.data();
                const int64_t *all = of_.samples_.data() + p[b], *end = of_.samples_.data() + p[b + 1];
                task.samples = std::lower_bound(all, end, from);
                task.count = std::lower_bound(task.samples, end, to) - task.samples;
                if (call_.rest_weight) task.rest_weight = call_.rest_weight + (task.samples - of_.samples_.data());
            }
            if (task.count == 0) return 0.0;
            const uint8_t* columns[potts_block_sites];
            const double *fields[potts_block_sites], *moved[potts_block_sites];
            double* residuals[potts_block_sites];
            for (int64_t a = 0; a < task.k; ++a) {
                const int64_t site = of_.members_[static_cast<size_t>(first + a)];
                columns[a] = of_.columns_.data() + site * of_.n_;
                fields[a] = fields_.data() + site * chunk_;
                moved[a] = call_.directed ? moved_.data() + site * chunk_ : nullptr;
                residuals[a] = residuals_.empty() ? nullptr : residuals_.data() + site * chunk_;
            }
            const int64_t inside = of_.inside_[static_cast<size_t>(b)];
            task.n_edges = of_.inside_[static_cast<size_t>(b) + 1] - inside;
            BlockEdge edges[potts_block_sites * (potts_block_sites - 1) / 2];
            const int64_t q = of_.q_;
            for (int64_t e = 0; e < task.n_edges; ++e) {
                const Inside& edge = of_.within_[static_cast<size_t>(inside + e)];
                const int64_t at = edge.edge * q * q;
                edges[e] = BlockEdge{edge.low,
                                     edge.high,
                                     edge.turned ? 1 : q,
                                     edge.turned ? q : 1,
                                     call_.couplings + at,
                                     call_.directed ? call_.couplings_direction + at : nullptr,
                                     by_edge ? by_edge + at : nullptr};
            }
            task.columns = columns;
            task.edges = edges;
            task.fields = fields;
            task.moved = moved;
            task.residuals = residuals;
            task.sample_weight = call_.sample_weight;
            task.beta = call_.beta[b];
            task.out = out;
            task.scratch = numbers_.data() + thread * scratch_;
            return FF_CALL(potts_block)(task);
        }

      private:
        PottsTask<double> site(PottsMode mode, int64_t j, int64_t start, int64_t size) {
            chunk_first_ = start;
            const int thread = thread_number();
            const uint8_t** columns = columns_.data() + thread * of_.degree_;
            PottsTask<double> task{};
            task.mode = mode;
            task.row = of_.shape_;
            task.degree = of_.degree_of(j);
            task.first = start;
            task.count = size;
            for (int64_t k = 0; k < task.degree; ++k)
                columns[k] = of_.columns_.data() + of_.neighbour(of_.start_[static_cast<size_t>(j)] + k) * of_.n_;
            task.columns = columns;
            task.states = states_.data() + thread * potts_states(of_.degree_);
            return task;
        }

        const PottsBlocks& of_;
        const Call& call_;
        int64_t width_, chunk_, chunk_first_ = 0;
        std::vector<double> rows_, direction_, field_, field_direction_, fields_, moved_, residuals_;
        int64_t scratch_;
        std::vector<double> numbers_;
        std::vector<uint8_t> states_;
        std::vector<const uint8_t*> columns_;
    };

    PottsRow shape_;
    std::vector<int64_t> block_;
    std::vector<int32_t> members_;
    In<int64_t> pointer_, samples_;
    int64_t n_blocks_, rows_, most_edges_ = 0, most_sites_ = 1;
    bool listed_ = false;
    std::vector<uint8_t> used_;
    std::vector<int64_t> inside_;  // the edges inside block b are within_[inside_[b]] to before within_[inside_[b + 1]]
    std::vector<Inside> within_;
    std::vector<std::vector<int64_t>> rounds_;
};

void bind_potts_blocks(nb::module_& module) {
    nb::class_<PottsBlocks>(
        module, "PottsBlocks",
        "The samples, graph and selected blocks of a Potts field, checked once.\n\n"
        "columns (sites, samples) are the states; block b has the sites members[block_pointer[b]:block_pointer[b+1]].\n"
        "pointer and samples list the samples of each block in increasing order, or are empty for all.\n"
        "Modes are those of kernels/potts.hpp.")
        .def(nb::init<In2<uint8_t>, In2<int32_t>, int64_t, In<int64_t>, In<int32_t>, In<int64_t>, In<int64_t>>(),
             nb::arg("columns"), nb::arg("edges"), nb::arg("q"), nb::arg("block_pointer"), nb::arg("members"),
             nb::arg("pointer"), nb::arg("samples"))
        .def("sums", &PottsBlocks::sums, nb::arg("mode"), nb::arg("first"), nb::arg("count"), nb::arg("couplings"),
             nb::arg("fields"), nb::arg("couplings_direction"), nb::arg("fields_direction"), nb::kw_only(),
             nb::arg("beta"), nb::arg("sample_weight"), nb::arg("rest_weight"), nb::arg("couplings_out").noconvert(),
             nb::arg("fields_out").noconvert(), nb::arg("n_threads"),
             "Set the results to sums over some samples and return the value (modes gradient, hessian, diagonal).\n\n"
             "rest_weight, of the listed samples or empty: each stands for all samples with its configuration of the\n"
             "rest, whose summed weight this is; the sums are those of -log Z alone.")
        .def("by_sample", &PottsBlocks::by_sample, nb::arg("mode"), nb::arg("first"), nb::arg("count"),
             nb::arg("couplings"), nb::arg("fields"), nb::arg("couplings_direction"), nb::arg("fields_direction"),
             nb::kw_only(), nb::arg("beta"), nb::arg("out").noconvert(), nb::arg("n_threads"),
             "Sums over the blocks of each of some samples (modes values, products).");
}

}  // namespace ff

// One block of a Potts field: its table, residuals, and their sums for each site and edge inside it.
#include "potts_blocks.hpp"
#include "vecmath.hpp"

namespace ff::FF_ISA {

namespace {

// The scratch of a task, in pieces.
struct Tables {
    double *fields, *moved;  // (k, q) without the couplings inside the block
    double* residual;        // (k, q)
    double* edges;           // (n_edges, q, q), low state first
    double *table, *along;   // (q^k) and the levels below: level l begins at q^(l-1) + ... + q
};

Tables split(const BlockTask& task) {
    const int64_t q = task.q, sites = task.k * q, table = 2 * block_entries(q, task.k);
    double* from = task.scratch;
    Tables tables{};
    tables.fields = from;
    tables.moved = from + sites;
    tables.residual = from + 2 * sites;
    tables.edges = from + 3 * sites;
    tables.table = tables.edges + task.n_edges * q * q;
    tables.along = tables.table + table;
    return tables;
}

// fields[a, :] = given[a][:] - the couplings of a to the observed states of the block's other sites.
void own_fields(const BlockTask& task, const double* const* given, bool direction, int64_t row, const uint8_t* x,
                double* fields) {
    const int64_t q = task.q;
    for (int64_t a = 0; a < task.k; ++a)
        for (int64_t s = 0; s < q; ++s) fields[a * q + s] = given[a][row * task.padded + s];
    for (int64_t e = 0; e < task.n_edges; ++e) {
        const BlockEdge& edge = task.edges[e];
        const double* couplings = direction ? edge.direction : edge.couplings;
        double *low = fields + edge.low * q, *high = fields + edge.high * q;
        for (int64_t s = 0; s < q; ++s) low[s] -= couplings[s * edge.by_low + x[edge.high] * edge.by_high];
        for (int64_t s = 0; s < q; ++s) high[s] -= couplings[x[edge.low] * edge.by_low + s * edge.by_high];
    }
}

// All entries of the block's table, a site more at a time; returns the last level.
double* build(const BlockTask& task, const double* fields, bool direction, double* level) {
    const int64_t q = task.q;
    for (int64_t s = 0; s < q; ++s) level[s] = fields[s];
    int64_t size = q;
    int64_t power[potts_block_sites];  // how often the state of a site repeats in the table of the sites before
    for (int64_t site = 1; site < task.k; ++site) {
        double* next = level + size;
        power[site - 1] = 1;
        for (int64_t a = site - 2; a >= 0; --a) power[a] = power[a + 1] * q;
        for (int64_t prefix = 0; prefix < size; ++prefix) {
            double* row = next + prefix * q;
            const double *own = fields + site * q, base = level[prefix];
            for (int64_t s = 0; s < q; ++s) row[s] = base + own[s];
            for (int64_t e = 0; e < task.n_edges; ++e) {
                const BlockEdge& edge = task.edges[e];
                if (edge.high != site) continue;
                const double* from = direction ? edge.direction : edge.couplings;
                from += prefix / power[edge.low] % q * edge.by_low;
                if (edge.by_high == 1)
                    for (int64_t s = 0; s < q; ++s) row[s] += from[s];
                else
                    for (int64_t s = 0; s < q; ++s) row[s] += from[s * edge.by_high];
            }
        }
        level = next;
        size *= q;
    }
    return level;
}

// The sums of a table for each site and for each edge inside the block; the table is summed up site by site.
void collapse(const BlockTask& task, double* table, double* residual, double* edges) {
    const int64_t q = task.q;
    for (int64_t i = 0; i < task.k * q; ++i) residual[i] = 0.0;
    for (int64_t i = 0; i < task.n_edges * q * q; ++i) edges[i] = 0.0;
    int64_t size = block_entries(q, task.k);
    int64_t power[potts_block_sites];
    for (int64_t site = task.k - 1; site >= 0; --site) {
        size /= q;
        power[site] = 1;
        for (int64_t a = site - 1; a >= 0; --a) power[a] = a == site - 1 ? 1 : power[a + 1] * q;
        double* own = residual + site * q;
        for (int64_t prefix = 0; prefix < size; ++prefix) {
            const double* row = table + prefix * q;
            for (int64_t e = 0; e < task.n_edges; ++e) {
                if (task.edges[e].high != site) continue;
                double* to = edges + (e * q + prefix / power[task.edges[e].low] % q) * q;
                for (int64_t s = 0; s < q; ++s) to[s] += row[s];
            }
            double sum = 0.0;
            for (int64_t s = 0; s < q; ++s) {
                own[s] += row[s];
                sum += row[s];
            }
            table[prefix] = sum;  // its row lies behind it or is it: what is overwritten has been read
        }
    }
}

// Adds the residuals of the sites and edges to where they belong.
void hand_over(const BlockTask& task, const Tables& tables, int64_t row, const uint8_t* x) {
    const int64_t q = task.q;
    for (int64_t a = 0; a < task.k; ++a) {
        double* to = task.residuals[a] + row * task.padded;
        for (int64_t s = 0; s < q; ++s) to[s] += tables.residual[a * q + s];
    }
    for (int64_t e = 0; e < task.n_edges; ++e) {
        const BlockEdge& edge = task.edges[e];
        const double* from = tables.edges + e * q * q;
        for (int64_t s = 0; s < q; ++s)
            for (int64_t t = 0; t < q; ++t) edge.sum[s * edge.by_low + t * edge.by_high] += from[s * q + t];
        const double *low = tables.residual + edge.low * q, *high = tables.residual + edge.high * q;
        for (int64_t s = 0; s < q; ++s) edge.sum[s * edge.by_low + x[edge.high] * edge.by_high] -= low[s];
        for (int64_t t = 0; t < q; ++t) edge.sum[x[edge.low] * edge.by_low + t * edge.by_high] -= high[t];
    }
}

// exp(table - largest); returns the logarithm of the sum of exp(table), and the sum of what is in the table now.
double exponentials(double* table, int64_t size, double& sum) {
    double largest = table[0];
    for (int64_t i = 1; i < size; ++i) largest = table[i] > largest ? table[i] : largest;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) table[i] = fast_exp_negative(table[i] - largest);
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < size; ++i) total += table[i];
    sum = total;
    return largest + fast_log(total);
}

}  // namespace

double potts_block(const BlockTask& task) {
    const int64_t q = task.q, k = task.k, size = block_entries(q, k);
    const Tables tables = split(task);
    const bool directed = task.mode == PottsMode::hessian || task.mode == PottsMode::products;
    double total = 0.0;
    uint8_t x[potts_block_sites];
    for (int64_t i = 0; i < task.count; ++i) {
        const int64_t sample = task.samples ? task.samples[i] : task.first + i, row = sample - task.chunk_first;
        const bool rest = task.rest_weight != nullptr;
        const double weight = task.beta * (rest                 ? task.rest_weight[i]
                                           : task.sample_weight ? task.sample_weight[sample]
                                                                : 1.0);
        int64_t observed = 0;
        for (int64_t a = 0; a < k; ++a) {
            x[a] = task.columns[a][sample];
            observed = observed * q + x[a];
        }
        own_fields(task, task.fields, false, row, x, tables.fields);
        double* table = build(task, tables.fields, false, tables.table);
        const double score = rest ? 0.0 : table[observed];
        double sum = 0.0;
        const double value = weight * (score - exponentials(table, size, sum));
        const double scale = weight / sum;
        double* along = nullptr;
        double mean = 0.0, moved = 0.0;
        if (directed) {
            own_fields(task, task.moved, true, row, x, tables.moved);
            along = build(task, tables.moved, true, tables.along);
            moved = along[observed];
#pragma omp simd reduction(+ : mean)
            for (int64_t s = 0; s < size; ++s) mean += table[s] * along[s];
            mean /= sum;
        }
        switch (task.mode) {
            case PottsMode::values:
                task.out[sample] += value;
                continue;
            case PottsMode::products:
                task.out[sample] += weight * (moved - mean);
                continue;
            case PottsMode::gradient:
                total += value;
                for (int64_t s = 0; s < size; ++s) table[s] *= -scale;
                if (!rest) table[observed] += weight;
                break;
            case PottsMode::hessian:
                for (int64_t s = 0; s < size; ++s) table[s] *= -scale * (along[s] - mean);
                break;
            default:
                for (int64_t s = 0; s < size; ++s) table[s] /= sum;
        }
        collapse(task, table, tables.residual, tables.edges);
        if (task.mode == PottsMode::diagonal) {
            for (int64_t s = 0; s < k * q; ++s) tables.residual[s] *= weight * (1.0 - tables.residual[s]);
            for (int64_t s = 0; s < task.n_edges * q * q; ++s) tables.edges[s] *= weight * (1.0 - tables.edges[s]);
        }
        hand_over(task, tables, row, x);
    }
    return total;
}

}  // namespace ff::FF_ISA

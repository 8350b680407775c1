// The order of a gradient's tasks: the sequences of a block, then the features of that block, then the next block.
//
// A thread that finds nothing to do in a block goes on with the sequences of the next ones, whose residuals have a
// place of their own. So no thread waits while another one, whose processor is busy with something else, is late by
// less than a block. The order of all sums is fixed: chunk c of a block adds to the sums of chunk c of the block before
// it, and a block's features add to those of the block before it, range by range.
#pragma once

#include "chain.hpp"
#include "team.hpp"

namespace ff::FF_ISA {
namespace {

// run(block, chunk, residuals) for every chunk of a block, then sum(block, range, residuals) for its cold features;
// `residuals` is where token 0 would be. Without `given` a block's residuals are in one of the places of the scratch.
template <class Run, class Sum>
void sum_in_blocks(const ChainData& data, const ChainScratch& scratch, double* given, int n_threads, const Run& run,
                   const Sum& sum) {
    struct Tasks {
        const ChainData& data;
        const ChainScratch& scratch;
        double* given;
        const Run& run;
        const Sum& sum;
        int64_t* place;               // (n_blocks), where the residuals of a block are; -1: nowhere yet
        int64_t owner[chain_places];  // the block that has or had the place; -1: none yet

        bool has_place(int64_t block, const TaskProgress& progress) {
            if (given || place[block] >= 0) return true;
            for (int64_t p = 0; p < scratch.places; ++p) {
                const int64_t before = owner[p];
                if (before >= 0 && (progress.left[2 * before] > 0 || progress.left[2 * before + 1] > 0)) continue;
                owner[p] = block;
                place[block] = p;
                return true;
            }
            return false;
        }
        double* residuals(int64_t block) const {
            if (given) return given;
            return scratch.residuals + (place[block] * data.max_block_tokens - data.block_offset[block]) * data.padded;
        }
    };
    Tasks tasks{data, scratch, given, run, sum, scratch.block_places, {}};
    for (int64_t block = 0; block < data.n_blocks; ++block) tasks.place[block] = -1;
    for (int64_t& block : tasks.owner) block = -1;
    OrderedTasks order{};
    order.body = &tasks;
    order.group_ptr = scratch.task_ptr;
    order.groups = 2 * data.n_blocks;
    order.ahead = 2 * chain_places;
    order.begin = [](void* body, int64_t group, int64_t task, const TaskProgress& progress) {
        Tasks& of = *static_cast<Tasks*>(body);
        const int64_t block = group / 2;
        const bool turn = block == 0 || progress.finished[of.scratch.task_ptr[group - 2] + task];
        if (group % 2) return turn && progress.left[group - 1] == 0;
        return turn && of.has_place(block, progress);
    };
    order.run = [](void* body, int64_t group, int64_t task) {
        const Tasks& of = *static_cast<Tasks*>(body);
        if (group % 2)
            of.sum(group / 2, task, of.residuals(group / 2));
        else
            of.run(group / 2, task, of.residuals(group / 2));
    };
    run_ordered(order, n_threads);
}

}  // namespace
}  // namespace ff::FF_ISA

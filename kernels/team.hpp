// The threads of the kernels. Tasks are handed out in order, a few at a time, to whoever is free.
//
// The thread that calls takes part. At the end it waits for tasks that others have begun, never for a thread that has
// not come: beside a busy process a thread may be woken milliseconds late, and the others have done its work by then.
// Waiting is a short spin and then sleep. A task must not start tasks.
//
// A task may throw. Tasks after it are no longer begun, those under way are finished, and the exception is thrown again
// in the thread that called. Of several exceptions it is that of the task with the lowest number, on any number of
// threads.
#pragma once

#include <cstdint>

namespace ff {

// Tasks first..last-1.
using TaskRange = void (*)(const void* body, int64_t first, int64_t last);
void run_tasks(int64_t count, int64_t grain, int threads, TaskRange range, const void* body);

// Calls body(task) for the tasks 0..count-1 on up to `threads` threads, `grain` of them at a time.
template <class Body>
static inline void for_each_task(int64_t count, int threads, const Body& body, int64_t grain = 1) {
    const auto range = [](const void* of, int64_t first, int64_t last) {
        for (int64_t task = first; task < last; ++task) (*static_cast<const Body*>(of))(task);
    };
    if (threads <= 1 || count <= grain)
        range(&body, 0, count);
    else
        run_tasks(count, grain, threads, range, &body);
}

// How far tasks with an order among them have come.
struct TaskProgress {
    const uint8_t* finished;  // (tasks)
    const int64_t* left;      // (groups), tasks of the group that are not finished
};

// Groups of tasks. A free thread takes the first task that may begin: `begin` says whether, under a lock, and is asked
// again after a refusal. It must allow the first unfinished task whatever the later ones do.
struct OrderedTasks {
    void* body;
    const int64_t* group_ptr;  // (groups + 1), the tasks of each group
    int64_t groups;
    int64_t ahead;  // groups after the first unfinished one that are looked at
    bool (*begin)(void* body, int64_t group, int64_t task, const TaskProgress& progress);
    void (*run)(void* body, int64_t group, int64_t task);
};
void run_ordered(const OrderedTasks& tasks, int threads);

// The number of the calling thread among those of the running call: 0 for the thread that called.
int thread_number();

}  // namespace ff

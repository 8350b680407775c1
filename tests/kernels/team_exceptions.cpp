// Tasks that throw, on several threads: which exception arrives, and that the team goes on. Ends with 0 if all is
// right.
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "team.hpp"

namespace {

struct Thrown {
    int64_t task;
};

// The tasks that throw are 500, 501 and 900; the lowest of them takes longest to throw.
bool throws(int64_t task) { return task == 500 || task == 501 || task == 900; }

void work(int64_t task) {
    std::atomic<int> step{0};
    while (step < (task == 500 ? 200000 : 200)) ++step;
    if (throws(task)) throw Thrown{task};
}

template <class Call>
int64_t thrown_by(const Call& call) {
    try {
        call();
    } catch (const Thrown& thrown) {
        return thrown.task;
    }
    return -1;
}

void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
}

void plain(int threads, int64_t grain) {
    std::vector<std::atomic<int>> begun(2000);
    const int64_t by = thrown_by([&] {
        ff::for_each_task(
            2000, threads,
            [&](int64_t task) {
                begun[static_cast<size_t>(task)] = 1;
                work(task);
            },
            grain);
    });
    require(by == 500, "tasks: the exception of task " + std::to_string(by));
    for (int64_t task = 0; task <= 500; ++task)
        require(begun[static_cast<size_t>(task)] == 1, "tasks: an earlier task was left out");
    require(ff::thread_number() == 0, "tasks: the number of the thread that called");
    std::atomic<int64_t> sum{0};
    ff::for_each_task(2000, threads, [&](int64_t task) { sum += task; });
    require(sum == 1999000, "tasks: the next call");
}

// Groups of 10 tasks; task k of a group waits for task k of the group before.
struct Groups {
    std::vector<int64_t> ptr;
    std::vector<std::atomic<int>> begun;
    bool throwing = true;

    Groups() : ptr(201), begun(2000) {
        for (size_t g = 0; g < ptr.size(); ++g) ptr[g] = 10 * static_cast<int64_t>(g);
    }

    void run(int threads) {
        ff::OrderedTasks order{};
        order.body = this;
        order.group_ptr = ptr.data();
        order.groups = 200;
        order.ahead = 3;
        order.begin = [](void*, int64_t group, int64_t task, const ff::TaskProgress& progress) {
            return group == 0 || progress.finished[10 * (group - 1) + task] != 0;
        };
        order.run = [](void* body, int64_t group, int64_t task) {
            Groups& of = *static_cast<Groups*>(body);
            of.begun[static_cast<size_t>(10 * group + task)] = 1;
            if (of.throwing) work(10 * group + task);
        };
        ff::run_ordered(order, threads);
    }
};

void ordered(int threads) {
    Groups groups;
    const int64_t by = thrown_by([&] { groups.run(threads); });
    require(by == 500, "ordered tasks: the exception of task " + std::to_string(by));
    for (int64_t task = 0; task <= 500; ++task)
        require(groups.begun[static_cast<size_t>(task)] == 1, "ordered tasks: an earlier task was left out");
    require(groups.begun[510] == 0, "ordered tasks: a task began whose predecessor threw");
    groups.throwing = false;
    groups.run(threads);
    for (const std::atomic<int>& begun : groups.begun) require(begun == 1, "ordered tasks: the next call");
}

}  // namespace

int main() {
    try {
        for (int repetition = 0; repetition < 50; ++repetition)
            for (const int threads : {1, 2, 5}) {
                plain(threads, 1);
                plain(threads, 7);
                ordered(threads);
            }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

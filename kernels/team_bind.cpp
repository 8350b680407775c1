#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "team.hpp"

namespace ff {

namespace {

thread_local int number = 0;

// Looks at something for some microseconds before a thread sleeps: an evaluation is often followed by the next one.
constexpr int looks = 1000;

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#else
    std::this_thread::yield();
#endif
}

template <class Condition>
bool soon(const Condition& condition) {
    for (int look = 0; look < looks; ++look) {
        if (condition()) return true;
        pause();
    }
    return false;
}

// The exception of the first task, by number, among those that threw. The caller guards it with a mutex.
struct Failure {
    int64_t task = INT64_MAX;
    std::exception_ptr error;

    // Called where an exception is being handled.
    void note(int64_t by) {
        if (by >= task) return;
        task = by;
        error = std::current_exception();
    }

    void raise() const {
        if (error) std::rethrow_exception(error);
    }
};

// One call: lives on the stack of the thread that made it.
struct Job {
    TaskRange range;
    const void* body;
    int64_t count, grain;
    int wanted;      // threads that may still join
    int joined = 0;  // threads that have
    std::atomic<int64_t> next{0};
    std::atomic<int> inside{0};
    std::mutex failing{};
    Failure failure{};

    bool open() const { return wanted > 0 && next.load(std::memory_order_relaxed) < count; }

    void work(int as) {
        number = as;
        for (;;) {
            const int64_t first = next.fetch_add(grain, std::memory_order_relaxed);
            if (first >= count) break;
            try {
                range(body, first, std::min(first + grain, count));
            } catch (...) {
                // No later task is begun. All earlier ones have been: which exception is raised depends on no timing.
                next.store(count, std::memory_order_relaxed);
                const std::lock_guard<std::mutex> lock(failing);
                failure.note(first);
            }
        }
        number = 0;
    }
};

// Threads that sleep until there is a job. They are never joined: a process ends without waiting for them.
class Team {
  public:
    void run(Job& job) {
        const int wanted = job.wanted;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            grow(wanted);
            jobs_.push_back(&job);
            posted_.fetch_add(1);
        }
        for (int helper = 0; helper < wanted; ++helper) wake_.notify_one();
        job.work(0);
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
        }
        const auto alone = [&] { return job.inside.load() == 0; };
        if (soon(alone)) return;
        sleeping_callers_.fetch_add(1);
        {
            std::unique_lock<std::mutex> lock(mutex_);
            left_.wait(lock, alone);
        }
        sleeping_callers_.fetch_sub(1);
    }

  private:
    // As many threads as the largest job has asked for; fewer if the system refuses or has no memory for them.
    void grow(int wanted) {
        try {
            for (; size_ < wanted; ++size_) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
        } catch (const std::bad_alloc&) {
        }
    }

    Job* open_job() const {
        for (Job* job : jobs_)
            if (job->open()) return job;
        return nullptr;
    }

    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            Job* job = open_job();
            if (!job) {
                const int64_t seen = posted_.load();
                lock.unlock();
                soon([&] { return posted_.load() != seen; });
                lock.lock();
                wake_.wait(lock, [&] { return (job = open_job()) != nullptr; });
            }
            --job->wanted;
            const int as = ++job->joined;
            job->inside.fetch_add(1);
            lock.unlock();
            job->work(as);
            // After this the job may be gone.
            const bool last = job->inside.fetch_sub(1) == 1;
            lock.lock();
            if (last && sleeping_callers_.load() > 0) left_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, left_;
    std::vector<Job*> jobs_;
    std::atomic<int64_t> posted_{0};
    std::atomic<int> sleeping_callers_{0};
    int size_ = 0;
};

// Tasks with an order among them, shared by the threads of one call.
class Queue {
  public:
    explicit Queue(const OrderedTasks& tasks)
        : tasks_(tasks),
          taken_(static_cast<size_t>(tasks.group_ptr[tasks.groups]), 0),
          finished_(taken_.size(), 0),
          left_(static_cast<size_t>(tasks.groups)) {
        for (int64_t g = 0; g < tasks.groups; ++g)
            left_[static_cast<size_t>(g)] = tasks.group_ptr[g + 1] - tasks.group_ptr[g];
    }

    void work() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            int64_t group = 0;
            const int64_t task = take(group);
            if (task < 0) {
                if (untaken_ >= end()) return;
                const int64_t seen = changes_.load();
                const auto changed = [&] { return changes_.load() != seen; };
                lock.unlock();
                soon(changed);
                lock.lock();
                ++sleeping_;
                change_.wait(lock, changed);
                --sleeping_;
                continue;
            }
            lock.unlock();
            try {
                tasks_.run(tasks_.body, group, task - tasks_.group_ptr[group]);
                lock.lock();
                finished_[static_cast<size_t>(task)] = 1;
                --left_[static_cast<size_t>(group)];
            } catch (...) {
                lock.lock();
                failure_.note(task);
            }
            changes_.fetch_add(1);
            if (sleeping_ > 0) change_.notify_all();
        }
    }

    // For the calling thread, when all threads are done.
    void raise() const { failure_.raise(); }

  private:
    // Tasks from here on are not begun. After an exception that is the task that threw: those before it never wait for
    // it, and one of them may throw too.
    int64_t end() const { return std::min(failure_.task, static_cast<int64_t>(taken_.size())); }

    // The first task that may begin, or -1.
    int64_t take(int64_t& group) {
        const int64_t last = end();
        while (untaken_ < last && taken_[static_cast<size_t>(untaken_)]) ++untaken_;
        while (first_group_ < tasks_.groups && left_[static_cast<size_t>(first_group_)] == 0) ++first_group_;
        const TaskProgress progress{finished_.data(), left_.data()};
        const int64_t until = std::min(tasks_.groups, first_group_ + tasks_.ahead + 1);
        for (group = first_group_; group < until; ++group)
            for (int64_t task = tasks_.group_ptr[group]; task < tasks_.group_ptr[group + 1]; ++task) {
                if (task >= last) return -1;
                if (taken_[static_cast<size_t>(task)] ||
                    !tasks_.begin(tasks_.body, group, task - tasks_.group_ptr[group], progress))
                    continue;
                taken_[static_cast<size_t>(task)] = 1;
                return task;
            }
        return -1;
    }

    const OrderedTasks& tasks_;
    std::mutex mutex_;
    std::condition_variable change_;
    std::vector<uint8_t> taken_, finished_;
    std::vector<int64_t> left_;
    std::atomic<int64_t> changes_{0};
    int64_t untaken_ = 0, first_group_ = 0;
    int sleeping_ = 0;
    Failure failure_;
};

}  // namespace

void run_tasks(int64_t count, int64_t grain, int threads, TaskRange range, const void* body) {
    // Never destroyed: its threads may be waiting when the process ends.
    static Team* const team = new Team;
    const int64_t pieces = (count + grain - 1) / grain;
    Job job{range, body, count, grain, static_cast<int>(std::min<int64_t>(threads, pieces)) - 1};
    team->run(job);
    job.failure.raise();
}

void run_ordered(const OrderedTasks& tasks, int threads) {
    Queue queue(tasks);
    for_each_task(threads, threads, [&](int64_t) { queue.work(); });
    queue.raise();
}

int thread_number() { return number; }

}  // namespace ff

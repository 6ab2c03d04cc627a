// For tests: stages of tasks that callers share with the threads of one network.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "adaste_runtime.h"
#include "exec/workers.h"

namespace {

using adaste::Workers;

// A thread that is slow: it sleeps in each of its tasks, as if the system had suspended it.
struct Slow {
  int thread, microseconds;
};

// Whether every task of the stages ran once, on a thread that may have it.
bool run_stages(Workers& workers, std::vector<std::atomic<int>>& at_work, int stages, const int* tasks, Slow slow) {
  Workers::Turn turn(workers);
  bool good = true;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks[stage]));
    std::atomic<bool> alone{true};
    turn.run(tasks[stage], [&](int task, int thread) {
      std::atomic<int>& tasks_at_work = at_work[static_cast<size_t>(thread)];
      if (++tasks_at_work != 1 && thread != 0) alone = false;  // every caller is number 0
      ++runs[static_cast<size_t>(task)];
      if (thread == slow.thread) std::this_thread::sleep_for(std::chrono::microseconds(slow.microseconds));
      --tasks_at_work;
    });
    good = good && alone;
    for (const std::atomic<int>& count : runs) good = good && count == 1;
  }
  return good;
}

}  // namespace

extern "C" {

// How many of the callers had a task that did not run exactly once, or on a thread that was at work on another.
// `pause` microseconds before each caller's first stage let the threads fall asleep.
ADASTE_API int adaste_share_tasks(int threads, int callers, int stages, const int* tasks, int slow_thread,
                                  int slow_microseconds, int pause) {
  Workers workers(threads);
  std::vector<std::atomic<int>> at_work(static_cast<size_t>(threads));
  std::atomic<int> wrong{0};
  std::vector<std::thread> others;
  for (int caller = 0; caller < callers; ++caller)
    others.emplace_back([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      if (!run_stages(workers, at_work, stages, tasks, {slow_thread, slow_microseconds})) ++wrong;
    });
  for (std::thread& other : others) other.join();
  return wrong;
}

}  // extern "C"

// Workers where there are threads.
#include "exec/workers.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace adaste {
namespace {

constexpr uint64_t stop = ~uint64_t{0};

// A stage follows the last within microseconds, which waking a thread would double: threads look for a short while
// before they sleep, and never longer, so that an idle network takes no processor time.
constexpr int looks = 2000;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Condition>
bool soon(const Condition& condition) {
  for (int look = 0; look < looks; ++look) {
    if (condition()) return true;
    relax();
  }
  return false;
}

}  // namespace

// The threads beside the calling one.
class Workers::Team {
 public:
  explicit Team(int threads) {
    try {
      for (int i = 1; i < threads; ++i) team_.emplace_back([this] { work(); });
    } catch (const std::system_error& problem) {
      dismiss();  // those that have started
      fail("cannot start ", threads, " threads: ", problem.what());
    }
  }
  ~Team() { dismiss(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void share(const Job& job);

 private:
  void dismiss();
  void work();
  void take_tasks(const Job& job);

  std::mutex mutex_;
  std::condition_variable started_, ended_;
  Job job_{};
  std::atomic<uint64_t> round_{0};  // counts jobs; its last value tells workers to stop
  std::atomic<int> next_task_{0};
  std::atomic<int> busy_{0};  // workers that have not finished the job
  std::vector<std::thread> team_;
};

void Workers::Team::dismiss() {
  {
    const std::scoped_lock lock(mutex_);
    round_ = stop;
  }
  started_.notify_all();
  for (std::thread& worker : team_) worker.join();
}

void Workers::Team::take_tasks(const Job& job) {
  for (int task = next_task_++; task < job.count; task = next_task_++) job.call(job.context, task);
}

void Workers::Team::share(const Job& job) {
  {
    const std::scoped_lock lock(mutex_);
    job_ = job;
    next_task_ = 0;
    busy_ = static_cast<int>(team_.size());
    ++round_;
  }
  started_.notify_all();
  take_tasks(job);
  const auto all_ended = [this] { return busy_ == 0; };
  if (soon(all_ended)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, all_ended);
}

void Workers::Team::work() {
  uint64_t seen = 0;
  for (;;) {
    const auto next_round = [&] { return round_ != seen; };
    if (!soon(next_round)) {
      std::unique_lock<std::mutex> lock(mutex_);
      started_.wait(lock, next_round);
    }
    seen = round_;
    if (seen == stop) return;
    // Every worker takes part in every round, so the job does not change before busy_ is 0.
    take_tasks(job_);
    if (--busy_ == 0) {
      const std::scoped_lock lock(mutex_);
      ended_.notify_one();
    }
  }
}

struct Workers::System {
  std::mutex turn;
  std::unique_ptr<Team> team;
  int process = 0;  // which started the threads

  // After a fork the threads are the parent's: there is nothing to wait for.
  void forget_threads_of_parent() {
    if (process != getpid()) static_cast<void>(team.release());
  }
};

Workers::Workers(int threads) : threads_(threads), system_(std::make_unique<System>()) {
  system_->team = std::make_unique<Team>(threads);
  system_->process = getpid();
}

Workers::~Workers() { system_->forget_threads_of_parent(); }

void Workers::begin_turn() {
  std::unique_lock<std::mutex> lock(system_->turn);
  if (system_->process != getpid()) {
    system_->forget_threads_of_parent();
    system_->team = std::make_unique<Team>(threads_);
    system_->process = getpid();
  }
  static_cast<void>(lock.release());  // until the end of the turn
}

void Workers::end_turn() { system_->turn.unlock(); }

void Workers::share(const Job& job) { system_->team->share(job); }

}  // namespace adaste

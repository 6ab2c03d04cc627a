#include "exec/workers.h"

#include <system_error>

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

Workers::Workers(int threads) {
  try {
    for (int i = 1; i < threads; ++i) team_.emplace_back([this] { work(); });
  } catch (const std::system_error& problem) {
    dismiss();  // those that have started
    fail("cannot start ", threads, " threads: ", problem.what());
  }
}

Workers::~Workers() { dismiss(); }

void Workers::dismiss() {
  {
    const std::scoped_lock lock(mutex_);
    round_ = stop;
  }
  started_.notify_all();
  for (std::thread& worker : team_) worker.join();
}

void Workers::take_tasks(const Job& job) {
  for (int task = next_task_++; task < job.count; task = next_task_++) job.call(job.context, task);
}

void Workers::share(const Job& job) {
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

void Workers::work() {
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

}  // namespace adaste

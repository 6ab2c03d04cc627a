// Workers where there are threads.
//
// A turn has a team, whose ranges hold the tasks of its stage: each thread, the caller or a helper, has one, the same
// part of every stage, so that it reads again what its core's cache holds since the stage before. Whoever has none left
// takes them from the other ranges. Nobody waits for a lock, and a stage has ended when all of its tasks have, so a
// helper that sleeps or was suspended delays nobody who does not need it. Helpers take tasks of any team.
#include "exec/workers.h"

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"
#include "exec/cores.h"
#include "exec/placement.h"
#include "exec/profile.h"

namespace adaste {
namespace {

using Clock = std::chrono::steady_clock;

// A stage follows the last within microseconds, which waking a thread would double: threads look for a while before
// they sleep, and never longer. An idle network takes no processor time, and where others want the processors, a thread
// that sleeps is given one sooner than one that looks.
constexpr std::chrono::microseconds patience{100};

constexpr size_t apart = 128;  // bytes: processors fetch lines of 64 in pairs

constexpr int most_turns = 64;  // a bit each

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int process_number() {
#if defined(_WIN32)
  return 0;  // no process is forked there
#else
  return static_cast<int>(getpid());
#endif
}

// How long a thread has waited.
class Wait {
 public:
  // Where threads outnumber processors, the processor is given to whoever wants it.
  explicit Wait(bool crowded) : crowded_(crowded) {}

  // Between two looks; false when it is time to sleep.
  bool goes_on() {
    constexpr unsigned looks = 16;  // between two times
    if (crowded_)
      std::this_thread::yield();
    else
      relax();
    if (++looks_ % looks != 0) return true;
    const Clock::time_point now = Clock::now();
    if (since_ == Clock::time_point()) since_ = now;
    return now - since_ < patience;
  }

 private:
  bool crowded_;
  unsigned looks_ = 0;
  Clock::time_point since_;
};

// Where one thread sleeps until another wakes it.
class Bed {
 public:
  // Unless `done` already; it is looked at when who wakes can see that someone sleeps. Calls awake() after each sleep.
  template <class Done, class Awake>
  void sleep(const Done& done, const Awake& awake) {
    std::unique_lock<std::mutex> lock(mutex_);
    asleep_ = true;
    while (!done()) {
      woken_.wait(lock);
      awake();
    }
    asleep_ = false;
  }

  // To be called after what is waited for was done. Calls before() where someone sleeps.
  template <class Before>
  void wake(const Before& before) {
    if (!asleep_) return;
    {
      const std::scoped_lock lock(mutex_);  // not between a look and the sleep
      if (asleep_) before();
    }
    woken_.notify_one();
  }

 private:
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable woken_;
};

// Tasks from one number to another, which are taken at both ends.
class alignas(apart) Range {
 public:
  void set(int begin, int end, std::memory_order order) { tasks_.store(packed(begin, end), order); }
  bool empty() const { return size_of(tasks_) <= 0; }

  // The first or the last task; -1 where there is none.
  int take_first() {
    uint64_t tasks = tasks_;
    while (size_of(tasks) > 0)
      if (tasks_.compare_exchange_weak(tasks, tasks + one)) return begin_of(tasks);
    return -1;
  }
  int take_last() {
    uint64_t tasks = tasks_;
    while (size_of(tasks) > 0)
      if (tasks_.compare_exchange_weak(tasks, tasks - (one << half))) return end_of(tasks) - 1;
    return -1;
  }

 private:
  static constexpr uint64_t one = 1;
  static constexpr int half = 32;
  static uint64_t packed(int begin, int end) {
    return static_cast<uint64_t>(end) << half | static_cast<uint64_t>(begin);
  }
  static int begin_of(uint64_t tasks) { return static_cast<int>(tasks & 0xffffffffU); }
  static int end_of(uint64_t tasks) { return static_cast<int>(tasks >> half); }
  static int size_of(uint64_t tasks) { return end_of(tasks) - begin_of(tasks); }

  std::atomic<uint64_t> tasks_{0};
};

}  // namespace

struct alignas(apart) Workers::Team {
  explicit Team(int threads) : ranges(static_cast<size_t>(threads)) {}

  std::vector<Range> ranges;    // of every thread, the caller's first
  std::atomic<int> sharers{1};  // how many of the ranges had tasks at the beginning of the stage
  Turn::Job job{};              // changes only when all tasks have ended, and is read only by who has one
  alignas(apart) std::atomic<int> ended{0};  // tasks that helpers took
  Bed caller;

  // Hands out a stage. The caller's range is last: who sees it sees all.
  void begin(const Turn::Job& stage, int count, int threads) {
    job = stage;
    ended.store(0, std::memory_order_relaxed);
    const int all = std::min(count, threads);
    sharers.store(all, std::memory_order_relaxed);
    const auto start = [&](int thread) { return static_cast<int>(int64_t{count} * thread / all); };
    for (int thread = all - 1; thread > 0; --thread)
      ranges[static_cast<size_t>(thread)].set(start(thread), start(thread + 1), std::memory_order_release);
    ranges[0].set(0, start(1), std::memory_order_seq_cst);
  }

  bool has_tasks() const {
    if (!ranges[0].empty()) return true;
    for (int thread = 1; thread < sharers.load(std::memory_order_relaxed); ++thread)
      if (!ranges[static_cast<size_t>(thread)].empty()) return true;
    return false;
  }

  // The next task of a thread's own range or, when that is empty, of another's, whose thread comes to it last.
  int take(int thread) {
    const int all = sharers.load(std::memory_order_relaxed);
    int task = thread < all ? ranges[static_cast<size_t>(thread)].take_first() : -1;
    for (int i = 1; task < 0 && i <= all; ++i) task = ranges[static_cast<size_t>((thread + i) % all)].take_last();
    return task;
  }

  // Takes tasks while there are any; how many. Calls before_first() ahead of the first.
  template <class Before>
  int work(int thread, const Before& before_first) {
    int count = 0;
    for (int task = take(thread); task >= 0; task = take(thread)) {
      if (count++ == 0) before_first();
      const profile::Task measured(thread);
      job.call(job.context, task, thread);
    }
    return count;
  }
};

struct alignas(apart) Workers::Helper {
  Bed bed;
  Placement placement;
  std::atomic<int> processor{-1};  // where it slept last
  std::thread thread;
};

// The helpers of one process, and the turns they help.
struct Workers::Pool {
  Pool(int all, int turns)
      : threads(all),
        crowded(all > usable_processors()),
        helpers(static_cast<size_t>(all - 1)) {
    for (int turn = 0; turn < turns; ++turn) teams.push_back(std::make_unique<Team>(threads));
    try {
      for (int number = 1; number < threads; ++number)
        helper(number).thread = std::thread([this, number] { help(number); });
    } catch (const std::system_error& problem) {
      dismiss();  // those that have started
      fail("cannot start ", threads, " threads: ", problem.what());
    }
  }
  ~Pool() { dismiss(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Helper& helper(int number) { return helpers[static_cast<size_t>(number - 1)]; }

  void dismiss() {
    stop = true;
    for (Helper& each : helpers) each.bed.wake([] {});
    for (Helper& each : helpers)
      if (each.thread.joinable()) each.thread.join();
  }

  // Those with the lowest numbers help; with every caller there is one less.
  bool may_help(int number) const { return number + callers <= threads; }

  bool has_work(int number) const {
    if (!may_help(number)) return false;
    for (uint64_t left = busy; left != 0; left &= left - 1)
      if (teams[static_cast<size_t>(__builtin_ctzll(left))]->has_tasks()) return true;
    return false;
  }

  // Whoever has work wakes two others that were given some, so that a call does not pay for waking all.
  void wake_next(int number, const Team& team) {
    for (int next = 2 * number + 1; next <= 2 * number + 2 && next < team.sharers; ++next)
      helper(next).bed.wake([&] { place(next, number); });
  }

  // Not where `waker` is, and if possible not where the others are.
  void place(int number, int waker) {
    if (crowded) return;
    const int here = current_processor();
    if (waker == 0) caller_processor = here;
    Placement& placement = helper(number).placement;
    placement.begin();
    placement.avoid(here);
    placement.avoid(caller_processor);
    for (int other = 1; other < threads; ++other)
      if (other != number) placement.avoid(helper(other).processor);
    placement.finish();
  }

  // Takes tasks of one team after the other; false where there were none.
  bool take_tasks(int number) {
    bool found = false;
    for (uint64_t left = busy; left != 0 && may_help(number); left &= left - 1) {
      Team& team = *teams[static_cast<size_t>(__builtin_ctzll(left))];
      const int count = team.work(number, [&] { wake_next(number, team); });
      if (count == 0) continue;
      found = true;
      team.ended += count;
      team.caller.wake([] {});
    }
    return found;
  }

  void sleep(int number) {
    Helper& self = helper(number);
    self.processor = current_processor();
    self.bed.sleep([&] { return stop || has_work(number); }, [&] { self.placement.release(); });
  }

  void help(int number) {
    helper(number).placement.attach();
    while (!stop) {
      Wait wait(crowded);
      while (!stop && !take_tasks(number)) {
        if (wait.goes_on()) continue;
        sleep(number);
        break;
      }
    }
  }

  const int threads;
  const bool crowded;
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<Team>> teams;  // of every turn
  std::vector<Helper> helpers;
  alignas(apart) std::atomic<uint64_t> busy{0};  // a bit for every turn that has begun
  std::atomic<int> callers{0};                   // their number
  std::atomic<int> caller_processor{-1};         // where one was when it woke a helper
  alignas(apart) std::condition_variable turn_ended;
  int alone = 0;  // turns without company that have begun or wait
};

struct Workers::System {
  std::mutex turns;  // of their beginnings and ends
  std::unique_ptr<Pool> pool;
  int process = process_number();

  // After a fork the threads are the parent's: there is nothing to wait for.
  void forget_threads_of_parent() {
    if (process != process_number()) static_cast<void>(pool.release());
  }
};

Workers::Workers(int threads)
    : threads_(threads),
      turns_(std::min(most_turns, std::max(threads, usable_processors()))),
      system_(std::make_unique<System>()) {
  system_->pool = std::make_unique<Pool>(threads_, turns_);
}

Workers::~Workers() { system_->forget_threads_of_parent(); }

Workers::Turn::Turn(Workers& workers, Company company) : workers_(workers), company_(company) {
  System& system = *workers.system_;
  std::unique_lock<std::mutex> lock(system.turns);
  if (system.process != process_number()) {
    system.forget_threads_of_parent();
    system.pool = std::make_unique<Pool>(workers.threads_, workers.turns_);
    system.process = process_number();
  }
  Pool& pool = *system.pool;
  if (company == Company::none) {
    ++pool.alone;
    pool.turn_ended.wait(lock, [&] { return pool.callers == 0; });
  } else {
    pool.turn_ended.wait(lock, [&] { return pool.alone == 0 && pool.callers < workers.turns_; });
  }
  place_ = __builtin_ctzll(~pool.busy);
  ++pool.callers;
  pool.busy |= uint64_t{1} << place_;
}

Workers::Turn::~Turn() {
  System& system = *workers_.system_;
  {
    const std::scoped_lock lock(system.turns);
    system.pool->busy &= ~(uint64_t{1} << place_);
    --system.pool->callers;
    if (company_ == Company::none) --system.pool->alone;
  }
  system.pool->turn_ended.notify_all();
}

int Workers::Turn::threads() const {
  return std::max(1, workers_.threads_ + 1 - workers_.system_->pool->callers);
}

void Workers::Turn::share(const Job& job, int count) {
  Pool& pool = *workers_.system_->pool;
  const int sharing = threads();
  if (sharing == 1) {
    for (int task = 0; task < count; ++task) job.call(job.context, task, 0);
    return;
  }
  Team& team = *pool.teams[static_cast<size_t>(place_)];
  team.begin(job, count, sharing);
  pool.wake_next(0, team);
  const int mine = team.work(0, [] {});
  const auto all_ended = [&] { return team.ended == count - mine; };
  for (Wait wait(pool.crowded); !all_ended();)
    if (!wait.goes_on()) return team.caller.sleep(all_ended, [] {});
}

struct Lock::System {
  std::mutex mutex;
};

Lock::Lock() : system_(std::make_unique<System>()) {}
Lock::~Lock() = default;
void Lock::take() { system_->mutex.lock(); }
void Lock::give() { system_->mutex.unlock(); }

}  // namespace adaste

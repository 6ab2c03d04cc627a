// Threads that share the tasks of one stage after the other, for several callers at once. The calling thread works too,
// so one thread needs no others.
//
// Threads, locks and processes are used behind this header alone: workers.cpp is for systems that have them,
// workers_single.cpp for WebAssembly, which does not.
#pragma once

#include <memory>

#include "exec/profile.h"

namespace adaste {

class Workers {
 public:
  // So many threads, the calling one among them. An Error where the system does not give them.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  // How many turns there can be at a time.
  int turns() const { return turns_; }

  enum class Company { others, none };

  // A caller's turn with the workers. While others have theirs, threads that call are not helped by as many threads
  // that wait: all together are no more than `threads()`, or one for each turn. Where there are turns() already, or
  // where one wants no company, a caller waits. A forked child has none of its parent's threads; its first turn starts
  // others.
  class Turn {
   public:
    explicit Turn(Workers& workers, Company company = Company::others);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // From 0 to turns() - 1: no other turn has it at this time.
    int place() const { return place_; }

    // How many threads the tasks of a stage should be for.
    int threads() const;

    // Calls function(task, thread) for every task from 0 to count - 1, on any of threads(), and returns when all have
    // ended. `thread` is 0 for the calling one; no two threads at work, of any turn, have another number in common. The
    // function must not throw. Nothing is allocated.
    template <class Function>
    void run(int count, const Function& function) {
      const profile::Stage measured(count);
      if (count <= 1 || workers_.threads_ == 1) {
        for (int task = 0; task < count; ++task) function(task, 0);
        return;
      }
      const auto call = [](const void* context, int task, int thread) {
        (*static_cast<const Function*>(context))(task, thread);
      };
      share({call, &function}, count);
    }

   private:
    friend class Workers;
    struct Job {
      void (*call)(const void* context, int task, int thread);
      const void* context;
    };
    void share(const Job& job, int count);

    Workers& workers_;
    int place_;
    Company company_;
  };

 private:
  struct Team;
  struct Helper;
  struct Pool;
  struct System;

  int threads_;
  int turns_;
  std::unique_ptr<System> system_;
};

// What one thread at a time may hold.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  class Held {
   public:
    explicit Held(Lock& lock) : lock_(lock) { lock_.take(); }
    ~Held() { lock_.give(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Lock& lock_;
  };

 private:
  void take();
  void give();

  struct System;
  std::unique_ptr<System> system_;
};

}  // namespace adaste

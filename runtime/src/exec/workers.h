// A fixed team of threads that shares the tasks of one stage after the other. The calling thread works too, so a team
// of one has no threads at all.
//
// Threads, locks and processes are used behind this header alone: workers.cpp is for systems that have them,
// workers_single.cpp for WebAssembly, which does not.
#pragma once

#include <memory>

namespace adaste {

class Workers {
 public:
  // An Error where the system does not give so many threads.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  // One caller's turn with the workers: others wait until it ends. A forked child has none of its parent's threads;
  // its first turn starts others.
  class Turn {
   public:
    explicit Turn(Workers& workers) : workers_(workers) { workers_.begin_turn(); }
    ~Turn() { workers_.end_turn(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Workers& workers_;
  };

  // Calls function(task) for every task from 0 to count - 1, on all threads, and returns when all have ended. The
  // function must not throw. Nothing is allocated.
  template <class Function>
  void run(int count, const Function& function) {
    if (threads_ == 1 || count <= 1) {
      for (int task = 0; task < count; ++task) function(task);
      return;
    }
    const auto call = [](const void* context, int task) { (*static_cast<const Function*>(context))(task); };
    share({call, &function, count});
  }

 private:
  struct Job {
    void (*call)(const void* context, int task);
    const void* context;
    int count;
  };
  class Team;
  struct System;

  void begin_turn();
  void end_turn();
  void share(const Job& job);

  int threads_;
  std::unique_ptr<System> system_;
};

}  // namespace adaste

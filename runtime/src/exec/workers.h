// A fixed team of threads that shares the tasks of one stage after the other. The calling thread works too, so a team
// of one has no threads at all.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace adaste {

class Workers {
 public:
  // An Error where the system does not give so many threads.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return static_cast<int>(team_.size()) + 1; }

  // Calls function(task) for every task from 0 to count - 1, on all threads, and returns when all have ended. The
  // function must not throw. Nothing is allocated.
  template <class Function>
  void run(int count, const Function& function) {
    if (team_.empty() || count <= 1) {
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

  void share(const Job& job);
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

}  // namespace adaste

// Where the system wakes a sleeping thread.
//
// Linux takes an idle processor of a virtual machine for a busy one while the hypervisor has it. Then it wakes a thread
// on the processor of the one that wakes it, behind which the thread waits for milliseconds, until the scheduler moves
// it. So whoever wakes a thread says where not. Once awake, the thread may use all its processors again. On other
// systems this does nothing.
#pragma once

#if defined(__linux__)
#include <sched.h>
#endif

namespace adaste {

// Where the calling thread is; -1 where that is not known.
int current_processor();

// Of one thread. It and those that wake it take turns.
class Placement {
 public:
  // By the thread, before it sleeps for the first time.
  void attach();

  // By another, while the thread sleeps: it shall not wake on the processors that are avoided between these two, the
  // first ones above all, as far as it may use others.
  void begin();
  void avoid(int processor);
  void finish();

  // By the thread, when it is awake.
  void release();

 private:
#if defined(__linux__)
  pid_t thread_ = 0;
  bool known_ = false;     // whether `all_` is what the thread may use
  bool narrowed_ = false;  // whether it may use `now_` alone until it is awake
  cpu_set_t all_;
  cpu_set_t now_;
  cpu_set_t next_;  // between begin() and finish()
#endif
};

}  // namespace adaste

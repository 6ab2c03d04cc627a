#include "exec/placement.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace adaste {

#if defined(__linux__)

int current_processor() { return sched_getcpu(); }

void Placement::attach() { thread_ = static_cast<pid_t>(syscall(SYS_gettid)); }

// Another may have placed the thread already, and it has not run since: `all_` is still what it may use.
void Placement::begin() {
  known_ = narrowed_ || sched_getaffinity(thread_, sizeof all_, &all_) == 0;
  next_ = all_;
}

void Placement::avoid(int processor) {
  if (known_ && processor >= 0 && processor < CPU_SETSIZE && CPU_COUNT(&next_) > 1)
    CPU_CLR(static_cast<size_t>(processor), &next_);
}

void Placement::finish() {
  if (!known_ || sched_setaffinity(thread_, sizeof next_, &next_) != 0) return;
  now_ = next_;
  narrowed_ = true;
}

// Somebody else may have changed the processors in the meantime, which must stay.
void Placement::release() {
  if (!narrowed_) return;
  narrowed_ = false;
  cpu_set_t found;
  if (sched_getaffinity(0, sizeof found, &found) == 0 && CPU_EQUAL(&found, &now_))
    sched_setaffinity(0, sizeof all_, &all_);
}

#else

int current_processor() { return -1; }

void Placement::attach() {}
void Placement::begin() {}
void Placement::avoid(int /*processor*/) {}
void Placement::finish() {}
void Placement::release() {}

#endif

}  // namespace adaste

// Workers where there are no threads: in WebAssembly.
#include "base/error.h"
#include "exec/workers.h"

namespace adaste {

struct Workers::System {};

Workers::Workers(int threads) : threads_(threads), turns_(1) {
  require(threads == 1, "there are no threads here, got ", threads);
}

Workers::~Workers() = default;

Workers::Turn::Turn(Workers& workers, Company company) : workers_(workers), place_(0), company_(company) {}

Workers::Turn::~Turn() = default;

int Workers::Turn::threads() const { return 1; }

void Workers::Turn::share(const Job& job, int count) {
  for (int task = 0; task < count; ++task) job.call(job.context, task, 0);
}

struct Lock::System {};

Lock::Lock() = default;
Lock::~Lock() = default;
void Lock::take() {}
void Lock::give() {}

}  // namespace adaste

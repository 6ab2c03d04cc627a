// Workers where there are no threads: in WebAssembly.
#include "base/error.h"
#include "exec/workers.h"

namespace adaste {

struct Workers::System {};

Workers::Workers(int threads) : threads_(threads) { require(threads == 1, "there are no threads here, got ", threads); }

Workers::~Workers() = default;

void Workers::begin_turn() {}

void Workers::end_turn() {}

void Workers::share(const Job& job) {
  for (int task = 0; task < job.count; ++task) job.call(job.context, task);
}

}  // namespace adaste

// One convolution: all stages of a kernel, on the threads of a turn.
#pragma once

#include <vector>

#include "exec/memory.h"
#include "exec/workers.h"
#include "kernels/contract.h"

namespace adaste {

struct Convolution {
  const ConvKernel& kernel;
  ConvShape shape;
  const float* x;
  const void* prepared;
  Epilogue epilogue;
  Quantisation quantisation;
  float* y;
};

// `scratch` is the calling thread's, `helper_scratch` that of the others, which kernels without scratch_per_thread do
// not need; each has scratch_bytes().
inline void convolve(const Convolution& it, void* scratch, const std::vector<Memory>& helper_scratch,
                     Workers::Turn& turn) {
  const ConvKernel& kernel = it.kernel;
  for (int stage = 0; stage < kernel.stages(it.shape); ++stage) {
    const auto run_task = [&](int task, int thread) {
      const bool own = kernel.scratch_per_thread && thread != 0;
      kernel.run(it.shape, stage, task, it.x, it.prepared, it.epilogue, it.quantisation, it.y,
                 own ? helper_scratch[static_cast<size_t>(thread - 1)].data() : scratch);
    };
    const int tasks = kernel.tasks(it.shape, stage);
    const bool measured = stage == 0 && kernel.measures_first && !it.quantisation.dynamic;
    if (it.shape.threads == 1 || measured) {  // nothing to share
      const profile::Stage alone(tasks);
      for (int task = 0; task < tasks; ++task) run_task(task, 0);
    } else {
      turn.run(tasks, run_task);
    }
  }
}

}  // namespace adaste

// Where buffers lie in one block of memory: those that are never needed at the same time share their place.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/program.h"

namespace adaste {

// In floats, for one image. For a batch of n all numbers are n times as large, so a plan holds for every batch.
struct Plan {
  std::vector<int64_t> offsets;  // of every buffer
  int64_t size = 0;
};

// `outputs` are the buffers that are read in the end.
Plan make_plan(const Program& program, const std::vector<int>& outputs);

}  // namespace adaste

// Where values lie in one block of memory: values that are never needed at the same time share their place.
#pragma once

#include <cstdint>
#include <vector>

#include "format/graph.h"

namespace adaste {

// In floats, for one image. For a batch of n all numbers are n times as large, so a plan holds for every batch.
struct Plan {
  std::vector<int64_t> offsets;  // of every value
  int64_t size = 0;
};

Plan make_plan(const Graph& graph);

}  // namespace adaste

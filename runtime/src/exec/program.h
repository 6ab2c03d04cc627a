// What a network does, action by action: every node with the places of its inputs and its output in memory. Nodes that only
// see numbers in another shape or order do nothing; where a step needs another order, a copy comes before it.
#pragma once

#include <vector>

#include "exec/view.h"
#include "format/graph.h"

namespace adaste {

enum class Work { node, copy, unfold };

struct Action {
  Work work = Work::node;
  const Node* node = nullptr;  // of a copy or an unfolding: for whom it is
  std::vector<View> inputs;
  View output;
  ConvShape shape{};  // of a convolution: as its kernel sees it
};

struct Program {
  std::vector<int64_t> buffers;  // the numbers of each
  std::vector<View> values;      // of the graph
  std::vector<Action> actions;
};

// The graph must outlive its program.
Program make_program(const Graph& graph, const Limits& limits);

}  // namespace adaste

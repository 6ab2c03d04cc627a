// Where networks are run with the largest of their sizes alone: in WebAssembly.
#include "format/free_sizes.h"
#include "format/graph.h"

namespace adaste {

std::vector<int> FreeSizes::of(const Graph& /*graph*/, const std::vector<std::vector<int64_t>>& /*shapes*/) const {
  return {};
}

std::string FreeSizes::described(const std::vector<int>& /*sizes*/) const { return {}; }

Signature free_signature(const uint8_t* /*bytes*/, size_t /*size*/, const Limits& /*limits*/, const Graph& graph) {
  return signature_of(graph);
}

FreeSizes read_free_sizes(const Fields& /*facts*/) { return {}; }

void set_free_sizes(const FreeSizes& /*free*/, const std::vector<int>& /*sizes*/, Json& /*description*/) {}

}  // namespace adaste

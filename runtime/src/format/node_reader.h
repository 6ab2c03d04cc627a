// Reads the nodes of a network one after the other; checks each against the values and tensors there are.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "format/fields.h"
#include "format/graph.h"
#include "format/safetensors.h"

namespace adaste {

class NodeReader {
 public:
  // Appends to `graph`, which holds its input.
  NodeReader(const Container& container, const Limits& limits, Graph& graph);

  void read(const Json& json);

  // An error where a tensor is used by no node.
  void check_all_used() const;

  // The numbers of all values by their names.
  const std::map<std::string, int>& numbers() const { return numbers_; }

 private:
  const Extent& input(const Node& node, size_t which) const;
  const Extent& map_input(const Node& node, const Fields& fields) const;

  Extent convolution(const Fields& fields, Node& node);
  Extent linear(const Fields& fields, Node& node);
  Extent affine(const Fields& fields, Node& node);
  Extent pool(const Fields& fields, Node& node);
  Extent flatten(const Fields& fields, Node& node);
  Extent add(const Fields& fields, Node& node);
  Extent relu(const Fields& fields, Node& node);
  Extent concatenate(const Fields& fields, Node& node);

  void read_inputs(const Fields& fields, Node& node) const;
  void slide(const Fields& fields, Node& node) const;
  void read_weight(const Fields& fields, Node& node, const std::vector<uint64_t>& shape);
  void read_epilogue(const Fields& fields, Node& node, const Extent& result);
  std::vector<float> read_floats(const Fields& fields, std::string_view key, int count);
  const Tensor& tensor(const Fields& fields, std::string_view key);
  void spend(const Fields& fields, int64_t products);
  void define(const Fields& fields, const Extent& extent);

  const Container& container_;
  const Limits& limits_;
  Graph& graph_;
  std::map<std::string, int> numbers_;
  int64_t work_ = 0;
  size_t weight_bytes_ = 0;
  std::set<std::string> used_;  // tensors
};

}  // namespace adaste

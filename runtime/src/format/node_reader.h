// Reads the nodes of a network one after the other; checks each against the values and tensors there are.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "format/fields.h"
#include "format/graph.h"
#include "format/safetensors.h"

namespace adaste {

// The product of numbers from 0 on, or where that is huge another huge number.
int64_t product(std::initializer_list<int64_t> factors);

class NodeReader {
 public:
  // Appends to `graph`, which holds its inputs.
  NodeReader(const Container& container, const Limits& limits, int version, Graph& graph);

  void read(const Json& json);

  // An error where a tensor is used by no node.
  void check_all_used() const;

  // The numbers of all values by their names.
  const std::map<std::string, int>& numbers() const { return numbers_; }

 private:
  struct Kind {
    const char* name;
    Op op;
    size_t least, most;  // inputs
    Shape (NodeReader::*read)(const Fields&, Node&);
    int version = 2;
  };
  // Null where this version has no such operation.
  const Kind* kind_of(const std::string& op) const;

  const Shape& input(const Node& node, size_t which) const;
  const Shape& map_input(const Node& node, const Fields& fields) const;

  Shape convolution(const Fields& fields, Node& node);
  Shape linear(const Fields& fields, Node& node);
  Shape affine(const Fields& fields, Node& node);
  Shape pool(const Fields& fields, Node& node);
  Shape flatten(const Fields& fields, Node& node);
  Shape add(const Fields& fields, Node& node);
  Shape relu(const Fields& fields, Node& node);
  Shape concatenate(const Fields& fields, Node& node);

  // Of version 2, in tensor_reader.cpp.
  Shape constant(const Fields& fields, Node& node);
  Shape function(const Fields& fields, Node& node);
  Shape combine(const Fields& fields, Node& node);
  Shape reduce(const Fields& fields, Node& node);
  Shape layer_norm(const Fields& fields, Node& node);
  Shape group_norm(const Fields& fields, Node& node);
  Shape softmax(const Fields& fields, Node& node);
  Shape reshape(const Fields& fields, Node& node);
  Shape transpose(const Fields& fields, Node& node);
  Shape slice(const Fields& fields, Node& node);
  Shape expand(const Fields& fields, Node& node);
  Shape pad(const Fields& fields, Node& node);
  Shape spread(const Fields& fields, Node& node);
  Shape resize(const Fields& fields, Node& node);
  Shape matmul(const Fields& fields, Node& node);
  Shape attention(const Fields& fields, Node& node);
  Shape embedding(const Fields& fields, Node& node);
  Shape number(const Fields& fields, Node& node);

  int read_axis(const Fields& fields, const Shape& shape) const;
  Shape read_sides(const Fields& fields) const;
  void read_ends(const Fields& fields, Node& node, int64_t count);
  std::vector<float> read_numbers(const Fields& fields, std::string_view key, const std::vector<uint64_t>& shape);

  void read_inputs(const Fields& fields, const Kind& kind, Node& node) const;
  // Reads a window; what it gives is counted later. `dilation` is of version 2.
  void slide(const Fields& fields, Node& node, bool ceil) const;
  void read_weight(const Fields& fields, Node& node, const std::vector<uint64_t>& shape, int64_t places);
  void read_epilogue(const Fields& fields, Node& node, int channels, const Shape& result);
  std::vector<float> read_floats(const Fields& fields, std::string_view key, int64_t count);
  const Tensor& tensor(const Fields& fields, std::string_view key);
  void spend(const Fields& fields, int64_t products);
  void define(const Fields& fields, Node& node, Shape shape);

  const Container& container_;
  const Limits& limits_;
  int version_;
  Graph& graph_;
  std::map<std::string, int> numbers_;
  int64_t work_ = 0;
  size_t weight_bytes_ = 0;
  std::set<std::string> used_;  // tensors
};

}  // namespace adaste

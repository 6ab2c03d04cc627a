// A network as its file describes it, checked: every shape is known and within bounds, every tensor fits.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/free_sizes.h"
#include "kernels/contract.h"

namespace adaste {

constexpr int largest = 1 << 27;  // any whole number of a description

// What a file may ask for, so that no file can exhaust a machine. All but the last two hold for one image.
struct Limits {
  int64_t value_elements = int64_t{1} << 27;    // of any value, padding included
  int64_t activation_bytes = int64_t{1} << 30;  // of all values that are alive at once
  int64_t work = int64_t{1} << 37;              // multiply-adds, about
  int64_t scratch_bytes = int64_t{1} << 30;     // of a kernel
  int64_t weight_bytes = int64_t{1} << 30;      // of all weights, as kernels want them
  int nodes = 10000;
};

constexpr size_t most_axes = 7;   // of a value
constexpr size_t most_ports = 64;  // inputs or outputs of a network

// The shape of a value without the batch: (channels, height, width) for a map, (features) for a flat value.
struct Shape {
  std::vector<int> sides;

  size_t rank() const { return sides.size(); }
  int64_t elements() const;
  int operator[](size_t axis) const { return sides[axis]; }
  bool operator==(const Shape& other) const { return sides == other.sides; }
  bool operator!=(const Shape& other) const { return sides != other.sides; }
};

// As a part of a message.
void append(std::string& message, const Shape& shape);

enum class Op {
  convolution,
  affine,
  max_pool,
  average_pool,
  flatten,
  add,
  relu,
  concatenate,
  constant,
  function,
  combine,
  reduce,
  layer_norm,
  group_norm,
  softmax,
  reshape,
  transpose,
  slice,
  expand,
  pad,
  spread,
  resize,
  matmul,
  attention,
  embedding,
  number
};

enum class Function {
  abs, elu, erf, exp, gelu, gelu_tanh, hardsigmoid, hardswish, leaky_relu, log, mish, reciprocal, rsqrt, sigmoid,
  silu, softplus, sqrt, tanh
};
enum class Combination { add, divide, equal, less, maximum, minimum, multiply, subtract };
enum class Reduction { max, mean, min, sum };
enum class Padding { constant, edge, reflect, wrap };

struct Node {
  Op op = Op::relu;
  std::string name;         // as in the file: "linear" is a convolution here
  std::vector<int> inputs;  // numbers of values; a second input of convolution and affine is a residual
  int output = 0;

  // Sizes of a convolution or pool, for a batch of one; elsewhere unused.
  ConvShape shape{};
  int dilation[2] = {1, 1};  // in which `shape` has the kernel of the file
  bool count_padding = false;

  bool binary = false;
  const uint8_t* weight = nullptr;  // rows as in the file
  std::vector<float> scale, shift;  // empty: 1 and 0
  bool relu = false;

  // Of operations of version 2: docs/format.md has their keys, and which of these are used follows from the operation.
  int function = 0;                    // a Function, Combination, Reduction or Padding
  float number = 0;                    // parameter, epsilon, scale or value
  std::vector<int> axes, before;       // axes, sides, step; `before` of a pad
  int axis = 0, start = 0, step = 1;   // of a slice; groups, count
  std::array<float, 2> steps{};        // of a resize
  bool flag = false, corners = false;  // keep, center, causal or linear; of an embedding: of whole numbers
  std::shared_ptr<const std::vector<float>> numbers;  // of a constant or an embedding
};

struct Value {
  Shape shape;
  bool integer = false;   // whole numbers, int32
  bool constant = false;  // the same for all inputs
};

// Images and what is like them; they lie in memory pixel by pixel.
inline bool is_map(const Value& value) { return value.shape.rank() == 3 && !value.integer; }

// An input or an output of the network.
struct Port {
  std::string name;
  int value;
  std::vector<double> mean, std;  // of images, as in the file; empty where it has none
};

struct Graph {
  std::vector<std::string> classes;
  std::optional<std::string> recipe;
  std::string producer;
  std::vector<Value> values;  // the inputs, then one for each node
  std::vector<std::string> names;
  std::vector<Node> nodes;
  std::vector<Port> inputs, outputs;
  FreeSizes free;
};

// The network in a file's bytes, to which weights in its nodes point; for some of its free sizes, or for the largest.
Graph read_graph(const uint8_t* bytes, size_t size, const Limits& limits, const std::vector<int>* sizes = nullptr);

}  // namespace adaste

// A network as its file describes it, checked: every shape is known and within bounds, every tensor fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

// The shape of a value without the batch. A flat value has its features as channels.
struct Extent {
  int channels, height, width;
  bool flat;

  int64_t elements() const { return int64_t{channels} * height * width; }
  bool operator==(const Extent& other) const {
    return channels == other.channels && height == other.height && width == other.width && flat == other.flat;
  }
};

// As a part of a message.
void append(std::string& message, const Extent& extent);

enum class Op { convolution, affine, max_pool, average_pool, flatten, add, relu, concatenate };

struct Node {
  Op op = Op::relu;
  std::string name;         // as in the file: "linear" is a convolution here
  std::vector<int> inputs;  // numbers of values; a second input of convolution and affine is a residual
  int output = 0;

  // Sizes of a convolution or pool, for a batch of one; elsewhere unused.
  ConvShape shape{};
  bool count_padding = false;

  bool binary = false;
  const uint8_t* weight = nullptr;  // rows as in the file
  std::vector<float> scale, shift;  // empty: 1 and 0
  bool relu = false;
};

struct Graph {
  std::vector<double> mean, std;  // as in the file; empty where it has none
  std::vector<std::string> classes;
  std::optional<std::string> recipe;
  std::string producer;
  std::vector<Extent> values;  // number 0 is the input
  std::vector<std::string> names;
  std::vector<Node> nodes;
  int output = 0;
};

// The network in a file's bytes, to which weights in its nodes point.
Graph read_graph(const uint8_t* bytes, size_t size, const Limits& limits);

}  // namespace adaste

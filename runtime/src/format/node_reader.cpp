#include "format/node_reader.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace adaste {
namespace {

constexpr int64_t largest_window = 1 << 22;  // weights behind one output: sums of 8-bit products fit into 32 bits
constexpr size_t most_reuse = 8;             // how often the file's weights may be used, on average

// The most a product of whole numbers may be, before it is compared to a limit.
int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    constexpr int64_t huge = int64_t{1} << 62;
    if (factor != 0 && result > huge / factor) return huge;
    result *= factor;
  }
  return result;
}

// How many places a window has along one side.
int places(const Fields& fields, int side, int kernel, int stride, int padding) {
  const int64_t room = int64_t{side} + 2 * int64_t{padding} - kernel;
  require(room >= 0, fields.what(), ": a kernel of ", kernel, " does not fit into ", side, " padded by ", padding);
  return static_cast<int>(room / stride + 1);
}

bool finite(const uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, bytes + i * sizeof(float), sizeof(float));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

void check_unused_bits(const Fields& fields, const Tensor& weight, int64_t window) {
  if (window % 8 == 0) return;
  const auto row_bytes = static_cast<size_t>((window + 7) / 8);
  for (size_t end = row_bytes; end <= weight.bytes; end += row_bytes)
    require(weight.data[end - 1] >> (window % 8) == 0, fields.what(), ": unused bits of the weight must be 0");
}

}  // namespace

NodeReader::NodeReader(const Container& container, const Limits& limits, Graph& graph)
    : container_(container), limits_(limits), graph_(graph), numbers_{{"input", 0}} {
  require(graph.values[0].elements() <= limits.value_elements, "the input must have at most ", limits.value_elements,
          " numbers, ", graph.values[0], " has more");
}

void NodeReader::read(const Json& json) {
  struct Kind {
    Op op;
    Extent (NodeReader::*read)(const Fields&, Node&);
  };
  static const std::map<std::string, Kind> kinds = {{"convolution", {Op::convolution, &NodeReader::convolution}},
                                                    {"linear", {Op::convolution, &NodeReader::linear}},
                                                    {"affine", {Op::affine, &NodeReader::affine}},
                                                    {"max_pool", {Op::max_pool, &NodeReader::pool}},
                                                    {"average_pool", {Op::average_pool, &NodeReader::pool}},
                                                    {"flatten", {Op::flatten, &NodeReader::flatten}},
                                                    {"add", {Op::add, &NodeReader::add}},
                                                    {"relu", {Op::relu, &NodeReader::relu}},
                                                    {"concatenate", {Op::concatenate, &NodeReader::concatenate}}};
  const std::string place = text("node ", graph_.nodes.size());
  const std::string& op = Fields(json, place).string("op");
  const auto kind = kinds.find(op);
  require(kind != kinds.end(), place, " has an unknown op '", op, "'");
  const Fields fields(json, text(place, " (", op, ")"));
  Node node;
  node.op = kind->second.op;
  node.name = op;
  read_inputs(fields, node);
  const Extent extent = (this->*kind->second.read)(fields, node);
  node.output = static_cast<int>(graph_.values.size());
  define(fields, extent);
  graph_.nodes.push_back(std::move(node));
}

void NodeReader::check_all_used() const {
  for (const auto& [name, tensor] : container_.tensors)
    require(used_.count(name) != 0, "no node uses the tensor '", name, "'");
}

void NodeReader::read_inputs(const Fields& fields, Node& node) const {
  for (const std::string& name : fields.strings("inputs")) {
    const auto number = numbers_.find(name);
    require(number != numbers_.end(), fields.what(), ": its input '", name, "' is not computed before it");
    node.inputs.push_back(number->second);
  }
  const bool residual = node.op == Op::convolution || node.op == Op::affine;
  const size_t least = node.op == Op::add || node.op == Op::concatenate ? 2 : 1;
  const size_t most = node.op == Op::concatenate ? largest : residual || node.op == Op::add ? 2 : 1;
  require(node.inputs.size() >= least && node.inputs.size() <= most, fields.what(), " must have ", least, " to ", most,
          " inputs, got ", node.inputs.size());
}

void NodeReader::define(const Fields& fields, const Extent& extent) {
  const std::string& name = fields.string("output");
  require(!name.empty(), fields.what(), ": its output has an empty name");
  require(product({extent.channels, extent.height, extent.width}) <= limits_.value_elements, fields.what(),
          ": a value may hold ", limits_.value_elements, " numbers, ", extent, " are more");
  require(numbers_.emplace(name, static_cast<int>(graph_.values.size())).second, fields.what(), ": there is a value '",
          name, "' already");
  graph_.values.push_back(extent);
  graph_.names.push_back(name);
}

const Extent& NodeReader::input(const Node& node, size_t which) const {
  return graph_.values[static_cast<size_t>(node.inputs[which])];
}

const Extent& NodeReader::map_input(const Node& node, const Fields& fields) const {
  const Extent& extent = input(node, 0);
  require(!extent.flat, fields.what(), ": the input must be a map (channels, height, width), got ", extent);
  return extent;
}

void NodeReader::spend(const Fields& fields, int64_t products) {
  require(products <= limits_.work - work_, fields.what(), ": the network needs more than ", limits_.work,
          " multiply-adds per image");
  work_ += products;
}

// Reads a window and computes the sizes it gives.
void NodeReader::slide(const Fields& fields, Node& node) const {
  const Extent& extent = map_input(node, fields);
  const auto kernel = fields.pair("kernel", 1, largest);
  const auto stride = fields.pair("stride", 1, largest);
  const auto padding = fields.pair("padding", 0, largest);
  ConvShape& shape = node.shape;
  shape = {1,         extent.height, extent.width, extent.channels, 0,          0,          extent.channels,
           kernel[0], kernel[1],     stride[0],    stride[1],       padding[0], padding[1], 1};
  shape.out_height = places(fields, extent.height, kernel[0], stride[0], padding[0]);
  shape.out_width = places(fields, extent.width, kernel[1], stride[1], padding[1]);
  const int64_t padded = product({extent.channels, int64_t{extent.height} + 2 * int64_t{padding[0]},
                                  int64_t{extent.width} + 2 * int64_t{padding[1]}});
  require(padded <= limits_.value_elements, fields.what(), ": a value may hold ", limits_.value_elements,
          " numbers, the padded input has more");
}

Extent NodeReader::convolution(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "out_channels", "in_channels", "kernel", "stride", "padding", "groups",
                     "weight", "kind", "scale", "shift", "relu"});
  slide(fields, node);
  ConvShape& shape = node.shape;
  shape.out_channels = fields.whole("out_channels", 1, largest);
  shape.groups = fields.whole("groups", 1, largest);
  const int channels = fields.whole("in_channels", 1, largest);
  require(channels == shape.channels, fields.what(), ": the input must have ", channels, " channels, got ",
          shape.channels);
  require(channels % shape.groups == 0 && shape.out_channels % shape.groups == 0, fields.what(),
          ": in_channels = ", channels, " and out_channels = ", shape.out_channels,
          " must be multiples of groups = ", shape.groups);
  const auto count = [](int value) { return static_cast<uint64_t>(value); };
  read_weight(
      fields, node,
      {count(shape.out_channels), count(channels / shape.groups), count(shape.kernel_h), count(shape.kernel_w)});
  const Extent result{shape.out_channels, shape.out_height, shape.out_width, false};
  read_epilogue(fields, node, result);
  return result;
}

Extent NodeReader::linear(const Fields& fields, Node& node) {
  fields.allow_only(
      {"op", "inputs", "output", "out_features", "in_features", "weight", "kind", "scale", "shift", "relu"});
  const Extent& extent = input(node, 0);
  const int in_features = fields.whole("in_features", 1, largest);
  const int out_features = fields.whole("out_features", 1, largest);
  require(extent.flat && extent.channels == in_features, fields.what(), ": the input must be flat, (", in_features,
          "), got ", extent);
  node.shape = {1, 1, 1, in_features, 1, 1, out_features, 1, 1, 1, 1, 0, 0, 1};
  read_weight(fields, node, {static_cast<uint64_t>(out_features), static_cast<uint64_t>(in_features)});
  const Extent result{out_features, 1, 1, true};
  read_epilogue(fields, node, result);
  return result;
}

const Tensor& NodeReader::tensor(const Fields& fields, std::string_view key) {
  const auto found = container_.tensors.find(fields.string(key));
  require(found != container_.tensors.end(), fields.what(), ": there is no tensor '", fields.string(key), "' for its ",
          key);
  used_.insert(found->first);
  return found->second;
}

// `shape` is torch's; a one-bit weight has rows of bytes instead.
void NodeReader::read_weight(const Fields& fields, Node& node, const std::vector<uint64_t>& shape) {
  const std::string& kind = fields.string("kind");
  require(kind == "binary" || kind == "float", fields.what(), ": kind must be 'binary' or 'float', got '", kind, "'");
  node.binary = kind == "binary";
  const ConvShape& sizes = node.shape;
  const int64_t window = product({sizes.channels / sizes.groups, sizes.kernel_h, sizes.kernel_w});
  require(window <= largest_window, fields.what(), ": an output may depend on ", largest_window, " inputs, got more");
  const Tensor& weight = tensor(fields, "weight");
  const auto row_bytes = static_cast<uint64_t>((window + 7) / 8);
  const std::vector<uint64_t> wanted = node.binary ? std::vector<uint64_t>{shape[0], row_bytes} : shape;
  require(weight.type == (node.binary ? Type::uint8 : Type::float32) && weight.shape == wanted, fields.what(),
          ": the weight '", fields.string("weight"), "' has another type or shape than the node says");
  if (node.binary)
    check_unused_bits(fields, weight, window);
  else
    require(finite(weight.data, weight.bytes / sizeof(float)), fields.what(),
            ": the weight holds numbers that are not finite");
  node.weight = weight.data;
  weight_bytes_ += weight.bytes;
  require(weight_bytes_ <= most_reuse * container_.data_bytes, fields.what(), ": too many nodes use the same weights");
  spend(fields, product({window, sizes.out_channels, sizes.out_height, sizes.out_width}));
}

std::vector<float> NodeReader::read_floats(const Fields& fields, std::string_view key, int count) {
  if (!fields.has(key)) return {};
  const Tensor& values = tensor(fields, key);
  require(values.type == Type::float32 && values.shape == std::vector<uint64_t>{static_cast<uint64_t>(count)},
          fields.what(), ": the ", key, " must be float32 with ", count, " numbers");
  require(finite(values.data, values.bytes / sizeof(float)), fields.what(), ": the ", key,
          " holds numbers that are not finite");
  std::vector<float> result(static_cast<size_t>(count));
  std::memcpy(result.data(), values.data, values.bytes);
  return result;
}

void NodeReader::read_epilogue(const Fields& fields, Node& node, const Extent& result) {
  node.scale = read_floats(fields, "scale", result.channels);
  node.shift = read_floats(fields, "shift", result.channels);
  node.relu = fields.truth("relu");
  if (node.inputs.size() < 2) return;
  require(input(node, 1) == result, fields.what(), ": the residual must have the shape ", result, ", got ",
          input(node, 1));
}

Extent NodeReader::affine(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "channels", "scale", "shift", "relu"});
  const Extent& extent = input(node, 0);
  const int channels = fields.whole("channels", 1, largest);
  require(channels == extent.channels, fields.what(), ": the input must have ", channels, " channels, got ",
          extent.channels);
  read_epilogue(fields, node, extent);
  spend(fields, extent.elements());
  return extent;
}

Extent NodeReader::pool(const Fields& fields, Node& node) {
  if (node.op == Op::average_pool) {
    fields.allow_only({"op", "inputs", "output", "kernel", "stride", "padding", "count_padding"});
    node.count_padding = fields.truth("count_padding");
  } else {
    fields.allow_only({"op", "inputs", "output", "kernel", "stride", "padding"});
  }
  slide(fields, node);
  const ConvShape& shape = node.shape;
  // So every window holds at least one number.
  require(2 * int64_t{shape.pad_h} <= shape.kernel_h && 2 * int64_t{shape.pad_w} <= shape.kernel_w, fields.what(),
          ": the padding must be at most half the kernel");
  const Extent result{shape.channels, shape.out_height, shape.out_width, false};
  spend(fields, product({result.channels, result.height, result.width, shape.kernel_h, shape.kernel_w}));
  return result;
}

Extent NodeReader::flatten(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output"});
  const Extent& extent = map_input(node, fields);
  spend(fields, extent.elements());
  return {static_cast<int>(extent.elements()), 1, 1, true};
}

Extent NodeReader::add(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "relu"});
  node.relu = fields.truth("relu");
  require(input(node, 0) == input(node, 1), fields.what(), ": the inputs must have one shape, got ", input(node, 0),
          " and ", input(node, 1));
  spend(fields, input(node, 0).elements());
  return input(node, 0);
}

Extent NodeReader::relu(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output"});
  node.relu = true;
  spend(fields, input(node, 0).elements());
  return input(node, 0);
}

Extent NodeReader::concatenate(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output"});
  Extent result = input(node, 0);
  int64_t channels = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Extent part = input(node, i);
    channels += part.channels;
    part.channels = result.channels;
    require(part == result, fields.what(), ": what is concatenated must differ in channels only, got ", input(node, 0),
            " and ", input(node, i));
  }
  require(channels <= largest, fields.what(), ": more than ", largest, " channels");
  result.channels = static_cast<int>(channels);
  spend(fields, product({channels, result.height, result.width}));
  return result;
}

}  // namespace adaste

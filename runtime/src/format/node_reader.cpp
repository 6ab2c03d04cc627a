#include "format/node_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace adaste {
namespace {

constexpr int64_t largest_window = 1 << 22;  // weights behind one output: sums of 8-bit products fit into 32 bits
constexpr size_t most_reuse = 8;             // how often the file's weights may be used, on average

// How many places a window has along one side; rounded up the last may reach beyond the padding, if it begins inside.
int places(const Fields& fields, int side, int64_t kernel, int stride, int padding, bool ceil) {
  const int64_t room = int64_t{side} + 2 * int64_t{padding} - kernel;
  require(room >= 0, fields.what(), ": a kernel of ", kernel, " does not fit into ", side, " padded by ", padding);
  if (!ceil) return static_cast<int>(room / stride + 1);
  return static_cast<int>(std::min((room + stride - 1) / stride, (int64_t{side} + padding - 1) / stride) + 1);
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

NodeReader::NodeReader(const Container& container, const Limits& limits, int version, Graph& graph)
    : container_(container), limits_(limits), version_(version), graph_(graph) {
  for (size_t place = 0; place < graph.inputs.size(); ++place) {
    const std::string& name = graph.names[place];
    const Shape& shape = graph.values[place].shape;
    require(!name.empty(), "input ", place, " has an empty name");
    require(numbers_.emplace(name, static_cast<int>(place)).second, "there are two inputs '", name, "'");
    require(shape.elements() <= limits.value_elements, "the input must have at most ", limits.value_elements,
            " numbers, ", shape, " has more");
  }
}

const NodeReader::Kind* NodeReader::kind_of(const std::string& op) const {
  constexpr size_t many = largest;
  static constexpr Kind all[] = {
      {"convolution", Op::convolution, 1, 2, &NodeReader::convolution, 1},
      {"linear", Op::convolution, 1, 2, &NodeReader::linear, 1},
      {"affine", Op::affine, 1, 2, &NodeReader::affine, 1},
      {"max_pool", Op::max_pool, 1, 1, &NodeReader::pool, 1},
      {"average_pool", Op::average_pool, 1, 1, &NodeReader::pool, 1},
      {"flatten", Op::flatten, 1, 1, &NodeReader::flatten, 1},
      {"add", Op::add, 2, 2, &NodeReader::add, 1},
      {"relu", Op::relu, 1, 1, &NodeReader::relu, 1},
      {"concatenate", Op::concatenate, 2, many, &NodeReader::concatenate, 1},
      {"constant", Op::constant, 0, 0, &NodeReader::constant},
      {"function", Op::function, 1, 1, &NodeReader::function},
      {"combine", Op::combine, 2, 2, &NodeReader::combine},
      {"reduce", Op::reduce, 1, 1, &NodeReader::reduce},
      {"layer_norm", Op::layer_norm, 1, 1, &NodeReader::layer_norm},
      {"group_norm", Op::group_norm, 1, 1, &NodeReader::group_norm},
      {"softmax", Op::softmax, 1, 1, &NodeReader::softmax},
      {"reshape", Op::reshape, 1, 1, &NodeReader::reshape},
      {"transpose", Op::transpose, 1, 1, &NodeReader::transpose},
      {"slice", Op::slice, 1, 1, &NodeReader::slice},
      {"expand", Op::expand, 1, 1, &NodeReader::expand},
      {"pad", Op::pad, 1, 1, &NodeReader::pad},
      {"spread", Op::spread, 1, 1, &NodeReader::spread},
      {"resize", Op::resize, 1, 1, &NodeReader::resize},
      {"matmul", Op::matmul, 2, 2, &NodeReader::matmul},
      {"attention", Op::attention, 3, 4, &NodeReader::attention},
      {"embedding", Op::embedding, 1, 1, &NodeReader::embedding},
      {"number", Op::number, 1, 1, &NodeReader::number}};
  const Kind* const found = std::find_if(std::begin(all), std::end(all), [&](const Kind& kind) { return op == kind.name; });
  return found != std::end(all) && found->version <= version_ ? found : nullptr;
}

void NodeReader::read(const Json& json) {
  const std::string place = text("node ", graph_.nodes.size());
  const std::string& op = Fields(json, place).string("op");
  const Kind* const kind = kind_of(op);
  require(kind != nullptr, place, " has an unknown op '", op, "'");
  const Fields fields(json, text(place, " (", op, ")"));
  Node node;
  node.op = kind->op;
  node.name = op;
  read_inputs(fields, *kind, node);
  Shape shape = (this->*kind->read)(fields, node);
  node.output = static_cast<int>(graph_.values.size());
  define(fields, node, std::move(shape));
  graph_.nodes.push_back(std::move(node));
}

void NodeReader::check_all_used() const {
  for (const auto& [name, tensor] : container_.tensors)
    require(used_.count(name) != 0, "no node uses the tensor '", name, "'");
}

void NodeReader::read_inputs(const Fields& fields, const Kind& kind, Node& node) const {
  for (const std::string& name : fields.strings("inputs")) {
    const auto number = numbers_.find(name);
    require(number != numbers_.end(), fields.what(), ": its input '", name, "' is not computed before it");
    const bool integer = graph_.values[static_cast<size_t>(number->second)].integer;
    require(!integer || kind.op == Op::embedding || kind.op == Op::number, fields.what(),
            ": whole numbers are for embeddings and for number, which makes them real");
    require(integer || kind.op != Op::number, fields.what(), ": its input '", name, "' is real already");
    node.inputs.push_back(number->second);
  }
  require(node.inputs.size() >= kind.least && node.inputs.size() <= kind.most, fields.what(), " must have ", kind.least,
          " to ", kind.most, " inputs, got ", node.inputs.size());
}

void NodeReader::define(const Fields& fields, Node& node, Shape shape) {
  const std::string& name = fields.string("output");
  require(!name.empty(), fields.what(), ": its output has an empty name");
  require(shape.rank() <= most_axes, fields.what(), ": a value may have ", most_axes, " axes, ", shape, " has more");
  require(shape.elements() <= limits_.value_elements, fields.what(), ": a value may hold ", limits_.value_elements,
          " numbers, ", shape, " are more");
  require(numbers_.emplace(name, static_cast<int>(graph_.values.size())).second, fields.what(), ": there is a value '",
          name, "' already");
  Value value;
  value.shape = std::move(shape);
  value.constant = std::all_of(node.inputs.begin(), node.inputs.end(),
                               [&](int input) { return graph_.values[static_cast<size_t>(input)].constant; });
  graph_.values.push_back(std::move(value));
  graph_.names.push_back(name);
}

const Shape& NodeReader::input(const Node& node, size_t which) const {
  return graph_.values[static_cast<size_t>(node.inputs[which])].shape;
}

const Shape& NodeReader::map_input(const Node& node, const Fields& fields) const {
  const Shape& shape = input(node, 0);
  require(shape.rank() == 3, fields.what(), ": the input must be a map (channels, height, width), got ", shape);
  return shape;
}

void NodeReader::spend(const Fields& fields, int64_t products) {
  require(products <= limits_.work - work_, fields.what(), ": the network needs more than ", limits_.work,
          " multiply-adds per image");
  work_ += products;
}

void NodeReader::slide(const Fields& fields, Node& node, bool ceil) const {
  const Shape& map = map_input(node, fields);
  const auto kernel = fields.pair("kernel", 1, largest);
  const auto stride = fields.pair("stride", 1, largest);
  const auto padding = fields.pair("padding", 0, largest);
  ConvShape& shape = node.shape;
  shape = {1,         map[1],    map[2],    map[0],    0,          0,          map[0],
           kernel[0], kernel[1], stride[0], stride[1], padding[0], padding[1], 1};
  const auto reach = [&](size_t side) { return (int64_t{kernel[side]} - 1) * node.dilation[side] + 1; };
  shape.out_height = places(fields, map[1], reach(0), stride[0], padding[0], ceil);
  shape.out_width = places(fields, map[2], reach(1), stride[1], padding[1], ceil);
  const int64_t padded =
      product({map[0], int64_t{map[1]} + 2 * int64_t{padding[0]}, int64_t{map[2]} + 2 * int64_t{padding[1]}});
  require(padded <= limits_.value_elements, fields.what(), ": a value may hold ", limits_.value_elements,
          " numbers, the padded input has more");
}

Shape NodeReader::convolution(const Fields& fields, Node& node) {
  const auto allow = [&](std::initializer_list<std::string_view> more) {
    fields.allow_only({"op", "inputs", "output", "out_channels", "in_channels", "kernel", "stride", "padding",
                       "groups", "weight", "kind", "scale", "shift", "relu"},
                      more);
  };
  if (version_ > 1) {
    allow({"dilation"});
    if (fields.has("dilation")) {
      const auto dilation = fields.pair("dilation", 1, largest);
      std::copy(dilation.begin(), dilation.end(), node.dilation);
    }
  } else {
    allow({});
  }
  slide(fields, node, false);
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
      {count(shape.out_channels), count(channels / shape.groups), count(shape.kernel_h), count(shape.kernel_w)},
      product({shape.out_height, shape.out_width}));
  const Shape result{{shape.out_channels, shape.out_height, shape.out_width}};
  read_epilogue(fields, node, shape.out_channels, result);
  return result;
}

Shape NodeReader::linear(const Fields& fields, Node& node) {
  fields.allow_only(
      {"op", "inputs", "output", "out_features", "in_features", "weight", "kind", "scale", "shift", "relu"});
  const Shape& shape = input(node, 0);
  const int in_features = fields.whole("in_features", 1, largest);
  const int out_features = fields.whole("out_features", 1, largest);
  require((version_ > 1 ? shape.rank() >= 1 : shape.rank() == 1) && shape.sides.back() == in_features, fields.what(),
          ": the input must be flat, (", in_features, "), or with version 2 end so, got ", shape);
  const int64_t rows = shape.elements() / in_features;
  require(rows <= largest, fields.what(), ": more than ", largest, " rows");
  const auto width = static_cast<int>(rows);
  node.shape = {1, 1, width, in_features, 1, width, out_features, 1, 1, 1, 1, 0, 0, 1};
  read_weight(fields, node, {static_cast<uint64_t>(out_features), static_cast<uint64_t>(in_features)}, rows);
  Shape result = shape;
  result.sides.back() = out_features;
  read_epilogue(fields, node, out_features, result);
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
void NodeReader::read_weight(const Fields& fields, Node& node, const std::vector<uint64_t>& shape, int64_t places) {
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
  spend(fields, product({window, sizes.out_channels, places}));
}

std::vector<float> NodeReader::read_numbers(const Fields& fields, std::string_view key,
                                            const std::vector<uint64_t>& shape) {
  const Tensor& values = tensor(fields, key);
  require(values.type == Type::float32 && values.shape == shape, fields.what(), ": the ", key,
          " must be float32 of the shape that the node says");
  require(finite(values.data, values.bytes / sizeof(float)), fields.what(), ": the ", key,
          " holds numbers that are not finite");
  std::vector<float> result(values.bytes / sizeof(float));
  if (!result.empty()) std::memcpy(result.data(), values.data, values.bytes);
  weight_bytes_ += values.bytes;
  require(weight_bytes_ <= most_reuse * container_.data_bytes, fields.what(), ": too many nodes use the same tensors");
  return result;
}

std::vector<float> NodeReader::read_floats(const Fields& fields, std::string_view key, int64_t count) {
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

void NodeReader::read_epilogue(const Fields& fields, Node& node, int channels, const Shape& result) {
  node.scale = read_floats(fields, "scale", channels);
  node.shift = read_floats(fields, "shift", channels);
  node.relu = fields.truth("relu");
  if (node.inputs.size() < 2) return;
  require(input(node, 1) == result, fields.what(), ": the residual must have the shape ", result, ", got ",
          input(node, 1));
}

Shape NodeReader::affine(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "channels", "scale", "shift", "relu"});
  const Shape& shape = input(node, 0);
  const int channels = fields.whole("channels", 1, largest);
  require(shape.rank() > 0 && channels == shape[0], fields.what(), ": the input must have ", channels,
          " channels, got ", shape);
  read_epilogue(fields, node, channels, shape);
  spend(fields, shape.elements());
  return shape;
}

Shape NodeReader::pool(const Fields& fields, Node& node) {
  const auto allow = [&](std::initializer_list<std::string_view> more) {
    if (version_ > 1)
      fields.allow_only({"op", "inputs", "output", "kernel", "stride", "padding", "ceil"}, more);
    else
      fields.allow_only({"op", "inputs", "output", "kernel", "stride", "padding"}, more);
  };
  if (node.op == Op::average_pool) {
    allow({"count_padding"});
    node.count_padding = fields.truth("count_padding");
  } else {
    allow({});
  }
  slide(fields, node, fields.has("ceil") && fields.truth("ceil"));
  const ConvShape& shape = node.shape;
  // So every window holds at least one number.
  require(2 * int64_t{shape.pad_h} <= shape.kernel_h && 2 * int64_t{shape.pad_w} <= shape.kernel_w, fields.what(),
          ": the padding must be at most half the kernel");
  spend(fields, product({shape.channels, shape.out_height, shape.out_width, shape.kernel_h, shape.kernel_w}));
  return {{shape.channels, shape.out_height, shape.out_width}};
}

Shape NodeReader::flatten(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output"});
  const Shape& shape = map_input(node, fields);
  spend(fields, shape.elements());
  return {{static_cast<int>(shape.elements())}};
}

Shape NodeReader::add(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "relu"});
  node.relu = fields.truth("relu");
  require(input(node, 0) == input(node, 1), fields.what(), ": the inputs must have one shape, got ", input(node, 0),
          " and ", input(node, 1));
  spend(fields, input(node, 0).elements());
  return input(node, 0);
}

Shape NodeReader::relu(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output"});
  node.relu = true;
  spend(fields, input(node, 0).elements());
  return input(node, 0);
}

Shape NodeReader::concatenate(const Fields& fields, Node& node) {
  if (version_ > 1)
    fields.allow_only({"op", "inputs", "output", "axis"});
  else
    fields.allow_only({"op", "inputs", "output"});
  Shape result = input(node, 0);
  require(result.rank() > 0, fields.what(), ": a single number has no axis");
  if (fields.has("axis")) node.axis = read_axis(fields, result);
  const auto axis = static_cast<size_t>(node.axis);
  int64_t along = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Shape part = input(node, i);
    if (part.rank() == result.rank()) {
      along += part[axis];
      part.sides[axis] = result[axis];
    }
    require(part == result, fields.what(), ": what is concatenated must differ in ",
            axis == 0 ? "channels" : "that axis", " only, got ", input(node, 0), " and ", input(node, i));
  }
  require(along <= largest, fields.what(), ": more than ", largest, " channels");
  result.sides[axis] = static_cast<int>(along);
  spend(fields, result.elements());
  return result;
}

}  // namespace adaste

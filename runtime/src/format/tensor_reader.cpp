// The operations of version 2: each checks its keys and its inputs, and returns the shape of its output.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "format/node_reader.h"

namespace adaste {
namespace {

// In the order of their enumerations.
constexpr const char* functions[] = {"abs", "elu",        "erf",   "exp",     "gelu", "gelu_tanh",
                                     "hardsigmoid", "hardswish",  "leaky_relu", "log", "mish", "reciprocal",
                                     "rsqrt", "sigmoid", "silu", "softplus", "sqrt", "tanh"};
constexpr const char* combinations[] = {"add", "divide", "equal", "less", "maximum", "minimum", "multiply", "subtract"};
constexpr const char* reductions[] = {"max", "mean", "min", "sum"};
constexpr const char* paddings[] = {"constant", "edge", "reflect", "wrap"};

template <size_t count>
int named(const Fields& fields, std::string_view key, const char* const (&names)[count]) {
  const std::string& name = fields.string(key);
  const auto* found = std::find(std::begin(names), std::end(names), name);
  require(found != std::end(names), fields.what(), " has an unknown ", key, " '", name, "'");
  return static_cast<int>(found - std::begin(names));
}

// Sides of 1 are repeated, and shapes are aligned at their ends.
Shape broadcast(const Fields& fields, const Shape& first, const Shape& second) {
  Shape result;
  const size_t rank = std::max(first.rank(), second.rank());
  for (size_t back = rank; back > 0; --back) {
    const int a = back <= first.rank() ? first[first.rank() - back] : 1;
    const int b = back <= second.rank() ? second[second.rank() - back] : 1;
    require(a == b || a == 1 || b == 1, fields.what(), ": the shapes ", first, " and ", second,
            " do not fit each other");
    result.sides.push_back(std::max(a, b));
  }
  return result;
}

Shape leading(const Shape& shape) {
  return {std::vector<int>(shape.sides.begin(), shape.sides.end() - 2)};
}

float epsilon(const Fields& fields) {
  const float value = fields.real("epsilon");
  require(value >= 0 && value <= static_cast<float>(largest), fields.what(), ": epsilon must be from 0 to ", largest);
  return value;
}

}  // namespace

int NodeReader::read_axis(const Fields& fields, const Shape& shape) const {
  require(shape.rank() > 0, fields.what(), ": a single number has no axis");
  return fields.whole("axis", 0, static_cast<int>(shape.rank()) - 1);
}

Shape NodeReader::read_sides(const Fields& fields) const { return {fields.wholes("sides", 1, largest)}; }

void NodeReader::read_ends(const Fields& fields, Node& node, int64_t count) {
  const std::vector<uint64_t> shape{static_cast<uint64_t>(count)};
  if (fields.has("scale")) node.scale = read_numbers(fields, "scale", shape);
  if (fields.has("shift")) node.shift = read_numbers(fields, "shift", shape);
}

Shape NodeReader::constant(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "sides", "value"});
  Shape sides = read_sides(fields);
  node.numbers = std::make_shared<const std::vector<float>>(
      read_numbers(fields, "value", {static_cast<uint64_t>(sides.elements())}));
  return sides;
}

Shape NodeReader::function(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "function", "parameter"});
  node.function = named(fields, "function", functions);
  const auto function = static_cast<Function>(node.function);
  const bool parametric = function == Function::elu || function == Function::leaky_relu;
  require(fields.has("parameter") == parametric, fields.what(), ": elu and leaky_relu have a parameter, others none");
  if (parametric) node.number = fields.real("parameter");
  constexpr int64_t cost = 16;
  spend(fields, product({cost, input(node, 0).elements()}));
  return input(node, 0);
}

Shape NodeReader::combine(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "function"});
  node.function = named(fields, "function", combinations);
  Shape result = broadcast(fields, input(node, 0), input(node, 1));
  spend(fields, result.elements());
  return result;
}

Shape NodeReader::reduce(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "function", "axes", "keep"});
  const Shape& shape = input(node, 0);
  node.function = named(fields, "function", reductions);
  node.flag = fields.truth("keep");
  node.axes = fields.wholes("axes", 0, static_cast<int>(most_axes));
  std::vector<bool> gone(shape.rank());
  require(!node.axes.empty(), fields.what(), ": there must be an axis");
  for (const int axis : node.axes) {
    const auto place = static_cast<size_t>(axis);
    require(place < shape.rank() && !gone[place], fields.what(), ": the axes must be different ones of ", shape);
    gone[place] = true;
  }
  Shape result;
  for (size_t axis = 0; axis < shape.rank(); ++axis)
    if (node.flag || !gone[axis]) result.sides.push_back(gone[axis] ? 1 : shape[axis]);
  spend(fields, shape.elements());
  return result;
}

Shape NodeReader::layer_norm(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "axes", "center", "epsilon", "scale", "shift"});
  const Shape& shape = input(node, 0);
  require(shape.rank() > 0, fields.what(), ": a single number has no axis");
  const int axes = fields.whole("axes", 1, static_cast<int>(shape.rank()));
  node.flag = fields.truth("center");
  node.number = epsilon(fields);
  int64_t count = 1;
  for (size_t axis = shape.rank() - static_cast<size_t>(axes); axis < shape.rank(); ++axis) count *= shape[axis];
  read_ends(fields, node, count);
  node.start = static_cast<int>(count);
  spend(fields, product({4, shape.elements()}));
  return shape;
}

Shape NodeReader::group_norm(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "groups", "epsilon", "scale", "shift"});
  const Shape& shape = input(node, 0);
  node.step = fields.whole("groups", 1, largest);
  require(shape.rank() > 0 && shape[0] % node.step == 0, fields.what(), ": the channels of ", shape,
          " must be a multiple of groups = ", node.step);
  node.number = epsilon(fields);
  read_ends(fields, node, shape[0]);
  spend(fields, product({4, shape.elements()}));
  return shape;
}

Shape NodeReader::softmax(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "axis"});
  node.axis = read_axis(fields, input(node, 0));
  spend(fields, product({16, input(node, 0).elements()}));
  return input(node, 0);
}

Shape NodeReader::reshape(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "sides"});
  Shape sides = read_sides(fields);
  require(sides.elements() == input(node, 0).elements(), fields.what(), ": ", input(node, 0),
          " has not as many numbers as ", sides);
  spend(fields, sides.elements());
  return sides;
}

Shape NodeReader::transpose(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "axes"});
  const Shape& shape = input(node, 0);
  node.axes = fields.wholes("axes", 0, static_cast<int>(most_axes));
  bool all = node.axes.size() == shape.rank();
  for (size_t axis = 0; all && axis < shape.rank(); ++axis)
    all = std::find(node.axes.begin(), node.axes.end(), static_cast<int>(axis)) != node.axes.end();
  require(all, fields.what(), ": the axes must be all of ", shape, " in some order");
  Shape result;
  for (const int axis : node.axes) result.sides.push_back(shape[static_cast<size_t>(axis)]);
  spend(fields, result.elements());
  return result;
}

Shape NodeReader::slice(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "axis", "start", "count", "step"});
  Shape result = input(node, 0);
  node.axis = read_axis(fields, result);
  node.start = fields.whole("start", 0, largest);
  node.step = fields.whole("step", 1, largest);
  int& side = result.sides[static_cast<size_t>(node.axis)];
  const int count = fields.whole("count", 1, largest);
  const int64_t last = node.start + (int64_t{count} - 1) * node.step;
  require(last < side, fields.what(), ": the last place would be ", last, ", the axis has ", side);
  side = count;
  spend(fields, result.elements());
  return result;
}

Shape NodeReader::expand(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "sides"});
  Shape sides = read_sides(fields);
  require(broadcast(fields, input(node, 0), sides) == sides, fields.what(), ": ", input(node, 0),
          " cannot be repeated to ", sides);
  spend(fields, sides.elements());
  return sides;
}

Shape NodeReader::pad(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "before", "after", "mode", "value"});
  Shape result = input(node, 0);
  node.function = named(fields, "mode", paddings);
  node.number = fields.real("value");
  node.before = fields.wholes("before", 0, largest);
  const std::vector<int> after = fields.wholes("after", 0, largest);
  require(node.before.size() == result.rank() && after.size() == result.rank(), fields.what(),
          ": before and after need a number for each axis of ", result);
  for (size_t axis = 0; axis < result.rank(); ++axis) {
    const int side = result[axis];
    const auto mode = static_cast<Padding>(node.function);
    const int most = mode == Padding::reflect ? side - 1 : mode == Padding::wrap ? side : largest;
    require(std::max(node.before[axis], after[axis]) <= most, fields.what(), ": a side of ", side,
            " can be padded by ", most);
    const int64_t sum = int64_t{side} + node.before[axis] + after[axis];
    require(sum <= largest, fields.what(), ": a side may have ", largest, ", got ", sum);
    result.sides[axis] = static_cast<int>(sum);
  }
  spend(fields, result.elements());
  return result;
}

Shape NodeReader::spread(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "step"});
  Shape result = map_input(node, fields);
  const auto step = fields.pair("step", 1, largest);
  node.axes.assign(step.begin(), step.end());
  for (size_t side = 0; side < 2; ++side) {
    const int64_t spread = (int64_t{result[side + 1]} - 1) * step[side] + 1;
    require(spread <= largest, fields.what(), ": a side may have ", largest, ", got ", spread);
    result.sides[side + 1] = static_cast<int>(spread);
  }
  spend(fields, result.elements());
  return result;
}

Shape NodeReader::resize(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "size", "step", "linear", "corners"});
  Shape result = map_input(node, fields);
  const auto size = fields.pair("size", 1, largest);
  const std::vector<double> steps = fields.numbers("step");
  require(steps.size() == 2, fields.what(), ": step must be a list of two numbers");
  for (size_t side = 0; side < 2; ++side) {
    require(steps[side] >= 0 && steps[side] <= largest, fields.what(), ": step must be from 0 to ", largest);
    node.steps[side] = static_cast<float>(steps[side]);
    result.sides[side + 1] = size[side];
  }
  node.flag = fields.truth("linear");
  node.corners = fields.truth("corners");
  spend(fields, product({4, result.elements()}));
  return result;
}

Shape NodeReader::matmul(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output"});
  const Shape& a = input(node, 0);
  const Shape& b = input(node, 1);
  require(a.rank() >= 2 && b.rank() >= 2 && a.sides.back() == b[b.rank() - 2], fields.what(), ": the shapes ", a,
          " and ", b, " cannot be multiplied");
  Shape result = broadcast(fields, leading(a), leading(b));
  result.sides.push_back(a[a.rank() - 2]);
  result.sides.push_back(b.sides.back());
  spend(fields, product({result.elements(), a.sides.back()}));
  return result;
}

Shape NodeReader::attention(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "scale", "causal"});
  node.number = fields.real("scale");
  node.flag = fields.truth("causal");
  const Shape& q = input(node, 0);
  const Shape& k = input(node, 1);
  const Shape& v = input(node, 2);
  const size_t rank = q.rank();
  const bool fits = rank >= 2 && k.rank() == rank && v.rank() == rank && leading(q) == leading(k) &&
                    leading(q) == leading(v) && q.sides.back() == k.sides.back() && k[rank - 2] == v[rank - 2];
  require(fits, fields.what(), ": queries ", q, ", keys ", k, " and values ", v, " do not fit each other");
  Shape scores = q;
  scores.sides.back() = k[rank - 2];
  if (node.inputs.size() > 3)
    require(broadcast(fields, input(node, 3), scores) == scores, fields.what(), ": a mask ", input(node, 3),
            " does not fit scores ", scores);
  Shape result = q;
  result.sides.back() = v.sides.back();
  spend(fields, product({scores.elements(), int64_t{q.sides.back()} + v.sides.back() + 16}));
  return result;
}

Shape NodeReader::embedding(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output", "count", "width", "weight"});
  node.start = fields.whole("count", 1, largest);
  node.step = fields.whole("width", 1, largest);
  node.numbers = std::make_shared<const std::vector<float>>(
      read_numbers(fields, "weight", {static_cast<uint64_t>(node.start), static_cast<uint64_t>(node.step)}));
  node.flag = graph_.values[static_cast<size_t>(node.inputs[0])].integer;
  Shape result = input(node, 0);
  result.sides.push_back(node.step);
  spend(fields, result.elements());
  return result;
}

Shape NodeReader::number(const Fields& fields, Node& node) {
  fields.allow_only({"op", "inputs", "output"});
  spend(fields, input(node, 0).elements());
  return input(node, 0);
}

}  // namespace adaste

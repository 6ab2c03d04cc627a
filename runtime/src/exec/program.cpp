#include "exec/program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace adaste {
namespace {

class Programmer {
 public:
  Programmer(const Graph& graph, const Limits& limits) : graph_(graph), limits_(limits) {}

  Program program() {
    for (size_t place = 0; place < graph_.inputs.size(); ++place) {
      const Value& value = graph_.values[place];
      program_.values.push_back(fresh(value.shape, is_map(value) ? channels_last(value.shape) : rows(value.shape)));
    }
    for (const Node& node : graph_.nodes) program_.values.push_back(add(node));
    return std::move(program_);
  }

 private:
  View add(const Node& node) {
    const Shape& shape = graph_.values[static_cast<size_t>(node.output)].shape;
    switch (node.op) {
      case Op::flatten:
      case Op::reshape: return reshaped(node, shape);
      case Op::transpose:
      case Op::slice:
      case Op::expand: return seen(node, shape);
      case Op::constant: {
        View view{shape, rows(shape), 0, -1, node.numbers->data()};
        return view;
      }
      case Op::convolution: return convolved(node, shape);
      case Op::affine:
      case Op::max_pool:
      case Op::average_pool:
      case Op::group_norm:
      case Op::resize: return put_all(node, shape, channels_last);
      case Op::layer_norm:
      case Op::matmul:
      case Op::reduce:
      case Op::embedding:
      case Op::number: return put_all(node, shape, rows);
      case Op::attention: return attended(node, shape);
      case Op::function:
      case Op::relu: return mapped(node, shape);
      case Op::softmax:
      case Op::add:
      case Op::combine:
      case Op::concatenate:
      case Op::pad:
      case Op::spread: break;
    }
    std::vector<View> inputs;
    for (const int input : node.inputs) inputs.push_back(value(input));
    return put(node, std::move(inputs), fresh(shape, free_order(node, shape)));
  }

  const View& value(int number) const { return program_.values[static_cast<size_t>(number)]; }

  View fresh(const Shape& shape, Strides strides) {
    require(shape.elements() <= limits_.value_elements, "a value may hold ", limits_.value_elements, " numbers, ",
            shape, " are more");
    program_.buffers.push_back(shape.elements());
    return {shape, std::move(strides), 0, static_cast<int>(program_.buffers.size()) - 1, nullptr};
  }

  View put(const Node& node, std::vector<View> inputs, View output) {
    program_.actions.push_back({Work::node, &node, std::move(inputs), output, {}});
    return output;
  }

  // A node whose inputs of more than one place per axis and whose output lie in one order.
  template <class Order>
  View put_all(const Node& node, const Shape& shape, const Order& order) {
    std::vector<View> inputs;
    for (const int input : node.inputs) inputs.push_back(ordered(node, value(input), order(value(input).shape)));
    return put(node, std::move(inputs), fresh(shape, order(shape)));
  }

  // The value in this order, alone in its memory: as it is, or as a copy.
  View ordered(const Node& node, const View& view, const Strides& strides) {
    const bool whole = view.buffer >= 0 && view.offset == 0 &&
                       program_.buffers[static_cast<size_t>(view.buffer)] == view.shape.elements();
    if (whole && same(view.shape, view.strides, strides)) {
      View result = view;
      result.strides = strides;
      return result;
    }
    const View copy = fresh(view.shape, strides);
    program_.actions.push_back({Work::copy, &node, {view}, copy, {}});
    return copy;
  }

  View reshaped(const Node& node, const Shape& shape) {
    const View view = value(node.inputs[0]);
    if (const auto strides = seen_as(view.shape, view.strides, shape)) {
      View result = view;
      result.shape = shape;
      result.strides = *strides;
      return result;
    }
    // The copy is of the input's shape, in an order in which the output is one of the usual ones.
    std::optional<Strides> order;
    Strides own = channels_last(shape);
    if (prefers_channels_last(view)) order = seen_as(shape, own, view.shape);
    if (!order) {
      own = rows(shape);
      order = rows(view.shape);
    }
    View result = fresh(shape, own);
    View copy = result;
    copy.shape = view.shape;
    copy.strides = *order;
    program_.actions.push_back({Work::copy, &node, {view}, copy, {}});
    return result;
  }

  View seen(const Node& node, const Shape& shape) const {
    View result = value(node.inputs[0]);
    const View view = result;
    result.shape = shape;
    if (node.op == Op::transpose) {
      for (size_t axis = 0; axis < shape.rank(); ++axis)
        result.strides[axis] = view.strides[static_cast<size_t>(node.axes[axis])];
    } else if (node.op == Op::slice) {
      const auto axis = static_cast<size_t>(node.axis);
      result.offset += node.start * view.strides[axis];
      result.strides[axis] *= node.step;
    } else {
      result.strides = repeated(view, shape);
    }
    return result;
  }

  static Strides repeated(const View& view, const Shape& shape) {
    Strides strides(shape.rank(), 0);
    const size_t more = shape.rank() - view.shape.rank();
    for (size_t axis = 0; axis < view.shape.rank(); ++axis)
      if (view.shape[axis] > 1) strides[axis + more] = view.strides[axis];
    return strides;
  }

  View mapped(const Node& node, const Shape& shape) {
    View input = value(node.inputs[0]);
    input = ordered(node, input, dense(input) ? input.strides : prefers_channels_last(input) ? channels_last(shape) : rows(shape));
    return put(node, {input}, fresh(shape, input.strides));
  }

  // The order of a result that may have any: that of an input of its shape, if there is one.
  Strides free_order(const Node& node, const Shape& shape) const {
    for (const int input : node.inputs)
      if (value(input).shape == shape && value(input).buffer >= 0 && dense(value(input))) return value(input).strides;
    for (const int input : node.inputs)
      if (value(input).shape.rank() == shape.rank() && prefers_channels_last(value(input)))
        return channels_last(shape);
    return rows(shape);
  }

  View convolved(const Node& node, const Shape& shape) {
    const bool maps = node.name == "convolution";
    const auto order = [&](const Shape& of) { return maps ? channels_last(of) : rows(of); };
    View input = ordered(node, value(node.inputs[0]), order(value(node.inputs[0]).shape));
    Action action{Work::node, &node, {}, {}, node.shape};
    if (node.dilation[0] != 1 || node.dilation[1] != 1) input = unfolded(node, input, action.shape);
    action.inputs.push_back(input);
    if (node.inputs.size() > 1) action.inputs.push_back(ordered(node, value(node.inputs[1]), order(shape)));
    action.output = fresh(shape, order(shape));
    program_.actions.push_back(action);
    return action.output;
  }

  // A dilated convolution: its windows side by side, each group's in the order of the weights, then a 1x1 convolution.
  View unfolded(const Node& node, const View& input, ConvShape& shape) {
    const int64_t window = int64_t{shape.channels} * shape.kernel_h * shape.kernel_w;
    require(window <= largest, "the windows of a dilated convolution have ", window, " numbers; allowed are ", largest);
    const View windows = fresh({{shape.out_height, shape.out_width, static_cast<int>(window)}},
                               rows({{shape.out_height, shape.out_width, static_cast<int>(window)}}));
    program_.actions.push_back({Work::unfold, &node, {input}, windows, shape});
    shape = {1, shape.out_height, shape.out_width, static_cast<int>(window), shape.out_height, shape.out_width,
             shape.out_channels, 1, 1, 1, 1, 0, 0, shape.groups};
    return windows;
  }

  View attended(const Node& node, const Shape& shape) {
    std::vector<View> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const View& view = value(node.inputs[i]);
      Strides order = rows(view.shape);
      if (i == 1) {  // keys: the places are the fastest, scores of one query side by side
        const size_t rank = view.shape.rank();
        order[rank - 2] = 1;
        order[rank - 1] = view.shape[rank - 2];
      }
      if (i < 3) {
        inputs.push_back(ordered(node, view, order));
        continue;
      }
      View mask = view;
      mask.shape = graph_.values[static_cast<size_t>(node.inputs[0])].shape;
      mask.shape.sides.back() = value(node.inputs[1]).shape[value(node.inputs[1]).shape.rank() - 2];
      mask.strides = repeated(view, mask.shape);
      inputs.push_back(mask);
    }
    return put(node, std::move(inputs), fresh(shape, rows(shape)));
  }

  const Graph& graph_;
  const Limits& limits_;
  Program program_;
};

}  // namespace

Program make_program(const Graph& graph, const Limits& limits) { return Programmer(graph, limits).program(); }

}  // namespace adaste

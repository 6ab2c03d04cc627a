#include "exec/operation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/rows.h"

namespace adaste {
namespace {

constexpr int64_t task_numbers = 1 << 14;  // of a task, about

// Calls function(image, begin, end) for pieces of `places` places of each image, of `numbers` numbers each.
template <class Function>
void for_places(const Frame& frame, int64_t places, int64_t numbers, const Function& function) {
  const int64_t each = std::max<int64_t>(1, task_numbers / std::max<int64_t>(1, numbers));
  const int64_t tasks = (places + each - 1) / each;
  frame.turn.run(static_cast<int>(tasks * frame.count), [&](int task, int /*thread*/) {
    const int64_t begin = task % tasks * each;
    function(static_cast<int>(task / tasks), begin, std::min(places, begin + each));
  });
}

void copy_row(int64_t count, const float* x, int64_t x_step, float* y, int64_t y_step) {
  if (x_step == 1 && y_step == 1) {
    std::memcpy(y, x, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) y[i * y_step] = x[i * x_step];
}

// Copies numbers from one order to another, or to a part of a larger value.
class Copy : public Operation {
 public:
  Copy(View from, View to)
      : from_(std::move(from)), to_(std::move(to)), nest_(to_.shape, to_.strides, from_.strides) {}

  void run(const Frame& frame) const override {
    for_places(frame, nest_.outer(), nest_.inner(), [&](int image, int64_t begin, int64_t end) {
      const float* x = frame.read(from_, image);
      float* y = frame.place(to_, image);
      for (int64_t place = begin; place < end; ++place) {
        const auto at = nest_.offsets(place);
        copy_row(nest_.inner(), x + at[1], nest_.steps()[1], y + at[0], nest_.steps()[0]);
      }
    });
  }

 private:
  View from_, to_;
  Nest nest_;
};

class Join : public Operation {
 public:
  explicit Join(const Action& action) {
    View part = action.output;
    const auto axis = static_cast<size_t>(action.node->axis);
    for (const View& input : action.inputs) {
      part.shape = input.shape;
      copies_.push_back(std::make_unique<Copy>(input, part));
      part.offset += input.shape[axis] * part.strides[axis];
    }
  }

  void run(const Frame& frame) const override {
    for (const auto& copy : copies_) copy->run(frame);
  }

 private:
  std::vector<std::unique_ptr<Copy>> copies_;
};

void fill(const Frame& frame, const View& view, float value) {
  frame.turn.run(frame.count, [&](int image, int /*thread*/) {
    std::fill_n(frame.place(view, image), view.shape.elements(), value);
  });
}

// A value that is the middle of a larger one: with zeros between, or numbers around.
class Inside : public Operation {
 public:
  Inside(const Action& action, const View& part, float value)
      : whole_(action.output), copy_(action.inputs[0], part), value_(value) {}

  void run(const Frame& frame) const override {
    fill(frame, whole_, value_);
    copy_.run(frame);
  }

 private:
  View whole_;
  Copy copy_;
  float value_;
};

View middle(const Action& action) {
  View part = action.output;
  part.shape = action.inputs[0].shape;
  for (size_t axis = 0; axis < part.shape.rank(); ++axis)
    part.offset += action.node->before[axis] * part.strides[axis];
  return part;
}

View apart(const Action& action) {
  View part = action.output;
  part.shape = action.inputs[0].shape;
  for (size_t side = 0; side < 2; ++side) part.strides[side + 1] *= action.node->axes[side];
  return part;
}

// Padding with numbers of the inside: for every place of each axis, where its number is.
class Mirror : public Operation {
 public:
  explicit Mirror(const Action& action) : input_(action.inputs[0]), output_(action.output) {
    const auto mode = static_cast<Padding>(action.node->function);
    for (size_t axis = 0; axis < output_.shape.rank(); ++axis) {
      const int64_t side = input_.shape[axis];
      std::vector<int64_t> places;
      for (int64_t i = -int64_t{action.node->before[axis]}; places.size() < static_cast<size_t>(output_.shape[axis]); ++i) {
        int64_t from = std::clamp<int64_t>(i, 0, side - 1);
        if (mode == Padding::reflect) from = i < 0 ? -i : i >= side ? 2 * (side - 1) - i : i;
        if (mode == Padding::wrap) from = (i + side) % side;
        places.push_back(from * input_.strides[axis]);
      }
      places_.push_back(std::move(places));
    }
  }

  void run(const Frame& frame) const override {
    const Shape& shape = output_.shape;
    const size_t last = shape.rank() - 1;
    const int64_t rows = shape.elements() / shape[last];
    for_places(frame, rows, shape[last], [&](int image, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* x = frame.read(input_, image);
        float* y = frame.place(output_, image);
        int64_t rest = row;
        for (size_t axis = last; axis-- > 0; rest /= shape[axis]) {
          x += places_[axis][static_cast<size_t>(rest % shape[axis])];
          y += rest % shape[axis] * output_.strides[axis];
        }
        for (int i = 0; i < shape[last]; ++i) y[i * output_.strides[last]] = x[places_[last][static_cast<size_t>(i)]];
      }
    });
  }

 private:
  View input_, output_;
  std::vector<std::vector<int64_t>> places_;
};

std::unique_ptr<Operation> make_pad(const Action& action) {
  const bool constant = static_cast<Padding>(action.node->function) == Padding::constant;
  if (constant || action.output.shape.rank() == 0)
    return std::make_unique<Inside>(action, middle(action), action.node->number);
  return std::make_unique<Mirror>(action);
}

// The windows of a dilated convolution, zeros where they leave the image.
class Unfold : public Operation {
 public:
  explicit Unfold(const Action& action)
      : input_(action.inputs[0]), output_(action.output), shape_(action.shape),
        dilation_{action.node->dilation[0], action.node->dilation[1]} {}

  void run(const Frame& frame) const override {
    for_places(frame, shape_.out_height, int64_t{shape_.out_width} * output_.shape[2],
               [&](int image, int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row)
                   unfold(row, frame.read(input_, image),
                          frame.place(output_, image) + row * shape_.out_width * output_.shape[2]);
               });
  }

 private:
  void unfold(int64_t row, const float* x, float* y) const {
    const int64_t taps = int64_t{shape_.kernel_h} * shape_.kernel_w;
    for (int64_t column = 0; column < shape_.out_width; ++column, y += shape_.channels * taps)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t i = row * shape_.stride_h - shape_.pad_h + tap / shape_.kernel_w * dilation_[0];
        const int64_t j = column * shape_.stride_w - shape_.pad_w + tap % shape_.kernel_w * dilation_[1];
        const bool inside = i >= 0 && i < shape_.height && j >= 0 && j < shape_.width;
        const float* pixel = x + (inside ? (i * shape_.width + j) * shape_.channels : 0);
        for (int64_t c = 0; c < shape_.channels; ++c) y[c * taps + tap] = inside ? pixel[c] : 0.0F;
      }
  }

  View input_, output_;
  ConvShape shape_;
  int64_t dilation_[2];
};

// A function of every number, wherever it lies.
class Apply : public Operation {
 public:
  explicit Apply(const Action& action)
      : input_(action.inputs[0]), output_(action.output), relu_(action.node->op == Op::relu),
        function_(static_cast<Function>(action.node->function)), parameter_(action.node->number) {}

  void run(const Frame& frame) const override {
    constexpr int64_t piece = 1 << 11;
    const int64_t all = output_.shape.elements();
    for_places(frame, (all + piece - 1) / piece, piece, [&](int image, int64_t begin, int64_t end) {
      const int64_t first = begin * piece;
      const int64_t count = std::min(all, end * piece) - first;
      const float* x = frame.read(input_, image) + first;
      float* y = frame.place(output_, image) + first;
      if (relu_) {
        for (int64_t i = 0; i < count; ++i) y[i] = x[i] < 0.0F ? 0.0F : x[i];
      } else {
        std::memcpy(y, x, static_cast<size_t>(count) * sizeof(float));
        row_kernels().apply(function_, parameter_, y, count);
      }
    });
  }

 private:
  View input_, output_;
  bool relu_;
  Function function_;
  float parameter_;
};

// The strides of a value that is repeated to a shape.
Strides repeated(const View& view, const Shape& shape) {
  Strides strides(shape.rank(), 0);
  const size_t more = shape.rank() - view.shape.rank();
  for (size_t axis = 0; axis < view.shape.rank(); ++axis)
    if (view.shape[axis] > 1) strides[axis + more] = view.strides[axis];
  return strides;
}

class Combine : public Operation {
 public:
  explicit Combine(const Action& action)
      : a_(action.inputs[0]), b_(action.inputs[1]), output_(action.output), relu_(action.node->relu),
        combination_(action.node->op == Op::add ? Combination::add : static_cast<Combination>(action.node->function)),
        nest_(output_.shape, output_.strides, repeated(a_, output_.shape), repeated(b_, output_.shape)) {}

  void run(const Frame& frame) const override {
    const auto& steps = nest_.steps();
    for_places(frame, nest_.outer(), nest_.inner(), [&](int image, int64_t begin, int64_t end) {
      const float* a = frame.read(a_, image);
      const float* b = frame.read(b_, image);
      for (int64_t place = begin; place < end; ++place) {
        const auto at = nest_.offsets(place);
        float* y = frame.place(output_, image) + at[0];
        row_kernels().combine(combination_, nest_.inner(), a + at[1], steps[1], b + at[2], steps[2], y, steps[0]);
        if (relu_)
          for (int64_t i = 0; i < nest_.inner(); ++i) y[i * steps[0]] = y[i * steps[0]] < 0.0F ? 0.0F : y[i * steps[0]];
      }
    });
  }

 private:
  View a_, b_, output_;
  bool relu_;
  Combination combination_;
  Nest nest_;
};

// Adds up whole rows of what stays, so that the numbers of a row are computed side by side.
class Reduce : public Operation {
 public:
  explicit Reduce(const Action& action)
      : input_(action.inputs[0]), output_(action.output), reduction_(static_cast<Reduction>(action.node->function)),
        kept_(part(action, false)), gone_(part(action, true)) {}

  void run(const Frame& frame) const override {
    const int64_t reduced = gone_.outer() * gone_.inner();
    for_places(frame, kept_.outer(), kept_.inner() * reduced, [&](int image, int64_t begin, int64_t end) {
      for (int64_t place = begin; place < end; ++place) {
        const auto at = kept_.offsets(place);
        reduce(frame.read(input_, image) + at[1], frame.place(output_, image) + at[0], static_cast<float>(reduced));
      }
    });
  }

 private:
  static Nest part(const Action& action, bool gone) {
    const View& input = action.inputs[0];
    const Strides out = rows(action.output.shape);
    Shape shape;
    Strides to;
    Strides from;
    size_t next = 0;
    for (size_t axis = 0; axis < input.shape.rank(); ++axis) {
      const auto& axes = action.node->axes;
      const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end();
      if (reduced == gone) {
        shape.sides.push_back(input.shape[axis]);
        from.push_back(input.strides[axis]);
        to.push_back(gone ? input.strides[axis] : out[next]);
      }
      if (!reduced || action.node->flag) ++next;
    }
    return {shape, to, from};
  }

  void reduce(const float* x, float* y, float count) const {
    const int64_t width = kept_.inner();
    const int64_t y_step = kept_.steps()[0];
    const int64_t x_step = kept_.steps()[1];
    copy_row(width, x, x_step, y, y_step);
    const Combination combination = reduction_ == Reduction::max   ? Combination::maximum
                                    : reduction_ == Reduction::min ? Combination::minimum
                                                                   : Combination::add;
    for (int64_t outer = 0; outer < gone_.outer(); ++outer) {
      const int64_t base = gone_.offsets(outer)[1];
      for (int64_t i = outer == 0 ? 1 : 0; i < gone_.inner(); ++i)
        row_kernels().combine(combination, width, y, y_step, x + base + i * gone_.steps()[1], x_step, y, y_step);
    }
    if (reduction_ == Reduction::mean)
      for (int64_t i = 0; i < width; ++i) y[i * y_step] /= count;
  }

  View input_, output_;
  Reduction reduction_;
  Nest kept_, gone_;
};

// Numbers along an axis, one line after the other; where they do not lie side by side they are brought there.
class Softmax : public Operation {
 public:
  explicit Softmax(const Action& action)
      : input_(action.inputs[0]), output_(action.output), axis_(static_cast<size_t>(action.node->axis)), lines_(lines(action)) {}

  size_t scratch_bytes(int count) const override {
    return step() == 1 ? 0 : static_cast<size_t>(lines_.outer() * lines_.inner() * count * side()) * sizeof(float);
  }

  void run(const Frame& frame) const override {
    const int64_t all = lines_.outer() * lines_.inner();
    for_places(frame, all, side(), [&](int image, int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        auto at = lines_.offsets(line / lines_.inner());
        for (size_t i = 0; i < 2; ++i) at[i] += line % lines_.inner() * lines_.steps()[i];
        const float* x = frame.read(input_, image) + at[1];
        float* y = frame.place(output_, image) + at[0];
        float* row = step() == 1 ? y : frame.scratch + (image * all + line) * side();
        copy_row(side(), x, input_.strides[axis_], row, 1);
        row_kernels().softmax(row, side());
        if (row != y) copy_row(side(), row, 1, y, step());
      }
    });
  }

 private:
  int64_t side() const { return output_.shape[axis_]; }
  int64_t step() const { return side() == 1 ? 1 : output_.strides[axis_]; }

  static Nest lines(const Action& action) {
    Shape shape = action.output.shape;
    shape.sides[static_cast<size_t>(action.node->axis)] = 1;
    return {shape, action.output.strides, action.inputs[0].strides};
  }

  View input_, output_;
  size_t axis_;
  Nest lines_;
};

const float* or_null(const std::vector<float>& numbers) { return numbers.empty() ? nullptr : numbers.data(); }

class LayerNorm : public Operation {
 public:
  explicit LayerNorm(const Action& action) : input_(action.inputs[0]), output_(action.output), node_(*action.node) {}

  void run(const Frame& frame) const override {
    const int64_t width = node_.start;
    for_places(frame, output_.shape.elements() / width, width, [&](int image, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        row_kernels().normalise(frame.read(input_, image) + row * width, width, node_.flag, node_.number,
                                or_null(node_.scale), or_null(node_.shift), frame.place(output_, image) + row * width);
    });
  }

 private:
  View input_, output_;
  const Node& node_;
};

// The channels of a group lie side by side in every pixel.
class GroupNorm : public Operation {
 public:
  explicit GroupNorm(const Action& action) : input_(action.inputs[0]), output_(action.output), node_(*action.node) {}

  void run(const Frame& frame) const override {
    const int64_t channels = output_.shape[0];
    const int64_t pixels = output_.shape.elements() / channels;
    const int64_t own = channels / node_.step;
    for_places(frame, node_.step, own * pixels, [&](int image, int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group)
        normalise(frame.read(input_, image), frame.place(output_, image), group * own, own, channels, pixels);
    });
  }

 private:
  template <class Term>
  static double sum_of(const float* x, int64_t first, int64_t own, int64_t channels, int64_t pixels, const Term& term) {
    double sum = 0;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      float row = 0;
      for (int64_t c = first; c < first + own; ++c) row += term(x[pixel * channels + c]);
      sum += static_cast<double>(row);
    }
    return sum;
  }

  void normalise(const float* x, float* y, int64_t first, int64_t own, int64_t channels, int64_t pixels) const {
    const auto count = static_cast<double>(own * pixels);
    const auto mean = static_cast<float>(sum_of(x, first, own, channels, pixels, [](float v) { return v; }) / count);
    const auto variance = static_cast<float>(
        sum_of(x, first, own, channels, pixels, [mean](float v) { return (v - mean) * (v - mean); }) / count);
    const float factor = 1.0F / std::sqrt(variance + node_.number);
    for (int64_t pixel = 0; pixel < pixels; ++pixel)
      for (int64_t c = first; c < first + own; ++c) {
        const float value = (x[pixel * channels + c] - mean) * factor;
        const auto place = static_cast<size_t>(c);
        y[pixel * channels + c] = (node_.scale.empty() ? value : value * node_.scale[place]) +
                                  (node_.shift.empty() ? 0.0F : node_.shift[place]);
      }
  }

  View input_, output_;
  const Node& node_;
};

// For every place of a side its two neighbours in the input, and the share of the second.
class Resize : public Operation {
 public:
  explicit Resize(const Action& action) : input_(action.inputs[0]), output_(action.output), linear_(action.node->flag) {
    for (size_t side = 0; side < 2; ++side)
      for (int i = 0; i < output_.shape[side + 1]; ++i)
        sides_[side].push_back(tap(*action.node, i, action.node->steps[side], input_.shape[side + 1]));
  }

  void run(const Frame& frame) const override {
    const int64_t channels = output_.shape[0];
    const int64_t width = output_.shape[2];
    for_places(frame, output_.shape[1], 4 * width * channels, [&](int image, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        resize(sides_[0][static_cast<size_t>(row)], frame.read(input_, image), input_.shape[2] * channels, channels,
               frame.place(output_, image) + row * width * channels);
    });
  }

 private:
  struct Tap {
    int64_t first, second;
    float share;
  };

  static Tap tap(const Node& node, int place, float step, int side) {
    const auto i = static_cast<float>(place);
    float at = i * step;
    if (node.flag && !node.corners) at = std::max((i + 0.5F) * step - 0.5F, 0.0F);
    const auto last = static_cast<float>(side - 1);
    if (!(at < last)) return {side - 1, side - 1, 0.0F};
    const auto first = static_cast<int64_t>(at);
    return {first, std::min<int64_t>(first + 1, side - 1), node.flag ? at - static_cast<float>(first) : 0.0F};
  }

  void resize(const Tap& row, const float* x, int64_t row_step, int64_t channels, float* y) const {
    for (const Tap& column : sides_[1]) {
      const float* a = x + row.first * row_step + column.first * channels;
      if (linear_) {
        const float* b = x + row.second * row_step + column.first * channels;
        const int64_t right = (column.second - column.first) * channels;
        for (int64_t c = 0; c < channels; ++c) {
          const float left_number = a[c] + row.share * (b[c] - a[c]);
          const float right_number = a[c + right] + row.share * (b[c + right] - a[c + right]);
          y[c] = left_number + column.share * (right_number - left_number);
        }
      } else {
        std::memcpy(y, a, static_cast<size_t>(channels) * sizeof(float));
      }
      y += channels;
    }
  }

  View input_, output_;
  bool linear_;
  std::vector<Tap> sides_[2];
};

constexpr int64_t block_rows = 16;  // of a product's or an attention's task

class MatMul : public Operation {
 public:
  explicit MatMul(const Action& action)
      : a_(action.inputs[0]), b_(action.inputs[1]), output_(action.output),
        nest_(leading(output_), repeated(matrices(output_), leading(output_)),
              repeated(matrices(a_), leading(output_)), repeated(matrices(b_), leading(output_))) {}

  void run(const Frame& frame) const override {
    const size_t rank = a_.shape.rank();
    const int64_t height = a_.shape[rank - 2];
    const int64_t inner = a_.shape[rank - 1];
    const int64_t width = output_.shape.sides.back();
    const int64_t blocks = (height + block_rows - 1) / block_rows;
    const int64_t matrices = nest_.outer() * nest_.inner();
    for_places(frame, matrices * blocks, block_rows * inner * width, [&](int image, int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task % blocks * block_rows;
        const int64_t matrix = task / blocks;
        auto at = nest_.offsets(matrix / nest_.inner());
        for (size_t i = 0; i < 3; ++i) at[i] += matrix % nest_.inner() * nest_.steps()[i];
        row_kernels().multiply(std::min(block_rows, height - row), inner, width,
                               frame.read(a_, image) + at[1] + row * inner, frame.read(b_, image) + at[2],
                               frame.place(output_, image) + at[0] + row * width);
      }
    });
  }

 private:
  static Shape leading(const View& view) {
    return {std::vector<int>(view.shape.sides.begin(), view.shape.sides.end() - 2)};
  }
  static View matrices(const View& view) {
    return {leading(view), Strides(view.strides.begin(), view.strides.end() - 2), 0, -1, nullptr};
  }

  View a_, b_, output_;
  Nest nest_;
};

class Attention : public Operation {
 public:
  explicit Attention(const Action& action)
      : q_(action.inputs[0]), k_(action.inputs[1]), v_(action.inputs[2]), output_(action.output), node_(*action.node) {
    const size_t rank = q_.shape.rank();
    queries_ = q_.shape[rank - 2];
    features_ = q_.shape[rank - 1];
    places_ = k_.shape[rank - 2];
    width_ = v_.shape[rank - 1];
    heads_ = q_.shape.elements() / (queries_ * features_);
    blocks_ = (queries_ + block_rows - 1) / block_rows;
    if (action.inputs.size() > 3) mask_ = action.inputs[3];
  }

  size_t scratch_bytes(int count) const override {
    return static_cast<size_t>(heads_ * blocks_ * count * block_rows * places_) * sizeof(float);
  }

  void run(const Frame& frame) const override {
    const int64_t tasks = heads_ * blocks_;
    for_places(frame, tasks, block_rows * places_ * (features_ + width_), [&](int image, int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task)
        attend(frame, image, task / blocks_, task % blocks_ * block_rows,
               frame.scratch + (image * tasks + task) * block_rows * places_);
    });
  }

 private:
  void attend(const Frame& frame, int image, int64_t head, int64_t first, float* scores) const {
    const int64_t count = std::min(block_rows, queries_ - first);
    const RowKernels& kernels = row_kernels();
    const float* queries = frame.read(q_, image) + (head * queries_ + first) * features_;
    kernels.multiply(count, features_, places_, queries, frame.read(k_, image) + head * features_ * places_, scores);
    const float* mask = mask_.shape.rank() > 0 ? frame.read(mask_, image) : nullptr;
    for (int64_t row = 0; row < count; ++row) {
      float* own = scores + row * places_;
      for (int64_t i = 0; i < places_; ++i) own[i] *= node_.number;
      if (mask != nullptr) {
        const int64_t step = mask_.strides.back();
        const float* added = mask + mask_offset(head, first + row);
        kernels.combine(Combination::add, places_, own, 1, added, step, own, 1);
      }
      const int64_t seen = node_.flag ? std::min(places_, first + row + 1) : places_;
      kernels.softmax(own, seen);
      std::fill(own + seen, own + places_, 0.0F);
    }
    kernels.multiply(count, places_, width_, scores, frame.read(v_, image) + head * places_ * width_,
                     frame.place(output_, image) + (head * queries_ + first) * width_);
  }

  int64_t mask_offset(int64_t head, int64_t query) const {
    const size_t rank = mask_.shape.rank();
    int64_t offset = query * mask_.strides[rank - 2];
    for (size_t axis = rank - 2; axis-- > 0; head /= mask_.shape[axis])
      offset += head % mask_.shape[axis] * mask_.strides[axis];
    return offset;
  }

  View q_, k_, v_, output_, mask_;
  const Node& node_;
  int64_t queries_, features_, places_, width_, heads_, blocks_;
};

// Whole numbers were checked when they came in; real ones are cut to those that there are.
class Embedding : public Operation {
 public:
  explicit Embedding(const Action& action) : input_(action.inputs[0]), output_(action.output), node_(*action.node) {}

  void run(const Frame& frame) const override {
    const int64_t width = node_.step;
    for_places(frame, input_.shape.elements(), width, [&](int image, int64_t begin, int64_t end) {
      const float* tokens = frame.read(input_, image);
      for (int64_t place = begin; place < end; ++place) {
        int32_t token = 0;
        if (node_.flag)
          std::memcpy(&token, tokens + place, sizeof token);
        else if (tokens[place] > 0.0F)  // not for NaN
          token = tokens[place] < static_cast<float>(node_.start) ? static_cast<int32_t>(tokens[place]) : node_.start - 1;
        std::memcpy(frame.place(output_, image) + place * width, node_.numbers->data() + token * width,
                    static_cast<size_t>(width) * sizeof(float));
      }
    });
  }

 private:
  View input_, output_;
  const Node& node_;
};

class Number : public Operation {
 public:
  explicit Number(const Action& action) : input_(action.inputs[0]), output_(action.output) {}

  void run(const Frame& frame) const override {
    for_places(frame, input_.shape.elements(), 1, [&](int image, int64_t begin, int64_t end) {
      const float* x = frame.read(input_, image);
      float* y = frame.place(output_, image);
      for (int64_t place = begin; place < end; ++place) {
        int32_t whole = 0;
        std::memcpy(&whole, x + place, sizeof whole);
        y[place] = static_cast<float>(whole);
      }
    });
  }

 private:
  View input_, output_;
};

}  // namespace

std::unique_ptr<Operation> make_operation(const Action& action) {
  if (action.work == Work::copy) return std::make_unique<Copy>(action.inputs[0], action.output);
  if (action.work == Work::unfold) return std::make_unique<Unfold>(action);
  switch (action.node->op) {
    case Op::convolution:
    case Op::affine:
    case Op::max_pool:
    case Op::average_pool:
    case Op::flatten:
    case Op::constant:
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::expand: return nullptr;
    case Op::concatenate: return std::make_unique<Join>(action);
    case Op::add:
    case Op::combine: return std::make_unique<Combine>(action);
    case Op::relu:
    case Op::function: return std::make_unique<Apply>(action);
    case Op::reduce: return std::make_unique<Reduce>(action);
    case Op::layer_norm: return std::make_unique<LayerNorm>(action);
    case Op::group_norm: return std::make_unique<GroupNorm>(action);
    case Op::softmax: return std::make_unique<Softmax>(action);
    case Op::pad: return make_pad(action);
    case Op::spread: return std::make_unique<Inside>(action, apart(action), 0.0F);
    case Op::resize: return std::make_unique<Resize>(action);
    case Op::matmul: return std::make_unique<MatMul>(action);
    case Op::attention: return std::make_unique<Attention>(action);
    case Op::embedding: return std::make_unique<Embedding>(action);
    case Op::number: return std::make_unique<Number>(action);
  }
  return nullptr;
}

void Result::copy(const Frame& frame, float* to) const {
  for (int image = 0; image < frame.count; ++image, to += elements())
    for (int64_t place = 0; place < nest_.outer(); ++place) {
      const auto at = nest_.offsets(place);
      copy_row(nest_.inner(), frame.read(view_, image) + at[1], nest_.steps()[1], to + at[0], nest_.steps()[0]);
    }
}

}  // namespace adaste

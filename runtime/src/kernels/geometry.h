// Where windows lie: shared by the kernels that work on a padded copy of the input (tables or 8-bit values).
//
// Everything here is in an unnamed namespace: files that include it are compiled with different instruction sets, and a
// shared inline function could be taken by the linker from the one with instructions that this processor lacks.
#pragma once

#include "kernels/contract.h"

namespace adaste {
namespace {

constexpr int smaller(int a, int b) { return a < b ? a : b; }
constexpr int larger(int a, int b) { return a < b ? b : a; }
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

// One axis of the padded copy. It holds only what windows touch: a stride larger than the kernel (a 1x1 shortcut of
// stride 2, say) leaps over pixels, and these are left out. Windows then lie `step` apart in the copy.
struct Axis {
  int size, kernel, stride, pad, step;

  // Places in the copy for this many neighbouring windows.
  int extent(int windows) const { return (windows - 1) * step + kernel; }

  // The pixel at a place of the copy, counted from the first window's first place; outside 0..size - 1 in the padding.
  int source(int place) const { return place / step * stride + place % step - pad; }
  bool inside(int pixel) const { return pixel >= 0 && pixel < size; }

  // The taps [first_tap, end_tap) of a window that lie inside; no tap does where first_tap >= end_tap.
  int first_tap(int window) const { return larger(0, pad - window * stride); }
  int end_tap(int window) const { return smaller(kernel, size + pad - window * stride); }
};

inline Axis row_axis(const ConvShape& shape) {
  return {shape.height, shape.kernel_h, shape.stride_h, shape.pad_h, smaller(shape.stride_h, shape.kernel_h)};
}

inline Axis column_axis(const ConvShape& shape) {
  return {shape.width, shape.kernel_w, shape.stride_w, shape.pad_w, smaller(shape.stride_w, shape.kernel_w)};
}

// Walks along one axis of the copy: source() of one place after the other, without its divisions.
class Walk {
 public:
  explicit Walk(const Axis& axis) : axis_(axis), pixel_(-axis.pad) {}
  int pixel() const { return pixel_; }
  bool inside() const { return axis_.inside(pixel_); }
  void next() {
    ++pixel_;
    if (++phase_ == axis_.step) {
      phase_ = 0;
      pixel_ += axis_.stride - axis_.step;
    }
  }

 private:
  const Axis& axis_;
  int pixel_;
  int phase_ = 0;
};

// An output pixel among `rows` rows of several images, walked in the order of memory.
struct Pixel {
  int image, row, column;

  void next(int rows, int width) {
    if (++column < width) return;
    column = 0;
    if (++row < rows) return;
    row = 0;
    ++image;
  }
};

inline Pixel output_pixel(ptrdiff_t index, int rows, int width) {
  const ptrdiff_t row = index / width;
  return {static_cast<int>(row / rows), static_cast<int>(row % rows), static_cast<int>(index % width)};
}

// Cuts `count` things into equal parts: where part number `part` of `parts` starts.
inline ptrdiff_t part_start(ptrdiff_t count, ptrdiff_t parts, ptrdiff_t part) { return count * part / parts; }

// How output channels are cut into blocks, each within one group of the convolution.
struct OutputBlocks {
  int per_group;  // blocks
  int outputs;    // output channels of a group
  int width;      // output channels of a block, the last of a group may have fewer

  int group(int block) const { return block / per_group; }
  int first(int block) const { return block % per_group * width; }  // counted within the group
  int count(int block) const { return smaller(width, outputs - first(block)); }
  int channel(int block) const { return group(block) * outputs + first(block); }
};

inline OutputBlocks output_blocks(const ConvShape& shape, int width) {
  const int outputs = shape.out_channels / shape.groups;
  return {ceil_div(outputs, width), outputs, width};
}

// Units of work, one of `parts` parts of the pixels for one block of output channels, and tasks of some units each.
struct Units {
  int parts, count, tasks;

  template <class Function>
  void run(int task, const Function& function) const {
    const auto end = static_cast<int>(part_start(count, tasks, task + 1));
    for (auto unit = static_cast<int>(part_start(count, tasks, task)); unit < end; ++unit) function(unit);
  }
};

// Pieces of a task must be long enough to hide what a task costs: about this many multiply-adds.
constexpr ptrdiff_t task_work = ptrdiff_t{1} << 19;

// How many tasks `blocks` blocks of `work` multiply-adds each should make.
inline int task_count(ptrdiff_t blocks, ptrdiff_t work) {
  const ptrdiff_t per_task = work < task_work ? task_work / work : 1;
  return static_cast<int>((blocks + per_task - 1) / per_task);
}

// The same for rows that are only copied or converted, of so many numbers each.
constexpr ptrdiff_t task_numbers = ptrdiff_t{1} << 16;

struct RowTasks {
  int rows, each;

  int count() const { return ceil_div(rows, each); }

  template <class Function>
  void run(int task, const Function& function) const {
    for (int row = task * each; row < smaller(rows, (task + 1) * each); ++row) function(row);
  }
};

inline RowTasks row_tasks(int rows, ptrdiff_t numbers) {
  return {rows, numbers < task_numbers ? smaller(rows, static_cast<int>(task_numbers / numbers)) : 1};
}

}  // namespace
}  // namespace adaste

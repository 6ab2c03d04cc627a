// Which inputs an output depends on. Positions are all outputs of a batch, numbered in the order of memory.
#pragma once

#include <algorithm>

#include "kernels.h"

namespace adaste {

static inline ptrdiff_t positions(const ConvShape& shape) {
  return static_cast<ptrdiff_t>(shape.batch) * shape.out_height * shape.out_width;
}

// Where a position's window starts in an input of floats or bytes.
template <class Value>
struct WindowOf {
  const Value* image;  // null for positions beyond the last
  int row, column;
};

using Window = WindowOf<float>;

template <class Value>
static inline WindowOf<Value> window_at(const ConvShape& shape, ptrdiff_t position, int first_channel, const Value* x) {
  if (position >= positions(shape)) return {nullptr, 0, 0};
  const ptrdiff_t per_image = static_cast<ptrdiff_t>(shape.out_height) * shape.out_width;
  const ptrdiff_t image = position / per_image;
  const int within = static_cast<int>(position % per_image);
  return {x + image * shape.height * shape.width * shape.channels + first_channel,
          within / shape.out_width * shape.stride_h - shape.pad_h,
          within % shape.out_width * shape.stride_w - shape.pad_w};
}

// The channels of the pixel at (row, column) of the window; null where there is padding.
template <class Value>
static inline const Value* pixel_at(const ConvShape& shape, const WindowOf<Value>& window, int row, int column) {
  const int y = window.row + row;
  const int x = window.column + column;
  if (window.image == nullptr || y < 0 || y >= shape.height || x < 0 || x >= shape.width) return nullptr;
  return window.image + (static_cast<ptrdiff_t>(y) * shape.width + x) * shape.channels;
}

template <class Value>
static inline const Value* pixel_of(const ConvShape& shape, const WindowOf<Value>& window, int tap) {
  return pixel_at(shape, window, tap / shape.kernel_w, tap % shape.kernel_w);
}

// A chunk of a window's inputs, in the order (row, column, channel): found once for all windows, without a division for
// each.
struct Chunk {
  int first, count;
  int row, column, channel;  // of the first
  bool one_pixel;            // do all belong to it
  int channels;              // of a pixel's group
};

static inline Chunk chunk_at(const ConvShape& shape, int first, int count) {
  const int channels = shape.channels / shape.groups;
  const int tap = first / channels;
  return {first, count, tap / shape.kernel_w, tap % shape.kernel_w, first % channels,
          first % channels + count <= channels, channels};
}

// Calls copy(from, count, to) for a chunk of a window's inputs, in ascending order; `from` is null in the padding. What
// lies side by side is copied at once: the channels of a group, and without groups all pixels of a row.
template <class Value, class Copy>
static inline void copy_inputs(const ConvShape& shape, const WindowOf<Value>& window, const Chunk& chunk, Value* to,
                               const Copy& copy) {
  const int channels = chunk.channels;
  const int pixels = shape.groups == 1 ? shape.kernel_w : 1;  // of a run
  int row = chunk.row, column = shape.groups == 1 ? 0 : chunk.column;
  int start = (chunk.column - column) * channels + chunk.channel;  // of what is wanted of the run
  for (int done = 0; done < chunk.count;) {
    const int end = std::min(pixels * channels, start + chunk.count - done);
    const int y = window.row + row;
    const int x = window.column + column;
    const bool inside = window.image != nullptr && y >= 0 && y < shape.height;
    // What is no padding; clamped before it is multiplied, since padding may be huge.
    const int first = std::clamp(std::clamp(-x, 0, pixels) * channels, start, end);
    const int last = inside ? std::clamp(std::clamp(shape.width - x, 0, pixels) * channels, first, end) : first;
    const ptrdiff_t pixel = (static_cast<ptrdiff_t>(y) * shape.width + x) * shape.channels;
    if (first > start) copy(nullptr, first - start, to);
    if (last > first) copy(window.image + (pixel + first), last - first, to + (first - start));
    if (end > last) copy(nullptr, end - last, to + (last - start));
    to += end - start;
    done += end - start;
    start = 0;
    column += pixels;
    if (column == shape.kernel_w) {
      column = 0;
      ++row;
    }
  }
}

}  // namespace adaste

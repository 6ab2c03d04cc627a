// Which inputs an output depends on. Positions are all outputs of a batch, numbered in the order of memory.
#pragma once

#include <algorithm>

#include "kernels/contract.h"

namespace adaste {

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
  return {x + image * image_size(shape) + first_channel,
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
// each. A run is what lies side by side in memory: without groups a row of the window, else the channels of one pixel.
struct Chunk {
  int count;
  int row, column, channel;  // of the first input
  int run_column, start;     // its run: the column of the first pixel, and which of the run's inputs it is
  int run_pixels, channels;  // of every run, and of a pixel's group

  bool in_one_pixel() const { return channel + count <= channels; }
  bool in_one_run() const { return start + count <= run_pixels * channels; }
};

static inline Chunk chunk_at(const ConvShape& shape, int first, int count) {
  const int channels = shape.channels / shape.groups;
  const int tap = first / channels;
  const int row = tap / shape.kernel_w, column = tap % shape.kernel_w, channel = first % channels;
  if (shape.groups > 1) return {count, row, column, channel, column, channel, 1, channels};
  return {count, row, column, channel, 0, column * channels + channel, shape.kernel_w, channels};
}

// A whole row of a window, where there are no groups.
static inline Chunk row_chunk(const ConvShape& shape, int row) {
  return {shape.kernel_w * shape.channels, row, 0, 0, 0, 0, shape.kernel_w, shape.channels};
}

// Which of some inputs of a run are no padding.
struct Inside {
  ptrdiff_t offset;  // of the run's first input from the window's image, be it inside or not
  int first, end;    // equal where all are padding
};

// Of the inputs [start, end) of the run whose first pixel is (row, column) of the window. It is called for
// every chunk of every window, and so inlined.
template <class Value>
[[gnu::always_inline]] static inline Inside inside_of(const ConvShape& shape, const WindowOf<Value>& window,
                                                      const Chunk& part, int row, int column, int start, int end) {
  const int y = window.row + row;
  const int x = window.column + column;
  const bool in_image = window.image != nullptr && y >= 0 && y < shape.height;
  // Clamped before it is multiplied, since padding may be huge.
  const int first = std::clamp(std::clamp(-x, 0, part.run_pixels) * part.channels, start, end);
  const int last = std::clamp(std::clamp(shape.width - x, 0, part.run_pixels) * part.channels, first, end);
  return {(static_cast<ptrdiff_t>(y) * shape.width + x) * shape.channels, first, in_image ? last : first};
}

// Calls copy(from, count, to) for a chunk of a window's inputs, in ascending order; `from` is null in the padding. What
// lies side by side is copied at once.
template <class Value, class Copy>
static inline void copy_inputs(const ConvShape& shape, const WindowOf<Value>& window, const Chunk& part, Value* to,
                               const Copy& copy) {
  int row = part.row, column = part.run_column, start = part.start;
  for (int done = 0; done < part.count;) {
    const int end = std::min(part.run_pixels * part.channels, start + part.count - done);
    const Inside inside = inside_of(shape, window, part, row, column, start, end);
    if (inside.first > start) copy(nullptr, inside.first - start, to);
    if (inside.end > inside.first)
      copy(window.image + (inside.offset + inside.first), inside.end - inside.first, to + (inside.first - start));
    if (end > inside.end) copy(nullptr, end - inside.end, to + (inside.end - start));
    to += end - start;
    done += end - start;
    start = 0;
    column += part.run_pixels;
    if (column == shape.kernel_w) {
      column = 0;
      ++row;
    }
  }
}

}  // namespace adaste

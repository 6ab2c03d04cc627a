// Which inputs an output depends on. Positions are all outputs of a batch, numbered in the order of memory.
#pragma once

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
          within / shape.out_width * shape.stride_h - shape.pad_h, within % shape.out_width * shape.stride_w - shape.pad_w};
}

// The channels of one pixel of the window; null where there is padding.
template <class Value>
static inline const Value* pixel_of(const ConvShape& shape, const WindowOf<Value>& window, int tap) {
  const int y = window.row + tap / shape.kernel_w;
  const int x = window.column + tap % shape.kernel_w;
  if (window.image == nullptr || y < 0 || y >= shape.height || x < 0 || x >= shape.width) return nullptr;
  return window.image + (static_cast<ptrdiff_t>(y) * shape.width + x) * shape.channels;
}

}  // namespace adaste

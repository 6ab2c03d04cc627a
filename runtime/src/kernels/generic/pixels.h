// Pools, and scales and shifts per channel (kernels/rows.h), which each file that includes this compiles for another
// processor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/rows.h"

namespace adaste {
namespace {

// The part of a window that lies in the image, and the number of pixels that lie in the padded image.
struct Clipped {
  int top, bottom, left, right;
  int64_t padded;
};

Clipped clipped(const ConvShape& shape, int row, int column) {
  const int top = row * shape.stride_h - shape.pad_h;
  const int left = column * shape.stride_w - shape.pad_w;
  return {std::max(top, 0), std::min(top + shape.kernel_h, shape.height), std::max(left, 0),
          std::min(left + shape.kernel_w, shape.width),
          (std::min(int64_t{top} + shape.kernel_h, int64_t{shape.height} + shape.pad_h) - top) *
              (std::min(int64_t{left} + shape.kernel_w, int64_t{shape.width} + shape.pad_w) - left)};
}

// Some channels of a window's pixels: y = first pixel, then combine(y, pixel) for all others. A constant number of
// channels stays in registers.
template <int count, class Combine>
void combine_window(const Clipped& window, const float* image, ptrdiff_t row, ptrdiff_t channels, float* y,
                    const Combine& combine) {
  float values[count];
  std::copy_n(image + window.top * row + window.left * channels, count, values);
  for (int i = window.top; i < window.bottom; ++i)
    for (int j = i == window.top ? window.left + 1 : window.left; j < window.right; ++j) {
      const float* pixel = image + i * row + j * channels;
      for (int c = 0; c < count; ++c) values[c] = combine(values[c], pixel[c]);
    }
  std::copy_n(values, count, y);
}

// Combines the pixels of each window of an output row.
template <class Combine, class End>
void pool(const ConvShape& shape, int task, const float* x, float* y, const Combine& combine, const End& end) {
  constexpr int at_once = 32;
  const ptrdiff_t channels = shape.channels;
  const ptrdiff_t row = shape.width * channels;
  const float* image = x + task / shape.out_height * shape.height * row;
  y += static_cast<ptrdiff_t>(task) * shape.out_width * channels;
  for (int column = 0; column < shape.out_width; ++column, y += channels) {
    const Clipped window = clipped(shape, task % shape.out_height, column);
    ptrdiff_t first = 0;
    for (; first + at_once <= channels; first += at_once)
      combine_window<at_once>(window, image + first, row, channels, y + first, combine);
    for (; first < channels; ++first) combine_window<1>(window, image + first, row, channels, y + first, combine);
    end(window, y);
  }
}

void max_pool(const ConvShape& shape, int task, const float* x, float* y) {
  pool(shape, task, x, y, [](float a, float b) { return a < b ? b : a; }, [](const Clipped&, float*) {});
}

void average_pool(const ConvShape& shape, bool count_padding, int task, const float* x, float* y) {
  const auto divide = [&](const Clipped& window, float* pixel) {
    const int inside = (window.bottom - window.top) * (window.right - window.left);
    const auto count = static_cast<float>(count_padding ? window.padded : inside);
    for (int c = 0; c < shape.channels; ++c) pixel[c] /= count;
  };
  pool(shape, task, x, y, [](float a, float b) { return a + b; }, divide);
}

void affine(ptrdiff_t pixels, int channels, const float* x, const Epilogue& epilogue, float* y) {
  if (epilogue.scale == nullptr || epilogue.shift == nullptr || epilogue.residual != nullptr) {
    for (ptrdiff_t place = 0; place < pixels * channels; place += channels)
      for (int c = 0; c < channels; ++c) y[place + c] = finish(x[place + c], c, place + c, epilogue);
    return;
  }
  const float* __restrict scale = epilogue.scale;  // without these a compiler asks for each pixel whether they overlap
  const float* __restrict shift = epilogue.shift;
  const float least = epilogue.relu ? 0.0F : -HUGE_VALF;
  for (; pixels > 0; --pixels, x += channels, y += channels) {
    const float* __restrict from = x;
    float* __restrict to = y;
    for (int c = 0; c < channels; ++c) {
      const float value = scale[c] * from[c] + shift[c];
      to[c] = value < least ? least : value;
    }
  }
}

}  // namespace
}  // namespace adaste

#include "operations.h"

#include <algorithm>
#include <cstring>

namespace adaste {
namespace {

// The part of a window that lies in the image.
struct Clipped {
  int top, bottom, left, right;
};

Clipped clipped(const ConvShape& shape, int row, int column) {
  const int top = row * shape.stride_h - shape.pad_h;
  const int left = column * shape.stride_w - shape.pad_w;
  return {std::max(top, 0), std::min(top + shape.kernel_h, shape.height), std::max(left, 0),
          std::min(left + shape.kernel_w, shape.width)};
}

// Combines the pixels of each window of an output row: y = first pixel, then combine(y, pixel) for all others.
template <class Combine, class End>
void pool(const ConvShape& shape, int task, const float* x, float* y, const Combine& combine, const End& end) {
  const ptrdiff_t channels = shape.channels;
  const ptrdiff_t pixels = static_cast<ptrdiff_t>(shape.height) * shape.width;
  const float* image = x + task / shape.out_height * pixels * channels;
  y += static_cast<ptrdiff_t>(task) * shape.out_width * channels;
  for (int column = 0; column < shape.out_width; ++column, y += channels) {
    const Clipped window = clipped(shape, task % shape.out_height, column);
    bool first = true;
    for (int i = window.top; i < window.bottom; ++i)
      for (int j = window.left; j < window.right; ++j) {
        const float* pixel = image + (static_cast<ptrdiff_t>(i) * shape.width + j) * channels;
        if (first)
          std::copy_n(pixel, channels, y);
        else
          for (ptrdiff_t c = 0; c < channels; ++c) y[c] = combine(y[c], pixel[c]);
        first = false;
      }
    end(window, y);
  }
}

}  // namespace

void max_pool(const ConvShape& shape, int task, const float* x, float* y) {
  pool(shape, task, x, y, [](float a, float b) { return a < b ? b : a; }, [](const Clipped&, float*) {});
}

void average_pool(const ConvShape& shape, bool count_padding, int task, const float* x, float* y) {
  const auto divide = [&](const Clipped& window, float* pixel) {
    const int inside = (window.bottom - window.top) * (window.right - window.left);
    const auto count = static_cast<float>(count_padding ? shape.kernel_h * shape.kernel_w : inside);
    for (int c = 0; c < shape.channels; ++c) pixel[c] /= count;
  };
  pool(shape, task, x, y, [](float a, float b) { return a + b; }, divide);
}

void affine(ptrdiff_t pixels, int channels, const float* x, const Epilogue& epilogue, float* y) {
  for (ptrdiff_t place = 0; place < pixels * channels; place += channels)
    for (int c = 0; c < channels; ++c) y[place + c] = finish(x[place + c], c, place + c, epilogue);
}

void add(ptrdiff_t count, const float* a, const float* b, bool relu, float* y) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    const float sum = b != nullptr ? a[i] + b[i] : a[i];
    y[i] = relu && sum < 0.0F ? 0.0F : sum;
  }
}

void flatten(ptrdiff_t pixels, int channels, const float* x, float* y) {
  for (ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
    for (ptrdiff_t c = 0; c < channels; ++c) y[c * pixels + pixel] = x[pixel * channels + c];
}

void concatenate(ptrdiff_t pixels, int channels, const float* x, int first, int all, float* y) {
  for (ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
    std::memcpy(y + pixel * all + first, x + pixel * channels, static_cast<size_t>(channels) * sizeof(float));
}

}  // namespace adaste

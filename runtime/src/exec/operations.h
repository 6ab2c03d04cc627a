// Everything that is no convolution, one task of it at a time. Values are (batch, height, width, channels).
#pragma once

#include <cstddef>

#include "kernels/contract.h"

namespace adaste {

// Row `task` of batch * out_height rows. Numbers in the padding do not count.
void max_pool(const ConvShape& shape, int task, const float* x, float* y);
// The sum of a window over its size, or over how many of its numbers lie in the image.
void average_pool(const ConvShape& shape, bool count_padding, int task, const float* x, float* y);

// y = relu(scale * x + shift + residual) for `pixels` pixels; a null pointer means 1, 0, none.
void affine(ptrdiff_t pixels, int channels, const float* x, const Epilogue& epilogue, float* y);

// y = relu(a + b), or relu(a) without b, or a without relu.
void add(ptrdiff_t count, const float* a, const float* b, bool relu, float* y);

// One image: from (pixels, channels) to (channels, pixels).
void flatten(ptrdiff_t pixels, int channels, const float* x, float* y);

// Copies `channels` channels of every pixel to the channels from `first` on of pixels with `all` channels.
void concatenate(ptrdiff_t pixels, int channels, const float* x, int first, int all, float* y);

}  // namespace adaste

// Pools, and scales and shifts per channel, one task at a time. Values are (batch, height, width, channels).
#pragma once

#include <cstddef>

#include "kernels/contract.h"

namespace adaste {

// Row `task` of batch * out_height rows. Numbers in the padding do not count.
void max_pool(const ConvShape& shape, int task, const float* x, float* y);
// The sum of a window over its size inside of the padding, or over how many of its numbers lie in the image.
void average_pool(const ConvShape& shape, bool count_padding, int task, const float* x, float* y);

// y = relu(scale * x + shift + residual) for `pixels` pixels; a null pointer means 1, 0, none.
void affine(ptrdiff_t pixels, int channels, const float* x, const Epilogue& epilogue, float* y);

}  // namespace adaste

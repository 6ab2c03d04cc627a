// Computations on rows of numbers that lie side by side: functions, norms and products of two values; and on pixels:
// pools, scales and shifts. Like the kernels of convolutions they exist once for every processor, and again for those
// with AVX2 and with AVX-512.
#pragma once

#include <cstddef>

#include "format/graph.h"
#include "kernels/contract.h"

namespace adaste {

struct RowKernels {
  // y = function(y)
  void (*apply)(Function function, float parameter, float* y, ptrdiff_t count);
  // y = combination(a, b), each array with a step.
  void (*combine)(Combination combination, ptrdiff_t count, const float* a, ptrdiff_t a_step, const float* b,
                  ptrdiff_t b_step, float* y, ptrdiff_t y_step);
  // y = exp(y) / sum, without an overflow.
  void (*softmax)(float* y, ptrdiff_t count);
  // (x - mean) / sqrt(variance + epsilon) * scale + shift; a null pointer means 1, 0, and the mean is 0 without center.
  void (*normalise)(const float* x, ptrdiff_t count, bool center, float epsilon, const float* scale,
                    const float* shift, float* y);
  // y (rows, columns) = a (rows, inner) times b (inner, columns), without gaps.
  void (*multiply)(ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t columns, const float* a, const float* b, float* y);

  // Row `task` of batch * out_height rows of a pool of values (batch, height, width, channels). Numbers in the padding do
  // not count; a mean is that over a window's size inside of the padding, or over how many of its numbers lie in the
  // image.
  void (*max_pool)(const ConvShape& shape, int task, const float* x, float* y);
  void (*average_pool)(const ConvShape& shape, bool count_padding, int task, const float* x, float* y);
  // y = relu(scale * x + shift + residual) for `pixels` pixels; a null pointer means 1, 0, none.
  void (*affine)(ptrdiff_t pixels, int channels, const float* x, const Epilogue& epilogue, float* y);
};

extern const RowKernels generic_rows;
#if defined(__x86_64__)
extern const RowKernels avx2_rows;
extern const RowKernels avx512_rows;
#endif

// The fastest for this processor.
const RowKernels& row_kernels();

}  // namespace adaste

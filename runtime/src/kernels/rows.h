// Computations on rows of numbers that lie side by side: functions, norms and products of two values. Like the kernels
// of convolutions they exist once for every processor and once for those with AVX2.
#pragma once

#include <cstddef>

#include "format/graph.h"

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
};

extern const RowKernels generic_rows;
#if defined(__x86_64__)
extern const RowKernels avx2_rows;
#endif

// The fastest for this processor.
const RowKernels& row_kernels();

}  // namespace adaste

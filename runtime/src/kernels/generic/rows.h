// The rows of kernels/rows.h in plain loops, which each file that includes this compiles for another processor.
//
// exp is a polynomial of degree 6 after the power of two is split off, correct to 2 units of the last place; all other
// functions with powers are made of it. erf is formula 7.1.26 of Abramowitz and Stegun, correct to 2e-7.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/generic/pixels.h"

namespace adaste {
namespace {

inline float power(float x) {
  constexpr float most = 88.3F;
  constexpr float least = -87.3F;  // where the result is the smallest normal number; below it is 0
  constexpr float rounder = 12582912.0F;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  const float clipped = std::min(std::max(x, least), most);
  const float shifted = clipped * 1.44269504F + rounder;
  const float n = shifted - rounder;
  const float r = (clipped - n * 0.693145752F) - n * 1.42860677e-6F;
  const float y = 1.0F + r * (1.0F + r * (0.5F + r * (0.166666667F + r * (0.0416666667F + r * (0.00833333333F + r * 0.00138888889F)))));
  // A cast, not a copy: compilers see through it in loops.
  const uint32_t bits = __builtin_bit_cast(uint32_t, y) + (__builtin_bit_cast(uint32_t, shifted) << 23);
  return x < least ? 0.0F : __builtin_bit_cast(float, bits);
}

inline float logistic(float x) { return 1.0F / (1.0F + power(-x)); }

inline float hyperbolic(float x) {
  const float square = x * x;
  const float near = x * (1.0F - square * (0.333333333F - square * 0.133333333F));
  return square < 0.01F ? near : 1.0F - 2.0F / (power(2.0F * x) + 1.0F);
}

inline float error_function(float x) {
  const float size = std::abs(x);
  const float t = 1.0F / (1.0F + 0.3275911F * size);
  const float series = t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  const float far = 1.0F - series * power(-size * size);
  return x < 0.0F ? -far : far;
}

inline float soft(float x) { return std::max(x, 0.0F) + std::log1p(power(-std::abs(x))); }

template <class Each>
inline void each(float* y, ptrdiff_t count, const Each& function) {
  for (ptrdiff_t i = 0; i < count; ++i) y[i] = function(y[i]);
}

void apply(Function function, float p, float* y, ptrdiff_t n) {
  const auto sixth = [](float x) { return std::min(std::max(x + 3.0F, 0.0F), 6.0F) / 6.0F; };
  switch (function) {
    case Function::abs: return each(y, n, [](float x) { return std::abs(x); });
    case Function::elu: return each(y, n, [p](float x) { return x > 0.0F ? x : p * (power(x) - 1.0F); });
    case Function::erf: return each(y, n, error_function);
    case Function::exp: return each(y, n, power);
    case Function::gelu:
      return each(y, n, [](float x) { return 0.5F * x * (1.0F + error_function(x * 0.707106781F)); });
    case Function::gelu_tanh:
      return each(y, n, [](float x) {
        return 0.5F * x * (1.0F + hyperbolic(0.797884561F * (x + 0.044715F * x * x * x)));
      });
    case Function::hardsigmoid: return each(y, n, sixth);
    case Function::hardswish: return each(y, n, [&](float x) { return x * sixth(x); });
    case Function::leaky_relu: return each(y, n, [p](float x) { return x > 0.0F ? x : p * x; });
    case Function::log: return each(y, n, [](float x) { return std::log(x); });
    case Function::mish: return each(y, n, [](float x) { return x * hyperbolic(soft(x)); });
    case Function::reciprocal: return each(y, n, [](float x) { return 1.0F / x; });
    case Function::rsqrt: return each(y, n, [](float x) { return 1.0F / std::sqrt(x); });
    case Function::sigmoid: return each(y, n, logistic);
    case Function::silu: return each(y, n, [](float x) { return x * logistic(x); });
    case Function::softplus: return each(y, n, soft);
    case Function::sqrt: return each(y, n, [](float x) { return std::sqrt(x); });
    case Function::tanh: return each(y, n, hyperbolic);
  }
}

template <class Each>
inline void pairs(ptrdiff_t n, const float* a, ptrdiff_t as, const float* b, ptrdiff_t bs, float* y, ptrdiff_t ys,
                  const Each& function) {
  if (ys == 1 && as == 1 && bs == 1) {
    for (ptrdiff_t i = 0; i < n; ++i) y[i] = function(a[i], b[i]);
  } else if (ys == 1 && as == 1 && bs == 0) {
    const float second = *b;
    for (ptrdiff_t i = 0; i < n; ++i) y[i] = function(a[i], second);
  } else {
    for (ptrdiff_t i = 0; i < n; ++i) y[i * ys] = function(a[i * as], b[i * bs]);
  }
}

void combine(Combination combination, ptrdiff_t n, const float* a, ptrdiff_t as, const float* b, ptrdiff_t bs,
             float* y, ptrdiff_t ys) {
  switch (combination) {
    case Combination::add: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return x + z; });
    case Combination::divide: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return x / z; });
    case Combination::equal: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return x == z ? 1.0F : 0.0F; });
    case Combination::less: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return x < z ? 1.0F : 0.0F; });
    case Combination::maximum: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return x < z ? z : x; });
    case Combination::minimum: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return z < x ? z : x; });
    case Combination::multiply: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return x * z; });
    case Combination::subtract: return pairs(n, a, as, b, bs, y, ys, [](float x, float z) { return x - z; });
  }
}

// A sum in eight parts, which one vector holds.
template <class Term>
inline float sum_of(ptrdiff_t count, const Term& term) {
  constexpr ptrdiff_t parts_at_once = 8;
  float parts[parts_at_once] = {};
  ptrdiff_t i = 0;
  for (; i + parts_at_once <= count; i += parts_at_once)
    for (ptrdiff_t part = 0; part < parts_at_once; ++part) parts[part] += term(i + part);
  float sum = 0;
  for (; i < count; ++i) sum += term(i);
  for (const float part : parts) sum += part;
  return sum;
}

void softmax(float* y, ptrdiff_t count) {
  float most = y[0];
  for (ptrdiff_t i = 1; i < count; ++i) most = most < y[i] ? y[i] : most;
  for (ptrdiff_t i = 0; i < count; ++i) y[i] = power(y[i] - most);
  const float share = 1.0F / sum_of(count, [y](ptrdiff_t i) { return y[i]; });
  for (ptrdiff_t i = 0; i < count; ++i) y[i] *= share;
}

void normalise(const float* x, ptrdiff_t count, bool center, float epsilon, const float* scale, const float* shift,
               float* y) {
  const auto size = static_cast<float>(count);
  const float mean = center ? sum_of(count, [x](ptrdiff_t i) { return x[i]; }) / size : 0.0F;
  const float variance = sum_of(count, [x, mean](ptrdiff_t i) { return (x[i] - mean) * (x[i] - mean); }) / size;
  const float factor = 1.0F / std::sqrt(variance + epsilon);
  for (ptrdiff_t i = 0; i < count; ++i) {
    const float value = (x[i] - mean) * factor;
    y[i] = (scale != nullptr ? value * scale[i] : value) + (shift != nullptr ? shift[i] : 0.0F);
  }
}

using Lanes = float __attribute__((vector_size(32)));
constexpr int lanes = 8;

// Some rows and 16 columns of a product, whose sums stay in registers.
template <int rows>
inline void multiply_wide(ptrdiff_t inner, ptrdiff_t width, const float* a, const float* b, float* y) {
  Lanes sums[rows][2] = {};
  for (ptrdiff_t k = 0; k < inner; ++k, b += width) {
    Lanes row_of_b[2];
    std::memcpy(row_of_b, b, sizeof row_of_b);  // at any address: compilers forget a vector's smaller alignment
    for (int row = 0; row < rows; ++row)
      for (int half = 0; half < 2; ++half) sums[row][half] += a[row * inner + k] * row_of_b[half];
  }
  for (int row = 0; row < rows; ++row) std::memcpy(y + row * width, sums[row], sizeof sums[row]);
}

template <int rows>
inline void multiply_column(ptrdiff_t inner, ptrdiff_t width, const float* a, const float* b, float* y) {
  float sums[rows] = {};
  for (ptrdiff_t k = 0; k < inner; ++k, b += width)
    for (int row = 0; row < rows; ++row) sums[row] += a[row * inner + k] * *b;
  for (int row = 0; row < rows; ++row) y[row * width] = sums[row];
}

template <int rows>
inline void multiply_rows(ptrdiff_t inner, ptrdiff_t width, const float* a, const float* b, float* y) {
  ptrdiff_t column = 0;
  for (; column + 2 * lanes <= width; column += 2 * lanes) multiply_wide<rows>(inner, width, a, b + column, y + column);
  for (; column < width; ++column) multiply_column<rows>(inner, width, a, b + column, y + column);
}

void multiply(ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t columns, const float* a, const float* b, float* y) {
  constexpr int block = 4;
  ptrdiff_t row = 0;
  for (; row + block <= rows; row += block) multiply_rows<block>(inner, columns, a + row * inner, b, y + row * columns);
  for (; row < rows; ++row) multiply_rows<1>(inner, columns, a + row * inner, b, y + row * columns);
}

constexpr RowKernels rows_here = {apply,    combine,  softmax,      normalise,
                                  multiply, max_pool, average_pool, affine};

}  // namespace
}  // namespace adaste

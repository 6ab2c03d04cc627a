// Convolutions to try kernels on: the corners of shapes, random shapes, and random numbers for them.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/contract.h"

namespace problems {

using adaste::ConvShape;
using adaste::Epilogue;
using adaste::Quantisation;
using Random = std::mt19937_64;

struct Problem {
  ConvShape shape;
  std::vector<float> x, scale, shift, residual;
  std::vector<uint8_t> rows;
  bool relu;
  Quantisation quantisation;

  Epilogue epilogue() const {
    const auto data = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    return {data(scale), data(shift), data(residual), relu};
  }
};

inline size_t outputs(const ConvShape& s) {
  return static_cast<size_t>(s.batch) * static_cast<size_t>(s.out_height) * static_cast<size_t>(s.out_width) *
         static_cast<size_t>(s.out_channels);
}

inline size_t inputs(const ConvShape& s) {
  return static_cast<size_t>(s.height) * static_cast<size_t>(s.width) * static_cast<size_t>(s.channels);
}

inline int below(Random& random, int end) { return static_cast<int>(random() % static_cast<uint64_t>(end)); }

// A shape from its input and kernel; out_height = 0 where there is no output.
inline ConvShape sized(ConvShape s) {
  s.out_height = s.height + 2 * s.pad_h < s.kernel_h ? 0 : (s.height + 2 * s.pad_h - s.kernel_h) / s.stride_h + 1;
  s.out_width = s.width + 2 * s.pad_w < s.kernel_w ? 0 : (s.width + 2 * s.pad_w - s.kernel_w) / s.stride_w + 1;
  return s;
}

inline ConvShape shape_of(int batch, int height, int width, int channels, int out_channels, int kernel, int stride,
                          int pad, int groups = 1) {
  return sized({batch, height, width, channels, 0, 0, out_channels, kernel, kernel, stride, stride, pad, pad, groups});
}

inline std::vector<ConvShape> corner_shapes() {
  return {
      shape_of(1, 32, 32, 3, 64, 3, 1, 1),     // a first layer
      shape_of(1, 37, 41, 3, 20, 7, 2, 3),     // another
      shape_of(1, 4, 4, 96, 130, 3, 1, 1),     // few pixels, many outputs
      shape_of(3, 9, 7, 64, 70, 3, 2, 1),      // strided, batch
      shape_of(3, 8, 8, 36, 65, 1, 2, 0),      // a shortcut
      shape_of(1, 1, 1, 515, 100, 1, 1, 0),    // a linear layer
      shape_of(7, 1, 1, 130, 10, 1, 1, 0),     // one with a batch
      shape_of(2, 1, 1, 20, 17, 3, 1, 1),      // nearly all padding
      shape_of(1, 2, 3, 5, 6, 7, 1, 3),        // a kernel larger than the image
      shape_of(1, 3, 3, 4, 3, 2, 3, 4),        // windows of padding alone
      shape_of(2, 17, 19, 8, 12, 2, 5, 1),     // a stride larger than the kernel
      shape_of(2, 6, 6, 24, 48, 3, 1, 1, 3),   // groups
      shape_of(1, 5, 5, 28, 14, 3, 1, 1, 7),   // groups of 4 to 2
      shape_of(1, 6, 6, 12, 12, 3, 1, 1, 12),  // a depthwise one, which kernels may refuse
      shape_of(2, 14, 14, 512, 4, 1, 1, 0),    // tables of an image larger than a slab
      shape_of(1, 23, 23, 128, 4, 3, 1, 1),    // the same with a halo
      shape_of(1, 40, 33, 70, 2, 5, 2, 2),     // the same, strided
      shape_of(1, 3, 900, 64, 2, 3, 1, 1),     // a row of tables larger than a slab
      shape_of(40, 3, 3, 256, 2, 3, 1, 1),     // several slabs of several images
      shape_of(1, 1, 40000, 1, 1, 1, 1, 0),    // one channel, a long row
      shape_of(1, 20, 17, 140, 20, 3, 1, 1),   // long windows of many pixels
      shape_of(3, 7, 7, 256, 33, 3, 1, 1),     // the same, an odd number of tiles
      shape_of(2, 4, 4, 512, 50, 3, 1, 1),     // windows of several parts
      shape_of(2, 15, 13, 100, 70, 3, 2, 1, 2),  // the same, strided, in groups
      shape_of(1, 37, 300, 64, 2, 3, 1, 1),      // bytes of an image larger than a slab
      shape_of(1, 41, 300, 70, 2, 5, 2, 2),      // the same, strided
      shape_of(5, 20, 21, 300, 3, 3, 1, 1),      // several slabs of several images of bytes
      shape_of(1, 9, 140, 3, 33, 7, 2, 3),       // a long row of few channels
      shape_of(2, 11, 17, 2, 20, 5, 3, 2),       // few channels, three phases of rows
      shape_of(2, 15, 29, 40, 40, 7, 1, 3, 40),  // depthwise, channels beside whole vectors
      shape_of(1, 16, 31, 96, 96, 3, 2, 1, 96),  // the same, strided
      sized({2, 25, 17, 64, 0, 0, 129, 4, 1, 1, 1, 1, 2, 1, 4}),  // parts for four threads, not smaller than for one
  };
}

// Sizes are drawn so that all residues of the kernels' blocks appear while a plain loop stays quick.
inline ConvShape random_shape(Random& random) {
  static const int kernels[] = {1, 1, 2, 3, 3, 3, 4, 5, 7};
  for (;;) {
    ConvShape s{};
    s.batch = below(random, 4) == 0 ? 3 : 1;
    s.groups = below(random, 5) == 0 ? 1 + below(random, 4) : 1;
    s.channels = s.groups * (1 + below(random, below(random, 3) == 0 ? 140 : 20));
    s.out_channels = s.groups * (1 + below(random, below(random, 3) == 0 ? 140 : 20));
    if (below(random, 10) == 0) s.groups = s.channels = s.out_channels = 1 + below(random, 80);  // depthwise
    s.height = 1 + below(random, 12);
    s.width = 1 + below(random, below(random, 4) == 0 ? 60 : 12);
    s.kernel_h = kernels[below(random, 9)];
    s.kernel_w = below(random, 4) == 0 ? kernels[below(random, 9)] : s.kernel_h;
    s.stride_h = 1 + below(random, 3);
    s.stride_w = below(random, 4) == 0 ? 1 + below(random, 9) : s.stride_h;
    s.pad_h = below(random, s.kernel_h + 1);
    s.pad_w = below(random, s.kernel_w + 1);
    s = sized(s);
    if (s.out_height > 0 && s.out_width > 0 && outputs(s) * adaste::window_size(s) < 300000) return s;
  }
}

inline std::vector<float> random_values(Random& random, size_t count, float offset) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random) + offset;
  return values;
}

// What is no sensible number; only 8-bit kernels have something to say about it: levels are finite.
inline void spoil(std::vector<float>& values, Random& random) {
  static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 3e38F, -3e38F, 1e12F, -1e12F};
  for (int i = 0; i < 5; ++i) values[random() % values.size()] = bad[below(random, 8)];
}

inline Problem random_problem(const ConvShape& shape, Random& random) {
  const auto channels = static_cast<size_t>(shape.out_channels);
  Problem problem{shape, random_values(random, inputs(shape) * static_cast<size_t>(shape.batch), 0.3F), {}, {}, {}, {},
                  below(random, 2) == 0, {-1.5F, 2.0F, below(random, 3) != 0}};
  if (below(random, 3) == 0)  // as behind a ReLU
    for (float& value : problem.x) value = std::max(value, 0.0F);
  if (below(random, 4) != 0) problem.scale = random_values(random, channels, 0.0F);
  if (below(random, 4) != 0) problem.shift = random_values(random, channels, 0.0F);
  if (below(random, 2) != 0) problem.residual = random_values(random, outputs(shape), 0.0F);
  const size_t weights = adaste::window_size(shape);
  const size_t row = (weights + 7) / 8;
  problem.rows.resize(row * channels);
  for (size_t i = 0; i < problem.rows.size(); ++i) {
    const bool last = i % row == row - 1 && weights % 8 != 0;
    problem.rows[i] = static_cast<uint8_t>(random() & (last ? (1U << weights % 8) - 1 : 255U));
  }
  return problem;
}

// Some infinite inputs: sums of them are infinite, or NaN where signs differ.
inline void put_infinities(Problem& problem, Random& random) {
  for (int i = below(random, 4); i >= 0; --i)
    problem.x[random() % problem.x.size()] = below(random, 2) == 0 ? HUGE_VALF : -HUGE_VALF;
}

}  // namespace problems

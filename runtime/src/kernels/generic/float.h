// Convolution with float32 weights, for the layers that are not one-bit: first and last ones, mostly.
//
// Each file that includes this is compiled for another processor and gives the code its name. Vectors are the
// compilers' portable ones; a block of 4 positions and 16 output channels is summed in 8 of them.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/registry.h"
#include "kernels/window.h"

namespace adaste {
namespace {

using Vector = float __attribute__((vector_size(32), may_alias));
constexpr int lanes = 8;
constexpr int wide = 2 * lanes;     // output channels of a block
constexpr int block_positions = 4;  // positions of a block
constexpr int task_positions = 64;  // positions of a task

// By reference: how a vector is returned depends on the processor. Prepared weights are aligned.
inline const Vector& load(const float* from) { return *reinterpret_cast<const Vector*>(from); }

bool supports(const ConvShape& /*shape*/) { return true; }

size_t blocks_per_group(const ConvShape& shape) {
  return static_cast<size_t>((shape.out_channels / shape.groups + wide - 1) / wide);
}

// Blocks of 16 output channels in the order (group, block, row, column, channel, output channel), filled up with zeros.
size_t weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(shape.groups) * blocks_per_group(shape) * window_size(shape) * wide * sizeof(float);
}

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const size_t taps = static_cast<size_t>(shape.kernel_h) * static_cast<size_t>(shape.kernel_w);
  const auto channels = static_cast<size_t>(shape.channels / shape.groups);
  const auto outputs = static_cast<size_t>(shape.out_channels / shape.groups);
  auto* to = static_cast<float*>(prepared);
  for (size_t block = 0; block < static_cast<size_t>(shape.groups) * blocks_per_group(shape); ++block)
    for (size_t k = 0; k < window_size(shape); ++k)
      for (size_t lane = 0; lane < wide; ++lane, ++to) {
        const size_t output = block % blocks_per_group(shape) * wide + lane;
        const size_t row = block / blocks_per_group(shape) * outputs + output;
        const size_t weight = row * window_size(shape) + k % channels * taps + k / channels;
        *to = 0.0F;
        if (output < outputs) std::memcpy(to, rows + weight * sizeof(float), sizeof(float));
      }
}

size_t scratch_bytes(const ConvShape& /*shape*/) { return 0; }

int stages(const ConvShape& /*shape*/) { return 1; }

int tasks(const ConvShape& shape, int /*stage*/) {
  return static_cast<int>((positions(shape) + task_positions - 1) / task_positions);
}

using Sums = Vector[block_positions][2];

// Adds the products of one pixel of each window; a null pixel is padding.
inline void add_pixels(const float* const (&pixels)[block_positions], int channels, const float* weights, Sums& sums) {
  static_assert(block_positions == 4, "the sums have names, so that they stay in registers");
  Vector a0 = sums[0][0], a1 = sums[0][1], b0 = sums[1][0], b1 = sums[1][1];
  Vector c0 = sums[2][0], c1 = sums[2][1], d0 = sums[3][0], d1 = sums[3][1];
  for (int channel = 0; channel < channels; ++channel, weights += wide) {
    const Vector low = load(weights);
    const Vector high = load(weights + lanes);
    const float a = pixels[0][channel], b = pixels[1][channel], c = pixels[2][channel], d = pixels[3][channel];
    a0 += a * low;
    a1 += a * high;
    b0 += b * low;
    b1 += b * high;
    c0 += c * low;
    c1 += c * high;
    d0 += d * low;
    d1 += d * high;
  }
  sums[0][0] = a0, sums[0][1] = a1, sums[1][0] = b0, sums[1][1] = b1;
  sums[2][0] = c0, sums[2][1] = c1, sums[3][0] = d0, sums[3][1] = d1;
}

// The same where some windows have padding.
inline void add_some_pixels(const float* const (&pixels)[block_positions], int channels, const float* weights,
                            Sums& sums) {
  for (int i = 0; i < block_positions; ++i) {
    if (pixels[i] == nullptr) continue;
    for (int channel = 0; channel < channels; ++channel)
      for (int half = 0; half < 2; ++half)
        sums[i][half] += pixels[i][channel] * load(weights + channel * wide + half * lanes);
  }
}

void convolve_block(const ConvShape& shape, const Window (&windows)[block_positions], const float* weights,
                    Sums& sums) {
  const int channels = shape.channels / shape.groups;
  for (int tap = 0; tap < shape.kernel_h * shape.kernel_w; ++tap, weights += static_cast<ptrdiff_t>(channels) * wide) {
    const float* pixels[block_positions];
    bool all = true;
    for (int i = 0; i < block_positions; ++i) {
      pixels[i] = pixel_of(shape, windows[i], tap);
      all = all && pixels[i] != nullptr;
    }
    if (all)
      add_pixels(pixels, channels, weights, sums);
    else
      add_some_pixels(pixels, channels, weights, sums);
  }
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  const int outputs = shape.out_channels / shape.groups;
  const int blocks = static_cast<int>(blocks_per_group(shape));
  const auto block_weights = static_cast<ptrdiff_t>(window_size(shape)) * wide;
  const ptrdiff_t first = static_cast<ptrdiff_t>(task) * task_positions;
  const ptrdiff_t end = std::min(first + task_positions, positions(shape));
  // Blocks of weights outside, so that each comes from memory once per task.
  for (int block = 0; block < shape.groups * blocks; ++block)
    for (ptrdiff_t position = first; position < end; position += block_positions) {
      const int group = block / blocks;
      Window windows[block_positions];
      for (int i = 0; i < block_positions; ++i)
        windows[i] = window_at(shape, position + i, group * (shape.channels / shape.groups), x);
      alignas(sizeof(Vector)) Sums sums = {};
      convolve_block(shape, windows, static_cast<const float*>(prepared) + block * block_weights, sums);
      const int first_output = block % blocks * wide;
      for (int i = 0; i < static_cast<int>(std::min<ptrdiff_t>(block_positions, end - position)); ++i)
        for (int lane = 0; lane < std::min(wide, outputs - first_output); ++lane) {
          const int channel = group * outputs + first_output + lane;
          const ptrdiff_t place = (position + i) * shape.out_channels + channel;
          y[place] = finish(sums[i][lane / lanes][lane % lanes], channel, place, epilogue);
        }
    }
}

}  // namespace
}  // namespace adaste

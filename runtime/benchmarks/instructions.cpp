// One layer of ResNet-18 again and again by one kernel, or as a plain loop of multiply-adds, for
// benchmarks/instructions.py to count the instructions of:
//     instructions KERNEL CHANNELS SIDE REPEATS        KERNEL: of kernels/registry.h, or "plain"
// A 3x3 convolution from CHANNELS to as many, stride 1, padding 1, on an image of SIDE by SIDE.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "exec/memory.h"
#include "kernels/registry.h"
#include "kernels/weight_order.h"

namespace {

using namespace adaste;

// float32 weights (tap, channel, output): the inner loop is one that every compiler turns into vectors.
void plain(const ConvShape& shape, const float* x, const float* weights, float* y) {
  for (int row = 0; row < shape.out_height; ++row)
    for (int column = 0; column < shape.out_width; ++column) {
      float* sums = y + (row * shape.out_width + column) * shape.out_channels;
      std::fill_n(sums, shape.out_channels, 0.0F);
      for (int tap = 0; tap < 9; ++tap) {
        const int from_row = row + tap / 3 - 1;
        const int from_column = column + tap % 3 - 1;
        if (from_row < 0 || from_row >= shape.height || from_column < 0 || from_column >= shape.width) continue;
        const float* values = x + (from_row * shape.width + from_column) * shape.channels;
        const float* rows = weights + static_cast<ptrdiff_t>(tap) * shape.channels * shape.out_channels;
        for (int channel = 0; channel < shape.channels; ++channel, rows += shape.out_channels)
          for (int output = 0; output < shape.out_channels; ++output) sums[output] += values[channel] * rows[output];
      }
    }
}

const ConvKernel* kernel_named(const char* name) {
  for (const Kernels* kernels : {&binary_kernels(), &int8_kernels(), &float_kernels()})
    for (const ConvKernel* kernel : *kernels)
      if (std::strcmp(kernel->name, name) == 0 && kernel->available()) return kernel;
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const int channels = std::atoi(arguments[2]);
  const int side = std::atoi(arguments[3]);
  const int repeats = std::atoi(arguments[4]);
  const ConvShape shape = {1, side, side, channels, side, side, channels, 3, 3, 1, 1, 1, 1, 1};
  const auto elements = static_cast<size_t>(image_size(shape));
  std::mt19937 random(1);
  std::vector<float> x(elements);
  std::vector<float> y(elements);
  for (float& value : x) value = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;

  if (std::strcmp(arguments[1], "plain") == 0) {
    const std::vector<float> weights(window_size(shape) * static_cast<size_t>(channels), 1.0F);
    for (int i = 0; i < repeats; ++i) plain(shape, x.data(), weights.data(), y.data());
  } else {
    const ConvKernel* kernel = kernel_named(arguments[1]);
    if (kernel == nullptr || !kernel->supports(shape)) return 2;
    // As bits signs, as float32 numbers below 1.
    std::vector<uint8_t> rows(window_size(shape) * static_cast<size_t>(channels) * sizeof(float));
    for (uint8_t& byte : rows) byte = random() & 0x3f;
    const Memory prepared(kernel->weight_bytes(shape));
    const Memory scratch(kernel->scratch_bytes(shape));
    kernel->prepare(shape, rows.data(), prepared.data());
    for (int i = 0; i < repeats; ++i)
      for (int stage = 0; stage < kernel->stages(shape); ++stage)
        for (int task = 0; task < kernel->tasks(shape, stage); ++task)
          kernel->run(shape, stage, task, x.data(), prepared.data(), {nullptr, nullptr, nullptr, true}, {0, 0, true},
                      y.data(), scratch.data());
  }
  std::printf("%g\n", static_cast<double>(y[elements / 2]));  // so that it is computed
}

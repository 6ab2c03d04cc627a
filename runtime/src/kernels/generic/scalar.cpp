// The reference kernel for one-bit weights: plain C++ for every shape and processor. The inner loop runs over output
// channels, for which weights and sums are contiguous, so that compilers vectorise it.
#include <algorithm>
#include <array>

#include "kernels/registry.h"

namespace adaste {
namespace {

constexpr int block = 64;  // output channels summed at a time

bool available() { return true; }

bool supports(const ConvShape& /*shape*/) { return true; }

// One byte per weight, -1 or +1, in the order (group, row, column, channel of the group, output channel of the group).
size_t weight_bytes(const ConvShape& shape) { return window_size(shape) * static_cast<size_t>(shape.out_channels); }

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const size_t taps = static_cast<size_t>(shape.kernel_h) * static_cast<size_t>(shape.kernel_w);
  const auto channels = static_cast<size_t>(shape.channels / shape.groups);
  const auto outputs = static_cast<size_t>(shape.out_channels / shape.groups);
  const size_t row_bytes = row_bytes_of(shape);
  auto* signs = static_cast<int8_t*>(prepared);
  for (size_t group = 0; group < static_cast<size_t>(shape.groups); ++group)
    for (size_t tap = 0; tap < taps; ++tap)
      for (size_t channel = 0; channel < channels; ++channel)
        for (size_t output = 0; output < outputs; ++output) {
          const uint8_t* row = rows + (group * outputs + output) * row_bytes;
          *signs++ = weight_bit(row, tap * channels + channel) ? 1 : -1;
        }
}

size_t scratch_bytes(const ConvShape& /*shape*/) { return 0; }

int stages(const ConvShape& /*shape*/) { return 1; }

int tasks(const ConvShape& shape, int /*stage*/) { return shape.batch * shape.out_height; }

// Adds a window's contribution to `sums`, the sums of `count` output channels; `signs` points to the first's weights.
void add_window(const ConvShape& shape, const float* image, int row, int column, const int8_t* signs, int count,
                float* sums) {
  const int channels = shape.channels / shape.groups;
  const ptrdiff_t outputs = shape.out_channels / shape.groups;
  for (int i = 0; i < shape.kernel_h; ++i)
    for (int j = 0; j < shape.kernel_w; ++j) {
      const int y = row * shape.stride_h - shape.pad_h + i;
      const int x = column * shape.stride_w - shape.pad_w + j;
      if (y < 0 || y >= shape.height || x < 0 || x >= shape.width) continue;
      const float* pixel = image + (static_cast<ptrdiff_t>(y) * shape.width + x) * shape.channels;
      const int8_t* tap = signs + static_cast<ptrdiff_t>(i * shape.kernel_w + j) * channels * outputs;
      for (int channel = 0; channel < channels; ++channel, tap += outputs)
        for (int output = 0; output < count; ++output) sums[output] += pixel[channel] * static_cast<float>(tap[output]);
    }
}

// One row of the output.
void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  const int image = task / shape.out_height;
  const int row = task % shape.out_height;
  const int channels = shape.channels / shape.groups;
  const int outputs = shape.out_channels / shape.groups;
  const float* pixels = x + image * image_size(shape);
  std::array<float, block> sums{};
  for (int column = 0; column < shape.out_width; ++column) {
    const ptrdiff_t place = (static_cast<ptrdiff_t>(task) * shape.out_width + column) * shape.out_channels;
    for (int group = 0; group < shape.groups; ++group)
      for (int first = 0; first < outputs; first += block) {
        const int count = std::min(block, outputs - first);
        const int8_t* signs = static_cast<const int8_t*>(prepared) +
                              static_cast<ptrdiff_t>(group) * outputs * static_cast<ptrdiff_t>(window_size(shape)) +
                              first;
        sums.fill(0.0F);
        add_window(shape, pixels + group * channels, row, column, signs, count, sums.data());
        for (int output = 0; output < count; ++output) {
          const int channel = group * outputs + first + output;
          y[place + channel] = finish(sums[static_cast<size_t>(output)], channel, place + channel, epilogue);
        }
      }
  }
}

}  // namespace

const ConvKernel scalar_kernel = {"scalar",      available, supports, weight_bytes, prepare,
                                  scratch_bytes, stages,    tasks,    run};

}  // namespace adaste

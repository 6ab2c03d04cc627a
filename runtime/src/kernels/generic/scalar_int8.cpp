// The reference kernel for one-bit weights and 8-bit activations (int8/levels.h): plain C++ for every shape and
// processor.
#include <algorithm>
#include <array>

#include "kernels/int8/input.h"
#include "kernels/registry.h"

namespace adaste {
namespace {

constexpr int block = 64;  // output channels summed at a time

bool available() { return true; }

bool supports(const ConvShape& /*shape*/) { return true; }

// As for the scalar kernel with float activations: -1 or +1 in the order (group, row, column, channel, output channel).
size_t weight_bytes(const ConvShape& shape) { return scalar_kernel.weight_bytes(shape); }

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  scalar_kernel.prepare(shape, rows, prepared);
}

size_t scratch_bytes(const ConvShape& shape) { return quantised_bytes(shape); }

int stages(const ConvShape& /*shape*/) { return 3; }

int tasks(const ConvShape& shape, int stage) {
  return stage < 2 ? quantising_tasks(shape, stage) : shape.batch * shape.out_height;
}

// sum(w * (q - zero)) for `count` output channels: padding, where q = zero, adds nothing.
void add_window(const ConvShape& shape, const uint8_t* image, int zero, int row, int column, const int8_t* signs,
                int count, int32_t* sums) {
  const int channels = shape.channels / shape.groups;
  const ptrdiff_t outputs = shape.out_channels / shape.groups;
  for (int i = 0; i < shape.kernel_h; ++i)
    for (int j = 0; j < shape.kernel_w; ++j) {
      const int y = row * shape.stride_h - shape.pad_h + i;
      const int x = column * shape.stride_w - shape.pad_w + j;
      if (y < 0 || y >= shape.height || x < 0 || x >= shape.width) continue;
      const uint8_t* pixel = image + (static_cast<ptrdiff_t>(y) * shape.width + x) * shape.channels;
      const int8_t* tap = signs + static_cast<ptrdiff_t>(i * shape.kernel_w + j) * channels * outputs;
      for (int channel = 0; channel < channels; ++channel, tap += outputs)
        for (int output = 0; output < count; ++output) sums[output] += (pixel[channel] - zero) * tap[output];
    }
}

// One row of the output.
void convolve(const ConvShape& shape, int task, const int8_t* prepared, const Epilogue& epilogue, float* y,
              const void* scratch) {
  const int image = task / shape.out_height;
  const int channels = shape.channels / shape.groups;
  const int outputs = shape.out_channels / shape.groups;
  const Levels levels = quantised_levels(scratch)[image];
  const uint8_t* pixels = quantised_image(shape, scratch, image);
  std::array<int32_t, block> sums{};
  for (int column = 0; column < shape.out_width; ++column) {
    const ptrdiff_t place = (static_cast<ptrdiff_t>(task) * shape.out_width + column) * shape.out_channels;
    for (int group = 0; group < shape.groups; ++group)
      for (int first = 0; first < outputs; first += block) {
        const int count = std::min(block, outputs - first);
        const int8_t* signs =
            prepared + static_cast<ptrdiff_t>(group) * outputs * static_cast<ptrdiff_t>(window_size(shape)) + first;
        sums.fill(0);
        add_window(shape, pixels + group * channels, static_cast<int>(levels.zero), task % shape.out_height, column,
                   signs, count, sums.data());
        for (int output = 0; output < count; ++output) {
          const int channel = group * outputs + first + output;
          const float sum = levels.scale * static_cast<float>(sums[static_cast<size_t>(output)]);
          y[place + channel] = finish(sum, channel, place + channel, epilogue);
        }
      }
  }
}

void run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared, const Epilogue& epilogue,
         const Quantisation& quantisation, float* y, void* scratch) {
  if (stage < 2) return quantise(shape, stage, task, x, quantisation, measured_levels, quantise_plainly, scratch);
  convolve(shape, task, static_cast<const int8_t*>(prepared), epilogue, y, scratch);
}

}  // namespace

const ConvKernel scalar_int8_kernel = {"scalar-int8", available, supports, weight_bytes, prepare,
                                       scratch_bytes, stages,    tasks,    run,          false,   true};

}  // namespace adaste

// Prints the speed of every kernel on layers of ResNet-18 and VGG-16 for 32x32 images, on one thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernel_table.h"

namespace {

using adaste::ConvKernel;
using adaste::ConvShape;

struct Layer {
  const char* name;
  ConvShape shape;
};

ConvShape square(int batch, int size, int channels, int out_channels, int kernel, int stride) {
  const int out = (size + 2 * (kernel / 2) - kernel) / stride + 1;
  return {batch,  size,   size,   channels, out,        out,        out_channels,
          kernel, kernel, stride, stride,   kernel / 2, kernel / 2, 1};
}

double seconds(const ConvKernel& kernel, const ConvShape& shape, float* worst, const std::vector<float>& expected,
               std::vector<float>& y) {
  std::mt19937 random(1);
  const size_t row_bytes = (adaste::window_size(shape) + 7) / 8;
  std::vector<uint8_t> rows(row_bytes * static_cast<size_t>(shape.out_channels));
  for (auto& byte : rows) byte = static_cast<uint8_t>(random());
  std::vector<float> x(static_cast<size_t>(shape.batch) * shape.height * shape.width * shape.channels);
  std::normal_distribution<float> normal;
  for (auto& value : x) value = normal(random);
  auto* prepared = std::aligned_alloc(64, (kernel.weight_bytes(shape) + 63) / 64 * 64);
  auto* scratch = std::aligned_alloc(64, (kernel.scratch_bytes(shape) + 127) / 64 * 64);
  kernel.prepare(shape, rows.data(), prepared);
  double best = 1e9;
  for (int repeat = 0; repeat < 7; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int stage = 0; stage < kernel.stages(shape); ++stage)
      for (int task = 0; task < kernel.tasks(shape, stage); ++task)
        kernel.run(shape, stage, task, x.data(), prepared, {}, {0, 0, true}, y.data(), scratch);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  *worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) *worst = std::max(*worst, std::abs(y[i] - expected[i]));
  std::free(prepared);
  std::free(scratch);
  return best;
}

}  // namespace

int main() {
  const std::vector<Layer> layers = {
      {"3->64 32x32", square(1, 32, 3, 64, 3, 1)},
      {"64->64 32x32", square(1, 32, 64, 64, 3, 1)},
      {"64->128 /2 32x32", square(1, 32, 64, 128, 3, 2)},
      {"128->128 16x16", square(1, 16, 128, 128, 3, 1)},
      {"256->256 8x8", square(1, 8, 256, 256, 3, 1)},
      {"512->512 4x4", square(1, 4, 512, 512, 3, 1)},
      {"512->512 2x2", square(1, 2, 512, 512, 3, 1)},
      {"256->512 1x1 /2 8x8", square(1, 8, 256, 512, 1, 2)},
      {"linear 4096->1024", square(1, 1, 4096, 1024, 1, 1)},
      {"256->256 8x8, 8 images", square(8, 8, 256, 256, 3, 1)},
      {"512->512 4x4, 8 images", square(8, 4, 512, 512, 3, 1)},
  };
  for (const auto& [name, shape] : layers) {
    const size_t count = static_cast<size_t>(shape.batch) * shape.out_height * shape.out_width * shape.out_channels;
    std::vector<float> expected(count);
    std::vector<float> y(count);
    float worst = 0;
    const double reference = seconds(adaste::scalar_kernel, shape, &worst, {}, expected);
    const double products = static_cast<double>(count) * static_cast<double>(adaste::window_size(shape));
    std::printf("%-24s scalar %7.3f ms %6.1f GMAC/s", name, reference * 1e3, products / reference / 1e9);
    for (const adaste::Kernels* kernels : {&adaste::binary_kernels(), &adaste::int8_kernels()})
      for (const ConvKernel* kernel : *kernels) {
        if (kernel == kernels->back() || !kernel->available() || !kernel->supports(shape)) continue;
        const double time = seconds(*kernel, shape, &worst, expected, y);
        std::printf(" | %s %7.3f ms %6.1f GMAC/s (error %.0e)", kernel->name, time * 1e3, products / time / 1e9, worst);
      }
    std::printf("\n");
  }
}

// The speed of each kernel of this processor on the layers of ResNet-18, batch 1. From the folder runtime:
//
//     cmake -S . -B build/bench -DADASTE_PYTHON=OFF -DADASTE_BENCH=ON && cmake --build build/bench && build/bench/layers
//
// `layers 1.0 2` measures each for about a second (0.2), on two threads (1).
//
// For each layer and kernel: the fastest and the median time of a call, and the multiply-adds per second of the fastest
// in units of 10^9. Totals weigh layers by how often the network has them. Layers repeat on the same data, so weights
// and activations come from the cache where they fit into it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "exec/convolve.h"
#include "kernels/registry.h"

namespace {

using adaste::ConvKernel;
using adaste::ConvShape;
using adaste::Memory;
using Clock = std::chrono::steady_clock;

struct Layer {
  ConvShape shape;
  int count;  // how often the network has it
};

Layer layer(int count, int size, int channels, int out_channels, int kernel, int stride) {
  const int pad = kernel / 2;
  const int out = (size + 2 * pad - kernel) / stride + 1;
  return {{1, size, size, channels, out, out, out_channels, kernel, kernel, stride, stride, pad, pad, 1}, count};
}

// The layers of ResNet-18 behind its first; `size` is that of the first block's images.
std::vector<Layer> resnet18(Layer first, int size, int classes) {
  std::vector<Layer> layers = {first, layer(4, size, 64, 64, 3, 1)};
  for (int channels = 128; channels <= 512; channels *= 2, size /= 2) {
    layers.push_back(layer(1, size, channels / 2, channels, 3, 2));
    layers.push_back(layer(1, size, channels / 2, channels, 1, 2));
    layers.push_back(layer(3, size / 2, channels, channels, 3, 1));
  }
  layers.push_back(layer(1, 1, 512, classes, 1, 1));
  return layers;
}

struct Times {
  double fastest, median;
};

// All data of one layer and kernel.
class Run {
 public:
  Run(const ConvKernel& kernel, const ConvShape& shape, adaste::Workers& workers)
      : kernel_(kernel),
        shape_(shape),
        workers_(workers),
        prepared_(kernel.weight_bytes(shape)),
        scratch_(kernel.scratch_bytes(shape)),
        x_(static_cast<size_t>(shape.height) * static_cast<size_t>(shape.width) * static_cast<size_t>(shape.channels)),
        y_(static_cast<size_t>(shape.out_height) * static_cast<size_t>(shape.out_width) *
           static_cast<size_t>(shape.out_channels)),
        scale_(static_cast<size_t>(shape.out_channels), 0.5F) {
    std::mt19937 random(1);
    std::vector<uint8_t> rows((adaste::window_size(shape) + 7) / 8 * scale_.size());
    for (uint8_t& byte : rows) byte = static_cast<uint8_t>(random());
    for (float& value : x_) value = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
    kernel.prepare(shape, rows.data(), prepared_.data());
    for (int i = 1; i < workers.threads(); ++i) helper_scratch_.emplace_back(scratch_.bytes());
  }

  double seconds() {
    const auto start = Clock::now();
    adaste::Workers::Turn turn(workers_);
    convolve({kernel_, shape_, x_.data(), prepared_.data(), {scale_.data(), scale_.data(), nullptr, true},
              {0.0F, 0.0F, true}, y_.data()},
             scratch_.data(), helper_scratch_, turn);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // At least 5 calls, after one that warms up.
  Times measure(double budget) {
    std::vector<double> times;
    seconds();
    for (double spent = 0.0; spent < budget || times.size() < 5; spent += times.back()) times.push_back(seconds());
    std::sort(times.begin(), times.end());
    return {times.front(), times[times.size() / 2]};
  }

 private:
  const ConvKernel& kernel_;
  ConvShape shape_;
  adaste::Workers& workers_;
  Memory prepared_, scratch_;
  std::vector<Memory> helper_scratch_;
  std::vector<float> x_, y_, scale_;
};

double products(const ConvShape& shape) {
  return static_cast<double>(adaste::window_size(shape)) * shape.out_height * shape.out_width * shape.out_channels;
}

void measure_network(const char* name, const std::vector<Layer>& layers, double budget, adaste::Workers& workers) {
  std::printf("\n%s\n%-28s", name, "");
  std::vector<const ConvKernel*> available;
  for (const adaste::Kernels* kernels : {&adaste::binary_kernels(), &adaste::int8_kernels()})
    for (const ConvKernel* kernel : *kernels)
      if (kernel->available()) available.push_back(kernel);
  for (const ConvKernel* kernel : available) std::printf(" | %-29s", kernel->name);
  std::printf("\n%-28s", "layer");
  for (size_t i = 0; i < available.size(); ++i) std::printf(" | %8s %9s %10s", "min ms", "median ms", "G/s");
  std::printf("\n");
  std::vector<Times> totals(available.size(), Times{0.0, 0.0});
  double all_products = 0.0;
  for (const Layer& each : layers) {
    ConvShape shape = each.shape;
    shape.threads = workers.threads();
    std::printf("%d x %3d->%-4d %dx%d/%d %3dx%-3d  ", each.count, shape.channels, shape.out_channels, shape.kernel_h,
                shape.kernel_w, shape.stride_h, shape.height, shape.width);
    all_products += each.count * products(shape);
    for (size_t i = 0; i < available.size(); ++i) {
      const bool supported = available[i]->supports(shape);  // else what the runtime would use: the scalar one
      const Times times = Run(supported ? *available[i] : adaste::scalar_kernel, shape, workers).measure(budget);
      totals[i].fastest += each.count * times.fastest;
      totals[i].median += each.count * times.median;
      std::printf(" | %8.3f %9.3f %9.1f%c", times.fastest * 1e3, times.median * 1e3,
                  products(shape) / times.fastest / 1e9, supported ? ' ' : '*');
      std::fflush(stdout);
    }
    std::printf("\n");
  }
  std::printf("%-28s", "all");
  for (const Times& total : totals)
    std::printf(" | %8.3f %9.3f %9.1f ", total.fastest * 1e3, total.median * 1e3, all_products / total.fastest / 1e9);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const double budget = argc > 1 ? std::atof(argv[1]) : 0.2;
  adaste::Workers workers(argc > 2 ? std::atoi(argv[2]) : 1);
  std::printf("ResNet-18, batch 1, threads: %d; * not supported by the kernel, measured with the scalar one\n",
              workers.threads());
  measure_network("32x32", resnet18(layer(1, 32, 3, 64, 3, 1), 32, 10), budget, workers);
  measure_network("224x224", resnet18(layer(1, 224, 3, 64, 7, 2), 56, 1000), budget, workers);
}

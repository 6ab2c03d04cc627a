// Runs every kernel on random shapes, with arrays of exactly their sizes, and compares it to the scalar one. Build with
// sanitizers.
//     fuzz_kernels COUNT [FIRST_SEED]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/registry.h"

namespace {

using adaste::ConvKernel;
using adaste::ConvShape;
using Random = std::mt19937_64;

int between(Random& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<uint64_t>(most - least + 1));
}

ConvShape with_outputs(ConvShape shape) {
  shape.out_height = (shape.height + 2 * shape.pad_h - shape.kernel_h) / shape.stride_h + 1;
  shape.out_width = (shape.width + 2 * shape.pad_w - shape.kernel_w) / shape.stride_w + 1;
  return shape;
}

ConvShape random_shape(Random& random) {
  ConvShape shape{};
  shape.batch = between(random, 1, 3);
  shape.kernel_h = between(random, 1, 4);
  shape.kernel_w = between(random, 1, 4);
  shape.stride_h = between(random, 1, 3);
  shape.stride_w = between(random, 1, 3);
  shape.pad_h = between(random, 0, 3);
  shape.pad_w = between(random, 0, 3);
  shape.height = std::max(between(random, 1, 9), shape.kernel_h - 2 * shape.pad_h);
  shape.width = std::max(between(random, 1, 9), shape.kernel_w - 2 * shape.pad_w);
  shape.threads = between(random, 1, 6);
  shape.groups = random() % 3 == 0 ? between(random, 1, 20) : 1;
  const int most = shape.groups == 1 ? 140 : 10;
  if (random() % 8 == 0) {  // a layer that kernels for large images take, with many channels or few
    const bool many = random() % 2 == 0;
    shape.height = between(random, 12, 34);
    shape.width = between(random, 4, 20);
    shape.kernel_h = between(random, 1, many ? 4 : 7);
    shape.groups = many ? between(random, 1, 2) : 1;
    shape.channels = many ? shape.groups * 64 * between(random, 1, 2) : between(random, 1, 8);
    shape.out_channels = shape.groups * between(random, 8, 190);
    return with_outputs(shape);
  }
  shape.channels = shape.groups * (random() % 3 == 0 ? 1 : between(random, 1, most));
  shape.out_channels = shape.groups * (random() % 3 == 0 ? 1 : between(random, 1, most));
  return with_outputs(shape);
}

// On the heap, aligned and of exactly this size.
class Block {
 public:
  explicit Block(size_t bytes) {
    if (posix_memalign(&data_, 64, bytes == 0 ? 1 : bytes) != 0) std::abort();
    std::memset(data_, 0xA5, bytes);
  }
  ~Block() { std::free(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

struct Numbers {
  std::vector<float> x, residual, scale, shift;
  std::vector<uint8_t> rows;
  adaste::Epilogue epilogue{};
  adaste::Quantisation quantisation{};
};

std::vector<float> floats(Random& random, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return values;
}

Numbers random_numbers(Random& random, const ConvShape& shape, bool binary) {
  Numbers numbers;
  const auto outputs = static_cast<size_t>(shape.out_channels);
  const size_t pixels = static_cast<size_t>(shape.batch) * static_cast<size_t>(shape.out_height * shape.out_width);
  numbers.x = floats(
      random, static_cast<size_t>(shape.batch) * static_cast<size_t>(shape.height * shape.width * shape.channels));
  numbers.residual = floats(random, pixels * outputs);
  numbers.scale = floats(random, outputs);
  numbers.shift = floats(random, outputs);
  const size_t window = adaste::window_size(shape);
  if (binary) {
    for (size_t row = 0; row < outputs; ++row)
      for (size_t i = 0; i < window; i += 8) {
        const size_t used = std::min<size_t>(8, window - i);
        numbers.rows.push_back(static_cast<uint8_t>(random() & ((1U << used) - 1)));
      }
  } else {
    const std::vector<float> weights = floats(random, outputs * window);
    numbers.rows.resize(weights.size() * sizeof(float));
    std::memcpy(numbers.rows.data(), weights.data(), numbers.rows.size());
  }
  if (random() % 2 == 0) numbers.epilogue.scale = numbers.scale.data();
  if (random() % 2 == 0) numbers.epilogue.shift = numbers.shift.data();
  if (random() % 2 == 0) numbers.epilogue.residual = numbers.residual.data();
  numbers.epilogue.relu = random() % 2 == 0;
  numbers.quantisation =
      random() % 2 == 0 ? adaste::Quantisation{0, 0, true} : adaste::Quantisation{-1.5F, 2.0F, false};
  return numbers;
}

std::vector<float> result(const ConvKernel& kernel, const ConvShape& shape, const Numbers& numbers) {
  std::vector<float> y(numbers.residual.size(), NAN);
  const Block prepared(kernel.weight_bytes(shape));
  ConvShape planned = shape;
  if (kernel.scratch_per_thread) planned.threads = 1;  // which must be enough for any number
  const Block scratch(kernel.scratch_bytes(planned));
  ConvShape one = shape;
  one.batch = 1;  // as a network prepares weights
  kernel.prepare(one, numbers.rows.data(), prepared.data());
  for (int stage = 0; stage < kernel.stages(shape); ++stage)
    for (int task = kernel.tasks(shape, stage) - 1; task >= 0; --task)
      kernel.run(shape, stage, task, numbers.x.data(), prepared.data(), numbers.epilogue, numbers.quantisation,
                 y.data(), scratch.data());
  return y;
}

// How far results differ, over what rounding may do.
float difference(const std::vector<float>& a, const std::vector<float>& b, const ConvShape& shape) {
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return INFINITY;
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  return worst / (1e-5F * std::sqrt(static_cast<float>(adaste::window_size(shape))) * 10);
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t shapes = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1000;
  const uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  uint64_t runs = 0;
  for (uint64_t seed = first; seed < first + shapes; ++seed) {
    Random random(seed);
    const ConvShape shape = random_shape(random);
    for (const adaste::Kernels* kernels :
         {&adaste::binary_kernels(), &adaste::int8_kernels(), &adaste::float_kernels()}) {
      const Numbers numbers = random_numbers(random, shape, kernels != &adaste::float_kernels());
      const std::vector<float> expected = result(*kernels->back(), shape, numbers);
      for (const ConvKernel* kernel : *kernels) {
        if (!kernel->available() || !kernel->supports(shape)) continue;
        ++runs;
        if (difference(result(*kernel, shape, numbers), expected, shape) < 1.0F) continue;
        std::printf("kernel %s is wrong for seed %llu\n", kernel->name, static_cast<unsigned long long>(seed));
        return 1;
      }
    }
  }
  std::printf("%llu shapes, %llu runs of kernels: all right\n", static_cast<unsigned long long>(shapes),
              static_cast<unsigned long long>(runs));
}

// Compares every kernel in this program with a plain loop, over random shapes and the corners of shapes.
//
//     kernels_check [shapes = 2000] [seed = 1]
//
// Checked for each: float kernels agree within the rounding of their sums, 8-bit kernels agree with the integers of
// levels.h bit for bit; float kernels give infinities and NaN where the sum does; every output is written; nothing is
// written or (under AddressSanitizer) read outside the arrays; garbage in y and in the scratch memory does not matter;
// nor does the order of tasks, nor the rest of a batch.
// tests/check_simde.sh, tests/check_neon.sh and ../web build and run it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "guarded.h"
#include "kernels/contract.h"
#include "kernels/int8/levels.h"
#include "problems.h"

namespace adaste {
#if defined(__x86_64__)
extern const ConvKernel avx512_depthwise_kernel, avx512_five_kernel, avx512_six_kernel, avx512_depthwise_int8_kernel,
    avx512_int8_kernel, avx512_int8_wide_kernel, vnni_kernel, amx_kernel;
#elif defined(__aarch64__)
extern const ConvKernel neon_depthwise_kernel, neon_kernel, neon_depthwise_int8_kernel, neon_dot_kernel;
#elif defined(__wasm__)
extern const ConvKernel scalar_kernel, scalar_int8_kernel, simd128_depthwise_kernel, simd128_kernel,
    simd128_depthwise_int8_kernel, simd128_int8_kernel;
#endif
}  // namespace adaste

namespace {

using namespace problems;
using adaste::ConvKernel;
using adaste::Levels;

struct Candidate {
  const ConvKernel* kernel;
  bool eight_bit;
};

std::vector<Candidate> candidates() {
#if defined(__x86_64__)
  return {{&adaste::avx512_depthwise_kernel, false},
          {&adaste::avx512_five_kernel, false},
          {&adaste::avx512_six_kernel, false},
          {&adaste::avx512_depthwise_int8_kernel, true},
          {&adaste::avx512_int8_kernel, true},
          {&adaste::avx512_int8_wide_kernel, true},
          {&adaste::vnni_kernel, true},
          {&adaste::amx_kernel, true}};
#elif defined(__aarch64__)
  return {{&adaste::neon_depthwise_kernel, false},
          {&adaste::neon_kernel, false},
          {&adaste::neon_depthwise_int8_kernel, true},
          {&adaste::neon_dot_kernel, true}};
#elif defined(__wasm__)
  return {{&adaste::scalar_kernel, false},
          {&adaste::scalar_int8_kernel, true},
          {&adaste::simd128_depthwise_kernel, false},
          {&adaste::simd128_kernel, false},
          {&adaste::simd128_depthwise_int8_kernel, true},
          {&adaste::simd128_int8_kernel, true}};
#else
  return {};
#endif
}

// The outputs of a kernel for the images from number `first` on; empty where it wrote outside its memory.
std::vector<float> run_kernel(const ConvKernel& kernel, const Problem& problem, int first, Random& random) {
  ConvShape shape = problem.shape;
  shape.batch -= first;
  ConvShape other_batch = shape;
  other_batch.batch = 1;
  Guarded prepared(kernel.weight_bytes(other_batch), 64);
  kernel.prepare(other_batch, problem.rows.data(), prepared.as<void>());
  ConvShape planned = shape;
  if (kernel.scratch_per_thread) planned.threads = 1;  // which must be enough for any number
  Guarded scratch(kernel.scratch_bytes(planned), 64);
  Guarded y(outputs(shape) * sizeof(float), 4);
  std::memset(scratch.as<void>(), 0xff, scratch.bytes());  // as floats: NaN
  std::memset(y.as<void>(), 0xff, y.bytes());
  Guarded x(inputs(shape) * static_cast<size_t>(shape.batch) * sizeof(float), 4);
  std::memcpy(x.as<void>(), problem.x.data() + inputs(shape) * static_cast<size_t>(first), x.bytes());
  Epilogue epilogue = problem.epilogue();
  if (epilogue.residual != nullptr) epilogue.residual += outputs(problem.shape) - outputs(shape);
  for (int stage = 0; stage < kernel.stages(shape); ++stage) {
    std::vector<int> tasks(static_cast<size_t>(kernel.tasks(shape, stage)));
    for (size_t i = 0; i < tasks.size(); ++i) tasks[i] = static_cast<int>(i);
    std::shuffle(tasks.begin(), tasks.end(), random);
    for (const int task : tasks)
      kernel.run(shape, stage, task, x.as<float>(), prepared.as<void>(), epilogue, problem.quantisation, y.as<float>(),
                 scratch.as<void>());
  }
  std::vector<float> result(y.as<float>(), y.as<float>() + outputs(shape));
  if (!prepared.intact() || !scratch.intact() || !y.intact() || !x.intact()) result.clear();
  return result;
}

// What a window sums up to, by a plain loop.
struct Window {
  double sum = 0.0, magnitude = 0.0;  // of w * x and of |x|
  int64_t levels = 0;                 // of w * (q - zero)
};

Window plain_window(const Problem& problem, int image, int row, int column, int output,
                    const std::vector<int>& levels) {
  const ConvShape& s = problem.shape;
  const int channels = s.channels / s.groups;
  const int first = output / (s.out_channels / s.groups) * channels;
  const uint8_t* weights = problem.rows.data() + static_cast<size_t>(output) * ((adaste::window_size(s) + 7) / 8);
  Window window;
  for (int i = 0; i < s.kernel_h; ++i)
    for (int j = 0; j < s.kernel_w; ++j) {
      const int y = row * s.stride_h - s.pad_h + i;
      const int x = column * s.stride_w - s.pad_w + j;
      if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
      const size_t pixel = ((static_cast<size_t>(image) * static_cast<size_t>(s.height) + static_cast<size_t>(y)) *
                                static_cast<size_t>(s.width) +
                            static_cast<size_t>(x)) * static_cast<size_t>(s.channels);
      for (int c = 0; c < channels; ++c) {
        const size_t place = pixel + static_cast<size_t>(first + c);
        const bool plus = adaste::weight_bit(weights, static_cast<size_t>((i * s.kernel_w + j) * channels + c));
        const double value = static_cast<double>(problem.x[place]);
        window.sum += plus ? value : -value;
        window.magnitude += std::fabs(value);
        window.levels += plus ? levels[place] : -levels[place];
      }
    }
  return window;
}

std::vector<Levels> levels_of_images(const Problem& problem) {
  std::vector<Levels> levels;
  const size_t image = inputs(problem.shape);
  for (size_t i = 0; i < static_cast<size_t>(problem.shape.batch); ++i)
    levels.push_back(problem.quantisation.dynamic
                         ? adaste::measured_levels(problem.x.data() + i * image, image)
                         : adaste::levels_for(problem.quantisation.low, problem.quantisation.high));
  return levels;
}

// The largest error in units of what is allowed, or infinity.
double worst_error(const Problem& problem, const std::vector<float>& y, bool eight_bit) {
  if (y.empty()) return std::numeric_limits<double>::infinity();
  const ConvShape& s = problem.shape;
  const Epilogue epilogue = problem.epilogue();
  const std::vector<Levels> levels = eight_bit ? levels_of_images(problem) : std::vector<Levels>();
  std::vector<int> q(problem.x.size());  // without the level of zero
  for (size_t i = 0; eight_bit && i < q.size(); ++i) {
    const Levels& image = levels[i / inputs(s)];
    q[i] = adaste::quantised(problem.x[i], image) - static_cast<int>(image.zero);
  }
  const double rounding = std::ldexp(1.0, -24);
  double worst = 0.0;
  for (size_t place = 0; place < y.size(); ++place) {
    const int output = static_cast<int>(place % static_cast<size_t>(s.out_channels));
    const size_t pixel = place / static_cast<size_t>(s.out_channels);
    const int column = static_cast<int>(pixel % static_cast<size_t>(s.out_width));
    const int row = static_cast<int>(pixel / static_cast<size_t>(s.out_width) % static_cast<size_t>(s.out_height));
    const int image = static_cast<int>(pixel / static_cast<size_t>(s.out_width) / static_cast<size_t>(s.out_height));
    const Window window = plain_window(problem, image, row, column, output, q);
    if (eight_bit) {
      const float sum = levels[static_cast<size_t>(image)].scale * static_cast<float>(window.levels);
      const float expected = adaste::finish(sum, output, static_cast<ptrdiff_t>(place), epilogue);
      if (!(y[place] == expected)) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double scale = epilogue.scale != nullptr ? static_cast<double>(epilogue.scale[output]) : 1.0;
    const double shift = epilogue.shift != nullptr ? static_cast<double>(epilogue.shift[output]) : 0.0;
    const double residual = epilogue.residual != nullptr ? static_cast<double>(epilogue.residual[place]) : 0.0;
    double expected = scale * window.sum + shift + residual;
    if (epilogue.relu) expected = std::max(expected, 0.0);
    if (!std::isfinite(expected) || !std::isfinite(window.sum)) {
      const auto found = static_cast<double>(y[place]);
      if (!(std::isnan(expected) ? std::isnan(found) : found == expected))
        return std::numeric_limits<double>::infinity();
      continue;
    }
    // Each addend goes through at most K + 3 rounded operations (K sums, scale, shift, residual); 1 % for the product
    // of their errors.
    const double terms = std::fabs(scale) * window.magnitude + std::fabs(shift) + std::fabs(residual);
    const double allowed = 1.01 * rounding * static_cast<double>(adaste::window_size(s) + 3) * terms;
    const double error = std::fabs(static_cast<double>(y[place]) - expected);
    if (!(error <= allowed)) return std::numeric_limits<double>::infinity();
    if (allowed > 0.0) worst = std::max(worst, error / allowed);
  }
  return worst;
}

void print_failure(const char* what, const ConvKernel& kernel, const ConvShape& s) {
  std::printf("FAILED %s: %s: x %d %d %d %d, out %d %d %d, kernel %d %d, stride %d %d, pad %d %d, groups %d\n",
              kernel.name, what, s.batch, s.height, s.width, s.channels, s.out_height, s.out_width, s.out_channels,
              s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.groups);
}

// True where the kernel is right on this problem.
bool check(const Candidate& candidate, const Problem& problem, Random& random, double& worst) {
  const std::vector<float> y = run_kernel(*candidate.kernel, problem, 0, random);
  const double error = worst_error(problem, y, candidate.eight_bit);
  worst = std::max(worst, error);
  if (std::isinf(error)) {
    print_failure(y.empty() ? "wrote outside its memory" : "wrong outputs", *candidate.kernel, problem.shape);
    return false;
  }
  if (problem.shape.batch == 1) return true;
  const std::vector<float> last = run_kernel(*candidate.kernel, problem, problem.shape.batch - 1, random);
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  if (last.empty() || !std::equal(last.begin(), last.end(), y.end() - static_cast<ptrdiff_t>(last.size()), same)) {
    print_failure("an image depends on its batch", *candidate.kernel, problem.shape);
    return false;
  }
  return true;
}

bool check_all(const Candidate& candidate, int count, uint64_t seed) {
  Random random(seed);
  std::vector<ConvShape> shapes = corner_shapes();
  double worst = 0.0;
  int checked = 0;
  int refused = 0;
  int failed = 0;
  while (checked < count && refused < 100 * count) {
    ConvShape shape = shapes.empty() ? random_shape(random) : shapes.back();
    if (shape.threads == 1 && below(random, 2) != 0) shape.threads = 2 + below(random, 6);
    if (!shapes.empty()) shapes.pop_back();
    if (!candidate.kernel->supports(shape)) {
      ++refused;
      continue;
    }
    ++checked;
    Problem problem = random_problem(shape, random);
    if (candidate.eight_bit && below(random, 8) == 0) spoil(problem.x, random);
    if (!candidate.eight_bit && below(random, 8) == 0) put_infinities(problem, random);
    if (!check(candidate, problem, random, worst)) ++failed;
  }
  std::printf("%s: %d shapes, %d failed, %d refused; worst error %.3f of what is allowed\n", candidate.kernel->name,
              checked, failed, refused, worst);
  return failed == 0 && checked == count;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  bool right = true;
  int available = 0;
  for (const Candidate& candidate : candidates()) {
    if (!candidate.kernel->available()) {
      std::printf("%s: not available on this processor\n", candidate.kernel->name);
      continue;
    }
    ++available;
    right = check_all(candidate, count, seed) && right;
  }
  return right && available > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

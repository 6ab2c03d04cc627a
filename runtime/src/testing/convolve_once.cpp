// A library for tests: what kernels there are, one convolution by one of them, and limits of control groups.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "adaste_runtime.h"
#include "exec/convolve.h"
#include "exec/cores.h"
#include "exec/memory.h"
#include "exec/workers.h"
#include "kernels/registry.h"
#include "kernels/weight_order.h"

namespace adaste {
namespace {

const ConvKernel* kernel_named(const char* name) {
  for (const Kernels* kernels : {&binary_kernels(), &int8_kernels(), &float_kernels()})
    for (const ConvKernel* kernel : *kernels)
      if (std::strcmp(kernel->name, name) == 0) return kernel;
  return nullptr;
}

bool is_in(const Kernels& kernels, const ConvKernel& kernel) {
  return std::find(kernels.begin(), kernels.end(), &kernel) != kernels.end();
}

std::string names(const Kernels& kernels) {
  std::string result;
  for (const ConvKernel* kernel : kernels)
    if (kernel->available()) result += std::string(result.empty() ? "" : " ") + kernel->name;
  return result;
}

constexpr std::array<uint8_t, 64> guard = {0xa5, 0x5a, 0xa5, 0x5a};  // behind the memory of a kernel

Memory guarded(size_t bytes) {
  Memory memory(bytes + guard.size());
  std::memcpy(static_cast<uint8_t*>(memory.data()) + bytes, guard.data(), guard.size());
  return memory;
}

bool intact(const Memory& memory, size_t bytes) {
  return std::memcmp(static_cast<const uint8_t*>(memory.data()) + bytes, guard.data(), guard.size()) == 0;
}

ConvShape shape_from(const int* s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13]};
}

}  // namespace
}  // namespace adaste

extern "C" {

// The kernels of each list that this processor can run, with spaces between their names.
ADASTE_API const char* adaste_binary_kernels() {
  static const std::string found = adaste::names(adaste::binary_kernels());
  return found.c_str();
}

ADASTE_API const char* adaste_int8_kernels() {
  static const std::string found = adaste::names(adaste::int8_kernels());
  return found.c_str();
}

ADASTE_API const char* adaste_float_kernels() {
  static const std::string found = adaste::names(adaste::float_kernels());
  return found.c_str();
}

// Returns 1, 0 if the kernel does not support the shape, -1 if there is no such kernel, or -2 if it wrote behind its
// scratch memory. `sizes` are 14, in the order
// of ConvShape; scale, shift, residual and range (low, high) may be null. Sizes of arrays are not checked.
ADASTE_API int adaste_convolve_once(const char* name, const int* sizes, const float* x, const uint8_t* rows,
                                    const float* scale, const float* shift, const float* residual, int relu,
                                    const float* range, int threads, float* y) {
  using namespace adaste;
  const ConvKernel* kernel = kernel_named(name);
  if (kernel == nullptr) return -1;
  ConvShape shape = shape_from(sizes);
  shape.threads = threads;
  if (!kernel->supports(shape)) return 0;
  const Memory prepared(kernel->weight_bytes(shape));
  ConvShape planned = shape;
  if (kernel->scratch_per_thread) planned.threads = 1;  // which must be enough for any number
  const size_t bytes = kernel->scratch_bytes(planned);
  const Memory scratch = guarded(bytes);
  const bool one_bit = !is_in(float_kernels(), *kernel);
  kernel->prepare(shape, one_bit ? channels_last(shape, rows).data() : rows, prepared.data());
  const Epilogue epilogue{scale, shift, residual, relu != 0};
  const Quantisation quantisation =
      range != nullptr ? Quantisation{range[0], range[1], false} : Quantisation{0, 0, true};
  Workers workers(threads);
  Workers::Turn turn(workers);
  std::vector<Memory> helper_scratch;
  for (int i = 1; i < threads; ++i) helper_scratch.push_back(guarded(bytes));
  convolve({*kernel, shape, x, prepared.data(), epilogue, quantisation, y}, scratch.data(), helper_scratch, turn);
  const auto whole = [bytes](const Memory& memory) { return intact(memory, bytes); };
  if (!whole(scratch) || !std::all_of(helper_scratch.begin(), helper_scratch.end(), whole)) return -2;
  return 1;
}

// processors_of_limit() of exec/cores.h.
ADASTE_API int adaste_processors_of_limit(const char* limit) { return adaste::processors_of_limit(limit); }

}  // extern "C"

#include "kernels/registry.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace adaste {

const Kernels& binary_kernels() {
  static const Kernels kernels = {
#if defined(__x86_64__)
      &avx512_depthwise_kernel, &avx2_depthwise_kernel, &avx512_five_kernel, &avx512_six_kernel, &avx2_blocks_kernel,
      &avx2_kernel,
#elif defined(__aarch64__)
      &neon_depthwise_kernel, &neon_kernel,
#elif defined(__wasm_simd128__)
      &simd128_depthwise_kernel, &simd128_kernel,
#endif
      &scalar_kernel};
  return kernels;
}

const Kernels& int8_kernels() {
  static const Kernels kernels = {
#if defined(__x86_64__)
      &avx512_depthwise_int8_kernel, &avx2_depthwise_int8_kernel,
#endif
#ifdef ADASTE_AMX
      &amx_kernel,
#endif
#if defined(__x86_64__)
      &avx512_int8_wide_kernel, &avx512_int8_kernel, &vnni_kernel, &avx2_int8_kernel,
#elif defined(__aarch64__)
      &neon_depthwise_int8_kernel, &neon_dot_kernel,
#elif defined(__wasm_simd128__)
      &simd128_depthwise_int8_kernel, &simd128_int8_kernel,
#endif
      &scalar_int8_kernel};
  return kernels;
}

const Kernels& float_kernels() {
  static const Kernels kernels = {
#if defined(__x86_64__)
      &float_avx2_kernel,
#endif
      &float_kernel};
  return kernels;
}

const ConvKernel& choose_kernel(const Kernels& kernels, const ConvShape& shape, const std::string& forced) {
  const bool is_forced =
      std::any_of(kernels.begin(), kernels.end(), [&](const ConvKernel* kernel) { return kernel->name == forced; });
  for (const ConvKernel* kernel : kernels)
    if ((!is_forced || kernel->name == forced) && kernel->available() && kernel->supports(shape)) return *kernel;
  return *kernels.back();
}

std::string forced_kernel() {
  const char* name = std::getenv("ADASTE_RUNTIME_KERNEL");
  if (name == nullptr || *name == '\0') return {};
  std::string known;
  for (const Kernels* kernels : {&binary_kernels(), &int8_kernels(), &float_kernels()})
    for (const ConvKernel* kernel : *kernels) {
      if (!kernel->available()) continue;
      if (kernel->name == std::string(name)) return name;
      known += text(known.empty() ? "" : ", ", kernel->name);
    }
  fail("ADASTE_RUNTIME_KERNEL must be one of ", std::string_view(known), ", got '", name, "'");
}

}  // namespace adaste

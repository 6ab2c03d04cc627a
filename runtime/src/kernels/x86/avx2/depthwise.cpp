// One-bit depthwise convolution (depthwise.h) on AVX2.
#include <immintrin.h>

#include "kernels/depthwise.h"
#include "kernels/registry.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

struct Avx2 {
  typedef float Vector __attribute__((vector_size(32), may_alias));
  typedef float Loose __attribute__((vector_size(32), aligned(4), may_alias));
  static constexpr int lanes = 8;
  static constexpr int columns = 10;
  static Vector add_product(Vector sum, Vector input, Vector weight) { return _mm256_fmadd_ps(input, weight, sum); }
};

}  // namespace

const ConvKernel avx2_depthwise_kernel = depthwise_kernel_of<Avx2>("avx2-depthwise", has_avx2);
const ConvKernel avx2_depthwise_int8_kernel = depthwise_int8_kernel_of<Avx2>("avx2-depthwise-int8", has_avx2);

}  // namespace adaste

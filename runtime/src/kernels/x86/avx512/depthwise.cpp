// One-bit depthwise convolution (depthwise.h) with AVX-512.
#include "kernels/depthwise.h"
#include "kernels/x86/avx512/vectors.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

struct Avx512 {
  typedef float Vector __attribute__((vector_size(64), may_alias));
  typedef float Loose __attribute__((vector_size(64), aligned(4), may_alias));
  static constexpr int lanes = 16;
  static constexpr int columns = 14;
  static Vector add_product(Vector sum, Vector input, Vector weight) { return _mm512_fmadd_ps(input, weight, sum); }
};

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  return has_avx512(avx512f);
#endif
}

}  // namespace

extern const ConvKernel avx512_depthwise_kernel, avx512_depthwise_int8_kernel;
const ConvKernel avx512_depthwise_kernel = depthwise_kernel_of<Avx512>("avx512-depthwise", available);
const ConvKernel avx512_depthwise_int8_kernel =
    depthwise_int8_kernel_of<Avx512>("avx512-depthwise-int8", available);

}  // namespace adaste

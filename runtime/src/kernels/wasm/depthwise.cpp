// One-bit depthwise convolution (depthwise.h) in WebAssembly.
#include "kernels/depthwise.h"
#include "kernels/registry.h"

namespace adaste {
namespace {

struct Channels {
  typedef float Vector __attribute__((vector_size(16), may_alias));
  typedef float Loose __attribute__((vector_size(16), aligned(4), may_alias));
  static constexpr int lanes = 4;
  static constexpr int columns = 4;
  static Vector add_product(Vector sum, Vector input, Vector weight) { return sum + input * weight; }
};

bool available() { return true; }  // a module with vectors is not even compiled elsewhere

}  // namespace

const ConvKernel simd128_depthwise_kernel = depthwise_kernel_of<Channels>("simd128-depthwise", available);
const ConvKernel simd128_depthwise_int8_kernel =
    depthwise_int8_kernel_of<Channels>("simd128-depthwise-int8", available);

}  // namespace adaste

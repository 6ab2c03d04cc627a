// One-bit depthwise convolution (depthwise.h) with NEON.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/depthwise.h"

namespace adaste {
namespace {

struct NeonChannels {
  typedef float Vector __attribute__((vector_size(16), may_alias));
  typedef float Loose __attribute__((vector_size(16), aligned(4), may_alias));
  static constexpr int lanes = 4;
  static constexpr int columns = 14;
  static Vector add_product(Vector sum, Vector input, Vector weight) { return vfmaq_f32(sum, input, weight); }
};

bool available() { return true; }  // part of every 64-bit ARM processor

}  // namespace

extern const ConvKernel neon_depthwise_kernel, neon_depthwise_int8_kernel;
const ConvKernel neon_depthwise_kernel = depthwise_kernel_of<NeonChannels>("neon-depthwise", available);
const ConvKernel neon_depthwise_int8_kernel = depthwise_int8_kernel_of<NeonChannels>("neon-depthwise-int8", available);

}  // namespace adaste

#endif

// One-bit depthwise convolution (depthwise.h) with NEON.
#if defined(__aarch64__)

#include "kernels/depthwise.h"

namespace adaste {
namespace {

struct NeonChannels {
  using Vector = float __attribute__((vector_size(16), may_alias));
  using Loose = float __attribute__((vector_size(16), aligned(4), may_alias));
  static constexpr int lanes = 4;
  static constexpr int columns = 14;
};

bool available() { return true; }  // part of every 64-bit ARM processor

}  // namespace

extern const ConvKernel neon_depthwise_kernel;
const ConvKernel neon_depthwise_kernel = depthwise_kernel_of<NeonChannels>("neon-depthwise", available);

}  // namespace adaste

#endif

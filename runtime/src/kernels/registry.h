// Every kernel there is, and the choice among them.
#pragma once

#include <string>
#include <vector>

#include "kernels/contract.h"

namespace adaste {

extern const ConvKernel scalar_kernel;       // one-bit weights: supports every shape, everywhere
extern const ConvKernel scalar_int8_kernel;  // the same with 8-bit activations
extern const ConvKernel float_kernel;        // float32 weights: likewise
#if defined(__x86_64__)
extern const ConvKernel amx_kernel;  // with 8-bit activations
extern const ConvKernel avx2_kernel;
extern const ConvKernel avx2_depthwise_kernel;
extern const ConvKernel avx2_depthwise_int8_kernel;
extern const ConvKernel avx2_int8_kernel;
extern const ConvKernel avx2_blocks_kernel;
extern const ConvKernel avx512_depthwise_kernel;
extern const ConvKernel avx512_depthwise_int8_kernel;
extern const ConvKernel avx512_five_kernel;
extern const ConvKernel avx512_six_kernel;
extern const ConvKernel avx512_int8_kernel;  // with 8-bit activations
extern const ConvKernel avx512_int8_wide_kernel;
extern const ConvKernel vnni_kernel;  // with 8-bit activations
extern const ConvKernel float_avx2_kernel;
#elif defined(__aarch64__)
extern const ConvKernel neon_kernel;
extern const ConvKernel neon_depthwise_kernel;
extern const ConvKernel neon_depthwise_int8_kernel;
extern const ConvKernel neon_dot_kernel;  // with 8-bit activations
#elif defined(__wasm_simd128__)
extern const ConvKernel simd128_kernel;
extern const ConvKernel simd128_depthwise_kernel;
extern const ConvKernel simd128_depthwise_int8_kernel;
extern const ConvKernel simd128_int8_kernel;  // with 8-bit activations
#endif

using Kernels = std::vector<const ConvKernel*>;

// Fastest first; the last of each supports everything everywhere.
const Kernels& binary_kernels();  // one-bit weights, float32 activations
const Kernels& int8_kernels();    // one-bit weights, 8-bit activations
const Kernels& float_kernels();   // float32 weights

// The first kernel that is available here and supports the shape. Where `forced` names one of the kernels, only that
// and the last one are considered.
const ConvKernel& choose_kernel(const Kernels& kernels, const ConvShape& shape, const std::string& forced);

// The kernel that the environment variable ADASTE_RUNTIME_KERNEL forces, or an empty string. An error where there is
// none of that name or this processor cannot run it.
std::string forced_kernel();

}  // namespace adaste

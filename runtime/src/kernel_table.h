// Every kernel there is, and the choice among them.
#pragma once

#include <vector>

#include "kernels.h"

namespace adaste {

extern const ConvKernel scalar_kernel;  // supports every shape, everywhere
extern const ConvKernel avx2_kernel;    // tables of signed sums

// Kernels for one-bit weights and float32 activations, fastest first; the last is the scalar one.
const std::vector<const ConvKernel*>& binary_kernels();

}  // namespace adaste

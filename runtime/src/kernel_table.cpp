#include "kernel_table.h"

namespace adaste {

const std::vector<const ConvKernel*>& binary_kernels() {
  static const std::vector<const ConvKernel*> kernels = {&avx2_kernel, &scalar_kernel};
  return kernels;
}

}  // namespace adaste

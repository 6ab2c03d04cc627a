// One-bit weights and float32 activations in WebAssembly: kernels/strips.h with strips of 16, 8 or 4 positions.
#include "kernels/strips.h"

#include "kernels/registry.h"
#include "kernels/wasm/simd128.h"

namespace adaste {
namespace {

bool available() { return true; }  // a module with vectors is not even compiled elsewhere

int vectors_for(const ConvShape& shape) {
  return positions(shape) > 2 * Floats::lanes ? 4 : positions(shape) > Floats::lanes ? 2 : 1;
}

int tasks(const ConvShape& shape, int /*stage*/) {
  return strip_tasks<Floats>(shape, vectors_for(shape) * Floats::lanes);
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  switch (vectors_for(shape)) {
    case 4: return convolve_strip<Floats, 4>(shape, task, x, prepared, epilogue, y);
    case 2: return convolve_strip<Floats, 2>(shape, task, x, prepared, epilogue, y);
    default: return convolve_strip<Floats, 1>(shape, task, x, prepared, epilogue, y);
  }
}

}  // namespace

const ConvKernel simd128_kernel = {"simd128",           available,    enough_outputs, strip_weight_bytes, strip_prepare,
                                   strip_scratch_bytes, strip_stages, tasks,          run};

}  // namespace adaste

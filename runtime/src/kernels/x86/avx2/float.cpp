// Float32 weights on processors with AVX2 and fused multiply-adds.
#include "kernels/generic/float.h"
#include "kernels/x86/cpu.h"

namespace adaste {

const ConvKernel float_avx2_kernel = {"float-avx2",  has_avx2, supports, weight_bytes, prepare,
                                      scratch_bytes, stages,   tasks,    run};

}  // namespace adaste

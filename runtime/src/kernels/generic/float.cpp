// Float32 weights on any processor.
#include "kernels/generic/float.h"

namespace adaste {
namespace {

bool available() { return true; }

}  // namespace

const ConvKernel float_kernel = {"float",       available, supports, weight_bytes, prepare,
                                 scratch_bytes, stages,    tasks,    run};

}  // namespace adaste

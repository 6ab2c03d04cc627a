// Rows on processors with AVX2 and fused multiply-adds.
#include "kernels/generic/rows.h"

namespace adaste {

const RowKernels avx2_rows = rows_here;

}  // namespace adaste

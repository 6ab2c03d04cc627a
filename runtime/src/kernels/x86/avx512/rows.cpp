// Rows on processors with AVX-512.
#include "kernels/generic/rows.h"

namespace adaste {

const RowKernels avx512_rows = rows_here;

}  // namespace adaste

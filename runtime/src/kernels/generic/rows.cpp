// Rows on any processor, and the choice among all.
#include "kernels/generic/rows.h"

#if defined(__x86_64__)
#include "kernels/x86/cpu.h"
#endif

namespace adaste {

const RowKernels generic_rows = rows_here;

const RowKernels& row_kernels() {
#if defined(__x86_64__)
  if (has_avx2()) return avx2_rows;
#endif
  return generic_rows;
}

}  // namespace adaste

// Rows on any processor, and the choice among all.
#include "kernels/generic/rows.h"

#if defined(__x86_64__)
#include "kernels/x86/cpu.h"
#endif

namespace adaste {

const RowKernels generic_rows = rows_here;

// Asking the processor takes long where it is a virtual one: once.
const RowKernels& row_kernels() {
#if defined(__x86_64__)
  static const RowKernels& chosen = has_avx512(avx512f) ? avx512_rows : has_avx2() ? avx2_rows : generic_rows;
  return chosen;
#else
  return generic_rows;
#endif
}

}  // namespace adaste

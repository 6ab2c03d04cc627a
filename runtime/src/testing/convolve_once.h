// For tests: one convolution by one kernel, and what kernels there are.
#pragma once

#include <nanobind/nanobind.h>

namespace adaste {

void bind_convolve_once(nanobind::module_& module);

}  // namespace adaste

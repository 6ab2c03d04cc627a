#include "testing/convolve_once.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "exec/memory.h"
#include "exec/workers.h"
#include "kernels/registry.h"
#include "kernels/weight_order.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace adaste {
namespace {

using Values = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
using Result = nb::ndarray<float, nb::c_contig, nb::device::cpu>;

const ConvKernel& kernel_named(const std::string& name) {
  for (const Kernels* kernels : {&binary_kernels(), &int8_kernels(), &float_kernels()})
    for (const ConvKernel* kernel : *kernels)
      if (kernel->name == name) return *kernel;
  fail("there is no kernel '", name, "'");
}

bool is_in(const Kernels& kernels, const ConvKernel& kernel) {
  return std::find(kernels.begin(), kernels.end(), &kernel) != kernels.end();
}

std::vector<std::string> names(const Kernels& kernels) {
  std::vector<std::string> result;
  for (const ConvKernel* kernel : kernels)
    if (kernel->available()) result.emplace_back(kernel->name);
  return result;
}

ConvShape shape_from(const std::array<int, 14>& s) {
  return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13]};
}

const float* pointer(const std::optional<Values>& values) { return values ? values->data() : nullptr; }

// False where the kernel does not support the shape. Sizes of arrays are the caller's affair.
bool convolve_once(const std::string& name, const std::array<int, 14>& sizes, const Values& x, const Rows& rows,
                   const std::optional<Values>& scale, const std::optional<Values>& shift,
                   const std::optional<Values>& residual, bool relu, const std::optional<std::array<float, 2>>& range,
                   int threads, const Result& y) {
  ConvShape shape = shape_from(sizes);
  shape.threads = threads;
  const ConvKernel& kernel = kernel_named(name);
  if (!kernel.supports(shape)) return false;
  const Memory prepared(kernel.weight_bytes(shape));
  const Memory scratch(kernel.scratch_bytes(shape));
  const bool one_bit = !is_in(float_kernels(), kernel);
  kernel.prepare(shape, one_bit ? channels_last(shape, rows.data()).data() : rows.data(), prepared.data());
  const Epilogue epilogue{pointer(scale), pointer(shift), pointer(residual), relu};
  const Quantisation quantisation = range ? Quantisation{(*range)[0], (*range)[1], false} : Quantisation{0, 0, true};
  Workers workers(threads);
  for (int stage = 0; stage < kernel.stages(shape); ++stage)
    workers.run(kernel.tasks(shape, stage), [&](int task) {
      kernel.run(shape, stage, task, x.data(), prepared.data(), epilogue, quantisation, y.data(), scratch.data());
    });
  return true;
}

}  // namespace

void bind_convolve_once(nb::module_& module) {
  module.def("binary_kernels", [] { return names(binary_kernels()); });
  module.def("int8_kernels", [] { return names(int8_kernels()); });
  module.def("float_kernels", [] { return names(float_kernels()); });
  module.def("convolve_once", &convolve_once, "kernel"_a, "sizes"_a, "x"_a, "rows"_a, "scale"_a.none(),
             "shift"_a.none(), "residual"_a.none(), "relu"_a, "range"_a.none(), "threads"_a, "y"_a);
}

}  // namespace adaste

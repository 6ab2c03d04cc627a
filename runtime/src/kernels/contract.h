// The interface between the network (shapes, memory, threads) and the convolution kernels, which know nothing of it.
//
// Activations are float32 in the order (batch, height, width, channels). A linear layer is a 1x1 convolution on a 1x1
// image. A kernel is one constant of type ConvKernel in its own file, compiled with its own flags; the tables in
// registry.cpp list them, fastest first, and the first that is available here and supports the shape is used.
//
// What a kernel may rely on:
// - `prepared` and `scratch` are aligned to 64 bytes, x and y to at least 4 bytes; no array may be read or written
//   beyond its end, and x, residual and y do not overlap.
// - The tasks of a stage run in any order and on any thread, each exactly once; a stage starts when the one before has
//   ended. `scratch` is shared by all tasks and keeps its contents between the stages of one call, not between calls;
//   with `scratch_per_thread` each thread has its own instead, which keeps nothing from one task to the next, and stays
//   in the thread's cache.
// - The shape passed to `prepare` differs from the one passed to `run` in nothing but `batch` and `threads`, so what
//   `supports`, `weight_bytes` and `prepare` do must not depend on these; `scratch_bytes`, `stages` and `tasks` may.
//   With `scratch_per_thread`, scratch_bytes must not grow with threads or shrink with the batch.
// - Sizes are checked before: every extent is positive, channels and out_channels are divisible by groups, K (below) is
//   at most 2^22, and x and y have fewer than 2^31 elements per image. The whole batch may have more: compute offsets
//   in ptrdiff_t or size_t.
// What it must do:
// - Not allocate, throw, lock or keep state in `run`: the network calls it from several threads in its steady state.
// - Give the same result for any number of threads, and for an image the same whatever else is in the batch.
// - Agree with the scalar kernel up to the order of summation (float32 kernels); 8-bit kernels follow int8/levels.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace adaste {

// Sizes of x: (batch, height, width, channels), y: (batch, out_height, out_width, out_channels). Padding is of zeros.
// Output channel o reads the channels [g * channels / groups, (g + 1) * channels / groups), g = o / (out_channels /
// groups).
struct ConvShape {
  int batch, height, width, channels;
  int out_height, out_width, out_channels;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, groups;
  int threads = 1;  // how many will share the work; for one, a single task is best where each has a cost of its own
};

// y = relu(scale * conv + shift + residual); a null pointer means 1, 0, none. scale and shift have out_channels
// elements, residual has y's shape.
struct Epilogue {
  const float* scale;
  const float* shift;
  const float* residual;
  bool relu;
};

// For kernels with 8-bit activations: the range of x, measured on each image by itself when dynamic (low and high are
// then ignored). Kernels with float activations ignore all of it.
struct Quantisation {
  float low, high;
  bool dynamic;
};

struct ConvKernel {
  const char* name;
  bool (*available)();                       // does this CPU have what the kernel needs
  bool (*supports)(const ConvShape&);        // is it right, and worth using, for this shape
  size_t (*weight_bytes)(const ConvShape&);  // prepared weights, made once at load

  // `rows` are out_channels rows, packed without gaps. One-bit kernels: ceil(K / 8) bytes each, K = channels / groups *
  // kernel_h * kernel_w; weight i = (row * kernel_w + column) * channels / groups + c (weight_order.h) is bit i % 8 of
  // byte i / 8, least significant first, 0 -> -1 and 1 -> +1; unused bits are 0. Float kernels: K float32 values as in
  // the file, in the order (c, row, column) and of any alignment.
  void (*prepare)(const ConvShape&, const uint8_t* rows, void* prepared);

  size_t (*scratch_bytes)(const ConvShape&);  // of all tasks: tables, quantised activations
  int (*stages)(const ConvShape&);            // barriers between stages: e.g. 0 find ranges, 1 quantise, 2 convolve
  int (*tasks)(const ConvShape&, int stage);  // independent pieces of a stage, for threads
  void (*run)(const ConvShape&, int stage, int task, const float* x, const void* prepared, const Epilogue&,
              const Quantisation&, float* y, void* scratch);

  bool scratch_per_thread = false;
  bool measures_first = false;  // stage 0 finds ranges: next to nothing where they are given
};

// The functions of this header are static: a copy compiled for one file's processor must not be linked into another's.

// The number of weights behind one output: K above.
static inline size_t window_size(const ConvShape& shape) {
  return static_cast<size_t>(shape.channels / shape.groups) * static_cast<size_t>(shape.kernel_h) *
         static_cast<size_t>(shape.kernel_w);
}

// Bytes of a row of one-bit weights.
static inline size_t row_bytes_of(const ConvShape& shape) { return (window_size(shape) + 7) / 8; }

// The number of elements of one image of x.
static inline ptrdiff_t image_size(const ConvShape& shape) {
  return static_cast<ptrdiff_t>(shape.height) * shape.width * shape.channels;
}

// The number of pixels of y: of all images of the batch.
static inline ptrdiff_t positions(const ConvShape& shape) {
  return static_cast<ptrdiff_t>(shape.batch) * shape.out_height * shape.out_width;
}

// Weight i of a row of one-bit weights: true for +1.
static inline bool weight_bit(const uint8_t* row, size_t i) { return ((row[i / 8] >> (i % 8)) & 1U) != 0; }

// `count` weights (1 to 64) of a row from number `first` on, the first in the lowest bit.
static inline uint64_t weight_bits(const uint8_t* row, size_t first, size_t count) {
  const uint8_t* from = row + first / 8;
  const size_t before = first % 8;
  uint64_t bits = from[0] >> before;
  for (size_t i = 1; 8 * i < before + count; ++i) bits |= static_cast<uint64_t>(from[i]) << (8 * i - before);
  return count < 64 ? bits & ((uint64_t{1} << count) - 1) : bits;
}

// The sum of each row of one-bit weights.
static inline void sum_weights(const ConvShape& shape, const uint8_t* rows, int32_t* sums) {
  const size_t row_bytes = row_bytes_of(shape);
  for (int output = 0; output < shape.out_channels; ++output, rows += row_bytes) {
    int32_t positive = 0;
    for (size_t i = 0; i < row_bytes; ++i) positive += __builtin_popcount(rows[i]);
    sums[output] = 2 * positive - static_cast<int32_t>(window_size(shape));
  }
}

// One output value from its sum, its channel and its place in y.
static inline float finish(float sum, int channel, ptrdiff_t place, const Epilogue& epilogue) {
  float value = epilogue.scale != nullptr ? epilogue.scale[channel] * sum : sum;
  value += epilogue.shift != nullptr ? epilogue.shift[channel] : 0.0F;
  value += epilogue.residual != nullptr ? epilogue.residual[place] : 0.0F;
  return epilogue.relu && value < 0.0F ? 0.0F : value;
}

}  // namespace adaste

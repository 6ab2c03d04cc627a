// Depthwise convolution with one-bit weights: every output channel sees one input channel, so vectors run along the
// channels. A weight is 1 or -1, and a fused multiply-add of an input with it rounds no more than an addition does.
// 8-bit activations (int8/levels.h) are levels less that of zero, in float32, whose sums are exact.
//
// A unit of work is one vector of channels for some rows of an image. It copies the rows that a window touches,
// with their padding, into a ring of kernel_h rows, where these channels of neighbouring columns lie side by side:
// windows need no look at the borders, and no two pixels compete for a place in the first-level cache, as their
// distances in an image make them do. With a stride of s, columns of the same remainder modulo s (a phase) follow each
// other, so that a tap of neighbouring windows always reads neighbouring vectors.
//
// A processor gives a type Lanes with
//     Vector, Loose             a vector of floats, the compilers' portable one; the same at any address (by typedef:
//                               where they come from `using`, clang takes no notice of the alignment)
//     constexpr int lanes       its floats
//     constexpr int columns     outputs whose sums are in registers at a time
//     Vector add_product(Vector sum, Vector input, Vector weight)    input * weight + sum
// A last vector of channels that is not full begins earlier, and computes some channels twice.
#pragma once

#include <cstring>

#include "kernels/int8/dot.h"

namespace adaste {
namespace {

constexpr size_t ring_budget = size_t{1} << 20;  // bytes: rings stay in the second-level cache

struct Depthwise {
  int phases;         // of columns
  ptrdiff_t columns;  // of a phase
  int blocks;         // vectors of channels
  int parts;          // of the rows of an image, and of the blocks
  int units, tasks;

  ptrdiff_t row(int lanes) const { return phases * columns * lanes; }  // floats
};

template <class Lanes>
Depthwise depthwise_for(const ConvShape& shape) {
  Depthwise plan{smaller(shape.stride_w, shape.kernel_w), 0, ceil_div(shape.channels, Lanes::lanes), 1, 0, 0};
  plan.columns = shape.out_width - 1 + ceil_div(shape.kernel_w, shape.stride_w);
  const auto work = static_cast<ptrdiff_t>(window_size(shape)) * shape.out_width * Lanes::lanes;  // of a row
  if (shape.threads > 1) plan.parts = task_count(shape.out_height, work);
  plan.units = shape.batch * plan.blocks * plan.parts;
  plan.tasks = task_count(plan.units, work * ceil_div(shape.out_height, plan.parts));
  return plan;
}

template <class Lanes>
size_t ring_bytes(const ConvShape& shape) {
  return aligned(static_cast<size_t>(shape.kernel_h) *
                 static_cast<size_t>(depthwise_for<Lanes>(shape).row(Lanes::lanes)) * sizeof(float));
}

template <class Lanes>
bool depthwise_supports(const ConvShape& shape) {
  const bool depthwise = shape.channels == shape.groups && shape.out_channels == shape.groups;
  return depthwise && shape.channels >= Lanes::lanes && ring_bytes<Lanes>(shape) <= ring_budget;
}

template <class Lanes>
size_t depthwise_weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(ceil_div(shape.channels, Lanes::lanes)) * Lanes::lanes * window_size(shape) *
         sizeof(float);
}

// The first channel of a block.
template <class Lanes>
int depthwise_channel(const ConvShape& shape, int block) {
  return smaller(block * Lanes::lanes, shape.channels - Lanes::lanes);
}

// In the order (block, row, phase, column of the phase, channel): 1 or -1.
template <class Lanes>
void depthwise_prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const size_t row_bytes = row_bytes_of(shape);
  auto* to = static_cast<float*>(prepared);
  for (int block = 0; block < ceil_div(shape.channels, Lanes::lanes); ++block)
    for (int row = 0; row < shape.kernel_h; ++row)
      for (int phase = 0; phase < smaller(shape.stride_w, shape.kernel_w); ++phase)
        for (int column = phase; column < shape.kernel_w; column += shape.stride_w)
          for (int lane = 0; lane < Lanes::lanes; ++lane) {
            const int channel = depthwise_channel<Lanes>(shape, block) + lane;
            const auto tap = static_cast<size_t>(row * shape.kernel_w + column);
            *to++ = weight_bit(rows + static_cast<size_t>(channel) * row_bytes, tap) ? 1.0F : -1.0F;
          }
}

inline int depthwise_stages(const ConvShape& /*shape*/) { return 1; }

template <class Lanes>
int depthwise_tasks(const ConvShape& shape, int /*stage*/) {
  return depthwise_for<Lanes>(shape).tasks;
}

template <class Lanes>
inline typename Lanes::Vector loose(const float* from) {
  static_assert(alignof(typename Lanes::Loose) == alignof(float), "channels begin anywhere");
  return *reinterpret_cast<const typename Lanes::Loose*>(from);
}

// Activations in a ring: as they are, or as levels less that of zero, as quantised() of int8/levels.h makes them, with
// the same operations in the same order.
template <class Lanes>
struct Activations {
  using Vector = typename Lanes::Vector;
  bool exact;
  Levels levels;

  Vector read(Vector values) const {
    if (exact) return values;
    constexpr float rounder = 12582912.0F;  // 1.5 * 2^23: what is added to it is rounded to a whole number
    Vector level = values * levels.inverse + levels.zero;
    level = level > 0.0F ? level : Vector{};
    level = level < 255.0F ? level : Vector{} + 255.0F;
    return ((level + rounder) - rounder) - levels.zero;
  }
  Vector sum_of(Vector sums) const { return exact ? sums : levels.scale * sums; }
};

// Row number `row` of an image, which may be in the padding; `pixels` are the image's, from the first channel on.
template <class Lanes>
void copy_row(const ConvShape& shape, const Depthwise& plan, const Activations<Lanes>& activations, const float* pixels,
              int row, float* to) {
  if (row < 0 || row >= shape.height) {
    std::memset(to, 0, static_cast<size_t>(plan.row(Lanes::lanes)) * sizeof(float));
    return;
  }
  pixels += static_cast<ptrdiff_t>(row) * shape.width * shape.channels;
  for (int phase = 0; phase < plan.phases; ++phase) {
    int column = phase - shape.pad_w;
    for (ptrdiff_t i = 0; i < plan.columns; ++i, column += shape.stride_w, to += Lanes::lanes) {
      const bool inside = column >= 0 && column < shape.width;
      *reinterpret_cast<typename Lanes::Vector*>(to) =
          inside ? activations.read(loose<Lanes>(pixels + static_cast<ptrdiff_t>(column) * shape.channels))
                 : typename Lanes::Vector{};
    }
  }
}

// What is the same for all outputs of a row.
template <class Lanes>
struct DepthwiseRow {
  const ConvShape& shape;
  const Depthwise& plan;
  const Activations<Lanes>& activations;
  const Epilogue& epilogue;
  const float* weights;
  const float* ring;
  int first;         // row of the ring with the first row of windows
  int channel;
  ptrdiff_t place;   // of the row's first output in y
};

// finish() of contract.h for a vector of channels.
template <class Lanes>
inline void store_outputs(typename Lanes::Vector sums, const DepthwiseRow<Lanes>& row, ptrdiff_t place, float* y) {
  using Vector = typename Lanes::Vector;
  const Epilogue& epilogue = row.epilogue;
  Vector values = row.activations.sum_of(sums);
  if (epilogue.scale != nullptr) values *= loose<Lanes>(epilogue.scale + row.channel);
  values += epilogue.shift != nullptr ? loose<Lanes>(epilogue.shift + row.channel) : Vector{};
  if (epilogue.residual != nullptr) values += loose<Lanes>(epilogue.residual + place);
  if (epilogue.relu) values = values < 0.0F ? Vector{} : values;
  *reinterpret_cast<typename Lanes::Loose*>(y + place) = values;
}

// `count` neighbouring outputs.
template <class Lanes, int count>
void convolve_columns(const DepthwiseRow<Lanes>& row, int column, float* y) {
  using Vector = typename Lanes::Vector;
  constexpr int lanes = Lanes::lanes;
  const ConvShape& shape = row.shape;
  Vector sums[count];
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) sums[i] = Vector{};
  const auto* weights = reinterpret_cast<const Vector*>(row.weights);
  int in_ring = row.first;
  for (int i = 0; i < shape.kernel_h; ++i) {
    const float* inputs = row.ring + in_ring * row.plan.row(lanes) + static_cast<ptrdiff_t>(column) * lanes;
    in_ring = in_ring + 1 < shape.kernel_h ? in_ring + 1 : 0;
    for (int phase = 0; phase < row.plan.phases; ++phase, inputs += row.plan.columns * lanes) {
      const auto* from = reinterpret_cast<const Vector*>(inputs);
#pragma GCC unroll 1  // of several taps compilers would keep the weights, and not all sums, in registers
      for (int tap = phase; tap < shape.kernel_w; tap += shape.stride_w, ++from) {
        const Vector weight = *weights++;
#pragma GCC unroll 16
        for (int o = 0; o < count; ++o) sums[o] = Lanes::add_product(sums[o], from[o], weight);
      }
    }
  }
  ptrdiff_t place = row.place + static_cast<ptrdiff_t>(column) * shape.out_channels;
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i, place += shape.out_channels) store_outputs<Lanes>(sums[i], row, place, y);
}

template <class Lanes, int count>
void convolve_at_most(const DepthwiseRow<Lanes>& row, int column, int columns, float* y) {
  if constexpr (count > 1)
    if (columns < count) return convolve_at_most<Lanes, count - 1>(row, column, columns, y);
  convolve_columns<Lanes, count>(row, column, y);
}

// Blocks of columns are of equal size up to one, since a last block of few would use the processor badly.
template <class Lanes>
void convolve_unit(const ConvShape& shape, const Depthwise& plan, int unit, const Activations<Lanes>& activations,
                   const float* x, const void* prepared, const Epilogue& epilogue, float* y, float* ring) {
  const int part = unit % plan.parts;
  const int block = unit / plan.parts % plan.blocks;
  const ptrdiff_t image = unit / plan.parts / plan.blocks;
  DepthwiseRow<Lanes> row{shape, plan, activations, epilogue, static_cast<const float*>(prepared), ring, 0, 0, 0};
  row.weights += static_cast<ptrdiff_t>(block) * Lanes::lanes * static_cast<ptrdiff_t>(window_size(shape));
  row.channel = depthwise_channel<Lanes>(shape, block);
  const float* pixels = x + image * image_size(shape) + row.channel;
  const int blocks = ceil_div(shape.out_width, Lanes::columns);
  const auto end = static_cast<int>(part_start(shape.out_height, plan.parts, part + 1));
  int filled = 0;  // rows of the padded image that have been copied
  for (auto i = static_cast<int>(part_start(shape.out_height, plan.parts, part)); i < end; ++i) {
    const int top = i * shape.stride_h;
    for (filled = larger(filled, top); filled < top + shape.kernel_h; ++filled)
      copy_row<Lanes>(shape, plan, activations, pixels, filled - shape.pad_h,
                      ring + filled % shape.kernel_h * plan.row(Lanes::lanes));
    row.first = top % shape.kernel_h;
    row.place = (image * shape.out_height + i) * shape.out_width * shape.out_channels + row.channel;
    for (int number = 0; number < blocks; ++number) {
      const auto start = static_cast<int>(part_start(shape.out_width, blocks, number));
      const auto next = static_cast<int>(part_start(shape.out_width, blocks, number + 1));
      convolve_at_most<Lanes, Lanes::columns>(row, start, next - start, y);
    }
  }
}

template <class Lanes>
void depthwise_run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
                   const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* scratch) {
  const Depthwise plan = depthwise_for<Lanes>(shape);
  const Units units{plan.parts, plan.units, plan.tasks};
  units.run(task, [&](int unit) {
    convolve_unit<Lanes>(shape, plan, unit, {true, {}}, x, prepared, epilogue, y, static_cast<float*>(scratch));
  });
}

template <class Lanes>
constexpr ConvKernel depthwise_kernel_of(const char* name, bool (*available)()) {
  return {name,
          available,
          depthwise_supports<Lanes>,
          depthwise_weight_bytes<Lanes>,
          depthwise_prepare<Lanes>,
          ring_bytes<Lanes>,
          depthwise_stages,
          depthwise_tasks<Lanes>,
          depthwise_run<Lanes>,
          true};
}

// The same with 8-bit activations. Stage 0 finds the ranges of images, which all threads then see: the scratch memory
// has them, and a ring for each task.

template <class Lanes>
struct DepthwiseRange {
  static Range range(const float* values, ptrdiff_t count) {
    using Vector = typename Lanes::Vector;
    Vector low{};
    Vector high{};
    for (; count >= Lanes::lanes; count -= Lanes::lanes, values += Lanes::lanes) {
      const Vector own = loose<Lanes>(values);
      low = own < low ? own : low;  // in this order NaN is ignored
      high = own > high ? own : high;
    }
    Range range{0.0F, 0.0F};
    const auto widen = [&](float value) {
      range.low = value < range.low ? value : range.low;
      range.high = value > range.high ? value : range.high;
    };
    for (int i = 0; i < Lanes::lanes; ++i) widen(low[i]), widen(high[i]);
    for (; count > 0; --count) widen(*values++);
    return range;
  }
};

template <class Lanes>
bool depthwise_int8_supports(const ConvShape& shape) {
  constexpr size_t exact = (size_t{1} << 24) / 255;  // levels, whose sum is a whole number of 24 bits
  return window_size(shape) <= exact && depthwise_supports<Lanes>(shape);
}

template <class Lanes>
size_t depthwise_int8_scratch_bytes(const ConvShape& shape) {
  return range_bytes(shape) + static_cast<size_t>(depthwise_for<Lanes>(shape).tasks) * ring_bytes<Lanes>(shape);
}

inline int depthwise_int8_stages(const ConvShape& /*shape*/) { return 2; }

template <class Lanes>
int depthwise_int8_tasks(const ConvShape& shape, int stage) {
  return stage == 0 ? shape.batch * range_pieces(shape) : depthwise_for<Lanes>(shape).tasks;
}

template <class Lanes>
void depthwise_int8_run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared,
                        const Epilogue& epilogue, const Quantisation& quantisation, float* y, void* scratch) {
  if (stage == 0) return find_range<DepthwiseRange<Lanes>>(shape, task, x, quantisation, scratch);
  const Depthwise plan = depthwise_for<Lanes>(shape);
  const Units units{plan.parts, plan.units, plan.tasks};
  auto* const ring = reinterpret_cast<float*>(static_cast<uint8_t*>(scratch) + range_bytes(shape) +
                                              static_cast<size_t>(task) * ring_bytes<Lanes>(shape));
  units.run(task, [&](int unit) {
    const Levels levels = image_levels(shape, unit / plan.parts / plan.blocks, quantisation, scratch);
    convolve_unit<Lanes>(shape, plan, unit, {false, levels}, x, prepared, epilogue, y, ring);
  });
}

template <class Lanes>
constexpr ConvKernel depthwise_int8_kernel_of(const char* name, bool (*available)()) {
  return {name,
          available,
          depthwise_int8_supports<Lanes>,
          depthwise_weight_bytes<Lanes>,
          depthwise_prepare<Lanes>,
          depthwise_int8_scratch_bytes<Lanes>,
          depthwise_int8_stages,
          depthwise_int8_tasks<Lanes>,
          depthwise_int8_run<Lanes>,
          false,
          true};
}

}  // namespace
}  // namespace adaste

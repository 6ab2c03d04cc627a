// Convolution of 8-bit activations with one-bit weights; what processors share. levels.h says what the 8 bits mean.
//
// Stage 0 finds the range of each image, stage 1 writes a padded copy of the activations in 8 bits, stage 2 convolves
// it. The copy has four channels (a quad) side by side, which is what dot product instructions take; a last quad is
// filled up with zeros, so that its weights do not matter. Padding pixels hold the level of 0.
//
// A processor gives a type Dot with
//     constexpr int pixels, outputs   of a block: output pixels and output channels
//     constexpr int offset            what is taken from levels 0..255 to make stored bytes: 0, or 128 for signed ones
//     size_t weight_bytes(const Bytes&, int outputs)     prepared weights of some output channels of a group
//     Range range(const float* values, ptrdiff_t count)  smallest and largest, and 0
//     void quantise(const float* values, int count, const Levels&, uint8_t* to)
//     void convolve(const Bytes&, const DotBlock<pixels>&, const Epilogue&, float* y)
// Prepared weights start with the sum of weights of each output channel.
#pragma once

#include "kernels/int8/row.h"

namespace adaste {
namespace {

struct Range {
  float low, high;
};

// The padded copy.
struct Bytes {
  Axis rows, columns;
  int out_channels;
  int channels, quads;          // of a group
  ptrdiff_t pixel, row, image;  // bytes of each

  int taps() const { return rows.kernel * columns.kernel; }
};

template <int max_pixels>
struct DotBlock {
  int pixels;
  const uint8_t* bytes[max_pixels];  // the first of each pixel's window
  Levels levels[max_pixels];
  const uint8_t* weights;
  const int32_t* weight_sums;  // of output number `channel` and after
  int channel, outputs;
  ptrdiff_t place;
};

inline Bytes bytes_for(const ConvShape& shape) {
  Bytes bytes{row_axis(shape), column_axis(shape), shape.out_channels, shape.channels / shape.groups, 0, 0, 0, 0};
  bytes.quads = ceil_div(bytes.channels, quad_bytes);
  bytes.pixel = static_cast<ptrdiff_t>(shape.groups) * bytes.quads * quad_bytes;
  bytes.row = bytes.pixel * bytes.columns.extent(shape.out_width);
  bytes.image = bytes.row * bytes.rows.extent(shape.out_height);
  return bytes;
}

constexpr ptrdiff_t range_piece = 32768;  // activations of a task of stage 0
constexpr size_t alignment = 64;

inline size_t aligned(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

inline int range_pieces(const ConvShape& shape) {
  return static_cast<int>((image_size(shape) + range_piece - 1) / range_piece);
}

// The scratch memory: the ranges of all pieces of all images, then the copy.
inline size_t range_bytes(const ConvShape& shape) {
  return aligned(static_cast<size_t>(shape.batch) * static_cast<size_t>(range_pieces(shape)) * sizeof(Range));
}

// The levels of an image, from the ranges of its pieces.
inline Levels image_levels(const ConvShape& shape, ptrdiff_t image, const Quantisation& quantisation,
                           const void* scratch) {
  if (!quantisation.dynamic) return levels_for(quantisation.low, quantisation.high);
  const int pieces = range_pieces(shape);
  const Range* ranges = static_cast<const Range*>(scratch) + image * pieces;
  Range all = ranges[0];
  for (int i = 1; i < pieces; ++i) {
    all.low = ranges[i].low < all.low ? ranges[i].low : all.low;
    all.high = ranges[i].high > all.high ? ranges[i].high : all.high;
  }
  return levels_for(all.low, all.high);
}

template <class Dot>
ptrdiff_t dot_blocks(const ConvShape& shape) {
  return (positions(shape) + Dot::pixels - 1) / Dot::pixels;
}

template <class Dot>
Units dot_units(const ConvShape& shape) {
  const auto window = static_cast<ptrdiff_t>(window_size(shape));
  const int outputs = smaller(Dot::outputs, shape.out_channels / shape.groups);
  const int parts = task_count(dot_blocks<Dot>(shape), window * outputs * Dot::pixels);
  const int count = output_blocks(shape, Dot::outputs).per_group * shape.groups * parts;
  return {parts, count, task_count(count, window * outputs * ((positions(shape) + parts - 1) / parts))};
}

// The rows of the copies of all images.
inline RowTasks copy_tasks(const ConvShape& shape, const Bytes& bytes) {
  return row_tasks(shape.batch * bytes.rows.extent(shape.out_height), bytes.row);
}

inline bool dot_supports(const ConvShape& shape) {
  return shape.groups == 1 || shape.channels / shape.groups >= quad_bytes;  // fewer leave quads all but empty
}

// Of the sums of weights, before the weights.
inline size_t weight_sum_bytes(const ConvShape& shape) {
  return aligned(static_cast<size_t>(shape.out_channels) * sizeof(int32_t));
}

template <class Dot>
size_t dot_weight_bytes(const ConvShape& shape) {
  return weight_sum_bytes(shape) +
         static_cast<size_t>(shape.groups) * Dot::weight_bytes(bytes_for(shape), shape.out_channels / shape.groups);
}

// The weights of one quad and tap for up to 16 outputs of a group, whose rows of weights start at `rows`: bit 4 *
// output + channel.
inline uint64_t quad_mask(const ConvShape& shape, const uint8_t* rows, int outputs, int tap, int quad) {
  const int channels = shape.channels / shape.groups;
  const auto first = static_cast<size_t>(tap) * static_cast<size_t>(channels) + static_cast<size_t>(quad) * quad_bytes;
  const auto count = static_cast<size_t>(smaller(quad_bytes, channels - quad * quad_bytes));
  const size_t row_bytes = row_bytes_of(shape);
  uint64_t mask = 0;
  for (int output = 0; output < outputs; ++output, rows += row_bytes)
    mask |= weight_bits(rows, first, count) << (quad_bytes * output);
  return mask;
}

inline size_t dot_scratch_bytes(const ConvShape& shape) {
  return range_bytes(shape) + static_cast<size_t>(bytes_for(shape).image) * static_cast<size_t>(shape.batch);
}

inline int dot_stages(const ConvShape& /*shape*/) { return 3; }

template <class Dot>
int dot_tasks(const ConvShape& shape, int stage) {
  if (stage == 0) return shape.batch * range_pieces(shape);
  if (stage == 1) return copy_tasks(shape, bytes_for(shape)).count();
  return dot_units<Dot>(shape).tasks;
}

template <class Dot>
void find_range(const ConvShape& shape, int task, const float* x, const Quantisation& quantisation, void* scratch) {
  if (!quantisation.dynamic) return;
  const int pieces = range_pieces(shape);
  const ptrdiff_t start = task % pieces * range_piece;
  const ptrdiff_t left = image_size(shape) - start;
  const float* values = x + task / pieces * image_size(shape) + start;
  static_cast<Range*>(scratch)[task] = Dot::range(values, left < range_piece ? left : range_piece);
}

// One row of the copies.
template <class Dot>
void quantise_row(const ConvShape& shape, const Bytes& bytes, int task, const float* x,
                  const Quantisation& quantisation, void* scratch) {
  const int extent = bytes.rows.extent(shape.out_height);
  const ptrdiff_t image = task / extent;
  const Levels levels = image_levels(shape, image, quantisation, scratch);
  const int row = bytes.rows.source(task % extent);
  PixelRow pixels{nullptr, shape.channels, bytes.channels,
                  static_cast<uint8_t*>(scratch) + range_bytes(shape) + image * bytes.image +
                      task % extent * bytes.row,
                  bytes.pixel};
  if (bytes.rows.inside(row)) pixels.values = x + (image * shape.height + row) * shape.width * shape.channels;
  for (int group = 0; group < shape.groups; ++group, pixels.to += bytes.quads * quad_bytes) {
    write_places<Dot>(bytes.columns, bytes.columns.extent(shape.out_width), pixels, levels);
    if (pixels.values != nullptr) pixels.values += bytes.channels;
  }
}

template <class Dot>
void convolve_unit(const ConvShape& shape, int parts, int unit, const void* prepared, const Epilogue& epilogue,
                   const Quantisation& quantisation, float* y, const void* scratch) {
  const Bytes bytes = bytes_for(shape);
  const OutputBlocks outputs = output_blocks(shape, Dot::outputs);
  const ptrdiff_t pixels = positions(shape);
  const ptrdiff_t blocks = dot_blocks<Dot>(shape);
  const int output_block = unit / parts;
  const ptrdiff_t end = part_start(blocks, parts, unit % parts + 1);
  const uint8_t* copy = static_cast<const uint8_t*>(scratch) + range_bytes(shape);
  DotBlock<Dot::pixels> block{};
  block.channel = outputs.channel(output_block);
  block.outputs = outputs.count(output_block);
  block.weight_sums = static_cast<const int32_t*>(prepared) + block.channel;
  block.weights = static_cast<const uint8_t*>(prepared) + weight_sum_bytes(shape) +
                  static_cast<size_t>(outputs.group(output_block)) * Dot::weight_bytes(bytes, outputs.outputs) +
                  Dot::weight_bytes(bytes, outputs.first(output_block));
  const ptrdiff_t group = static_cast<ptrdiff_t>(outputs.group(output_block)) * bytes.quads * quad_bytes;

  ptrdiff_t number = part_start(blocks, parts, unit % parts);
  ptrdiff_t start = part_start(pixels, blocks, number);
  Pixel pixel = output_pixel(start, shape.out_height, shape.out_width);
  int levels_of = -1;  // the image whose levels `levels` are
  Levels levels{};
  while (number < end) {
    const ptrdiff_t next = part_start(pixels, blocks, ++number);
    block.pixels = static_cast<int>(next - start);
    for (int i = 0; i < block.pixels; ++i, pixel.next(shape.out_height, shape.out_width)) {
      if (pixel.image != levels_of) levels = image_levels(shape, pixel.image, quantisation, scratch);
      levels_of = pixel.image;
      block.levels[i] = levels;
      block.bytes[i] = copy + group + pixel.image * bytes.image +
                       static_cast<ptrdiff_t>(pixel.row) * bytes.rows.step * bytes.row +
                       static_cast<ptrdiff_t>(pixel.column) * bytes.columns.step * bytes.pixel;
    }
    block.place = start * shape.out_channels + block.channel;
    Dot::convolve(bytes, block, epilogue, y);
    start = next;
  }
}

template <class Dot>
void dot_run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared,
             const Epilogue& epilogue, const Quantisation& quantisation, float* y, void* scratch) {
  if (stage == 0) return find_range<Dot>(shape, task, x, quantisation, scratch);
  if (stage == 1) {
    const Bytes bytes = bytes_for(shape);
    return copy_tasks(shape, bytes).run(
        task, [&](int row) { quantise_row<Dot>(shape, bytes, row, x, quantisation, scratch); });
  }
  const Units units = dot_units<Dot>(shape);
  units.run(task, [&](int unit) {
    convolve_unit<Dot>(shape, units.parts, unit, prepared, epilogue, quantisation, y, scratch);
  });
}

}  // namespace
}  // namespace adaste

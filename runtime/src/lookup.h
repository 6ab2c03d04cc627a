// Convolution by look-up, for float32 activations and one-bit weights; what processors share.
//
// For each input pixel and each four of its channels (a quad) a table of signed sums is built once. Every tap of every
// window and every output channel then finds the sum of its four products with one shuffle: the four weights are the
// index. Sums are exact up to their order. A padding pixel has a table of zeros.
//
// Tables are several times as large as the activations, so large images are cut into slabs whose tables fit into the
// second-level cache: stage 2s builds the tables of slab s, stage 2s + 1 convolves it, and all slabs use the same part
// of the scratch memory, which so stays in the cache. A slab is some images, or some rows of one image.
//
// A processor gives a type Lookup with
//     constexpr int table       floats of a quad's table
//     constexpr int pixels      output pixels of a block: what one pass over the weights serves
//     constexpr int outputs     output channels of a block
//     constexpr ptrdiff_t slab  bytes of tables that fit into the cache
//     size_t weight_bytes(const Windows&, int outputs)   prepared weights of some output channels of a group
//     void build(const float* values, int channels, float* tables)
//     void convolve(const Windows&, const LookupBlock<pixels>&, const Epilogue&, float* y)
#pragma once

#include <cstring>

#include "slabs.h"

namespace adaste {
namespace {

// What is the same for every block of a convolution.
struct Windows {
  Axis rows, columns;
  int out_channels;     // of the whole convolution: the distance of pixels in y
  int channels, quads;  // of a group: input channels, and tables per pixel
  ptrdiff_t pixel;      // floats of all tables of a pixel
  ptrdiff_t row;        // floats of all tables of a row

  int taps() const { return rows.kernel * columns.kernel; }
};

template <int max_pixels>
struct LookupBlock {
  int pixels;                       // how many there are, at most max_pixels
  const float* tables[max_pixels];  // the first table of each pixel's window
  int first_row, end_row, first_column, end_column;  // the taps that are not padding for all pixels
  const uint8_t* weights;
  int channel, outputs;  // the first output channel, and how many
  ptrdiff_t place;       // of the first pixel's output number `channel` in y
};

template <class Lookup>
Windows windows_for(const ConvShape& shape) {
  Windows windows{row_axis(shape), column_axis(shape), shape.out_channels, shape.channels / shape.groups, 0, 0, 0};
  windows.quads = ceil_div(windows.channels, 4);
  windows.pixel = static_cast<ptrdiff_t>(shape.groups) * windows.quads * Lookup::table;
  windows.row = windows.pixel * windows.columns.extent(shape.out_width);
  return windows;
}

template <class Lookup>
Slabs slabs_for(const ConvShape& shape, const Windows& windows) {
  return slabs_for(shape, windows.row, Lookup::slab / static_cast<ptrdiff_t>(sizeof(float)));
}

template <class Lookup>
ptrdiff_t pixel_blocks(const ConvShape& shape, const Slab& slab) {
  return (slab.pixels(shape.out_width) + Lookup::pixels - 1) / Lookup::pixels;
}

// The parts into which a slab's pixels are cut for tasks; each part is done for each block of output channels.
template <class Lookup>
int pixel_parts(const ConvShape& shape, const Slab& slab) {
  const ptrdiff_t work = static_cast<ptrdiff_t>(window_size(shape)) * Lookup::pixels * Lookup::outputs;
  return task_count(pixel_blocks<Lookup>(shape, slab), work);
}

template <class Lookup>
bool lookup_supports(const ConvShape& shape) {
  return shape.groups == 1 || shape.channels / shape.groups >= 4;  // fewer channels leave the tables all but empty
}

template <class Lookup>
size_t lookup_weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(shape.groups) *
         Lookup::weight_bytes(windows_for<Lookup>(shape), shape.out_channels / shape.groups);
}

template <class Lookup>
size_t lookup_scratch_bytes(const ConvShape& shape) {
  const Windows windows = windows_for<Lookup>(shape);
  const Slabs slabs = slabs_for<Lookup>(shape, windows);
  return static_cast<size_t>(windows.row) * static_cast<size_t>(windows.rows.extent(slabs.rows)) *
         static_cast<size_t>(slabs.images) * sizeof(float);
}

template <class Lookup>
int lookup_stages(const ConvShape& shape) {
  return 2 * slabs_for<Lookup>(shape, windows_for<Lookup>(shape)).count;
}

template <class Lookup>
int lookup_tasks(const ConvShape& shape, int stage) {
  const Windows windows = windows_for<Lookup>(shape);
  const Slab slab = slab_at(shape, slabs_for<Lookup>(shape, windows), stage / 2);
  if (stage % 2 == 0) return slab.images * windows.rows.extent(slab.rows);
  return output_blocks(shape, Lookup::outputs).per_group * shape.groups * pixel_parts<Lookup>(shape, slab);
}

// The tables of one row of pixels.
template <class Lookup>
void build_tables(const ConvShape& shape, const Windows& windows, const Slab& slab, int task, const float* x,
                  float* tables) {
  const int extent = windows.rows.extent(slab.rows);
  const int row = windows.rows.source(slab.first_row * windows.rows.step + task % extent);
  tables += task * windows.row;
  if (!windows.rows.inside(row)) {
    std::memset(tables, 0, static_cast<size_t>(windows.row) * sizeof(float));
    return;
  }
  const ptrdiff_t image = slab.first_image + task / extent;
  const float* pixels = x + (image * shape.height + row) * shape.width * shape.channels;
  const float* end = tables + windows.row;
  for (Walk walk(windows.columns); tables != end; walk.next()) {
    if (!walk.inside()) {
      std::memset(tables, 0, static_cast<size_t>(windows.pixel) * sizeof(float));
      tables += windows.pixel;
      continue;
    }
    const float* values = pixels + static_cast<ptrdiff_t>(walk.pixel()) * shape.channels;
    for (int group = 0; group < shape.groups; ++group, values += windows.channels) {
      Lookup::build(values, windows.channels, tables);
      tables += static_cast<ptrdiff_t>(windows.quads) * Lookup::table;
    }
  }
}

// Points a block at `count` pixels from `pixel` on, and moves `pixel` behind them.
template <int max_pixels>
void place_block(LookupBlock<max_pixels>& block, int count, const ConvShape& shape, const Windows& windows,
                 const Slab& slab, const float* tables, Pixel& pixel) {
  const ptrdiff_t image = windows.row * windows.rows.extent(slab.rows);
  block.pixels = count;
  block.first_row = block.first_column = shape.kernel_h + shape.kernel_w + shape.pad_h + shape.pad_w;
  block.end_row = block.end_column = 0;
  for (int i = 0; i < count; ++i, pixel.next(slab.rows, shape.out_width)) {
    block.tables[i] = tables + pixel.image * image +
                      static_cast<ptrdiff_t>(pixel.row) * windows.rows.step * windows.row +
                      static_cast<ptrdiff_t>(pixel.column) * windows.columns.step * windows.pixel;
    const int row = slab.first_row + pixel.row;
    block.first_row = smaller(block.first_row, windows.rows.first_tap(row));
    block.end_row = larger(block.end_row, windows.rows.end_tap(row));
    block.first_column = smaller(block.first_column, windows.columns.first_tap(pixel.column));
    block.end_column = larger(block.end_column, windows.columns.end_tap(pixel.column));
  }
}

// One part of the slab's pixels for one block of output channels. Blocks of pixels are of equal size up to one, since
// a last block of few pixels would use the processor badly.
template <class Lookup>
void convolve_part(const ConvShape& shape, const Windows& windows, const Slab& slab, int task, const float* tables,
                   const void* prepared, const Epilogue& epilogue, float* y) {
  const ptrdiff_t pixels = slab.pixels(shape.out_width);
  const ptrdiff_t blocks = pixel_blocks<Lookup>(shape, slab);
  const int parts = pixel_parts<Lookup>(shape, slab);
  const OutputBlocks outputs = output_blocks(shape, Lookup::outputs);
  const int output_block = task / parts;
  const ptrdiff_t end = part_start(blocks, parts, task % parts + 1);
  const ptrdiff_t first_pixel = (static_cast<ptrdiff_t>(slab.first_image) * shape.out_height + slab.first_row) *
                                shape.out_width;
  LookupBlock<Lookup::pixels> block{};
  block.weights = static_cast<const uint8_t*>(prepared) +
                  static_cast<size_t>(outputs.group(output_block)) * Lookup::weight_bytes(windows, outputs.outputs) +
                  Lookup::weight_bytes(windows, outputs.first(output_block));
  block.channel = outputs.channel(output_block);
  block.outputs = outputs.count(output_block);
  tables += static_cast<ptrdiff_t>(outputs.group(output_block)) * windows.quads * Lookup::table;

  ptrdiff_t number = part_start(blocks, parts, task % parts);
  ptrdiff_t start = part_start(pixels, blocks, number);
  Pixel pixel = pixel_at(start, slab.rows, shape.out_width);
  while (number < end) {
    const ptrdiff_t next = part_start(pixels, blocks, ++number);
    place_block(block, static_cast<int>(next - start), shape, windows, slab, tables, pixel);
    block.place = (first_pixel + start) * shape.out_channels + block.channel;
    Lookup::convolve(windows, block, epilogue, y);
    start = next;
  }
}

template <class Lookup>
void lookup_run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared,
                const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* scratch) {
  const Windows windows = windows_for<Lookup>(shape);
  const Slab slab = slab_at(shape, slabs_for<Lookup>(shape, windows), stage / 2);
  auto* tables = static_cast<float*>(scratch);
  if (stage % 2 == 0)
    build_tables<Lookup>(shape, windows, slab, task, x, tables);
  else
    convolve_part<Lookup>(shape, windows, slab, task, tables, prepared, epilogue, y);
}

}  // namespace
}  // namespace adaste

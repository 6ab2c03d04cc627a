// Convolution by look-up in registers, for one-bit weights: all but the instructions.
//
// For each input pixel and each few of its channels a table of signed sums is built once. Every tap of every window and
// every output channel then finds the sum of these channels' products with one shuffle: the weights are the index.
// Activations are float32, whose sums are exact up to their order, or 8-bit levels, whose sums are exact.
//
// Where a pixel has too few channels for a table, as in a first layer, the columns of a window's row are joined: they
// lie side by side in memory, and make one pixel with the channels of all of them for each output column.
//
// Tables are several times as large as the activations, so images are cut into slabs whose tables fit into the
// second-level cache: some images, or some rows of one. A task builds the tables of a slab and convolves it, in the
// memory of its thread, so that no thread waits for tables to come from the cache of another; the rows of tables that
// two slabs have in common are built twice. Tasks may also share the output channels of a slab, and all build its
// tables. pieces_for() weighs one against the other. Windows of one pixel have no tables in common: their slabs are
// done part by part, whose tables stay in the first-level cache.
//
// A processor gives a type Lookup with
//     Element                   of a table: float or int16_t
//     constexpr int channels    input channels of a table
//     constexpr int table       elements of a table
//     constexpr int pixels      output pixels of a block: what one pass over the weights serves
//     constexpr int outputs     output channels of a block
//     constexpr int found       output channels whose sums are found and added in five cycles
//     constexpr ptrdiff_t slab  bytes of tables that fit into the cache
//     size_t weight_bytes(const Windows&, int outputs)   prepared weights of some output channels of a group
//     size_t sum_bytes(const ConvShape&)                 what is before them
//     size_t head_bytes(const ConvShape&)                what is before the tables in the scratch memory
//     void begin(const ConvShape&, const Slab&, const float* x, const Quantisation&, void* scratch)   writes it
//     void build(const ConvShape&, const Windows&, const Slab&, const float* x, void* scratch)
//                                                        the tables of a slab or a part of it
//     void convolve(const Windows&, const LookupBlock<Element, pixels>&, const Epilogue&, float* y)
#pragma once

#include <cstring>

#include "kernels/x86/avx512/slabs.h"

namespace adaste {
namespace {

// What is the same for every block of a convolution.
struct Windows {
  Axis rows, columns;    // of tables: joined columns are a kernel of one column, without padding
  int joined;            // columns of an image that make one of tables
  int out_channels;      // of the whole convolution: the distance of pixels in y
  int channels, tables;  // of a group: input channels of a tap, and tables per pixel
  ptrdiff_t pixel;       // elements of all tables of a pixel
  ptrdiff_t row;         // elements of all tables of a row

  int taps() const { return rows.kernel * columns.kernel; }
};

constexpr int most_joined = 128;  // channels, for which there is memory on the stack

template <class Element, int max_pixels>
struct LookupBlock {
  int pixels;                         // how many there are, at most max_pixels
  const Element* tables[max_pixels];  // the first table of each pixel's window
  int images[max_pixels];             // the image of each
  int first_row, end_row, first_column, end_column;  // the taps that are not padding for all pixels
  const uint8_t* weights;
  const void* prepared;  // of all outputs
  const void* scratch;
  int channel, outputs;  // the first output channel, and how many
  ptrdiff_t place;       // of the first pixel's output number `channel` in y
};

// Where windows are single pixels, these are rows, which can be cut anywhere.
inline ConvShape seen(ConvShape shape) {
  const bool single = shape.kernel_h == 1 && shape.kernel_w == 1 && shape.stride_h == 1 && shape.stride_w == 1 &&
                      shape.pad_h == 0 && shape.pad_w == 0;
  if (!single) return shape;
  shape.height = shape.out_height = shape.height * shape.width;
  shape.width = shape.out_width = 1;
  return shape;
}

template <class Lookup>
Windows windows_for(const ConvShape& shape) {
  const bool join = shape.groups == 1 && shape.kernel_w > 1 && shape.channels < Lookup::channels &&
                    shape.kernel_w <= most_joined / Lookup::channels;
  Windows windows{row_axis(shape), column_axis(shape), 1, shape.out_channels, shape.channels / shape.groups, 0, 0, 0};
  if (join) {
    windows.columns = {(shape.out_width - 1) * shape.stride_w + 1, 1, shape.stride_w, 0, 1};
    windows.joined = shape.kernel_w;
    windows.channels *= shape.kernel_w;
  }
  windows.tables = ceil_div(windows.channels, Lookup::channels);
  windows.pixel = static_cast<ptrdiff_t>(shape.groups) * windows.tables * Lookup::table;
  windows.row = windows.pixel * windows.columns.extent(shape.out_width);
  return windows;
}

template <class Lookup>
constexpr ptrdiff_t slab_budget = Lookup::slab / static_cast<ptrdiff_t>(sizeof(typename Lookup::Element));

template <class Lookup>
ptrdiff_t pixel_blocks(const ConvShape& shape, const Slab& slab) {
  return (slab.pixels(shape.out_width) + Lookup::pixels - 1) / Lookup::pixels;
}

// A task is a piece: a slab, and one of `shares` equal shares of its blocks of output channels.
struct Pieces {
  Slabs slabs;
  int shares;

  int count() const { return slabs.count * shares; }
};

// About how many cycles things take.
constexpr ptrdiff_t table_cycles = 10;      // to build one
constexpr ptrdiff_t weight_bytes_cycle = 16;  // weights that come from the third cache in a cycle
constexpr ptrdiff_t task_cycles = 3000;     // to hand out a task and to wait for the last one
constexpr ptrdiff_t shared_cycles = 8000;   // less is not worth to share

template <class Lookup>
ptrdiff_t piece_cycles(const ConvShape& shape, const Windows& windows, const Pieces& pieces) {
  const ptrdiff_t rows = static_cast<ptrdiff_t>(pieces.slabs.images) * windows.rows.extent(pieces.slabs.rows);
  const ptrdiff_t pixels = static_cast<ptrdiff_t>(pieces.slabs.images) * pieces.slabs.rows * shape.out_width;
  const ptrdiff_t lookups = pixels * windows.taps() * windows.tables;
  const int blocks = output_blocks(shape, Lookup::outputs).per_group * shape.groups;
  const ptrdiff_t outputs = static_cast<ptrdiff_t>(ceil_div(blocks, pieces.shares)) *
                            smaller(Lookup::outputs, shape.out_channels / shape.groups);
  const ptrdiff_t weights = outputs * windows.taps() * windows.tables;
  return rows * (windows.row / Lookup::table) * table_cycles + lookups * outputs * 5 / Lookup::found +
         weights / weight_bytes_cycle;
}

// The pieces that so many threads have done first, or nearly.
template <class Lookup>
Pieces pieces_for(const ConvShape& shape, const Windows& windows) {
  constexpr int most_rounds = 4;
  Pieces best{slabs_for(shape, windows.row, slab_budget<Lookup>), 1};
  if (shape.threads == 1) return best;
  ptrdiff_t least = best.count() * piece_cycles<Lookup>(shape, windows, best);
  if (best.count() == 1 && least < shared_cycles) return best;
  least = PTRDIFF_MAX;
  const int blocks = output_blocks(shape, Lookup::outputs).per_group * shape.groups;
  for (int shares = 1; shares <= smaller(blocks, shape.threads); shares *= 2)
    for (int rounds = 1; rounds <= most_rounds; ++rounds) {
      const int slabs = ceil_div(rounds * shape.threads, shares);
      const Pieces pieces{slabs_for(shape, windows.row, slab_budget<Lookup>, slabs), shares};
      const ptrdiff_t each = piece_cycles<Lookup>(shape, windows, pieces) + task_cycles;
      // The last pieces do not end at the same time: a part of one is lost.
      const ptrdiff_t cycles = ceil_div(pieces.count(), shape.threads) * each + each / 8;
      if (cycles >= least) continue;
      least = cycles;
      best = pieces;
    }
  return best;
}

template <class Lookup>
bool lookup_supports(const ConvShape& given) {
  const ConvShape shape = seen(given);
  const bool fills_tables = shape.groups == 1 || shape.channels / shape.groups >= 4;
  return fills_tables && slabs_suit(shape, windows_for<Lookup>(shape).row, slab_budget<Lookup>);
}

template <class Lookup>
size_t lookup_weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(shape.groups) *
         Lookup::weight_bytes(windows_for<Lookup>(shape), shape.out_channels / shape.groups);
}

// The tables of the largest slab there may be.
template <class Lookup>
size_t lookup_table_bytes(const ConvShape& given) {
  const ConvShape shape = seen(given);
  const Windows windows = windows_for<Lookup>(shape);
  const ptrdiff_t row_of_outputs = windows.row * windows.rows.extent(1);
  const ptrdiff_t all = windows.row * windows.rows.extent(shape.out_height) * shape.batch;
  const ptrdiff_t slab = all < slab_budget<Lookup> ? all : slab_budget<Lookup>;
  return static_cast<size_t>(slab < row_of_outputs ? row_of_outputs : slab) * sizeof(typename Lookup::Element);
}

inline int lookup_stages(const ConvShape& /*shape*/) { return 1; }

template <class Lookup>
int lookup_tasks(const ConvShape& given, int /*stage*/) {
  const ConvShape shape = seen(given);
  return pieces_for<Lookup>(shape, windows_for<Lookup>(shape)).count();
}

template <class Lookup>
typename Lookup::Element* slab_tables(const ConvShape& shape, void* scratch) {
  return reinterpret_cast<typename Lookup::Element*>(static_cast<uint8_t*>(scratch) + Lookup::head_bytes(shape));
}

// Points a block at `count` pixels from `pixel` on, and moves `pixel` behind them.
template <class Element, int max_pixels>
void place_block(LookupBlock<Element, max_pixels>& block, int count, const ConvShape& shape, const Windows& windows,
                 const Slab& slab, const Element* tables, Pixel& pixel) {
  const ptrdiff_t image = windows.row * windows.rows.extent(slab.rows);
  block.pixels = count;
  block.first_row = block.first_column = shape.kernel_h + shape.kernel_w + shape.pad_h + shape.pad_w;
  block.end_row = block.end_column = 0;
  for (int i = 0; i < count; ++i, pixel.next(slab.rows, shape.out_width)) {
    block.tables[i] = tables + pixel.image * image +
                      static_cast<ptrdiff_t>(pixel.row) * windows.rows.step * windows.row +
                      static_cast<ptrdiff_t>(pixel.column) * windows.columns.step * windows.pixel;
    block.images[i] = slab.first_image + pixel.image;
    const int row = slab.first_row + pixel.row;
    block.first_row = smaller(block.first_row, windows.rows.first_tap(row));
    block.end_row = larger(block.end_row, windows.rows.end_tap(row));
    block.first_column = smaller(block.first_column, windows.columns.first_tap(pixel.column));
    block.end_column = larger(block.end_column, windows.columns.end_tap(pixel.column));
  }
}

// All pixels of a slab for one block of output channels. Blocks of pixels are of equal size up to one, since a last
// block of few pixels would use the processor badly.
template <class Lookup>
void convolve_slab(const ConvShape& shape, const Windows& windows, const Slab& slab, int output_block,
                   void* scratch, const void* prepared, const Epilogue& epilogue, float* y) {
  const ptrdiff_t pixels = slab.pixels(shape.out_width);
  const ptrdiff_t blocks = pixel_blocks<Lookup>(shape, slab);
  const OutputBlocks outputs = output_blocks(shape, Lookup::outputs);
  const ptrdiff_t first_pixel = (static_cast<ptrdiff_t>(slab.first_image) * shape.out_height + slab.first_row) *
                                shape.out_width;
  LookupBlock<typename Lookup::Element, Lookup::pixels> block{};
  block.prepared = prepared;
  block.scratch = scratch;
  block.weights = static_cast<const uint8_t*>(prepared) + Lookup::sum_bytes(shape) +
                  static_cast<size_t>(outputs.group(output_block)) * Lookup::weight_bytes(windows, outputs.outputs) +
                  Lookup::weight_bytes(windows, outputs.first(output_block));
  block.channel = outputs.channel(output_block);
  block.outputs = outputs.count(output_block);
  const auto* tables = slab_tables<Lookup>(shape, scratch) +
                       static_cast<ptrdiff_t>(outputs.group(output_block)) * windows.tables * Lookup::table;

  Pixel pixel = output_pixel(0, slab.rows, shape.out_width);
  ptrdiff_t start = 0;
  for (ptrdiff_t number = 1; number <= blocks; ++number) {
    const ptrdiff_t next = part_start(pixels, blocks, number);
    place_block(block, static_cast<int>(next - start), shape, windows, slab, tables, pixel);
    block.place = (first_pixel + start) * shape.out_channels + block.channel;
    Lookup::convolve(windows, block, epilogue, y);
    start = next;
  }
}

// The parts in which a slab is done, the first of them.
template <class Lookup>
Slab first_part(const ConvShape& shape, const Windows& windows, const Slab& slab) {
  constexpr ptrdiff_t first_cache = 32 * 1024 / static_cast<ptrdiff_t>(sizeof(typename Lookup::Element));
  if (windows.taps() > 1) return slab;
  const int least = ceil_div(2 * Lookup::pixels, shape.out_width);  // rows: weights are read once for each part
  const int fitting = larger(least, static_cast<int>(first_cache / windows.row));
  const int rows = ceil_div(slab.rows, ceil_div(slab.rows, fitting));
  const int images = rows < slab.rows ? 1 : ceil_div(slab.images, ceil_div(slab.images, larger(1, fitting / rows)));
  return {slab.first_image, images, slab.first_row, rows};
}

template <class Lookup>
void lookup_run(const ConvShape& given, int /*stage*/, int piece, const float* x, const void* prepared,
                const Epilogue& epilogue, const Quantisation& quantisation, float* y, void* scratch) {
  const ConvShape shape = seen(given);
  const Windows windows = windows_for<Lookup>(shape);
  const Pieces pieces = pieces_for<Lookup>(shape, windows);
  const Slab slab = slab_at(shape, pieces.slabs, piece / pieces.shares);
  const int blocks = output_blocks(shape, Lookup::outputs).per_group * shape.groups;
  const int share = piece % pieces.shares;
  const auto first = static_cast<int>(part_start(blocks, pieces.shares, share));
  const auto end = static_cast<int>(part_start(blocks, pieces.shares, share + 1));
  const Slab size = first_part<Lookup>(shape, windows, slab);
  Lookup::begin(shape, slab, x, quantisation, scratch);
  for (int image = 0; image < slab.images; image += size.images)
    for (int row = 0; row < slab.rows; row += size.rows) {
      const Slab part{slab.first_image + image, smaller(size.images, slab.images - image), slab.first_row + row,
                      smaller(size.rows, slab.rows - row)};
      Lookup::build(shape, windows, part, x, scratch);
      for (int block = first; block < end; ++block)
        convolve_slab<Lookup>(shape, windows, part, block, scratch, prepared, epilogue, y);
    }
}

}  // namespace
}  // namespace adaste

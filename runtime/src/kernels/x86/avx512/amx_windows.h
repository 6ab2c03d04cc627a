// A copy of the activations in 8 bits for kernels that multiply matrices: output pixels have places at one distance
// from each other, also across the ends of image rows, and so have the first bytes of their windows. 16 neighbouring
// places are 16 rows of a matrix wherever they lie: nothing is gathered, and no row of an image ends with a remainder.
//
// The copy is a padded image. One row of a window is kernel_w pixels side by side, each of whole quads; a place further
// is stride_w pixels further. An image row has some more places than output pixels, whose sums mean nothing, but few:
// the padding at the end of a row is that at the start of the next. Rows of the copy with the same remainder modulo the
// stride (a phase) follow each other in a plane, so that the places of output rows r and r + 1 do in each row of the
// window. The order is (image, group, phase, row, column, channel), for one slab (slabs.h) at a time.
//
// Where pixels have few channels, as in a first layer, the rows of all phases are joined: columns of them lie side by
// side, (image, group, row, column, phase, channel), and `joined` rows of a window are read as one.
#pragma once

#include "kernels/int8/dot.h"
#include "kernels/x86/avx512/slabs.h"

namespace adaste {
namespace {

struct Windows {
  Axis rows, columns;
  int channels, quads;                        // of a group
  int joined;                                 // rows of the image in a row of the copy: 1, or all phases
  int places;                                 // of output pixels, from a row to the next
  int columns_of_row, columns_of_last;        // of the copy; the last row of a plane has its own padding
  Slabs slabs;
  int plane_rows;                             // of a phase
  ptrdiff_t pixel, entry, row, plane, group, image;  // bytes of each; an entry is the distance of places

  int planes() const { return rows.step / joined; }

  // Bytes for a row of the image, in all groups.
  ptrdiff_t image_row(int groups) const { return row / joined * groups; }

  // Where the taps of (joined) row i of a window are, from those of row 0.
  ptrdiff_t row_of_taps(int i) const { return i % planes() * plane + i / planes() * row; }
};

constexpr int joined_bytes = 64;                      // a window's joined rows are not longer
constexpr ptrdiff_t slab_bytes = ptrdiff_t{1} << 19;  // stay in the second cache beside inputs, outputs and weights

// Columns of the copy from a row to the next: those that windows touch, but padding that the next row starts with.
inline int columns_between_rows(const Axis& columns, int out_width) {
  const int touched = columns.extent(out_width);
  if (columns.step != columns.stride) return touched;
  return larger(smaller(touched, columns.pad + columns.size), touched - columns.pad);
}

inline Windows windows_for(const ConvShape& shape) {
  Windows windows{};
  windows.rows = row_axis(shape);
  windows.columns = column_axis(shape);
  windows.channels = shape.channels / shape.groups;
  windows.quads = ceil_div(windows.channels, quad_bytes);
  windows.joined =
      shape.kernel_w <= joined_bytes / (windows.quads * quad_bytes * windows.rows.step) ? windows.rows.step : 1;
  windows.places = larger(  // wide padding may hold windows of its own
      shape.out_width, ceil_div(columns_between_rows(windows.columns, shape.out_width), windows.columns.step));
  windows.columns_of_row = windows.places * windows.columns.step;
  windows.columns_of_last = larger(windows.columns_of_row, windows.columns.extent(shape.out_width));
  windows.pixel = static_cast<ptrdiff_t>(windows.joined) * windows.quads * quad_bytes;
  windows.entry = windows.columns.step * windows.pixel;
  windows.row = windows.columns_of_row * windows.pixel;
  windows.slabs = slabs_for(shape, windows.image_row(shape.groups), slab_bytes);
  windows.plane_rows = windows.slabs.rows + (shape.kernel_h - 1) / windows.rows.step;
  windows.plane = static_cast<ptrdiff_t>(aligned(static_cast<size_t>(
      windows.row * windows.plane_rows + (windows.columns_of_last - windows.columns_of_row) * windows.pixel)));
  windows.group = windows.plane * windows.planes();
  windows.image = windows.group * shape.groups;
  return windows;
}

// Tiles of `pixels` places, 64 bytes of each, may be read at every place: beyond the last there is memory for them.
inline size_t windows_scratch_bytes(const ConvShape& shape, int pixels) {
  const Windows windows = windows_for(shape);
  return range_bytes(shape) + static_cast<size_t>(windows.image) * static_cast<size_t>(windows.slabs.images) +
         static_cast<size_t>(windows.entry) * static_cast<size_t>(pixels) + alignment;
}

inline int window_rows(const Windows& windows, const Slab& slab) {
  return slab.images * windows.rows.step * windows.plane_rows;
}

inline RowTasks window_tasks(const ConvShape& shape, const Windows& windows, const Slab& slab) {
  return row_tasks(window_rows(windows, slab), windows.image_row(shape.groups));
}

// Number `number` of window_rows(): one row of the copy, in all groups.
template <class Dot>
void write_windows(const ConvShape& shape, const Windows& windows, const Slab& slab, int number, const float* x,
                   const Quantisation& quantisation, void* scratch) {
  const int image = number / (windows.rows.step * windows.plane_rows);
  const int phase = number / windows.plane_rows % windows.rows.step;
  const int row = number % windows.plane_rows;
  const ptrdiff_t image_of_batch = slab.first_image + image;
  const int source = (slab.first_row + row) * windows.rows.stride + phase - windows.rows.pad;
  const Levels levels = image_levels(shape, image_of_batch, quantisation, scratch);
  const int columns = row == windows.plane_rows - 1 ? windows.columns_of_last : windows.columns_of_row;
  const ptrdiff_t between_phases =
      windows.joined == 1 ? windows.plane : static_cast<ptrdiff_t>(windows.quads) * quad_bytes;
  PixelRow pixels{nullptr, shape.channels, windows.channels,
                  static_cast<uint8_t*>(scratch) + range_bytes(shape) + image * windows.image +
                      phase * between_phases + row * windows.row,
                  windows.pixel};
  if (windows.rows.inside(source))
    pixels.values = x + (image_of_batch * shape.height + source) * shape.width * shape.channels;
  for (int group = 0; group < shape.groups; ++group, pixels.to += windows.group) {
    write_places<Dot>(windows.columns, columns, pixels, levels);
    if (pixels.values != nullptr) pixels.values += windows.channels;
  }
}

}  // namespace
}  // namespace adaste

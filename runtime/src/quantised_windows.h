// A copy of the activations in 8 bits for kernels that multiply matrices: every output pixel has an entry, and the
// entries of neighbouring pixels, also across the ends of image rows, lie at one distance. 16 pixels are 16 rows of a
// matrix wherever they lie, for images of any width: nothing is gathered, and no row of an image ends with a remainder.
//
// An entry is one row of a pixel's window: kernel_w pixels side by side, each of whole quads (quantised.h), so an
// activation is kept kernel_w / stride_w times. The other rows of the window are entries of rows further down: rows of
// the copy with the same remainder modulo the stride (a phase) follow each other, so that the output rows r and r + 1
// find their taps of row i in neighbouring rows of a plane. The order is (image, group, phase, row, column, tap of a
// row, channel).
#pragma once

#include "quantised.h"

namespace adaste {
namespace {

struct Windows {
  Axis rows, columns;
  int channels, quads;                        // of a group
  int plane_rows;                             // of a phase
  ptrdiff_t entry, row, plane, group, image;  // bytes of each

  // Where the entry of a pixel's taps of row i is, from that of row 0.
  ptrdiff_t row_of_taps(int i) const { return i % rows.step * plane + i / rows.step * row; }
};

inline Windows windows_for(const ConvShape& shape) {
  Windows windows{row_axis(shape), column_axis(shape), shape.channels / shape.groups, 0, 0, 0, 0, 0, 0, 0};
  windows.quads = ceil_div(windows.channels, 4);
  windows.plane_rows = shape.out_height + (shape.kernel_h - 1) / windows.rows.step;
  windows.entry = static_cast<ptrdiff_t>(shape.kernel_w) * windows.quads * 4;
  windows.row = windows.entry * shape.out_width;
  windows.plane = windows.row * windows.plane_rows;
  windows.group = windows.plane * windows.rows.step;
  windows.image = windows.group * shape.groups;
  return windows;
}

// Tiles of `pixels` entries, 64 bytes of each, may be read at every entry: beyond the last there is memory for them.
inline size_t windows_scratch_bytes(const ConvShape& shape, int pixels) {
  const Windows windows = windows_for(shape);
  return range_bytes(shape) + static_cast<size_t>(windows.image) * static_cast<size_t>(shape.batch) +
         static_cast<size_t>(windows.entry) * static_cast<size_t>(pixels) + alignment;
}

inline int window_rows(const ConvShape& shape) {
  const Windows windows = windows_for(shape);
  return shape.batch * windows.rows.step * windows.plane_rows;
}

// One row of the copy of one group: `pixels` is the row of activations, null in the padding.
template <class Dot>
void write_entries(const ConvShape& shape, const Windows& windows, const float* pixels, const Levels& levels,
                   uint8_t* to) {
  const int pixel_bytes = windows.quads * 4;
  const int filled = pixel_bytes - windows.channels;
  const int kept = windows.columns.kernel - windows.columns.step;  // taps that the entry before has too
  for (int column = 0; column < shape.out_width; ++column) {
    const int first = column == 0 ? 0 : kept;
    if (first > 0) std::memcpy(to, to - kept * pixel_bytes, static_cast<size_t>(kept * pixel_bytes));
    to += first * pixel_bytes;
    for (int tap = first; tap < windows.columns.kernel; ++tap, to += pixel_bytes) {
      const int source = column * windows.columns.stride + tap - windows.columns.pad;
      if (pixels != nullptr && windows.columns.inside(source))
        Dot::quantise(pixels + static_cast<ptrdiff_t>(source) * shape.channels, windows.channels, levels, to);
      else
        std::memset(to, static_cast<int>(levels.zero), static_cast<size_t>(windows.channels));
      if (filled > 0) std::memset(to + windows.channels, 0, static_cast<size_t>(filled));
    }
  }
}

// Task number `task` of window_rows(): one row of the copy, in all groups.
template <class Dot>
void write_windows(const ConvShape& shape, int task, const float* x, const Quantisation& quantisation, void* scratch) {
  const Windows windows = windows_for(shape);
  const ptrdiff_t image = task / (windows.rows.step * windows.plane_rows);
  const int phase = task / windows.plane_rows % windows.rows.step;
  const int row = task % windows.plane_rows;
  const int source = row * windows.rows.stride + phase - windows.rows.pad;
  const Levels levels = image_levels(shape, image, quantisation, scratch);
  const float* pixels = nullptr;
  if (windows.rows.inside(source)) pixels = x + (image * shape.height + source) * shape.width * shape.channels;
  uint8_t* to = static_cast<uint8_t*>(scratch) + range_bytes(shape) + image * windows.image + phase * windows.plane +
                row * windows.row;
  for (int group = 0; group < shape.groups; ++group, to += windows.group) {
    write_entries<Dot>(shape, windows, pixels, levels, to);
    if (pixels != nullptr) pixels += windows.channels;
  }
}

}  // namespace
}  // namespace adaste

// How the kernel with Intel AMX cuts pixels and windows into tiles.
#pragma once

#include "amx.h"
#include "quantised_windows.h"

namespace adaste {
namespace {

constexpr int most_pairs = 32;         // of tiles of pixels, in a task
constexpr int most_waiting_pairs = 8;  // where their sums wait for the next part

// How the places of a slab (quantised_windows.h) are cut into tiles: each within one image, all but an image's last of
// `rows` places.
struct PlaceTiles {
  int places, per_image, rows;
  int count, pairs;  // of the slab
};

inline PlaceTiles place_tiles(const ConvShape& shape, const Windows& windows, const Slab& slab) {
  PlaceTiles tiles{(slab.rows - 1) * windows.places + shape.out_width, 0, 0, 0, 0};
  tiles.per_image = ceil_div(tiles.places, tile_rows);
  tiles.rows = ceil_div(tiles.places, tiles.per_image);
  tiles.count = slab.images * tiles.per_image;
  tiles.pairs = ceil_div(tiles.count, 2);
  return tiles;
}

// Steps of 64 bytes through the window; each row of the window starts one.
struct Steps {
  int per_row, count, quads;  // quads: of a row

  int valid_quads(int step) const { return smaller(tile_rows, quads - step % per_row * tile_rows); }
  ptrdiff_t place(const Windows& windows, int step) const {
    return windows.row_of_taps(step / per_row) + static_cast<ptrdiff_t>(step % per_row) * tile_row_bytes;
  }
};

inline Steps steps_for(const ConvShape& shape) {
  const int quads = shape.kernel_w * ceil_div(shape.channels / shape.groups, 4);
  const int per_row = ceil_div(quads, tile_rows);
  return {per_row, per_row * shape.kernel_h, quads};
}

// The window is cut into parts of at most `depth` steps, as equal as they can be.
inline int window_parts(const Steps& steps, int depth) { return ceil_div(steps.count, depth); }

// A task is some of a slab's pairs of tiles.
inline int tasks_of_pairs(const PlaceTiles& tiles, const Steps& steps, int depth) {
  return ceil_div(tiles.pairs, window_parts(steps, depth) == 1 ? most_pairs : most_waiting_pairs);
}

}  // namespace
}  // namespace adaste

// How the kernel with Intel AMX cuts pixels and windows into tiles.
#pragma once

#include "kernels/x86/avx512/amx.h"
#include "kernels/x86/avx512/amx_windows.h"

namespace adaste {
namespace {

constexpr int most_pairs = 32;         // of tiles of pixels, in a unit
constexpr int most_waiting_pairs = 8;  // where their sums wait for the next part

// How the places of a slab (amx_windows.h) are cut into tiles: each within one image, all but an image's last of
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

// Where a quad of a step is in the window.
struct QuadPlace {
  int row, column, quad;
};

// Steps of 64 bytes through the window; each (joined) row of the window starts one.
struct Steps {
  int per_row, count;
  int row_quads, quads, joined;  // quads: of a group's channels
  uint32_t last;                 // bits for the quads of the last step that are in the window, where rows are joined

  QuadPlace quad(int step, int i) const {
    const int number = step % per_row * tile_rows + i;
    return {step / per_row * joined + number / quads % joined, number / (quads * joined), number % quads};
  }

  // A bit for each quad of the step that is in the window. The others meet whatever follows.
  uint32_t valid_quads(int step) const {
    const int left = row_quads - step % per_row * tile_rows;
    const uint32_t within = left < tile_rows ? (1U << left) - 1U : (1U << tile_rows) - 1U;
    return joined > 1 && step == count - 1 ? within & last : within;
  }

  ptrdiff_t place(const Windows& windows, int step) const {
    return windows.row_of_taps(step / per_row) + static_cast<ptrdiff_t>(step % per_row) * tile_row_bytes;
  }
};

inline Steps steps_for(const ConvShape& shape, const Windows& windows) {
  const int row_quads = shape.kernel_w * windows.quads * windows.joined;
  const int per_row = ceil_div(row_quads, tile_rows);
  Steps steps{per_row, per_row * ceil_div(shape.kernel_h, windows.joined), row_quads, windows.quads, windows.joined, 0};
  for (int i = 0; i < tile_rows; ++i)
    if (steps.quad(steps.count - 1, i).row < shape.kernel_h) steps.last |= 1U << i;
  return steps;
}

inline Steps steps_for(const ConvShape& shape) { return steps_for(shape, windows_for(shape)); }

// The window is cut into parts of at most `depth` steps, as equal as they can be.
inline int window_parts(const Steps& steps, int depth) { return ceil_div(steps.count, depth); }

// About how many cycles things take.
constexpr ptrdiff_t expand_cycles = 50;     // a step's weights
constexpr ptrdiff_t pair_cycles = 70;       // a step for a pair
constexpr ptrdiff_t task_cycles = 2000;     // to hand out a task
constexpr ptrdiff_t shared_cycles = 20000;  // less is not worth to share

// A unit is some of a slab's pairs of tiles for one block of outputs, and a task but where all of them are not worth to
// share.
inline Units units_for(const ConvShape& shape, const PlaceTiles& tiles, const Steps& steps, int blocks, int depth) {
  const int least = ceil_div(tiles.pairs, window_parts(steps, depth) == 1 ? most_pairs : most_waiting_pairs);
  const auto unit_cycles = [&](int parts) {
    return steps.count * (expand_cycles + ceil_div(tiles.pairs, parts) * pair_cycles) + task_cycles;
  };
  const auto cycles = [&](int parts) { return ceil_div(parts * blocks, shape.threads) * unit_cycles(parts); };
  int best = least;
  if (shape.threads > 1)
    for (int parts = least + 1; parts <= smaller(tiles.pairs, least + 2 * shape.threads); ++parts)
      if (cycles(parts) < cycles(best)) best = parts;
  if (least * blocks * unit_cycles(least) < shared_cycles) return {least, least * blocks, 1};
  return {best, best * blocks, best * blocks};
}

}  // namespace
}  // namespace adaste

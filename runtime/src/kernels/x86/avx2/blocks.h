// How images are cut into blocks for blocks.cpp, and where that is worth it.
#pragma once

#include "kernels/geometry.h"
#include "kernels/x86/avx2/signed_sums_float.h"

namespace adaste {
namespace {

using Strip = Strip16;  // a place in as many blocks

constexpr int most_side = 16;  // of a block

bool few_channels(const ConvShape& shape) { return shape.groups == 1 && shape.kernel_w * shape.channels <= chunk; }

// The shape that blocks see.
ConvShape seen(ConvShape shape) {
  if (!few_channels(shape)) return shape;
  shape.channels *= shape.kernel_w;
  shape.kernel_w = shape.stride_w = 1;
  return shape;
}

struct Blocks {
  int height, width;  // of a block
  int rows, columns;  // of blocks in an image
  ptrdiff_t cost;     // of one image and one of its chunks of channels, in cycles

  int of_image() const { return rows * columns; }
};

// The side of blocks when a side of the image is cut into `count`, or into a multiple where they would be too large.
int block_side(int size, int count) {
  const int side = ceil_div(size, count);
  return ceil_div(side, ceil_div(side, most_side));
}

// The input pixels under so many outputs.
int extent(int outputs, int kernel, int stride) { return (outputs - 1) * stride + kernel; }

// Cycles to make the tables of a chunk, and of each use for one output channel, as measured on a processor with two
// loads and one store per cycle (AMD Zen 3).
int filling(int groups, bool copied) { return 80 * groups + (copied ? 500 : 0); }
int using_once(int groups) { return groups + 3; }

Blocks cut_into_blocks(const ConvShape& shape, int rows, int columns) {
  const int height = block_side(shape.out_height, rows), width = block_side(shape.out_width, columns);
  Blocks blocks{height, width, ceil_div(shape.out_height, height), ceil_div(shape.out_width, width), 0};
  const ptrdiff_t uses = static_cast<ptrdiff_t>(height) * width * shape.kernel_h * shape.kernel_w;
  const ptrdiff_t tables = static_cast<ptrdiff_t>(extent(height, shape.kernel_h, shape.stride_h)) *
                           extent(width, shape.kernel_w, shape.stride_w);
  const int groups = groups_of(shape.channels / shape.groups);
  blocks.cost = ceil_div(blocks.of_image(), Strip::lanes) *
                (uses * (shape.out_channels / shape.groups) * using_once(groups) +
                 tables * filling(groups, shape.channels / shape.groups % chunk != 0));
  return blocks;
}

Blocks best_blocks(const ConvShape& shape) {
  Blocks best = cut_into_blocks(shape, 1, Strip::lanes);
  for (int rows = 2; rows <= Strip::lanes; rows *= 2) {
    const Blocks blocks = cut_into_blocks(shape, rows, Strip::lanes / rows);
    if (blocks.cost < best.cost) best = blocks;
  }
  return best;
}

// Is that less than the kernel for all shapes costs, whose strips are of neighbours and which has a table for each tap.
// The shape without its batch decides: strips should be full even for one image.
bool worthwhile(const ConvShape& shape) {
  const int channels = shape.channels / shape.groups;
  if (!enough_outputs(shape) || (channels % chunk != 0 && !few_channels(shape))) return false;
  const ptrdiff_t pixels = static_cast<ptrdiff_t>(shape.out_height) * shape.out_width;
  const ptrdiff_t strips = (pixels + Strip::lanes - 1) / Strip::lanes;
  const ptrdiff_t outputs = shape.out_channels / shape.groups;
  const auto window = static_cast<int>(window_size(shape));
  ptrdiff_t each = 0;
  for (int first = 0; first < window; first += chunk) {
    const int groups = groups_of(window - first);
    each += outputs * using_once(groups) + filling(groups, channels % chunk != 0);
  }
  const ConvShape shape_seen = seen(shape);
  return best_blocks(shape_seen).cost * ceil_div(shape_seen.channels / shape.groups, chunk) < strips * each;
}

}  // namespace
}  // namespace adaste

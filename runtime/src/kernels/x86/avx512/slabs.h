// Cuts a batch into slabs: pieces of which the copy that a kernel makes (tables, 8-bit values) fits into a cache. All
// slabs use the same memory, some at a time, so that it stays there. A slab is some images, or some rows of one.
#pragma once

#include "kernels/geometry.h"

namespace adaste {
namespace {

struct Slabs {
  int images, rows;  // of a slab; rows < out_height only where images == 1
  int bands;         // slabs per image where an image is cut into several
  int count;
};

struct Slab {
  int first_image, images, first_row, rows;
  ptrdiff_t pixels(int width) const { return static_cast<ptrdiff_t>(images) * rows * width; }
};

// As few slabs as fit, and a multiple of `together` if that many can be had. `row` is the size of a row of the copy,
// `budget` that of the cache.
inline Slabs slabs_for(const ConvShape& shape, ptrdiff_t row, ptrdiff_t budget, int together = 1) {
  const Axis rows_of_copy = row_axis(shape);
  const auto rounded = [&](int slabs) { return ceil_div(slabs, together) * together; };
  const ptrdiff_t fitting_images = budget / (row * rows_of_copy.extent(shape.out_height));
  if (fitting_images > 0 && shape.batch >= together) {
    const int most_images = fitting_images < shape.batch ? static_cast<int>(fitting_images) : shape.batch;
    const int images = ceil_div(shape.batch, rounded(ceil_div(shape.batch, most_images)));
    return {images, shape.out_height, 1, ceil_div(shape.batch, images)};
  }
  const ptrdiff_t fitting_rows = (budget / row - rows_of_copy.kernel) / rows_of_copy.step + 1;
  const int most_rows = fitting_rows < shape.out_height ? larger(1, static_cast<int>(fitting_rows)) : shape.out_height;
  const int slabs = rounded(shape.batch * ceil_div(shape.out_height, most_rows));
  const int rows = ceil_div(shape.out_height, smaller(shape.out_height, ceil_div(slabs, shape.batch)));
  const int bands = ceil_div(shape.out_height, rows);
  return {1, rows, bands, shape.batch * bands};
}

// Are slabs worth it: where not even the rows under one row of outputs fit into the cache, these are copied again for
// every row of outputs, which is cheap for few of them alone.
inline bool slabs_suit(const ConvShape& shape, ptrdiff_t row, ptrdiff_t budget) {
  constexpr int few_rows = 16;
  return shape.kernel_h <= few_rows || row * shape.kernel_h <= budget;
}

inline Slab slab_at(const ConvShape& shape, const Slabs& slabs, int index) {
  const int image = index / slabs.bands * slabs.images;
  const int row = index % slabs.bands * slabs.rows;
  return {image, smaller(slabs.images, shape.batch - image), row, smaller(slabs.rows, shape.out_height - row)};
}

}  // namespace
}  // namespace adaste

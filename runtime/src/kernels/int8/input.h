// The first two stages of kernels with 8-bit activations: 0 finds the levels of each image, 1 writes a copy of the
// input in 8 bits, in the same order. The scratch memory holds the levels, then the copy.
#pragma once

#include "kernels/geometry.h"
#include "kernels/int8/levels.h"

namespace adaste {

static inline size_t level_bytes(const ConvShape& shape) {
  return (static_cast<size_t>(shape.batch) * sizeof(Levels) + 63) / 64 * 64;
}

static inline size_t quantised_bytes(const ConvShape& shape) {
  return level_bytes(shape) + static_cast<size_t>(shape.batch) * static_cast<size_t>(image_size(shape));
}

static inline const Levels* quantised_levels(const void* scratch) { return static_cast<const Levels*>(scratch); }

static inline const uint8_t* quantised_image(const ConvShape& shape, const void* scratch, ptrdiff_t image) {
  return static_cast<const uint8_t*>(scratch) + level_bytes(shape) + image * image_size(shape);
}

// The rows of all images.
static inline RowTasks quantised_rows(const ConvShape& shape) {
  return row_tasks(shape.batch * shape.height, static_cast<ptrdiff_t>(shape.width) * shape.channels);
}

// Stage 0 has a task per image, stage 1 one for some rows.
static inline int quantising_tasks(const ConvShape& shape, int stage) {
  return stage == 0 ? shape.batch : quantised_rows(shape).count();
}

// What a processor may do faster: measure(values, count) gives the levels of an image, as measured_levels() does, and
// convert(values, count, levels, to) its bytes, as quantise_plainly() does.
template <class Measure, class Convert>
static inline void quantise(const ConvShape& shape, int stage, int task, const float* x, const Quantisation& range,
                            const Measure& measure, const Convert& convert, void* scratch) {
  if (stage == 0) {
    const ptrdiff_t count = image_size(shape);
    static_cast<Levels*>(scratch)[task] = range.dynamic ? measure(x + task * count, static_cast<size_t>(count))
                                                        : levels_for(range.low, range.high);
    return;
  }
  const size_t count = static_cast<size_t>(shape.width) * static_cast<size_t>(shape.channels);
  quantised_rows(shape).run(task, [&](int row) {
    const size_t first = static_cast<size_t>(row) * count;
    convert(x + first, count, quantised_levels(scratch)[row / shape.height],
            static_cast<uint8_t*>(scratch) + level_bytes(shape) + first);
  });
}

}  // namespace adaste

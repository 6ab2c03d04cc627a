// How the numbers of a value lie in memory: as torch's strides. Views share the memory of another value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "format/graph.h"

namespace adaste {

using Strides = std::vector<int64_t>;

// `buffer` is a place in the memory of activations; constants lie in the network (`fixed`) and are the same for all
// inputs.
struct View {
  Shape shape;
  Strides strides;
  int64_t offset = 0;
  int buffer = -1;
  const float* fixed = nullptr;
};

// The last axis fastest; or the first one, and then the others from the last on: channels-last.
Strides rows(const Shape& shape);
Strides channels_last(const Shape& shape);

// Do they give every place the same number? Axes of one place do not matter.
bool same(const Shape& shape, const Strides& a, const Strides& b);

// Do the numbers lie side by side in some order of the axes?
bool dense(const View& view);

// Is the axis of the smallest stride another one than the last? Then channels-last is the order for what follows.
bool prefers_channels_last(const View& view);

// The strides by which a view can be seen in another shape; none where its numbers would have to be moved.
std::optional<Strides> seen_as(const Shape& shape, const Strides& strides, const Shape& other);

}  // namespace adaste

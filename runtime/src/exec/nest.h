// Loops over the places of a shape with a stride per axis for each of several arrays: as few of them as there can be.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "exec/view.h"

namespace adaste {

template <size_t count>
class Nest {
 public:
  using Offsets = std::array<int64_t, count>;

  // The first array decides on the order: its axis of the smallest stride is the innermost.
  Nest(const Shape& shape, const std::array<Strides, count>& strides) {
    for (size_t axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      Axis added{shape[axis], {}};
      for (size_t i = 0; i < count; ++i) added.strides[i] = strides[i][axis];
      axes_.push_back(added);
    }
    std::stable_sort(axes_.begin(), axes_.end(),
                     [](const Axis& a, const Axis& b) { return a.strides[0] > b.strides[0]; });
    for (size_t axis = 1; axis < axes_.size();) axis = join(axis) ? axis : axis + 1;
    if (axes_.empty()) axes_.push_back({1, {}});
    split();
    for (size_t axis = 0; axis + 1 < axes_.size(); ++axis) outer_ *= axes_[axis].size;
  }

  int64_t outer() const { return outer_; }  // how often the innermost loop runs
  int64_t inner() const { return axes_.back().size; }
  const Offsets& steps() const { return axes_.back().strides; }

  // Where the innermost loop number `place` begins.
  Offsets offsets(int64_t place) const {
    Offsets result{};
    for (size_t axis = axes_.size() - 1; axis-- > 0; place /= axes_[axis].size)
      for (size_t i = 0; i < count; ++i) result[i] += place % axes_[axis].size * axes_[axis].strides[i];
    return result;
  }

 private:
  struct Axis {
    int64_t size;
    Offsets strides;
  };

  // Joins an axis with the one before it, if all arrays go on there as they went.
  bool join(size_t axis) {
    Axis& before = axes_[axis - 1];
    const Axis& own = axes_[axis];
    for (size_t i = 0; i < count; ++i)
      if (before.strides[i] != own.strides[i] * own.size) return false;
    before.size *= own.size;
    before.strides = own.strides;
    axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(axis));
    return true;
  }

  // A long innermost loop becomes several, if a power of two divides it: threads share these.
  void split() {
    constexpr int64_t piece = 1 << 13;
    Axis own = axes_.back();
    int64_t pieces = 1;
    while (own.size / pieces > piece && own.size % (2 * pieces) == 0) pieces *= 2;
    if (pieces == 1) return;
    Axis outer{pieces, {}};
    own.size /= pieces;
    for (size_t i = 0; i < count; ++i) outer.strides[i] = own.strides[i] * own.size;
    axes_.back() = outer;
    axes_.push_back(own);
  }

  std::vector<Axis> axes_;
  int64_t outer_ = 1;
};

}  // namespace adaste

// Loops over the places of a shape with a stride per axis for each of up to three arrays: as few of them as there can be.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exec/view.h"

namespace adaste {

class Nest {
 public:
  static constexpr size_t arrays = 3;
  using Offsets = std::array<int64_t, arrays>;

  // The first array decides on the order: its axis of the smallest stride is the innermost. A missing one has strides
  // of 0.
  Nest(const Shape& shape, const Strides& first, const Strides& second, const Strides& third = {});

  int64_t outer() const { return outer_; }  // how often the innermost loop runs
  int64_t inner() const { return axes_.back().size; }
  const Offsets& steps() const { return axes_.back().strides; }

  // Where the innermost loop number `place` begins.
  Offsets offsets(int64_t place) const;

 private:
  struct Axis {
    int64_t size;
    Offsets strides;
  };

  bool join(size_t axis);
  void split();

  std::vector<Axis> axes_;
  int64_t outer_ = 1;
};

}  // namespace adaste

#include "exec/view.h"

namespace adaste {

Strides rows(const Shape& shape) {
  Strides strides(shape.rank());
  int64_t step = 1;
  for (size_t axis = shape.rank(); axis-- > 0; step *= shape[axis]) strides[axis] = step;
  return strides;
}

Strides channels_last(const Shape& shape) {
  Strides strides(shape.rank());
  if (shape.rank() == 0) return strides;
  int64_t step = shape[0];
  for (size_t axis = shape.rank(); axis-- > 1; step *= shape[axis]) strides[axis] = step;
  strides[0] = 1;
  return strides;
}

bool same(const Shape& shape, const Strides& a, const Strides& b) {
  for (size_t axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] > 1 && a[axis] != b[axis]) return false;
  return true;
}

bool dense(const View& view) {
  for (int64_t step = 1; step < view.shape.elements();) {  // the axis that goes on where those before it end
    size_t axis = 0;
    while (axis < view.shape.rank() && (view.shape[axis] == 1 || view.strides[axis] != step)) ++axis;
    if (axis == view.shape.rank()) return false;
    step *= view.shape[axis];
  }
  return true;
}

bool prefers_channels_last(const View& view) {
  size_t fastest = view.shape.rank();
  for (size_t axis = 0; axis < view.shape.rank(); ++axis)
    if (view.shape[axis] > 1 && view.strides[axis] > 0 &&
        (fastest == view.shape.rank() || view.strides[axis] < view.strides[fastest]))
      fastest = axis;
  if (fastest == view.shape.rank()) return false;
  for (size_t axis = fastest + 1; axis < view.shape.rank(); ++axis)
    if (view.shape[axis] > 1) return true;
  return false;
}

// Axes that lie side by side as one are split and joined at will.
std::optional<Strides> seen_as(const Shape& shape, const Strides& strides, const Shape& other) {
  Strides result(other.rank());
  size_t next = other.rank();
  const auto take = [&](int64_t step, int64_t count) {  // the next axes from the back must have `count` places
    for (int64_t left = count; left > 1 || (next > 0 && other[next - 1] == 1);) {
      if (next == 0 || left % other[next - 1] != 0) return false;
      --next;
      result[next] = step;
      step *= other[next];
      left /= other[next];
    }
    return true;
  };
  for (size_t axis = shape.rank(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    const int64_t step = strides[axis];
    int64_t count = shape[axis];
    int64_t reach = strides[axis] * shape[axis];
    while (axis > 0 && (shape[axis - 1] == 1 || strides[axis - 1] == reach)) {
      --axis;
      if (shape[axis] == 1) continue;
      count *= shape[axis];
      reach = strides[axis] * shape[axis];
    }
    if (!take(step, count)) return std::nullopt;
  }
  if (!take(1, 1)) return std::nullopt;
  return result;
}

}  // namespace adaste

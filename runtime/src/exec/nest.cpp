#include "exec/nest.h"

namespace adaste {

Nest::Nest(const Shape& shape, const Strides& first, const Strides& second, const Strides& third) {
  const Strides* const all[arrays] = {&first, &second, &third};
  for (size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    Axis added{shape[axis], {}};
    for (size_t i = 0; i < arrays; ++i) added.strides[i] = all[i]->empty() ? 0 : (*all[i])[axis];
    size_t place = axes_.size();
    while (place > 0 && axes_[place - 1].strides[0] < added.strides[0]) --place;
    axes_.insert(axes_.begin() + static_cast<std::ptrdiff_t>(place), added);
  }
  for (size_t axis = 1; axis < axes_.size();) axis = join(axis) ? axis : axis + 1;
  if (axes_.empty()) axes_.push_back({1, {}});
  split();
  for (size_t axis = 0; axis + 1 < axes_.size(); ++axis) outer_ *= axes_[axis].size;
}

Nest::Offsets Nest::offsets(int64_t place) const {
  Offsets result{};
  for (size_t axis = axes_.size() - 1; axis-- > 0; place /= axes_[axis].size)
    for (size_t i = 0; i < arrays; ++i) result[i] += place % axes_[axis].size * axes_[axis].strides[i];
  return result;
}

// Joins an axis with the one before it, if all arrays go on there as they went.
bool Nest::join(size_t axis) {
  Axis& before = axes_[axis - 1];
  const Axis& own = axes_[axis];
  for (size_t i = 0; i < arrays; ++i)
    if (before.strides[i] != own.strides[i] * own.size) return false;
  before.size *= own.size;
  before.strides = own.strides;
  axes_.erase(axes_.begin() + static_cast<std::ptrdiff_t>(axis));
  return true;
}

// A long innermost loop becomes several, if a power of two divides it: threads share these.
void Nest::split() {
  constexpr int64_t piece = 1 << 13;
  Axis own = axes_.back();
  int64_t pieces = 1;
  while (own.size / pieces > piece && own.size % (2 * pieces) == 0) pieces *= 2;
  if (pieces == 1) return;
  Axis outer{pieces, {}};
  own.size /= pieces;
  for (size_t i = 0; i < arrays; ++i) outer.strides[i] = own.strides[i] * own.size;
  axes_.back() = outer;
  axes_.push_back(own);
}

}  // namespace adaste

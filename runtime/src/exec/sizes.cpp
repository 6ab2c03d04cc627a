#include "exec/sizes.h"

#include <algorithm>

#include "base/error.h"

namespace adaste {

Networks::Networks(const uint8_t* bytes, size_t size, const Options& options)
    : options_(options),
      largest_(std::make_shared<Network>(bytes, size, options)),
      signature_(free_signature(bytes, size, options.limits, largest_->graph())) {
  if (free().names.empty()) return;
  bytes_.assign(bytes, bytes + size);
  options_.other = largest_.get();
}

std::shared_ptr<Network> Networks::make(const std::vector<int>& sizes) const {
  try {
    auto network = std::make_shared<Network>(bytes_.data(), bytes_.size(), options_, &sizes);
    network->share_weights(*largest_);
    return network;
  } catch (const Error& error) {
    fail("the network cannot be run with ", std::string_view(free().described(sizes)), ": ", error.what());
  }
}

std::shared_ptr<Network> Networks::at(const std::vector<std::vector<int64_t>>& shapes) {
  if (free().names.empty()) return largest_;
  const std::vector<int> sizes = free().of(largest_->graph(), shapes);
  if (sizes == free().most) return largest_;
  const Lock::Held held(lock_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& each) { return each.first == sizes; });
  if (found != kept_.end()) {
    std::rotate(kept_.begin(), found, found + 1);
  } else {
    if (kept_.size() == most_kept) kept_.pop_back();
    kept_.emplace(kept_.begin(), sizes, make(sizes));
  }
  return kept_.front().second;
}

size_t Networks::memory_bytes() const {
  size_t bytes = largest_->memory_bytes();
  const Lock::Held held(lock_);
  for (const auto& each : kept_) bytes += each.second->memory_bytes();
  return bytes;
}

}  // namespace adaste

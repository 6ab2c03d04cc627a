// A network for inputs of several sizes: one that is planned for the largest, and some for those that were used last.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "exec/network.h"

namespace adaste {

class Networks {
 public:
  // How many sizes are kept beside the largest: each has its own plan and memory. They share workers, ranges and
  // weights, but for those that a kernel orders in another way.
  static constexpr size_t most_kept = 4;

  // As a Network. The bytes are kept where sizes are free.
  Networks(const uint8_t* bytes, size_t size, const Options& options);

  Network& largest() { return *largest_; }
  const Network& largest() const { return *largest_; }
  const FreeSizes& free() const { return largest_->graph().free; }

  // What it takes and gives: sizes that are free are any.
  const Signature& signature() const { return signature_; }

  // The network for inputs of these shapes, without the batch, in the order of its ports; it is made where it is not
  // kept. Several threads may ask at the same time. An Error where it cannot be.
  std::shared_ptr<Network> at(const std::vector<std::vector<int64_t>>& shapes);

  size_t memory_bytes() const;

 private:
  std::shared_ptr<Network> make(const std::vector<int>& sizes) const;

  std::vector<uint8_t> bytes_;
  Options options_;
  std::shared_ptr<Network> largest_;
  Signature signature_;
  mutable Lock lock_;
  std::vector<std::pair<std::vector<int>, std::shared_ptr<Network>>> kept_;  // the last used first
};

}  // namespace adaste

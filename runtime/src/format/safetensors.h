// The container: an 8-byte little-endian length, a JSON header of that length, and the tensors' data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace adaste {

enum class Type { uint8, float32 };

// A tensor whose data lie in the bytes it was read from, at any alignment.
struct Tensor {
  Type type;
  std::vector<uint64_t> shape;
  const uint8_t* data;
  size_t bytes;
};

struct Container {
  std::map<std::string, Tensor> tensors;
  std::string description;  // of the network, in JSON
  size_t data_bytes = 0;    // of the last part, the tensors' data
};

// Reads a container that must outlive its tensors. Every length, offset, shape and type is checked, and that the
// tensors cover the data without gaps or overlaps.
Container read_container(const uint8_t* bytes, size_t size);

// A whole file; an error unless it is a regular file of a sensible size. It is the caller who names it.
std::vector<uint8_t> read_file(const std::string& path);

}  // namespace adaste

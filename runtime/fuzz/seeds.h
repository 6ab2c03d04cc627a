// Valid files to start from: together they use every operation, kind of weight and field.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace fuzz {

// A file in its parts, which are mutated one by one: the description, the header's entries, the tensors' data.
struct Parts {
  std::string description;
  std::string entries;
  std::string data;
};

// The file with the right length and checksum for these parts.
std::string assembled(const Parts& parts);

std::vector<Parts> seeds();

}  // namespace fuzz

// Sizes of a network that its inputs decide: a file says which, the most that each may be, and how the numbers of
// inputs and nodes follow from them. The description itself is that of the largest.
//
// free_sizes_none.cpp is for WebAssembly, where every byte is loaded: it knows the largest alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "format/fields.h"
#include "format/signature.h"

namespace adaste {

struct Graph;
struct Limits;

struct FreeSizes {
  // A number of the description: times * (product of the sizes) + plus.
  struct Rule {
    std::string name, key;  // of an input or of a node's output, and the field
    int place;              // in the field; -1 where it is one number
    std::array<int, 2> of;  // numbers of sizes; -1 for none
    int64_t times, plus;
  };

  std::vector<std::string> names;
  std::vector<int> most;
  std::vector<Rule> rules;

  // The sizes that inputs of these shapes, without the batch, have. An Error where there are none.
  std::vector<int> of(const Graph& graph, const std::vector<std::vector<int64_t>>& shapes) const;

  // As a part of a message.
  std::string described(const std::vector<int>& sizes) const;
};

// What a description has of them; nothing in most.
FreeSizes read_free_sizes(const Fields& facts);

// What a network takes and gives, in which free sizes are any; the graph is that of the file for the largest.
Signature free_signature(const uint8_t* bytes, size_t size, const Limits& limits, const Graph& graph);

// Writes the numbers for some sizes into a description that has those of the largest, which are checked.
void set_free_sizes(const FreeSizes& free, const std::vector<int>& sizes, Json& description);

}  // namespace adaste

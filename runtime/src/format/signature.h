// What a network takes and gives, for those who ask: the names, types and shapes of all its inputs and outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace adaste {

struct Graph;

enum class ValueType { float32, int64 };

constexpr int64_t any_size = -1;  // of a dimension that the caller chooses

struct TensorFacts {
  std::string name;
  ValueType type;
  std::vector<int64_t> shape;  // the batch first
};

struct Signature {
  std::vector<TensorFacts> inputs, outputs;
};

Signature signature_of(const Graph& graph);

// An Error, which says what the network takes and gives, unless that is one image and one vector.
void require_image_to_vector(const Signature& signature);

}  // namespace adaste

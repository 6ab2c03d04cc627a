// For tests: whether the functions of the C interface for images accept a network with these inputs and outputs.
#include "adaste_runtime.h"
#include "base/error.h"
#include "format/signature.h"

namespace {

std::vector<adaste::TensorFacts> tensors(const char* name, int count, const int* facts) {
  std::vector<adaste::TensorFacts> result;
  for (int i = 0; i < count; ++i) {
    std::vector<int64_t> shape(static_cast<size_t>(facts[2 * i]), 5);
    shape[0] = adaste::any_size;
    const auto type = facts[2 * i + 1] == 0 ? adaste::ValueType::float32 : adaste::ValueType::int64;
    result.push_back({adaste::text(name, " ", i), type, std::move(shape)});
  }
  return result;
}

}  // namespace

extern "C" {

// The message, empty where they do. Each input and output is two numbers: its dimensions, and 1 if it is whole numbers.
ADASTE_API const char* adaste_refusal(int inputs, const int* input_facts, int outputs, const int* output_facts) {
  static std::string message;
  message.clear();
  try {
    adaste::require_image_to_vector({tensors("in", inputs, input_facts), tensors("out", outputs, output_facts)});
  } catch (const adaste::Error& error) {
    message = error.what();
  }
  return message.c_str();
}

}  // extern "C"

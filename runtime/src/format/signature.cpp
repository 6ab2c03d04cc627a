#include "format/signature.h"

#include "base/error.h"
#include "format/graph.h"

namespace adaste {
namespace {

TensorFacts facts_of(const Graph& graph, const Port& port) {
  const Value& value = graph.values[static_cast<size_t>(port.value)];
  std::vector<int64_t> shape = {any_size};
  shape.insert(shape.end(), value.shape.sides.begin(), value.shape.sides.end());
  return {port.name, value.integer ? ValueType::int64 : ValueType::float32, std::move(shape)};
}

bool is_float(const std::vector<TensorFacts>& tensors, size_t rank) {
  return tensors.size() == 1 && tensors[0].type == ValueType::float32 && tensors[0].shape.size() == rank;
}

std::string listed(const std::vector<TensorFacts>& tensors) {
  std::string message;
  for (const TensorFacts& tensor : tensors) {
    message += text(message.empty() ? "" : ", ", tensor.name, tensor.type == ValueType::float32 ? " float32 (" : " int64 (");
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (i > 0) message += ", ";
      message += tensor.shape[i] == any_size ? "any" : text(tensor.shape[i]);
    }
    message += ")";
  }
  return message;
}

}  // namespace

Signature signature_of(const Graph& graph) {
  Signature signature;
  for (const Port& port : graph.inputs) signature.inputs.push_back(facts_of(graph, port));
  for (const Port& port : graph.outputs) signature.outputs.push_back(facts_of(graph, port));
  return signature;
}

void require_image_to_vector(const Signature& signature) {
  if (is_float(signature.inputs, 4) && is_float(signature.outputs, 2)) return;
  const std::string inputs = listed(signature.inputs);
  const std::string outputs = listed(signature.outputs);
  fail("this function is for networks from one image (any, channels, height, width) to one vector (any, size), this one "
       "has the inputs ", std::string_view(inputs), " and the outputs ", std::string_view(outputs));
}

}  // namespace adaste

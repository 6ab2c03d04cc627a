#include "format/signature.h"

#include "base/error.h"

namespace adaste {
namespace {

TensorFacts facts_of(const Graph& graph, int number) {
  const Extent& extent = graph.values[static_cast<size_t>(number)];
  std::vector<int64_t> shape = {any_size, extent.channels};
  if (!extent.flat) shape.insert(shape.end(), {extent.height, extent.width});
  return {graph.names[static_cast<size_t>(number)], ValueType::float32, std::move(shape)};
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

Signature signature_of(const Graph& graph) { return {{facts_of(graph, 0)}, {facts_of(graph, graph.output)}}; }

void require_image_to_vector(const Signature& signature) {
  if (is_float(signature.inputs, 4) && is_float(signature.outputs, 2)) return;
  const std::string inputs = listed(signature.inputs);
  const std::string outputs = listed(signature.outputs);
  fail("this function is for networks from one image (any, channels, height, width) to one vector (any, size), this one "
       "has the inputs ", std::string_view(inputs), " and the outputs ", std::string_view(outputs));
}

}  // namespace adaste

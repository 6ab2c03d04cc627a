// The C functions that run any network: inputs and outputs by name, each checked against what the network wants.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "api/c.h"
#include "format/signature.h"

namespace {

using adaste::require;
using adaste::c::guarded;
using adaste::c::require_given;

struct Kind {
  int type;
  const char* name;
  size_t bytes;
};

constexpr Kind kinds[] = {{ADASTE_FLOAT32, "float32", sizeof(float)}, {ADASTE_INT64, "int64", sizeof(int64_t)},
                          {ADASTE_INT32, "int32", sizeof(int32_t)}, {ADASTE_UINT8, "uint8", 1}};

// Names and shapes are the caller's.
std::string described(const char* type, const std::vector<int64_t>& shape) {
  std::string message = adaste::text(type, " (");
  for (size_t i = 0; i < shape.size(); ++i) {
    message += i > 0 ? ", " : "";
    message += shape[i] == adaste::any_size ? "any" : adaste::text(shape[i]);
  }
  return message + ")";
}

const char* type_name(adaste::ValueType type) { return type == adaste::ValueType::float32 ? "float32" : "int64"; }

std::string_view name_of(const adaste_tensor& tensor, const char* what, int number) {
  require(tensor.name != nullptr, "the name of ", what, " ", number, " is NULL");
  return tensor.name;
}

// The place of a name among those of the network.
size_t place_of(const std::vector<adaste::TensorFacts>& all, const adaste_tensor& tensor, const char* what,
                int number) {
  const std::string name(name_of(tensor, what, number));
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& facts) { return facts.name == name; });
  if (found == all.end()) {
    std::string names;
    for (const adaste::TensorFacts& facts : all) names += adaste::text(names.empty() ? "" : ", ", facts.name);
    adaste::fail("the network has no ", what, " '", name, "'; it has ", std::string_view(names));
  }
  return static_cast<size_t>(found - all.begin());
}

bool may_have(const adaste::TensorFacts& facts, int type, bool input) {
  if (facts.type == adaste::ValueType::int64) return type == ADASTE_INT64 || type == ADASTE_INT32;
  return type == ADASTE_FLOAT32 || (input && type == ADASTE_UINT8 && facts.shape.size() == 4);
}

std::vector<int64_t> shape_of(const adaste_tensor& tensor, std::string_view name) {
  require(tensor.dimensions >= 0 && tensor.dimensions <= ADASTE_MOST_DIMENSIONS, "'", name, "' must have 0 to ",
          ADASTE_MOST_DIMENSIONS, " dimensions, got ", tensor.dimensions);
  return {tensor.shape, tensor.shape + tensor.dimensions};
}

// The shape that the network wants, as the caller has its axes: bytes have the channels last.
std::vector<int64_t> wanted_shape(const adaste::TensorFacts& facts, int type) {
  const std::vector<int64_t>& shape = facts.shape;
  return type == ADASTE_UINT8 ? std::vector<int64_t>{shape[0], shape[2], shape[3], shape[1]} : shape;
}

bool fits(const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted) {
  return std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end(), [](int64_t side, int64_t size) {
    return side >= 0 && (size == adaste::any_size || side == size);
  });
}

// The batch of all inputs and outputs, and where they lie, in the order of the network.
class Binding {
 public:
  explicit Binding(const adaste_network* network) : network_(required(network)), signature_(network_.signature()) {}

  void add(const adaste_input* inputs, int count) {
    require(count >= 0 && static_cast<size_t>(count) == signature_.inputs.size(), "the network has ",
            signature_.inputs.size(), " inputs, got ", count);
    require_given(inputs, "array of inputs");
    feeds_.resize(signature_.inputs.size());
    std::vector<bool> given(feeds_.size());
    for (int i = 0; i < count; ++i) {
      const adaste_input& input = inputs[i];
      const size_t place = place_of(signature_.inputs, input.tensor, "input", i);
      require(!given[place], "the input '", signature_.inputs[place].name, "' is given twice");
      given[place] = true;
      check(signature_.inputs[place], input.tensor, input.data, input.bytes, true);
      adaste::Feed& feed = feeds_[place];
      switch (input.tensor.type) {
        case ADASTE_FLOAT32: feed.floats = static_cast<const float*>(input.data); break;
        case ADASTE_INT64: feed.long_integers = static_cast<const int64_t*>(input.data); break;
        case ADASTE_INT32: feed.integers = static_cast<const int32_t*>(input.data); break;
        default: feed.bytes = static_cast<const uint8_t*>(input.data);
      }
    }
  }

  void add(const adaste_output* outputs, int count) {
    require(count >= 1 && static_cast<size_t>(count) <= signature_.outputs.size(), "the network has ",
            signature_.outputs.size(), " outputs, of which one at least is wanted, got ", count);
    require_given(outputs, "array of outputs");
    targets_.resize(signature_.outputs.size());
    std::vector<bool> given(targets_.size());
    for (int i = 0; i < count; ++i) {
      const adaste_output& output = outputs[i];
      const size_t place = place_of(signature_.outputs, output.tensor, "output", i);
      require(!given[place], "the output '", signature_.outputs[place].name, "' is given twice");
      given[place] = true;
      check(signature_.outputs[place], output.tensor, output.data, output.bytes, false);
      targets_[place] = static_cast<float*>(output.data);
    }
  }

  const adaste::Feed* feeds() const { return feeds_.data(); }
  float* const* targets() const { return targets_.data(); }
  int64_t batch() const { return batch_; }

 private:
  static const adaste::Network& required(const adaste_network* network) {
    require_given(network, "network");
    return network->network;
  }

  void check(const adaste::TensorFacts& facts, const adaste_tensor& tensor, const void* data, size_t bytes,
             bool input) {
    const auto* const kind = std::find_if(std::begin(kinds), std::end(kinds),
                                          [&](const Kind& each) { return each.type == tensor.type; });
    const std::vector<int64_t> shape = shape_of(tensor, facts.name);
    const bool known = kind != std::end(kinds);
    const std::vector<int64_t> wanted = wanted_shape(facts, may_have(facts, tensor.type, input) ? tensor.type : 0);
    require(known && may_have(facts, tensor.type, input) && fits(shape, wanted), "'", facts.name, "' must be ",
            std::string_view(described(type_name(facts.type), facts.shape)), ", got ",
            std::string_view(described(known ? kind->name : "an unknown type", shape)));
    require(batch_ < 0 || batch_ == shape[0], "all inputs and outputs must have one batch, got ", batch_, " and ",
            shape[0], " of '", facts.name, "'");
    const int64_t most = network_.most_images();
    require(shape[0] <= most, "the batch must be at most ", most, ", got ", shape[0]);
    batch_ = shape[0];
    size_t needed = kind->bytes;
    for (const int64_t side : shape) needed *= static_cast<size_t>(side);
    require(bytes == needed, "'", facts.name, "' ", std::string_view(described(kind->name, shape)), " has ", needed,
            " bytes, got ", bytes);
    require(needed == 0 || data != nullptr, "the data of '", facts.name, "' are NULL");
    require(reinterpret_cast<uintptr_t>(data) % kind->bytes == 0, "the data of '", facts.name,
            "' must begin at a multiple of ", kind->bytes, " bytes");
  }

  const adaste::Network& network_;
  const adaste::Signature& signature_;
  std::vector<adaste::Feed> feeds_;
  std::vector<float*> targets_;
  int64_t batch_ = -1;
};

}  // namespace

int adaste_run_tensors(adaste_network* network, const adaste_input* inputs, int input_count,
                       const adaste_output* outputs, int output_count) {
  return guarded(-1, [&] {
    Binding binding(network);
    binding.add(inputs, input_count);
    binding.add(outputs, output_count);
    network->network.run(binding.feeds(), binding.batch(), binding.targets());
    return 0;
  });
}

int adaste_calibrate_tensors(adaste_network* network, const adaste_input* inputs, int input_count) {
  return guarded(-1, [&] {
    Binding binding(network);
    binding.add(inputs, input_count);
    network->network.calibrate(binding.feeds(), binding.batch());
    return 0;
  });
}

// The C functions that run any network: inputs and outputs by name, each checked against what the network wants.
#include <algorithm>
#include <cstdint>
#include <memory>
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

// Null where there is no such type.
const Kind* kind_of(const adaste_tensor& tensor) {
  const Kind* const found =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const Kind& each) { return each.type == tensor.type; });
  return found == std::end(kinds) ? nullptr : found;
}

// A shape that is wanted, where a size may be any, or one that is given.
std::string described(const char* type, const std::vector<int64_t>& shape, bool wanted = false) {
  std::string message = adaste::text(type, " (");
  for (size_t i = 0; i < shape.size(); ++i) {
    message += i > 0 ? ", " : "";
    message += wanted && shape[i] == adaste::any_size ? "any" : adaste::text(shape[i]);
  }
  return message + ")";
}

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

// What an input or output may be, in words.
std::string allowed(const adaste::TensorFacts& facts, bool input) {
  const bool whole = facts.type == adaste::ValueType::int64;
  const std::string message = described(whole ? "int64 or int32" : "float32", facts.shape, true);
  const bool bytes = may_have(facts, ADASTE_UINT8, input);
  return bytes ? message + " or " + described("uint8", wanted_shape(facts, ADASTE_UINT8), true) : message;
}

bool fits(const std::vector<int64_t>& shape, const std::vector<int64_t>& wanted) {
  return std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end(), [](int64_t side, int64_t size) {
    return side >= 0 && (size == adaste::any_size || side == size);
  });
}

// The batch of all inputs and outputs, and where they lie, in the order of the network.
class Binding {
 public:
  explicit Binding(adaste_network* network) : networks_(required(network)), signature_(networks_.signature()) {}

  // `described` is enough for the sizes of outputs: then there are no data.
  void add(const adaste_input* inputs, int count, bool described = false) {
    require(count >= 0 && static_cast<size_t>(count) == signature_.inputs.size(), "the network has ",
            signature_.inputs.size(), " inputs, got ", count);
    require_given(inputs, "array of inputs");
    feeds_.resize(signature_.inputs.size());
    std::vector<bool> given(feeds_.size());
    std::vector<std::vector<int64_t>> shapes(feeds_.size());
    for (int i = 0; i < count; ++i) {
      const adaste_input& input = inputs[i];
      const size_t place = place_of(signature_.inputs, input.tensor, "input", i);
      require(!given[place], "the input '", signature_.inputs[place].name, "' is given twice");
      given[place] = true;
      shapes[place] = check(signature_.inputs[place], input.tensor, true);
      if (!described) check_data(signature_.inputs[place], input.tensor, input.data, input.bytes);
      adaste::Feed& feed = feeds_[place];
      switch (input.tensor.type) {
        case ADASTE_FLOAT32: feed.floats = static_cast<const float*>(input.data); break;
        case ADASTE_INT64: feed.long_integers = static_cast<const int64_t*>(input.data); break;
        case ADASTE_INT32: feed.integers = static_cast<const int32_t*>(input.data); break;
        default: feed.bytes = static_cast<const uint8_t*>(input.data);
      }
    }
    network_ = networks_.at(shapes);
  }

  void add(const adaste_output* outputs, int count) {
    require(count >= 1 && static_cast<size_t>(count) <= signature_.outputs.size(), "the network has ",
            signature_.outputs.size(), " outputs, of which one at least is wanted, got ", count);
    require_given(outputs, "array of outputs");
    targets_.resize(signature_.outputs.size());
    std::vector<bool> given(targets_.size());
    const std::vector<adaste::TensorFacts>& facts = network_->signature().outputs;
    for (int i = 0; i < count; ++i) {
      const adaste_output& output = outputs[i];
      const size_t place = place_of(signature_.outputs, output.tensor, "output", i);
      require(!given[place], "the output '", signature_.outputs[place].name, "' is given twice");
      given[place] = true;
      check(facts[place], output.tensor, false);
      check_data(facts[place], output.tensor, output.data, output.bytes);
      targets_[place] = static_cast<float*>(output.data);
    }
  }

  const adaste::Feed* feeds() const { return feeds_.data(); }
  float* const* targets() const { return targets_.data(); }
  int64_t batch() const { return batch_; }
  adaste::Network& network() const { return *network_; }

 private:
  static adaste::Networks& required(adaste_network* network) {
    require_given(network, "network");
    return network->networks;
  }

  // The shape without the batch, the channels first.
  std::vector<int64_t> check(const adaste::TensorFacts& facts, const adaste_tensor& tensor, bool input) {
    const Kind* const kind = kind_of(tensor);
    std::vector<int64_t> shape = shape_of(tensor, facts.name);
    const std::vector<int64_t> wanted = wanted_shape(facts, may_have(facts, tensor.type, input) ? tensor.type : 0);
    const bool right = kind != nullptr && may_have(facts, tensor.type, input) && fits(shape, wanted);
    require(right, "'", facts.name, "' must be ", std::string_view(allowed(facts, input)), ", got ",
            std::string_view(described(kind == nullptr ? "an unknown type" : kind->name, shape)));
    require(batch_ < 0 || batch_ == shape[0], "all inputs and outputs must have one batch, got ", batch_, " and ",
            shape[0], " of '", facts.name, "'");
    const int64_t most = networks_.largest().most_images();
    require(shape[0] <= most, "the batch must be at most ", most, ", got ", shape[0]);
    batch_ = shape[0];
    shape.erase(shape.begin());
    if (tensor.type == ADASTE_UINT8) std::rotate(shape.begin(), shape.begin() + 2, shape.end());
    return shape;
  }

  void check_data(const adaste::TensorFacts& facts, const adaste_tensor& tensor, const void* data, size_t bytes) const {
    const Kind& kind = *kind_of(tensor);
    const std::vector<int64_t> shape = shape_of(tensor, facts.name);
    size_t needed = kind.bytes;
    for (const int64_t side : shape) {
      const auto count = static_cast<size_t>(side);
      require(count == 0 || needed <= SIZE_MAX / count, "'", facts.name, "' is larger than any memory");
      needed *= count;
    }
    require(bytes == needed, "'", facts.name, "' ", std::string_view(described(kind.name, shape)), " has ", needed,
            " bytes, got ", bytes);
    require(needed == 0 || data != nullptr, "the data of '", facts.name, "' are NULL");
    require(reinterpret_cast<uintptr_t>(data) % kind.bytes == 0, "the data of '", facts.name,
            "' must begin at a multiple of ", kind.bytes, " bytes");
  }

  adaste::Networks& networks_;
  const adaste::Signature& signature_;
  std::shared_ptr<adaste::Network> network_;
  std::vector<adaste::Feed> feeds_;
  std::vector<float*> targets_;
  int64_t batch_ = -1;
};

}  // namespace

int adaste_describe_outputs_for(adaste_network* network, const adaste_input* inputs, int input_count,
                                adaste_tensor* outputs, int output_count) {
  return guarded(-1, [&] {
    Binding binding(network);
    binding.add(inputs, input_count, true);
    const std::vector<adaste::TensorFacts>& all = binding.network().signature().outputs;
    require(output_count >= 0 && static_cast<size_t>(output_count) == all.size(), "the network has ", all.size(),
            " outputs, got ", output_count);
    require_given(outputs, "array of outputs");
    for (size_t i = 0; i < all.size(); ++i) {
      const adaste::TensorFacts& own = network->networks.signature().outputs[i];
      outputs[i] = {own.name.c_str(), ADASTE_FLOAT32, static_cast<int>(own.shape.size()), {binding.batch()}};
      std::copy(all[i].shape.begin() + 1, all[i].shape.end(), outputs[i].shape + 1);
    }
    return 0;
  });
}

int adaste_run_tensors(adaste_network* network, const adaste_input* inputs, int input_count,
                       const adaste_output* outputs, int output_count) {
  return guarded(-1, [&] {
    Binding binding(network);
    binding.add(inputs, input_count);
    binding.add(outputs, output_count);
    binding.network().run(binding.feeds(), binding.batch(), binding.targets());
    return 0;
  });
}

int adaste_calibrate_tensors(adaste_network* network, const adaste_input* inputs, int input_count) {
  return guarded(-1, [&] {
    Binding binding(network);
    binding.add(inputs, input_count);
    binding.network().calibrate(binding.feeds(), binding.batch());
    return 0;
  });
}

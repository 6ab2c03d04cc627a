#include "api/c.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/version.h"
#include "format/safetensors.h"

using adaste::c::guarded;
using adaste::c::require_given;

namespace {

adaste_network* loaded(const uint8_t* bytes, size_t size, int threads, int int8) {
  adaste::Options options;
  options.threads = threads;
  options.int8 = int8 != 0;
  return new adaste_network{{bytes, size, options}};
}

// The network of a function for images: all but those that describe inputs and outputs.
const adaste::Network& image_network(const adaste_network* network) {
  require_given(network, "network");
  adaste::require_image_to_vector(network->networks.signature());
  return network->networks.largest();
}

void require_among(int number, size_t count, const char* kind) {
  adaste::require(number >= 0 && static_cast<size_t>(number) < count, "the number of an ", kind, " must be 0 to ",
                  count - 1, ", got ", number);
}

using Tensors = std::vector<adaste::TensorFacts> adaste::Signature::*;

int describe(const adaste_network* network, Tensors tensors, const char* kind, int number, adaste_tensor* to) {
  return guarded(-1, [&] {
    require_given(network, "network");
    require_given(to, "description");
    const std::vector<adaste::TensorFacts>& all = network->networks.signature().*tensors;
    require_among(number, all.size(), kind);
    const adaste::TensorFacts& facts = all[static_cast<size_t>(number)];
    constexpr size_t most = ADASTE_MOST_DIMENSIONS;
    adaste::require(facts.shape.size() <= most, "'", facts.name, "' has ", facts.shape.size(),
                    " dimensions; a description has at most ", most);
    const int type = facts.type == adaste::ValueType::float32 ? ADASTE_FLOAT32 : ADASTE_INT64;
    *to = {facts.name.c_str(), type, static_cast<int>(facts.shape.size()), {}};
    std::copy(facts.shape.begin(), facts.shape.end(), to->shape);
    return 0;
  });
}

int count(const adaste_network* network, Tensors tensors) {
  return guarded(-1, [&] {
    require_given(network, "network");
    return static_cast<int>((network->networks.signature().*tensors).size());
  });
}

int write_normalisation(const adaste_network& network, int number, float* mean, float* std, int channels) {
  require_given(mean, "array of means");
  require_given(std, "array of standard deviations");
  const std::vector<adaste::Port>& ports = network.networks.largest().input_ports();
  require_among(number, ports.size(), "input");
  const adaste::Port& port = ports[static_cast<size_t>(number)];
  const adaste::Shape& shape = network.networks.largest().value_of(port).shape;
  adaste::require(shape.rank() == 3, "'", port.name, "' has no images, which are what is normalised");
  adaste::require(channels == shape[0], "the arrays must have one number for each of ", shape[0], " channels, got ",
                  channels);
  const auto rounded = [](double value) { return static_cast<float>(value); };
  std::transform(port.mean.begin(), port.mean.end(), mean, rounded);
  std::transform(port.std.begin(), port.std.end(), std, rounded);
  return port.mean.empty() ? 0 : 1;
}

// Images whose number is one that there can be: a negative one becomes huge as a size_t.
int64_t checked_count(const adaste_network* network, const void* images, size_t count) {
  const int64_t most = image_network(network).most_images();
  adaste::require(count <= static_cast<uint64_t>(most), "there must be at most ", most, " images, got ", count);
  if (count != 0) require_given(images, "array of images");
  return static_cast<int64_t>(count);
}

int run(adaste_network* network, const float* floats, const uint8_t* bytes, size_t count, float* outputs) {
  return guarded(-1, [&] {
    const int64_t checked = checked_count(network, floats != nullptr ? floats : static_cast<const void*>(bytes), count);
    if (checked != 0) require_given(outputs, "array of outputs");
    network->networks.largest().run({floats, bytes, checked}, outputs);
    return 0;
  });
}

}  // namespace

const char* adaste_version(void) { return adaste::version(); }

const char* adaste_last_error(void) { return adaste::c::last_error().c_str(); }

std::string& adaste::c::last_error() {
  thread_local std::string message;
  return message;
}

adaste_network* adaste_load_file(const char* path, int threads, int int8) {
  return guarded<adaste_network*>(nullptr, [&] {
    require_given(path, "path");
    try {
      const std::vector<uint8_t> bytes = adaste::read_file(path);
      return loaded(bytes.data(), bytes.size(), threads, int8);
    } catch (const adaste::Error& error) {
      adaste::fail(path, ": ", error.what());
    }
  });
}

adaste_network* adaste_load_memory(const void* bytes, size_t size, int threads, int int8) {
  return guarded<adaste_network*>(nullptr, [&] {
    require_given(bytes, "array of bytes");
    return loaded(static_cast<const uint8_t*>(bytes), size, threads, int8);
  });
}

void adaste_free(adaste_network* network) { delete network; }

int adaste_input_count(const adaste_network* network) { return count(network, &adaste::Signature::inputs); }

int adaste_output_count(const adaste_network* network) { return count(network, &adaste::Signature::outputs); }

int adaste_describe_input(const adaste_network* network, int number, adaste_tensor* input) {
  return describe(network, &adaste::Signature::inputs, "input", number, input);
}

int adaste_describe_output(const adaste_network* network, int number, adaste_tensor* output) {
  return describe(network, &adaste::Signature::outputs, "output", number, output);
}

int adaste_input_normalisation(const adaste_network* network, int number, float* mean, float* std, int channels) {
  return guarded(-1, [&] {
    require_given(network, "network");
    return write_normalisation(*network, number, mean, std, channels);
  });
}

void adaste_input_shape(const adaste_network* network, int shape[3]) {
  guarded(-1, [&] {
    require_given(shape, "array of the shape");
    shape[0] = shape[1] = shape[2] = 0;
    const adaste::Extent input = image_network(network).input();
    shape[0] = input.channels;
    shape[1] = input.height;
    shape[2] = input.width;
    return 0;
  });
}

int adaste_output_size(const adaste_network* network) {
  return guarded(-1, [&] { return image_network(network).outputs(); });
}

int adaste_normalisation(const adaste_network* network, float* mean, float* std, int channels) {
  return guarded(-1, [&] {
    image_network(network);
    return write_normalisation(*network, 0, mean, std, channels);
  });
}

int adaste_class_count(const adaste_network* network) {
  return guarded(-1, [&] { return static_cast<int>(image_network(network).classes().size()); });
}

const char* adaste_class_name(const adaste_network* network, int number) {
  return guarded<const char*>(nullptr, [&] {
    const std::vector<std::string>& classes = image_network(network).classes();
    return number >= 0 && static_cast<size_t>(number) < classes.size() ? classes[static_cast<size_t>(number)].c_str()
                                                                       : nullptr;
  });
}

int adaste_run(adaste_network* network, const float* images, size_t count, float* outputs) {
  return run(network, images, nullptr, count, outputs);
}

int adaste_run_bytes(adaste_network* network, const uint8_t* images, size_t count, float* outputs) {
  return run(network, nullptr, images, count, outputs);
}

int adaste_calibrate(adaste_network* network, const float* images, size_t count) {
  return guarded(-1, [&] {
    const adaste::Feed feed{images};
    const int64_t checked = checked_count(network, images, count);
    network->networks.largest().calibrate(&feed, checked);
    return 0;
  });
}

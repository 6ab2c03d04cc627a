#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "adaste_runtime.h"
#include "base/error.h"
#include "base/version.h"
#include "exec/network.h"
#include "format/safetensors.h"

struct adaste_network {
  adaste::Network network;
};

namespace {

thread_local std::string last_error;

// No exception may leave a C function, and no pointer of its caller is used before it was looked at.
template <class Result, class Function>
Result guarded(Result failure, const Function& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    last_error = "not enough memory";
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return failure;
}

void require_given(const void* pointer, const char* name) {
  adaste::require(pointer != nullptr, "the ", name, " is NULL");
}

adaste_network* loaded(const uint8_t* bytes, size_t size, int threads, int int8) {
  adaste::Options options;
  options.threads = threads;
  options.int8 = int8 != 0;
  return new adaste_network{{bytes, size, options}};
}

// The network of a function for images: all but those that describe inputs and outputs.
const adaste::Network& image_network(const adaste_network* network) {
  require_given(network, "network");
  adaste::require_image_to_vector(network->network.signature());
  return network->network;
}

using Tensors = std::vector<adaste::TensorFacts> adaste::Signature::*;

int describe(const adaste_network* network, Tensors tensors, const char* kind, int number, adaste_tensor* to) {
  return guarded(-1, [&] {
    require_given(network, "network");
    require_given(to, "description");
    const std::vector<adaste::TensorFacts>& all = network->network.signature().*tensors;
    adaste::require(number >= 0 && static_cast<size_t>(number) < all.size(), "the number of an ", kind,
                    " must be 0 to ", all.size() - 1, ", got ", number);
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
    return static_cast<int>((network->network.signature().*tensors).size());
  });
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
    network->network.run({floats, bytes, checked}, outputs);
    return 0;
  });
}

}  // namespace

const char* adaste_version(void) { return adaste::version(); }

const char* adaste_last_error(void) { return last_error.c_str(); }

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
    const adaste::Network& facts = image_network(network);
    require_given(mean, "array of means");
    require_given(std, "array of standard deviations");
    adaste::require(channels == facts.input().channels, "the arrays must have one number for each of ",
                    facts.input().channels, " channels, got ", channels);
    const auto rounded = [](double value) { return static_cast<float>(value); };
    std::transform(facts.mean().begin(), facts.mean().end(), mean, rounded);
    std::transform(facts.std().begin(), facts.std().end(), std, rounded);
    return facts.mean().empty() ? 0 : 1;
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
    const int64_t checked = checked_count(network, images, count);
    network->network.calibrate({images, nullptr, checked});
    return 0;
  });
}

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "adaste_runtime.h"
#include "base/error.h"
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

// Images whose number is one that there can be: a negative one becomes huge as a size_t.
int64_t checked_count(const adaste_network* network, const void* images, size_t count) {
  require_given(network, "network");
  const int64_t most = network->network.most_images();
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

void adaste_input_shape(const adaste_network* network, int shape[3]) {
  guarded(-1, [&] {
    require_given(shape, "array of the shape");
    shape[0] = shape[1] = shape[2] = 0;
    require_given(network, "network");
    const adaste::Extent& input = network->network.input();
    shape[0] = input.channels;
    shape[1] = input.height;
    shape[2] = input.width;
    return 0;
  });
}

int adaste_output_size(const adaste_network* network) {
  return guarded(-1, [&] {
    require_given(network, "network");
    return network->network.outputs();
  });
}

const char* adaste_class_name(const adaste_network* network, int number) {
  return guarded<const char*>(nullptr, [&] {
    require_given(network, "network");
    const std::vector<std::string>& classes = network->network.classes();
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

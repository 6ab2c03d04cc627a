// Calls of the C functions for inputs and outputs by name, mutated: each runs or fails with a message, and nothing is
// read or written beyond the memory that the call names. Build with sanitizers.
//     fuzz_tensors COUNT [FIRST_SEED]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "adaste_runtime.h"
#include "seeds.h"

namespace {

using Random = std::mt19937_64;

struct Freed {
  void operator()(adaste_network* network) const { adaste_free(network); }
};
using Network = std::unique_ptr<adaste_network, Freed>;

// Inputs and outputs of a call with memory of exactly their size.
struct Request {
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<adaste_input> inputs;
  std::vector<adaste_output> outputs;
};

size_t width(int type) { return type == ADASTE_INT64 ? 8 : type == ADASTE_UINT8 ? 1 : 4; }

char* allocate(Request& request, size_t bytes) {
  request.memory.emplace_back(new char[bytes]);
  return request.memory.back().get();
}

size_t count_of(const adaste_tensor& tensor) {
  size_t count = 1;
  for (int i = 0; i < tensor.dimensions; ++i) count *= static_cast<size_t>(tensor.shape[i]);
  return count;
}

adaste_input input_for(adaste_tensor tensor, int64_t batch, Random& random, Request& request) {
  tensor.shape[0] = batch;
  for (int i = 1; i < tensor.dimensions; ++i)  // of the seed with free sizes: 8 or 4, 6 and 5
    if (tensor.shape[i] == ADASTE_ANY_SIZE)
      tensor.shape[i] = tensor.dimensions == 2 ? 5 : i == 2 ? 8 - 4 * (batch % 2) : 6;
  if (tensor.type == ADASTE_INT64 && random() % 2 == 0) tensor.type = ADASTE_INT32;
  if (tensor.type == ADASTE_FLOAT32 && tensor.dimensions == 4 && random() % 2 == 0) {
    const int64_t channels = tensor.shape[1];
    tensor.type = ADASTE_UINT8;
    tensor.shape[1] = tensor.shape[2];
    tensor.shape[2] = tensor.shape[3];
    tensor.shape[3] = channels;
  }
  const size_t count = count_of(tensor);
  char* const data = allocate(request, count * width(tensor.type));
  for (size_t i = 0; i < count; ++i) switch (tensor.type) {
      case ADASTE_INT64: reinterpret_cast<int64_t*>(data)[i] = static_cast<int64_t>(random() % 3); break;
      case ADASTE_INT32: reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(random() % 3); break;
      case ADASTE_UINT8: data[i] = static_cast<char>(random()); break;
      default: reinterpret_cast<float*>(data)[i] = std::uniform_real_distribution<float>(-2, 2)(random);
    }
  return {tensor, data, count * width(tensor.type)};
}

Request request_for(adaste_network* network, Random& random) {
  Request request;
  const auto batch = static_cast<int64_t>(random() % 4);
  adaste_tensor tensor;
  for (int i = 0; adaste_describe_input(network, i, &tensor) == 0; ++i)
    request.inputs.push_back(input_for(tensor, batch, random, request));
  std::vector<adaste_tensor> outputs(static_cast<size_t>(adaste_output_count(network)));
  if (adaste_describe_outputs_for(network, request.inputs.data(), static_cast<int>(request.inputs.size()),
                                  outputs.data(), static_cast<int>(outputs.size())) != 0)
    std::abort();
  for (const adaste_tensor& output : outputs) {
    const size_t bytes = count_of(output) * sizeof(float);
    request.outputs.push_back({output, allocate(request, bytes), bytes});
  }
  return request;
}

int64_t odd_number(Random& random) {
  static const int64_t all[] = {0,         1,         -1,        2,         3,        7, 8, 9, 255, INT32_MAX,
                                INT32_MIN, INT64_MAX, INT64_MIN, int64_t{1} << 32};
  return all[random() % (sizeof all / sizeof *all)];
}

// Only makes the call state something else; the memory stays as large as before, so that a call which would use more of
// it must be refused. The bytes stay the memory's, or become fewer.
template <class Array>
void spoil(Array& array, Random& random) {
  static const char* const names[] = {"x",   "tokens", "mask",   "map", "rows",
                                      "out", "input",  "logits", "",    "\x1b[2J\xff"};
  switch (random() % 7) {
    case 0: array.tensor.name = random() % 4 == 0 ? nullptr : names[random() % 10]; break;
    case 1: array.tensor.type = static_cast<int>(random() % 6); break;
    case 2: array.tensor.dimensions = static_cast<int>(odd_number(random)); break;
    case 3: array.data = nullptr; break;
    case 4: array.bytes = array.bytes == 0 ? 0 : random() % array.bytes; break;
    default: array.tensor.shape[random() % ADASTE_MOST_DIMENSIONS] = odd_number(random);
  }
}

// Numbers that a network must refuse, or not.
void spoil_numbers(Request& request, Random& random) {
  adaste_input& input = request.inputs[random() % request.inputs.size()];
  if (input.bytes == 0 || input.data == nullptr) return;
  char* const data = const_cast<char*>(static_cast<const char*>(input.data));
  data[random() % input.bytes] ^= static_cast<char>(1U << (random() % 8));
}

bool good(uint64_t seed, const std::vector<fuzz::Parts>& seeds, uint64_t& ran) {
  Random random(seed);
  const std::string file = assembled(seeds[random() % seeds.size()]);
  const Network network(adaste_load_memory(file.data(), file.size(), 1, random() % 4 == 0));
  if (network == nullptr) return false;
  for (int i = 0; i < 20; ++i) {
    Request request = request_for(network.get(), random);
    auto inputs = static_cast<int>(request.inputs.size());
    auto outputs = static_cast<int>(request.outputs.size());
    const size_t changes = random() % 4;
    for (size_t change = 0; change < changes; ++change) switch (random() % 5) {
        case 0: spoil_numbers(request, random); break;
        case 1: spoil(request.outputs[random() % request.outputs.size()], random); break;
        case 2: random() % 2 == 0 ? --inputs : --outputs; break;
        default: spoil(request.inputs[random() % request.inputs.size()], random);
      }
    const int done =
        adaste_run_tensors(network.get(), request.inputs.data(), inputs, request.outputs.data(), outputs);
    const int calibrated = adaste_calibrate_tensors(network.get(), request.inputs.data(), inputs);
    if (done == 0) ++ran;
    if (changes == 0 && done != 0) return false;
    if ((done != 0 || calibrated != 0) && *adaste_last_error() == 0) return false;
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t networks = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 100;
  const uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  const std::vector<fuzz::Parts> seeds = fuzz::seeds();
  uint64_t ran = 0;
  for (uint64_t seed = first; seed < first + networks; ++seed)
    if (!good(seed, seeds, ran)) {
      std::printf("a call for seed %llu is answered wrongly: %s\n", static_cast<unsigned long long>(seed),
                  adaste_last_error());
      return 1;
    }
  std::printf("%llu calls by name: %llu ran, all others were refused\n", static_cast<unsigned long long>(20 * networks),
              static_cast<unsigned long long>(ran));
}

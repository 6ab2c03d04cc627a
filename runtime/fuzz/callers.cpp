// Several callers of one network at the same time, with more threads than there are processors: all get what a single
// caller of a network with one thread gets. Build with ThreadSanitizer.
//     fuzz_callers COUNT [FIRST_SEED]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "exec/network.h"
#include "seeds.h"

namespace {

using adaste::Network;
using Random = std::mt19937_64;

std::unique_ptr<Network> network_of(const std::string& file, int threads, bool int8) {
  adaste::Options options;
  options.threads = threads;
  options.int8 = int8;
  return std::make_unique<Network>(reinterpret_cast<const uint8_t*>(file.data()), file.size(), options);
}

std::vector<float> outputs_of(Network& network, const std::vector<float>& images, int64_t count) {
  std::vector<float> outputs(static_cast<size_t>(network.outputs() * count));
  network.run({images.data(), nullptr, count}, outputs.data());
  return outputs;
}

// What one caller asks for, and what it must get.
struct Question {
  int64_t count;
  std::vector<float> images, expected;
};

bool right(uint64_t seed, const std::string& file) {
  Random random(seed);
  const int threads = 1 + static_cast<int>(random() % 6);
  const bool int8 = random() % 2 == 0;
  const auto alone = network_of(file, 1, int8);
  const auto shared = network_of(file, threads, int8);
  std::vector<Question> questions(2 + random() % 7);
  for (Question& each : questions) {
    each.count = 1 + static_cast<int64_t>(random() % 3);
    each.images.resize(static_cast<size_t>(shared->input().elements() * each.count));
    for (float& value : each.images) value = std::uniform_real_distribution<float>(-2, 2)(random);
    each.expected = outputs_of(*alone, each.images, each.count);
  }
  std::atomic<bool> good{true};
  std::vector<std::thread> callers;
  for (const Question& each : questions)
    callers.emplace_back([&] {
      for (int i = 0; i < 5; ++i)
        if (outputs_of(*shared, each.images, each.count) != each.expected) good = false;
      static_cast<void>(shared->memory_bytes());
    });
  for (std::thread& caller : callers) caller.join();
  return good;
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t networks = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 100;
  const uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  const std::vector<fuzz::Parts> seeds = fuzz::seeds();
  for (uint64_t seed = first; seed < first + networks; ++seed)
    if (!right(seed, assembled(seeds[seed % seeds.size()]))) {
      std::printf("a caller got something else for seed %llu\n", static_cast<unsigned long long>(seed));
      return 1;
    }
  std::printf("%llu networks with many callers: all right\n", static_cast<unsigned long long>(networks));
}

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

// What one caller asks for, and what it must get.
struct Question {
  int64_t count;
  std::vector<std::vector<float>> floats;  // an array for each input
  std::vector<std::vector<int32_t>> integers;
  std::vector<std::vector<float>> expected;
};

Question question_for(const Network& network, Random& random) {
  Question result{1 + static_cast<int64_t>(random() % 3), {}, {}, {}};
  for (const adaste::Port& port : network.input_ports()) {
    const auto size = static_cast<size_t>(network.value_of(port).shape.elements() * result.count);
    result.floats.emplace_back(size);
    for (float& value : result.floats.back()) value = std::uniform_real_distribution<float>(-2, 2)(random);
    result.integers.emplace_back(size);
    for (int32_t& value : result.integers.back()) value = static_cast<int32_t>(random() % 3);
  }
  return result;
}

std::vector<std::vector<float>> outputs_of(Network& network, const Question& question) {
  std::vector<adaste::Feed> feeds;
  for (size_t i = 0; i < question.floats.size(); ++i)
    feeds.push_back({question.floats[i].data(), nullptr, question.integers[i].data()});
  std::vector<std::vector<float>> outputs;
  std::vector<float*> places;
  for (const adaste::Port& port : network.output_ports()) {
    outputs.emplace_back(static_cast<size_t>(network.value_of(port).shape.elements() * question.count));
    places.push_back(outputs.back().data());
  }
  network.run(feeds.data(), question.count, places.data());
  return outputs;
}

bool right(uint64_t seed, const std::string& file) {
  Random random(seed);
  const int threads = 1 + static_cast<int>(random() % 6);
  const bool int8 = random() % 2 == 0;
  const auto alone = network_of(file, 1, int8);
  const auto shared = network_of(file, threads, int8);
  std::vector<Question> questions;
  for (size_t i = 2 + random() % 7; i > 0; --i) {
    questions.push_back(question_for(*alone, random));
    questions.back().expected = outputs_of(*alone, questions.back());
  }
  std::atomic<bool> good{true};
  std::vector<std::thread> callers;
  for (const Question& each : questions)
    callers.emplace_back([&] {
      for (int i = 0; i < 5; ++i)
        if (outputs_of(*shared, each) != each.expected) good = false;
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

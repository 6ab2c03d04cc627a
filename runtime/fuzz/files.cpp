// Loads and runs mutated files: each must be refused with an Error or run, whatever it says. Build with sanitizers.
//     fuzz_files COUNT [FIRST_SEED]
// A file is a function of its seed, so a failure can be repeated with COUNT = 1.
#ifndef __wasi__
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "exec/sizes.h"
#include "seeds.h"

namespace {

using Random = std::mt19937_64;

#ifdef __wasi__
constexpr int most_threads = 1;
void alarm(unsigned /*seconds*/) {}  // who starts the program must look at the clock
#else
constexpr int most_threads = 2;
#endif

size_t below(Random& random, size_t end) { return end == 0 ? 0 : random() % end; }

// Where numbers or strings (without their quotes) are in a text.
struct Span {
  size_t begin, end;
};

std::vector<Span> numbers(const std::string& text) {
  std::vector<Span> spans;
  const auto part = [&](size_t i) {
    return i < text.size() && (std::isdigit(static_cast<unsigned char>(text[i])) != 0);
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!part(i)) continue;
    const size_t begin = i;
    while (part(i)) ++i;
    spans.push_back({begin, i});
  }
  return spans;
}

std::vector<Span> strings(const std::string& text) {
  std::vector<Span> spans;
  for (size_t i = text.find('"'); i != std::string::npos; i = text.find('"', i + 1)) {
    const size_t end = text.find('"', i + 1);
    if (end == std::string::npos) break;
    spans.push_back({i + 1, end});
    i = end;
  }
  return spans;
}

const std::vector<std::string>& odd_numbers() {
  static const std::vector<std::string> all = {"0",
                                               "-1",
                                               "1",
                                               "2",
                                               "3",
                                               "4",
                                               "5",
                                               "7",
                                               "8",
                                               "9",
                                               "16",
                                               "17",
                                               "63",
                                               "64",
                                               "65",
                                               "255",
                                               "256",
                                               "1000",
                                               "65535",
                                               "65536",
                                               "134217727",
                                               "134217728",
                                               "2147483647",
                                               "2147483648",
                                               "4294967295",
                                               "4294967296",
                                               "9007199254740992",
                                               "9007199254740993",
                                               "9223372036854775807",
                                               "18446744073709551616",
                                               "0.5",
                                               "1e3",
                                               "1e308",
                                               "1e309",
                                               "1e-400",
                                               "-0",
                                               "1.0",
                                               "true",
                                               "null",
                                               "[]",
                                               "\"\""};
  return all;
}

void replace_number(Random& random, std::string& text) {
  const auto spans = numbers(text);
  if (spans.empty()) return;
  const Span span = spans[below(random, spans.size())];
  std::string value = odd_numbers()[below(random, odd_numbers().size())];
  if (random() % 2 == 0 && span.end - span.begin < 9)
    value =
        std::to_string(std::stol(text.substr(span.begin, span.end - span.begin)) + static_cast<long>(random() % 5) - 2);
  text.replace(span.begin, span.end - span.begin, value);
}

void swap_strings(Random& random, std::string& text) {
  const auto spans = strings(text);
  if (spans.size() < 2) return;
  const Span from = spans[below(random, spans.size())];
  const Span to = spans[below(random, spans.size())];
  text.replace(to.begin, to.end - to.begin, text.substr(from.begin, from.end - from.begin));
}

void flip_bits(Random& random, std::string& bytes) {
  if (bytes.empty()) return;
  for (size_t i = 0; i < 1 + random() % 4; ++i)
    bytes[below(random, bytes.size())] ^= static_cast<char>(1U << (random() % 8));
}

void replace_letter(Random& random, std::string& text) {
  static const std::string letters = "{}[]\",:0123456789-.eE\\u tfn\x7f\xff\xc3";
  if (!text.empty()) text[below(random, text.size())] = letters[below(random, letters.size())];
}

void move_piece(Random& random, std::string& text) {
  const size_t from = below(random, text.size());
  const std::string piece = text.substr(from, random() % 60);
  if (random() % 2 == 0) text.erase(from, piece.size());
  if (random() % 2 == 0) text.insert(below(random, text.size()), piece);
}

void cut(Random& random, std::string& bytes) {
  if (random() % 4 == 0)
    bytes.append(1 + random() % 100, static_cast<char>(random()));
  else
    bytes.resize(below(random, bytes.size()));
}

void mutate_text(Random& random, std::string& text) {
  switch (random() % 8) {
    case 0: return swap_strings(random, text);
    case 1: return flip_bits(random, text);
    case 2: return replace_letter(random, text);
    case 3: return move_piece(random, text);
    default: return replace_number(random, text);
  }
}

// The file of a seed: one to three mutations of its parts with a right length and checksum, or of the whole.
std::string mutated(uint64_t seed, const std::vector<fuzz::Parts>& seeds) {
  Random random(seed);
  fuzz::Parts parts = seeds[below(random, seeds.size())];
  const bool whole = random() % 6 == 0;
  for (size_t i = whole ? 1 : 0; i < 1 + random() % 3; ++i) switch (random() % 6) {
      case 0: mutate_text(random, parts.entries); break;
      case 1: flip_bits(random, parts.data); break;
      case 2: random() % 4 == 0 ? cut(random, parts.data) : mutate_text(random, parts.description); break;
      default: mutate_text(random, parts.description);
    }
  std::string file = assembled(parts);
  if (whole) switch (random() % 4) {
      case 0: cut(random, file); break;
      case 1: file[below(random, std::min<size_t>(8, file.size()))] = static_cast<char>(random()); break;
      default: flip_bits(random, file);
    }
  return file;
}

// Small enough that a file that runs does so within milliseconds.
adaste::Limits small_limits() {
  adaste::Limits limits;
  limits.value_elements = 1 << 16;
  limits.activation_bytes = 1 << 20;
  limits.work = 1 << 22;
  limits.scratch_bytes = 1 << 22;
  return limits;
}

// Every input in arrays of exactly its size, maps also as bytes; whole numbers are small, but for odd ones.
void run_once(Random& random, adaste::Network& network, int64_t count, bool int8, bool odd) {
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<int32_t>> integers;
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<adaste::Feed> feeds, pixels;
  for (const adaste::Port& port : network.input_ports()) {
    const adaste::Value& value = network.value_of(port);
    const auto size = static_cast<size_t>(value.shape.elements() * count);
    floats.emplace_back(size);
    for (float& number : floats.back()) number = std::uniform_real_distribution<float>(-2, 2)(random);
    integers.emplace_back(size);
    for (int32_t& number : integers.back()) number = static_cast<int32_t>(random() % 3);
    if (odd && random() % 8 == 0) integers.back()[below(random, size)] = static_cast<int32_t>(random());
    bytes.emplace_back(size, static_cast<uint8_t>(random()));
    feeds.push_back({floats.back().data(), nullptr, integers.back().data()});
    pixels.push_back(value.shape.rank() == 3 && !value.integer ? adaste::Feed{nullptr, bytes.back().data(), nullptr}
                                                               : feeds.back());
  }
  std::vector<std::vector<float>> results;
  std::vector<float*> outputs;
  for (const adaste::Port& port : network.output_ports()) {
    results.emplace_back(static_cast<size_t>(network.value_of(port).shape.elements() * count));
    outputs.push_back(results.back().data());
  }
  network.run(feeds.data(), count, outputs.data());
  network.run(pixels.data(), count, outputs.data());
  if (int8) network.calibrate(feeds.data(), count);
}

// Shapes of inputs for free sizes that are random.
std::vector<std::vector<int64_t>> random_shapes(Random& random, const adaste::Networks& networks) {
  std::vector<int64_t> sizes;
  for (const int most : networks.free().most)
    sizes.push_back(1 + static_cast<int64_t>(below(random, static_cast<size_t>(most))));
  std::vector<std::vector<int64_t>> shapes;
  for (const adaste::Port& port : networks.largest().input_ports()) {
    const std::vector<int>& sides = networks.largest().value_of(port).shape.sides;
    shapes.emplace_back(sides.begin(), sides.end());
    for (const adaste::FreeSizes::Rule& rule : networks.free().rules)
      if (rule.name == port.name)
        shapes.back()[static_cast<size_t>(rule.place)] =
            rule.times * sizes[static_cast<size_t>(rule.of[0])] + rule.plus;
  }
  return shapes;
}

void load_and_run(uint64_t seed, const std::string& file, bool odd = true) {
  Random random(seed + 1);
  adaste::Options options;
  options.threads = random() % 16 == 0 ? most_threads : 1;
  options.int8 = random() % 3 == 0;
  options.limits = small_limits();
  // A copy of exactly its size, so that a sanitizer sees every read beyond it.
  const std::vector<uint8_t> bytes(file.begin(), file.end());
  adaste::Networks networks(bytes.data(), bytes.size(), options);
  static_cast<void>(networks.largest().nodes());
  for (const int64_t count : {int64_t{1}, int64_t{3}}) run_once(random, networks.largest(), count, options.int8, odd);
  if (networks.free().names.empty()) return;
  for (int i = 0; i < 3; ++i) {
    const auto network = networks.at(random_shapes(random, networks));
    run_once(random, *network, 2, options.int8, odd);
  }
}

// A message without its names and numbers: what kind of refusal it was.
std::string kind_of(std::string message) {
  for (size_t i = 0; i < message.size(); ++i) {
    if (message[i] == '\'') {
      const size_t end = message.find('\'', i + 1);
      message.replace(i, (end == std::string::npos ? message.size() : end + 1) - i, "...");
    } else if (std::isdigit(static_cast<unsigned char>(message[i])) != 0) {
      message[i] = '#';
    }
  }
  message.erase(std::unique(message.begin(), message.end(), [](char a, char b) { return a == '#' && b == '#'; }),
                message.end());
  return message;
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t files = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1000;
  const uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  const std::vector<fuzz::Parts> seeds = fuzz::seeds();
  for (const fuzz::Parts& parts : seeds) load_and_run(0, assembled(parts), false);  // an Error here is a failure
  std::map<std::string, uint64_t> refusals;
  uint64_t ran = 0;
  for (uint64_t seed = first; seed < first + files; ++seed) {
    alarm(30);  // a file that hangs ends the program
    if (files == 1) std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    if (seed % 4096 == 0) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    try {
      load_and_run(seed, mutated(seed, seeds));
      ++ran;
    } catch (const adaste::Error& error) {
      ++refusals[kind_of(error.what())];
      // What a terminal would obey is escaped already, so that nothing is left to escape.
      if (adaste::text(error.what()) == error.what()) continue;
      std::printf("the message for seed %llu is not printable\n", static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  std::printf("%llu files: %llu ran, %llu refused for %zu kinds of reasons\n", static_cast<unsigned long long>(files),
              static_cast<unsigned long long>(ran), static_cast<unsigned long long>(files - ran), refusals.size());
}

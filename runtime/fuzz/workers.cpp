// The threads of a network with random stages, callers and slow threads: every task runs exactly once. Build with
// ThreadSanitizer.
//     fuzz_workers COUNT [FIRST_SEED]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" int adaste_share_tasks(int threads, int callers, int stages, const int* tasks, int slow_thread,
                                  int slow_microseconds, int pause);

int main(int count, char** arguments) {
  const uint64_t runs = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 100;
  const uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](int end) { return static_cast<int>(random() % static_cast<uint64_t>(end)); };
    const int threads = 1 + below(9);
    std::vector<int> tasks(static_cast<size_t>(1 + below(100)));
    for (int& each : tasks) each = below(3 * threads);
    if (adaste_share_tasks(threads, 1 + below(4), static_cast<int>(tasks.size()), tasks.data(), below(threads),
                           below(200), below(500)) != 0) {
      std::printf("a task did not run once for seed %llu\n", static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  std::printf("%llu teams of threads: all right\n", static_cast<unsigned long long>(runs));
}

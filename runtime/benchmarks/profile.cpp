// Where the time of a network goes on several threads: work, waking and waiting, for each stage of each layer. From the
// folder runtime:
//
//     cmake -S . -B build/profile -DADASTE_PYTHON=OFF -DADASTE_PROFILE=ON && cmake --build build/profile
//     build/profile/profile MODEL.safetensors [THREADS = 0 [INT8 = 0 [BATCH = 1 [CALLS = 50]]]]
//
// Microseconds, the mean of all calls but the first ones:
//     wall    from handing out the first task to the end of the last one; behind it the shortest of all calls
//     work    in tasks, the sum of all threads
//     waking  until the threads beside the caller have their first task, the mean of those that had any
//     tail    from the end of the caller's last task to the end of the stage
//     lost    of each thread: what is left of the wall without its part of the work
//     between from the end of the stage before
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "exec/cores.h"
#include "exec/network.h"
#include "exec/profile.h"
#include "format/safetensors.h"

namespace {

using Clock = std::chrono::steady_clock;

long long now() { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); }

struct Span {
  long long began, ended;
};

struct Row {
  std::string step, kernel;
  int calls = 0, tasks = 0;
  double wall = 0, least = 1e300, work = 0, longest = 0, waking = 0, tail = 0, between = 0, helpers = 0;
};

constexpr int most_threads = 1024;
std::vector<Span> spans[most_threads];  // of the current stage, of every thread
std::map<std::pair<int, int>, Row> rows;
std::string current_step, current_kernel;
int step_number = 0, stage_number = 0, tasks_of_stage = 0;
long long stage_began = 0, last_ended = 0;
bool counting = false;

void add_stage(long long ended) {
  Row& row = rows[{step_number, stage_number}];
  row.step = current_step;
  row.kernel = current_kernel;
  ++row.calls;
  row.tasks = tasks_of_stage;
  const auto wall = static_cast<double>(ended - stage_began);
  row.wall += wall;
  row.least = std::min(row.least, wall);
  row.between += last_ended == 0 ? 0 : static_cast<double>(stage_began - last_ended);
  double work = 0, waking = 0;
  int helpers = 0;
  for (int thread = 0; thread < most_threads; ++thread) {
    if (spans[thread].empty()) continue;
    for (const Span& span : spans[thread]) {
      const auto length = static_cast<double>(span.ended - span.began);
      work += length;
      row.longest = std::max(row.longest, length);
    }
    if (thread == 0) continue;
    ++helpers;
    waking += static_cast<double>(spans[thread].front().began - stage_began);
  }
  row.work += work == 0 ? wall : work;  // a stage that was not shared
  row.helpers += helpers;
  row.waking += helpers == 0 ? 0 : waking / helpers;
  row.tail += spans[0].empty() ? 0 : static_cast<double>(ended - spans[0].back().ended);
}

}  // namespace

namespace adaste::profile {

Task::Task(int thread) : thread_(thread), began_(now()) {}

Task::~Task() { spans[thread_].push_back({began_, now()}); }

void begin_step(const std::string& name, const char* kernel) {
  step_number = name == "input" ? 0 : step_number + 1;
  stage_number = 0;
  current_step = name;
  current_kernel = kernel == nullptr ? "" : kernel;
}

Stage::Stage(int tasks) {
  for (std::vector<Span>& each : spans) each.clear();
  tasks_of_stage = tasks;
  stage_began = now();
}

Stage::~Stage() {
  const long long ended = now();
  if (counting) add_stage(ended);
  last_ended = ended;
  ++stage_number;
}

}  // namespace adaste::profile

int main(int count, char** arguments) {
  const auto number = [&](int place, int otherwise) { return count > place ? std::atoi(arguments[place]) : otherwise; };
  if (count < 2) {
    std::puts("usage: profile MODEL.safetensors [THREADS [INT8 [BATCH [CALLS]]]]");
    return 2;
  }
  const std::vector<uint8_t> file = adaste::read_file(arguments[1]);
  adaste::Options options;
  options.threads = number(2, 0);
  options.int8 = number(3, 0) != 0;
  adaste::Network network(file.data(), file.size(), options);
  const int64_t batch = number(4, 1);
  const int calls = number(5, 50);
  std::mt19937 random(1);
  std::vector<float> images(static_cast<size_t>(network.input().elements() * batch));
  for (float& value : images) value = std::normal_distribution<float>()(random);
  std::vector<float> outputs(static_cast<size_t>(network.outputs() * batch));
  if (options.int8) {
    adaste::Feed feed;
    feed.floats = images.data();
    network.calibrate(&feed, batch);
  }
  std::vector<double> times;
  for (int call = -5; call < calls; ++call) {
    counting = call >= 0;
    last_ended = 0;
    const long long began = now();
    network.run({images.data(), nullptr, batch}, outputs.data());
    if (counting) times.push_back(static_cast<double>(now() - began));
  }
  std::sort(times.begin(), times.end());
  std::printf("%d threads, %d cores with %d hardware threads usable; a call: %.1f us least, %.1f median\n",
              network.threads(), adaste::usable_cores(), adaste::usable_processors(), times.front() / 1e3,
              times[times.size() / 2] / 1e3);
  std::printf("%-34s %-12s %5s %7s %9s %9s %9s %8s %7s %7s %7s %7s\n", "step", "kernel", "tasks", "helpers", "wall",
              "(least)", "work", "longest", "waking", "tail", "lost", "between");
  Row all;
  for (const auto& [place, row] : rows) {
    const double each = 1e3 * row.calls, lost = row.wall - row.work / network.threads();
    std::printf("%-34.34s %-12s %5d %7.1f %9.1f %9.1f %9.1f %8.1f %7.1f %7.1f %7.1f %7.1f\n", row.step.c_str(),
                row.kernel.c_str(), row.tasks, row.helpers / row.calls, row.wall / each, row.least / 1e3,
                row.work / each, row.longest / 1e3, row.waking / each, row.tail / each, lost / each,
                row.between / each);
    all.wall += row.wall / each;
    all.least = (all.least > 1e299 ? 0 : all.least) + row.least / 1e3;
    all.work += row.work / each;
    all.tail += row.tail / each;
    all.between += row.between / each;
  }
  std::printf("%-34s %-12s %5s %7s %9.1f %9.1f %9.1f %8s %7s %7.1f %7.1f %7.1f\n", "all", "", "", "", all.wall,
              all.least, all.work, "", "", all.tail, all.wall - all.work / network.threads(), all.between);
}

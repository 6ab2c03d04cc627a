#include "exec/cores.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <vector>
#elif !defined(__wasi__)
#include <thread>
#endif

namespace adaste {

int processors_of_limit(const std::string& limit) {
  char* end = nullptr;
  const double quota = std::strtod(limit.c_str(), &end);
  if (end == limit.c_str()) return 0;  // "max", or nothing
  const double period = std::strtod(end, nullptr);
  if (!(quota > 0 && period > 0)) return 0;
  return static_cast<int>(std::clamp(quota / period, 1.0, 1e6));
}

#if defined(__linux__)

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The processors on which the calling thread may run.
std::vector<int> allowed_processors() {
  std::vector<int> found;
  bool known = false;
  for (int most = 1024; most <= 1 << 16 && !known; most *= 2) {  // the system refuses sets smaller than its own
    cpu_set_t* set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < most; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set)) found.push_back(cpu);
    CPU_FREE(set);
  }
  for (int cpu = 0; found.empty() || (!known && cpu < sysconf(_SC_NPROCESSORS_ONLN)); ++cpu) found.push_back(cpu);
  return found;
}

// The least limit of this process's control group and those around it, of version 2 or 1; 0 where there is none.
int limit_of_control_groups() {
  int least = 0;
  const auto narrow = [&](int processors) {
    if (processors > 0) least = least == 0 ? processors : std::min(least, processors);
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t controllers = line.find(':');
    const size_t path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = "," + line.substr(controllers + 1, path - controllers - 1) + ",";
    const bool second = names == ",,";
    if (!second && names.find(",cpu,") == std::string::npos) continue;
    const std::string root = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    for (std::string group = line.substr(path + 1);; group.resize(group.rfind('/'))) {
      const std::string folder = root + (group == "/" ? "" : group);
      narrow(processors_of_limit(second ? first_line(folder + "/cpu.max")
                                        : first_line(folder + "/cpu.cfs_quota_us") + " " +
                                              first_line(folder + "/cpu.cfs_period_us")));
      if (group.find('/') == std::string::npos) break;
    }
  }
  return least;
}

int limited(size_t count) {
  const int limit = limit_of_control_groups();
  const int found = std::max(1, static_cast<int>(count));
  return limit > 0 ? std::min(found, limit) : found;
}

}  // namespace

int usable_processors() { return limited(allowed_processors().size()); }

int usable_cores() {
  std::set<std::string> cores;
  for (const int cpu : allowed_processors()) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::string core = first_line(topology + "core_id");
    cores.insert(core.empty() ? "processor " + std::to_string(cpu)
                              : first_line(topology + "physical_package_id") + " " + core);
  }
  return limited(cores.size());
}

#elif defined(__wasi__)

int usable_processors() { return 1; }

int usable_cores() { return 1; }

#else

int usable_processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int usable_cores() { return usable_processors(); }  // hardware threads are not told apart from cores

#endif

}  // namespace adaste

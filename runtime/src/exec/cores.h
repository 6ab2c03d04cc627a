// How many threads this process can use at once.
#pragma once

#include <string>

namespace adaste {

// Hardware threads that the affinity of the calling thread and the quota of the process's control group allow; at least
// 1.
int usable_processors();

// The same where the hardware threads of one core count once.
int usable_cores();

// Whole processors that a control group's limit of processor time allows, at least 1; 0 where there is none. `limit` is
// the content of a file cpu.max: microseconds (or "max") of each period, and the period.
int processors_of_limit(const std::string& limit);

}  // namespace adaste

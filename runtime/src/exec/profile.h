// Where time goes in a call, for benchmarks/profile.cpp: compiled in with ADASTE_PROFILE alone.
#pragma once

#ifdef ADASTE_PROFILE

#include <string>

namespace adaste::profile {

// One task of the current stage, on a thread.
class Task {
 public:
  explicit Task(int thread);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

 private:
  int thread_;
  long long began_;
};

// The stages that follow belong to this step of the network.
void begin_step(const std::string& name, const char* kernel);

// One stage, from the caller's view.
class Stage {
 public:
  explicit Stage(int tasks);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
};

}  // namespace adaste::profile

#else

namespace adaste::profile {

struct Task {
  explicit Task(int /*thread*/) {}
};

struct Stage {
  explicit Stage(int /*tasks*/) {}
};

template <class Name>
void begin_step(const Name& /*name*/, const char* /*kernel*/) {}

}  // namespace adaste::profile

#endif

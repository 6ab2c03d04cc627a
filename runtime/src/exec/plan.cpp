#include "exec/plan.h"

#include <algorithm>
#include <numeric>

namespace adaste {
namespace {

constexpr int64_t line = 16;  // floats of a cache line: places start at multiples of it

// A buffer is alive from the action that writes it to the last that reads it, both included. Inputs are written before
// the first action, outputs are read behind the last.
struct Life {
  int first, last;
  int64_t size;
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

std::vector<Life> lives(const Program& program, const std::vector<int>& outputs) {
  std::vector<Life> result;
  result.reserve(program.buffers.size());
  for (const int64_t size : program.buffers) result.push_back({-1, -1, (size + line - 1) / line * line});
  for (size_t place = 0; place < program.actions.size(); ++place) {
    const Action& action = program.actions[place];
    Life& own = result[static_cast<size_t>(action.output.buffer)];
    own.first = own.last = static_cast<int>(place);
    for (const View& input : action.inputs)
      if (input.buffer >= 0) result[static_cast<size_t>(input.buffer)].last = static_cast<int>(place);
  }
  for (const int output : outputs) result[static_cast<size_t>(output)].last = static_cast<int>(program.actions.size());
  return result;
}

// The lowest place of a buffer among those it meets; `placed` is sorted by offsets.
int64_t lowest_gap(const std::vector<Life>& all, size_t value, const std::vector<size_t>& placed, const Plan& plan) {
  int64_t place = 0;
  for (const size_t other : placed) {
    if (!all[value].meets(all[other])) continue;
    if (plan.offsets[other] - place >= all[value].size) break;
    place = std::max(place, plan.offsets[other] + all[other].size);
  }
  return place;
}

}  // namespace

// Large values first, each at the lowest place that is free during its life: close to optimal for networks.
Plan make_plan(const Program& program, const std::vector<int>& outputs) {
  const std::vector<Life> all = lives(program, outputs);
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a].size > all[b].size; });
  Plan plan;
  plan.offsets.assign(all.size(), 0);
  std::vector<size_t> placed;
  const auto by_offset = [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; };
  for (const size_t value : order) {
    plan.offsets[value] = lowest_gap(all, value, placed, plan);
    plan.size = std::max(plan.size, plan.offsets[value] + all[value].size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), value, by_offset), value);
  }
  return plan;
}

}  // namespace adaste

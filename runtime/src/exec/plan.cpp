#include "exec/plan.h"

#include <algorithm>
#include <numeric>

namespace adaste {
namespace {

constexpr int64_t line = 16;  // floats of a cache line: places start at multiples of it

// A value is alive from the node that computes it to the last that reads it, both included. The input is computed
// before the first node, the output is read behind the last.
struct Life {
  int first, last;
  int64_t size;
  bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

std::vector<Life> lives(const Graph& graph) {
  std::vector<Life> result;
  result.reserve(graph.values.size());
  for (size_t value = 0; value < graph.values.size(); ++value) {
    const int64_t size = (graph.values[value].elements() + line - 1) / line * line;
    result.push_back({static_cast<int>(value) - 1, static_cast<int>(value) - 1, size});
  }
  for (size_t place = 0; place < graph.nodes.size(); ++place)
    for (const int input : graph.nodes[place].inputs) result[static_cast<size_t>(input)].last = static_cast<int>(place);
  result[static_cast<size_t>(graph.output)].last = static_cast<int>(graph.nodes.size());
  return result;
}

// The lowest place of a value among those it meets; `placed` is sorted by offsets.
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
Plan make_plan(const Graph& graph) {
  const std::vector<Life> all = lives(graph);
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

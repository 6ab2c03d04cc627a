#include "exec/network.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "exec/convolve.h"
#include "exec/cores.h"
#include "exec/input.h"
#include "exec/operations.h"
#include "exec/profile.h"
#include "kernels/weight_order.h"

namespace adaste {
namespace {

constexpr int most_threads = 1024;
// Images run together share their weights and what threads cost, but more memory than the caches of the threads hold
// makes them slower again.
constexpr int64_t memory_of_thread = int64_t{4} << 20;
constexpr int64_t most_images_at_once = 64;
// An elementwise task is about this many numbers: it takes longer than to hand it to another thread.
constexpr int64_t task_elements = 1 << 14;

ConvShape with_batch(ConvShape shape, int count, int threads = 1) {
  shape.batch = count;
  shape.threads = threads;
  return shape;
}

// How many things of so many numbers each make a task.
int64_t things_of_task(int64_t elements) { return std::max<int64_t>(1, task_elements / elements); }

int ceil_div(int64_t count, int64_t each) { return static_cast<int>((count + each - 1) / each); }

const Kernels& kernels_for(const Node& node, bool int8) {
  return !node.binary ? float_kernels() : int8 ? int8_kernels() : binary_kernels();
}

Epilogue epilogue_of(const Node& node, const float* residual) {
  return {node.scale.empty() ? nullptr : node.scale.data(), node.shift.empty() ? nullptr : node.shift.data(), residual,
          node.relu};
}

}  // namespace

Network::Network(const uint8_t* bytes, size_t size, const Options& options) : options_(options) {
  require(options.threads >= 0 && options.threads <= most_threads, "threads must be 1 to ", most_threads,
          ", or 0 for one on each physical core, got ", options.threads);
  if (options.threads == 0) options_.threads = std::min(usable_cores(), most_threads);
  graph_ = read_graph(bytes, size, options_.limits);
  signature_ = signature_of(graph_);
  mean_.assign(graph_.mean.begin(), graph_.mean.end());
  std_.assign(graph_.std.begin(), graph_.std.end());
  plan_ = make_plan(graph_);
  check_memory();
  choose_kernels();
  prepare_weights();
  workers_ = std::make_unique<Workers>(options_.threads);
  places_ = std::vector<Place>(static_cast<size_t>(workers_->turns()));
  for (int i = 1; i < options_.threads; ++i) helper_scratch_.emplace_back(thread_scratch_);
}

void Network::check_memory() const {
  require(plan_.size <= options_.limits.activation_bytes / static_cast<int64_t>(sizeof(float)), "the network needs ",
          plan_.size * static_cast<int64_t>(sizeof(float)), " bytes for the activations of one image; allowed are ",
          options_.limits.activation_bytes);
}

void Network::choose_kernels() {
  const std::string forced = forced_kernel();
  size_t scratch = 0;
  size_t weights = 0;
  for (Node& node : graph_.nodes) {
    Step step{&node, nullptr, {}, {0, 0, true}, 0, 0};
    if (node.op == Op::convolution) {
      step.kernel = &choose_kernel(kernels_for(node, options_.int8), node.shape, forced);
      scratch = std::max(scratch, step.kernel->scratch_bytes(node.shape));
      weights += step.kernel->weight_bytes(node.shape);
      require(scratch <= static_cast<size_t>(options_.limits.scratch_bytes), "the ", node.name, " -> '",
              graph_.names[static_cast<size_t>(node.output)], "' needs more than ", options_.limits.scratch_bytes,
              " bytes of scratch memory");
      require(weights <= static_cast<size_t>(options_.limits.weight_bytes), "the network needs more than ",
              options_.limits.weight_bytes, " bytes for its weights");
    }
    steps_.push_back(std::move(step));
  }
  const int64_t bytes = plan_.size * static_cast<int64_t>(sizeof(float)) + static_cast<int64_t>(scratch);
  images_at_once_ = std::clamp<int64_t>(options_.threads * memory_of_thread / bytes, 1, most_images_at_once);
  for (const Step& step : steps_) {
    const size_t needed = thread_scratch_of(step);
    if (needed <= most_thread_scratch()) thread_scratch_ = std::max(thread_scratch_, needed);
  }
}

// For the largest batch and one thread, which needs the most.
size_t Network::thread_scratch_of(const Step& step) const {
  if (step.kernel == nullptr || !step.kernel->scratch_per_thread) return 0;
  return step.kernel->scratch_bytes(with_batch(step.node->shape, static_cast<int>(images_at_once_)));
}

// Where it needs more, a step has one thread.
size_t Network::most_thread_scratch() const {
  return static_cast<size_t>(options_.limits.scratch_bytes) / static_cast<size_t>(options_.threads);
}

size_t Network::memory_bytes() const {
  const Workers::Turn turn(*workers_, Workers::Company::none);  // while no call takes more
  size_t bytes = 0;
  for (const Place& place : places_) bytes += place.activations.bytes() + place.scratch.bytes();
  for (const Memory& scratch : helper_scratch_) bytes += scratch.bytes();
  return bytes;
}

void Network::prepare_weights() {
  for (Step& step : steps_) {
    if (step.kernel == nullptr) continue;
    const Node& node = *step.node;
    step.weights.reserve(step.kernel->weight_bytes(node.shape));
    if (node.binary)
      step.kernel->prepare(node.shape, channels_last(node.shape, node.weight).data(), step.weights.data());
    else
      step.kernel->prepare(node.shape, node.weight, step.weights.data());
  }
  for (Node& node : graph_.nodes) node.weight = nullptr;  // the file's bytes are not kept
}

std::vector<std::pair<std::string, std::string>> Network::kernels() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const Step& step : steps_)
    if (step.kernel != nullptr)
      result.emplace_back(graph_.names[static_cast<size_t>(step.node->output)], step.kernel->name);
  return result;
}

std::vector<NodeFacts> Network::nodes() const {
  std::vector<NodeFacts> result;
  for (const Step& step : steps_) {
    const Node& node = *step.node;
    const auto output = static_cast<size_t>(node.output);
    NodeFacts facts{node.name, graph_.names[output], graph_.values[output], 0, node.binary, nullptr};
    if (step.kernel != nullptr) {
      facts.weights = node.shape.out_channels * static_cast<int64_t>(window_size(node.shape));
      facts.kernel = step.kernel->name;
    }
    result.push_back(std::move(facts));
  }
  return result;
}

int64_t Network::most_images() const {
  const int64_t numbers = std::max<int64_t>(input().elements(), outputs());
  return PTRDIFF_MAX / (numbers * static_cast<int64_t>(sizeof(float)));
}

void Network::run(const Images& images, float* outputs) {
  Workers::Turn turn(*workers_);
  run_all(images, outputs, turn);
}

void Network::run_all(const Images& images, float* outputs, Workers::Turn& turn) {
  Place& place = places_[static_cast<size_t>(turn.place())];
  for (int64_t first = 0; first < images.count; first += images_at_once_) {
    const auto count = static_cast<int>(std::min(images_at_once_, images.count - first));
    run_some(images, first, {turn, place, count}, outputs + first * this->outputs());
  }
}

void Network::run_some(const Images& images, int64_t first, const Call& call, float* outputs) {
  const auto count = static_cast<size_t>(call.count);
  call.place.activations.reserve(static_cast<size_t>(plan_.size) * count * sizeof(float));
  read_images(images, first, call);
  for (Step& step : steps_) run_step(step, call);
  std::copy_n(value(graph_.output, call), count * static_cast<size_t>(this->outputs()), outputs);
}

float* Network::value(int number, const Call& call) const {
  return static_cast<float*>(call.place.activations.data()) + plan_.offsets[static_cast<size_t>(number)] * call.count;
}

void Network::read_images(const Images& images, int64_t first, const Call& call) {
  profile::begin_step("input", nullptr);
  const Extent& extent = input();
  const int64_t pixels = int64_t{extent.height} * extent.width;
  const int64_t each = std::min(pixels, things_of_task(extent.channels));
  const int pieces = ceil_div(pixels, each);
  float* to = value(0, call);
  std::atomic<bool> good{true};
  call.turn.run(call.count * pieces, [&](int task, int /*thread*/) {
    const int64_t image = (task / pieces) * extent.elements();
    const int64_t pixel = task % pieces * each;
    const int64_t from = first * extent.elements() + image;
    const int64_t count = std::min(each, pixels - pixel);
    float* place = to + image + pixel * extent.channels;
    if (images.floats == nullptr)
      read_bytes(count, extent.channels, images.bytes + from + pixel * extent.channels, mean_, std_, place);
    else if (!read_floats(count, extent.channels, images.floats + from + pixel, pixels, place))
      good = false;
  });
  require(good, "the images hold numbers that are not finite");
}

void Network::convolve(Step& step, const Call& call) {
  const Node& node = *step.node;
  const ConvKernel& kernel = *step.kernel;
  const bool alone = thread_scratch_of(step) > most_thread_scratch();
  const ConvShape shape = with_batch(node.shape, call.count, alone ? 1 : call.turn.threads());
  call.place.scratch.reserve(kernel.scratch_bytes(shape));
  adaste::convolve({kernel, shape, value(node.inputs[0], call), step.weights.data(),
                    epilogue_of(node, node.inputs.size() > 1 ? value(node.inputs[1], call) : nullptr),
                    step.quantisation, value(node.output, call)},
                   call.place.scratch.data(), helper_scratch_, call.turn);
}

void Network::run_step(Step& step, const Call& call) {
  const Node& node = *step.node;
  profile::begin_step(node.name + " " + graph_.names[static_cast<size_t>(node.output)],
                      step.kernel == nullptr ? nullptr : step.kernel->name);
  switch (node.op) {
    case Op::convolution:
      if (calibrating_) observe(step, call);
      return convolve(step, call);
    case Op::max_pool:
    case Op::average_pool: return pool(node, call);
    case Op::affine:
    case Op::add:
    case Op::relu: return combine(node, call);
    case Op::flatten: return flatten_images(node, call);
    case Op::concatenate: return join(node, call);
  }
}

void Network::pool(const Node& node, const Call& call) {
  const ConvShape shape = with_batch(node.shape, call.count);
  const float* x = value(node.inputs[0], call);
  float* y = value(node.output, call);
  const int rows = call.count * shape.out_height;
  const auto each = static_cast<int>(things_of_task(int64_t{shape.out_width} * shape.kernel_w * shape.kernel_h *
                                                    shape.channels));
  call.turn.run(ceil_div(rows, each), [&](int task, int /*thread*/) {
    for (int row = task * each; row < std::min(rows, (task + 1) * each); ++row)
      if (node.op == Op::max_pool)
        max_pool(shape, row, x, y);
      else
        average_pool(shape, node.count_padding, row, x, y);
  });
}

// Calls function(first pixel, pixels) for pieces of all pixels of a batch.
template <class Function>
void Network::for_pixels(const Extent& extent, const Call& call, const Function& function) {
  const int64_t pixels = int64_t{call.count} * extent.height * extent.width;
  const int64_t each = things_of_task(extent.channels);
  call.turn.run(ceil_div(pixels, each), [&](int task, int /*thread*/) {
    function(task * each, std::min(each, pixels - task * each));
  });
}

void Network::combine(const Node& node, const Call& call) {
  const Extent& extent = graph_.values[static_cast<size_t>(node.output)];
  for_pixels(extent, call, [&](int64_t pixel, int64_t pixels) {
    const int64_t start = pixel * extent.channels;
    const float* x = value(node.inputs[0], call) + start;
    const float* second = node.inputs.size() > 1 ? value(node.inputs[1], call) + start : nullptr;
    float* y = value(node.output, call) + start;
    if (node.op == Op::affine)
      affine(pixels, extent.channels, x, epilogue_of(node, second), y);
    else
      add(pixels * extent.channels, x, second, node.relu, y);
  });
}

void Network::flatten_images(const Node& node, const Call& call) {
  const Extent& extent = graph_.values[static_cast<size_t>(node.inputs[0])];
  const auto each = static_cast<int>(things_of_task(extent.elements()));
  call.turn.run(ceil_div(call.count, each), [&](int task, int /*thread*/) {
    for (int64_t image = task * each; image < std::min(call.count, (task + 1) * each); ++image)
      flatten(int64_t{extent.height} * extent.width, extent.channels,
              value(node.inputs[0], call) + image * extent.elements(),
              value(node.output, call) + image * extent.elements());
  });
}

void Network::join(const Node& node, const Call& call) {
  const int all = graph_.values[static_cast<size_t>(node.output)].channels;
  int first = 0;
  for (const int number : node.inputs) {
    const Extent& extent = graph_.values[static_cast<size_t>(number)];
    for_pixels(extent, call, [&](int64_t pixel, int64_t pixels) {
      concatenate(pixels, extent.channels, value(number, call) + pixel * extent.channels, first, all,
                  value(node.output, call) + pixel * all);
    });
    first += extent.channels;
  }
}

void Network::observe(Step& step, const Call& call) {
  const int64_t elements = graph_.values[static_cast<size_t>(step.node->inputs[0])].elements() * call.count;
  const float* x = value(step.node->inputs[0], call);
  for (int64_t i = 0; i < elements; ++i) {
    step.low = std::min(step.low, x[i]);
    step.high = std::max(step.high, x[i]);
  }
}

void Network::calibrate(const Images& images) {
  require(options_.int8, "only a network loaded with int8 can be calibrated");
  require(images.count > 0, "calibration needs at least one image");
  std::vector<float> outputs(static_cast<size_t>(images.count) * static_cast<size_t>(this->outputs()));
  Workers::Turn turn(*workers_, Workers::Company::none);
  std::vector<Quantisation> before;
  for (Step& step : steps_) {
    before.push_back(step.quantisation);
    step.low = step.high = 0;
    step.quantisation.dynamic = true;
  }
  calibrating_ = true;
  try {
    run_all(images, outputs.data(), turn);
  } catch (...) {
    calibrating_ = false;
    for (size_t i = 0; i < steps_.size(); ++i) steps_[i].quantisation = before[i];
    throw;
  }
  calibrating_ = false;
  for (Step& step : steps_) step.quantisation = {step.low, step.high, false};
}

std::vector<std::pair<float, float>> Network::ranges() const {
  const Workers::Turn turn(*workers_, Workers::Company::none);
  std::vector<std::pair<float, float>> result;
  for (const Step& step : steps_)
    if (!step.quantisation.dynamic) result.emplace_back(step.quantisation.low, step.quantisation.high);
  return result;
}

void Network::set_ranges(const std::vector<std::pair<float, float>>& ranges) {
  require(ranges.empty() || ranges.size() == steps_.size(), "there must be a range for each of ", steps_.size(),
          " nodes, got ", ranges.size());
  const Workers::Turn turn(*workers_, Workers::Company::none);
  for (size_t i = 0; i < ranges.size(); ++i) steps_[i].quantisation = {ranges[i].first, ranges[i].second, false};
}

}  // namespace adaste

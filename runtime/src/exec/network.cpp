#include "exec/network.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "exec/convolve.h"
#include "exec/cores.h"
#include "exec/input.h"
#include "exec/profile.h"
#include "kernels/rows.h"
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

Network::Network(const uint8_t* bytes, size_t size, const Options& options, const std::vector<int>* sizes)
    : options_(options) {
  require(options.threads >= 0 && options.threads <= most_threads, "threads must be 1 to ", most_threads,
          ", or 0 for one on each physical core, got ", options.threads);
  if (options.threads == 0) options_.threads = std::min(usable_cores(), most_threads);
  graph_ = read_graph(bytes, size, options_.limits, sizes);
  if (options.other != nullptr) share_numbers(*options.other);
  signature_ = signature_of(graph_);
  for (const Port& port : graph_.inputs) {
    mean_.emplace_back(port.mean.begin(), port.mean.end());
    std_.emplace_back(port.std.begin(), port.std.end());
    most_tokens_.push_back(largest);
  }
  for (const Node& node : graph_.nodes)
    if (node.op == Op::embedding && node.flag) {
      int& most = most_tokens_[static_cast<size_t>(node.inputs[0])];
      most = std::min(most, node.start);
    }
  program_ = make_program(graph_, options_.limits);
  std::vector<int> outputs;
  for (const Port& port : graph_.outputs) {
    const View& view = program_.values[static_cast<size_t>(port.value)];
    outputs.push_back(view.buffer);
    results_.emplace_back(view);
  }
  plan_ = make_plan(program_, outputs);
  check_memory();
  choose_kernels();
  prepare_weights();
  workers_ = options.other != nullptr ? options.other->workers_ : std::make_shared<Workers>(options_.threads);
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
  size_t layers = 0;
  for (const Action& action : program_.actions) {
    Step step{&action, nullptr, make_operation(action), {}, 0, 0, 0};
    const Node& node = *action.node;
    if (action.work == Work::node && node.op == Op::convolution) {
      step.kernel = &choose_kernel(kernels_for(node, options_.int8), action.shape, forced);
      step.layer = layers++;
      scratch = std::max(scratch, step.kernel->scratch_bytes(action.shape));
      weights += step.kernel->weight_bytes(action.shape);
    }
    if (step.operation != nullptr) scratch = std::max(scratch, step.operation->scratch_bytes(1));
    require(scratch <= static_cast<size_t>(options_.limits.scratch_bytes), "the ", node.name, " -> '",
            graph_.names[static_cast<size_t>(node.output)], "' needs more than ", options_.limits.scratch_bytes,
            " bytes of scratch memory");
    require(weights <= static_cast<size_t>(options_.limits.weight_bytes), "the network needs more than ",
            options_.limits.weight_bytes, " bytes for its weights");
    steps_.push_back(std::move(step));
  }
  ranges_ = options_.other != nullptr ? options_.other->ranges_
                                      : std::make_shared<std::vector<Quantisation>>(layers, Quantisation{0, 0, true});
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
  return step.kernel->scratch_bytes(with_batch(step.action->shape, static_cast<int>(images_at_once_)));
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
    const Node& node = *step.action->node;
    const ConvShape& shape = step.action->shape;
    step.weights = std::make_shared<Memory>(step.kernel->weight_bytes(shape));
    if (node.binary)
      step.kernel->prepare(shape, channels_last(shape, node.weight).data(), step.weights->data());
    else
      step.kernel->prepare(shape, node.weight, step.weights->data());
  }
  for (Node& node : graph_.nodes) node.weight = nullptr;  // the file's bytes are not kept
}

// A kernel may order weights by the size of the image: then each size has its own.
void Network::share_weights(const Network& other) {
  auto same = other.steps_.begin();  // layers with weights are the same ones in the same order
  for (Step& step : steps_) {
    if (step.kernel == nullptr) continue;
    while (same->kernel == nullptr) ++same;
    if (step.kernel == same->kernel && step.weights->bytes() == same->weights->bytes() &&
        std::memcmp(step.weights->data(), same->weights->data(), step.kernel->weight_bytes(step.action->shape)) == 0)
      step.weights = same->weights;
    ++same;
  }
}

// Tables and constants are the same for all sizes.
void Network::share_numbers(const Network& other) {
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    if (graph_.nodes[i].numbers != nullptr) graph_.nodes[i].numbers = other.graph_.nodes[i].numbers;
}

std::vector<std::pair<std::string, std::string>> Network::kernels() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const Step& step : steps_)
    if (step.kernel != nullptr)
      result.emplace_back(graph_.names[static_cast<size_t>(step.action->node->output)], step.kernel->name);
  return result;
}

std::vector<NodeFacts> Network::nodes() const {
  std::vector<NodeFacts> result;
  for (const Node& node : graph_.nodes) {
    const auto output = static_cast<size_t>(node.output);
    NodeFacts facts{node.name, graph_.names[output], graph_.values[output].shape, 0, node.binary, nullptr};
    if (node.op == Op::convolution)
      facts.weights = node.shape.out_channels * static_cast<int64_t>(window_size(node.shape));
    else
      facts.weights = node.numbers == nullptr ? 0 : static_cast<int64_t>(node.numbers->size());
    result.push_back(std::move(facts));
  }
  for (const Step& step : steps_)
    if (step.kernel != nullptr)
      result[static_cast<size_t>(step.action->node - graph_.nodes.data())].kernel = step.kernel->name;
  return result;
}

Extent Network::input() const {
  const Value& value = value_of(graph_.inputs[0]);
  require(graph_.inputs.size() == 1 && value.shape.rank() == 3 && !value.integer,
          "this network does not take images alone: its inputs must be given by name");
  return {value.shape[0], value.shape[1], value.shape[2]};
}

int Network::outputs() const {
  const Shape& shape = value_of(graph_.outputs[0]).shape;
  require(graph_.outputs.size() == 1 && shape.rank() == 1,
          "this network does not give one row of numbers: its outputs must be asked for by name");
  return shape[0];
}

int64_t Network::most_images() const {
  int64_t numbers = 1;
  for (const std::vector<Port>* ports : {&graph_.inputs, &graph_.outputs})
    for (const Port& port : *ports) numbers = std::max(numbers, value_of(port).shape.elements());
  return PTRDIFF_MAX / (numbers * static_cast<int64_t>(sizeof(float)));
}

Feed Network::feed_of(const Images& images) const {
  static_cast<void>(input());  // an error where it does not take them
  return {images.floats, images.bytes};
}

void Network::run(const Images& images, float* outputs) {
  static_cast<void>(this->outputs());
  const Feed feed = feed_of(images);
  run(&feed, images.count, &outputs);
}

void Network::run(const Feed* inputs, int64_t count, float* const* outputs) {
  Workers::Turn turn(*workers_);
  run_all(inputs, count, outputs, turn);
}

void Network::run_all(const Feed* inputs, int64_t count, float* const* outputs,
                      Workers::Turn& turn) {
  Place& place = places_[static_cast<size_t>(turn.place())];
  for (int64_t first = 0; first < count; first += images_at_once_)
    run_some(inputs, first, {turn, place, static_cast<int>(std::min(images_at_once_, count - first))}, outputs);
}

void Network::run_some(const Feed* inputs, int64_t first, const Call& call,
                       float* const* outputs) {
  call.place.activations.reserve(static_cast<size_t>(plan_.size) * static_cast<size_t>(call.count) * sizeof(float));
  for (size_t number = 0; number < graph_.inputs.size(); ++number) read_input(number, inputs[number], first, call);
  for (Step& step : steps_) run_step(step, call);
  for (size_t number = 0; number < results_.size(); ++number)
    if (outputs[number] != nullptr)
      results_[number].copy(frame(call), outputs[number] + first * results_[number].elements());
}

Frame Network::frame(const Call& call) const {
  return {call.turn, program_, plan_, static_cast<float*>(call.place.activations.data()),
          static_cast<float*>(call.place.scratch.data()), call.count};
}

// Maps lie in memory pixel by pixel, all other values in the order of their axes.
void Network::read_input(size_t number, const Feed& feed, int64_t first, const Call& call) {
  profile::begin_step("input", nullptr);
  const Value& value = value_of(graph_.inputs[number]);
  const bool map = is_map(value);
  const int64_t all = value.shape.elements();
  const int channels = map ? value.shape[0] : 1;
  const int64_t pixels = all / channels;
  const int64_t each = std::min(pixels, things_of_task(channels));
  const int pieces = ceil_div(pixels, each);
  float* to = frame(call).place(program_.values[number], 0);
  std::atomic<bool> good{true};
  call.turn.run(call.count * pieces, [&](int task, int /*thread*/) {
    const int64_t image = (task / pieces) * all;
    const int64_t pixel = task % pieces * each;
    const int64_t from = first * all + image;
    const int64_t count = std::min(each, pixels - pixel);
    float* place = to + image + pixel * channels;
    if (value.integer) {
      const bool known = feed.integers != nullptr
                             ? read_integers(count, feed.integers + from + pixel, most_tokens_[number], place)
                             : read_integers(count, feed.long_integers + from + pixel, most_tokens_[number], place);
      if (!known) good = false;
    } else if (feed.floats == nullptr) {
      read_bytes(count, channels, feed.bytes + from + pixel * channels, mean_[number], std_[number], place);
    } else if (!read_floats(count, channels, feed.floats + from + pixel, pixels, place)) {
      good = false;
    }
  });
  const std::string& name = graph_.inputs[number].name;
  if (value.integer)
    require(good, "'", name, "' must hold whole numbers from 0 to ", most_tokens_[number] - 1);
  else if (map && graph_.inputs.size() == 1)
    require(good, "the images hold numbers that are not finite");
  else
    require(good, "'", name, "' holds numbers that are not finite");
}

void Network::convolve(Step& step, const Call& call) {
  const Action& action = *step.action;
  const ConvKernel& kernel = *step.kernel;
  const Frame memory = frame(call);
  const bool alone = thread_scratch_of(step) > most_thread_scratch();
  const ConvShape shape = with_batch(action.shape, call.count, alone ? 1 : call.turn.threads());
  call.place.scratch.reserve(kernel.scratch_bytes(shape));
  adaste::convolve({kernel, shape, memory.read(action.inputs[0], 0), step.weights->data(),
                    epilogue_of(*action.node, action.inputs.size() > 1 ? memory.read(action.inputs[1], 0) : nullptr),
                    (*ranges_)[step.layer], memory.place(action.output, 0)},
                   call.place.scratch.data(), helper_scratch_, call.turn);
}

void Network::run_step(Step& step, const Call& call) {
  const Node& node = *step.action->node;
  profile::begin_step(node.name + " " + graph_.names[static_cast<size_t>(node.output)],
                      step.kernel == nullptr ? nullptr : step.kernel->name);
  if (step.operation != nullptr) {
    call.place.scratch.reserve(step.operation->scratch_bytes(call.count));
    return step.operation->run(frame(call));
  }
  if (step.kernel != nullptr) {
    if (calibrating_) observe(step, call);
    return convolve(step, call);
  }
  return node.op == Op::affine ? scale(*step.action, call) : pool(*step.action, call);
}

void Network::pool(const Action& action, const Call& call) {
  const Node& node = *action.node;
  const ConvShape shape = with_batch(node.shape, call.count);
  const float* x = frame(call).read(action.inputs[0], 0);
  float* y = frame(call).place(action.output, 0);
  const int rows = call.count * shape.out_height;
  const auto each = static_cast<int>(things_of_task(int64_t{shape.out_width} * shape.kernel_w * shape.kernel_h *
                                                    shape.channels));
  call.turn.run(ceil_div(rows, each), [&](int task, int /*thread*/) {
    for (int row = task * each; row < std::min(rows, (task + 1) * each); ++row)
      if (node.op == Op::max_pool)
        row_kernels().max_pool(shape, row, x, y);
      else
        row_kernels().average_pool(shape, node.count_padding, row, x, y);
  });
}

void Network::scale(const Action& action, const Call& call) {
  const Frame memory = frame(call);
  const int channels = action.output.shape[0];
  const int64_t pixels = call.count * (action.output.shape.elements() / channels);
  const int64_t each = things_of_task(channels);
  const float* x = memory.read(action.inputs[0], 0);
  const float* residual = action.inputs.size() > 1 ? memory.read(action.inputs[1], 0) : nullptr;
  float* y = memory.place(action.output, 0);
  call.turn.run(ceil_div(pixels, each), [&](int task, int /*thread*/) {
    const int64_t start = task * each * channels;
    row_kernels().affine(std::min(each, pixels - task * each), channels, x + start,
                         epilogue_of(*action.node, residual == nullptr ? nullptr : residual + start), y + start);
  });
}

void Network::observe(Step& step, const Call& call) {
  const View& input = step.action->inputs[0];
  const int64_t elements = input.shape.elements() * call.count;
  const float* x = frame(call).read(input, 0);
  for (int64_t i = 0; i < elements; ++i) {
    step.low = std::min(step.low, x[i]);
    step.high = std::max(step.high, x[i]);
  }
}

void Network::calibrate(const Feed* inputs, int64_t count) {
  require(options_.int8, "only a network loaded with int8 can be calibrated");
  require(count > 0, "calibration needs at least one image");
  std::vector<std::vector<float>> numbers;
  std::vector<float*> outputs;
  for (const Result& result : results_) {
    numbers.emplace_back(static_cast<size_t>(count) * static_cast<size_t>(result.elements()));
    outputs.push_back(numbers.back().data());
  }
  Workers::Turn turn(*workers_, Workers::Company::none);
  const std::vector<Quantisation> before = *ranges_;
  for (Quantisation& range : *ranges_) range.dynamic = true;
  for (Step& step : steps_) step.low = step.high = 0;
  calibrating_ = true;
  try {
    run_all(inputs, count, outputs.data(), turn);
  } catch (...) {
    calibrating_ = false;
    *ranges_ = before;
    throw;
  }
  calibrating_ = false;
  for (const Step& step : steps_)
    if (step.kernel != nullptr) (*ranges_)[step.layer] = {step.low, step.high, false};
}

std::vector<std::pair<float, float>> Network::ranges() const {
  const Workers::Turn turn(*workers_, Workers::Company::none);
  std::vector<std::pair<float, float>> result;
  for (const Quantisation& range : *ranges_)
    if (!range.dynamic) result.emplace_back(range.low, range.high);
  return result;
}

void Network::set_ranges(const std::vector<std::pair<float, float>>& ranges) {
  require(ranges.empty() || ranges.size() == ranges_->size(), "there must be a range for each of ", ranges_->size(),
          " layers with weights, got ", ranges.size());
  const Workers::Turn turn(*workers_, Workers::Company::none);
  for (size_t i = 0; i < ranges.size(); ++i) (*ranges_)[i] = {ranges[i].first, ranges[i].second, false};
}

}  // namespace adaste

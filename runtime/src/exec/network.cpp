#include "exec/network.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "exec/input.h"
#include "exec/operations.h"
#include "kernels/weight_order.h"

namespace adaste {
namespace {

constexpr int most_threads = 1024;
// Images run together share their weights, but more memory than the caches hold makes them slower again.
constexpr int64_t memory_at_once = int64_t{16} << 20;
constexpr int64_t most_images_at_once = 64;
// An elementwise task is some pixels of one image, about this many numbers.
constexpr int64_t task_elements = 1 << 14;

ConvShape with_batch(ConvShape shape, int count) {
  shape.batch = count;
  return shape;
}

const Kernels& kernels_for(const Node& node, bool int8) {
  return !node.binary ? float_kernels() : int8 ? int8_kernels() : binary_kernels();
}

Epilogue epilogue_of(const Node& node, const float* residual) {
  return {node.scale.empty() ? nullptr : node.scale.data(), node.shift.empty() ? nullptr : node.shift.data(), residual,
          node.relu};
}

}  // namespace

Network::Network(const uint8_t* bytes, size_t size, const Options& options) : options_(options) {
  require(options.threads >= 1 && options.threads <= most_threads, "threads must be 1 to ", most_threads, ", got ",
          options.threads);
  graph_ = read_graph(bytes, size, options_.limits);
  mean_.assign(graph_.mean.begin(), graph_.mean.end());
  std_.assign(graph_.std.begin(), graph_.std.end());
  plan_ = make_plan(graph_);
  check_memory();
  choose_kernels();
  prepare_weights();
  workers_ = std::make_unique<Workers>(options.threads);
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
      node.shape.threads = options_.threads;
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
  images_at_once_ = std::clamp<int64_t>(memory_at_once / bytes, 1, most_images_at_once);
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
  const Workers::Turn turn(*workers_);
  run_all(images, outputs);
}

void Network::run_all(const Images& images, float* outputs) {
  for (int64_t first = 0; first < images.count; first += images_at_once_) {
    const auto count = static_cast<int>(std::min(images_at_once_, images.count - first));
    run_some(images, first, count, outputs + first * this->outputs());
  }
}

void Network::run_some(const Images& images, int64_t first, int count, float* outputs) {
  activations_.reserve(static_cast<size_t>(plan_.size) * static_cast<size_t>(count) * sizeof(float));
  read_images(images, first, count);
  for (Step& step : steps_) run_step(step, count);
  std::copy_n(value(graph_.output, count), static_cast<size_t>(count) * static_cast<size_t>(this->outputs()), outputs);
}

float* Network::value(int number, int count) const {
  return static_cast<float*>(activations_.data()) + plan_.offsets[static_cast<size_t>(number)] * count;
}

void Network::read_images(const Images& images, int64_t first, int count) {
  const Extent& extent = input();
  const int64_t pixels = int64_t{extent.height} * extent.width;
  float* to = value(0, count);
  std::atomic<bool> good{true};
  workers_->run(count, [&](int image) {
    const int64_t from = (first + image) * extent.elements();
    if (images.floats == nullptr)
      read_bytes(pixels, extent.channels, images.bytes + from, mean_, std_, to + image * extent.elements());
    else if (!read_floats(pixels, extent.channels, images.floats + from, to + image * extent.elements()))
      good = false;
  });
  require(good, "the images hold numbers that are not finite");
}

void Network::convolve(Step& step, int count) {
  const Node& node = *step.node;
  const ConvShape shape = with_batch(node.shape, count);
  const ConvKernel& kernel = *step.kernel;
  scratch_.reserve(kernel.scratch_bytes(shape));
  const Epilogue epilogue = epilogue_of(node, node.inputs.size() > 1 ? value(node.inputs[1], count) : nullptr);
  const float* x = value(node.inputs[0], count);
  float* y = value(node.output, count);
  for (int stage = 0; stage < kernel.stages(shape); ++stage)
    workers_->run(kernel.tasks(shape, stage), [&](int task) {
      kernel.run(shape, stage, task, x, step.weights.data(), epilogue, step.quantisation, y, scratch_.data());
    });
}

void Network::run_step(Step& step, int count) {
  const Node& node = *step.node;
  switch (node.op) {
    case Op::convolution:
      if (calibrating_) observe(step, count);
      return convolve(step, count);
    case Op::max_pool:
    case Op::average_pool: return pool(node, count);
    case Op::affine:
    case Op::add:
    case Op::relu: return combine(node, count);
    case Op::flatten: return flatten_images(node, count);
    case Op::concatenate: return join(node, count);
  }
}

void Network::pool(const Node& node, int count) {
  const ConvShape shape = with_batch(node.shape, count);
  const float* x = value(node.inputs[0], count);
  float* y = value(node.output, count);
  workers_->run(count * shape.out_height, [&](int row) {
    if (node.op == Op::max_pool)
      max_pool(shape, row, x, y);
    else
      average_pool(shape, node.count_padding, row, x, y);
  });
}

// Calls function(first pixel, pixels) for pieces of all pixels of a batch.
template <class Function>
void Network::for_pixels(const Extent& extent, int count, const Function& function) {
  const int64_t pixels = int64_t{count} * extent.height * extent.width;
  const int64_t each = std::max<int64_t>(1, task_elements / extent.channels);
  workers_->run(static_cast<int>((pixels + each - 1) / each),
                [&](int task) { function(task * each, std::min(each, pixels - task * each)); });
}

void Network::combine(const Node& node, int count) {
  const Extent& extent = graph_.values[static_cast<size_t>(node.output)];
  for_pixels(extent, count, [&](int64_t pixel, int64_t pixels) {
    const int64_t start = pixel * extent.channels;
    const float* x = value(node.inputs[0], count) + start;
    const float* second = node.inputs.size() > 1 ? value(node.inputs[1], count) + start : nullptr;
    float* y = value(node.output, count) + start;
    if (node.op == Op::affine)
      affine(pixels, extent.channels, x, epilogue_of(node, second), y);
    else
      add(pixels * extent.channels, x, second, node.relu, y);
  });
}

void Network::flatten_images(const Node& node, int count) {
  const Extent& extent = graph_.values[static_cast<size_t>(node.inputs[0])];
  workers_->run(count, [&](int image) {
    const int64_t start = image * extent.elements();
    flatten(int64_t{extent.height} * extent.width, extent.channels, value(node.inputs[0], count) + start,
            value(node.output, count) + start);
  });
}

void Network::join(const Node& node, int count) {
  const int all = graph_.values[static_cast<size_t>(node.output)].channels;
  int first = 0;
  for (const int number : node.inputs) {
    const Extent& extent = graph_.values[static_cast<size_t>(number)];
    for_pixels(extent, count, [&](int64_t pixel, int64_t pixels) {
      concatenate(pixels, extent.channels, value(number, count) + pixel * extent.channels, first, all,
                  value(node.output, count) + pixel * all);
    });
    first += extent.channels;
  }
}

void Network::observe(Step& step, int count) {
  const int64_t elements = graph_.values[static_cast<size_t>(step.node->inputs[0])].elements() * count;
  const float* x = value(step.node->inputs[0], count);
  for (int64_t i = 0; i < elements; ++i) {
    step.low = std::min(step.low, x[i]);
    step.high = std::max(step.high, x[i]);
  }
}

void Network::calibrate(const Images& images) {
  require(options_.int8, "only a network loaded with int8 can be calibrated");
  require(images.count > 0, "calibration needs at least one image");
  std::vector<float> outputs(static_cast<size_t>(images.count) * static_cast<size_t>(this->outputs()));
  const Workers::Turn turn(*workers_);
  std::vector<Quantisation> before;
  for (Step& step : steps_) {
    before.push_back(step.quantisation);
    step.low = step.high = 0;
    step.quantisation.dynamic = true;
  }
  calibrating_ = true;
  try {
    run_all(images, outputs.data());
  } catch (...) {
    calibrating_ = false;
    for (size_t i = 0; i < steps_.size(); ++i) steps_[i].quantisation = before[i];
    throw;
  }
  calibrating_ = false;
  for (Step& step : steps_) step.quantisation = {step.low, step.high, false};
}

}  // namespace adaste

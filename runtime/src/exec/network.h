// A network ready to run: its kernels chosen, its weights prepared, its memory planned, its threads waiting.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/memory.h"
#include "exec/plan.h"
#include "exec/workers.h"
#include "format/graph.h"
#include "kernels/registry.h"

namespace adaste {

struct Options {
  int threads = 1;
  bool int8 = false;  // one-bit layers take 8-bit activations
  Limits limits{};
};

// A batch of images: float32 (count, channels, height, width), normalised; or uint8 (count, height, width, channels).
struct Images {
  const float* floats;
  const uint8_t* bytes;  // if floats is null
  int64_t count;
};

// A node for people: its name in the file, what it computes, its weights and who computes with them.
struct NodeFacts {
  std::string op, output;
  Extent extent;
  int64_t weights;     // 0 where it has none
  bool binary;         // else they are float32
  const char* kernel;  // null where it has no weights
};

class Network {
 public:
  // From the bytes of a file, which are not needed afterwards.
  Network(const uint8_t* bytes, size_t size, const Options& options);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Extent& input() const { return graph_.values[0]; }
  int outputs() const { return graph_.values[static_cast<size_t>(graph_.output)].channels; }
  const std::vector<std::string>& classes() const { return graph_.classes; }
  const std::vector<double>& mean() const { return graph_.mean; }  // empty, like std, where the file has none
  const std::vector<double>& std() const { return graph_.std; }
  const std::optional<std::string>& recipe() const { return graph_.recipe; }
  const std::string& producer() const { return graph_.producer; }
  int threads() const { return options_.threads; }

  // The nodes in the order of execution.
  std::vector<NodeFacts> nodes() const;

  // The most images of one call: those and their outputs are no larger than an object may be.
  int64_t most_images() const;

  // For every layer with weights its name and its kernel's.
  std::vector<std::pair<std::string, std::string>> kernels() const;

  // Writes count * outputs() numbers. Calls from several threads wait for each other. An error where a number among the
  // images is not finite.
  void run(const Images& images, float* outputs);

  // Runs and remembers the range of what each 8-bit layer sees: from then on that is its range for all images. After an
  // error all ranges are what they were.
  void calibrate(const Images& images);

  // The memory for activations and scratch, in bytes.
  size_t memory_bytes() const { return activations_.bytes() + scratch_.bytes(); }

 private:
  // A node with its kernel, if it is a convolution.
  struct Step {
    const Node* node;
    const ConvKernel* kernel;
    Memory weights;
    Quantisation quantisation;
    float low, high;  // the range seen while calibrating
  };

  void choose_kernels();
  void prepare_weights();
  void check_memory() const;
  void run_all(const Images& images, float* outputs);
  void run_some(const Images& images, int64_t first, int count, float* outputs);
  void read_images(const Images& images, int64_t first, int count);
  void run_step(Step& step, int count);
  void convolve(Step& step, int count);
  void observe(Step& step, int count);
  void pool(const Node& node, int count);
  void combine(const Node& node, int count);
  void flatten_images(const Node& node, int count);
  void join(const Node& node, int count);
  template <class Function>
  void for_pixels(const Extent& extent, int count, const Function& function);
  float* value(int number, int count) const;

  Graph graph_;
  Options options_;
  Plan plan_;
  std::vector<float> mean_, std_;  // what bytes are normalised with
  int64_t images_at_once_ = 1;
  std::vector<Step> steps_;
  Memory activations_, scratch_;
  std::unique_ptr<Workers> workers_;
  bool calibrating_ = false;
};

}  // namespace adaste

// A network ready to run: its kernels chosen, its weights prepared, its memory planned, its threads waiting.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/memory.h"
#include "exec/operation.h"
#include "exec/plan.h"
#include "exec/workers.h"
#include "format/graph.h"
#include "format/signature.h"
#include "kernels/registry.h"

namespace adaste {

class Network;

struct Options {
  int threads = 1;    // 0: the physical cores that the process may use
  bool int8 = false;  // one-bit layers take 8-bit activations
  Limits limits{};
  const Network* other = nullptr;  // of the same file with other sizes, which shares its workers, tables and ranges
};

// A batch of images: float32 (count, channels, height, width), normalised; or uint8 (count, height, width, channels).
struct Images {
  const float* floats;
  const uint8_t* bytes;  // if floats is null
  int64_t count;
};

// An input of a network, `count` one after the other: float32 or, for whole numbers, int32 or int64 in the order of its
// axes; or images of bytes (height, width, channels). One of them is not null.
struct Feed {
  const float* floats = nullptr;
  const uint8_t* bytes = nullptr;
  const int32_t* integers = nullptr;
  const int64_t* long_integers = nullptr;
};

// The sizes of images.
struct Extent {
  int channels, height, width;

  int64_t elements() const { return int64_t{channels} * height * width; }
};

// A node for people: its name in the file, what it computes, its weights and who computes with them.
struct NodeFacts {
  std::string op, output;
  Shape shape;
  int64_t weights;     // 0 where it has none
  bool binary;         // else they are float32
  const char* kernel;  // null where it has no weights
};

class Network {
 public:
  // From the bytes of a file, which are not needed afterwards.
  // `sizes` are free ones of the file; without them they are the largest.
  Network(const uint8_t* bytes, size_t size, const Options& options, const std::vector<int>* sizes = nullptr);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Gives up weights that another network of the same file has as well. Before it runs for the first time.
  void share_weights(const Network& other);

  // What it takes and what it gives, in the order of the file.
  const Signature& signature() const { return signature_; }
  const Graph& graph() const { return graph_; }
  const std::vector<Port>& input_ports() const { return graph_.inputs; }
  const std::vector<Port>& output_ports() const { return graph_.outputs; }
  const Value& value_of(const Port& port) const { return graph_.values[static_cast<size_t>(port.value)]; }

  // Where it takes one image and gives one row of numbers, as most do: the sizes of these. An error where it does not.
  Extent input() const;
  int outputs() const;
  const std::vector<std::string>& classes() const { return graph_.classes; }
  const std::vector<double>& mean() const { return graph_.inputs[0].mean; }  // empty, like std, where there is none
  const std::vector<double>& std() const { return graph_.inputs[0].std; }
  const std::optional<std::string>& recipe() const { return graph_.recipe; }
  const std::string& producer() const { return graph_.producer; }
  int threads() const { return options_.threads; }

  // The nodes in the order of execution.
  std::vector<NodeFacts> nodes() const;

  // The most images of one call: those and their outputs are no larger than an object may be. Other inputs count alike.
  int64_t most_images() const;

  // For every layer with weights its name and its kernel's.
  std::vector<std::pair<std::string, std::string>> kernels() const;

  // Writes count * outputs() numbers. Several threads may call at the same time; they share weights and workers,
  // and as many as there are workers or processors do not wait for each other. An error where a number among the images
  // is not finite.
  void run(const Images& images, float* outputs);

  // The same for any inputs and outputs, in the order of the ports; each output has the batch first, and where it is
  // not wanted, a null pointer.
  void run(const Feed* inputs, int64_t count, float* const* outputs);

  // Runs and remembers the range of what each 8-bit layer sees: from then on that is its range for all images, also in
  // the networks of other sizes that share the ranges. After an error all ranges are what they were.
  void calibrate(const Feed* inputs, int64_t count);

  // The ranges that calibration fixed, low and high of each layer with weights, for another network from the same file;
  // empty before it.
  std::vector<std::pair<float, float>> ranges() const;
  void set_ranges(const std::vector<std::pair<float, float>>& ranges);

  // The memory for activations and scratch of all calls there were at the same time, in bytes.
  size_t memory_bytes() const;

 private:
  // An action of the program with its kernel, if it is a convolution, or its operation.
  struct Step {
    const Action* action;
    const ConvKernel* kernel;
    std::unique_ptr<Operation> operation;
    std::shared_ptr<Memory> weights;
    size_t layer;     // where there is a kernel: its place in ranges_
    float low, high;  // the range seen while calibrating
  };

  // The memory of one call at a time.
  struct Place {
    Memory activations, scratch;
  };

  // Some images on their way through the network.
  struct Call {
    Workers::Turn& turn;
    Place& place;
    int count;  // images
  };

  void choose_kernels();
  void prepare_weights();
  void share_numbers(const Network& other);
  void check_memory() const;
  size_t thread_scratch_of(const Step& step) const;
  size_t most_thread_scratch() const;
  Feed feed_of(const Images& images) const;
  void run_all(const Feed* inputs, int64_t count, float* const* outputs, Workers::Turn& turn);
  void run_some(const Feed* inputs, int64_t first, const Call& call, float* const* outputs);
  void read_input(size_t number, const Feed& feed, int64_t first, const Call& call);
  void run_step(Step& step, const Call& call);
  void convolve(Step& step, const Call& call);
  void observe(Step& step, const Call& call);
  void pool(const Action& action, const Call& call);
  void scale(const Action& action, const Call& call);
  Frame frame(const Call& call) const;

  Graph graph_;
  Signature signature_;
  Options options_;
  Program program_;
  Plan plan_;
  std::vector<Result> results_;
  std::vector<std::vector<float>> mean_, std_;  // what bytes are normalised with
  std::vector<int> most_tokens_;                // of every input: how many whole numbers all that take it know
  int64_t images_at_once_ = 1;
  std::vector<Step> steps_;
  std::vector<Place> places_;           // of every turn
  size_t thread_scratch_ = 0;           // bytes that kernels need for each thread, at most
  std::vector<Memory> helper_scratch_;  // of every thread but the callers'
  std::shared_ptr<Workers> workers_;
  std::shared_ptr<std::vector<Quantisation>> ranges_;  // of every layer with weights; they change while no call runs
  bool calibrating_ = false;
};

}  // namespace adaste

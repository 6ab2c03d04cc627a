// The actions of a program that are no convolution, pool or scale per channel: each is an object that is made when the
// network is loaded and then runs without allocating anything.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "exec/nest.h"
#include "exec/plan.h"
#include "exec/program.h"
#include "exec/workers.h"

namespace adaste {

// What an operation works on: `count` inputs one after the other in each buffer.
struct Frame {
  Workers::Turn& turn;
  const Program& program;
  const Plan& plan;
  float* memory;
  float* scratch;
  int count;

  float* place(const View& view, int image) const {
    const auto buffer = static_cast<size_t>(view.buffer);
    return memory + plan.offsets[buffer] * count + image * program.buffers[buffer] + view.offset;
  }
  const float* read(const View& view, int image) const {
    return view.fixed != nullptr ? view.fixed + view.offset : place(view, image);
  }
};

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;
  virtual size_t scratch_bytes(int /*count*/) const { return 0; }
  virtual void run(const Frame& frame) const = 0;
};

// Null for the actions that the network computes itself.
std::unique_ptr<Operation> make_operation(const Action& action);

// A value whose numbers are wanted in the order of its axes: an output.
class Result {
 public:
  explicit Result(View view) : view_(std::move(view)), nest_(view_.shape, rows(view_.shape), view_.strides) {}

  int64_t elements() const { return view_.shape.elements(); }
  void copy(const Frame& frame, float* to) const;  // of all inputs one after the other

 private:
  View view_;
  Nest nest_;
};

}  // namespace adaste

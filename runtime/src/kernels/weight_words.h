// One-bit weights as words of 64 bits, for kernels that make the tables of 64 inputs of a window at a time.
#pragma once

#include <algorithm>

#include "kernels/contract.h"

namespace adaste {
namespace {

constexpr int chunk = 64;  // inputs whose tables are held at a time: one word of weight bits per channel

// Chunks of a window, or of each of its runs of so many inputs.
inline int chunks_of(const ConvShape& shape, size_t run) {
  return static_cast<int>(window_size(shape) / run * ((run + chunk - 1) / chunk));
}

// Words in the order (group, chunk, output channel); inputs in the order (row, column, channel).
inline size_t word_bytes(const ConvShape& shape, size_t run) {
  return static_cast<size_t>(chunks_of(shape, run)) * static_cast<size_t>(shape.out_channels) * sizeof(uint64_t);
}

inline void prepare_words(const ConvShape& shape, size_t run, const uint8_t* rows, uint64_t* word) {
  const auto outputs = static_cast<size_t>(shape.out_channels / shape.groups);
  const size_t window = window_size(shape), row_bytes = row_bytes_of(shape);
  for (size_t group = 0; group < static_cast<size_t>(shape.groups); ++group)
    for (size_t first = 0, end = 0; first < window; first = end) {
      end = std::min(first + chunk, (first / run + 1) * run);
      for (size_t output = 0; output < outputs; ++output)
        *word++ = weight_bits(rows + (group * outputs + output) * row_bytes, first, end - first);
    }
}

// With few output channels per group the tables cost more than they save.
inline bool enough_outputs(const ConvShape& shape) { return shape.out_channels / shape.groups >= 8; }

}  // namespace
}  // namespace adaste

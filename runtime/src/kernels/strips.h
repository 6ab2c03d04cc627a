// One-bit weights without a multiplication, with tables for strips of positions: what the kernels for NEON and
// WebAssembly share. Sums are float32, or 16-bit integers of 8-bit activations; for float32 all of the kernel is here
// but its instructions.
//
// Four inputs of a window have 16 signed sums; an output channel's four weights are the number of its sum. Vectors run
// over output positions, so that a look-up is a plain load and an addition: four multiply-adds for each lane, where a
// fused multiply-add does one, and no shuffle. An entry of a table holds a strip of positions, one or more vectors,
// whose address is made once for all of them.
//
// A task is one strip for some output channels. It goes over the window in chunks of inputs, whose tables stay in the
// first-level cache with the sums. x86/avx512/lookup.h is the other way round: vectors run over output channels there,
// tables are used by all taps of a window, and few positions are enough to use it well.
//
// A processor gives a type Lanes with
//     Element, Input                     of a sum, and of an activation in memory
//     Vector, constexpr int lanes        sums of a vector: a multiple of 4
//     constexpr int together             vectors of sums that are in registers at a time
//     constexpr int most_outputs         output channels of a task
//     Vector read(const Input*)          `lanes` activations
//     Vector zero(), load(const Element*), add(Vector, Vector), subtract(Vector, Vector); void store(Element*, Vector)
//     void transpose(Vector (&rows)[lanes])
// and for float32
//     void finish(Vector, int channel, ptrdiff_t place, const Epilogue&, float* y)   finish() of contract.h for `lanes`
#pragma once

#include <cstring>

#include "kernels/geometry.h"
#include "kernels/weight_words.h"
#include "kernels/window.h"

namespace adaste {
namespace {

constexpr int group_size = 4;  // inputs of a table
constexpr int entries = 16;    // of a table

inline size_t strip_weight_bytes(const ConvShape& shape) { return word_bytes(shape, window_size(shape)); }

inline void strip_prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  prepare_words(shape, window_size(shape), rows, static_cast<uint64_t*>(prepared));
}

inline size_t strip_scratch_bytes(const ConvShape& /*shape*/) { return 0; }

inline int strip_stages(const ConvShape& /*shape*/) { return 1; }

template <class Lanes>
int strip_tasks(const ConvShape& shape, int strip) {
  return static_cast<int>((positions(shape) + strip - 1) / strip) * shape.groups *
         output_blocks(shape, Lanes::most_outputs).per_group;
}

alignas(64) constexpr float zeros[chunk] = {};

// The inputs of a chunk side by side: in place where a whole chunk is in one run, and not partly in the padding; else
// in `copy`, with zeros behind them.
inline const float* inputs_of(const ConvShape& shape, const Window& window, const Chunk& part, float* copy) {
  if (part.in_one_run() && part.count == chunk) {
    const Inside inside =
        inside_of(shape, window, part, part.row, part.run_column, part.start, part.start + part.count);
    if (inside.first == inside.end) return zeros;
    if (inside.end - inside.first == part.count) return window.image + (inside.offset + inside.first);
  }
  copy_inputs(shape, window, part, copy, [](const float* from, int count, float* to) {
    if (from != nullptr)
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    else
      std::memset(to, 0, static_cast<size_t>(count) * sizeof(float));
  });
  std::memset(copy + part.count, 0, static_cast<size_t>(chunk - part.count) * sizeof(float));
  return copy;
}

// The 16 signed sums of four inputs, for one vector of positions; bit i of an entry's number is set where input i is
// added.
template <class Lanes>
void fill_entries(const typename Lanes::Vector* inputs, typename Lanes::Element* table, int strip) {
  using Vector = typename Lanes::Vector;
  const Vector ab = Lanes::add(inputs[0], inputs[1]);
  const Vector a_b = Lanes::subtract(inputs[0], inputs[1]);
  const Vector cd = Lanes::add(inputs[2], inputs[3]);
  const Vector c_d = Lanes::subtract(inputs[2], inputs[3]);
  const Vector low[] = {Lanes::subtract(Lanes::zero(), ab), a_b, Lanes::subtract(Lanes::zero(), a_b), ab};
  for (int i = 0; i < 4; ++i) {
    Lanes::store(table + i * strip, Lanes::subtract(low[i], cd));
    Lanes::store(table + (4 + i) * strip, Lanes::add(low[i], c_d));
    Lanes::store(table + (8 + i) * strip, Lanes::subtract(low[i], c_d));
    Lanes::store(table + (12 + i) * strip, Lanes::add(low[i], cd));
  }
}

// The tables of `count` inputs, rounded up to whole vectors; inputs[i] are those of position i.
template <class Lanes, int vectors>
void fill_tables(const typename Lanes::Input* const* inputs, int count, typename Lanes::Element* tables) {
  constexpr int strip = vectors * Lanes::lanes;
  for (int first = 0; first < count; first += Lanes::lanes)
    for (int v = 0; v < vectors; ++v) {
      typename Lanes::Vector rows[Lanes::lanes];
      for (int i = 0; i < Lanes::lanes; ++i) rows[i] = Lanes::read(inputs[v * Lanes::lanes + i] + first);
      Lanes::transpose(rows);
      for (int i = 0; i < Lanes::lanes; i += group_size)
        fill_entries<Lanes>(rows + i, tables + (first + i) / group_size * entries * strip + v * Lanes::lanes, strip);
    }
}

inline uint64_t rotated_right(uint64_t word, int bits) { return word >> bits | word << (64 - bits); }

constexpr int log2_of(uint64_t power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

// Adds what the tables have for `outputs` channels to their sums; the inner loops unroll into registers.
template <class Lanes, int vectors, int outputs>
inline __attribute__((always_inline)) void add_outputs(const typename Lanes::Element* tables, int groups,
                                                       const uint64_t* words, typename Lanes::Element* sums) {
  using Element = typename Lanes::Element;
  constexpr int strip = vectors * Lanes::lanes;
  typename Lanes::Vector sum[outputs][vectors];
  constexpr uint64_t entry_bytes = strip * sizeof(Element);
  uint64_t offset[outputs];  // turned so that the bits of the next index are where they are an offset in bytes
  for (int o = 0; o < outputs; ++o) {
    offset[o] = rotated_right(words[o], 64 - log2_of(entry_bytes));
    for (int v = 0; v < vectors; ++v) sum[o][v] = Lanes::load(sums + o * strip + v * Lanes::lanes);
  }
#pragma GCC unroll 1  // unrolled, all addresses would be made first, and not fit into the registers
  for (int group = 0; group < groups; ++group, tables += entries * strip)
    for (int o = 0; o < outputs; ++o) {
      const auto place = static_cast<size_t>(offset[o] & ((entries - 1) * entry_bytes));
      const auto* entry = reinterpret_cast<const Element*>(reinterpret_cast<const char*>(tables) + place);
      offset[o] = rotated_right(offset[o], 4);
      for (int v = 0; v < vectors; ++v) sum[o][v] = Lanes::add(sum[o][v], Lanes::load(entry + v * Lanes::lanes));
    }
  for (int o = 0; o < outputs; ++o)
    for (int v = 0; v < vectors; ++v) Lanes::store(sums + o * strip + v * Lanes::lanes, sum[o][v]);
}

template <class Lanes, int vectors>
void add_chunk(const typename Lanes::Element* tables, int groups, const uint64_t* words, int outputs,
               typename Lanes::Element* sums) {
  constexpr int strip = vectors * Lanes::lanes;
  constexpr int together = Lanes::together > vectors ? Lanes::together / vectors : 1;
  int output = 0;
  for (; output + together <= outputs; output += together)
    add_outputs<Lanes, vectors, together>(tables, groups, words + output, sums + output * strip);
  for (; output < outputs; ++output)
    add_outputs<Lanes, vectors, 1>(tables, groups, words + output, sums + output * strip);
}

// From sums in the order (channel, position) to outputs in the order (position, channel), for `count` positions of a
// strip; `place` is the first's in y.
template <class Lanes, int vectors>
void store_strip(const float* sums, int count, int channel, int outputs, ptrdiff_t place, const ConvShape& shape,
                 const Epilogue& epilogue, float* y) {
  constexpr int width = Lanes::lanes;
  constexpr int strip = vectors * width;
  int output = 0;
  for (; output + width <= outputs; output += width)
    for (int first = 0; first < count; first += width) {
      typename Lanes::Vector rows[width];
      for (int i = 0; i < width; ++i) rows[i] = Lanes::load(sums + (output + i) * strip + first);
      Lanes::transpose(rows);
      for (int i = 0; i < smaller(width, count - first); ++i)
        Lanes::finish(rows[i], channel + output,
                      place + static_cast<ptrdiff_t>(first + i) * shape.out_channels + output, epilogue, y);
    }
  for (; output < outputs; ++output)
    for (int position = 0; position < count; ++position) {
      const ptrdiff_t to = place + static_cast<ptrdiff_t>(position) * shape.out_channels + output;
      y[to] = finish(sums[output * strip + position], channel + output, to, epilogue);
    }
}

// One task.
template <class Lanes, int vectors>
void convolve_strip(const ConvShape& shape, int task, const float* x, const void* prepared, const Epilogue& epilogue,
                    float* y) {
  constexpr int strip = vectors * Lanes::lanes;
  alignas(64) float tables[chunk / group_size * entries * strip];
  alignas(64) float sums[Lanes::most_outputs * strip];
  alignas(64) float copies[strip][chunk];
  const OutputBlocks blocks = output_blocks(shape, Lanes::most_outputs);
  const int block = task % (blocks.per_group * shape.groups);
  const int outputs = blocks.count(block);
  const ptrdiff_t position = static_cast<ptrdiff_t>(task / (blocks.per_group * shape.groups)) * strip;
  const int window = static_cast<int>(window_size(shape));
  const int first_channel = blocks.group(block) * (shape.channels / shape.groups);
  Window windows[strip];
  for (int i = 0; i < strip; ++i) windows[i] = window_at(shape, position + i, first_channel, x);
  const auto* words = static_cast<const uint64_t*>(prepared) +
                      static_cast<ptrdiff_t>(blocks.group(block)) * chunks_of(shape, window_size(shape)) *
                          blocks.outputs +
                      blocks.first(block);
  std::memset(sums, 0, static_cast<size_t>(outputs) * strip * sizeof(float));

  for (int first = 0; first < window; first += chunk, words += blocks.outputs) {
    const Chunk part = chunk_at(shape, first, smaller(chunk, window - first));
    const float* inputs[strip];
    for (int i = 0; i < strip; ++i) inputs[i] = inputs_of(shape, windows[i], part, copies[i]);
    fill_tables<Lanes, vectors>(inputs, part.count, tables);
    add_chunk<Lanes, vectors>(tables, ceil_div(part.count, group_size), words, outputs, sums);
  }
  const ptrdiff_t left = positions(shape) - position;
  store_strip<Lanes, vectors>(sums, left < strip ? static_cast<int>(left) : strip, blocks.channel(block), outputs,
                              position * shape.out_channels + blocks.channel(block), shape, epilogue, y);
}

}  // namespace
}  // namespace adaste

// One-bit weights and float32 activations without a multiplication, with tables for strips of positions: all of the
// kernel for NEON but its instructions.
//
// Four inputs of a window have 16 signed sums; an output channel's four weights are the number of its sum. Vectors run
// over output positions, so that a look-up is a plain load and an addition: four multiply-adds for each lane, where a
// fused multiply-add does one, and no shuffle. An entry of a table holds a strip of positions, one or more vectors,
// whose address is made once for all of them.
//
// A task is one strip for some output channels. It goes over the window in chunks of inputs, whose tables stay in the
// first-level cache with the sums. lookup.h is the other way round: vectors run over output channels there, tables
// are used by all taps of a window, and few positions are enough to use it well.
//
// A processor gives a type Lanes with
//     Vector, constexpr int lanes        floats of a vector: a multiple of 4
//     constexpr int together             sums that are in registers at a time
//     constexpr int most_outputs         output channels of a task
//     Word                               unsigned, with the weights of a chunk as its bits
//     Vector zero(), load(const float*), add(Vector, Vector), subtract(Vector, Vector); void store(float*, Vector)
//     void transpose(Vector (&rows)[lanes])
//     void finish(Vector, int channel, ptrdiff_t place, const Epilogue&, float* y)   finish() of kernels.h for `lanes`
#pragma once

#include <cstring>

#include "geometry.h"

namespace adaste {
namespace {

constexpr int group_size = 4;  // inputs of a table
constexpr int entries = 16;    // of a table

template <class Lanes>
constexpr int chunk = 8 * sizeof(typename Lanes::Word);  // inputs whose tables are held at a time

template <class Lanes>
int chunk_count(const ConvShape& shape) {
  return static_cast<int>((window_size(shape) + chunk<Lanes> - 1) / chunk<Lanes>);
}

template <class Lanes>
size_t strip_weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(chunk_count<Lanes>(shape)) * static_cast<size_t>(shape.out_channels) *
         sizeof(typename Lanes::Word);
}

// Words in the order (group, chunk, output channel), with inputs in the order (row, column, channel).
template <class Lanes>
void strip_prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const size_t outputs = static_cast<size_t>(shape.out_channels / shape.groups);
  const size_t window = window_size(shape);
  using Word = typename Lanes::Word;
  auto* word = static_cast<Word*>(prepared);
  for (size_t group = 0; group < static_cast<size_t>(shape.groups); ++group)
    for (size_t first = 0; first < window; first += chunk<Lanes>)
      for (size_t output = 0; output < outputs; ++output, ++word) {
        const uint8_t* row = rows + (group * outputs + output) * ((window + 7) / 8);
        const size_t count = window - first < chunk<Lanes> ? window - first : chunk<Lanes>;
        *word = static_cast<Word>(weight_bits(row, first, count));
      }
}

inline size_t strip_scratch_bytes(const ConvShape& /*shape*/) { return 0; }

inline int strip_stages(const ConvShape& /*shape*/) { return 1; }

inline ptrdiff_t position_count(const ConvShape& shape) {
  return static_cast<ptrdiff_t>(shape.batch) * shape.out_height * shape.out_width;
}

template <class Lanes>
int strip_tasks(const ConvShape& shape, int strip) {
  return static_cast<int>((position_count(shape) + strip - 1) / strip) * shape.groups *
         output_blocks(shape, Lanes::most_outputs).per_group;
}

// Where a position's window starts.
struct Window {
  const float* image;  // the image's first channel of the group; null for positions behind the last
  int row, column;
};

inline Window window_at(const ConvShape& shape, ptrdiff_t position, int group, const float* x) {
  if (position >= position_count(shape)) return {nullptr, 0, 0};
  const Pixel pixel = pixel_at(position, shape.out_height, shape.out_width);
  return {x + static_cast<ptrdiff_t>(pixel.image) * shape.height * shape.width * shape.channels +
              group * (shape.channels / shape.groups),
          pixel.row * shape.stride_h - shape.pad_h, pixel.column * shape.stride_w - shape.pad_w};
}

// Inputs of a window that are side by side in x: a row of the window, or one pixel where groups lie between pixels.
struct Run {
  ptrdiff_t offset;  // of the first from the image, be it inside or not
  int first, end;    // which of them are inside; none where first >= end
};

inline int run_length(const ConvShape& shape) {
  return shape.groups == 1 ? shape.kernel_w * shape.channels : shape.channels / shape.groups;
}

inline Run run_at(const ConvShape& shape, const Window& window, int index) {
  const int pixels = shape.groups == 1 ? shape.kernel_w : 1;
  const int runs_per_row = shape.kernel_w / pixels;
  const int row = window.row + index / runs_per_row;
  const int column = window.column + index % runs_per_row;
  if (window.image == nullptr || row < 0 || row >= shape.height) return {0, 0, 0};
  const int channels = shape.channels / shape.groups;
  return {(static_cast<ptrdiff_t>(row) * shape.width + column) * shape.channels, larger(0, -column) * channels,
          smaller(pixels, shape.width - column) * channels};
}

template <class Lanes>
alignas(64) constexpr float zeros[chunk<Lanes>] = {};

// `count` inputs of a window from number `first` on, side by side: in place where a whole chunk is in one run, else in
// `copy`, with zeros behind them.
template <class Lanes>
const float* inputs_of(const ConvShape& shape, const Window& window, int first, int count, float* copy) {
  const int length = run_length(shape);
  int index = first / length;
  int start = first % length;
  if (count == chunk<Lanes> && start + count <= length) {
    const Run run = run_at(shape, window, index);
    if (run.first >= run.end || start + count <= run.first || start >= run.end) return zeros<Lanes>;
    if (start >= run.first && start + count <= run.end) return window.image + run.offset + start;
  }
  std::memset(copy, 0, chunk<Lanes> * sizeof(float));
  for (int done = 0; done < count; ++index, start = 0) {
    const int taken = smaller(length - start, count - done);
    const Run run = run_at(shape, window, index);
    const int from = larger(start, run.first);
    const int inside = smaller(start + taken, run.end) - from;
    if (inside > 0)
      std::memcpy(copy + done + from - start, window.image + run.offset + from,
                  static_cast<size_t>(inside) * sizeof(float));
    done += taken;
  }
  return copy;
}

// The 16 signed sums of four inputs, for one vector of positions; bit i of an entry's number is set where input i is
// added.
template <class Lanes>
void fill_entries(const typename Lanes::Vector* inputs, float* table, int strip) {
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
void fill_tables(const float* const* inputs, int count, float* tables) {
  constexpr int strip = vectors * Lanes::lanes;
  for (int first = 0; first < count; first += Lanes::lanes)
    for (int v = 0; v < vectors; ++v) {
      typename Lanes::Vector rows[Lanes::lanes];
      for (int i = 0; i < Lanes::lanes; ++i) rows[i] = Lanes::load(inputs[v * Lanes::lanes + i] + first);
      Lanes::transpose(rows);
      for (int i = 0; i < Lanes::lanes; i += group_size)
        fill_entries<Lanes>(rows + i, tables + (first + i) / group_size * entries * strip + v * Lanes::lanes, strip);
    }
}

inline uint64_t rotated_right(uint64_t word, int bits) { return word >> bits | word << (64 - bits); }

constexpr int log2_of(uint64_t power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }

// Adds what the tables have for `outputs` channels to their sums; the inner loops unroll into registers.
template <class Lanes, int vectors, int outputs>
inline __attribute__((always_inline)) void add_outputs(const float* tables, int groups,
                                                       const typename Lanes::Word* words, float* sums) {
  constexpr int strip = vectors * Lanes::lanes;
  typename Lanes::Vector sum[outputs][vectors];
  constexpr uint64_t entry_bytes = strip * sizeof(float);
  uint64_t offset[outputs];  // turned so that the bits of the next index are where they are an offset in bytes
  for (int o = 0; o < outputs; ++o) {
    offset[o] = rotated_right(words[o], 64 - log2_of(entry_bytes));
    for (int v = 0; v < vectors; ++v) sum[o][v] = Lanes::load(sums + o * strip + v * Lanes::lanes);
  }
#pragma GCC unroll 1  // unrolled, all addresses would be made first, and not fit into the registers
  for (int group = 0; group < groups; ++group, tables += entries * strip)
    for (int o = 0; o < outputs; ++o) {
      const auto* entry = reinterpret_cast<const float*>(reinterpret_cast<const char*>(tables) +
                                                         (offset[o] & ((entries - 1) * entry_bytes)));
      offset[o] = rotated_right(offset[o], 4);
      for (int v = 0; v < vectors; ++v) sum[o][v] = Lanes::add(sum[o][v], Lanes::load(entry + v * Lanes::lanes));
    }
  for (int o = 0; o < outputs; ++o)
    for (int v = 0; v < vectors; ++v) Lanes::store(sums + o * strip + v * Lanes::lanes, sum[o][v]);
}

template <class Lanes, int vectors>
void add_chunk(const float* tables, int groups, const typename Lanes::Word* words, int outputs, float* sums) {
  constexpr int strip = vectors * Lanes::lanes;
  constexpr int together = Lanes::together / vectors;
  int output = 0;
  for (; output + together <= outputs; output += together)
    add_outputs<Lanes, vectors, together>(tables, groups, words + output, sums + output * strip);
  for (; output < outputs; ++output)
    add_outputs<Lanes, vectors, 1>(tables, groups, words + output, sums + output * strip);
}

// From sums in the order (channel, position) to outputs in the order (position, channel), for `positions` positions of
// a strip; `place` is the first's in y.
template <class Lanes, int vectors>
void store_strip(const float* sums, int positions, int channel, int outputs, ptrdiff_t place, const ConvShape& shape,
                 const Epilogue& epilogue, float* y) {
  constexpr int width = Lanes::lanes;
  constexpr int strip = vectors * width;
  int output = 0;
  for (; output + width <= outputs; output += width)
    for (int first = 0; first < positions; first += width) {
      typename Lanes::Vector rows[width];
      for (int i = 0; i < width; ++i) rows[i] = Lanes::load(sums + (output + i) * strip + first);
      Lanes::transpose(rows);
      for (int i = 0; i < smaller(width, positions - first); ++i)
        Lanes::finish(rows[i], channel + output,
                      place + static_cast<ptrdiff_t>(first + i) * shape.out_channels + output, epilogue, y);
    }
  for (; output < outputs; ++output)
    for (int position = 0; position < positions; ++position) {
      const ptrdiff_t to = place + static_cast<ptrdiff_t>(position) * shape.out_channels + output;
      y[to] = finish(sums[output * strip + position], channel + output, to, epilogue);
    }
}

// One task.
template <class Lanes, int vectors>
void convolve_strip(const ConvShape& shape, int task, const float* x, const void* prepared, const Epilogue& epilogue,
                    float* y) {
  constexpr int strip = vectors * Lanes::lanes;
  alignas(64) float tables[chunk<Lanes> / group_size * entries * strip];
  alignas(64) float sums[Lanes::most_outputs * strip];
  alignas(64) float copies[strip][chunk<Lanes>];
  const OutputBlocks blocks = output_blocks(shape, Lanes::most_outputs);
  const int block = task % (blocks.per_group * shape.groups);
  const int outputs = blocks.count(block);
  const ptrdiff_t position = static_cast<ptrdiff_t>(task / (blocks.per_group * shape.groups)) * strip;
  const int window = static_cast<int>(window_size(shape));
  Window windows[strip];
  for (int i = 0; i < strip; ++i) windows[i] = window_at(shape, position + i, blocks.group(block), x);
  const auto* words = static_cast<const typename Lanes::Word*>(prepared) +
                      static_cast<ptrdiff_t>(blocks.group(block)) * chunk_count<Lanes>(shape) * blocks.outputs +
                      blocks.first(block);
  std::memset(sums, 0, static_cast<size_t>(outputs) * strip * sizeof(float));

  for (int first = 0; first < window; first += chunk<Lanes>, words += blocks.outputs) {
    const int count = smaller(chunk<Lanes>, window - first);
    const float* inputs[strip];
    for (int i = 0; i < strip; ++i) inputs[i] = inputs_of<Lanes>(shape, windows[i], first, count, copies[i]);
    fill_tables<Lanes, vectors>(inputs, count, tables);
    add_chunk<Lanes, vectors>(tables, ceil_div(count, group_size), words, outputs, sums);
  }
  const ptrdiff_t left = position_count(shape) - position;
  store_strip<Lanes, vectors>(sums, left < strip ? static_cast<int>(left) : strip, blocks.channel(block), outputs,
                              position * shape.out_channels + blocks.channel(block), shape, epilogue, y);
}

}  // namespace
}  // namespace adaste

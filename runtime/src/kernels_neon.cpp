// One-bit weights and float32 activations with NEON, without a multiplication: tables of signed sums.
//
// Four inputs of a window have 16 signed sums; an output channel's four weights are the number of its sum. Vectors run
// over output positions, so that a look-up is a plain load and an addition: 16 multiply-adds for each load of 4
// positions, where a fused multiply-add does 4, and no shuffle, whose speed differs much among cores. An entry of a
// table holds a strip of 16 positions (8 or 4 where there are no more), whose address is made once for all of them.
//
// A task is one strip of positions for some output channels. It goes over the window in chunks of 64 inputs, whose
// tables take 16 KiB and stay in the first-level cache with the sums.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstring>

#include "geometry.h"

namespace adaste {
namespace {

constexpr int lanes = 4;           // floats of a vector
constexpr int chunk = 64;          // inputs whose tables are held at a time: the bits of a word
constexpr int group_size = 4;      // inputs of a table
constexpr int entries = 16;        // of a table
constexpr int most_outputs = 256;  // of a task: their sums take 16 KiB
constexpr int together = 4;        // output channels whose sums are in registers at a time

bool available() { return true; }  // part of every 64-bit ARM processor

// With few output channels tables cost more than they save.
bool supports(const ConvShape& shape) { return shape.out_channels / shape.groups >= 8; }

int chunks(const ConvShape& shape) { return static_cast<int>((window_size(shape) + chunk - 1) / chunk); }

size_t weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(chunks(shape)) * static_cast<size_t>(shape.out_channels) * sizeof(uint64_t);
}

// Words of 64 bits in the order (group, chunk, output channel), with inputs in the order (row, column, channel).
void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const size_t taps = static_cast<size_t>(shape.kernel_h) * static_cast<size_t>(shape.kernel_w);
  const size_t channels = static_cast<size_t>(shape.channels / shape.groups);
  const size_t outputs = static_cast<size_t>(shape.out_channels / shape.groups);
  const size_t window = window_size(shape);
  auto* word = static_cast<uint64_t*>(prepared);
  for (size_t group = 0; group < static_cast<size_t>(shape.groups); ++group)
    for (size_t first = 0; first < window; first += chunk)
      for (size_t output = 0; output < outputs; ++output, ++word) {
        const uint8_t* row = rows + (group * outputs + output) * ((window + 7) / 8);
        *word = 0;
        for (size_t k = first; k < window && k < first + chunk; ++k)
          if (weight_bit(row, k % channels * taps + k / channels)) *word |= uint64_t{1} << (k - first);
      }
}

size_t scratch_bytes(const ConvShape& /*shape*/) { return 0; }

int stages(const ConvShape& /*shape*/) { return 1; }

ptrdiff_t position_count(const ConvShape& shape) {
  return static_cast<ptrdiff_t>(shape.batch) * shape.out_height * shape.out_width;
}

int vectors_for(const ConvShape& shape) {
  const ptrdiff_t positions = position_count(shape);
  return positions > 2 * lanes ? 4 : positions > lanes ? 2 : 1;
}

ptrdiff_t strip_count(const ConvShape& shape) {
  const int strip = vectors_for(shape) * lanes;
  return (position_count(shape) + strip - 1) / strip;
}

int tasks(const ConvShape& shape, int /*stage*/) {
  return static_cast<int>(strip_count(shape)) * shape.groups * output_blocks(shape, most_outputs).per_group;
}

// Where a position's window starts.
struct Window {
  const float* image;  // the image's first channel of the group; null for positions behind the last
  int row, column;
};

Window window_at(const ConvShape& shape, ptrdiff_t position, int group, const float* x) {
  if (position >= position_count(shape)) return {nullptr, 0, 0};
  const Pixel pixel = pixel_at(position, shape.out_height, shape.out_width);
  return {x + static_cast<ptrdiff_t>(pixel.image) * shape.height * shape.width * shape.channels +
              group * (shape.channels / shape.groups),
          pixel.row * shape.stride_h - shape.pad_h, pixel.column * shape.stride_w - shape.pad_w};
}

// The channels of one pixel of a window; null where there is padding.
const float* pixel_of(const ConvShape& shape, const Window& window, int tap) {
  const int row = window.row + tap / shape.kernel_w;
  const int column = window.column + tap % shape.kernel_w;
  if (window.image == nullptr || row < 0 || row >= shape.height || column < 0 || column >= shape.width) return nullptr;
  return window.image + (static_cast<ptrdiff_t>(row) * shape.width + column) * shape.channels;
}

alignas(16) constexpr float zeros[chunk] = {};

// `count` inputs of a window from number `first` on, side by side: in place where a whole chunk is in one pixel, else
// in `copy`, with zeros behind them.
const float* inputs_of(const ConvShape& shape, const Window& window, int first, int count, float* copy) {
  const int channels = shape.channels / shape.groups;
  if (count == chunk && first % channels + count <= channels) {
    const float* pixel = pixel_of(shape, window, first / channels);
    return pixel != nullptr ? pixel + first % channels : zeros;
  }
  std::memset(copy, 0, chunk * sizeof(float));
  int tap = first / channels;
  int channel = first % channels;
  for (int done = 0; done < count; ++tap, channel = 0) {
    const int run = smaller(channels - channel, count - done);
    const float* pixel = pixel_of(shape, window, tap);
    if (pixel != nullptr) std::memcpy(copy + done, pixel + channel, static_cast<size_t>(run) * sizeof(float));
    done += run;
  }
  return copy;
}

struct Square {
  float32x4_t rows[lanes];
};

Square transposed(const Square& square) {
  const float32x4x2_t low = vzipq_f32(square.rows[0], square.rows[2]);
  const float32x4x2_t high = vzipq_f32(square.rows[1], square.rows[3]);
  const float32x4x2_t first = vzipq_f32(low.val[0], high.val[0]);
  const float32x4x2_t second = vzipq_f32(low.val[1], high.val[1]);
  return {{first.val[0], first.val[1], second.val[0], second.val[1]}};
}

// The 16 signed sums of four inputs, for 4 of the positions; bit i of an entry's number is set where input i is added.
void fill_entries(const Square& inputs, float* table, int strip) {
  const float32x4_t ab = vaddq_f32(inputs.rows[0], inputs.rows[1]);
  const float32x4_t a_b = vsubq_f32(inputs.rows[0], inputs.rows[1]);
  const float32x4_t cd = vaddq_f32(inputs.rows[2], inputs.rows[3]);
  const float32x4_t c_d = vsubq_f32(inputs.rows[2], inputs.rows[3]);
  const float32x4_t low[] = {vnegq_f32(ab), a_b, vnegq_f32(a_b), ab};
  const float32x4_t high[] = {vnegq_f32(cd), c_d, vnegq_f32(c_d), cd};
  for (int entry = 0; entry < entries; ++entry)
    vst1q_f32(table + entry * strip, vaddq_f32(low[entry % 4], high[entry / 4]));
}

// The tables of `count` inputs; inputs[i] are those of position i.
template <int vectors>
void fill_tables(const float* const* inputs, int count, float* tables) {
  constexpr int strip = vectors * lanes;
  for (int first = 0; first < count; first += group_size, tables += entries * strip)
    for (int v = 0; v < vectors; ++v) {
      Square square;
      for (int i = 0; i < lanes; ++i) square.rows[i] = vld1q_f32(inputs[v * lanes + i] + first);
      fill_entries(transposed(square), tables + v * lanes, strip);
    }
}

// Adds what the tables have for `outputs` channels to their sums; the inner loops unroll into registers.
template <int vectors, int outputs>
inline __attribute__((always_inline)) void add_outputs(const float* tables, int groups, const uint64_t* words,
                                                       float* sums) {
  constexpr int strip = vectors * lanes;
  float32x4_t sum[outputs][vectors];
  uint64_t word[outputs];
  for (int o = 0; o < outputs; ++o) {
    word[o] = words[o];
    for (int v = 0; v < vectors; ++v) sum[o][v] = vld1q_f32(sums + o * strip + v * lanes);
  }
  for (int group = 0; group < groups; ++group, tables += entries * strip)
    for (int o = 0; o < outputs; ++o) {
      const float* entry = tables + word[o] % entries * strip;
      word[o] /= entries;
      for (int v = 0; v < vectors; ++v) sum[o][v] = vaddq_f32(sum[o][v], vld1q_f32(entry + v * lanes));
    }
  for (int o = 0; o < outputs; ++o)
    for (int v = 0; v < vectors; ++v) vst1q_f32(sums + o * strip + v * lanes, sum[o][v]);
}

template <int vectors>
void add_chunk(const float* tables, int groups, const uint64_t* words, int outputs, float* sums) {
  constexpr int strip = vectors * lanes;
  int output = 0;
  for (; output + together <= outputs; output += together)
    add_outputs<vectors, together>(tables, groups, words + output, sums + output * strip);
  for (; output < outputs; ++output) add_outputs<vectors, 1>(tables, groups, words + output, sums + output * strip);
}

// finish() of kernels.h for four channels.
void store_finished(float32x4_t values, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y) {
  if (epilogue.scale != nullptr) values = vmulq_f32(vld1q_f32(epilogue.scale + channel), values);
  if (epilogue.shift != nullptr) values = vaddq_f32(values, vld1q_f32(epilogue.shift + channel));
  if (epilogue.residual != nullptr) values = vaddq_f32(values, vld1q_f32(epilogue.residual + place));
  if (epilogue.relu) values = vmaxq_f32(values, vdupq_n_f32(0.0F));
  vst1q_f32(y + place, values);
}

// From sums in the order (channel, position) to outputs in the order (position, channel), for `positions` positions of
// a strip; `place` is the first's in y.
void store_strip(const float* sums, int strip, int positions, int channel, int outputs, ptrdiff_t place,
                 const ConvShape& shape, const Epilogue& epilogue, float* y) {
  int output = 0;
  for (; output + lanes <= outputs; output += lanes)
    for (int first = 0; first < positions; first += lanes) {
      Square square;
      for (int i = 0; i < lanes; ++i) square.rows[i] = vld1q_f32(sums + (output + i) * strip + first);
      square = transposed(square);
      for (int i = 0; i < smaller(lanes, positions - first); ++i)
        store_finished(square.rows[i], channel + output,
                       place + static_cast<ptrdiff_t>(first + i) * shape.out_channels + output, epilogue, y);
    }
  for (; output < outputs; ++output)
    for (int position = 0; position < positions; ++position) {
      const ptrdiff_t to = place + static_cast<ptrdiff_t>(position) * shape.out_channels + output;
      y[to] = finish(sums[output * strip + position], channel + output, to, epilogue);
    }
}

template <int vectors>
void convolve(const ConvShape& shape, int task, const float* x, const uint64_t* words, const Epilogue& epilogue,
              float* y) {
  constexpr int strip = vectors * lanes;
  alignas(64) float tables[chunk / group_size * entries * strip];
  alignas(64) float sums[most_outputs * strip];
  alignas(64) float copies[strip][chunk];
  const OutputBlocks blocks = output_blocks(shape, most_outputs);
  const int block = task % (blocks.per_group * shape.groups);
  const int outputs = blocks.count(block);
  const ptrdiff_t position = static_cast<ptrdiff_t>(task / (blocks.per_group * shape.groups)) * strip;
  const int window = static_cast<int>(window_size(shape));
  Window windows[strip];
  for (int i = 0; i < strip; ++i) windows[i] = window_at(shape, position + i, blocks.group(block), x);
  words += static_cast<ptrdiff_t>(blocks.group(block)) * chunks(shape) * blocks.outputs + blocks.first(block);
  std::memset(sums, 0, static_cast<size_t>(outputs) * strip * sizeof(float));

  for (int first = 0; first < window; first += chunk, words += blocks.outputs) {
    const int count = smaller(chunk, window - first);
    const float* inputs[strip];
    for (int i = 0; i < strip; ++i) inputs[i] = inputs_of(shape, windows[i], first, count, copies[i]);
    fill_tables<vectors>(inputs, count, tables);
    add_chunk<vectors>(tables, ceil_div(count, group_size), words, outputs, sums);
  }
  const ptrdiff_t left = position_count(shape) - position;
  store_strip(sums, strip, left < strip ? static_cast<int>(left) : strip, blocks.channel(block), outputs,
              position * shape.out_channels + blocks.channel(block), shape, epilogue, y);
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  const auto* words = static_cast<const uint64_t*>(prepared);
  switch (vectors_for(shape)) {
    case 4: return convolve<4>(shape, task, x, words, epilogue, y);
    case 2: return convolve<2>(shape, task, x, words, epilogue, y);
    default: return convolve<1>(shape, task, x, words, epilogue, y);
  }
}

}  // namespace

extern const ConvKernel neon_kernel;
const ConvKernel neon_kernel = {"neon", available, supports, weight_bytes, prepare, scratch_bytes, stages, tasks, run};

}  // namespace adaste

#endif

// One-bit weights and float32 activations on AVX2, without a multiplication: tables of signed sums.
//
// Four activations a, b, c, d have 16 signed sums +-a +-b +-c +-d. They are made once and used by every output channel:
// four bits of its weights are the place of its sum in the table, so one load and one addition do four
// multiply-additions. A vector holds the sums of 8 output positions, hence a table entry is the same sum for a strip of
// 16, 8 or 4 positions. Per cycle that is 2 loads x 8 positions x 4 weights, four times what fused multiply-adds reach;
// and the weights stay single bits all the way from memory.
//
// A task is one strip and one part of the output channels. It walks over the window in chunks of 64 inputs, whose
// tables (16 KiB) stay in the first-level cache, and keeps the sums of all its channels beside them.
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu_x86.h"
#include "kernel_table.h"
#include "window.h"

namespace adaste {
namespace {

constexpr int chunk = 64;          // inputs whose tables are held at a time: one word of weight bits per channel
constexpr int group_size = 4;      // inputs per table
constexpr int entries = 16;        // signed sums of a group
constexpr int most_channels = 512;  // output channels per task: their sums take 32 KiB

// A strip of positions as vectors.
struct Strip16 {
  static constexpr int lanes = 16;
  __m256 low, high;
  static Strip16 load(const float* p) { return {_mm256_load_ps(p), _mm256_load_ps(p + 8)}; }
  void store(float* p) const {
    _mm256_store_ps(p, low);
    _mm256_store_ps(p + 8, high);
  }
  void pin() { asm volatile("" : "+x"(low), "+x"(high)); }
  static Strip16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  friend Strip16 operator+(Strip16 a, Strip16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  friend Strip16 operator-(Strip16 a, Strip16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
};

struct Strip8 {
  static constexpr int lanes = 8;
  __m256 all;
  static Strip8 load(const float* p) { return {_mm256_load_ps(p)}; }
  void store(float* p) const { _mm256_store_ps(p, all); }
  void pin() { asm volatile("" : "+x"(all)); }
  static Strip8 zero() { return {_mm256_setzero_ps()}; }
  friend Strip8 operator+(Strip8 a, Strip8 b) { return {_mm256_add_ps(a.all, b.all)}; }
  friend Strip8 operator-(Strip8 a, Strip8 b) { return {_mm256_sub_ps(a.all, b.all)}; }
};

struct Strip4 {
  static constexpr int lanes = 4;
  __m128 all;
  static Strip4 load(const float* p) { return {_mm_load_ps(p)}; }
  void store(float* p) const { _mm_store_ps(p, all); }
  void pin() { asm volatile("" : "+x"(all)); }
  static Strip4 zero() { return {_mm_setzero_ps()}; }
  friend Strip4 operator+(Strip4 a, Strip4 b) { return {_mm_add_ps(a.all, b.all)}; }
  friend Strip4 operator-(Strip4 a, Strip4 b) { return {_mm_sub_ps(a.all, b.all)}; }
};

// With few output channels per group the tables cost more than they save.
bool supports(const ConvShape& shape) { return shape.out_channels / shape.groups >= 8; }

int chunks_of(const ConvShape& shape) { return static_cast<int>((window_size(shape) + chunk - 1) / chunk); }

// Words of 64 bits in the order (group, chunk, output channel); inputs in the order (row, column, channel).
size_t weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(chunks_of(shape)) * static_cast<size_t>(shape.out_channels) * sizeof(uint64_t);
}

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const size_t taps = static_cast<size_t>(shape.kernel_h) * static_cast<size_t>(shape.kernel_w);
  const size_t channels = static_cast<size_t>(shape.channels / shape.groups);
  const size_t outputs = static_cast<size_t>(shape.out_channels / shape.groups);
  const size_t window = window_size(shape);
  auto* word = static_cast<uint64_t*>(prepared);
  for (size_t group = 0; group < static_cast<size_t>(shape.groups); ++group)
    for (size_t first = 0; first < window; first += chunk)
      for (size_t output = 0; output < outputs; ++output) {
        const uint8_t* row = rows + (group * outputs + output) * ((window + 7) / 8);
        uint64_t bits = 0;
        for (size_t k = first; k < std::min(window, first + chunk); ++k) {
          const bool positive = weight_bit(row, k % channels * taps + k / channels);
          bits |= static_cast<uint64_t>(positive) << (k - first);
        }
        *word++ = bits;
      }
}

size_t scratch_bytes(const ConvShape& /*shape*/) { return 0; }

int stages(const ConvShape& /*shape*/) { return 1; }

int lanes_for(const ConvShape& shape) { return positions(shape) > 8 ? 16 : positions(shape) > 4 ? 8 : 4; }

ptrdiff_t strips(const ConvShape& shape) { return (positions(shape) + lanes_for(shape) - 1) / lanes_for(shape); }

// Output channels of a task: many share a table, but a few strips alone would leave threads without work.
int part_size(const ConvShape& shape) {
  const int outputs = shape.out_channels / shape.groups;
  return strips(shape) * shape.groups >= 4 ? std::min(outputs, most_channels) : std::min(outputs, most_channels / 2);
}

int parts(const ConvShape& shape) {
  const int outputs = shape.out_channels / shape.groups;
  return (outputs + part_size(shape) - 1) / part_size(shape);
}

int tasks(const ConvShape& shape, int /*stage*/) {
  return static_cast<int>(strips(shape)) * shape.groups * parts(shape);
}

alignas(64) constexpr float zeros[chunk] = {};

// `count` inputs of a window from the `first` on, contiguous: in place when they belong to one pixel, else in `copy`.
const float* inputs_of(const ConvShape& shape, const Window& window, int first, int count, float* copy) {
  const int channels = shape.channels / shape.groups;
  if (count == chunk && first % channels + count <= channels) {
    const float* pixel = pixel_of(shape, window, first / channels);
    return pixel != nullptr ? pixel + first % channels : zeros;
  }
  std::memset(copy, 0, chunk * sizeof(float));
  for (int done = 0; done < count;) {
    const int channel = (first + done) % channels;
    const int run = std::min(channels - channel, count - done);
    const float* pixel = pixel_of(shape, window, (first + done) / channels);
    if (pixel != nullptr)
      for (int i = 0; i < run; ++i) copy[done + i] = pixel[channel + i];
    done += run;
  }
  return copy;
}

// 8 rows of 8 become 8 columns.
void transpose(__m256 (&r)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  __m256 s[8];
  for (int i = 0; i < 8; i += 4) {
    s[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    s[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    s[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    s[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
  }
}

// Inputs [from, from + 8) of every position, one strip per input.
template <class Strip>
void columns(const float* const* inputs, int from, float* columns) {
  for (int lane = 0; lane < Strip::lanes; lane += 8) {
    __m256 rows[8];
    for (int i = 0; i < 8; ++i)
      rows[i] = lane + i < Strip::lanes ? _mm256_loadu_ps(inputs[lane + i] + from) : _mm256_setzero_ps();
    transpose(rows);
    for (int i = 0; i < 8; ++i) {
      if constexpr (Strip::lanes == 4)
        _mm_store_ps(columns + i * 4, _mm256_castps256_ps128(rows[i]));
      else
        _mm256_store_ps(columns + i * Strip::lanes + lane, rows[i]);
    }
  }
}

// The signed sums of four inputs; bit i of an entry's number is set where input i is added.
template <class Strip>
void fill_table(const float* columns, float* table) {
  const Strip a = Strip::load(columns);
  const Strip b = Strip::load(columns + Strip::lanes);
  const Strip c = Strip::load(columns + 2 * Strip::lanes);
  const Strip d = Strip::load(columns + 3 * Strip::lanes);
  const Strip none = Strip::zero();
  const Strip ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;
  const Strip not_ab = none - ab, not_a_b = none - a_b, not_cd = none - cd, not_c_d = none - c_d;
  const auto four = [&](Strip rest, float* place) {
    (not_ab + rest).store(place);
    (a_b + rest).store(place + Strip::lanes);
    (not_a_b + rest).store(place + 2 * Strip::lanes);
    (ab + rest).store(place + 3 * Strip::lanes);
  };
  four(not_cd, table);
  four(c_d, table + 4 * Strip::lanes);
  four(not_c_d, table + 8 * Strip::lanes);
  four(cd, table + 12 * Strip::lanes);
}

// The place in the tables of the sum that four bits of `bits` name.
template <class Strip, int group>
inline const float* entry(const float* tables, uint64_t bits) {
  constexpr int bytes = Strip::lanes * static_cast<int>(sizeof(float));
  constexpr int log_bytes = bytes == 64 ? 6 : bytes == 32 ? 5 : 4;
  constexpr int shift = group * group_size - log_bytes;
  const uint64_t moved = shift >= 0 ? bits >> (shift >= 0 ? shift : 0) : bits << (shift < 0 ? -shift : 0);
  const auto offset = static_cast<ptrdiff_t>(moved & (15U << log_bytes));
  return reinterpret_cast<const float*>(reinterpret_cast<const char*>(tables) + offset) + group * entries * Strip::lanes;
}

// Adds the sums of all groups for four output channels, whose additions do not wait for each other. Four named sums and
// not an array: compilers keep them in registers.
template <class Strip, int... Groups>
inline void add_four(const float* tables, const uint64_t* words, float* sums,
                     std::integer_sequence<int, Groups...> /*groups*/) {
  constexpr int lanes = Strip::lanes;
  const uint64_t w0 = words[0], w1 = words[1], w2 = words[2], w3 = words[3];
  Strip s0 = Strip::load(sums);
  Strip s1 = Strip::load(sums + lanes);
  Strip s2 = Strip::load(sums + 2 * lanes);
  Strip s3 = Strip::load(sums + 3 * lanes);
  const auto add = [](Strip& sum, const float* place) {
    sum = sum + Strip::load(place);
    sum.pin();
  };
  ((add(s0, entry<Strip, Groups>(tables, w0)), add(s1, entry<Strip, Groups>(tables, w1)),
    add(s2, entry<Strip, Groups>(tables, w2)), add(s3, entry<Strip, Groups>(tables, w3))),
   ...);
  s0.store(sums);
  s1.store(sums + lanes);
  s2.store(sums + 2 * lanes);
  s3.store(sums + 3 * lanes);
}

template <class Strip, int... Groups>
inline void add_one(const float* tables, uint64_t word, float* sums,
                    std::integer_sequence<int, Groups...> /*groups*/) {
  Strip sum = Strip::load(sums);
  ((sum = sum + Strip::load(entry<Strip, Groups>(tables, word))), ...);
  sum.store(sums);
}

template <class Strip, int Groups>
void add_channels(const float* tables, const uint64_t* words, int channels, float* sums) {
  const auto groups = std::make_integer_sequence<int, Groups>{};
  int channel = 0;
  for (; channel + 4 <= channels; channel += 4)
    add_four<Strip>(tables, words + channel, sums + channel * Strip::lanes, groups);
  for (; channel < channels; ++channel)
    add_one<Strip>(tables, words[channel], sums + channel * Strip::lanes, groups);
}

// y for eight channels of one position.
inline void finish8(__m256 sum, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y) {
  if (epilogue.scale != nullptr) sum = _mm256_mul_ps(sum, _mm256_loadu_ps(epilogue.scale + channel));
  if (epilogue.shift != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(epilogue.shift + channel));
  if (epilogue.residual != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(epilogue.residual + place));
  if (epilogue.relu) sum = _mm256_max_ps(_mm256_setzero_ps(), sum);
  _mm256_storeu_ps(y + place, sum);
}

// From sums in the order (channel, position) to outputs in the order (position, channel).
template <class Strip>
void write_outputs(const ConvShape& shape, const float* sums, ptrdiff_t first_position, int first_channel, int channels,
                   const Epilogue& epilogue, float* y) {
  const int count = static_cast<int>(std::min<ptrdiff_t>(Strip::lanes, positions(shape) - first_position));
  const auto place_of = [&](int lane, int channel) {
    return (first_position + lane) * shape.out_channels + first_channel + channel;
  };
  int channel = 0;
  for (; channel + 8 <= channels; channel += 8)
    for (int lane = 0; lane < count; lane += 8) {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) {
        const float* from = sums + (channel + i) * Strip::lanes + lane;
        rows[i] = Strip::lanes == 4 ? _mm256_castps128_ps256(_mm_load_ps(from)) : _mm256_loadu_ps(from);
      }
      transpose(rows);
      for (int i = 0; i < std::min(8, count - lane); ++i)
        finish8(rows[i], first_channel + channel, place_of(lane + i, channel), epilogue, y);
    }
  for (; channel < channels; ++channel)
    for (int lane = 0; lane < count; ++lane) {
      const ptrdiff_t place = place_of(lane, channel);
      y[place] = finish(sums[channel * Strip::lanes + lane], first_channel + channel, place, epilogue);
    }
}

template <class Strip>
void convolve(const ConvShape& shape, int task, const float* x, const uint64_t* words, const Epilogue& epilogue,
              float* y) {
  alignas(64) float tables[chunk / group_size * entries * Strip::lanes];
  alignas(64) float sums[most_channels * Strip::lanes];
  alignas(64) float copies[Strip::lanes][chunk];
  alignas(64) float inputs_by_column[8 * Strip::lanes];
  const int outputs = shape.out_channels / shape.groups;
  const int part = task % parts(shape);
  const int group = task / parts(shape) % shape.groups;
  const ptrdiff_t first_position = static_cast<ptrdiff_t>(task / parts(shape) / shape.groups) * Strip::lanes;
  const int first_output = part * part_size(shape);
  const int channels = std::min(part_size(shape), outputs - first_output);
  const int window = static_cast<int>(window_size(shape));

  std::memset(sums, 0, static_cast<size_t>(channels) * Strip::lanes * sizeof(float));
  Window windows[Strip::lanes];
  for (int lane = 0; lane < Strip::lanes; ++lane)
    windows[lane] = window_at(shape, first_position + lane, group * (shape.channels / shape.groups), x);
  words += static_cast<ptrdiff_t>(group) * chunks_of(shape) * outputs + first_output;
  for (int first = 0; first < window; first += chunk, words += outputs) {
    const int count = std::min(chunk, window - first);
    const float* inputs[Strip::lanes];
    for (int lane = 0; lane < Strip::lanes; ++lane)
      inputs[lane] = inputs_of(shape, windows[lane], first, count, copies[lane]);
    const int padded = count > chunk / 2 ? chunk : chunk / 2;
    for (int from = 0; from < padded; from += 8) {
      columns<Strip>(inputs, from, inputs_by_column);
      float* table = tables + from / group_size * entries * Strip::lanes;
      fill_table<Strip>(inputs_by_column, table);
      fill_table<Strip>(inputs_by_column + group_size * Strip::lanes, table + entries * Strip::lanes);
    }
    if (padded == chunk)
      add_channels<Strip, 16>(tables, words, channels, sums);
    else
      add_channels<Strip, 8>(tables, words, channels, sums);
  }
  write_outputs<Strip>(shape, sums, first_position, group * outputs + first_output, channels, epilogue, y);
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  const auto* words = static_cast<const uint64_t*>(prepared);
  switch (lanes_for(shape)) {
    case 16: return convolve<Strip16>(shape, task, x, words, epilogue, y);
    case 8: return convolve<Strip8>(shape, task, x, words, epilogue, y);
    default: return convolve<Strip4>(shape, task, x, words, epilogue, y);
  }
}

}  // namespace

const ConvKernel avx2_kernel = {"avx2", has_avx2, supports, weight_bytes, prepare,
                                scratch_bytes, stages, tasks, run};

}  // namespace adaste

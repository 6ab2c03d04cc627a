// Convolution with one-bit weights without a multiplication, by tables of signed sums; what the AVX2 kernels share.
//
// Four activations a, b, c, d have 16 signed sums +-a +-b +-c +-d. They are made once and used by every output channel:
// four bits of its weights are the place of its sum in the table, so one load and one addition do four
// multiply-additions. A table entry is the same sum for a strip of output positions, side by side in vectors. With
// float32 activations that is 2 loads x 8 positions x 4 weights per cycle, four times what fused multiply-adds reach;
// and the weights stay single bits all the way from memory.
//
// A task is one strip and one part of the output channels. It walks over the window in chunks of 64 inputs, whose
// tables (16 KiB) stay in the first-level cache, and keeps the sums of all its channels beside them.
//
// A type Strip has an Element (float or int16_t), `lanes` positions, load, store, zero, + and -; and pin(), which keeps
// a compiler from computing the addresses of all entries first and running out of registers.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "kernels.h"
#include "window.h"

namespace adaste {
namespace {

constexpr int chunk = 64;      // inputs whose tables are held at a time: one word of weight bits per channel
constexpr int group_size = 4;  // inputs per table
constexpr int entries = 16;    // signed sums of a group

template <class Strip>
using Element = typename Strip::Element;

template <class Strip>
constexpr int table_elements = chunk / group_size * entries * Strip::lanes;

int chunks_of(const ConvShape& shape) { return static_cast<int>((window_size(shape) + chunk - 1) / chunk); }

// Words of 64 bits in the order (group, chunk, output channel); inputs in the order (row, column, channel).
size_t word_bytes(const ConvShape& shape) {
  return static_cast<size_t>(chunks_of(shape)) * static_cast<size_t>(shape.out_channels) * sizeof(uint64_t);
}

void prepare_words(const ConvShape& shape, const uint8_t* rows, uint64_t* word) {
  const size_t taps = static_cast<size_t>(shape.kernel_h) * static_cast<size_t>(shape.kernel_w);
  const auto channels = static_cast<size_t>(shape.channels / shape.groups);
  const auto outputs = static_cast<size_t>(shape.out_channels / shape.groups);
  const size_t window = window_size(shape);
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

// With few output channels per group the tables cost more than they save.
bool supports(const ConvShape& shape) { return shape.out_channels / shape.groups >= 8; }

// How the work is cut: strips of `lanes` positions times parts of the output channels of a group, at most `most`.
struct Tasks {
  int lanes, outputs, part_size, parts;
  ptrdiff_t strips;
  int count;
};

[[maybe_unused]] Tasks cut(const ConvShape& shape, int lanes, int most) {
  const int outputs = shape.out_channels / shape.groups;
  const ptrdiff_t strips = (positions(shape) + lanes - 1) / lanes;
  // Many channels share a table, but a few strips alone would leave threads without work.
  const int part_size = std::min(outputs, strips * shape.groups >= 4 ? most : most / 2);
  const int parts = (outputs + part_size - 1) / part_size;
  return {lanes, outputs, part_size, parts, strips, static_cast<int>(strips) * shape.groups * parts};
}

// One task: where it starts and how many channels it has.
struct Piece {
  ptrdiff_t position;
  int group, first_output, channels;
};

[[maybe_unused]] Piece piece_of(const ConvShape& shape, const Tasks& tasks, int task) {
  const int first_output = task % tasks.parts * tasks.part_size;
  const int group = task / tasks.parts % shape.groups;
  return {static_cast<ptrdiff_t>(task / tasks.parts / shape.groups) * tasks.lanes, group, first_output,
          std::min(tasks.part_size, tasks.outputs - first_output)};
}

// 8 rows of 8 become 8 columns. Inlined, so that they stay in registers.
[[gnu::always_inline]] inline void transpose(__m256 (&r)[8]) {
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

// The signed sums of four inputs; bit i of an entry's number is set where input i is added.
template <class Strip>
[[gnu::always_inline]] inline void fill_table(Strip a, Strip b, Strip c, Strip d, Element<Strip>* table) {
  const Strip ab = a + b, a_b = a - b, not_ab = Strip::zero() - ab, not_a_b = Strip::zero() - a_b;
  const auto four_less = [&](Strip rest, Element<Strip>* place) {
    (not_ab - rest).store(place);
    (a_b - rest).store(place + Strip::lanes);
    (not_a_b - rest).store(place + 2 * Strip::lanes);
    (ab - rest).store(place + 3 * Strip::lanes);
  };
  const auto four_with = [&](Strip rest, Element<Strip>* place) {
    (rest - ab).store(place);
    (rest + a_b).store(place + Strip::lanes);
    (rest - a_b).store(place + 2 * Strip::lanes);
    (rest + ab).store(place + 3 * Strip::lanes);
  };
  const Strip cd = c + d, c_d = c - d;
  four_less(cd, table);
  four_with(c_d, table + 4 * Strip::lanes);
  four_less(c_d, table + 8 * Strip::lanes);
  four_with(cd, table + 12 * Strip::lanes);
}

// The place in the tables of the sum that four bits of `bits` name.
template <class Strip, int group>
inline const Element<Strip>* entry(const Element<Strip>* tables, uint64_t bits) {
  constexpr int bytes = Strip::lanes * static_cast<int>(sizeof(Element<Strip>));
  constexpr int log_bytes = bytes == 64 ? 6 : bytes == 32 ? 5 : 4;
  constexpr int turn = (group * group_size - log_bytes + 64) % 64;
  const uint64_t turned = bits >> turn | bits << (64 - turn) % 64;  // one instruction, unlike a shift of a copy
  const auto offset = static_cast<ptrdiff_t>(turned & (15U << log_bytes));
  const auto* place = reinterpret_cast<const char*>(tables) + offset;
  return reinterpret_cast<const Element<Strip>*>(place) + group * entries * Strip::lanes;
}

// Adds the sums of all groups for four output channels, whose additions do not wait for each other. Four named sums and
// not an array: compilers keep them in registers.
template <class Strip, int... Groups>
inline void add_four(const Element<Strip>* tables, const uint64_t* words, Element<Strip>* sums,
                     std::integer_sequence<int, Groups...> /*groups*/) {
  constexpr int lanes = Strip::lanes;
  const uint64_t w0 = words[0], w1 = words[1], w2 = words[2], w3 = words[3];
  Strip s0 = Strip::load(sums);
  Strip s1 = Strip::load(sums + lanes);
  Strip s2 = Strip::load(sums + 2 * lanes);
  Strip s3 = Strip::load(sums + 3 * lanes);
  const auto add = [](Strip& sum, const Element<Strip>* place) {
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
inline void add_one(const Element<Strip>* tables, uint64_t word, Element<Strip>* sums,
                    std::integer_sequence<int, Groups...> /*groups*/) {
  Strip sum = Strip::load(sums);
  ((sum = sum + Strip::load(entry<Strip, Groups>(tables, word))), ...);
  sum.store(sums);
}

template <class Strip, int Groups>
void add_channels(const Element<Strip>* tables, const uint64_t* words, int channels, Element<Strip>* sums) {
  const auto groups = std::make_integer_sequence<int, Groups>{};
  int channel = 0;
  for (; channel + 4 <= channels; channel += 4)
    add_four<Strip>(tables, words + channel, sums + channel * Strip::lanes, groups);
  for (; channel < channels; ++channel) add_one<Strip>(tables, words[channel], sums + channel * Strip::lanes, groups);
}

// y for eight channels of one position.
inline void finish8(__m256 sum, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y) {
  if (epilogue.scale != nullptr) sum = _mm256_mul_ps(sum, _mm256_loadu_ps(epilogue.scale + channel));
  if (epilogue.shift != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(epilogue.shift + channel));
  if (epilogue.residual != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(epilogue.residual + place));
  if (epilogue.relu) sum = _mm256_max_ps(_mm256_setzero_ps(), sum);
  _mm256_storeu_ps(y + place, sum);
}

}  // namespace
}  // namespace adaste

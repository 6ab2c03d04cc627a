// Convolution with one-bit weights without a multiplication, by tables of signed sums; what the AVX2 kernels share.
//
// Five activations a, b, c, d, e have 32 signed sums +-a +-b +-c +-d +-e. They are made once and used by every output
// channel: five bits of its weights are the place of its sum in the table, so one load and one addition do five
// multiply-additions. A table entry is the same sum for a strip of output positions, side by side in vectors. With
// float32 activations that is 2 loads x 8 positions x 5 weights per cycle, five times what fused multiply-adds reach;
// and the weights stay single bits all the way from memory. Tables of four inputs are made faster and used slower, the
// better choice for fewer than about 100 channels per table only; tables of six do not fit into the cache.
//
// A task is one strip and one part of the output channels. It walks over the window in chunks of 64 inputs, whose
// tables (25 KiB: 12 of five inputs, one of four) stay in the first-level cache, and keeps the sums of all its channels
// beside them.
//
// A type Strip has an Element (float or int16_t), `lanes` positions, load, store, zero, + and -; and pin(), which keeps
// a compiler from computing the addresses of all entries first and running out of registers.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "kernels/weight_words.h"
#include "kernels/window.h"

namespace adaste {
namespace {

constexpr int group_size = 5;   // inputs per table, but for the last of a chunk
constexpr int entries = 32;     // signed sums of a group
constexpr int all_groups = 13;  // of a chunk

template <class Strip>
using Element = typename Strip::Element;

template <class Strip>
constexpr int table_elements = (chunk / group_size * entries + entries / 2) * Strip::lanes;

// How many groups a chunk of so many inputs is given; inputs behind the last are zeros.
constexpr int groups_of(int inputs) { return inputs > 35 ? all_groups : inputs > 25 ? 7 : inputs > 15 ? 5 : 3; }

// Many channels share a table, but `pieces` of `lanes` positions alone may leave threads without work: how many output
// channels a task is given then, enough to be worth a task.
int channels_per_task(const ConvShape& shape, int outputs, ptrdiff_t pieces, int lanes) {
  constexpr ptrdiff_t worthwhile_work = ptrdiff_t{1} << 19;  // multiply-adds
  const auto parts = static_cast<int>((shape.threads + pieces - 1) / pieces);
  const ptrdiff_t worth = worthwhile_work / (static_cast<ptrdiff_t>(window_size(shape)) * lanes);
  const int least = worth < outputs ? std::max(64, static_cast<int>(worth)) : outputs;
  return std::min(outputs, std::max(least, (outputs + parts - 1) / parts));
}

// How the work is cut: strips of `lanes` positions times parts of the output channels of a group, at most `most`.
struct Tasks {
  int lanes, outputs, part_size, parts;
  ptrdiff_t strips;
  int count;
};

[[maybe_unused]] Tasks cut(const ConvShape& shape, int lanes, int most) {
  const int outputs = shape.out_channels / shape.groups;
  const ptrdiff_t strips = (positions(shape) + lanes - 1) / lanes;
  const int part_size = std::min(most, channels_per_task(shape, outputs, strips * shape.groups, lanes));
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

// Calls function(i, sum) for the sums of four inputs that have the last of them added: 8 <= i < 16; bit j of i is set
// where input j is added.
template <class Strip, class Function>
[[gnu::always_inline]] inline void eight_sums(const Element<Strip>* columns, const Function& function) {
  const auto column = [&](int i) { return Strip::load(columns + i * Strip::lanes); };
  const Strip more = column(0) + column(1), less = column(0) - column(1);
  const Strip without = column(3) - column(2), with = column(3) + column(2);
  function(8, without - more);
  function(9, without + less);
  function(10, without - less);
  function(11, without + more);
  function(12, with - more);
  function(13, with + less);
  function(14, with - less);
  function(15, with + more);
}

// The signed sums of five inputs. Half of all sums are the others with the opposite sign.
template <class Strip>
[[gnu::always_inline]] inline void fill_five(const Element<Strip>* columns, Element<Strip>* table) {
  const Strip fifth = Strip::load(columns + 4 * Strip::lanes), not_fifth = Strip::zero() - fifth;
  eight_sums<Strip>(columns, [&](int i, Strip sum) {
    (sum - fifth).store(table + i * Strip::lanes);
    (not_fifth - sum).store(table + (15 - i) * Strip::lanes);
    (sum + fifth).store(table + (16 + i) * Strip::lanes);
    (fifth - sum).store(table + (31 - i) * Strip::lanes);
  });
}

template <class Strip>
[[gnu::always_inline]] inline void fill_four(const Element<Strip>* columns, Element<Strip>* table) {
  eight_sums<Strip>(columns, [&](int i, Strip sum) {
    sum.store(table + i * Strip::lanes);
    (Strip::zero() - sum).store(table + (15 - i) * Strip::lanes);
  });
}

// The tables of a chunk's inputs, one strip per input: `groups` of them.
template <class Strip>
void fill_groups(const Element<Strip>* columns, int groups, Element<Strip>* tables) {
  constexpr int fives = all_groups - 1;
  for (int group = 0; group < std::min(groups, fives); ++group)
    fill_five<Strip>(columns + group * group_size * Strip::lanes, tables + group * entries * Strip::lanes);
  if (groups > fives)
    fill_four<Strip>(columns + fives * group_size * Strip::lanes, tables + fives * entries * Strip::lanes);
}

// The place in the tables of the sum that a group's bits of `bits` name.
template <class Strip, int group>
inline const Element<Strip>* entry(const Element<Strip>* tables, uint64_t bits) {
  constexpr int bytes = Strip::lanes * static_cast<int>(sizeof(Element<Strip>));
  constexpr int log_bytes = bytes == 64 ? 6 : bytes == 32 ? 5 : 4;
  constexpr int turn = (group * group_size - log_bytes + 64) % 64;
  const uint64_t turned = bits >> turn | bits << (64 - turn) % 64;  // one instruction, unlike a shift of a copy
  constexpr unsigned mask = group < all_groups - 1 ? 31 : 15;
  const auto offset = static_cast<ptrdiff_t>(turned & (mask << log_bytes));
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
void add_groups(const Element<Strip>* tables, const uint64_t* words, int channels, Element<Strip>* sums) {
  const auto groups = std::make_integer_sequence<int, Groups>{};
  int channel = 0;
  for (; channel + 4 <= channels; channel += 4)
    add_four<Strip>(tables, words + channel, sums + channel * Strip::lanes, groups);
  for (; channel < channels; ++channel) add_one<Strip>(tables, words[channel], sums + channel * Strip::lanes, groups);
}

template <class Strip>
void add_channels(const Element<Strip>* tables, int groups, const uint64_t* words, int channels, Element<Strip>* sums) {
  switch (groups) {
    case 3: return add_groups<Strip, 3>(tables, words, channels, sums);
    case 5: return add_groups<Strip, 5>(tables, words, channels, sums);
    case 7: return add_groups<Strip, 7>(tables, words, channels, sums);
    default: return add_groups<Strip, all_groups>(tables, words, channels, sums);
  }
}

// y for eight channels of one position, with finish()'s operations, which make -0 to 0 where there is no shift.
inline void finish8(__m256 sum, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y) {
  if (epilogue.scale != nullptr) sum = _mm256_mul_ps(sum, _mm256_loadu_ps(epilogue.scale + channel));
  const bool shifted = epilogue.shift != nullptr;
  sum = _mm256_add_ps(sum, shifted ? _mm256_loadu_ps(epilogue.shift + channel) : _mm256_setzero_ps());
  if (epilogue.residual != nullptr) sum = _mm256_add_ps(sum, _mm256_loadu_ps(epilogue.residual + place));
  if (epilogue.relu) sum = _mm256_max_ps(_mm256_setzero_ps(), sum);
  _mm256_storeu_ps(y + place, sum);
}

}  // namespace
}  // namespace adaste

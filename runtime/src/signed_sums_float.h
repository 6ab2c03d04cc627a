// Tables of signed sums (signed_sums.h) of float32 activations.
#pragma once

#include "signed_sums.h"

namespace adaste {
namespace {

// A strip of positions as vectors.
struct Strip16 {
  using Element = float;
  static constexpr int lanes = 16;
  __m256 low, high;
  static Strip16 load(const float* p) { return {_mm256_load_ps(p), _mm256_load_ps(p + 8)}; }
  void store(float* p) const {
    _mm256_store_ps(p, low);
    _mm256_store_ps(p + 8, high);
  }
  void pin() { asm volatile("" : "+x"(low), "+x"(high)); }
  static Strip16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  friend Strip16 operator+(Strip16 a, Strip16 b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  friend Strip16 operator-(Strip16 a, Strip16 b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
};

struct Strip8 {
  using Element = float;
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
  using Element = float;
  static constexpr int lanes = 4;
  __m128 all;
  static Strip4 load(const float* p) { return {_mm_load_ps(p)}; }
  void store(float* p) const { _mm_store_ps(p, all); }
  void pin() { asm volatile("" : "+x"(all)); }
  static Strip4 zero() { return {_mm_setzero_ps()}; }
  friend Strip4 operator+(Strip4 a, Strip4 b) { return {_mm_add_ps(a.all, b.all)}; }
  friend Strip4 operator-(Strip4 a, Strip4 b) { return {_mm_sub_ps(a.all, b.all)}; }
};

alignas(64) constexpr float zeros[chunk] = {};

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

// The tables of the first `count` inputs, a multiple of 8, of every position.
template <class Strip>
void fill_tables(const float* const* inputs, int count, float* tables) {
  alignas(64) float inputs_by_column[8 * Strip::lanes];
  for (int from = 0; from < count; from += 8) {
    columns<Strip>(inputs, from, inputs_by_column);
    float* table = tables + from / group_size * entries * Strip::lanes;
    fill_table<Strip>(inputs_by_column, table);
    fill_table<Strip>(inputs_by_column + group_size * Strip::lanes, table + entries * Strip::lanes);
  }
}

// The positions of a strip: `count` of them, `step` apart.
struct Places {
  ptrdiff_t first, step;
  int count;
};

// Output channels, numbered over all groups.
struct Channels {
  int first, count;
};

// From sums in the order (channel, position) to outputs in the order (position, channel).
template <class Strip>
void write_outputs(const ConvShape& shape, const float* sums, const Places& places, const Channels& channels,
                   const Epilogue& epilogue, float* y) {
  const auto place_of = [&](int lane, int channel) {
    return (places.first + lane * places.step) * shape.out_channels + channels.first + channel;
  };
  int channel = 0;
  for (; channel + 8 <= channels.count; channel += 8)
    for (int lane = 0; lane < places.count; lane += 8) {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) {
        const float* from = sums + (channel + i) * Strip::lanes + lane;
        rows[i] = Strip::lanes == 4 ? _mm256_castps128_ps256(_mm_load_ps(from)) : _mm256_loadu_ps(from);
      }
      transpose(rows);
      for (int i = 0; i < std::min(8, places.count - lane); ++i)
        finish8(rows[i], channels.first + channel, place_of(lane + i, channel), epilogue, y);
    }
  for (; channel < channels.count; ++channel)
    for (int lane = 0; lane < places.count; ++lane) {
      const ptrdiff_t place = place_of(lane, channel);
      y[place] = finish(sums[channel * Strip::lanes + lane], channels.first + channel, place, epilogue);
    }
}

}  // namespace
}  // namespace adaste

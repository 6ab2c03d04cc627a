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

// Four inputs of eight positions, each `step` floats behind the one before, become four vectors.
[[gnu::always_inline]] inline void columns_of(const float* inputs, int step, __m256 (&columns)[4]) {
  __m256 rows[4];  // of positions i and i + 4
  for (int i = 0; i < 4; ++i)
    rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(inputs + i * step)),
                                   _mm_load_ps(inputs + (i + 4) * step), 1);
  const __m256 low0 = _mm256_unpacklo_ps(rows[0], rows[1]), high0 = _mm256_unpackhi_ps(rows[0], rows[1]);
  const __m256 low1 = _mm256_unpacklo_ps(rows[2], rows[3]), high1 = _mm256_unpackhi_ps(rows[2], rows[3]);
  columns[0] = _mm256_shuffle_ps(low0, low1, 0x44);
  columns[1] = _mm256_shuffle_ps(low0, low1, 0xEE);
  columns[2] = _mm256_shuffle_ps(high0, high1, 0x44);
  columns[3] = _mm256_shuffle_ps(high0, high1, 0xEE);
}

// The tables of the first `count` inputs, a multiple of 16, of every position. Inputs are first copied, a cache line of
// each position at a time: their distances like to be powers of two, and then all of them lie in a few sets of the cache.
template <class Strip>
void fill_tables(const float* const* inputs, int count, float* tables) {
  constexpr int line = 16;
  constexpr int rows = std::max(8, Strip::lanes);
  alignas(64) float lines[rows * line] = {};
  for (int from = 0; from < count; from += line) {
    for (int lane = 0; lane < Strip::lanes; ++lane) {
      _mm256_store_ps(lines + lane * line, _mm256_loadu_ps(inputs[lane] + from));
      _mm256_store_ps(lines + lane * line + 8, _mm256_loadu_ps(inputs[lane] + from + 8));
    }
    for (int group = 0; group < line; group += group_size, tables += entries * Strip::lanes) {
      __m256 low[4], high[4];
      columns_of(lines + group, line, low);
      if constexpr (Strip::lanes == 16) {
        columns_of(lines + 8 * line + group, line, high);
        fill_table(Strip16{low[0], high[0]}, Strip16{low[1], high[1]}, Strip16{low[2], high[2]}, Strip16{low[3], high[3]}, tables);
      } else if constexpr (Strip::lanes == 8) {
        fill_table(Strip8{low[0]}, Strip8{low[1]}, Strip8{low[2]}, Strip8{low[3]}, tables);
      } else {
        const auto half = [&](int i) { return Strip4{_mm256_castps256_ps128(low[i])}; };
        fill_table(half(0), half(1), half(2), half(3), tables);
      }
    }
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
  const int whole = channels.count / 8 * 8;
  for (int lane = 0; lane < places.count; lane += 8)  // outermost: the lines of y are written whole
    for (int channel = 0; channel < whole; channel += 8) {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) {
        const float* from = sums + (channel + i) * Strip::lanes + lane;
        rows[i] = Strip::lanes == 4 ? _mm256_castps128_ps256(_mm_load_ps(from)) : _mm256_loadu_ps(from);
      }
      transpose(rows);
      for (int i = 0; i < std::min(8, places.count - lane); ++i)
        finish8(rows[i], channels.first + channel, place_of(lane + i, channel), epilogue, y);
    }
  for (int channel = whole; channel < channels.count; ++channel)
    for (int lane = 0; lane < places.count; ++lane) {
      const ptrdiff_t place = place_of(lane, channel);
      y[place] = finish(sums[channel * Strip::lanes + lane], channels.first + channel, place, epilogue);
    }
}

}  // namespace
}  // namespace adaste

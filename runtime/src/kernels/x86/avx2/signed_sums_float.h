// Tables of signed sums (signed_sums.h) of float32 activations.
#pragma once

#include "kernels/x86/avx2/signed_sums.h"

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

// Copies a few floats, or zeros, in vectors and without a call; zeros fill the last vector.
inline void copy_floats(const float* from, int count, float* to) {
  alignas(32) static constexpr int32_t masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  if (from == nullptr) from = zeros;
  for (; count > 8; count -= 8, from += 8, to += 8) _mm256_storeu_ps(to, _mm256_loadu_ps(from));
  const __m256i mask = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(masks + 8 - count));
  _mm256_storeu_ps(to, _mm256_maskload_ps(from, mask));
}

// Four inputs of eight positions become four columns, `step` floats apart.
[[gnu::always_inline]] inline void transpose_four(const float* const* inputs, int from, float* columns, int step) {
  __m256 rows[4];  // of positions i and i + 4
  for (int i = 0; i < 4; ++i)
    rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(inputs[i] + from)),
                                   _mm_loadu_ps(inputs[i + 4] + from), 1);
  const __m256 low0 = _mm256_unpacklo_ps(rows[0], rows[1]), high0 = _mm256_unpackhi_ps(rows[0], rows[1]);
  const __m256 low1 = _mm256_unpacklo_ps(rows[2], rows[3]), high1 = _mm256_unpackhi_ps(rows[2], rows[3]);
  _mm256_store_ps(columns, _mm256_shuffle_ps(low0, low1, 0x44));
  _mm256_store_ps(columns + step, _mm256_shuffle_ps(low0, low1, 0xEE));
  _mm256_store_ps(columns + 2 * step, _mm256_shuffle_ps(high0, high1, 0x44));
  _mm256_store_ps(columns + 3 * step, _mm256_shuffle_ps(high0, high1, 0xEE));
}

[[gnu::always_inline]] inline void transpose_four(const float* const* inputs, int from, float* columns) {
  __m128 rows[4];
  for (int i = 0; i < 4; ++i) rows[i] = _mm_loadu_ps(inputs[i] + from);
  _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
  for (int i = 0; i < 4; ++i) _mm_store_ps(columns + 4 * i, rows[i]);
}

// The tables of a chunk of every position: `groups` of them. A cache line of each position is read at a time: distances
// of positions like to be powers of two, and then all their lines share a few sets of the cache.
template <class Strip>
void fill_tables(const float* const* inputs, int groups, float* tables) {
  constexpr int line = 16;
  alignas(64) float columns[chunk * Strip::lanes];
  for (int from = 0; from < std::min(chunk, groups * group_size); from += line)
    for (int lane = 0; lane < Strip::lanes; lane += 8)
      for (int i = from; i < from + line; i += 4) {
        if constexpr (Strip::lanes == 4)
          transpose_four(inputs, i, columns + i * 4);
        else
          transpose_four(inputs + lane, i, columns + i * Strip::lanes + lane, Strip::lanes);
      }
  fill_groups<Strip>(columns, groups, tables);
}

// Output channels, numbered over all groups.
struct Channels {
  int first, count;
};

// From sums in the order (channel, position) to outputs in the order (position, channel). `places` are the positions
// of the strip in y, counted in pixels; negative where there is none.
template <class Strip>
void write_outputs(const ConvShape& shape, const float* sums, const ptrdiff_t (&places)[Strip::lanes],
                   const Channels& channels, const Epilogue& epilogue, float* y) {
  const int whole = channels.count / 8 * 8;
  for (int lane = 0; lane < Strip::lanes; lane += 8)  // outermost: the lines of y are written whole
    for (int channel = 0; channel < whole; channel += 8) {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) {
        const float* from = sums + (channel + i) * Strip::lanes + lane;
        rows[i] = Strip::lanes == 4 ? _mm256_castps128_ps256(_mm_load_ps(from)) : _mm256_loadu_ps(from);
      }
      transpose(rows);
      for (int i = 0; i < std::min(8, Strip::lanes); ++i)
        if (places[lane + i] >= 0)
          finish8(rows[i], channels.first + channel, places[lane + i] * shape.out_channels + channels.first + channel,
                  epilogue, y);
    }
  for (int lane = 0; lane < Strip::lanes; ++lane)
    for (int channel = whole; channel < channels.count && places[lane] >= 0; ++channel) {
      const ptrdiff_t place = places[lane] * shape.out_channels + channels.first + channel;
      y[place] = finish(sums[channel * Strip::lanes + lane], channels.first + channel, place, epilogue);
    }
}

}  // namespace
}  // namespace adaste

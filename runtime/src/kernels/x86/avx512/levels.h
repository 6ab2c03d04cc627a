// int8/levels.h with AVX-512: what the 8-bit kernels for it do to activations.
#pragma once

#include <cstring>

#include "kernels/int8/dot.h"
#include "kernels/x86/avx512/vectors.h"

namespace adaste {
namespace {

struct Avx512Levels {
  static constexpr int offset = 0;
  static Range range(const float* values, ptrdiff_t count);
  static void quantise(const float* values, int count, const Levels& levels, uint8_t* to);
};

// In this order of operands NaN is ignored.
inline void widen(__m512 values, __m512& low, __m512& high) {
  low = _mm512_min_ps(values, low);
  high = _mm512_max_ps(values, high);
}

inline Range Avx512Levels::range(const float* values, ptrdiff_t count) {
  constexpr int chains = 4;  // a minimum takes as long as four loads
  __m512 low[chains];
  __m512 high[chains];
  for (int i = 0; i < chains; ++i) low[i] = high[i] = _mm512_setzero_ps();
  for (; count >= chains * lanes; count -= chains * lanes, values += chains * lanes)
    for (int i = 0; i < chains; ++i) widen(_mm512_loadu_ps(values + i * lanes), low[i], high[i]);
  for (; count > 0; count -= lanes, values += lanes)
    widen(_mm512_maskz_loadu_ps(first_lanes(count < lanes ? static_cast<int>(count) : lanes), values), low[0], high[0]);
  for (int i = 1; i < chains; ++i) {
    low[0] = _mm512_min_ps(low[0], low[i]);
    high[0] = _mm512_max_ps(high[0], high[i]);
  }
  alignas(64) float lows[lanes];
  alignas(64) float highs[lanes];
  _mm512_store_ps(lows, low[0]);
  _mm512_store_ps(highs, high[0]);
  Range range{0.0F, 0.0F};
  for (int i = 0; i < lanes; ++i) {
    range.low = lows[i] < range.low ? lows[i] : range.low;
    range.high = highs[i] > range.high ? highs[i] : range.high;
  }
  return range;
}

// quantised() of int8/levels.h before the lower clamp, with the same operations in the same order. minps gives its
// second operand for NaN, which becomes the least integer, as does everything too small for one: packing makes these 0.
inline __m512i unclamped_levels(__m512 values, __m512 inverse, __m512 zero) {
  const __m512 level = _mm512_add_ps(_mm512_mul_ps(values, inverse), zero);
  return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(255.0F), level));
}

inline void Avx512Levels::quantise(const float* values, int count, const Levels& levels, uint8_t* to) {
  const __m512 inverse = _mm512_set1_ps(levels.inverse);
  const __m512 zero = _mm512_set1_ps(levels.zero);
  // Packing works within quarters, which leaves quarter q of vector v at place 4 * q + v.
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (; count >= 4 * lanes; count -= 4 * lanes, values += 4 * lanes, to += 4 * lanes) {
    __m512i four[4];
    for (int i = 0; i < 4; ++i) four[i] = unclamped_levels(_mm512_loadu_ps(values + i * lanes), inverse, zero);
    const __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(four[0], four[1]),
                                              _mm512_packs_epi32(four[2], four[3]));
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(in_order, bytes));
  }
  for (; count > 0; count -= lanes, values += lanes, to += lanes) {
    const __m512i level = unclamped_levels(_mm512_maskz_loadu_ps(first_lanes(count), values), inverse, zero);
    const __m128i bytes = _mm512_cvtusepi32_epi8(_mm512_max_epi32(level, _mm512_setzero_si512()));
    if (count >= lanes) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
      continue;
    }
    alignas(16) uint8_t last[lanes];
    _mm_store_si128(reinterpret_cast<__m128i*>(last), bytes);
    std::memcpy(to, last, static_cast<size_t>(count));
  }
}

}  // namespace
}  // namespace adaste

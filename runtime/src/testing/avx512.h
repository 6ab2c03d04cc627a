// AVX-512 in plain C, by SIMDe (Debian's libsimde-dev), with the few instructions that it lacks as loops over lanes.
// Masked loads and stores touch only the lanes of the mask, so that AddressSanitizer sees what they would touch.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <cmath>
#include <cstdint>
#include <cstring>

inline __m512 adaste_maskz_loadu_ps(unsigned mask, const float* from) {
  alignas(64) float values[16] = {};
  for (int i = 0; i < 16; ++i)
    if ((mask >> i & 1U) != 0) std::memcpy(values + i, from + i, sizeof(float));
  return _mm512_load_ps(values);
}

inline void adaste_mask_storeu_ps(float* to, unsigned mask, __m512 vector) {
  alignas(64) float values[16];
  _mm512_store_ps(values, vector);
  for (int i = 0; i < 16; ++i)
    if ((mask >> i & 1U) != 0) std::memcpy(to + i, values + i, sizeof(float));
}

inline __m512 adaste_cvtepi32_ps(__m512i vector) {
  alignas(64) int32_t values[16];
  alignas(64) float converted[16];
  _mm512_store_si512(values, vector);
  for (int i = 0; i < 16; ++i) converted[i] = static_cast<float>(values[i]);
  return _mm512_load_ps(converted);
}

inline __m512i adaste_cvtps_epi32(__m512 vector) {
  alignas(64) float values[16];
  alignas(64) int32_t converted[16];
  _mm512_store_ps(values, vector);
  for (int i = 0; i < 16; ++i) {  // what does not fit, or is no number, becomes the least integer
    const bool fits = values[i] >= -2147483648.0F && values[i] < 2147483648.0F;
    converted[i] = fits ? static_cast<int32_t>(std::nearbyint(values[i])) : INT32_MIN;
  }
  return _mm512_load_si512(converted);
}

inline __m128i adaste_cvtusepi32_epi8(__m512i vector) {
  alignas(64) uint32_t values[16];
  alignas(16) uint8_t converted[16];
  _mm512_store_si512(values, vector);
  for (int i = 0; i < 16; ++i) converted[i] = static_cast<uint8_t>(values[i] < 255 ? values[i] : 255);
  return _mm_load_si128(reinterpret_cast<const __m128i*>(converted));
}

#define _mm512_shuffle_f32x4(a, b, quarters) \
  _mm512_castsi512_ps(_mm512_shuffle_i32x4(_mm512_castps_si512(a), _mm512_castps_si512(b), quarters))
#define __mmask16 simde__mmask16
#define _mm512_maskz_loadu_ps adaste_maskz_loadu_ps
#define _mm512_mask_storeu_ps adaste_mask_storeu_ps
#define _mm512_cvtepi32_ps adaste_cvtepi32_ps
#define _mm512_cvtps_epi32 adaste_cvtps_epi32
#define _mm512_cvtusepi32_epi8 adaste_cvtusepi32_epi8

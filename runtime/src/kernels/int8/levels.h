// How 8-bit kernels represent activations: x is close to scale * (q - zero) with q in 0..255.
//
// Zero is represented exactly, so padding is q = zero, and with one-bit weights w
//     sum(w * x) = scale * (sum(w * q) - zero * sum(w))
// where sum(w) over the whole window is a constant of the output channel. The sums are integers, so every 8-bit kernel
// gives the same bits as the scalar one: all use these functions (or their vector form, with the same operations in the
// same order; files are compiled without contraction to fused multiply-adds).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace adaste {

struct Levels {
  float scale;    // the step between two levels
  float inverse;  // 1 / scale
  float zero;     // the level of 0: a whole number in 0..255
};

// Written so that NaN becomes 0: values that are not numbers must not reach a conversion to integers.
static inline float clamp_level(float level) { return level > 0.0F ? (level < 255.0F ? level : 255.0F) : 0.0F; }

// The levels for values between low and high.
static inline Levels levels_for(float low, float high) {
  low = low < 0.0F ? low : 0.0F;
  high = high > 0.0F ? high : 0.0F;
  const float scale = (high - low) / 255.0F;
  if (!(scale > 1e-30F && scale < 1e30F)) return {1.0F, 1.0F, 0.0F};  // nothing but zeros, or nothing sensible
  return {scale, 1.0F / scale, std::nearbyint(clamp_level(-low / scale))};
}

static inline uint8_t quantised(float value, const Levels& levels) {
  return static_cast<uint8_t>(std::nearbyint(clamp_level(value * levels.inverse + levels.zero)));
}

static inline void quantise_plainly(const float* values, size_t count, const Levels& levels, uint8_t* to) {
  for (size_t i = 0; i < count; ++i) to[i] = quantised(values[i], levels);
}

// The levels for the values of one image (NaN is ignored).
static inline Levels measured_levels(const float* values, size_t count) {
  float low = 0.0F;
  float high = 0.0F;
  for (size_t i = 0; i < count; ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  return levels_for(low, high);
}

}  // namespace adaste

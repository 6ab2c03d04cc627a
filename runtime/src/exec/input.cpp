#include "exec/input.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace adaste {

void read_bytes(int64_t pixels, int channels, const uint8_t* from, const std::vector<float>& mean,
                const std::vector<float>& std, float* to) {
  const auto numbers = static_cast<size_t>(channels);
  for (int64_t pixel = 0; pixel < pixels; ++pixel, from += numbers, to += numbers)
    for (size_t channel = 0; channel < numbers; ++channel) {
      const float share = static_cast<float>(from[channel]) / 255.0F;
      to[channel] = mean.empty() ? share : (share - mean[channel]) / std[channel];
    }
}

namespace {

// Whole numbers, since sums of floats must be added one by one in their order.
bool all_finite(const float* values, int64_t count) {
  constexpr uint32_t exponent = 0x7f800000;
  uint32_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof bits);
    found |= (bits & exponent) == exponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace

bool read_floats(int64_t pixels, int channels, const float* from, int64_t plane, float* to) {
  for (int64_t channel = 0; channel < channels; ++channel, from += plane) {
    if (!all_finite(from, pixels)) return false;
    float* place = to + channel;
    for (int64_t pixel = 0; pixel < pixels; ++pixel, place += channels) *place = from[pixel];
  }
  return true;
}

namespace {

template <class Integer>
bool read_all(int64_t count, const Integer* from, int most, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    if (from[i] < 0 || from[i] >= most) return false;
    const auto number = static_cast<int32_t>(from[i]);
    std::memcpy(to + i, &number, sizeof number);
  }
  return true;
}

}  // namespace

bool read_integers(int64_t count, const int32_t* from, int most, float* to) { return read_all(count, from, most, to); }
bool read_integers(int64_t count, const int64_t* from, int most, float* to) { return read_all(count, from, most, to); }

}  // namespace adaste

#include "input.h"

#include <cstddef>

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

bool read_floats(int64_t pixels, int channels, const float* from, float* to) {
  float nothing = 0;  // becomes NaN with the first number that is not finite
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const float value = *from++;
      nothing += value * 0.0F;
      to[pixel * channels + channel] = value;
    }
  return nothing == 0.0F;
}

}  // namespace adaste

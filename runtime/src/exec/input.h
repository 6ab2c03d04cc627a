// From images as they are given to the network's first value.
#pragma once

#include <cstdint>
#include <vector>

namespace adaste {

// Some pixels of bytes (pixels, channels): (byte / 255 - mean) / std, or byte / 255 where these are empty.
void read_bytes(int64_t pixels, int channels, const uint8_t* from, const std::vector<float>& mean,
                const std::vector<float>& std, float* to);

// Some pixels of an image of floats (channels, pixels), whose channels are `plane` floats apart; false where one is not
// finite.
bool read_floats(int64_t pixels, int channels, const float* from, int64_t plane, float* to);

// Some whole numbers as int32; false where one is not from 0 to most - 1.
bool read_integers(int64_t count, const int32_t* from, int most, float* to);
bool read_integers(int64_t count, const int64_t* from, int most, float* to);

}  // namespace adaste

#include "kernels/weight_order.h"

namespace adaste {
namespace {

// Eight channels of a 3x3 kernel are 72 bits, of which each tap's are 9 apart: bit i of byte i, when the tap's first is
// shifted to the lowest place. A multiplication adds all bytes to the highest.
void reorder_3x3(const uint8_t* from, size_t channels, uint8_t* to) {
  constexpr size_t taps = 9;
  constexpr uint64_t every_ninth = 0x8040201008040201;
  constexpr uint64_t all_bytes = 0x0101010101010101;
  for (size_t eight = 0; eight < channels / 8; ++eight, from += taps) {
    const uint64_t low = weight_bits(from, 0, 64);
    const uint64_t high = from[8];
    for (size_t tap = 0; tap < taps; ++tap) {
      const uint64_t shifted = tap == 0 ? low : low >> tap | high << (64 - tap);
      to[tap * (channels / 8) + eight] = static_cast<uint8_t>((shifted & every_ninth) * all_bytes >> 56);
    }
  }
}

void reorder_any(const uint8_t* from, size_t channels, size_t taps, uint8_t* to) {
  size_t place = 0;
  for (size_t tap = 0; tap < taps; ++tap)
    for (size_t channel = 0; channel < channels; ++channel, ++place)
      if (weight_bit(from, channel * taps + tap)) to[place / 8] = static_cast<uint8_t>(to[place / 8] | 1U << place % 8);
}

}  // namespace

std::vector<uint8_t> channels_last(const ConvShape& shape, const uint8_t* rows) {
  const auto channels = static_cast<size_t>(shape.channels / shape.groups);
  const size_t taps = static_cast<size_t>(shape.kernel_h) * static_cast<size_t>(shape.kernel_w);
  const size_t row_bytes = row_bytes_of(shape);
  const auto outputs = static_cast<size_t>(shape.out_channels);
  if (taps == 1 || channels == 1) return {rows, rows + outputs * row_bytes};
  std::vector<uint8_t> result(outputs * row_bytes);
  for (size_t output = 0; output < outputs; ++output) {
    const uint8_t* from = rows + output * row_bytes;
    uint8_t* to = result.data() + output * row_bytes;
    if (taps == 9 && channels % 8 == 0)
      reorder_3x3(from, channels, to);
    else
      reorder_any(from, channels, taps, to);
  }
  return result;
}

}  // namespace adaste

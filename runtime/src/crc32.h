// The checksum of a file's content (CRC-32 as in zlib and PNG).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace adaste {

constexpr std::array<uint32_t, 256> crc32_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1U) != 0 ? 0xEDB88320U ^ (value >> 1) : value >> 1;
    table[i] = value;
  }
  return table;
}

// The checksum of what came before, whose checksum is `before`, and these bytes.
inline uint32_t crc32(uint32_t before, const uint8_t* bytes, size_t size) {
  static constexpr std::array<uint32_t, 256> table = crc32_table();
  uint32_t value = ~before;
  for (size_t i = 0; i < size; ++i) value = table[(value ^ bytes[i]) & 0xFFU] ^ (value >> 8);
  return ~value;
}

}  // namespace adaste

// The checksum of a file's content (CRC-32 as in zlib and PNG), eight bytes at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace adaste {

// tables[k][byte]: what a byte does to the checksum when k zero bytes follow it.
using Crc32Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Crc32Tables crc32_tables() {
  Crc32Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1U) != 0 ? 0xEDB88320U ^ (value >> 1) : value >> 1;
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < tables.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t value = tables[k - 1][byte];
      tables[k][byte] = tables[0][value & 0xFFU] ^ (value >> 8);
    }
  return tables;
}

// The checksum of what came before, whose checksum is `before`, and these bytes.
inline uint32_t crc32(uint32_t before, const uint8_t* bytes, size_t size) {
  static constexpr Crc32Tables tables = crc32_tables();
  uint32_t value = ~before;
  for (; size >= 8; bytes += 8, size -= 8)
    value = tables[7][bytes[0] ^ (value & 0xFFU)] ^ tables[6][bytes[1] ^ ((value >> 8) & 0xFFU)] ^
            tables[5][bytes[2] ^ ((value >> 16) & 0xFFU)] ^ tables[4][bytes[3] ^ (value >> 24)] ^ tables[3][bytes[4]] ^
            tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
  for (; size > 0; ++bytes, --size) value = tables[0][(value ^ *bytes) & 0xFFU] ^ (value >> 8);
  return ~value;
}

}  // namespace adaste

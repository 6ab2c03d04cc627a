// The few instructions of Intel's AMX that the runtime uses, in plain C. They touch exactly the memory that the
// processor would, so that AddressSanitizer sees it, and end the program where the processor would refuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct AdasteTile {
  int rows = 0, row_bytes = 0;
  uint8_t bytes[16][64] = {};
};

struct AdasteTiles {
  bool configured = false;
  AdasteTile tiles[8];
};

inline thread_local AdasteTiles adaste_tiles;

inline void adaste_tile_require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "AMX: %s\n", what);
  std::abort();
}

inline AdasteTile& adaste_tile(int number) {
  adaste_tile_require(adaste_tiles.configured, "no configuration");
  adaste_tile_require(number >= 0 && number < 8 && adaste_tiles.tiles[number].rows > 0, "no such tile");
  return adaste_tiles.tiles[number];
}

inline void adaste_tile_loadconfig(const void* from) {
  adaste_tile_require(!adaste_tiles.configured, "configured twice without a release");  // legal, but not meant here
  uint8_t bytes[64];
  std::memcpy(bytes, from, sizeof bytes);
  adaste_tile_require(bytes[0] == 1 && bytes[1] == 0, "palette 1 and start row 0 expected");
  for (int i = 2; i < 16; ++i) adaste_tile_require(bytes[i] == 0, "reserved bytes must be 0");
  for (int i = 0; i < 16; ++i) {
    uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, bytes + 16 + 2 * i, sizeof row_bytes);
    const int rows = bytes[48 + i];
    adaste_tile_require(rows <= 16 && row_bytes <= 64 && (rows == 0) == (row_bytes == 0), "wrong size of a tile");
    adaste_tile_require(i < 8 || rows == 0, "there are 8 tiles");
    if (i < 8) {
      adaste_tiles.tiles[i] = AdasteTile{};
      adaste_tiles.tiles[i].rows = rows;
      adaste_tiles.tiles[i].row_bytes = row_bytes;
    }
  }
  adaste_tiles.configured = true;
}

inline void adaste_tile_release() { adaste_tiles = AdasteTiles{}; }

inline void adaste_tile_zero(int number) { std::memset(adaste_tile(number).bytes, 0, sizeof(AdasteTile::bytes)); }

inline void adaste_tile_loadd(int number, const void* base, ptrdiff_t stride) {
  AdasteTile& tile = adaste_tile(number);
  std::memset(tile.bytes, 0, sizeof tile.bytes);
  for (int row = 0; row < tile.rows; ++row)
    std::memcpy(tile.bytes[row], static_cast<const uint8_t*>(base) + row * stride, static_cast<size_t>(tile.row_bytes));
}

inline void adaste_tile_stored(int number, void* base, ptrdiff_t stride) {
  const AdasteTile& tile = adaste_tile(number);
  for (int row = 0; row < tile.rows; ++row)
    std::memcpy(static_cast<uint8_t*>(base) + row * stride, tile.bytes[row], static_cast<size_t>(tile.row_bytes));
}

// Products of unsigned bytes of `a` and signed ones of `b`.
inline void adaste_tile_dpbusd(int sums, int a, int b) {
  AdasteTile& to = adaste_tile(sums);
  const AdasteTile& left = adaste_tile(a);
  const AdasteTile& right = adaste_tile(b);
  adaste_tile_require(sums != a && sums != b && a != b, "tiles of a product must differ");
  adaste_tile_require(to.rows == left.rows && to.row_bytes == right.row_bytes && left.row_bytes == 4 * right.rows &&
                          to.row_bytes % 4 == 0,
                      "sizes of a product do not fit");
  for (int row = 0; row < to.rows; ++row) {
    int32_t row_sums[16];
    std::memcpy(row_sums, to.bytes[row], sizeof row_sums);
    for (int quad = 0; quad < right.rows; ++quad) {
      const uint8_t* levels = left.bytes[row] + 4 * quad;
      const uint8_t* weights = right.bytes[quad];
      for (int column = 0; column < to.row_bytes / 4; ++column)
        for (int i = 0; i < 4; ++i) row_sums[column] += levels[i] * static_cast<int8_t>(weights[4 * column + i]);
    }
    std::memcpy(to.bytes[row], row_sums, sizeof row_sums);
  }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbusd
#define _tile_loadconfig adaste_tile_loadconfig
#define _tile_release adaste_tile_release
#define _tile_zero adaste_tile_zero
#define _tile_loadd adaste_tile_loadd
#define _tile_stored adaste_tile_stored
#define _tile_dpbusd adaste_tile_dpbusd

// The inner loop of the kernel with Intel AMX: tiles of pixels by tiles of weights.
#pragma once

#include <cstddef>

#include "kernels/x86/avx512/amx.h"
#include "kernels/x86/avx512/vectors.h"

namespace adaste {
namespace {

constexpr int tile_sums = tile_rows * lanes;  // 32-bit numbers
constexpr int pair_sums = 2 * 2 * tile_sums;  // in the order (tile of pixels, tile of outputs)

// Sums are tiles 0 to 3, in the order of pair_sums; 4 and 5 are pixels, 6 and 7 weights.
inline void configure(int pixels) {
  TileConfiguration configuration;
  for (int tile = 0; tile < 8; ++tile) {
    configuration.row_bytes[tile] = tile_row_bytes;
    configuration.rows[tile] = static_cast<uint8_t>(tile < 6 ? pixels : tile_rows);
  }
  written(&configuration);
  _tile_loadconfig(&configuration);
}

// Some steps for one or two tiles of pixels, whose first entries are given.
struct Product {
  const uint8_t* pixels[2];
  ptrdiff_t entry;          // bytes from a pixel to the next
  const ptrdiff_t* places;  // of each step, from the first entry
  const uint8_t* weights;
  int steps;
  bool starts;    // with sums of 0
  int32_t* sums;  // as left by the steps before, and for those behind
};

template <int output_tiles>
void load_sums(const Product& product) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (product.starts) return;
  _tile_loadd(0, product.sums, tile_row_bytes);
  if constexpr (output_tiles == 2) _tile_loadd(1, product.sums + tile_sums, tile_row_bytes);
}

template <int output_tiles>
void load_second_sums(const Product& product) {
  if (product.starts) return;
  _tile_loadd(2, product.sums + 2 * tile_sums, tile_row_bytes);
  if constexpr (output_tiles == 2) _tile_loadd(3, product.sums + 3 * tile_sums, tile_row_bytes);
}

template <int output_tiles>
void store_sums(const Product& product) {
  _tile_stored(0, product.sums, tile_row_bytes);
  if constexpr (output_tiles == 2) _tile_stored(1, product.sums + tile_sums, tile_row_bytes);
  _tile_stored(2, product.sums + 2 * tile_sums, tile_row_bytes);
  if constexpr (output_tiles == 2) _tile_stored(3, product.sums + 3 * tile_sums, tile_row_bytes);
}

// What is called for each step before it is needed: two steps ahead, so that what it stores has reached the cache when
// tiles are loaded.
template <class Before>
void start_steps(const Product& product, const Before& before) {
  before(0);
  if (product.steps > 1) before(1);
}

template <class Before>
void next_step(const Product& product, int step, const Before& before) {
  if (step + 2 < product.steps) before(step + 2);
}

template <int output_tiles, class Before>
void multiply_two(const Product& product, const Before& before) {
  start_steps(product, before);
  load_sums<output_tiles>(product);
  load_second_sums<output_tiles>(product);
  const uint8_t* weights = product.weights;
  for (int step = 0; step < product.steps; ++step, weights += output_tiles * tile_bytes) {
    const ptrdiff_t place = product.places[step];
    next_step(product, step, before);
    _tile_loadd(6, weights, tile_row_bytes);
    _tile_loadd(4, product.pixels[0] + place, product.entry);
    _tile_dpbusd(0, 4, 6);
    if constexpr (output_tiles == 2) {
      _tile_loadd(7, weights + tile_bytes, tile_row_bytes);
      _tile_dpbusd(1, 4, 7);
    }
    _tile_loadd(5, product.pixels[1] + place, product.entry);
    _tile_dpbusd(2, 5, 6);
    if constexpr (output_tiles == 2) _tile_dpbusd(3, 5, 7);
  }
  store_sums<output_tiles>(product);
}

// One tile of pixels: every other step has sums of its own, since a sum is ready only when three more products could
// have started.
template <int output_tiles, class Before>
void multiply_one(const Product& product, const Before& before) {
  start_steps(product, before);
  load_sums<output_tiles>(product);
  const uint8_t* weights = product.weights;
  for (int step = 0; step < product.steps; ++step, weights += output_tiles * tile_bytes) {
    next_step(product, step, before);
    _tile_loadd(6, weights, tile_row_bytes);
    _tile_loadd(4, product.pixels[0] + product.places[step], product.entry);
    _tile_dpbusd(0, 4, 6);
    if constexpr (output_tiles == 2) {
      _tile_loadd(7, weights + tile_bytes, tile_row_bytes);
      _tile_dpbusd(1, 4, 7);
    }
    if (++step == product.steps) break;
    weights += output_tiles * tile_bytes;
    next_step(product, step, before);
    _tile_loadd(6, weights, tile_row_bytes);
    _tile_loadd(5, product.pixels[0] + product.places[step], product.entry);
    _tile_dpbusd(2, 5, 6);
    if constexpr (output_tiles == 2) {
      _tile_loadd(7, weights + tile_bytes, tile_row_bytes);
      _tile_dpbusd(3, 5, 7);
    }
  }
  store_sums<output_tiles>(product);
  for (int32_t* sums = product.sums; sums < product.sums + output_tiles * tile_sums; sums += lanes)
    _mm512_store_si512(sums, _mm512_add_epi32(_mm512_load_si512(sums), _mm512_load_si512(sums + 2 * tile_sums)));
}

// before(step) is called ahead of each step.
template <class Before>
void multiply(const Product& product, int pixel_tiles, int output_tiles, const Before& before) {
  if (pixel_tiles == 2)
    output_tiles == 2 ? multiply_two<2>(product, before) : multiply_two<1>(product, before);
  else
    output_tiles == 2 ? multiply_one<2>(product, before) : multiply_one<1>(product, before);
}

}  // namespace
}  // namespace adaste

// One row of an image in 8 bits, with its padding: each place of the padded row (Axis of geometry.h) holds the channels
// of one group in whole quads. Padding holds the level of 0; a last quad is filled up with bytes of 0.
//
// Vectors of values want long runs, so where neighbouring places are neighbouring in memory a row is quantised as a
// whole: images have 3 channels, and one pixel at a time would leave vectors all but empty.
#pragma once

#include <cstring>

#include "kernels/geometry.h"
#include "kernels/int8/levels.h"

namespace adaste {
namespace {

constexpr int quad_bytes = 4;

// Where a row comes from, and where it goes.
struct PixelRow {
  const float* values;  // of the first pixel; null where the whole row is padding
  int distance;         // floats from a pixel to the next
  int channels;
  uint8_t* to;
  ptrdiff_t place;  // bytes from a place to the next
};

// `bytes` are those of the pixels without gaps, and three more.
inline void spread(const uint8_t* bytes, int pixels, const PixelRow& row, uint8_t* to) {
  uint32_t kept = 0;
  std::memset(&kept, 0xff, static_cast<size_t>(row.channels));
  for (int i = 0; i < pixels; ++i, bytes += row.channels, to += row.place) {
    uint32_t quad = 0;
    std::memcpy(&quad, bytes, quad_bytes);
    quad &= kept;
    std::memcpy(to, &quad, quad_bytes);
  }
}

// Pixels of fewer channels than a quad.
template <class Dot>
void quantise_narrow(int pixels, const PixelRow& row, const Levels& levels, uint8_t* to) {
  constexpr int at_once = 128;
  uint8_t bytes[at_once * (quad_bytes - 1) + quad_bytes - 1] = {};
  const float* values = row.values;
  for (; pixels > 0; pixels -= at_once, values += at_once * row.channels, to += at_once * row.place) {
    const int count = smaller(pixels, at_once);
    Dot::quantise(values, count * row.channels, levels, bytes);
    spread(bytes, count, row, to);
  }
}

template <class Dot>
void quantise_pixel(const float* values, int channels, const Levels& levels, uint8_t* to) {
  Dot::quantise(values, channels, levels, to);
  for (int i = channels; i % quad_bytes != 0; ++i) to[i] = 0;
}

template <class Dot>
void pad_places(int count, const PixelRow& row, const Levels& levels, uint8_t* to) {
  const int zero = static_cast<uint8_t>(static_cast<int>(levels.zero) - Dot::offset);
  for (; count > 0; --count, to += row.place) {
    std::memset(to, zero, static_cast<size_t>(row.channels));
    for (int i = row.channels; i % quad_bytes != 0; ++i) to[i] = 0;
  }
}

// Neighbouring pixels, each with all its channels.
template <class Dot>
void quantise_pixels(int count, const PixelRow& row, const Levels& levels, uint8_t* to) {
  if (row.channels == row.place) return Dot::quantise(row.values, count * row.channels, levels, to);
  if (row.channels < quad_bytes) return quantise_narrow<Dot>(count, row, levels, to);
  const float* values = row.values;
  for (; count > 0; --count, values += row.distance, to += row.place)
    quantise_pixel<Dot>(values, row.channels, levels, to);
}

// The first `places` places of a row.
template <class Dot>
void write_places(const Axis& columns, int places, const PixelRow& row, const Levels& levels) {
  if (row.values == nullptr) return pad_places<Dot>(places, row, levels, row.to);
  if (columns.step == columns.stride && row.distance == row.channels) {
    const int first = smaller(places, columns.pad);
    const int end = smaller(places, columns.pad + columns.size);
    pad_places<Dot>(first, row, levels, row.to);
    quantise_pixels<Dot>(end - first, row, levels, row.to + first * row.place);
    return pad_places<Dot>(places - end, row, levels, row.to + end * row.place);
  }
  uint8_t* to = row.to;
  Walk walk(columns);
  for (int i = 0; i < places; ++i, to += row.place, walk.next()) {
    if (walk.inside())
      quantise_pixel<Dot>(row.values + static_cast<ptrdiff_t>(walk.pixel()) * row.distance, row.channels, levels, to);
    else
      pad_places<Dot>(1, row, levels, to);
  }
}

}  // namespace
}  // namespace adaste

// One-bit weights and float32 activations on AVX2: signed_sums.h with strips of 16, 8 or 4 positions.
#include <cstring>

#include "cpu_x86.h"
#include "kernel_table.h"
#include "signed_sums.h"

namespace adaste {
namespace {

constexpr int most_channels = 512;  // output channels per task: their sums take 32 KiB

// A strip of positions as vectors.
struct Strip16 {
  using Element = float;
  static constexpr int lanes = 16;
  __m256 low, high;
  static Strip16 load(const float* p) { return {_mm256_load_ps(p), _mm256_load_ps(p + 8)}; }
  void store(float* p) const {
    _mm256_store_ps(p, low);
    _mm256_store_ps(p + 8, high);
  }
  void pin() { asm volatile("" : "+x"(low), "+x"(high)); }
  static Strip16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  friend Strip16 operator+(Strip16 a, Strip16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
  friend Strip16 operator-(Strip16 a, Strip16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
};

struct Strip8 {
  using Element = float;
  static constexpr int lanes = 8;
  __m256 all;
  static Strip8 load(const float* p) { return {_mm256_load_ps(p)}; }
  void store(float* p) const { _mm256_store_ps(p, all); }
  void pin() { asm volatile("" : "+x"(all)); }
  static Strip8 zero() { return {_mm256_setzero_ps()}; }
  friend Strip8 operator+(Strip8 a, Strip8 b) { return {_mm256_add_ps(a.all, b.all)}; }
  friend Strip8 operator-(Strip8 a, Strip8 b) { return {_mm256_sub_ps(a.all, b.all)}; }
};

struct Strip4 {
  using Element = float;
  static constexpr int lanes = 4;
  __m128 all;
  static Strip4 load(const float* p) { return {_mm_load_ps(p)}; }
  void store(float* p) const { _mm_store_ps(p, all); }
  void pin() { asm volatile("" : "+x"(all)); }
  static Strip4 zero() { return {_mm_setzero_ps()}; }
  friend Strip4 operator+(Strip4 a, Strip4 b) { return {_mm_add_ps(a.all, b.all)}; }
  friend Strip4 operator-(Strip4 a, Strip4 b) { return {_mm_sub_ps(a.all, b.all)}; }
};

size_t weight_bytes(const ConvShape& shape) { return word_bytes(shape); }

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  prepare_words(shape, rows, static_cast<uint64_t*>(prepared));
}

size_t scratch_bytes(const ConvShape& /*shape*/) { return 0; }

int stages(const ConvShape& /*shape*/) { return 1; }

int lanes_for(const ConvShape& shape) { return positions(shape) > 8 ? 16 : positions(shape) > 4 ? 8 : 4; }

int tasks(const ConvShape& shape, int /*stage*/) { return cut(shape, lanes_for(shape), most_channels).count; }

alignas(64) constexpr float zeros[chunk] = {};

// The inputs of a chunk side by side: in place when they belong to one pixel, else in `copy`, followed by zeros.
const float* inputs_of(const ConvShape& shape, const Window& window, const Chunk& part, float* copy) {
  if (part.one_pixel && part.count == chunk) {
    const float* pixel = pixel_at(shape, window, part.row, part.column);
    return pixel != nullptr ? pixel + part.channel : zeros;
  }
  std::memset(copy, 0, chunk * sizeof(float));
  copy_inputs(shape, window, part, copy);
  return copy;
}

// Inputs [from, from + 8) of every position, one strip per input.
template <class Strip>
void columns(const float* const* inputs, int from, float* columns) {
  for (int lane = 0; lane < Strip::lanes; lane += 8) {
    __m256 rows[8];
    for (int i = 0; i < 8; ++i)
      rows[i] = lane + i < Strip::lanes ? _mm256_loadu_ps(inputs[lane + i] + from) : _mm256_setzero_ps();
    transpose(rows);
    for (int i = 0; i < 8; ++i) {
      if constexpr (Strip::lanes == 4)
        _mm_store_ps(columns + i * 4, _mm256_castps256_ps128(rows[i]));
      else
        _mm256_store_ps(columns + i * Strip::lanes + lane, rows[i]);
    }
  }
}

// From sums in the order (channel, position) to outputs in the order (position, channel).
template <class Strip>
void write_outputs(const ConvShape& shape, const float* sums, ptrdiff_t first_position, int first_channel, int channels,
                   const Epilogue& epilogue, float* y) {
  const int count = static_cast<int>(std::min<ptrdiff_t>(Strip::lanes, positions(shape) - first_position));
  const auto place_of = [&](int lane, int channel) {
    return (first_position + lane) * shape.out_channels + first_channel + channel;
  };
  int channel = 0;
  for (; channel + 8 <= channels; channel += 8)
    for (int lane = 0; lane < count; lane += 8) {
      __m256 rows[8];
      for (int i = 0; i < 8; ++i) {
        const float* from = sums + (channel + i) * Strip::lanes + lane;
        rows[i] = Strip::lanes == 4 ? _mm256_castps128_ps256(_mm_load_ps(from)) : _mm256_loadu_ps(from);
      }
      transpose(rows);
      for (int i = 0; i < std::min(8, count - lane); ++i)
        finish8(rows[i], first_channel + channel, place_of(lane + i, channel), epilogue, y);
    }
  for (; channel < channels; ++channel)
    for (int lane = 0; lane < count; ++lane) {
      const ptrdiff_t place = place_of(lane, channel);
      y[place] = finish(sums[channel * Strip::lanes + lane], first_channel + channel, place, epilogue);
    }
}

template <class Strip>
void convolve(const ConvShape& shape, int task, const float* x, const uint64_t* words, const Epilogue& epilogue,
              float* y) {
  alignas(64) float tables[table_elements<Strip>];
  alignas(64) float sums[most_channels * Strip::lanes];
  alignas(64) float copies[Strip::lanes][chunk];
  alignas(64) float inputs_by_column[8 * Strip::lanes];
  const int outputs = shape.out_channels / shape.groups;
  const int window = static_cast<int>(window_size(shape));
  const Piece piece = piece_of(shape, cut(shape, Strip::lanes, most_channels), task);

  std::memset(sums, 0, static_cast<size_t>(piece.channels) * Strip::lanes * sizeof(float));
  Window windows[Strip::lanes];
  for (int lane = 0; lane < Strip::lanes; ++lane)
    windows[lane] = window_at(shape, piece.position + lane, piece.group * (shape.channels / shape.groups), x);
  words += static_cast<ptrdiff_t>(piece.group) * chunks_of(shape) * outputs + piece.first_output;
  for (int first = 0; first < window; first += chunk, words += outputs) {
    const Chunk part = chunk_at(shape, first, std::min(chunk, window - first));
    const float* inputs[Strip::lanes];
    for (int lane = 0; lane < Strip::lanes; ++lane) inputs[lane] = inputs_of(shape, windows[lane], part, copies[lane]);
    const int padded = part.count > chunk / 2 ? chunk : chunk / 2;
    for (int from = 0; from < padded; from += 8) {
      columns<Strip>(inputs, from, inputs_by_column);
      float* table = tables + from / group_size * entries * Strip::lanes;
      fill_table<Strip>(inputs_by_column, table);
      fill_table<Strip>(inputs_by_column + group_size * Strip::lanes, table + entries * Strip::lanes);
    }
    if (padded == chunk)
      add_channels<Strip, 16>(tables, words, piece.channels, sums);
    else
      add_channels<Strip, 8>(tables, words, piece.channels, sums);
  }
  write_outputs<Strip>(shape, sums, piece.position, piece.group * outputs + piece.first_output, piece.channels, epilogue, y);
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  const auto* words = static_cast<const uint64_t*>(prepared);
  switch (lanes_for(shape)) {
    case 16: return convolve<Strip16>(shape, task, x, words, epilogue, y);
    case 8: return convolve<Strip8>(shape, task, x, words, epilogue, y);
    default: return convolve<Strip4>(shape, task, x, words, epilogue, y);
  }
}

}  // namespace

const ConvKernel avx2_kernel = {"avx2", has_avx2, supports, weight_bytes, prepare,
                                scratch_bytes, stages, tasks, run};

}  // namespace adaste

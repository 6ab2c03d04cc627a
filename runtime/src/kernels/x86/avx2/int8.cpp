// One-bit weights and 8-bit activations on AVX2: signed_sums.h with 16-bit sums for strips of 32, 16 or 8 positions.
//
// Levels are taken as q - 128, so 192 of them sum up without leaving 16 bits; then the sums are added to 32-bit ones.
#include <cstring>

#include "kernels/int8/input.h"
#include "kernels/registry.h"
#include "kernels/x86/cpu.h"
#include "kernels/x86/avx2/signed_sums.h"

namespace adaste {
namespace {

constexpr int most_channels = 256;  // output channels per task: their sums take 48 KiB
constexpr int safe_chunks = 3;      // 3 * 64 * 128 < 2^15
constexpr int middle = 128;

// A strip of positions as vectors of 16-bit numbers.
struct Strip32 {
  using Element = int16_t;
  static constexpr int lanes = 32;
  __m256i low, high;
  static const __m256i* at(const int16_t* p) { return reinterpret_cast<const __m256i*>(p); }
  static Strip32 load(const int16_t* p) { return {_mm256_load_si256(at(p)), _mm256_load_si256(at(p) + 1)}; }
  void store(int16_t* p) const {
    _mm256_store_si256(reinterpret_cast<__m256i*>(p), low);
    _mm256_store_si256(reinterpret_cast<__m256i*>(p) + 1, high);
  }
  void pin() { asm volatile("" : "+x"(low), "+x"(high)); }
  static Strip32 zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  friend Strip32 operator+(Strip32 a, Strip32 b) {
    return {_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)};
  }
  friend Strip32 operator-(Strip32 a, Strip32 b) {
    return {_mm256_sub_epi16(a.low, b.low), _mm256_sub_epi16(a.high, b.high)};
  }
};

struct Strip16 {
  using Element = int16_t;
  static constexpr int lanes = 16;
  __m256i all;
  static Strip16 load(const int16_t* p) { return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p))}; }
  void store(int16_t* p) const { _mm256_store_si256(reinterpret_cast<__m256i*>(p), all); }
  void pin() { asm volatile("" : "+x"(all)); }
  static Strip16 zero() { return {_mm256_setzero_si256()}; }
  friend Strip16 operator+(Strip16 a, Strip16 b) { return {_mm256_add_epi16(a.all, b.all)}; }
  friend Strip16 operator-(Strip16 a, Strip16 b) { return {_mm256_sub_epi16(a.all, b.all)}; }
};

struct Strip8 {
  using Element = int16_t;
  static constexpr int lanes = 8;
  __m128i all;
  static Strip8 load(const int16_t* p) { return {_mm_load_si128(reinterpret_cast<const __m128i*>(p))}; }
  void store(int16_t* p) const { _mm_store_si128(reinterpret_cast<__m128i*>(p), all); }
  void pin() { asm volatile("" : "+x"(all)); }
  static Strip8 zero() { return {_mm_setzero_si128()}; }
  friend Strip8 operator+(Strip8 a, Strip8 b) { return {_mm_add_epi16(a.all, b.all)}; }
  friend Strip8 operator-(Strip8 a, Strip8 b) { return {_mm_sub_epi16(a.all, b.all)}; }
};

// The words, then the sum of all weights of each output channel.
size_t weight_bytes(const ConvShape& shape) {
  return word_bytes(shape, window_size(shape)) + static_cast<size_t>(shape.out_channels) * sizeof(int32_t);
}

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  prepare_words(shape, window_size(shape), rows, static_cast<uint64_t*>(prepared));
  sum_weights(shape, rows,
              reinterpret_cast<int32_t*>(static_cast<char*>(prepared) + word_bytes(shape, window_size(shape))));
}

size_t scratch_bytes(const ConvShape& shape) { return quantised_bytes(shape); }

int stages(const ConvShape& /*shape*/) { return 3; }

int lanes_for(const ConvShape& shape) { return positions(shape) > 16 ? 32 : positions(shape) > 8 ? 16 : 8; }

int tasks(const ConvShape& shape, int stage) {
  return stage < 2 ? quantising_tasks(shape, stage) : cut(shape, lanes_for(shape), most_channels).count;
}

// Stage 0, faster than measured_levels and with the same result: the order of minima and maxima does not matter.
Levels image_levels(const float* values, size_t count) {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 some = _mm256_loadu_ps(values + i);
    low = _mm256_min_ps(some, low);  // in this order: what is no number is passed over
    high = _mm256_max_ps(some, high);
  }
  alignas(32) float ends[16];
  _mm256_store_ps(ends, low);
  _mm256_store_ps(ends + 8, high);
  float least = 0.0F;
  float most = 0.0F;
  const auto widen = [&](float value) {
    least = value < least ? value : least;
    most = value > most ? value : most;
  };
  for (const float value : ends) widen(value);
  for (; i < count; ++i) widen(values[i]);
  return levels_for(least, most);
}

// Stage 1, faster than quantise_plainly and with the same result.
void quantise_values(const float* from, size_t count, const Levels& levels, uint8_t* to) {
  const __m256 inverse = _mm256_set1_ps(levels.inverse);
  const __m256 zero = _mm256_set1_ps(levels.zero);
  const auto level = [&](const float* place) {
    const __m256 exact = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(place), inverse), zero);
    const __m256 clamped = _mm256_min_ps(_mm256_max_ps(exact, _mm256_setzero_ps()), _mm256_set1_ps(255.0F));
    return _mm256_cvtps_epi32(clamped);
  };
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    // Packing works within halves: (a0 b0 a1 b1), put in order by the permutation.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(level(from + i), level(from + i + 8)), 0xD8);
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bytes);
  }
  for (; i < count; ++i) to[i] = quantised(from[i], levels);
}

using ByteWindow = WindowOf<uint8_t>;

// The inputs of a chunk side by side: in place when they belong to one pixel, else in `copy`. Padding is at the level
// of 0; behind the last input is the middle, which adds nothing.
const uint8_t* inputs_of(const ConvShape& shape, const ByteWindow& window, int zero, const Chunk& part, uint8_t* copy) {
  if (part.in_one_pixel() && part.count == chunk) {
    const uint8_t* pixel = pixel_at(shape, window, part.row, part.column);
    if (pixel != nullptr) return pixel + part.channel;
  }
  std::memset(copy + part.count, middle, static_cast<size_t>(chunk - part.count));
  copy_inputs(shape, window, part, copy, [zero](const uint8_t* from, int count, uint8_t* to) {
    if (from != nullptr)
      std::memcpy(to, from, static_cast<size_t>(count));
    else
      std::memset(to, zero, static_cast<size_t>(count));
  });
  return copy;
}

// 16 rows of 16 bytes become 16 columns.
[[gnu::always_inline]] inline void transpose_bytes(__m128i (&rows)[16]) {
  __m128i next[16];
  // Each round interleaves row i with row i + 8; after four rounds every byte is in its place.
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + 8]);
      next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + 8]);
    }
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
}

// Inputs [from, from + 16) of every position less the middle, one strip per input.
template <class Strip>
void columns(const uint8_t* const* inputs, int from, int16_t* columns) {
  for (int lane = 0; lane < Strip::lanes; lane += 16) {
    __m128i rows[16];
    for (int i = 0; i < 16; ++i)
      rows[i] = lane + i < Strip::lanes ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(inputs[lane + i] + from))
                                        : _mm_setzero_si128();
    transpose_bytes(rows);
    for (int i = 0; i < 16; ++i) {
      const __m256i values = _mm256_sub_epi16(_mm256_cvtepu8_epi16(rows[i]), _mm256_set1_epi16(middle));
      int16_t* place = columns + i * Strip::lanes + lane;
      if constexpr (Strip::lanes == 8)
        _mm_store_si128(reinterpret_cast<__m128i*>(place), _mm256_castsi256_si128(values));
      else
        _mm256_store_si256(reinterpret_cast<__m256i*>(place), values);
    }
  }
}

// Moves 16-bit sums, a multiple of 8 of them, to 32-bit ones.
void flush(int count, int16_t* narrow, int32_t* wide) {
  for (int i = 0; i < count; i += 8) {
    auto* from = reinterpret_cast<__m128i*>(narrow + i);
    auto* to = reinterpret_cast<__m256i*>(wide + i);
    _mm256_store_si256(to, _mm256_add_epi32(_mm256_load_si256(to), _mm256_cvtepi16_epi32(_mm_load_si128(from))));
    _mm_store_si128(from, _mm_setzero_si128());
  }
}

// What turns the sums of a strip into numbers: sum(w * x) = scale * (sum - (zero - middle) * sum(w)).
template <class Strip>
struct StripLevels {
  alignas(32) float scale[Strip::lanes];
  alignas(32) int32_t zero[Strip::lanes];  // less the middle
};

template <class Strip>
__m256 sums_as_floats(const int32_t* sums, int lane, int weights, const StripLevels<Strip>& levels) {
  const __m256i zero = _mm256_load_si256(reinterpret_cast<const __m256i*>(levels.zero + lane));
  const __m256i sum = _mm256_load_si256(reinterpret_cast<const __m256i*>(sums + lane));
  const __m256i exact = _mm256_sub_epi32(sum, _mm256_mullo_epi32(zero, _mm256_set1_epi32(weights)));
  return _mm256_mul_ps(_mm256_load_ps(levels.scale + lane), _mm256_cvtepi32_ps(exact));
}

// From sums in the order (channel, position) to outputs in the order (position, channel).
template <class Strip>
void write_outputs(const ConvShape& shape, const int32_t* sums, const Piece& piece, const int32_t* weight_sums,
                   const StripLevels<Strip>& levels, const Epilogue& epilogue, float* y) {
  const int first_channel = piece.group * (shape.out_channels / shape.groups) + piece.first_output;
  const int count = static_cast<int>(std::min<ptrdiff_t>(Strip::lanes, positions(shape) - piece.position));
  weight_sums += first_channel;
  for (int channel = 0; channel < piece.channels; channel += 8)
    for (int lane = 0; lane < count; lane += 8) {
      const int some = std::min(8, piece.channels - channel);
      __m256 rows[8];
      for (int i = 0; i < 8; ++i)
        rows[i] = i < some ? sums_as_floats<Strip>(sums + (channel + i) * Strip::lanes, lane, weight_sums[channel + i],
                                                   levels)
                           : _mm256_setzero_ps();
      transpose(rows);
      for (int i = 0; i < std::min(8, count - lane); ++i) {
        const ptrdiff_t place = (piece.position + lane + i) * shape.out_channels + first_channel + channel;
        if (some == 8) {
          finish8(rows[i], first_channel + channel, place, epilogue, y);
          continue;
        }
        alignas(32) float values[8];
        _mm256_store_ps(values, rows[i]);
        for (int j = 0; j < some; ++j)
          y[place + j] = finish(values[j], first_channel + channel + j, place + j, epilogue);
      }
    }
}

template <class Strip>
void convolve(const ConvShape& shape, int task, const void* prepared, const Epilogue& epilogue, float* y,
              const void* scratch) {
  alignas(64) int16_t tables[table_elements<Strip>];
  alignas(64) int16_t narrow[most_channels * Strip::lanes];
  alignas(64) int32_t wide[most_channels * Strip::lanes];
  alignas(64) uint8_t copies[Strip::lanes][chunk];
  alignas(64) int16_t inputs_by_column[chunk * Strip::lanes];
  const int outputs = shape.out_channels / shape.groups;
  const int window = static_cast<int>(window_size(shape));
  const Piece piece = piece_of(shape, cut(shape, Strip::lanes, most_channels), task);
  const int sums = piece.channels * Strip::lanes;
  std::memset(narrow, 0, static_cast<size_t>(sums) * sizeof(int16_t));
  std::memset(wide, 0, static_cast<size_t>(sums) * sizeof(int32_t));

  ByteWindow windows[Strip::lanes];
  StripLevels<Strip> levels{};
  const ptrdiff_t per_image = static_cast<ptrdiff_t>(shape.out_height) * shape.out_width;
  for (int lane = 0; lane < Strip::lanes; ++lane) {
    const ptrdiff_t position = piece.position + lane;
    windows[lane] =
        window_at(shape, position, piece.group * (shape.channels / shape.groups), quantised_image(shape, scratch, 0));
    if (position >= positions(shape)) continue;
    const Levels image = quantised_levels(scratch)[position / per_image];
    levels.scale[lane] = image.scale;
    levels.zero[lane] = static_cast<int32_t>(image.zero) - middle;
  }
  const auto* words = static_cast<const uint64_t*>(prepared) +
                      static_cast<ptrdiff_t>(piece.group) * chunks_of(shape, window_size(shape)) * outputs +
                      piece.first_output;
  for (int first = 0; first < window; first += chunk, words += outputs) {
    const Chunk part = chunk_at(shape, first, std::min(chunk, window - first));
    const uint8_t* inputs[Strip::lanes];
    for (int lane = 0; lane < Strip::lanes; ++lane)
      inputs[lane] = inputs_of(shape, windows[lane], levels.zero[lane] + middle, part, copies[lane]);
    const int groups = groups_of(part.count);
    for (int from = 0; from < std::min(chunk, groups * group_size); from += 16)
      columns<Strip>(inputs, from, inputs_by_column + from * Strip::lanes);
    fill_groups<Strip>(inputs_by_column, groups, tables);
    add_channels<Strip>(tables, groups, words, piece.channels, narrow);
    if (first / chunk % safe_chunks == safe_chunks - 1 || first + chunk >= window) flush(sums, narrow, wide);
  }
  const auto* weight_sums = reinterpret_cast<const int32_t*>(static_cast<const char*>(prepared) +
                                                             word_bytes(shape, window_size(shape)));
  write_outputs<Strip>(shape, wide, piece, weight_sums, levels, epilogue, y);
}

void run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared, const Epilogue& epilogue,
         const Quantisation& quantisation, float* y, void* scratch) {
  if (stage < 2) return quantise(shape, stage, task, x, quantisation, image_levels, quantise_values, scratch);
  switch (lanes_for(shape)) {
    case 32: return convolve<Strip32>(shape, task, prepared, epilogue, y, scratch);
    case 16: return convolve<Strip16>(shape, task, prepared, epilogue, y, scratch);
    default: return convolve<Strip8>(shape, task, prepared, epilogue, y, scratch);
  }
}

}  // namespace

const ConvKernel avx2_int8_kernel = {"avx2-int8",   has_avx2, enough_outputs, weight_bytes, prepare,
                                     scratch_bytes, stages,   tasks,          run,          false,   true};

}  // namespace adaste

// One-bit weights and 8-bit activations in WebAssembly: the tables of kernels/strips.h with 16-bit sums, for strips of
// 32, 16 or 8 positions.
//
// Levels are taken as q - 128, so 192 of them sum up without leaving 16 bits; then the sums are added to 32-bit ones.
#include <cstring>

#include "kernels/int8/input.h"
#include "kernels/registry.h"
#include "kernels/strips.h"
#include "kernels/wasm/simd128.h"

namespace adaste {
namespace {

constexpr int safe_chunks = 3;  // 3 * 64 * 128 < 2^15
constexpr int middle = 128;

// Activations and their sums as 16-bit integers.
struct Words {
  using Vector = v128_t;
  using Element = int16_t;
  using Input = uint8_t;
  static constexpr int lanes = 8;
  static constexpr int together = 4;
  static constexpr int most_outputs = 256;  // sums of 16 and 32 bits and tables take 64 KiB

  static Vector zero() { return wasm_i16x8_const_splat(0); }
  static Vector load(const int16_t* from) { return wasm_v128_load(from); }
  static Vector read(const uint8_t* from) {
    return wasm_i16x8_sub(wasm_u16x8_load8x8(from), wasm_i16x8_const_splat(middle));
  }
  static void store(int16_t* to, Vector vector) { wasm_v128_store(to, vector); }
  static Vector add(Vector a, Vector b) { return wasm_i16x8_add(a, b); }
  static Vector subtract(Vector a, Vector b) { return wasm_i16x8_sub(a, b); }

  // Each round interleaves row i with row i + 4; after three rounds every number is in its place.
  static void transpose(Vector (&rows)[lanes]) {
    for (int round = 0; round < 3; ++round) {
      Vector next[lanes];
      for (int i = 0; i < lanes / 2; ++i) {
        next[2 * i] = wasm_i16x8_shuffle(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
        next[2 * i + 1] = wasm_i16x8_shuffle(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
      }
      for (int i = 0; i < lanes; ++i) rows[i] = next[i];
    }
  }
};

bool available() { return true; }

// The words, then the sum of all weights of each output channel.
size_t weight_bytes(const ConvShape& shape) {
  return strip_weight_bytes(shape) + static_cast<size_t>(shape.out_channels) * sizeof(int32_t);
}

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  strip_prepare(shape, rows, prepared);
  sum_weights(shape, rows, reinterpret_cast<int32_t*>(static_cast<char*>(prepared) + strip_weight_bytes(shape)));
}

size_t scratch_bytes(const ConvShape& shape) { return quantised_bytes(shape); }

int stages(const ConvShape& /*shape*/) { return 3; }

int vectors_for(const ConvShape& shape) {
  return positions(shape) > 2 * Words::lanes ? 4 : positions(shape) > Words::lanes ? 2 : 1;
}

int tasks(const ConvShape& shape, int stage) {
  return stage < 2 ? quantising_tasks(shape, stage) : strip_tasks<Words>(shape, vectors_for(shape) * Words::lanes);
}

// Stage 0, faster than measured_levels and with the same result: the order of minima and maxima does not matter.
Levels image_levels(const float* values, size_t count) {
  v128_t low = Floats::zero(), high = Floats::zero();
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const v128_t some = wasm_v128_load(values + i);
    low = wasm_f32x4_pmin(low, some);  // in this order: what is no number is passed over
    high = wasm_f32x4_pmax(high, some);
  }
  float ends[8], least = 0.0F, most = 0.0F;
  wasm_v128_store(ends, low);
  wasm_v128_store(ends + 4, high);
  const auto widen = [&](float value) {
    least = value < least ? value : least;
    most = value > most ? value : most;
  };
  for (const float value : ends) widen(value);
  for (; i < count; ++i) widen(values[i]);
  return levels_for(least, most);
}

// Stage 1, faster than quantise_plainly and with the same result. Adding 2^23 rounds a level to a whole number, to even
// where it is halfway, and leaves it in the lowest bits.
void quantise_values(const float* from, size_t count, const Levels& levels, uint8_t* to) {
  const v128_t inverse = wasm_f32x4_splat(levels.inverse), zero = wasm_f32x4_splat(levels.zero);
  const auto level = [&](const float* place) {
    const v128_t exact = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(place), inverse), zero);
    const v128_t clamped = wasm_f32x4_pmin(wasm_f32x4_const_splat(255.0F), wasm_f32x4_pmax(Floats::zero(), exact));
    return wasm_v128_and(wasm_f32x4_add(clamped, wasm_f32x4_const_splat(8388608.0F)), wasm_i32x4_const_splat(255));
  };
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const v128_t low = wasm_i16x8_narrow_i32x4(level(from + i), level(from + i + 4));
    const v128_t high = wasm_i16x8_narrow_i32x4(level(from + i + 8), level(from + i + 12));
    wasm_v128_store(to + i, wasm_u8x16_narrow_i16x8(low, high));
  }
  for (; i < count; ++i) to[i] = quantised(from[i], levels);
}

using ByteWindow = WindowOf<uint8_t>;

// The inputs of a chunk side by side: in place where a whole chunk is in one run, and not in the padding; else in
// `copy`. Padding is at the level of 0; behind the last input is the middle, which adds nothing.
const uint8_t* inputs_of(const ConvShape& shape, const ByteWindow& window, int zero, const Chunk& part, uint8_t* copy) {
  if (part.in_one_run() && part.count == chunk) {
    const Inside inside = inside_of(shape, window, part, part.row, part.run_column, part.start, part.start + chunk);
    if (inside.end - inside.first == chunk) return window.image + (inside.offset + inside.first);
  }
  copy_inputs(shape, window, part, copy, [zero](const uint8_t* from, int count, uint8_t* to) {
    if (from != nullptr)
      std::memcpy(to, from, static_cast<size_t>(count));
    else
      std::memset(to, zero, static_cast<size_t>(count));
  });
  std::memset(copy + part.count, middle, static_cast<size_t>(chunk - part.count));
  return copy;
}

// Moves 16-bit sums, a multiple of 8 of them, to 32-bit ones.
void flush(int count, int16_t* narrow, int32_t* wide) {
  for (int i = 0; i < count; i += 8) {
    const v128_t sums = wasm_v128_load(narrow + i);
    wasm_v128_store(wide + i, wasm_i32x4_add(wasm_v128_load(wide + i), wasm_i32x4_extend_low_i16x8(sums)));
    wasm_v128_store(wide + i + 4, wasm_i32x4_add(wasm_v128_load(wide + i + 4), wasm_i32x4_extend_high_i16x8(sums)));
    wasm_v128_store(narrow + i, Words::zero());
  }
}

// The images of a strip's positions in 8 bits, and what turns their sums into numbers:
// sum(w * x) = scale * (sum - (zero - middle) * sum(w)).
template <int strip>
struct Strip {
  ByteWindow windows[strip];
  alignas(16) float scale[strip];
  alignas(16) int32_t zero[strip];  // less the middle

  Strip(const ConvShape& shape, ptrdiff_t position, int first_channel, const void* scratch) {
    const ptrdiff_t per_image = static_cast<ptrdiff_t>(shape.out_height) * shape.out_width;
    for (int i = 0; i < strip; ++i) {
      windows[i] = window_at(shape, position + i, first_channel, quantised_image(shape, scratch, 0));
      const bool beyond = windows[i].image == nullptr;
      const Levels levels = beyond ? Levels{} : quantised_levels(scratch)[(position + i) / per_image];
      scale[i] = levels.scale;
      zero[i] = static_cast<int32_t>(levels.zero) - middle;
    }
  }

  // The sums of an output channel whose weights sum up to `weights`.
  void to_floats(const int32_t* sums, int32_t weights, float* to) const {
    for (int i = 0; i < strip; i += 4) {
      const v128_t offset = wasm_i32x4_mul(wasm_v128_load(zero + i), wasm_i32x4_splat(weights));
      const v128_t exact = wasm_f32x4_convert_i32x4(wasm_i32x4_sub(wasm_v128_load(sums + i), offset));
      wasm_v128_store(to + i, wasm_f32x4_mul(wasm_v128_load(scale + i), exact));
    }
  }
};

template <int vectors>
void convolve(const ConvShape& shape, int task, const void* prepared, const Epilogue& epilogue, float* y,
              const void* scratch) {
  constexpr int lanes = vectors * Words::lanes;
  alignas(64) int16_t tables[chunk / group_size * entries * lanes];
  alignas(64) int16_t narrow[Words::most_outputs * lanes];
  alignas(64) int32_t wide[Words::most_outputs * lanes];
  alignas(64) uint8_t copies[lanes][chunk];
  const OutputBlocks blocks = output_blocks(shape, Words::most_outputs);
  const int block = task % (blocks.per_group * shape.groups);
  const int outputs = blocks.count(block);
  const ptrdiff_t position = static_cast<ptrdiff_t>(task / (blocks.per_group * shape.groups)) * lanes;
  const int window = static_cast<int>(window_size(shape));
  const Strip<lanes> strip(shape, position, blocks.group(block) * (shape.channels / shape.groups), scratch);
  const auto* words = static_cast<const uint64_t*>(prepared) +
                      static_cast<ptrdiff_t>(blocks.group(block)) * chunks_of(shape, window_size(shape)) *
                          blocks.outputs +
                      blocks.first(block);
  std::memset(narrow, 0, static_cast<size_t>(outputs) * lanes * sizeof(int16_t));
  std::memset(wide, 0, static_cast<size_t>(outputs) * lanes * sizeof(int32_t));

  for (int first = 0; first < window; first += chunk, words += blocks.outputs) {
    const Chunk part = chunk_at(shape, first, smaller(chunk, window - first));
    const uint8_t* inputs[lanes];
    for (int i = 0; i < lanes; ++i)
      inputs[i] = inputs_of(shape, strip.windows[i], strip.zero[i] + middle, part, copies[i]);
    fill_tables<Words, vectors>(inputs, part.count, tables);
    add_chunk<Words, vectors>(tables, ceil_div(part.count, group_size), words, outputs, narrow);
    if (first / chunk % safe_chunks == safe_chunks - 1 || first + chunk >= window)
      flush(outputs * lanes, narrow, wide);
  }
  const auto* weight_sums =
      reinterpret_cast<const int32_t*>(static_cast<const char*>(prepared) + strip_weight_bytes(shape)) +
      blocks.channel(block);
  alignas(64) float sums[Words::most_outputs * lanes];
  for (int output = 0; output < outputs; ++output)
    strip.to_floats(wide + output * lanes, weight_sums[output], sums + output * lanes);
  const ptrdiff_t left = positions(shape) - position;
  store_strip<Floats, lanes / Floats::lanes>(sums, left < lanes ? static_cast<int>(left) : lanes, blocks.channel(block),
                                             outputs, position * shape.out_channels + blocks.channel(block), shape,
                                             epilogue, y);
}

void run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared, const Epilogue& epilogue,
         const Quantisation& quantisation, float* y, void* scratch) {
  if (stage < 2) return quantise(shape, stage, task, x, quantisation, image_levels, quantise_values, scratch);
  switch (vectors_for(shape)) {
    case 4: return convolve<4>(shape, task, prepared, epilogue, y, scratch);
    case 2: return convolve<2>(shape, task, prepared, epilogue, y, scratch);
    default: return convolve<1>(shape, task, prepared, epilogue, y, scratch);
  }
}

}  // namespace

const ConvKernel simd128_int8_kernel = {"simd128-int8", available, enough_outputs, weight_bytes, prepare,
                                        scratch_bytes,  stages,    tasks,          run,          false,   true};

}  // namespace adaste

// One-bit weights and 8-bit activations with the dot product instructions of ARMv8.2 (int8/dot.h); a file of its own
// since it needs its own flags, -march=armv8.2-a+dotprod.
//
// sdot multiplies four signed bytes with four others and adds the products to a 32-bit sum: a quad of channels for 4
// output channels, 16 multiply-adds. Activations are stored less 128 to make them signed. Weights stay packed: 16 bytes
// hold 4 outputs by 4 channels for 8 quads, one quad per bit, so that a test for one bit makes 16 bytes of 0 or -1, and
// an "or" with 1 makes them 1 or -1, the weights with their sign changed. Sums are then subtracted in the end.
#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)

#include <arm_neon.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(_WIN32)
#define NOMINMAX
#include <windows.h>
#endif

#include "kernels/int8/dot.h"

namespace adaste {
namespace {

constexpr int lanes = 4;           // sums of a vector
constexpr int quads_per_mask = 8;  // the bits of a byte

struct NeonDot {
  static constexpr int pixels = 8;  // 16 sums, 8 quads of pixels, and what makes weights: they fill the registers
  static constexpr int vectors = 2;
  static constexpr int outputs = vectors * lanes;
  static constexpr int offset = 128;

  using Block = DotBlock<pixels>;
  static size_t weight_bytes(const Bytes& bytes, int count);
  static Range range(const float* values, ptrdiff_t count);
  static void quantise(const float* values, int count, const Levels& levels, uint8_t* to);
  static void convolve(const Bytes& bytes, const Block& block, const Epilogue& epilogue, float* y);
};

// Masks of 16 bytes in the order (group, block of 8 outputs, tap, 8 quads, 4 outputs); blocks are filled up.
size_t NeonDot::weight_bytes(const Bytes& bytes, int count) {
  return static_cast<size_t>(ceil_div(count, outputs)) * static_cast<size_t>(bytes.taps()) *
         static_cast<size_t>(ceil_div(bytes.quads, quads_per_mask)) * vectors * 16;
}

Range NeonDot::range(const float* values, ptrdiff_t count) {
  float32x4_t low = vdupq_n_f32(0.0F);
  float32x4_t high = low;
  for (; count >= lanes; count -= lanes, values += lanes) {
    low = vminnmq_f32(low, vld1q_f32(values));  // these ignore NaN
    high = vmaxnmq_f32(high, vld1q_f32(values));
  }
  Range range{vminnmvq_f32(low), vmaxnmvq_f32(high)};
  for (; count > 0; --count, ++values) {
    range.low = *values < range.low ? *values : range.low;
    range.high = *values > range.high ? *values : range.high;
  }
  return range;
}

// quantised() of int8/levels.h, with the same operations in the same order.
void NeonDot::quantise(const float* values, int count, const Levels& levels, uint8_t* to) {
  const float32x4_t zero = vdupq_n_f32(levels.zero);
  for (; count >= lanes; count -= lanes, values += lanes, to += lanes) {
    float32x4_t level = vaddq_f32(vmulq_n_f32(vld1q_f32(values), levels.inverse), zero);
    level = vminnmq_f32(vmaxnmq_f32(level, vdupq_n_f32(0.0F)), vdupq_n_f32(255.0F));  // NaN becomes 0
    const int32x4_t whole = vsubq_s32(vcvtnq_s32_f32(level), vdupq_n_s32(offset));
    const int16x4_t half = vmovn_s32(whole);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(half, half));
    const int32_t four = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    std::memcpy(to, &four, sizeof four);
  }
  for (; count > 0; --count, ++values, ++to) *to = static_cast<uint8_t>(quantised(*values, levels) - offset);
}

// The weights of one quad with their sign changed: 1 where the quad's bit is 0.
inline int8x16_t negated_weights(uint8x16_t mask, uint8x16_t bit) {
  return vreinterpretq_s8_u8(vorrq_u8(vtstq_u8(mask, bit), vdupq_n_u8(1)));
}

// Adds quad number `lane` of `quads`, which is number `first` + `lane` of the masks.
template <int pixels, int lane>
inline __attribute__((always_inline)) void add_quad(int32x4_t (&sums)[pixels][NeonDot::vectors],
                                                    const int8x16_t (&quads)[pixels], const uint8_t* masks,
                                                    int first) {
  const uint8x16_t bit = vdupq_n_u8(static_cast<uint8_t>(1U << (first + lane)));
  for (int v = 0; v < NeonDot::vectors; ++v) {
    int8x16_t weights = negated_weights(vld1q_u8(masks + v * 16), bit);
    asm volatile("" : "+w"(weights));  // made just before use: compilers would make all, and run out of registers
    for (int p = 0; p < pixels; ++p) sums[p][v] = vdotq_laneq_s32(sums[p][v], weights, quads[p], lane);
  }
}

// Adds up to 8 quads of one tap: four at a time, which are one load per pixel, then those that are left.
template <int pixels>
inline __attribute__((always_inline)) void add_mask(int32x4_t (&sums)[pixels][NeonDot::vectors],
                                                    const uint8_t* const* bytes, ptrdiff_t place, const uint8_t* masks,
                                                    int quads) {
  int8x16_t loaded[pixels];
  int done = 0;
#pragma GCC unroll 1
  for (; done + 4 <= quads; done += 4, place += 16) {
    for (int p = 0; p < pixels; ++p) loaded[p] = vreinterpretq_s8_u8(vld1q_u8(bytes[p] + place));
    add_quad<pixels, 0>(sums, loaded, masks, done);
    add_quad<pixels, 1>(sums, loaded, masks, done);
    add_quad<pixels, 2>(sums, loaded, masks, done);
    add_quad<pixels, 3>(sums, loaded, masks, done);
  }
  for (; done < quads; ++done, place += 4) {
    for (int p = 0; p < pixels; ++p) {
      int32_t quad = 0;
      std::memcpy(&quad, bytes[p] + place, sizeof quad);
      loaded[p] = vreinterpretq_s8_s32(vdupq_n_s32(quad));
    }
    add_quad<pixels, 0>(sums, loaded, masks, done);
  }
}

// finish() of contract.h for up to four outputs, in the same order of operations.
void store_sums(int32x4_t negated, const NeonDot::Block& block, int pixel, int first, ptrdiff_t place,
                const Epilogue& epilogue, float* y) {
  const Levels& levels = block.levels[pixel];
  const int zero = static_cast<int>(levels.zero) - NeonDot::offset;
  int32_t sums[lanes];
  vst1q_s32(sums, negated);
  for (int i = 0; i < smaller(lanes, block.outputs - first); ++i) {
    const float sum = levels.scale * static_cast<float>(-sums[i] - zero * block.weight_sums[first + i]);
    y[place + i] = finish(sum, block.channel + first + i, place + i, epilogue);
  }
}

template <int pixels>
void convolve_block(const Bytes& bytes, const NeonDot::Block& block, const Epilogue& epilogue, float* y) {
  int32x4_t sums[pixels][NeonDot::vectors];
  for (int p = 0; p < pixels; ++p)
    for (int v = 0; v < NeonDot::vectors; ++v) sums[p][v] = vdupq_n_s32(0);
  const uint8_t* windows[pixels];  // a copy, so that the compiler keeps them in registers
  for (int p = 0; p < pixels; ++p) windows[p] = block.bytes[p];

  const uint8_t* masks = block.weights;
  for (int row = 0; row < bytes.rows.kernel; ++row)
    for (int column = 0; column < bytes.columns.kernel; ++column) {
      ptrdiff_t place = row * bytes.row + column * bytes.pixel;
      for (int quads = bytes.quads; quads > 0; quads -= quads_per_mask) {
        add_mask<pixels>(sums, windows, place, masks, smaller(quads, quads_per_mask));
        place += quads_per_mask * 4;
        masks += NeonDot::vectors * 16;
      }
    }

  int32x4_t results[pixels][NeonDot::vectors];  // a copy for loops to index: clang would keep the sums in memory
  for (int p = 0; p < pixels; ++p)
    for (int v = 0; v < NeonDot::vectors; ++v) results[p][v] = sums[p][v];
  for (int p = 0; p < pixels; ++p)
    for (int v = 0; v < NeonDot::vectors; ++v)
      store_sums(results[p][v], block, p, v * lanes,
                 block.place + static_cast<ptrdiff_t>(p) * bytes.out_channels + v * lanes, epilogue, y);
}

void NeonDot::convolve(const Bytes& bytes, const Block& block, const Epilogue& epilogue, float* y) {
  static constexpr void (*by_pixels[pixels])(const Bytes&, const Block&, const Epilogue&, float*) = {
      convolve_block<1>, convolve_block<2>, convolve_block<3>, convolve_block<4>,
      convolve_block<5>, convolve_block<6>, convolve_block<7>, convolve_block<8>};
  by_pixels[block.pixels - 1](bytes, block, epilogue, y);
}

// The 16 bytes of 8 quads from number `first` on: byte 4 * output + channel, one bit per quad.
void pack_mask(const Bytes& bytes, const uint8_t* rows, size_t row_bytes, int outputs, int tap, int first,
               uint8_t* mask) {
  for (int output = 0; output < smaller(lanes, outputs); ++output)
    for (int i = 0; i < 4 * quads_per_mask && first * 4 + i < bytes.channels; ++i) {
      const size_t weight = static_cast<size_t>(tap) * static_cast<size_t>(bytes.channels) +
                            static_cast<size_t>(first * 4 + i);
      if (!weight_bit(rows + static_cast<size_t>(output) * row_bytes, weight)) continue;
      mask[4 * output + i % 4] = static_cast<uint8_t>(mask[4 * output + i % 4] | 1U << (i / 4));
    }
}

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const Bytes bytes = bytes_for(shape);
  const OutputBlocks blocks = output_blocks(shape, NeonDot::outputs);
  const size_t row_bytes = row_bytes_of(shape);
  std::memset(prepared, 0, dot_weight_bytes<NeonDot>(shape));
  sum_weights(shape, rows, static_cast<int32_t*>(prepared));
  uint8_t* to = static_cast<uint8_t*>(prepared) + weight_sum_bytes(shape);
  for (int block = 0; block < shape.groups * blocks.per_group; ++block)
    for (int tap = 0; tap < bytes.taps(); ++tap)
      for (int quad = 0; quad < bytes.quads; quad += quads_per_mask)
        for (int first = 0; first < NeonDot::outputs; first += lanes, to += 16) {
          const size_t channel = static_cast<size_t>(blocks.channel(block)) + static_cast<size_t>(first);
          pack_mask(bytes, rows + channel * row_bytes, row_bytes, blocks.count(block) - first, tap, quad, to);
        }
}

bool available() {
#if defined(__APPLE__)
  return true;  // all of Apple's 64-bit desktop processors have it
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(_WIN32)
  return IsProcessorFeaturePresent(PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE) != 0;
#else
  return false;
#endif
}

}  // namespace

extern const ConvKernel neon_dot_kernel;
const ConvKernel neon_dot_kernel = {"neon-dot",
                                    available,
                                    dot_supports,
                                    dot_weight_bytes<NeonDot>,
                                    prepare,
                                    dot_scratch_bytes,
                                    dot_stages,
                                    dot_tasks<NeonDot>,
                                    dot_run<NeonDot>,
                                    false,
                                    true};

}  // namespace adaste

#endif

// One-bit weights and 8-bit activations with AVX-512 VNNI (int8/dot.h).
//
// vpdpbusd multiplies four unsigned with four signed bytes and adds the products to a 32-bit sum: a quad of channels
// for 16 output channels, 64 multiply-adds. Weights stay packed: 64 bits are a mask that blends -1 and +1, done once
// for the 6 pixels of a block. The largest sum, 255 * 2^22, fits.
#if (defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)) || defined(ADASTE_SIMDE)

#include "kernels/x86/avx512/levels.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

struct Vnni : Avx512Levels {
  static constexpr int pixels = 6;
  static constexpr int vectors = 4;
  static constexpr int outputs = vectors * lanes;

  using Block = DotBlock<pixels>;
  static size_t weight_bytes(const Bytes& bytes, int count);
  static void convolve(const Bytes& bytes, const Block& block, const Epilogue& epilogue, float* y);
};

size_t Vnni::weight_bytes(const Bytes& bytes, int count) {
  return static_cast<size_t>(ceil_div(count, lanes)) * static_cast<size_t>(bytes.taps()) *
         static_cast<size_t>(bytes.quads) * sizeof(uint64_t);
}

__m512i broadcast_quad(const uint8_t* bytes) {
  int32_t quad = 0;
  std::memcpy(&quad, bytes, sizeof quad);
  return _mm512_set1_epi32(quad);
}

// Sums of levels to sums of activations, and these to outputs.
template <int pixels, int vectors>
void store_sums(const __m512i (&sums)[pixels][vectors], const Bytes& bytes, const Vnni::Block& block,
                const Epilogue& epilogue, float* y) {
  for (int v = 0; v < vectors; ++v) {
    const int count = smaller(lanes, block.outputs - v * lanes);
    alignas(64) int32_t weight_sums[lanes] = {};
    std::memcpy(weight_sums, block.weight_sums + v * lanes, static_cast<size_t>(count) * sizeof(int32_t));
    const __m512i weight_sum = _mm512_load_si512(weight_sums);
    const Finish finish(epilogue, block.channel + v * lanes, count);
    for (int p = 0; p < pixels; ++p) {
      const __m512i zero = _mm512_set1_epi32(static_cast<int>(block.levels[p].zero));
      const __m512i sum = _mm512_sub_epi32(sums[p][v], _mm512_mullo_epi32(zero, weight_sum));
      finish.store(_mm512_mul_ps(_mm512_set1_ps(block.levels[p].scale), _mm512_cvtepi32_ps(sum)),
                   block.place + static_cast<ptrdiff_t>(p) * bytes.out_channels + v * lanes, y);
    }
  }
}

template <int pixels, int vectors>
void convolve_block(const Bytes& bytes, const Vnni::Block& block, const Epilogue& epilogue, float* y) {
  const __m512i minus = _mm512_set1_epi8(-1);
  const __m512i plus = _mm512_set1_epi8(1);
  __m512i sums[pixels][vectors];
  for (int p = 0; p < pixels; ++p)
    for (int v = 0; v < vectors; ++v) sums[p][v] = _mm512_setzero_si512();
  const uint8_t* windows[pixels];  // a copy, so that the compiler keeps them in registers
  for (int p = 0; p < pixels; ++p) windows[p] = block.bytes[p];

  const auto* masks = reinterpret_cast<const uint64_t*>(block.weights);
  for (int row = 0; row < bytes.rows.kernel; ++row)
    for (int column = 0; column < bytes.columns.kernel; ++column) {
      const ptrdiff_t start = row * bytes.row + column * bytes.pixel;
      const ptrdiff_t end = start + static_cast<ptrdiff_t>(bytes.quads) * quad_bytes;
      for (ptrdiff_t place = start; place < end; place += quad_bytes, masks += vectors) {
        __m512i weights[vectors];
        for (int v = 0; v < vectors; ++v) weights[v] = _mm512_mask_blend_epi8(masks[v], minus, plus);
        for (int p = 0; p < pixels; ++p) {
          const __m512i quad = broadcast_quad(windows[p] + place);
          for (int v = 0; v < vectors; ++v) sums[p][v] = _mm512_dpbusd_epi32(sums[p][v], quad, weights[v]);
        }
      }
    }
  __m512i results[pixels][vectors];  // a copy for others to see: clang would keep the sums in memory
  for (int p = 0; p < pixels; ++p)
    for (int v = 0; v < vectors; ++v) results[p][v] = sums[p][v];
  store_sums<pixels, vectors>(results, bytes, block, epilogue, y);
}

using ConvolveBlock = void (*)(const Bytes&, const Vnni::Block&, const Epilogue&, float*);

template <int pixels>
constexpr ConvolveBlock by_vectors[Vnni::vectors] = {convolve_block<pixels, 1>, convolve_block<pixels, 2>,
                                                     convolve_block<pixels, 3>, convolve_block<pixels, 4>};

void Vnni::convolve(const Bytes& bytes, const Block& block, const Epilogue& epilogue, float* y) {
  static constexpr const ConvolveBlock* by_pixels[pixels] = {by_vectors<1>, by_vectors<2>, by_vectors<3>,
                                                             by_vectors<4>, by_vectors<5>, by_vectors<6>};
  by_pixels[block.pixels - 1][ceil_div(block.outputs, lanes) - 1](bytes, block, epilogue, y);
}

// In the order of use: (group, block of 64 outputs, tap, quad, 16 outputs of the block), behind the sums of weights.
void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const Bytes bytes = bytes_for(shape);
  const OutputBlocks blocks = output_blocks(shape, Vnni::outputs);
  const size_t row_bytes = row_bytes_of(shape);
  sum_weights(shape, rows, static_cast<int32_t*>(prepared));
  auto* to = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(prepared) + weight_sum_bytes(shape));
  for (int block = 0; block < shape.groups * blocks.per_group; ++block)
    for (int tap = 0; tap < bytes.taps(); ++tap)
      for (int quad = 0; quad < bytes.quads; ++quad)
        for (int first = 0; first < blocks.count(block); first += lanes) {
          const size_t channel = static_cast<size_t>(blocks.channel(block)) + static_cast<size_t>(first);
          const int count = smaller(lanes, blocks.count(block) - first);
          *to++ = quad_mask(shape, rows + channel * row_bytes, count, tap, quad);
        }
}

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  return has_avx512(avx512f + avx512bw + avx512vnni);
#endif
}

}  // namespace

extern const ConvKernel vnni_kernel;
const ConvKernel vnni_kernel = {"vnni",
                                available,
                                dot_supports,
                                dot_weight_bytes<Vnni>,
                                prepare,
                                dot_scratch_bytes,
                                dot_stages,
                                dot_tasks<Vnni>,
                                dot_run<Vnni>,
                                false,
                                true};

}  // namespace adaste

#endif

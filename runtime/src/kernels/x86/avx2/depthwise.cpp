// One-bit depthwise convolution on AVX2: every output channel sees one input channel, so vectors run along the channels
// and the sign of an input is flipped where its weight is -1.
#include <immintrin.h>

#include <algorithm>

#include "kernels/registry.h"
#include "kernels/window.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

bool supports(const ConvShape& shape) { return shape.channels == shape.groups && shape.out_channels == shape.groups; }

int blocks_of(const ConvShape& shape) { return (shape.channels + 7) / 8; }

// For each block of 8 channels and each tap 8 words: the sign bit is set for -1.
size_t weight_bytes(const ConvShape& shape) {
  return static_cast<size_t>(blocks_of(shape)) * 8 * window_size(shape) * sizeof(uint32_t);
}

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const size_t taps = window_size(shape), row_bytes = row_bytes_of(shape);
  auto* signs = static_cast<uint32_t*>(prepared);
  for (size_t block = 0; block < static_cast<size_t>(blocks_of(shape)); ++block)
    for (size_t tap = 0; tap < taps; ++tap)
      for (size_t channel = 8 * block; channel < 8 * block + 8; ++channel) {
        const bool inside = channel < static_cast<size_t>(shape.channels);
        *signs++ = inside && !weight_bit(rows + channel * row_bytes, tap) ? 0x80000000U : 0U;
      }
}

size_t scratch_bytes(const ConvShape& /*shape*/) { return 0; }

int stages(const ConvShape& /*shape*/) { return 1; }

int tasks(const ConvShape& shape, int /*stage*/) { return shape.batch * shape.out_height; }

// The first `count` channels of a block; all others are neither read nor written.
__m256i lanes_below(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

__m256 window_sum(const ConvShape& shape, const Window& window, __m256i mask, const uint32_t* signs) {
  __m256 sum = _mm256_setzero_ps();
  for (int tap = 0; tap < shape.kernel_h * shape.kernel_w; ++tap) {
    const float* pixel = pixel_of(shape, window, tap);
    if (pixel == nullptr) continue;
    const __m256 sign = _mm256_load_ps(reinterpret_cast<const float*>(signs) + static_cast<ptrdiff_t>(tap) * 8);
    sum = _mm256_add_ps(sum, _mm256_xor_ps(_mm256_maskload_ps(pixel, mask), sign));
  }
  return sum;
}

__m256 finished(__m256 sum, int channel, ptrdiff_t place, __m256i mask, const Epilogue& epilogue) {
  if (epilogue.scale != nullptr) sum = _mm256_mul_ps(sum, _mm256_maskload_ps(epilogue.scale + channel, mask));
  if (epilogue.shift != nullptr) sum = _mm256_add_ps(sum, _mm256_maskload_ps(epilogue.shift + channel, mask));
  if (epilogue.residual != nullptr) sum = _mm256_add_ps(sum, _mm256_maskload_ps(epilogue.residual + place, mask));
  return epilogue.relu ? _mm256_max_ps(_mm256_setzero_ps(), sum) : sum;
}

// One row of the output.
void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  const auto* signs = static_cast<const uint32_t*>(prepared);
  const ptrdiff_t block_signs = static_cast<ptrdiff_t>(window_size(shape)) * 8;
  for (int column = 0; column < shape.out_width; ++column) {
    const ptrdiff_t position = static_cast<ptrdiff_t>(task) * shape.out_width + column;
    for (int block = 0; block < blocks_of(shape); ++block) {
      const int channel = 8 * block;
      const __m256i mask = lanes_below(shape.channels - channel);
      const ptrdiff_t place = position * shape.out_channels + channel;
      const __m256 sum = window_sum(shape, window_at(shape, position, channel, x), mask, signs + block * block_signs);
      _mm256_maskstore_ps(y + place, mask, finished(sum, channel, place, mask, epilogue));
    }
  }
}

}  // namespace

const ConvKernel avx2_depthwise_kernel = {"avx2-depthwise", has_avx2, supports, weight_bytes, prepare,
                                          scratch_bytes,    stages,   tasks,    run};

}  // namespace adaste

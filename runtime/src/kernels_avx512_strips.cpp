// One-bit weights and float32 activations with AVX-512, with tables for strips of positions (strips.h): 64
// multiply-adds for each vector that is loaded and added. Of these processors do up to two in a cycle, where they
// shuffle one (kernels_avx512.cpp), but it takes 16 positions and enough outputs to pay for the tables.
#if defined(__AVX512F__) || defined(ADASTE_SIMDE)

#include "avx512.h"
#include "strips.h"

namespace adaste {
namespace {

struct Avx512Lanes {
  using Vector = __m512;
  using Word = uint32_t;
  static constexpr int lanes = 16;
  static constexpr int together = 8;
  static constexpr int most_outputs = 128;  // sums and tables take 16 KiB each
  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vector vector) { _mm512_storeu_ps(to, vector); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  static void transpose(Vector (&rows)[lanes]);
  static void finish(Vector values, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y) {
    Finish(epilogue, channel, lanes).store(values, place, y);
  }
};

// Squares of 4 by 4 are transposed within quarters of vectors, then the quarters among vectors.
void Avx512Lanes::transpose(Vector (&rows)[lanes]) {
  Vector pairs[lanes];  // quarters of two rows: columns 4q, 4q + 1 in even ones, 4q + 2, 4q + 3 in odd ones
  for (int i = 0; i < lanes; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  Vector fours[lanes];  // fours[4k + j]: in quarter q column 4q + j of rows 4k .. 4k + 3
  for (int i = 0; i < lanes; i += 4)
    for (int j = 0; j < 2; ++j) {
      const __m512d first = _mm512_castps_pd(pairs[i + j]);
      const __m512d second = _mm512_castps_pd(pairs[i + 2 + j]);
      fours[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(first, second));
      fours[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(first, second));
    }
  for (int j = 0; j < 4; ++j) {  // a transposition of quarters: row 4q + j takes quarter q of each of the four
    const Vector low01 = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0x44);
    const Vector high01 = _mm512_shuffle_f32x4(fours[j], fours[4 + j], 0xee);
    const Vector low23 = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0x44);
    const Vector high23 = _mm512_shuffle_f32x4(fours[8 + j], fours[12 + j], 0xee);
    rows[j] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    rows[4 + j] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    rows[8 + j] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    rows[12 + j] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  return __builtin_cpu_supports("avx512f") != 0;
#endif
}

// Windows of few channels are many short runs, and gathering these takes longer than looking them up.
bool supports(const ConvShape& shape) {
  return shape.channels / shape.groups >= 16 && shape.out_channels / shape.groups >= 32 &&
         static_cast<ptrdiff_t>(shape.out_height) * shape.out_width >= 12;
}

// Two vectors share the making of an address.
int vectors_for(const ConvShape& shape) { return position_count(shape) > Avx512Lanes::lanes ? 2 : 1; }

int tasks(const ConvShape& shape, int /*stage*/) {
  return strip_tasks<Avx512Lanes>(shape, vectors_for(shape) * Avx512Lanes::lanes);
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  if (vectors_for(shape) == 2)
    convolve_strip<Avx512Lanes, 2>(shape, task, x, prepared, epilogue, y);
  else
    convolve_strip<Avx512Lanes, 1>(shape, task, x, prepared, epilogue, y);
}

}  // namespace

extern const ConvKernel avx512_strips_kernel;
const ConvKernel avx512_strips_kernel = {"avx512-strips",
                                         available,
                                         supports,
                                         strip_weight_bytes<Avx512Lanes>,
                                         strip_prepare<Avx512Lanes>,
                                         strip_scratch_bytes,
                                         strip_stages,
                                         tasks,
                                         run};

}  // namespace adaste

#endif

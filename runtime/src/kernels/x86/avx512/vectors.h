// What the kernels for AVX-512 share: the intrinsics, and the store of 16 finished outputs.
#pragma once

#ifdef ADASTE_SIMDE
#include "testing/avx512.h"  // the instructions in plain C, to test the kernels on any processor
#else
#include <immintrin.h>
#endif

#include "kernels/contract.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"        // GCC's header starts vectors with themselves where it means
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // "undefined", and GCC 12 warns of it in every file
#endif

namespace adaste {
namespace {

constexpr int lanes = 16;  // floats of a vector

// The first `count` of 16 outputs.
inline __mmask16 first_lanes(int count) { return static_cast<__mmask16>(count < lanes ? (1U << count) - 1U : 0xffffU); }

// finish() of contract.h for the 16 outputs from `channel` on: what is the same for all pixels is loaded once. Product
// and sums are rounded one by one, as there: 8-bit kernels promise the same bits as the scalar one.
class Finish {
 public:
  Finish(const Epilogue& epilogue, int channel, int count)
      : mask_(first_lanes(count)),
        scale_(epilogue.scale == nullptr ? _mm512_set1_ps(1.0F)
                                         : _mm512_maskz_loadu_ps(mask_, epilogue.scale + channel)),
        shift_(epilogue.shift == nullptr ? _mm512_setzero_ps()
                                         : _mm512_maskz_loadu_ps(mask_, epilogue.shift + channel)),
        floor_(_mm512_set1_ps(epilogue.relu ? 0.0F : -__builtin_inff())),
        residual_(epilogue.residual) {}

  // Writes to y[place] and after.
  void store(__m512 sums, ptrdiff_t place, float* y) const {
    __m512 values = _mm512_add_ps(_mm512_mul_ps(scale_, sums), shift_);
    if (residual_ != nullptr) values = _mm512_add_ps(values, _mm512_maskz_loadu_ps(mask_, residual_ + place));
    _mm512_mask_storeu_ps(y + place, mask_, _mm512_max_ps(floor_, values));  // in this order NaN stays NaN
  }

 private:
  __mmask16 mask_;
  __m512 scale_, shift_, floor_;
  const float* residual_;
};

}  // namespace
}  // namespace adaste

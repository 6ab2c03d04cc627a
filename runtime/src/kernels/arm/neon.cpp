// One-bit weights and float32 activations with NEON, with tables for strips of positions (strips.h): 16 multiply-adds
// for each vector that is loaded and added. Look-ups within registers (tbl) would need no transposition, but they work
// on bytes, and their speed differs much among cores. A strip has 16 positions, or 8 or 4 where there are no more.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/strips.h"

namespace adaste {
namespace {

struct Neon {
  using Vector = float32x4_t;
  using Element = float;
  using Input = float;
  static constexpr int lanes = 4;
  static constexpr int together = 16;
  static constexpr int most_outputs = 256;  // sums and tables take 16 KiB each
  static Vector zero() { return vdupq_n_f32(0.0F); }
  static Vector load(const float* from) { return vld1q_f32(from); }
  static Vector read(const float* from) { return load(from); }
  static void store(float* to, Vector vector) { vst1q_f32(to, vector); }
  static Vector add(Vector a, Vector b) { return vaddq_f32(a, b); }
  static Vector subtract(Vector a, Vector b) { return vsubq_f32(a, b); }
  static void transpose(Vector (&rows)[lanes]);
  static void finish(Vector values, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y);
};

void Neon::transpose(Vector (&rows)[lanes]) {
  const float32x4x2_t even = vzipq_f32(rows[0], rows[2]);
  const float32x4x2_t odd = vzipq_f32(rows[1], rows[3]);
  const float32x4x2_t first = vzipq_f32(even.val[0], odd.val[0]);
  const float32x4x2_t second = vzipq_f32(even.val[1], odd.val[1]);
  rows[0] = first.val[0];
  rows[1] = first.val[1];
  rows[2] = second.val[0];
  rows[3] = second.val[1];
}

void Neon::finish(Vector values, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y) {
  if (epilogue.scale != nullptr) values = vmulq_f32(vld1q_f32(epilogue.scale + channel), values);
  values = vaddq_f32(values, epilogue.shift != nullptr ? vld1q_f32(epilogue.shift + channel) : vdupq_n_f32(0.0F));
  if (epilogue.residual != nullptr) values = vaddq_f32(values, vld1q_f32(epilogue.residual + place));
  if (epilogue.relu) values = vmaxq_f32(values, vdupq_n_f32(0.0F));
  vst1q_f32(y + place, values);
}

bool available() { return true; }  // part of every 64-bit ARM processor

int vectors_for(const ConvShape& shape) {
  return positions(shape) > 2 * Neon::lanes ? 4 : positions(shape) > Neon::lanes ? 2 : 1;
}

int tasks(const ConvShape& shape, int /*stage*/) { return strip_tasks<Neon>(shape, vectors_for(shape) * Neon::lanes); }

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  switch (vectors_for(shape)) {
    case 4: return convolve_strip<Neon, 4>(shape, task, x, prepared, epilogue, y);
    case 2: return convolve_strip<Neon, 2>(shape, task, x, prepared, epilogue, y);
    default: return convolve_strip<Neon, 1>(shape, task, x, prepared, epilogue, y);
  }
}

}  // namespace

extern const ConvKernel neon_kernel;
const ConvKernel neon_kernel = {"neon",
                                available,
                                enough_outputs,
                                strip_weight_bytes,
                                strip_prepare,
                                strip_scratch_bytes,
                                strip_stages,
                                tasks,
                                run};

}  // namespace adaste

#endif

// Vectors of WebAssembly, as kernels/strips.h wants them for float32.
#pragma once

#include <wasm_simd128.h>

#include "kernels/contract.h"

namespace adaste {
namespace {

struct Floats {
  using Vector = v128_t;
  using Element = float;
  using Input = float;
  static constexpr int lanes = 4;
  static constexpr int together = 4;
  static constexpr int most_outputs = 256;  // sums and tables take 16 KiB each

  static Vector zero() { return wasm_f32x4_const_splat(0.0F); }
  static Vector load(const float* from) { return wasm_v128_load(from); }
  static Vector read(const float* from) { return wasm_v128_load(from); }
  static void store(float* to, Vector vector) { wasm_v128_store(to, vector); }
  static Vector add(Vector a, Vector b) { return wasm_f32x4_add(a, b); }
  static Vector subtract(Vector a, Vector b) { return wasm_f32x4_sub(a, b); }

  static void transpose(Vector (&rows)[lanes]) {
    const Vector low0 = wasm_i32x4_shuffle(rows[0], rows[1], 0, 4, 1, 5);
    const Vector high0 = wasm_i32x4_shuffle(rows[0], rows[1], 2, 6, 3, 7);
    const Vector low1 = wasm_i32x4_shuffle(rows[2], rows[3], 0, 4, 1, 5);
    const Vector high1 = wasm_i32x4_shuffle(rows[2], rows[3], 2, 6, 3, 7);
    rows[0] = wasm_i64x2_shuffle(low0, low1, 0, 2);
    rows[1] = wasm_i64x2_shuffle(low0, low1, 1, 3);
    rows[2] = wasm_i64x2_shuffle(high0, high1, 0, 2);
    rows[3] = wasm_i64x2_shuffle(high0, high1, 1, 3);
  }

  // pmax(value, 0) is value < 0 ? 0 : value.
  static void finish(Vector values, int channel, ptrdiff_t place, const Epilogue& epilogue, float* y) {
    if (epilogue.scale != nullptr) values = wasm_f32x4_mul(wasm_v128_load(epilogue.scale + channel), values);
    values = wasm_f32x4_add(values, epilogue.shift != nullptr ? wasm_v128_load(epilogue.shift + channel) : zero());
    if (epilogue.residual != nullptr) values = wasm_f32x4_add(values, wasm_v128_load(epilogue.residual + place));
    if (epilogue.relu) values = wasm_f32x4_pmax(values, zero());
    wasm_v128_store(y + place, values);
  }
};

}  // namespace
}  // namespace adaste

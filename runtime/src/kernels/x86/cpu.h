// What this processor can do and its system lets programs use. Not __builtin_cpu_supports, whose data are missing in the
// libraries of some compilers (zig's, and clang's for MSVC).
#pragma once

#ifndef ADASTE_SIMDE  // emulated instructions are everywhere

#include <cpuid.h>

#include <cstdint>

namespace adaste {

// Bits of cpuid's leaf 7; a sum of features is all of them.
struct CpuFeatures {
  uint32_t ebx, ecx;

  constexpr CpuFeatures operator+(const CpuFeatures& other) const { return {ebx | other.ebx, ecx | other.ecx}; }
};

constexpr CpuFeatures avx512f = {1U << 16, 0};
constexpr CpuFeatures avx512bw = {1U << 30, 0};
constexpr CpuFeatures avx512vnni = {0, 1U << 11};

// Functions of each file's own: files are compiled for different processors, and linkers take any of several copies.
static inline bool cpu_has(CpuFeatures wanted, uint32_t saved_registers) {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  constexpr uint32_t fma = 1U << 12;
  constexpr uint32_t osxsave = 1U << 27;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (fma | osxsave)) != (fma | osxsave)) return false;
  asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  if ((a & saved_registers) != saved_registers) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  return (b & wanted.ebx) == wanted.ebx && (c & wanted.ecx) == wanted.ecx;
}

// Made by AMD: whose processors with vectors of 512 bits do two shuffles in a cycle, those of Intel one.
static inline bool is_amd() {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  constexpr uint32_t last_letters = 0x444d4163;  // of AuthenticAMD
  return __get_cpuid(0, &a, &b, &c, &d) != 0 && c == last_letters;
}

// AVX2, FMA and BMI2; the system saves registers of 256 bits.
static inline bool has_avx2() { return cpu_has({1U << 5 | 1U << 8, 0}, 0x6); }

// These parts of AVX-512; the system saves registers of 512 bits and masks.
static inline bool has_avx512(CpuFeatures wanted) { return cpu_has(wanted, 0xe6); }

}  // namespace adaste

#endif

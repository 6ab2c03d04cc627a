// Intel's matrix extension: the intrinsics, and whether this process may use them.
#pragma once

#ifdef ADASTE_SIMDE
#include "testing/amx.h"  // the instructions in plain C, to test the kernel on any processor
#else
#include <cpuid.h>
#include <immintrin.h>
#endif

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

namespace adaste {
namespace {

// Tiles are 16 rows of 64 bytes at most.
constexpr int tile_rows = 16;
constexpr int tile_row_bytes = 64;
constexpr int tile_bytes = tile_rows * tile_row_bytes;

// The operand of ldtilecfg.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfiguration) == 64);

// GCC's intrinsics for loads do not say that they read memory: this makes the compiler write what it still holds back.
inline void written(const void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

#if defined(__linux__) && !defined(ADASTE_SIMDE)

// The registers are large, so the system must support them (bits 17 and 18 of XCR0) and the process must ask to use
// them; the answer holds for all its threads.
inline bool has_amx() {
  constexpr unsigned tile = 1U << 24;
  constexpr unsigned int8 = 1U << 25;
  constexpr unsigned saved = 3U << 17;
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;               // XFEATURE_XTILEDATA
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & tile) == 0 || (d & int8) == 0) return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (a & saved) == saved && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

#elif !defined(ADASTE_SIMDE)

inline bool has_amx() { return false; }

#endif

}  // namespace
}  // namespace adaste

// Memory that notices who writes, or under AddressSanitizer reads, beyond its ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) static_cast<void>(0)
#endif

// Memory with guard zones on both sides: poisoned under AddressSanitizer, else filled with a pattern that is checked.
class Guarded {
 public:
  Guarded(size_t bytes, size_t alignment) : bytes_(bytes), all_(bytes + 2 * guard + alignment, pattern) {
    const auto address = reinterpret_cast<uintptr_t>(all_.data()) + guard;
    start_ = all_.data() + guard + (alignment - address % alignment) % alignment;
    ASAN_POISON_MEMORY_REGION(all_.data(), static_cast<size_t>(start_ - all_.data()));
    ASAN_POISON_MEMORY_REGION(start_ + bytes_, guard);
  }
  ~Guarded() { ASAN_UNPOISON_MEMORY_REGION(all_.data(), all_.size()); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  template <class T>
  T* as() { return reinterpret_cast<T*>(start_); }
  size_t bytes() const { return bytes_; }

  bool intact() {
    ASAN_UNPOISON_MEMORY_REGION(all_.data(), all_.size());
    return std::all_of(all_.data(), start_, is_pattern) &&
           std::all_of(start_ + bytes_, start_ + bytes_ + guard, is_pattern);
  }

 private:
  static constexpr size_t guard = 256;
  static constexpr uint8_t pattern = 0xa5;
  static bool is_pattern(uint8_t byte) { return byte == pattern; }
  size_t bytes_;
  std::vector<uint8_t> all_;
  uint8_t* start_;
};

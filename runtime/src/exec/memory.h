// A block of memory aligned to cache lines, which grows and never shrinks.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace adaste {

class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes) { reserve(bytes); }
  ~Memory() { release(); }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // At least this much; what was in it is lost if it must grow.
  void reserve(size_t bytes) {
    if (bytes <= bytes_) return;
    if (bytes > ~size_t{0} - line) throw std::bad_alloc();
    const size_t rounded = (bytes + line - 1) / line * line;
    release();
    data_ = ::operator new(rounded, std::align_val_t(line));
    bytes_ = rounded;
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t line = 64;

  void release() {
    ::operator delete(std::exchange(data_, nullptr), std::align_val_t(line));
    bytes_ = 0;
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace adaste

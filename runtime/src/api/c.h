// What the files of the C interface share.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "adaste_runtime.h"
#include "base/error.h"
#include "exec/sizes.h"

struct adaste_network {
  adaste::Networks networks;
};

namespace adaste::c {

// The message of this thread's last failure.
std::string& last_error();

// No exception may leave a C function, and no pointer of its caller is used before it was looked at.
template <class Result, class Function>
Result guarded(Result failure, const Function& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    last_error() = "not enough memory";
  } catch (const std::exception& error) {
    last_error() = error.what();
  }
  return failure;
}

inline void require_given(const void* pointer, std::string_view name) {
  require(pointer != nullptr, "the ", name, " is NULL");
}

}  // namespace adaste::c

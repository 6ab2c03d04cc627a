// The one exception for what a user can get wrong: a file, an image, an option. Its message says what and why.
#pragma once

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/utf8.h"

namespace adaste {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The parts of messages. No streams: they depend on the locale, and crash in a module that brings its own copy of the
// standard library.
// Parts may come from a stranger's file, and messages are printed: what a terminal would obey is escaped. Strings are
// names from a file and are cut as well; views and literals are not.
inline void append(std::string& message, std::string_view part) { append_printable(message, part); }
inline void append(std::string& message, const char* part) { append_printable(message, part); }
inline void append(std::string& message, const std::string& part) {
  constexpr size_t most = 100;
  append_printable(message, std::string_view(part).substr(0, most));
  if (part.size() > most) message += "...";
}

// Whole numbers alone: std::to_chars for a double would be most of the runtime in WebAssembly.
template <class Number, std::enable_if_t<std::is_integral_v<Number>, int> = 0>
void append(std::string& message, Number number) {
  static_assert(!std::is_same_v<Number, bool> && sizeof(Number) > 1, "neither truth nor letters are numbers");
  char digits[24];
  message.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
}

template <class... Parts>
std::string text(const Parts&... parts) {
  std::string message;
  (append(message, parts), ...);
  return message;
}

template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(text(parts...));
}

template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) fail(parts...);
}

}  // namespace adaste

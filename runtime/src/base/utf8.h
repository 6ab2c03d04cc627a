// UTF-8, as far as the names in a file and messages about them need it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace adaste {

void append_utf8(std::string& to, uint32_t code_point);

// Is it well-formed: no stray bytes, no overlong forms, no surrogates, nothing above U+10FFFF?
bool valid_utf8(std::string_view text);

// Appends `text` with escapes for control characters, for those that change the direction of text, and for bytes that
// are no UTF-8. What was escaped once stays as it is.
void append_printable(std::string& to, std::string_view text);

}  // namespace adaste

#include "base/utf8.h"

namespace adaste {

void append_utf8(std::string& to, uint32_t code_point) {
  const auto byte = [&](uint32_t value) { to.push_back(static_cast<char>(value)); };
  const auto rest = [&](int shift) { byte(0x80U | ((code_point >> shift) & 0x3FU)); };
  if (code_point < 0x80) {
    byte(code_point);
  } else if (code_point < 0x800) {
    byte(0xC0U | (code_point >> 6));
    rest(0);
  } else if (code_point < 0x10000) {
    byte(0xE0U | (code_point >> 12));
    rest(6);
    rest(0);
  } else {
    byte(0xF0U | (code_point >> 18));
    rest(12);
    rest(6);
    rest(0);
  }
}

namespace {

// The length of the character that `text` begins with, which becomes `code_point`; 0 where it is not well-formed.
size_t first_character(std::string_view text, uint32_t& code_point) {
  const auto lead = static_cast<unsigned char>(text[0]);
  code_point = lead;
  if (lead < 0x80) return 1;
  const size_t rest = lead >= 0xF0 && lead <= 0xF4  ? 3
                      : lead >= 0xE0 && lead < 0xF0 ? 2
                      : lead >= 0xC2 && lead < 0xE0 ? 1
                                                    : 0;
  if (rest == 0 || rest >= text.size()) return 0;
  code_point = lead & (0x3FU >> rest);
  for (size_t i = 1; i <= rest; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80) return 0;
    code_point = (code_point << 6) | (next & 0x3FU);
  }
  constexpr uint32_t smallest[4] = {0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  return code_point < smallest[rest] || code_point > 0x10FFFF || surrogate ? 0 : rest + 1;
}

bool printable(uint32_t code_point) {
  const auto within = [code_point](uint32_t first, uint32_t last) { return code_point >= first && code_point <= last; };
  return !(within(0, 0x1F) || within(0x7F, 0x9F) || within(0x200B, 0x200F) || within(0x2028, 0x202E) ||
           within(0x2060, 0x206F) || code_point == 0xFEFF);
}

void append_escape(std::string& to, uint32_t code_point) {
  const int digits = code_point < 0x100 ? 2 : 4;
  to += digits == 2 ? "\\x" : "\\u";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    to.push_back("0123456789abcdef"[(code_point >> shift) & 15U]);
}

}  // namespace

bool valid_utf8(std::string_view text) {
  uint32_t code_point = 0;
  while (!text.empty()) {
    const size_t length = first_character(text, code_point);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void append_printable(std::string& to, std::string_view text) {
  uint32_t code_point = 0;
  while (!text.empty()) {
    const size_t length = first_character(text, code_point);
    if (length == 0)
      append_escape(to, static_cast<unsigned char>(text[0]));
    else if (!printable(code_point))
      append_escape(to, code_point);
    else
      to += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

}  // namespace adaste

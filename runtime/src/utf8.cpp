#include "utf8.h"

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

bool valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at++]);
    if (lead < 0x80) continue;
    const int rest = lead >= 0xF0 && lead <= 0xF4  ? 3
                     : lead >= 0xE0 && lead < 0xF0 ? 2
                     : lead >= 0xC2 && lead < 0xE0 ? 1
                                                   : 0;
    if (rest == 0) return false;
    uint32_t code_point = lead & (0x3FU >> rest);
    for (int i = 0; i < rest; ++i) {
      if (at == text.size()) return false;
      const auto next = static_cast<unsigned char>(text[at++]);
      if ((next & 0xC0U) != 0x80) return false;
      code_point = (code_point << 6) | (next & 0x3FU);
    }
    constexpr uint32_t smallest[4] = {0, 0x80, 0x800, 0x10000};
    if (code_point < smallest[rest] || code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF))
      return false;
  }
  return true;
}

}  // namespace adaste

#include "format/json.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"

namespace adaste {
namespace {

constexpr int most_levels = 16;
constexpr size_t most_values = 500000;                 // a value takes about 100 bytes: 50 MB
constexpr double exact_integers = 9007199254740992.0;  // 2^53

}  // namespace

bool Json::is_integer() const { return whole_ && std::abs(number_) <= exact_integers; }

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : members_)
    if (name == key) return &value;
  return nullptr;
}

void Json::set_integer(int64_t value) {
  number_ = static_cast<double>(value);
  whole_ = true;
  string_ = text(value);
}

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Json document() {
    Json result = value(0);
    skip_space();
    if (at_ != text_.size()) wrong("text after the value");
    return result;
  }

 private:
  [[noreturn]] void wrong(const char* what) const { fail("not valid JSON: ", what, " at byte ", at_); }

  bool ended() const { return at_ == text_.size(); }
  char peek() const { return ended() ? '\0' : text_[at_]; }
  bool digit_next() const { return peek() >= '0' && peek() <= '9'; }

  void skip_space() {
    while (!ended() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }

  bool take(char wanted) {
    skip_space();
    if (ended() || peek() != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted, const char* otherwise) {
    if (!take(wanted)) wrong(otherwise);
  }

  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json value(int level) {
    if (level >= most_levels) wrong("too many levels");
    if (++values_ > most_values) wrong("too many values");
    skip_space();
    Json result;
    switch (peek()) {
      case '{': object(result, level); break;
      case '[': array(result, level); break;
      case '"':
        result.kind_ = Json::Kind::string;
        result.string_ = string();
        break;
      default: word_or_number(result);
    }
    return result;
  }

  void word_or_number(Json& result) {
    if (take_word("null")) return;
    const bool yes = take_word("true");
    if (yes || take_word("false")) {
      result.kind_ = Json::Kind::boolean;
      result.boolean_ = yes;
    } else {
      const size_t start = at_;
      result.kind_ = Json::Kind::number;
      result.number_ = number(result.whole_);
      result.string_ = text_.substr(start, at_ - start);
    }
  }

  void array(Json& result, int level) {
    result.kind_ = Json::Kind::array;
    ++at_;
    if (take(']')) return;
    do result.items_.push_back(value(level + 1));
    while (take(','));
    expect(']', "a list without end");
  }

  void object(Json& result, int level) {
    result.kind_ = Json::Kind::object;
    ++at_;
    if (take('}')) return;
    std::unordered_set<std::string> seen;
    do {
      skip_space();
      if (peek() != '"') wrong("a key that is no string");
      std::string key = string();
      if (!seen.insert(key).second) wrong("a key for the second time");
      expect(':', "a key without a value");
      result.members_.emplace_back(std::move(key), value(level + 1));
    } while (take(','));
    expect('}', "an object without end");
  }

  // Digits become an integer and a power of ten: no locale, and the same value with every standard library.
  double number(bool& whole) {
    const bool negative = peek() == '-';
    if (negative) ++at_;
    if (!digit_next()) wrong("something that is no value");
    const bool leading_zero = peek() == '0';
    uint64_t digits = 0;
    int exponent = 0;
    const size_t start = at_;
    while (digit_next()) append_digit(digits, exponent, 1);
    if (leading_zero && at_ - start > 1) wrong("a number with a leading zero");
    whole = peek() != '.' && peek() != 'e' && peek() != 'E';
    if (peek() == '.') {
      ++at_;
      if (!digit_next()) wrong("a number without digits after its point");
      while (digit_next()) append_digit(digits, exponent, 0);
    }
    if (peek() == 'e' || peek() == 'E') exponent += written_exponent();
    const double size = scaled(static_cast<double>(digits), exponent);
    if (!std::isfinite(size)) wrong("a number that is too large");
    return negative ? -size : size;
  }

  // One more digit: a digit that no longer fits counts by its place alone.
  void append_digit(uint64_t& digits, int& exponent, int before_point) {
    constexpr uint64_t full = 100000000000000000ULL;  // 10^17: another digit still fits
    const auto digit = static_cast<uint64_t>(text_[at_++] - '0');
    if (at_ > text_.size()) wrong("a number without end");
    if (digits < full) {
      digits = digits * 10 + digit;
      exponent -= 1 - before_point;
    } else {
      exponent += before_point;
    }
  }

  int written_exponent() {
    ++at_;
    const bool negative = peek() == '-';
    if (negative || peek() == '+') ++at_;
    if (!digit_next()) wrong("a number without digits in its exponent");
    int exponent = 0;
    while (digit_next()) {
      exponent = exponent < 100000 ? exponent * 10 + (peek() - '0') : exponent;
      ++at_;
    }
    return negative ? -exponent : exponent;
  }

  static double scaled(double digits, int exponent) {
    if (digits == 0) return 0;  // times infinity it would be none
    // In two steps below the smallest power: 10^-340 alone would be 0.
    if (exponent < -300) return digits / 1e300 / power_of_ten(-exponent - 300);
    return exponent < 0 ? digits / power_of_ten(-exponent) : digits * power_of_ten(exponent);
  }

  // Exact to 10^22. Not std::pow: it differs between libraries, and its tables are 7 KB of the runtime in WebAssembly.
  static double power_of_ten(int exponent) {
    constexpr double powers[] = {1e1, 1e2, 1e4, 1e8, 1e16, 1e32, 1e64, 1e128, 1e256};
    constexpr int infinite = 511;  // all of them
    double result = 1;
    int left = std::min(exponent, infinite);
    for (const double power : powers) {
      if (left % 2 != 0) result *= power;
      left /= 2;
    }
    return result;
  }

  std::string string() {
    std::string result;
    for (++at_;; ++at_) {
      if (ended()) wrong("a string without end");
      const char letter = peek();
      if (letter == '"') break;
      if (static_cast<unsigned char>(letter) < 0x20) wrong("a control character in a string");
      if (letter == '\\')
        escape(result);
      else
        result.push_back(letter);
    }
    ++at_;
    if (!valid_utf8(result)) wrong("a string that is not UTF-8");
    return result;
  }

  // Leaves the position on the last character of the escape.
  void escape(std::string& result) {
    ++at_;
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (peek() == 'u') return append_utf8(result, escaped_code_point());
    const size_t which = ended() ? std::string_view::npos : names.find(peek());
    if (which == std::string_view::npos) wrong("an unknown escape");
    result.push_back(meanings[which]);
  }

  uint32_t escaped_code_point() {
    const uint32_t first = four_digits();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || text_.substr(at_ + 1, 2) != "\\u") wrong("half of a surrogate pair");
    at_ += 2;
    const uint32_t second = four_digits();
    if (second < 0xDC00 || second > 0xDFFF) wrong("half of a surrogate pair");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  // The digits behind the 'u' at the position; leaves it on the last.
  uint32_t four_digits() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      ++at_;
      constexpr std::string_view digits = "0123456789abcdef";
      const char letter = peek() >= 'A' && peek() <= 'F' ? static_cast<char>(peek() - 'A' + 'a') : peek();
      const size_t digit = ended() ? std::string_view::npos : digits.find(letter);
      if (digit == std::string_view::npos) wrong("an escape without four digits");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t values_ = 0;
};

Json Json::parse(std::string_view text) { return JsonParser(text).document(); }

}  // namespace adaste

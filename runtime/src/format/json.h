// A strict JSON reader with bounds: whatever the text, it ends with a value or an Error, in time and memory that its
// length bounds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaste {

class Json {
 public:
  enum class Kind { null, boolean, number, string, array, object };
  using Member = std::pair<std::string, Json>;

  // The value a text stands for. Keys that occur twice, values beyond the bounds, and anything after the value but
  // white space are errors.
  static Json parse(std::string_view text);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }

  bool boolean() const { return boolean_; }
  double number() const { return number_; }
  const std::string& string() const { return string_; }  // of a number, how it was written
  const std::vector<Json>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  std::vector<Json>& items() { return items_; }

  // Is it a whole number, written without fraction or exponent, that a double holds exactly?
  bool is_integer() const;
  int64_t integer() const { return static_cast<int64_t>(number_); }

  // The value of a key; null where there is none.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key) { return const_cast<Json*>(static_cast<const Json*>(this)->find(key)); }

  // Makes a whole number another one, as if that had been written.
  void set_integer(int64_t value);

 private:
  friend class JsonParser;

  Kind kind_ = Kind::null;
  bool boolean_ = false;
  double number_ = 0;
  bool whole_ = false;
  std::string string_;
  std::vector<Json> items_;
  std::vector<Member> members_;
};

}  // namespace adaste

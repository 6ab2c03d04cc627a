// Typed access to the fields of a JSON object, with errors that name the object and the field.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "format/json.h"

namespace adaste {

class Fields {
 public:
  // `what` names the object in errors.
  Fields(const Json& object, std::string what);

  // An error where there is a key that is among neither.
  void allow_only(std::initializer_list<std::string_view> keys,
                  std::initializer_list<std::string_view> more = {}) const;

  std::string_view what() const { return what_; }
  bool has(std::string_view key) const { return object_.find(key) != nullptr; }
  const Json& any(std::string_view key) const;

  bool truth(std::string_view key) const;
  int whole(std::string_view key, int least, int most) const;
  std::vector<int> wholes(std::string_view key, int least, int most) const;
  std::array<int, 2> pair(std::string_view key, int least, int most) const;
  const std::string& string(std::string_view key) const;
  std::vector<std::string> strings(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  float real(std::string_view key) const;  // an error where float32 does not hold it

 private:
  const Json& of(std::string_view key, Json::Kind kind, const char* wanted) const;
  int checked(const Json& value, std::string_view key, int least, int most) const;

  const Json& object_;
  std::string what_;
};

}  // namespace adaste

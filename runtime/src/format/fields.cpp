#include "format/fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace adaste {

Fields::Fields(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
  require(object.is(Json::Kind::object), this->what(), " must be an object");
}

void Fields::allow_only(std::initializer_list<std::string_view> keys,
                        std::initializer_list<std::string_view> more) const {
  const auto among = [](std::initializer_list<std::string_view> all, const std::string& key) {
    return std::find(all.begin(), all.end(), key) != all.end();
  };
  for (const auto& [key, value] : object_.members())
    require(among(keys, key) || among(more, key), what(), " has an unknown key '", key, "'");
}

const Json& Fields::any(std::string_view key) const {
  const Json* value = object_.find(key);
  require(value != nullptr, what(), " lacks the key '", key, "'");
  return *value;
}

const Json& Fields::of(std::string_view key, Json::Kind kind, const char* wanted) const {
  const Json& value = any(key);
  require(value.is(kind), "'", key, "' of ", what(), " must be ", wanted);
  return value;
}

bool Fields::truth(std::string_view key) const { return of(key, Json::Kind::boolean, "true or false").boolean(); }

int Fields::checked(const Json& value, std::string_view key, int least, int most) const {
  require(value.is_integer(), "'", key, "' of ", what(), " must be a whole number");
  require(value.integer() >= least && value.integer() <= most, "'", key, "' of ", what(), " must be ", least, " to ",
          most, ", got ", value.integer());
  return static_cast<int>(value.integer());
}

int Fields::whole(std::string_view key, int least, int most) const { return checked(any(key), key, least, most); }

std::vector<int> Fields::wholes(std::string_view key, int least, int most) const {
  std::vector<int> result;
  for (const Json& item : of(key, Json::Kind::array, "a list of whole numbers").items())
    result.push_back(checked(item, key, least, most));
  return result;
}

std::array<int, 2> Fields::pair(std::string_view key, int least, int most) const {
  const std::vector<int> values = wholes(key, least, most);
  require(values.size() == 2, "'", key, "' of ", what(), " must be a list of two whole numbers");
  return {values[0], values[1]};
}

const std::string& Fields::string(std::string_view key) const {
  return of(key, Json::Kind::string, "a string").string();
}

std::vector<std::string> Fields::strings(std::string_view key) const {
  std::vector<std::string> result;
  for (const Json& item : of(key, Json::Kind::array, "a list of strings").items()) {
    require(item.is(Json::Kind::string), "'", key, "' of ", what(), " must be a list of strings");
    result.push_back(item.string());
  }
  return result;
}

std::vector<double> Fields::numbers(std::string_view key) const {
  std::vector<double> result;
  for (const Json& item : of(key, Json::Kind::array, "a list of numbers").items()) {
    require(item.is(Json::Kind::number), "'", key, "' of ", what(), " must be a list of numbers");
    result.push_back(item.number());
  }
  return result;
}

float Fields::real(std::string_view key) const {
  const Json& value = of(key, Json::Kind::number, "a number");
  const double number = value.number();
  require(std::abs(number) <= 3.4028234e38, "'", key, "' of ", what(), " must be a number that float32 holds, got ",
          value.string());
  return static_cast<float>(number);
}

}  // namespace adaste

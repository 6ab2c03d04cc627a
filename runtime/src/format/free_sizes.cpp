#include "format/free_sizes.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "format/graph.h"

namespace adaste {
namespace {

constexpr size_t most_rules = 10000;
constexpr const char* keys[] = {"sides", "start", "count", "size", "before", "after"};

int64_t number(const FreeSizes::Rule& rule, const std::vector<int>& sizes) {
  int64_t result = rule.times;  // three factors of at most 2^27 each are checked for what they may be
  for (const int of : rule.of) {
    if (of < 0) continue;
    result *= sizes[static_cast<size_t>(of)];
    if (result > int64_t{largest} * 2) return int64_t{largest} * 2 + rule.plus;
  }
  return result + rule.plus;
}

// How the size of an input follows from a free one, for messages.
std::string formula(const FreeSizes::Rule& rule, const std::string& name) {
  std::string message = rule.times == 1 ? text("'", name, "'") : text(rule.times, " '", name, "'");
  if (rule.plus != 0) message += text(rule.plus < 0 ? " - " : " + ", std::abs(rule.plus));
  return message;
}

FreeSizes::Rule read_rule(const Json& json, const std::string& what, const FreeSizes& free) {
  const Fields fields(json, what);
  fields.allow_only({"at", "of", "times", "plus"});
  const int times = fields.whole("times", 1, largest);
  FreeSizes::Rule rule{"", "", -1, {-1, -1}, times, fields.whole("plus", -largest, largest)};
  const Json& at = fields.any("at");
  require(at.is(Json::Kind::array) && at.items().size() == 3 && at.items()[0].is(Json::Kind::string) &&
              at.items()[1].is(Json::Kind::string),
          "'at' of ", what, " must be a name, a key and a place");
  rule.name = at.items()[0].string();
  rule.key = at.items()[1].string();
  const Json& place = at.items()[2];
  if (!place.is(Json::Kind::null)) {
    require(place.is_integer() && place.integer() >= 0 && place.integer() <= largest, "the place of ", what,
            " must be a whole number from 0 on, or null");
    rule.place = static_cast<int>(place.integer());
  }
  const std::vector<std::string> of = fields.strings("of");
  require(!of.empty() && of.size() <= rule.of.size(), "'of' of ", what, " must be one or two names");
  for (size_t i = 0; i < of.size(); ++i) {
    const auto found = std::find(free.names.begin(), free.names.end(), of[i]);
    require(found != free.names.end(), what, " follows from '", of[i], "', which is not free");
    rule.of[i] = static_cast<int>(found - free.names.begin());
  }
  return rule;
}

// The objects of a list by what they have for a key; those that are none are refused later, by who reads them.
void collect(Json* list, const char* key, bool input, std::map<std::string, std::pair<Json*, bool>>& parts) {
  if (list == nullptr || !list->is(Json::Kind::array)) return;
  for (Json& part : list->items()) {
    const Json* const name = part.find(key);
    if (name != nullptr && name->is(Json::Kind::string)) parts.emplace(name->string(), std::make_pair(&part, input));
  }
}

Json& number_at(const FreeSizes::Rule& rule, std::map<std::string, std::pair<Json*, bool>>& parts) {
  const auto found = parts.find(rule.name);
  const bool node = std::find(std::begin(keys), std::end(keys), rule.key) != std::end(keys);
  const bool known = found != parts.end() && (found->second.second ? rule.key == "shape" : node);
  require(known, "the size at '", rule.name, "', '", rule.key, "' is not there, or no size of an input or a node");
  require(!found->second.second || rule.of[1] < 0, "the size of the input '", rule.name,
          "' must follow from one alone");
  Json* field = found->second.first->find(rule.key);
  if (field != nullptr && rule.place >= 0)
    field = field->is(Json::Kind::array) && static_cast<size_t>(rule.place) < field->items().size()
                ? &field->items()[static_cast<size_t>(rule.place)]
                : nullptr;
  require(field != nullptr && field->is_integer(), "the size at '", rule.name, "', '", rule.key, "' has no such place");
  return *field;
}

// The signature with half of a free size, or with one less where the network needs more than half of it. An Error where
// it can be run with neither: then a rule is wrong.
Signature smaller_signature(const uint8_t* bytes, size_t size, const Limits& limits, const Graph& graph, size_t which) {
  const int most = graph.free.most[which];
  const auto with = [&](int smaller) {
    std::vector<int> sizes = graph.free.most;
    sizes[which] = smaller;
    return signature_of(read_graph(bytes, size, limits, &sizes));
  };
  try {
    return with((most + 1) / 2);
  } catch (const Error&) {
    try {
      return with(std::max(most - 1, 1));
    } catch (const Error&) {  // the first says as much
    }
    throw;
  }
}

}  // namespace

std::vector<int> FreeSizes::of(const Graph& graph, const std::vector<std::vector<int64_t>>& shapes) const {
  std::vector<int> result(names.size(), 0);
  for (size_t input = 0; input < graph.inputs.size(); ++input)
    for (const Rule& rule : rules) {
      if (rule.name != graph.inputs[input].name || static_cast<size_t>(rule.place) >= shapes[input].size()) continue;
      const auto which = static_cast<size_t>(rule.of[0]);
      const int64_t side = shapes[input][static_cast<size_t>(rule.place)];
      const int64_t size = (side - rule.plus) / rule.times;
      const bool right = side > 0 && size >= 1 && size <= most[which] && size * rule.times + rule.plus == side;
      require(right, "dimension ", rule.place + 1, " of '", rule.name, "' must be ",
              std::string_view(formula(rule, names[which])), " with '", names[which], "' from 1 to ", most[which],
              ", got ", side);
      require(result[which] == 0 || result[which] == size, "all inputs must have one '", names[which], "', got ",
              result[which], " and ", size);
      result[which] = static_cast<int>(size);
    }
  for (size_t i = 0; i < result.size(); ++i)
    if (result[i] == 0) result[i] = most[i];
  return result;
}

std::string FreeSizes::described(const std::vector<int>& sizes) const {
  std::string message;
  for (size_t i = 0; i < names.size(); ++i) message += text(i > 0 ? ", '" : "'", names[i], "' = ", sizes[i]);
  return message;
}

Signature free_signature(const uint8_t* bytes, size_t size, const Limits& limits, const Graph& graph) {
  const Signature whole = signature_of(graph);
  Signature result = whole;
  for (size_t i = 0; i < graph.free.names.size(); ++i) {  // what is smaller with one of the sizes
    const Signature other = smaller_signature(bytes, size, limits, graph, i);
    const auto loosen = [](const auto& all, const auto& smaller, auto& to) {
      for (size_t port = 0; port < all.size(); ++port)
        for (size_t axis = 1; axis < all[port].shape.size(); ++axis)
          if (all[port].shape[axis] != smaller[port].shape[axis]) to[port].shape[axis] = any_size;
    };
    loosen(whole.inputs, other.inputs, result.inputs);
    loosen(whole.outputs, other.outputs, result.outputs);
  }
  return result;
}

FreeSizes read_free_sizes(const Fields& facts) {
  FreeSizes free;
  require(facts.has("free") == facts.has("sizes"), "the description must have both free and sizes, or neither");
  if (!facts.has("free")) return free;
  const Json& json = facts.any("free");
  require(json.is(Json::Kind::object) && !json.members().empty() && json.members().size() <= most_ports,
          "free must be an object of 1 to ", most_ports, " sizes");
  const Fields sizes(json, "free");
  for (const auto& [name, value] : json.members()) {
    require(!name.empty(), "a free size has an empty name");
    free.names.push_back(name);
    free.most.push_back(sizes.whole(name, 1, largest));
  }
  const Json& rules = facts.any("sizes");
  require(rules.is(Json::Kind::array) && rules.items().size() <= most_rules, "sizes must be a list of at most ",
          most_rules);
  for (const Json& rule : rules.items())
    free.rules.push_back(read_rule(rule, text("size ", free.rules.size()), free));
  return free;
}

void set_free_sizes(const FreeSizes& free, const std::vector<int>& sizes, Json& description) {
  std::map<std::string, std::pair<Json*, bool>> parts;
  collect(description.find("inputs"), "name", true, parts);
  collect(description.find("nodes"), "output", false, parts);
  std::vector<bool> known(free.names.size());
  for (const FreeSizes::Rule& rule : free.rules) {
    Json& place = number_at(rule, parts);
    const int64_t most = number(rule, free.most);
    require(place.integer() == most, "the size at '", rule.name, "', '", rule.key, "' is ", place.integer(), ", not ",
            most, " as its rule says");
    if (rule.key == "shape") known[static_cast<size_t>(rule.of[0])] = true;
  }
  for (size_t i = 0; i < known.size(); ++i) require(known[i], "no input has the free size '", free.names[i], "'");
  for (const FreeSizes::Rule& rule : free.rules) number_at(rule, parts).set_integer(number(rule, sizes));
}

}  // namespace adaste

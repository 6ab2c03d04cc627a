#include "format/graph.h"

#include <cmath>

#include "base/error.h"
#include "format/fields.h"
#include "format/node_reader.h"
#include "format/safetensors.h"

namespace adaste {
namespace {

int checked_version(const Fields& facts) {
  require(facts.string("format") == "adaste-packed", "format must be 'adaste-packed', got '", facts.string("format"),
          "'");
  const int version = facts.whole("version", 0, largest);
  require(version == 1 || version == 2, "version must be 1 or 2, which is all this reader knows, got ", version);
  require(facts.string("bit_order") == "little", "bit_order must be 'little', got '", facts.string("bit_order"), "'");
  return version;
}

void read_origin(const Fields& facts, Graph& graph) {
  graph.producer = facts.string("producer");
  if (!facts.any("recipe").is(Json::Kind::null)) graph.recipe = facts.string("recipe");
}

std::vector<double> per_channel(const Fields& input, const char* key, const Value& value, bool positive) {
  if (input.any(key).is(Json::Kind::null)) return {};
  require(value.shape.rank() == 3 && !value.integer, "'", key, "' of ", input.what(), " must be null: it has no images");
  std::vector<double> result = input.numbers(key);
  for (size_t i = 0; i < result.size(); ++i) {
    const auto number = static_cast<float>(result[i]);
    require(std::isfinite(number) && (!positive || number > 0), "'", key, "' of ", input.what(), " must be finite",
            positive ? " and positive" : "", ", got ", input.any(key).items()[i].string());
  }
  require(result.size() == static_cast<size_t>(value.shape[0]), "'", key, "' of ", input.what(),
          " must have a number for each of ", value.shape[0], " channels, got ", result.size());
  return result;
}

// The only input of version 1 has no name and no type of its own: it is an image.
void read_input(const Json& json, const std::string& what, int version, Graph& graph) {
  const Fields input(json, what);
  Value value;
  Port port{"input", static_cast<int>(graph.values.size()), {}, {}};
  if (version == 1) {
    input.allow_only({"shape", "mean", "std"});
  } else {
    input.allow_only({"name", "shape", "type", "mean", "std"});
    port.name = input.string("name");
    const std::string& type = input.string("type");
    require(type == "float" || type == "integer", what, " must have the type 'float' or 'integer', got '", type, "'");
    value.integer = type == "integer";
  }
  value.shape.sides = input.wholes("shape", 1, largest);
  require(version > 1 || value.shape.rank() == 3, "the input's shape must be [channels, height, width], it has ",
          value.shape.rank(), " numbers");
  require(value.shape.rank() <= most_axes, what, " may have ", most_axes, " axes, got ", value.shape.rank());
  port.mean = per_channel(input, "mean", value, false);
  port.std = per_channel(input, "std", value, true);
  require(port.mean.empty() == port.std.empty(), "mean and std of ", what, " must both be given or both be null");
  graph.names.push_back(port.name);
  graph.values.push_back(std::move(value));
  graph.inputs.push_back(std::move(port));
}

const Json& ports(const Fields& facts, const char* key) {
  const Json& json = facts.any(key);
  require(json.is(Json::Kind::array) && !json.items().empty() && json.items().size() <= most_ports, "the ", key,
          " must be a list of 1 to ", most_ports);
  return json;
}

void read_inputs(const Fields& facts, int version, Graph& graph) {
  if (version == 1) return read_input(facts.any("input"), "the input", version, graph);
  for (const Json& json : ports(facts, "inputs").items())
    read_input(json, text("input ", graph.inputs.size()), version, graph);
}

void add_output(const std::string& name, const std::string& value, const NodeReader& reader, Graph& graph) {
  const auto found = reader.numbers().find(value);
  require(found != reader.numbers().end(), "the output '", value, "' is computed by no node");
  const Value& output = graph.values[static_cast<size_t>(found->second)];
  require(!output.integer && !output.constant, "the output '", value, "' must be computed from the inputs");
  for (const Port& port : graph.outputs) require(port.name != name, "there are two outputs '", name, "'");
  graph.outputs.push_back({name, found->second, {}, {}});
}

void read_outputs(const Fields& facts, int version, const NodeReader& reader, Graph& graph) {
  if (version == 1) {
    add_output("logits", facts.string("output"), reader, graph);
    const Shape& shape = graph.values[static_cast<size_t>(graph.outputs[0].value)].shape;
    require(shape.rank() == 1, "the output must be flat, one number per class, got ", shape);
    return;
  }
  for (const Json& json : ports(facts, "outputs").items()) {
    const Fields output(json, text("output ", graph.outputs.size()));
    output.allow_only({"name", "value"});
    require(!output.string("name").empty(), output.what(), " has an empty name");
    add_output(output.string("name"), output.string("value"), reader, graph);
  }
}

void read_classes(const Fields& facts, Graph& graph) {
  if (facts.any("classes").is(Json::Kind::null)) return;
  const Shape& shape = graph.values[static_cast<size_t>(graph.outputs[0].value)].shape;
  require(graph.outputs.size() == 1 && shape.rank() == 1, "classes must be null where there is not one flat output");
  graph.classes = facts.strings("classes");
  require(graph.classes.size() == static_cast<size_t>(shape[0]), "there must be a name for each of ", shape[0],
          " classes, got ", graph.classes.size());
}

}  // namespace

int64_t Shape::elements() const {
  constexpr int64_t huge = int64_t{1} << 62;
  int64_t result = 1;
  for (const int side : sides) result = result > huge / side ? huge : result * side;
  return result;
}

void append(std::string& message, const Shape& shape) {
  message += "(";
  for (size_t axis = 0; axis < shape.rank(); ++axis) message += text(axis == 0 ? "" : ", ", shape[axis]);
  message += ")";
}

Graph read_graph(const uint8_t* bytes, size_t size, const Limits& limits, const std::vector<int>* sizes) {
  const Container container = read_container(bytes, size);
  Json json = Json::parse(container.description);
  const Fields facts(json, "the description");
  const int version = checked_version(facts);
  if (version == 1)
    facts.allow_only({"format", "version", "bit_order", "input", "classes", "recipe", "producer", "nodes", "output"});
  else
    facts.allow_only({"format", "version", "bit_order", "inputs", "classes", "recipe", "producer", "nodes", "outputs"},
                     {"free", "sizes"});

  Graph graph;
  if (version > 1) graph.free = read_free_sizes(facts);
  if (!graph.free.names.empty()) set_free_sizes(graph.free, sizes == nullptr ? graph.free.most : *sizes, json);
  read_origin(facts, graph);
  read_inputs(facts, version, graph);
  const Json& nodes = facts.any("nodes");
  require(nodes.is(Json::Kind::array), "the nodes must be a list");
  require(nodes.items().size() <= static_cast<size_t>(limits.nodes), "a network may have ", limits.nodes,
          " nodes, got ", nodes.items().size());
  NodeReader reader(container, limits, version, graph);
  for (const Json& node : nodes.items()) reader.read(node);
  reader.check_all_used();
  read_outputs(facts, version, reader, graph);
  read_classes(facts, graph);
  return graph;
}

}  // namespace adaste

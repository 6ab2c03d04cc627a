#include "format/graph.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "format/fields.h"
#include "format/node_reader.h"
#include "format/safetensors.h"

namespace adaste {
namespace {

void check_format(const Fields& facts) {
  require(facts.string("format") == "adaste-packed", "format must be 'adaste-packed', got '", facts.string("format"),
          "'");
  const int version = facts.whole("version", 0, largest);
  require(version == 1, "version must be 1, which is all this reader knows, got ", version);
  require(facts.string("bit_order") == "little", "bit_order must be 'little', got '", facts.string("bit_order"), "'");
}

void read_origin(const Fields& facts, Graph& graph) {
  graph.producer = facts.string("producer");
  if (!facts.any("recipe").is(Json::Kind::null)) graph.recipe = facts.string("recipe");
}

Extent input_extent(const Fields& input) {
  const std::vector<int> shape = input.wholes("shape", 1, largest);
  require(shape.size() == 3, "the input's shape must be [channels, height, width], it has ", shape.size(), " numbers");
  return {shape[0], shape[1], shape[2], false};
}

std::vector<double> per_channel(const Fields& input, const char* key, int channels, bool positive) {
  if (input.any(key).is(Json::Kind::null)) return {};
  std::vector<double> result = input.numbers(key);
  for (size_t i = 0; i < result.size(); ++i) {
    const auto value = static_cast<float>(result[i]);
    require(std::isfinite(value) && (!positive || value > 0), "'", key, "' of the input must be finite",
            positive ? " and positive" : "", ", got ", input.any(key).items()[i].string());
  }
  require(result.size() == static_cast<size_t>(channels), "'", key, "' of the input must have a number for each of ",
          channels, " channels, got ", result.size());
  return result;
}

void read_input(const Fields& facts, Graph& graph) {
  const Fields input(facts.any("input"), "the input");
  input.allow_only({"shape", "mean", "std"});
  const Extent extent = input_extent(input);
  graph.mean = per_channel(input, "mean", extent.channels, false);
  graph.std = per_channel(input, "std", extent.channels, true);
  require(graph.mean.empty() == graph.std.empty(), "mean and std of the input must both be given or both be null");
  graph.values.push_back(extent);
  graph.names.emplace_back("input");
}

void read_output(const Fields& facts, const std::map<std::string, int>& numbers, Graph& graph) {
  const auto output = numbers.find(facts.string("output"));
  require(output != numbers.end(), "the output '", facts.string("output"), "' is computed by no node");
  graph.output = output->second;
  const Extent extent = graph.values[static_cast<size_t>(graph.output)];
  require(extent.flat, "the output must be flat, one number per class, got ", extent);
  if (facts.any("classes").is(Json::Kind::null)) return;
  graph.classes = facts.strings("classes");
  require(graph.classes.size() == static_cast<size_t>(extent.channels), "there must be a name for each of ",
          extent.channels, " classes, got ", graph.classes.size());
}

}  // namespace

void append(std::string& message, const Extent& extent) {
  message += extent.flat ? text("(", extent.channels, ")")
                         : text("(", extent.channels, ", ", extent.height, ", ", extent.width, ")");
}

Graph read_graph(const uint8_t* bytes, size_t size, const Limits& limits) {
  const Container container = read_container(bytes, size);
  const Json json = Json::parse(container.description);
  const Fields facts(json, "the description");
  facts.allow_only({"format", "version", "bit_order", "input", "classes", "recipe", "producer", "nodes", "output"});
  check_format(facts);

  Graph graph;
  read_origin(facts, graph);
  read_input(facts, graph);
  const Json& nodes = facts.any("nodes");
  require(nodes.is(Json::Kind::array), "the nodes must be a list");
  require(nodes.items().size() <= static_cast<size_t>(limits.nodes), "a network may have ", limits.nodes,
          " nodes, got ", nodes.items().size());
  NodeReader reader(container, limits, graph);
  for (const Json& node : nodes.items()) reader.read(node);
  reader.check_all_used();
  read_output(facts, reader.numbers(), graph);
  return graph;
}

}  // namespace adaste

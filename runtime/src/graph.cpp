#include "graph.h"

#include <cmath>
#include <map>

#include "crc32.h"
#include "error.h"
#include "fields.h"
#include "node_reader.h"
#include "safetensors.h"

namespace adaste {
namespace {

void check_checksum(const Container& container, const std::string& description, const uint8_t* data, size_t size) {
  const auto found = container.metadata.find("crc32");
  if (found == container.metadata.end()) return;
  const uint32_t text_sum = crc32(0, reinterpret_cast<const uint8_t*>(description.data()), description.size());
  uint32_t sum = crc32(text_sum, data, size);
  std::string digits(8, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, sum >>= 4) *digit = "0123456789abcdef"[sum & 15U];
  require(found->second == digits, "the file is damaged: its content has the CRC-32 ", digits, ", it says '",
          found->second, "'");
}

void check_format(const Fields& facts) {
  require(facts.string("format") == "adaste-packed", "format must be 'adaste-packed', got '", facts.string("format"),
          "'");
  require(facts.whole("version", 0, 1 << 30) == 1, "version must be 1, which is all this reader knows, got ",
          facts.whole("version", 0, 1 << 30));
  require(facts.string("bit_order") == "little", "bit_order must be 'little', got '", facts.string("bit_order"), "'");
}

Extent input_extent(const Fields& input, const Limits& limits) {
  const std::vector<double> shape = input.numbers("shape");
  require(shape.size() == 3, "the input's shape must be [channels, height, width], it has ", shape.size(), " numbers");
  const auto most = static_cast<double>(limits.value_elements);
  for (const double side : shape)
    require(side >= 1 && side <= most && side == std::floor(side), "the input's shape must be whole numbers from 1 to ",
            limits.value_elements, ", got ", side);
  return {static_cast<int>(shape[0]), static_cast<int>(shape[1]), static_cast<int>(shape[2]), false};
}

std::vector<float> per_channel(const Fields& input, const char* key, int channels, bool positive) {
  if (input.any(key).is(Json::Kind::null)) return {};
  std::vector<float> result;
  for (const double value : input.numbers(key)) {
    require(std::isfinite(static_cast<float>(value)) && (!positive || static_cast<float>(value) > 0), "'", key,
            "' of the input must be finite", positive ? " and positive" : "", ", got ", value);
    result.push_back(static_cast<float>(value));
  }
  require(result.size() == static_cast<size_t>(channels), "'", key, "' of the input must have a number for each of ",
          channels, " channels, got ", result.size());
  return result;
}

void read_input(const Fields& facts, const Limits& limits, Graph& graph) {
  const Fields input(facts.any("input"), "the input");
  input.allow_only({"shape", "mean", "std"});
  const Extent extent = input_extent(input, limits);
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
  require(extent.flat, "the output must be flat, one number per class, got ", described(extent));
  if (facts.any("classes").is(Json::Kind::null)) return;
  graph.classes = facts.strings("classes");
  require(graph.classes.size() == static_cast<size_t>(extent.channels), "there must be a name for each of ",
          extent.channels, " classes, got ", graph.classes.size());
}

}  // namespace

std::string described(const Extent& extent) {
  return extent.flat ? text("(", extent.channels, ")")
                     : text("(", extent.channels, ", ", extent.height, ", ", extent.width, ")");
}

Graph read_graph(const uint8_t* bytes, size_t size, const Limits& limits) {
  const Container container = read_container(bytes, size);
  const auto description = container.metadata.find("adaste");
  require(description != container.metadata.end(), "no packed network: the metadata lack the entry 'adaste'");
  check_checksum(container, description->second, bytes + size - container.data_bytes, container.data_bytes);
  const Json json = Json::parse(description->second);
  const Fields facts(json, "the description");
  facts.allow_only({"format", "version", "bit_order", "input", "classes", "recipe", "producer", "nodes", "output"});
  check_format(facts);

  Graph graph;
  read_input(facts, limits, graph);
  const Json& nodes = facts.any("nodes");
  require(nodes.is(Json::Kind::array), "the nodes must be a list");
  require(nodes.items().size() <= static_cast<size_t>(limits.nodes), "a network may have ", limits.nodes,
          " nodes, got ", nodes.items().size());
  NodeReader reader(container, limits, graph);
  for (const Json& node : nodes.items()) reader.read(node);
  read_output(facts, reader.numbers(), graph);
  return graph;
}

}  // namespace adaste

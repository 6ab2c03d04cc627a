#include "format/safetensors.h"

#include <sys/stat.h>
#ifdef _WIN32
#include <windows.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "format/crc32.h"
#include "format/fields.h"
#include "format/file_kind.h"
#include "format/json.h"

namespace adaste {
namespace {

constexpr size_t prefix = 8;
constexpr uint64_t most_header_bytes = uint64_t{4} << 20;
constexpr uint64_t most_file_bytes = uint64_t{4} << 30;
constexpr size_t most_dimensions = 4;

uint64_t little_endian(const uint8_t* bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = (value << 8) | bytes[i];
  return value;
}

Type type_of(const std::string& name, const Json* field) {
  require(field != nullptr && field->is(Json::Kind::string), "tensor '", name, "' has no dtype");
  if (field->string() == "U8") return Type::uint8;
  if (field->string() == "F32") return Type::float32;
  fail("tensor '", name, "' has dtype ", field->string(), "; allowed are U8 and F32");
}

std::vector<uint64_t> counts(const std::string& name, const char* key, const Json* field) {
  require(field != nullptr && field->is(Json::Kind::array), "tensor '", name, "' has no ", key);
  require(field->items().size() <= most_dimensions, "tensor '", name, "' has more than ", most_dimensions,
          " entries in its ", key);
  std::vector<uint64_t> result;
  for (const Json& item : field->items()) {
    require(item.is_integer() && item.integer() >= 0, "the ", key, " of tensor '", name,
            "' must be whole numbers from 0");
    result.push_back(static_cast<uint64_t>(item.integer()));
  }
  return result;
}

// The bytes a shape needs, or an error where they would be more than `most`.
uint64_t needed_bytes(const std::string& name, Type type, const std::vector<uint64_t>& shape, uint64_t most) {
  uint64_t bytes = type == Type::float32 ? sizeof(float) : 1;
  for (const uint64_t extent : shape) {
    require(extent == 0 || bytes <= most / extent, "tensor '", name, "' has a shape larger than the file");
    bytes *= extent;
  }
  return bytes;
}

Tensor tensor_from(const std::string& name, const Json& entry, const uint8_t* data, uint64_t data_bytes) {
  Fields(entry, text("tensor '", name, "'")).allow_only({"dtype", "shape", "data_offsets"});
  const Type type = type_of(name, entry.find("dtype"));
  std::vector<uint64_t> shape = counts(name, "shape", entry.find("shape"));
  const std::vector<uint64_t> offsets = counts(name, "data_offsets", entry.find("data_offsets"));
  require(offsets.size() == 2, "tensor '", name, "' must have two data_offsets, it has ", offsets.size());
  require(offsets[0] <= offsets[1] && offsets[1] <= data_bytes, "tensor '", name, "' has data_offsets ", offsets[0],
          " to ", offsets[1], ", the file's data end at ", data_bytes);
  const uint64_t needed = needed_bytes(name, type, shape, data_bytes);
  require(needed == offsets[1] - offsets[0], "tensor '", name, "' has ", offsets[1] - offsets[0],
          " bytes of data, its shape needs ", needed);
  return {type, std::move(shape), data + offsets[0], static_cast<size_t>(needed)};
}

void check_coverage(const std::map<std::string, Tensor>& tensors, const uint8_t* data, uint64_t data_bytes) {
  std::vector<std::pair<const Tensor*, const std::string*>> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.emplace_back(&tensor, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->data, a.first->bytes) < std::pair(b.first->data, b.first->bytes);
  });
  const uint8_t* end = data;
  for (const auto& [tensor, name] : order) {
    require(tensor->data >= end, "tensor '", *name, "' overlaps the tensor before it");
    require(tensor->data == end, "there are unused bytes before tensor '", *name, "'");
    end = tensor->data + tensor->bytes;
  }
  require(end == data + data_bytes, "there are unused bytes after the last tensor");
}

// The checksum of a description and the data, as it is written.
std::string checksum(const std::string& description, const uint8_t* data, size_t size) {
  const uint32_t before = crc32(0, reinterpret_cast<const uint8_t*>(description.data()), description.size());
  uint32_t sum = crc32(before, data, size);
  std::string digits(8, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, sum >>= 4) *digit = "0123456789abcdef"[sum & 15U];
  return digits;
}

// Is this what a run says of its network? Where it is no JSON it says nothing.
bool is_of_run(const std::string& description) {
  try {
    return Json::parse(description).find("record") != nullptr;
  } catch (const Error&) {
    return false;
  }
}

// Refuses other safetensors files, by what they are rather than by what is first wrong with their tensors.
void check_is_packed(const Json* metadata) {
  require(metadata != nullptr, "not a packed network: the header has no __metadata__");
  const Fields fields(*metadata, "__metadata__");
  require(fields.has("adaste"), "not a packed network: its __metadata__ lacks the key 'adaste'");
  const std::string& description = fields.string("adaste");
  require(fields.has("crc32") || !is_of_run(description),
          "this is a checkpoint of a run, not a packed network: use `adaste export` with the run's folder");
  // In a text the quotes would be escaped. Not parsed: this would be the second time for every network.
  require(description.find(R"("format":"adaste-state")") == std::string::npos,
          "these are the packed weights of a model (adaste.save_packed), not a network: "
          "adaste.load_into(model, path) reads them, adaste.pack writes a network");
}

std::string checked_description(const Json& metadata, const uint8_t* data, size_t size) {
  const Fields fields(metadata, "__metadata__");
  fields.allow_only({"adaste", "crc32"});
  const std::string& description = fields.string("adaste");
  const std::string found = checksum(description, data, size);
  require(fields.string("crc32") == found, "the file is damaged: its content has the CRC-32 ", found, ", it says '",
          fields.string("crc32"), "'");
  return description;
}

// The length of the header, which is that of a safetensors file.
uint64_t checked_header_bytes(const uint8_t* bytes, size_t size) {
  require(size >= prefix, "the file has ", size, " bytes; a safetensors file has at least ", prefix);
  const uint64_t header_bytes = little_endian(bytes);
  const char* kind = header_bytes > most_header_bytes ? file_kind(bytes, size) : nullptr;
  require(kind == nullptr, "not a safetensors file (it begins like ", kind, ")");
  require(header_bytes <= most_header_bytes, "the header says it has ", header_bytes, " bytes; allowed are ",
          most_header_bytes);
  require(header_bytes <= size - prefix, "the header says it has ", header_bytes, " bytes, the file has ",
          size - prefix, " after its length: it is cut off or no safetensors file");
  require(header_bytes > 0 && bytes[prefix] == '{', "not a packed network: the header does not begin with {");
  return header_bytes;
}

#ifdef _WIN32
using FileFacts = struct _stat64;

// Paths are UTF-8, as all texts here.
std::wstring wide(const std::string& path) {
  const auto size = static_cast<int>(path.size());
  std::wstring result(path.size(), L'\0');  // never fewer than there will be
  result.resize(static_cast<size_t>(
      MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path.data(), size, result.data(), size)));
  return result;
}

int look_at(const std::string& path, FileFacts& facts) { return _wstat64(wide(path).c_str(), &facts); }
std::FILE* opened(const std::string& path) { return _wfopen(wide(path).c_str(), L"rb"); }
#else
using FileFacts = struct stat;

int look_at(const std::string& path, FileFacts& facts) { return stat(path.c_str(), &facts); }
std::FILE* opened(const std::string& path) { return std::fopen(path.c_str(), "rb"); }
#endif

}  // namespace

Container read_container(const uint8_t* bytes, size_t size) {
  const uint64_t all = size;
  require(all <= most_file_bytes, "the file has ", all, " bytes; allowed are ", most_file_bytes);
  const uint64_t header_bytes = checked_header_bytes(bytes, size);
  const Json header = Json::parse({reinterpret_cast<const char*>(bytes) + prefix, static_cast<size_t>(header_bytes)});
  const uint8_t* data = bytes + prefix + header_bytes;
  const uint64_t data_bytes = size - prefix - header_bytes;
  const Json* metadata = header.find("__metadata__");
  check_is_packed(metadata);
  Container container;
  container.data_bytes = static_cast<size_t>(data_bytes);
  for (const auto& [name, entry] : header.members())
    if (name != "__metadata__") container.tensors.emplace(name, tensor_from(name, entry, data, data_bytes));
  check_coverage(container.tensors, data, data_bytes);
  container.description = checked_description(*metadata, data, container.data_bytes);
  return container;
}

std::vector<uint8_t> read_file(const std::string& path) {
  FileFacts facts = {};
  require(look_at(path, facts) == 0, "there is no such file");
  require((facts.st_mode & S_IFMT) == S_IFREG, "this is no regular file");
  const auto size = static_cast<uint64_t>(facts.st_size);
  require(size <= most_file_bytes, "the file has ", size, " bytes; allowed are ", most_file_bytes);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(opened(path), &std::fclose);
  require(file != nullptr, "cannot read it: ", std::strerror(errno));
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  require(std::fread(bytes.data(), 1, bytes.size(), file.get()) == bytes.size(), "cannot read all of it");
  return bytes;
}

}  // namespace adaste

#include "format/file_kind.h"

#include <algorithm>
#include <string_view>

namespace adaste {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view begin;
  const char* name;
};

constexpr Kind kinds[] = {
    {"\x89PNG\r\n\x1a\n"sv, "a PNG"},
    {"\xff\xd8\xff"sv, "a JPEG"},
    {"GIF8"sv, "a GIF"},
    {"BM"sv, "a BMP"},
    {"RIFF"sv, "a RIFF file, such as WebP"},
    {"%PDF-"sv, "a PDF"},
    {"PK\x03\x04"sv, "a ZIP archive, such as a checkpoint of torch: use `adaste export`"},
    {"\x80\x02"sv, "a pickle, such as an old checkpoint of torch"},
    {"\x1f\x8b"sv, "a gzip archive"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a numpy array"},
    {"GGUF"sv, "a GGUF file"},
    {"version https://git-lfs"sv, "a pointer of Git LFS: `git lfs pull` fetches the file"},
};

// A message of protocol buffers: the version of the format, small, then one of the next fields of a model.
bool is_onnx(std::string_view begin) {
  constexpr std::string_view fields = "\x12\x1a\x22\x2a\x32\x3a\x42"sv;
  return begin.size() >= 3 && begin[0] == '\x08' && begin[1] > 0 && begin[1] < 32 &&
         fields.find(begin[2]) != std::string_view::npos;
}

bool is_text(std::string_view begin) {
  return !begin.empty() && std::all_of(begin.begin(), begin.end(), [](char letter) {
    return (letter >= ' ' && letter <= '~') || letter == '\n' || letter == '\r' || letter == '\t';
  });
}

}  // namespace

const char* file_kind(const uint8_t* bytes, size_t size) {
  constexpr size_t enough = 32;
  const std::string_view begin(reinterpret_cast<const char*>(bytes), std::min(size, enough));
  for (const Kind& kind : kinds)
    if (begin.substr(0, kind.begin.size()) == kind.begin) return kind.name;
  return is_onnx(begin) ? "ONNX" : is_text(begin) ? "text" : nullptr;
}

}  // namespace adaste

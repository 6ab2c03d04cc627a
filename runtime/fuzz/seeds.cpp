#include "seeds.h"

#include <cstdio>
#include <cstring>

#include "format/crc32.h"

namespace fuzz {
namespace {

std::string number(size_t value) { return std::to_string(value); }

class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed) {}

  std::string bits(size_t rows, size_t window) {
    std::string bytes;
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = 0; i < (window + 7) / 8; ++i) {
        const size_t used = std::min<size_t>(8, window - 8 * i);
        bytes.push_back(static_cast<char>(random_() & ((1U << used) - 1)));
      }
    return tensor("U8", "[" + number(rows) + "," + number((window + 7) / 8) + "]", bytes);
  }

  std::string floats(const std::string& shape, size_t count) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i) {
      const float value = std::uniform_real_distribution<float>(-1, 1)(random_);
      char raw[sizeof value];
      std::memcpy(raw, &value, sizeof value);
      bytes.append(raw, sizeof value);
    }
    return tensor("F32", shape, bytes);
  }

  void node(const std::string& op, const std::string& inputs, const std::string& fields) {
    nodes_ += (nodes_.empty() ? "" : ",") + std::string("{\"op\":\"") + op + "\",\"inputs\":[" + inputs +
              "],\"output\":\"v" + number(values_++) + "\"" + (fields.empty() ? "" : ",") + fields + "}";
  }

  // Ends for `channels` channels; every other time without scale and shift.
  std::string ends(size_t channels) {
    std::string fields = "\"relu\":true";
    if (++ends_ % 2 == 1)
      fields += ",\"scale\":" + floats("[" + number(channels) + "]", channels) +
                ",\"shift\":" + floats("[" + number(channels) + "]", channels);
    return fields;
  }

  void convolution(const std::string& inputs, size_t in, size_t out, size_t kernel, size_t stride, size_t groups,
                   bool binary) {
    const size_t window = in / groups * kernel * kernel;
    const std::string k = number(kernel);
    const std::string shape = "[" + number(out) + "," + number(in / groups) + "," + k + "," + k + "]";
    const std::string weight = binary ? bits(out, window) : floats(shape, out * window);
    node("convolution", inputs,
         "\"out_channels\":" + number(out) + ",\"in_channels\":" + number(in) + ",\"kernel\":[" + k + "," + k +
             "],\"stride\":[" + number(stride) + "," + number(stride) + "],\"padding\":[" + number(kernel / 2) + "," +
             number(kernel / 2) + "],\"groups\":" + number(groups) + ",\"weight\":" + weight + ",\"kind\":\"" +
             (binary ? "binary" : "float") + "\"," + ends(out));
  }

  void linear(size_t in, size_t out, bool binary) {
    const std::string weight = binary ? bits(out, in) : floats("[" + number(out) + "," + number(in) + "]", in * out);
    node("linear", last(),
         "\"out_features\":" + number(out) + ",\"in_features\":" + number(in) + ",\"weight\":" + weight +
             ",\"kind\":\"" + (binary ? "binary" : "float") + "\"," + ends(out));
  }

  std::string last() const { return value(values_ - 1); }
  static std::string value(size_t which) { return "\"v" + number(which) + "\""; }

  Parts parts(const std::string& shape, const std::string& mean, const std::string& classes) const {
    const std::string description =
        "{\"format\":\"adaste-packed\",\"version\":1,\"bit_order\":\"little\",\"input\":{\"shape\":" + shape +
        ",\"mean\":" + mean + ",\"std\":" + mean + "},\"classes\":" + classes +
        ",\"recipe\":null,\"producer\":\"fuzz\",\"nodes\":[" + nodes_ + "],\"output\":" + last() + "}";
    return {description, entries_, data_};
  }

 private:
  std::string tensor(const std::string& type, const std::string& shape, const std::string& bytes) {
    const std::string name = "\"w" + number(tensors_++) + "\"";
    entries_ += (entries_.empty() ? "" : ",") + name + ":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
                ",\"data_offsets\":[" + number(data_.size()) + "," + number(data_.size() + bytes.size()) + "]}";
    data_ += bytes;
    return name;
  }

  std::mt19937 random_;
  std::string nodes_, entries_, data_;
  size_t values_ = 0, tensors_ = 0, ends_ = 0;
};

Parts residual_network() {
  Writer w(1);
  w.convolution("\"input\"", 3, 8, 3, 1, 1, false);
  w.convolution("\"v0\"", 8, 8, 3, 1, 1, true);
  w.convolution("\"v1\",\"v0\"", 8, 8, 3, 1, 2, true);
  w.node("max_pool", "\"v2\"", "\"kernel\":[2,2],\"stride\":[2,2],\"padding\":[0,0]");
  w.convolution("\"v2\"", 8, 8, 1, 2, 1, true);
  w.node("add", "\"v3\",\"v4\"", "\"relu\":true");
  w.node("affine", "\"v5\",\"v3\"", "\"channels\":8," + w.ends(8));
  w.node("concatenate", "\"v6\",\"v5\",\"v3\"", "");
  w.node("average_pool", w.last(), "\"kernel\":[3,3],\"stride\":[1,1],\"padding\":[1,1],\"count_padding\":true");
  w.convolution(w.last(), 24, 24, 3, 1, 24, true);
  w.node("flatten", w.last(), "");
  w.linear(24 * 9, 16, true);
  w.node("relu", w.last(), "");
  w.linear(16, 3, false);
  return w.parts("[3,6,6]", "[0.5,0.25,0.125]", "[\"a\",\"b\\u00e9\",\"c\"]");
}

Parts plain_network() {
  Writer w(2);
  w.convolution("\"input\"", 64, 16, 3, 1, 1, true);
  w.convolution("\"v0\"", 16, 70, 3, 2, 1, true);
  w.node("average_pool", w.last(), "\"kernel\":[2,2],\"stride\":[2,2],\"padding\":[0,0],\"count_padding\":false");
  w.node("flatten", w.last(), "");
  w.linear(70, 10, true);
  return w.parts("[64,4,4]", "null", "null");
}

Parts perceptron() {
  Writer w(3);
  w.node("flatten", "\"input\"", "");
  w.linear(25, 20, true);
  w.linear(20, 12, true);
  w.linear(12, 4, true);
  return w.parts("[1,5,5]", "[0.5]", "null");
}

}  // namespace

std::string assembled(const Parts& parts) {
  std::string escaped;
  for (const char letter : parts.description) {
    if (letter == '"' || letter == '\\') escaped.push_back('\\');
    escaped.push_back(letter);
  }
  const auto bytes = [](const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); };
  uint32_t sum = adaste::crc32(0, bytes(parts.description), parts.description.size());
  sum = adaste::crc32(sum, bytes(parts.data), parts.data.size());
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", sum);
  const std::string header =
      "{\"__metadata__\":{\"adaste\":\"" + escaped + "\",\"crc32\":\"" + digits + "\"}," + parts.entries + "}";
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i)));
  return file + header + parts.data;
}

std::vector<Parts> seeds() { return {residual_network(), plain_network(), perceptron()}; }

}  // namespace fuzz

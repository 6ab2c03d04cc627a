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

  // A list of whole numbers as a field.
  static std::string list(const char* key, const std::string& numbers) {
    return "\"" + std::string(key) + "\":[" + numbers + "]";
  }

  // A convolution of 6 channels with windows of 3x3, 2 pixels apart.
  void dilated(const std::string& inputs, bool binary) {
    const std::string weight = binary ? bits(6, 27) : floats("[6,3,3,3]", 6 * 27);
    node("convolution", inputs,
         "\"out_channels\":6,\"in_channels\":6,\"kernel\":[3,3],\"stride\":[1,1],\"padding\":[2,2],\"groups\":2,"
         "\"dilation\":[2,2],\"weight\":" + weight + ",\"kind\":\"" + (binary ? "binary" : "float") + "\"," + ends(6));
  }

  std::string last() const { return value(values_ - 1); }
  static std::string value(size_t which) { return "\"v" + number(which) + "\""; }

  // A number that follows from free sizes.
  static std::string rule(const std::string& at, const std::string& of, const char* times, const char* plus) {
    return "{\"at\":[" + at + "],\"of\":[" + of + "],\"times\":" + times + ",\"plus\":" + plus + "}";
  }

  // Of version 2: the inputs and outputs as JSON, and more keys.
  Parts parts_2(const std::string& inputs, const std::string& outputs, const std::string& more = "") const {
    const std::string description =
        "{\"format\":\"adaste-packed\",\"version\":2,\"bit_order\":\"little\",\"inputs\":[" + inputs +
        "],\"classes\":null,\"recipe\":null,\"producer\":\"fuzz\",\"nodes\":[" + nodes_ + "],\"outputs\":[" + outputs +
        "]" + more + "}";
    return {description, entries_, data_};
  }

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

// A segmenter: squeeze and excitation, a dilated convolution, other norms and sizes; a map and a mean as outputs.
Parts segmenter() {
  Writer w(4);
  const auto list = Writer::list;
  w.convolution("\"x\"", 3, 6, 3, 1, 1, true);
  w.node("function", "\"v0\"", "\"function\":\"silu\"");
  w.node("reduce", "\"v1\"", "\"function\":\"mean\"," + list("axes", "1,2") + ",\"keep\":true");
  w.node("function", "\"v2\"", "\"function\":\"leaky_relu\",\"parameter\":0.25");
  w.node("combine", "\"v1\",\"v3\"", "\"function\":\"multiply\"");
  w.dilated("\"v4\"", true);
  w.dilated("\"v5\"", false);
  w.node("group_norm", "\"v6\"",
         "\"groups\":3,\"epsilon\":0.001,\"scale\":" + w.floats("[6]", 6) + ",\"shift\":" + w.floats("[6]", 6));
  w.node("max_pool", "\"v7\"", "\"kernel\":[3,3],\"stride\":[2,2],\"padding\":[1,1],\"ceil\":true");
  w.node("average_pool", "\"v7\"",
         "\"kernel\":[3,3],\"stride\":[2,2],\"padding\":[1,1],\"ceil\":true,\"count_padding\":true");
  w.node("concatenate", "\"v8\",\"v9\"", "\"axis\":1");
  w.node("spread", "\"v10\"", list("step", "2,1"));
  w.node("pad", "\"v11\"", list("before", "0,1,1") + "," + list("after", "0,0,2") + ",\"mode\":\"reflect\",\"value\":0");
  w.node("pad", "\"v12\"", list("before", "1,0,0") + "," + list("after", "0,0,1") + ",\"mode\":\"constant\",\"value\":-0.5");
  w.node("resize", "\"v13\"", list("size", "6,5") + "," + list("step", "2.5,1.5") + ",\"linear\":true,\"corners\":false");
  w.node("reshape", "\"v14\"", list("sides", "7,2,3,5"));
  w.node("transpose", "\"v15\"", list("axes", "1,0,3,2"));
  w.node("reshape", "\"v16\"", list("sides", "14,15"));
  w.node("slice", "\"v17\"", "\"axis\":1,\"start\":2,\"count\":4,\"step\":3");
  w.node("reduce", "\"v18\"", "\"function\":\"max\"," + list("axes", "1") + ",\"keep\":false");
  return w.parts_2("{\"name\":\"x\",\"shape\":[3,7,6],\"type\":\"float\",\"mean\":[0.5,0.25,0.5],\"std\":[1,2,3]}",
                 "{\"name\":\"map\",\"value\":\"v14\"},{\"name\":\"rows\",\"value\":\"v19\"}");
}

// A block of a transformer on tokens, with a mask and another input.
Parts transformer() {
  Writer w(5);
  const auto list = Writer::list;
  w.node("embedding", "\"tokens\"", "\"count\":7,\"width\":8,\"weight\":" + w.floats("[7,8]", 56));
  w.node("constant", "", list("sides", "5,8") + ",\"value\":" + w.floats("[40]", 40));
  w.node("combine", "\"v0\",\"v1\"", "\"function\":\"add\"");
  w.node("layer_norm", "\"v2\"", "\"axes\":1,\"center\":true,\"epsilon\":0.00001,\"scale\":" + w.floats("[8]", 8) +
                                     ",\"shift\":" + w.floats("[8]", 8));
  w.linear(8, 8, true);
  w.node("reshape", "\"v4\"", list("sides", "5,2,4"));
  w.node("transpose", "\"v5\"", list("axes", "1,0,2"));
  w.node("expand", "\"mask\"", list("sides", "2,5,5"));
  w.node("attention", "\"v6\",\"v6\",\"v6\",\"v7\"", "\"scale\":0.5,\"causal\":true");
  w.node("attention", "\"v8\",\"v6\",\"v6\"", "\"scale\":0.5,\"causal\":false");
  w.node("transpose", "\"v9\"", list("axes", "0,2,1"));
  w.node("matmul", "\"v9\",\"v10\"", "");
  w.node("softmax", "\"v11\"", "\"axis\":1");
  w.node("matmul", "\"v12\",\"v9\"", "");
  w.node("transpose", "\"v13\"", list("axes", "1,0,2"));
  w.node("reshape", "\"v14\"", list("sides", "5,8"));
  w.linear(8, 6, false);
  w.node("function", "\"v16\"", "\"function\":\"gelu\"");
  w.node("pad", "\"v17\"", list("before", "1,0") + "," + list("after", "1,2") + ",\"mode\":\"wrap\",\"value\":0");
  w.node("layer_norm", "\"v18\"", "\"axes\":2,\"center\":false,\"epsilon\":0.1");
  w.node("relu", "\"v19\"", "");
  w.node("number", "\"tokens\"", "");
  w.node("constant", "", list("sides", "5") + ",\"value\":" + w.floats("[5]", 5));
  w.node("combine", "\"v22\",\"v21\"", "\"function\":\"less\"");
  w.node("combine", "\"v21\",\"v23\"", "\"function\":\"equal\"");
  w.node("combine", "\"v23\",\"v24\"", "\"function\":\"subtract\"");
  w.node("embedding", "\"v25\"", "\"count\":2,\"width\":3,\"weight\":" + w.floats("[2,3]", 6));
  return w.parts_2("{\"name\":\"tokens\",\"shape\":[5],\"type\":\"integer\",\"mean\":null,\"std\":null},"
                 "{\"name\":\"mask\",\"shape\":[5,5],\"type\":\"float\",\"mean\":null,\"std\":null}",
                 "{\"name\":\"out\",\"value\":\"v20\"},{\"name\":\"places\",\"value\":\"v26\"}");
}

// Images and tokens of several sizes.
Parts sized() {
  Writer w(6);
  const auto list = Writer::list;
  w.convolution("\"x\"", 3, 6, 3, 2, 1, true);
  w.node("reshape", "\"v0\"", list("sides", "6,12"));
  w.node("transpose", "\"v1\"", list("axes", "1,0"));
  w.node("attention", "\"v2\",\"v2\",\"v2\"", "\"scale\":0.5,\"causal\":false");
  w.linear(6, 6, true);
  w.node("resize", "\"v0\"", list("size", "8,6") + "," + list("step", "0.5,0.5") + ",\"linear\":true,\"corners\":false");
  w.node("constant", "", list("sides", "5,4") + ",\"value\":" + w.floats("[20]", 20));
  w.node("slice", "\"v6\"", "\"axis\":0,\"start\":0,\"count\":5,\"step\":1");
  w.node("embedding", "\"t\"", "\"count\":3,\"width\":4,\"weight\":" + w.floats("[3,4]", 12));
  w.node("combine", "\"v7\",\"v8\"", "\"function\":\"multiply\"");
  w.node("expand", "\"v9\"", list("sides", "2,5,4"));
  w.node("pad", "\"v10\"", list("before", "0,4,0") + "," + list("after", "0,0,1") + ",\"mode\":\"edge\",\"value\":0");
  const std::string sizes =
      Writer::rule("\"x\",\"shape\",1", "\"h\"", "2", "0") + "," + Writer::rule("\"x\",\"shape\",2", "\"w\"", "2", "0") +
      "," + Writer::rule("\"t\",\"shape\",0", "\"n\"", "1", "0") + "," +
      Writer::rule("\"v1\",\"sides\",1", "\"h\",\"w\"", "1", "0") + "," +
      Writer::rule("\"v5\",\"size\",0", "\"h\"", "2", "0") + "," + Writer::rule("\"v5\",\"size\",1", "\"w\"", "2", "0") +
      "," + Writer::rule("\"v7\",\"count\",null", "\"n\"", "1", "0") + "," +
      Writer::rule("\"v10\",\"sides\",1", "\"n\"", "1", "0") + "," +
      Writer::rule("\"v11\",\"before\",1", "\"n\"", "1", "-1");
  return w.parts_2("{\"name\":\"x\",\"shape\":[3,8,6],\"type\":\"float\",\"mean\":[0.5,0.25,0.5],\"std\":[1,2,3]},"
                 "{\"name\":\"t\",\"shape\":[5],\"type\":\"integer\",\"mean\":null,\"std\":null}",
                 "{\"name\":\"rows\",\"value\":\"v4\"},{\"name\":\"map\",\"value\":\"v5\"},{\"name\":\"out\",\"value\":\"v11\"}",
                 ",\"free\":{\"h\":4,\"w\":3,\"n\":5},\"sizes\":[" + sizes + "]");
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

std::vector<Parts> seeds() { return {residual_network(), plain_network(), perceptron(), segmenter(), transformer(), sized()}; }

}  // namespace fuzz

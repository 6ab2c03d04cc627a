// One-bit weights and float32 activations with AVX-512, by look-up in registers (lookup.h): 80 or 96 multiply-adds a
// shuffle.
//
// The signed sums of some channels come in pairs of opposite sign, so that half of them are enough: those where the
// last channel is added. A table of 16 sums, one vector, thus serves five channels (vpermps), one of 32 sums serves six
// (vpermt2ps). The sign costs nothing: what is looked up is multiplied by 1 or -1 as it is added, which rounds no more
// than an addition does. Six channels take fewer shuffles, five take smaller tables.
//
// Shuffles and sums share two ports, and every other instruction there costs time. So a weight's byte lies where loads
// bring it to the right place: see prepare(). The one that is left makes a vector of signs for all pixels of a block,
// which speaks for blocks of many pixels and few vectors; but wide blocks read fewer tables from the second cache.
#if defined(__AVX512F__) || defined(ADASTE_SIMDE)

#include "kernels/x86/avx512/lookup.h"
#include "kernels/x86/avx512/vectors.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

constexpr int word_tables = 4;  // whose bytes are side by side, for each output channel

int words(const Windows& windows) { return ceil_div(windows.tables, word_tables); }

template <int table_channels, int block_pixels, int block_vectors>
struct Avx512Lookup {
  static_assert(table_channels == 5 || table_channels == 6, "vectors hold 16 sums, and shuffles read one or two");
  using Element = float;
  static constexpr int channels = table_channels;
  static constexpr int table = 1 << (channels - 1);
  static constexpr int pixels = block_pixels;
  static constexpr int vectors = block_vectors;
  static constexpr int outputs = vectors * lanes;
  static constexpr ptrdiff_t slab = 768 * 1024;  // second-level caches have 1 MiB or more; weights need some of it

  static constexpr int found = 4 * lanes;
  using Block = LookupBlock<float, pixels>;
  static size_t weight_bytes(const Windows& windows, int count) {
    return static_cast<size_t>(ceil_div(count, lanes)) * static_cast<size_t>(windows.taps()) *
           static_cast<size_t>(words(windows)) * lanes * word_tables;
  }
  static size_t sum_bytes(const ConvShape& /*shape*/) { return 0; }
  static size_t head_bytes(const ConvShape& /*shape*/) { return 0; }
  static void build_pixel(const float* values, int count, float* tables);
  static void begin(const ConvShape& /*shape*/, const Slab& /*slab*/, const float* /*x*/,
                    const Quantisation& /*quantisation*/, void* /*scratch*/) {}
  static void build(const ConvShape& shape, const Windows& windows, const Slab& slab, const float* x, void* scratch);
  static void convolve(const Windows& windows, const Block& block, const Epilogue& epilogue, float* y);
};

// The signs of channel number `channel` of a table in 16 of its sums: number i has + where bit `channel` of i is 1.
inline __m512 signs(int channel) {
  alignas(64) static constexpr float patterns[4][lanes] = {
      {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1},
      {-1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1},
      {-1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1},
      {-1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1, 1}};
  return _mm512_load_ps(patterns[channel]);
}

template <int channels>
inline __attribute__((always_inline)) void build_table(const float* values, float* table) {
  __m512 sums = _mm512_set1_ps(values[channels - 1]);
  for (int i = 0; i < 4; ++i) sums = _mm512_fmadd_ps(_mm512_set1_ps(values[i]), signs(i), sums);
  if (channels == 5) {
    _mm512_store_ps(table, sums);
  } else {
    const __m512 fifth = _mm512_set1_ps(values[4]);
    _mm512_store_ps(table, _mm512_sub_ps(sums, fifth));
    _mm512_store_ps(table + lanes, _mm512_add_ps(sums, fifth));
  }
}

template <int channels, int pixels, int vectors>
void Avx512Lookup<channels, pixels, vectors>::build_pixel(const float* values, int count, float* tables) {
  for (; count >= channels; count -= channels, values += channels, tables += table)
    build_table<channels>(values, tables);
  if (count == 0) return;
  float padded[channels] = {};
  for (int i = 0; i < count; ++i) padded[i] = values[i];
  build_table<channels>(padded, tables);
}

// The channels of the joined columns from `column` on, those in the padding zeros; in place, or a copy.
inline const float* joined_values(const ConvShape& shape, const Windows& windows, const float* row, int column,
                                  float* copy) {
  if (column >= 0 && column + windows.joined <= shape.width)
    return row + static_cast<ptrdiff_t>(column) * shape.channels;
  std::memset(copy, 0, static_cast<size_t>(windows.channels) * sizeof(float));
  const int first = larger(0, -column);
  const int end = smaller(windows.joined, shape.width - column);
  if (first < end)
    std::memcpy(copy + first * shape.channels, row + static_cast<ptrdiff_t>(column + first) * shape.channels,
                static_cast<size_t>((end - first) * shape.channels) * sizeof(float));
  return copy;
}

template <class Lookup>
void build_joined(const ConvShape& shape, const Windows& windows, const float* row, float* tables) {
  float copy[most_joined];
  for (int column = 0; column < shape.out_width; ++column, tables += windows.pixel)
    Lookup::build_pixel(joined_values(shape, windows, row, column * shape.stride_w - shape.pad_w, copy), windows.channels,
                  tables);
}

// The tables of row number `number` of a slab.
template <class Lookup>
void build_row(const ConvShape& shape, const Windows& windows, const Slab& slab, int number, const float* x,
               float* tables) {
  const int extent = windows.rows.extent(slab.rows);
  const int row = windows.rows.source(slab.first_row * windows.rows.step + number % extent);
  tables += number * windows.row;
  if (!windows.rows.inside(row)) {
    std::memset(tables, 0, static_cast<size_t>(windows.row) * sizeof(float));
    return;
  }
  const ptrdiff_t image = slab.first_image + number / extent;
  const float* pixels = x + (image * shape.height + row) * shape.width * shape.channels;
  if (windows.joined > 1) return build_joined<Lookup>(shape, windows, pixels, tables);
  const float* end = tables + windows.row;
  for (Walk walk(windows.columns); tables != end; walk.next()) {
    if (!walk.inside()) {
      std::memset(tables, 0, static_cast<size_t>(windows.pixel) * sizeof(float));
      tables += windows.pixel;
      continue;
    }
    const float* values = pixels + static_cast<ptrdiff_t>(walk.pixel()) * shape.channels;
    for (int group = 0; group < shape.groups; ++group, values += windows.channels) {
      Lookup::build_pixel(values, windows.channels, tables);
      tables += static_cast<ptrdiff_t>(windows.tables) * Lookup::table;
    }
  }
}

template <int channels, int pixels, int vectors>
void Avx512Lookup<channels, pixels, vectors>::build(const ConvShape& shape, const Windows& windows, const Slab& slab,
                                                    const float* x, void* scratch) {
  for (int row = 0; row < slab.images * windows.rows.extent(slab.rows); ++row)
    build_row<Avx512Lookup>(shape, windows, slab, row, x, static_cast<float*>(scratch));
}

// A load into a register. Of a plain one compilers make an operand of each shuffle, and twice the loads.
inline __attribute__((always_inline)) __m512 loaded(const float* from) {
#ifdef ADASTE_SIMDE
  return _mm512_load_ps(from);
#else
  __m512 vector;
  __asm__("vmovaps {%1, %0|%0, %1}" : "=v"(vector) : "m"(*reinterpret_cast<const __m512*>(from)));
  return vector;
#endif
}

template <int channels>
class Table;

template <>
class Table<5> {
 public:
  explicit Table(const float* from) : sums_(loaded(from)) {}
  __m512 find(__m512i indices) const { return _mm512_permutexvar_ps(indices, sums_); }  // the lowest 4 bits of each

 private:
  __m512 sums_;
};

template <>
class Table<6> {
 public:
  explicit Table(const float* from) : low_(loaded(from)), high_(loaded(from + lanes)) {}
  __m512 find(__m512i indices) const { return _mm512_permutex2var_ps(low_, indices, high_); }  // the lowest 5 bits

 private:
  __m512 low_, high_;
};

// 1, with the sign bit of each lane.
inline __m512 sign_of(__m512i vector) {
  constexpr int first_and_second_or_third = 0xea;
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(vector, _mm512_set1_epi32(INT32_MIN),
                                                       _mm512_castps_si512(_mm512_set1_ps(1.0F)),
                                                       first_and_second_or_third));
}

template <int pixels, int vectors>
struct Sums {
  __m512 of[pixels][vectors];
};

// Loops over a block's pixels and vectors must unroll wholly for the sums to be in registers; GCC wants to be told.
constexpr int unrolled = 16;

// Adds the sums of up to 4 tables.
template <int channels, int pixels, int vectors>
inline __attribute__((always_inline)) void add_tables(Sums<pixels, vectors>& sums, const float* const* tables,
                                                      ptrdiff_t offset, const uint8_t* weights, int count) {
#pragma GCC unroll 1
  for (int i = 0; i < count; ++i, ++weights, offset += 1 << (channels - 1)) {
    __m512i indices[vectors];
    __m512 sign[vectors];
#pragma GCC unroll unrolled
    for (int v = 0; v < vectors; ++v) {
      indices[v] = _mm512_loadu_si512(weights + v * lanes * word_tables);
      sign[v] = sign_of(indices[v]);
    }
#pragma GCC unroll unrolled
    for (int p = 0; p < pixels; ++p) {
      const Table<channels> table(tables[p] + offset);
#pragma GCC unroll unrolled
      for (int v = 0; v < vectors; ++v)
        sums.of[p][v] = _mm512_fmadd_ps(table.find(indices[v]), sign[v], sums.of[p][v]);
    }
  }
}

// Taps are inside of words: neighbouring taps read nearly the same tables, which then are in the first-level cache.
template <class Lookup, int pixels, int vectors>
void convolve_block(const Windows& windows, const typename Lookup::Block& block, const Epilogue& epilogue, float* y) {
  Sums<pixels, vectors> sums;
#pragma GCC unroll unrolled
  for (int p = 0; p < pixels; ++p)
#pragma GCC unroll unrolled
    for (int v = 0; v < vectors; ++v) sums.of[p][v] = _mm512_setzero_ps();
  const float* tables[pixels];  // a copy, so that the compiler keeps them in registers
  for (int p = 0; p < pixels; ++p) tables[p] = block.tables[p];

  constexpr ptrdiff_t tap_bytes = vectors * lanes * word_tables;
  const uint8_t* weights = block.weights;
  for (int first = 0; first < windows.tables; first += word_tables, weights += windows.taps() * tap_bytes)
    for (int row = block.first_row; row < block.end_row; ++row)
      for (int column = block.first_column; column < block.end_column; ++column)
        add_tables<Lookup::channels, pixels, vectors>(
            sums, tables, row * windows.row + column * windows.pixel + static_cast<ptrdiff_t>(first) * Lookup::table,
            weights + (row * windows.columns.kernel + column) * tap_bytes,
            smaller(windows.tables - first, word_tables));

#pragma GCC unroll unrolled
  for (int v = 0; v < vectors; ++v) {
    const Finish finish(epilogue, block.channel + v * lanes, block.outputs - v * lanes);
#pragma GCC unroll unrolled
    for (int p = 0; p < pixels; ++p)
      finish.store(sums.of[p][v], block.place + static_cast<ptrdiff_t>(p) * windows.out_channels + v * lanes, y);
  }
}

// Blocks at an end have fewer pixels or vectors: the function for this many.
template <class Lookup, int pixels, int vectors>
void convolve_at_most(const Windows& windows, const typename Lookup::Block& block, const Epilogue& epilogue, float* y) {
  if constexpr (pixels > 1)
    if (block.pixels < pixels) return convolve_at_most<Lookup, pixels - 1, vectors>(windows, block, epilogue, y);
  if constexpr (vectors > 1)
    if (block.outputs <= (vectors - 1) * lanes)
      return convolve_at_most<Lookup, pixels, vectors - 1>(windows, block, epilogue, y);
  convolve_block<Lookup, pixels, vectors>(windows, block, epilogue, y);
}

template <int channels, int pixels, int vectors>
void Avx512Lookup<channels, pixels, vectors>::convolve(const Windows& windows, const Block& block,
                                                       const Epilogue& epilogue, float* y) {
  convolve_at_most<Avx512Lookup, pixels, vectors>(windows, block, epilogue, y);
}

// The signs of a table's channels at one tap of an output channel.
struct Code {
  uint8_t index;  // bit i: is channel i's sign that of the last
  bool negative;  // is the last one's sign -
};

template <class Lookup>
Code code_of(const Windows& windows, const uint8_t* row, int tap, int table) {
  const int first = table * Lookup::channels;
  const int count = smaller(Lookup::channels, windows.channels - first);
  const size_t before = static_cast<size_t>(tap) * static_cast<size_t>(windows.channels) + static_cast<size_t>(first);
  const auto bits = static_cast<unsigned>(weight_bits(row, before, static_cast<size_t>(count)));
  if (count < Lookup::channels) return {static_cast<uint8_t>(bits), false};  // the rest of the channels are zeros
  constexpr unsigned last = Lookup::table;
  return (bits & last) != 0 ? Code{static_cast<uint8_t>(bits - last), false}
                            : Code{static_cast<uint8_t>(~bits & (last - 1)), true};
}

constexpr size_t sign_distance = 3;  // bytes

template <class Lookup>
size_t prepared_bytes(const ConvShape& shape) {
  return lookup_weight_bytes<Lookup>(shape) + sign_distance;
}

// One byte for each table and output, in the order of use: (group, block of outputs, word of 4 tables, tap, output of
// the block, table of the word). A block at the end of a group has as many vectors of 16 outputs as it needs.
//
// 64 bytes from a vector's byte i on are 16 lanes that start with the indices of table i of a word; shuffles ignore the
// higher bits. The highest bit of each lane is its sign: bit 7 of the byte 3 behind the index's, which may be that of
// the next output, and behind the last byte of all there are 3 more.
template <class Lookup>
void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const Windows windows = windows_for<Lookup>(shape);
  const OutputBlocks blocks = output_blocks(shape, Lookup::outputs);
  const size_t row_bytes = row_bytes_of(shape);
  std::memset(prepared, 0, prepared_bytes<Lookup>(shape));
  auto* to = static_cast<uint8_t*>(prepared);
  for (int block = 0; block < shape.groups * blocks.per_group; ++block) {
    const int padded = ceil_div(blocks.count(block), lanes) * lanes;
    for (int word = 0; word < words(windows); ++word)
      for (int tap = 0; tap < windows.taps(); ++tap, to += padded * word_tables)
        for (int output = 0; output < blocks.count(block); ++output)
          for (int i = 0; i < smaller(windows.tables - word * word_tables, word_tables); ++i) {
            const size_t channel = static_cast<size_t>(blocks.channel(block)) + static_cast<size_t>(output);
            const Code code = code_of<Lookup>(windows, rows + channel * row_bytes, tap, word * word_tables + i);
            uint8_t* byte = to + output * word_tables + i;
            *byte = static_cast<uint8_t>(*byte | code.index);
            if (code.negative) byte[sign_distance] = static_cast<uint8_t>(byte[sign_distance] | 0x80U);
          }
  }
}

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  return has_avx512(avx512f);
#endif
}

bool two_shuffles_a_cycle() {
#ifdef ADASTE_SIMDE
  return false;
#else
  static const bool answer = is_amd();
  return answer;
#endif
}

// On a Xeon with 2 MiB of second-level cache six channels are faster for every layer of ResNet-18 but its first, whose
// few channels fill tables of five better. On an EPYC (Zen 5) five are: two shuffles of one register each take as long
// as one of two. Of the blocks of outputs that were tried, 12 by 32 and 5 by 64, wide ones are.
bool five_suits(const ConvShape& shape) { return shape.channels / shape.groups < 16 || two_shuffles_a_cycle(); }

template <class Lookup>
constexpr ConvKernel kernel_of(const char* name, bool (*supports)(const ConvShape&)) {
  return {name,
          available,
          supports,
          prepared_bytes<Lookup>,
          prepare<Lookup>,
          lookup_table_bytes<Lookup>,
          lookup_stages,
          lookup_tasks<Lookup>,
          lookup_run<Lookup>,
          true};
}

}  // namespace

using Five = Avx512Lookup<5, 5, 4>;
using Six = Avx512Lookup<6, 5, 4>;

extern const ConvKernel avx512_five_kernel, avx512_six_kernel;
const ConvKernel avx512_five_kernel = kernel_of<Five>(
    "avx512-five", [](const ConvShape& shape) { return five_suits(shape) && lookup_supports<Five>(shape); });
const ConvKernel avx512_six_kernel = kernel_of<Six>("avx512-six", lookup_supports<Six>);

}  // namespace adaste

#endif

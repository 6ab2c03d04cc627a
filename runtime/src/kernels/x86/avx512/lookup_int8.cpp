// One-bit weights and 8-bit activations with AVX-512, by look-up in registers (lookup.h): 160 multiply-adds for a shuffle
// and an addition, where vpdpbusd of VNNI does 64. AMD's processors start as many shuffles in a cycle; others, with half
// as many, are left to VNNI.
//
// A table has the 32 signed sums of five channels in 16 bits: one vector, in which vpermw finds the sums of 32 output
// channels. Three indices of five bits are side by side in a 16-bit lane, of which vpermw takes the lowest one.
//
// Sums are of levels less 128, so that 255 of them fit into 16 bits: after at most `steps` steps they are added to
// sums of 32 bits. What is missing, (128 - zero) * sum(w), is a constant of the output channel. Padding has the level of
// zero like every other pixel.
#if (defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)) || defined(ADASTE_SIMDE)

#include "kernels/x86/avx512/levels.h"
#include "kernels/x86/avx512/lookup.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

constexpr int wide = 2 * lanes;  // 16-bit sums of a vector
constexpr int word_tables = 3;   // whose indices are in a lane
constexpr int index_bits = 5;
constexpr int middle = 128;      // level
constexpr int steps = INT16_MAX / (word_tables * index_bits * middle);  // of a word at a tap
constexpr int row_margin = 16;   // bytes that are read behind a row

int words(const Windows& windows) { return ceil_div(windows.tables, word_tables); }

template <int block_pixels, int block_vectors>
struct Int8Lookup {
  using Element = int16_t;
  static constexpr int channels = index_bits;
  static constexpr int table = 1 << channels;
  static constexpr int pixels = block_pixels;
  static constexpr int vectors = block_vectors;
  static constexpr int outputs = vectors * wide;
  static constexpr int found = 8 * wide;
  static constexpr ptrdiff_t slab = 768 * 1024;  // second-level caches have 1 MiB or more; weights need some of it

  using Block = LookupBlock<int16_t, pixels>;
  static size_t weight_bytes(const Windows& windows, int count) {
    return static_cast<size_t>(ceil_div(count, wide)) * static_cast<size_t>(windows.taps()) *
           static_cast<size_t>(words(windows)) * wide * sizeof(uint16_t);
  }
  static size_t sum_bytes(const ConvShape& shape) { return weight_sum_bytes(shape); }
  static size_t head_bytes(const ConvShape& shape) {  // the levels of the images
    return aligned(static_cast<size_t>(shape.batch) * sizeof(Levels));
  }
  static void begin(const ConvShape& shape, const Slab& slab, const float* x, const Quantisation& quantisation,
                    void* scratch);
  static void build(const ConvShape& shape, const Windows& windows, const Slab& slab, const float* x, void* scratch);
  static void convolve(const Windows& windows, const Block& block, const Epilogue& epilogue, float* y);
};

// Behind the tables: one row of an image in 8 bits, with its padding.
size_t row_bytes(const ConvShape& shape) {
  return (static_cast<size_t>(shape.width) + 2 * static_cast<size_t>(shape.pad_w)) *
         static_cast<size_t>(shape.channels);
}

// The levels of the signs of four channels in 16 sums: number i has + in channel c where bit c of i is 1.
struct alignas(64) Signs {
  int8_t of[lanes][quad_bytes] = {};
  int32_t less_middle[lanes] = {};  // what sums of levels, with the fifth channel's +, are less

  constexpr Signs() {
    for (int i = 0; i < lanes; ++i)
      for (int c = 0; c < quad_bytes; ++c) {
        of[i][c] = (i >> c & 1) != 0 ? 1 : -1;
        less_middle[i] -= of[i][c] * middle;
      }
  }
};

constexpr Signs four_signs;

// Of four channels and a fifth one. Packing works within quarters, so that bit 2 of a sum's place in the table is the
// sign of the fifth.
inline void build_table(__m512i four_levels, __m512i fifth, int16_t* table) {
  const __m512i four = _mm512_dpbusd_epi32(_mm512_load_si512(four_signs.less_middle), four_levels,
                                           _mm512_load_si512(four_signs.of));
  const __m512i with = _mm512_dpbusd_epi32(_mm512_sub_epi32(four, _mm512_set1_epi32(middle)), fifth,
                                           _mm512_set1_epi32(1));
  const __m512i without = _mm512_dpbusd_epi32(_mm512_add_epi32(four, _mm512_set1_epi32(middle)), fifth,
                                              _mm512_set1_epi32(0xff));
  _mm512_store_si512(table, _mm512_packs_epi32(without, with));
}

unsigned index_of(unsigned bits) { return (bits & 3U) | (bits >> 4 & 1U) << 2 | (bits >> 2 & 3U) << 3; }

inline __m512i broadcast_four(const uint8_t* bytes) {
  int32_t four = 0;
  std::memcpy(&four, bytes, sizeof four);
  return _mm512_set1_epi32(four);
}

// A last table of fewer channels has the level whose part in sums is 0 in the others' place.
inline void build_pixel(const uint8_t* bytes, int count, int16_t* tables) {
  for (; count >= index_bits; count -= index_bits, bytes += index_bits, tables += wide)
    build_table(broadcast_four(bytes), broadcast_four(bytes + quad_bytes), tables);
  if (count == 0) return;
  uint32_t last = 0;
  std::memcpy(&last, bytes, sizeof last);
  const uint32_t others = count == quad_bytes ? 0 : UINT32_MAX << 8 * count;
  last = (last & ~others) | (middle * 0x01010101U & others);
  build_table(_mm512_set1_epi32(static_cast<int>(last)), _mm512_set1_epi32(middle), tables);
}

// A row of an image, which may be in the padding, as bytes.
void quantise_padded(const ConvShape& shape, const float* image, int row, const Levels& levels, uint8_t* to) {
  const auto zero = static_cast<int>(levels.zero);
  if (row < 0 || row >= shape.height) {
    std::memset(to, zero, row_bytes(shape));
    return;
  }
  const ptrdiff_t pixels = static_cast<ptrdiff_t>(shape.width) * shape.channels;
  const ptrdiff_t padding = static_cast<ptrdiff_t>(shape.pad_w) * shape.channels;
  std::memset(to, zero, static_cast<size_t>(padding));
  Avx512Levels::quantise(image + row * pixels, static_cast<int>(pixels), levels, to + padding);
  std::memset(to + padding + pixels, zero, static_cast<size_t>(padding));
}

// The tables of a row.
void build_row(const ConvShape& shape, const Windows& windows, const uint8_t* bytes, int16_t* tables) {
  if (windows.joined > 1) {
    for (int column = 0; column < shape.out_width; ++column, tables += windows.pixel)
      build_pixel(bytes + static_cast<ptrdiff_t>(column) * shape.stride_w * shape.channels, windows.channels, tables);
    return;
  }
  const int16_t* end = tables + windows.row;
  for (Walk walk(windows.columns); tables != end; walk.next())
    for (int group = 0; group < shape.groups; ++group, tables += static_cast<ptrdiff_t>(windows.tables) * wide)
      build_pixel(bytes + static_cast<ptrdiff_t>(walk.pixel() + shape.pad_w) * shape.channels +
                      static_cast<ptrdiff_t>(group) * windows.channels,
                  windows.channels, tables);
}

// Each task finds the range of its images for itself where it is not given: no memory of one is seen by another.
template <int pixels, int vectors>
void Int8Lookup<pixels, vectors>::begin(const ConvShape& shape, const Slab& slab, const float* x,
                                        const Quantisation& quantisation, void* scratch) {
  for (int image = slab.first_image; image < slab.first_image + slab.images; ++image) {
    Range range{quantisation.low, quantisation.high};
    if (quantisation.dynamic) range = Avx512Levels::range(x + image * image_size(shape), image_size(shape));
    static_cast<Levels*>(scratch)[image] = levels_for(range.low, range.high);
  }
}

template <int pixels, int vectors>
void Int8Lookup<pixels, vectors>::build(const ConvShape& shape, const Windows& windows, const Slab& slab,
                                        const float* x, void* scratch) {
  int16_t* tables = slab_tables<Int8Lookup>(shape, scratch);
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(tables) + lookup_table_bytes<Int8Lookup>(shape);
  for (int image = slab.first_image; image < slab.first_image + slab.images; ++image)
    for (int row = 0; row < windows.rows.extent(slab.rows); ++row, tables += windows.row) {
      quantise_padded(shape, x + image * image_size(shape),
                      windows.rows.source(slab.first_row * windows.rows.step + row),
                      static_cast<const Levels*>(scratch)[image], bytes);
      build_row(shape, windows, bytes, tables);
    }
}

// A load into a register. Of a plain one compilers make an operand of each shuffle, and twice the loads.
inline __attribute__((always_inline)) __m512i loaded(const int16_t* from) {
#ifdef ADASTE_SIMDE
  return _mm512_load_si512(from);
#else
  __m512i vector;
  __asm__("vmovdqa64 {%1, %0|%0, %1}" : "=v"(vector) : "m"(*reinterpret_cast<const __m512i*>(from)));
  return vector;
#endif
}

// Loops over a block's pixels and vectors must unroll wholly for the sums to be in registers; GCC wants to be told.
constexpr int unrolled = 16;

template <int pixels, int vectors>
struct Sums {
  __m512i of[pixels][vectors];

  void clear() {
#pragma GCC unroll unrolled
    for (int p = 0; p < pixels; ++p)
#pragma GCC unroll unrolled
      for (int v = 0; v < vectors; ++v) of[p][v] = _mm512_setzero_si512();
  }
};

// Factors of pairs of 16-bit sums: which of the two is added.
constexpr int even = 1;
constexpr int odd = 1 << 16;

// Sums of 32 bits, in memory: of the even lanes of each vector, and of the odd ones.
template <int pixels, int vectors>
struct alignas(64) WideSums {
  int32_t of[pixels][vectors][2][lanes];
  bool started = false;

  inline __attribute__((always_inline)) void add(const Sums<pixels, vectors>& sums) {
    const __m512i low_half = _mm512_set1_epi32(even);
    const __m512i high_half = _mm512_set1_epi32(odd);
#pragma GCC unroll unrolled
    for (int p = 0; p < pixels; ++p)
#pragma GCC unroll unrolled
      for (int v = 0; v < vectors; ++v) {
        int32_t(&to)[2][lanes] = of[p][v];
        const __m512i zero = _mm512_setzero_si512();
        const __m512i low = started ? _mm512_load_si512(to[0]) : zero;
        const __m512i high = started ? _mm512_load_si512(to[1]) : zero;
        _mm512_store_si512(to[0], _mm512_dpwssd_epi32(low, sums.of[p][v], low_half));
        _mm512_store_si512(to[1], _mm512_dpwssd_epi32(high, sums.of[p][v], high_half));
      }
    started = true;
  }
};

// Adds the sums of up to 3 tables.
template <int pixels, int vectors>
inline __attribute__((always_inline)) void add_tables(Sums<pixels, vectors>& sums, const int16_t* const* tables,
                                                      ptrdiff_t offset, const uint8_t* weights, int count) {
  __m512i indices[vectors];
#pragma GCC unroll unrolled
  for (int v = 0; v < vectors; ++v) indices[v] = _mm512_load_si512(weights + v * 64);
#pragma GCC unroll 1
  for (int i = 0; i < count; ++i, offset += wide) {
#pragma GCC unroll unrolled
    for (int p = 0; p < pixels; ++p) {
      const __m512i table = loaded(tables[p] + offset);
#pragma GCC unroll unrolled
      for (int v = 0; v < vectors; ++v)
        sums.of[p][v] = _mm512_add_epi16(sums.of[p][v], _mm512_permutexvar_epi16(indices[v], table));
    }
#pragma GCC unroll unrolled
    for (int v = 0; v < vectors; ++v) indices[v] = _mm512_srli_epi16(indices[v], index_bits);
  }
}

// Sums of levels less the middle one to sums of activations, and these to outputs. `last` are sums of 16 bits that have
// not been added to the wide ones.
template <int pixels, int vectors, class Block>
void store_sums(const WideSums<pixels, vectors>& sums, const int16_t (&last)[pixels][vectors][wide],
                const Windows& windows, const Block& block, const Epilogue& epilogue, float* y) {
  const auto* levels = static_cast<const Levels*>(block.scratch);
  const auto* all_weight_sums = static_cast<const int32_t*>(block.prepared) + block.channel;
  for (int v = 0; v < 2 * vectors; ++v) {
    const int first = v * lanes;
    if (first >= block.outputs) return;
    const int count = smaller(lanes, block.outputs - first);
    alignas(64) int32_t weight_sums[lanes] = {};
    std::memcpy(weight_sums, all_weight_sums + first, static_cast<size_t>(count) * sizeof(int32_t));
    const __m512i weight_sum = _mm512_load_si512(weight_sums);
    const __m512i half = _mm512_set1_epi32(v % 2 == 0 ? even : odd);
    const Finish finish(epilogue, block.channel + first, count);
    const ptrdiff_t distance = windows.out_channels;
    ptrdiff_t place = block.place + first;
    for (int p = 0; p < pixels;) {
      const int image = block.images[p];
      const __m512i missing =
          _mm512_mullo_epi32(_mm512_set1_epi32(middle - static_cast<int>(levels[image].zero)), weight_sum);
      const __m512 scale = _mm512_set1_ps(levels[image].scale);
      for (; p < pixels && block.images[p] == image; ++p, place += distance) {
        __m512i sum = _mm512_dpwssd_epi32(missing, _mm512_load_si512(last[p][v / 2]), half);
        if (sums.started) sum = _mm512_add_epi32(sum, _mm512_load_si512(sums.of[p][v / 2][v % 2]));
        finish.store(_mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)), place, y);
      }
    }
  }
}

// Taps are inside of words: neighbouring taps read nearly the same tables, which then are in the first-level cache.
template <class Lookup, int pixels, int vectors>
void convolve_block(const Windows& windows, const typename Lookup::Block& block, const Epilogue& epilogue, float* y) {
  WideSums<pixels, vectors> wide_sums;
  Sums<pixels, vectors> sums;
  sums.clear();
  const int16_t* tables[pixels];  // a copy, so that the compiler keeps them in registers
  for (int p = 0; p < pixels; ++p) tables[p] = block.tables[p];
  const uint8_t* weights = block.weights;
  int left = steps;
  for (int first = 0; first < windows.tables; first += word_tables)
    for (int row = 0; row < windows.rows.kernel; ++row)
      for (int column = 0; column < windows.columns.kernel; ++column, weights += vectors * 64) {
        if (left-- == 0) {
          wide_sums.add(sums);
          sums.clear();
          left = steps - 1;
        }
        add_tables<pixels, vectors>(
            sums, tables, row * windows.row + column * windows.pixel + static_cast<ptrdiff_t>(first) * wide, weights,
            smaller(windows.tables - first, word_tables));
      }
  alignas(64) int16_t last[pixels][vectors][wide];
#pragma GCC unroll unrolled
  for (int p = 0; p < pixels; ++p)
#pragma GCC unroll unrolled
    for (int v = 0; v < vectors; ++v) _mm512_store_si512(last[p][v], sums.of[p][v]);
  store_sums<pixels, vectors>(wide_sums, last, windows, block, epilogue, y);
}

// Blocks at an end have fewer pixels or vectors: the function for this many.
template <class Lookup, int pixels, int vectors>
void convolve_at_most(const Windows& windows, const typename Lookup::Block& block, const Epilogue& epilogue, float* y) {
  if constexpr (pixels > 1)
    if (block.pixels < pixels) return convolve_at_most<Lookup, pixels - 1, vectors>(windows, block, epilogue, y);
  if constexpr (vectors > 1)
    if (block.outputs <= (vectors - 1) * wide)
      return convolve_at_most<Lookup, pixels, vectors - 1>(windows, block, epilogue, y);
  convolve_block<Lookup, pixels, vectors>(windows, block, epilogue, y);
}

template <int pixels, int vectors>
void Int8Lookup<pixels, vectors>::convolve(const Windows& windows, const Block& block, const Epilogue& epilogue,
                                           float* y) {
  convolve_at_most<Int8Lookup, pixels, vectors>(windows, block, epilogue, y);
}

template <class Lookup>
size_t prepared_bytes(const ConvShape& shape) {
  return weight_sum_bytes(shape) + lookup_weight_bytes<Lookup>(shape);
}

// In the order of use: (group, block of outputs, word, tap, 32 outputs of the block), behind the sums of weights. The
// even lanes of a vector are its first 16 outputs.
template <class Lookup>
void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const Windows windows = windows_for<Lookup>(shape);
  const OutputBlocks blocks = output_blocks(shape, Lookup::outputs);
  std::memset(prepared, 0, prepared_bytes<Lookup>(shape));
  sum_weights(shape, rows, static_cast<int32_t*>(prepared));
  auto* to = reinterpret_cast<uint16_t*>(static_cast<uint8_t*>(prepared) + weight_sum_bytes(shape));
  for (int block = 0; block < shape.groups * blocks.per_group; ++block)
    for (int word = 0; word < words(windows); ++word)
      for (int tap = 0; tap < windows.taps(); ++tap)
        for (int first = 0; first < blocks.count(block); first += wide)
          for (int lane = 0; lane < wide; ++lane, ++to) {
            const int output = first + lane % 2 * lanes + lane / 2;
            if (output >= blocks.count(block)) continue;
            const uint8_t* row = rows + static_cast<size_t>(blocks.channel(block) + output) * row_bytes_of(shape);
            for (int i = 0; i < smaller(windows.tables - word * word_tables, word_tables); ++i) {
              const int channel = (word * word_tables + i) * index_bits;
              const auto place = static_cast<size_t>(tap) * static_cast<size_t>(windows.channels);
              const auto count = static_cast<size_t>(smaller(index_bits, windows.channels - channel));
              const auto bits = static_cast<unsigned>(weight_bits(row, place + static_cast<size_t>(channel), count));
              *to = static_cast<uint16_t>(*to | index_of(bits) << (i * index_bits));
            }
          }
}

template <class Lookup>
size_t scratch_bytes(const ConvShape& shape) {
  return Lookup::head_bytes(shape) + lookup_table_bytes<Lookup>(shape) + row_bytes(shape) + row_margin;
}

// A table costs more to build than a few uses of it save.
template <class Lookup>
bool supports(const ConvShape& shape) {
  constexpr int worthwhile = 6;
  const int outputs = shape.out_channels / shape.groups;
  const Windows windows = windows_for<Lookup>(shape);
  return outputs > Lookup::outputs / 2 && windows.taps() * ceil_div(outputs, wide) >= worthwhile &&
         lookup_supports<Lookup>(shape);
}

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  static const bool answer = is_amd() && has_avx512(avx512f + avx512bw + avx512vnni);
  return answer;
#endif
}

template <class Lookup>
constexpr ConvKernel kernel_of(const char* name) {
  return {name,
          available,
          supports<Lookup>,
          prepared_bytes<Lookup>,
          prepare<Lookup>,
          scratch_bytes<Lookup>,
          lookup_stages,
          lookup_tasks<Lookup>,
          lookup_run<Lookup>,
          true};
}

}  // namespace

// Blocks of many outputs read fewer tables from the second cache, where there are as many.
extern const ConvKernel avx512_int8_kernel, avx512_int8_wide_kernel;
const ConvKernel avx512_int8_kernel = kernel_of<Int8Lookup<14, 2>>("avx512-int8");
const ConvKernel avx512_int8_wide_kernel = kernel_of<Int8Lookup<6, 4>>("avx512-int8-wide");

}  // namespace adaste

#endif

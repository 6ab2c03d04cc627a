// One-bit weights and float32 activations with AVX-512, by look-up in registers (lookup.h): 64 multiply-adds a shuffle.
//
// A quad's table holds all 16 signed sums of its four channels, one vector; vpermps with a 4-bit index then fetches the
// sums of 16 output channels. It ignores all but the lowest 4 bits of each index, so a 32-bit lane holds the weights of
// 8 quads (32 input channels) of an output channel, and is shifted by 4 from quad to quad. 6 pixels by 64 outputs make
// 24 sums: with 4 vectors of indices, a table and a fetched vector that is what 32 registers hold.
#if defined(__AVX512F__) || defined(ADASTE_SIMDE)

#include "avx512.h"
#include "lookup.h"

namespace adaste {
namespace {

constexpr int quads_per_word = 8;

struct Avx512Lookup {
  static constexpr int table = 16;
  static constexpr int pixels = 6;
  static constexpr int vectors = 4;
  static constexpr int outputs = vectors * lanes;
  static constexpr ptrdiff_t slab = 768 * 1024;  // second-level caches have 1 MiB or more; weights need some of it

  using Block = LookupBlock<pixels>;
  static size_t weight_bytes(const Windows& windows, int count);
  static void build(const float* values, int channels, float* tables);
  static void convolve(const Windows& windows, const Block& block, const Epilogue& epilogue, float* y);
};

int words(const Windows& windows) { return ceil_div(windows.quads, quads_per_word); }

size_t Avx512Lookup::weight_bytes(const Windows& windows, int count) {
  return static_cast<size_t>(ceil_div(count, lanes)) * static_cast<size_t>(windows.taps()) *
         static_cast<size_t>(words(windows)) * lanes * sizeof(uint32_t);
}

// The signs of channel number `channel` of a quad in the 16 entries of its table: entry i has + where bit `channel` of
// i is 1.
__m512 signs(int channel) {
  alignas(64) static constexpr float patterns[4][lanes] = {
      {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1},
      {-1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1},
      {-1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1},
      {-1, -1, -1, -1, -1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1, 1}};
  return _mm512_load_ps(patterns[channel]);
}

void Avx512Lookup::build(const float* values, int channels, float* tables) {
  const __m512 first = signs(0);
  const __m512 second = signs(1);
  const __m512 third = signs(2);
  const __m512 fourth = signs(3);
  for (; channels >= 4; channels -= 4, values += 4, tables += table) {
    __m512 sums = _mm512_mul_ps(_mm512_set1_ps(values[0]), first);
    sums = _mm512_fmadd_ps(_mm512_set1_ps(values[1]), second, sums);
    sums = _mm512_fmadd_ps(_mm512_set1_ps(values[2]), third, sums);
    sums = _mm512_fmadd_ps(_mm512_set1_ps(values[3]), fourth, sums);
    _mm512_store_ps(tables, sums);
  }
  if (channels == 0) return;
  __m512 sums = _mm512_mul_ps(_mm512_set1_ps(values[0]), first);
  if (channels > 1) sums = _mm512_fmadd_ps(_mm512_set1_ps(values[1]), second, sums);
  if (channels > 2) sums = _mm512_fmadd_ps(_mm512_set1_ps(values[2]), third, sums);
  _mm512_store_ps(tables, sums);
}

template <int pixels, int vectors>
struct Sums {
  __m512 of[pixels][vectors];
};

// Adds the sums of up to 8 quads; the loops over pixels and vectors unroll into registers.
template <int pixels, int vectors>
inline __attribute__((always_inline)) void add_quads(Sums<pixels, vectors>& sums, const float* const* tables,
                                                     ptrdiff_t offset, const uint32_t* weights, int quads) {
  __m512i indices[vectors];
  for (int v = 0; v < vectors; ++v) indices[v] = _mm512_load_si512(weights + v * lanes);
  for (int quad = 0; quad < quads; ++quad, offset += Avx512Lookup::table) {
    for (int p = 0; p < pixels; ++p) {
      const __m512 table = _mm512_load_ps(tables[p] + offset);
      for (int v = 0; v < vectors; ++v)
        sums.of[p][v] = _mm512_add_ps(sums.of[p][v], _mm512_permutexvar_ps(indices[v], table));
    }
    for (int v = 0; v < vectors; ++v) indices[v] = _mm512_srli_epi32(indices[v], 4);
  }
}

template <int pixels, int vectors>
void convolve_block(const Windows& windows, const Avx512Lookup::Block& block, const Epilogue& epilogue, float* y) {
  Sums<pixels, vectors> sums;
  for (int p = 0; p < pixels; ++p)
    for (int v = 0; v < vectors; ++v) sums.of[p][v] = _mm512_setzero_ps();
  const float* tables[pixels];  // a copy, so that the compiler keeps them in registers
  for (int p = 0; p < pixels; ++p) tables[p] = block.tables[p];

  const int tap_words = words(windows) * vectors * lanes;
  for (int row = block.first_row; row < block.end_row; ++row)
    for (int column = block.first_column; column < block.end_column; ++column) {
      ptrdiff_t offset = row * windows.row + column * windows.pixel;
      const uint32_t* weights = reinterpret_cast<const uint32_t*>(block.weights) +
                                static_cast<ptrdiff_t>(row * windows.columns.kernel + column) * tap_words;
      for (int quads = windows.quads; quads > 0; quads -= quads_per_word) {
        add_quads<pixels, vectors>(sums, tables, offset, weights, smaller(quads, quads_per_word));
        offset += quads_per_word * Avx512Lookup::table;
        weights += vectors * lanes;
      }
    }

  for (int v = 0; v < vectors; ++v) {
    const Finish finish(epilogue, block.channel + v * lanes, block.outputs - v * lanes);
    for (int p = 0; p < pixels; ++p)
      finish.store(sums.of[p][v], block.place + static_cast<ptrdiff_t>(p) * windows.out_channels + v * lanes, y);
  }
}

using ConvolveBlock = void (*)(const Windows&, const Avx512Lookup::Block&, const Epilogue&, float*);

template <int pixels>
constexpr ConvolveBlock by_vectors[Avx512Lookup::vectors] = {convolve_block<pixels, 1>, convolve_block<pixels, 2>,
                                                             convolve_block<pixels, 3>, convolve_block<pixels, 4>};

void Avx512Lookup::convolve(const Windows& windows, const Block& block, const Epilogue& epilogue, float* y) {
  static constexpr const ConvolveBlock* by_pixels[pixels] = {by_vectors<1>, by_vectors<2>, by_vectors<3>,
                                                             by_vectors<4>, by_vectors<5>, by_vectors<6>};
  by_pixels[block.pixels - 1][ceil_div(block.outputs, lanes) - 1](windows, block, epilogue, y);
}

// The word of 8 quads, from number `first` on, at one tap of an output channel whose weights are `row`.
uint32_t pack_word(const Windows& windows, const uint8_t* row, int tap, int first) {
  uint32_t word = 0;
  for (int bit = 0; bit < 32; ++bit) {
    const int channel = first * 4 + bit;
    if (channel >= windows.channels) break;  // the tables' sums ignore what is behind
    const size_t weight = static_cast<size_t>(channel) * static_cast<size_t>(windows.taps()) + static_cast<size_t>(tap);
    if (weight_bit(row, weight)) word |= 1U << bit;
  }
  return word;
}

// In the order of use: (group, block of 64 outputs, tap, word of 8 quads, output of the block). A block at the end of a
// group has as many vectors of 16 outputs as it needs.
void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const Windows windows = windows_for<Avx512Lookup>(shape);
  const OutputBlocks blocks = output_blocks(shape, Avx512Lookup::outputs);
  const size_t row_bytes = (window_size(shape) + 7) / 8;
  auto* to = static_cast<uint32_t*>(prepared);
  for (int block = 0; block < shape.groups * blocks.per_group; ++block) {
    const int padded = ceil_div(blocks.count(block), lanes) * lanes;
    for (int tap = 0; tap < windows.taps(); ++tap)
      for (int first = 0; first < windows.quads; first += quads_per_word)
        for (int output = 0; output < padded; ++output) {
          const size_t channel = static_cast<size_t>(blocks.channel(block)) + static_cast<size_t>(output);
          *to++ = output < blocks.count(block) ? pack_word(windows, rows + channel * row_bytes, tap, first) : 0U;
        }
  }
}

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  return __builtin_cpu_supports("avx512f") != 0;
#endif
}

}  // namespace

extern const ConvKernel avx512_kernel;
const ConvKernel avx512_kernel = {"avx512",
                                  available,
                                  lookup_supports<Avx512Lookup>,
                                  lookup_weight_bytes<Avx512Lookup>,
                                  prepare,
                                  lookup_scratch_bytes<Avx512Lookup>,
                                  lookup_stages<Avx512Lookup>,
                                  lookup_tasks<Avx512Lookup>,
                                  lookup_run<Avx512Lookup>};

}  // namespace adaste

#endif

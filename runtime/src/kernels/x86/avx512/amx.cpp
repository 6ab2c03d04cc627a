// One-bit weights and 8-bit activations with Intel AMX.
//
// tdpbusd multiplies a tile of 16 pixels by 64 unsigned bytes with one of 64 signed bytes by 16 outputs, 16384
// multiply-adds, and adds the products to a tile of 32-bit sums. amx_windows.h lays activations out so that any
// 16 neighbouring pixels of an image are a tile. A block is two tiles of pixels by two of outputs: four loads for four
// products, whose sums stay in registers.
//
// Weights stay packed, 64 bits for a row of a tile, so that those of a whole network fit into the second cache. A unit
// expands them to -1 and +1 for two tiles of outputs and a part of the window (`depth` steps of 64 bytes) as its first
// pixels need them, and uses them for all its pixels. Where the window has more steps, sums wait in memory for the next
// part. Weights, pixels and sums of a part fit into the first cache together: that bounds the depth.
#if (defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AVX512F__) && defined(__AVX512BW__)) || \
    defined(ADASTE_SIMDE)

#include "kernels/x86/avx512/amx_product.h"
#include "kernels/x86/avx512/amx_tiles.h"
#include "kernels/x86/avx512/levels.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

constexpr int block_outputs = 2 * lanes;
constexpr int pieces = 4;                  // in which the outputs of a pair are written
constexpr int first_writing = 3;           // the step before which the first is: the sums of the pair before are ready
constexpr int masks_per_tile = tile_rows;  // of 64 bits, one for each quad
constexpr int least_pixels = 8;            // with fewer, expanding weights is most of the work
constexpr int least_channels = 8;          // of a group, and outputs: with fewer, tiles are all but empty

// Masks of so many output channels of a group.
size_t mask_count(const Steps& steps, int outputs) {
  return static_cast<size_t>(ceil_div(outputs, lanes)) * static_cast<size_t>(steps.count) * masks_per_tile;
}

size_t weight_bytes(const ConvShape& shape) {
  const size_t masks = mask_count(steps_for(shape), shape.out_channels / shape.groups);
  return weight_sum_bytes(shape) + static_cast<size_t>(shape.groups) * masks * sizeof(uint64_t);
}

// In the order of use: (group, block of 32 outputs, step, tile of outputs, quad), behind the sums of weights.
void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const OutputBlocks blocks = output_blocks(shape, block_outputs);
  const Steps steps = steps_for(shape);
  const size_t row_bytes = row_bytes_of(shape);
  sum_weights(shape, rows, static_cast<int32_t*>(prepared));
  auto* to = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(prepared) + weight_sum_bytes(shape));
  for (int block = 0; block < shape.groups * blocks.per_group; ++block)
    for (int step = 0; step < steps.count; ++step)
      for (int first = 0; first < blocks.count(block); first += lanes) {
        const uint8_t* outputs = rows + static_cast<size_t>(blocks.channel(block) + first) * row_bytes;
        const int count = smaller(lanes, blocks.count(block) - first);
        for (int i = 0; i < tile_rows; ++i, ++to) {
          const QuadPlace quad = steps.quad(step, i);
          const int tap = quad.row * shape.kernel_w + quad.column;
          *to = (steps.valid_quads(step) >> i & 1U) != 0 ? quad_mask(shape, outputs, count, tap, quad.quad) : 0;
        }
      }
}

// The weights of one tile as bytes; those of quads outside the window are 0.
void expand_tile(const uint64_t* masks, uint32_t valid, uint8_t* to) {
  const __m512i minus = _mm512_set1_epi8(-1);
  const __m512i plus = _mm512_set1_epi8(1);
  for (int i = 0; i < tile_rows; ++i)  // a loop of constant length is unrolled
    _mm512_store_si512(to + i * tile_row_bytes, _mm512_mask_blend_epi8(masks[i], minus, plus));
  if (valid == (1U << tile_rows) - 1U) return;
  for (int i = 0; i < tile_rows; ++i)
    if ((valid >> i & 1U) == 0) _mm512_store_si512(to + i * tile_row_bytes, _mm512_setzero_si512());
}

// A unit of amx_tiles.h.
template <int depth>
class Unit {
 public:
  Unit(const ConvShape& shape, const Windows& windows, const Slab& slab, int parts, int unit, const void* prepared,
       const Epilogue& epilogue, const Quantisation& quantisation, float* y, const void* scratch)
      : shape_(shape),
        windows_(windows),
        slab_(slab),
        steps_(steps_for(shape, windows)),
        tiles_(place_tiles(shape, windows, slab)),
        epilogue_(epilogue),
        quantisation_(quantisation),
        y_(y),
        scratch_(scratch) {
    const OutputBlocks blocks = output_blocks(shape, block_outputs);
    const int block = unit % (blocks.per_group * shape.groups);  // fastest: all read and write close by
    const int number = unit / (blocks.per_group * shape.groups);
    first_ = 2 * static_cast<int>(part_start(tiles_.pairs, parts, number));
    end_ = smaller(tiles_.count, 2 * static_cast<int>(part_start(tiles_.pairs, parts, number + 1)));
    channel_ = blocks.channel(block);
    outputs_ = blocks.count(block);
    weight_sums_ = static_cast<const int32_t*>(prepared) + channel_;
    masks_ = reinterpret_cast<const uint64_t*>(static_cast<const uint8_t*>(prepared) + weight_sum_bytes(shape)) +
             static_cast<size_t>(blocks.group(block)) * mask_count(steps_, blocks.outputs) +
             mask_count(steps_, blocks.first(block));
    copy_ = static_cast<const uint8_t*>(scratch) + range_bytes(shape) + blocks.group(block) * windows_.group;
  }

  void run() {
    const int parts = window_parts(steps_, depth);
    configure(tiles_.rows);
    for (int part = 0; part < parts; ++part)
      run_part(static_cast<int>(part_start(steps_.count, parts, part)),
               static_cast<int>(part_start(steps_.count, parts, part + 1)));
    _tile_release();
  }

 private:
  void run_part(int start, int end) {
    const int pairs = (end_ - first_ + 1) / 2;
    const bool last = end == steps_.count;
    for (int i = start; i < end; ++i) places_[i - start] = steps_.place(windows_, i);
    for (int pair = 0; pair < pairs; ++pair) {
      const Product product{{first_entry(pair, 0), first_entry(pair, 1)}, windows_.entry, places_, weights_,
                            end - start, start == 0, sums_of(pair)};
      if (pair == 0) {
        multiply(product, tiles_of(pair), output_tiles(), [&](int step) { expand(start, step); });
      } else if (last) {  // outputs are written while products are under way
        multiply(product, tiles_of(pair), output_tiles(), [&](int step) { write(pair - 1, step - first_writing); });
        for (int piece = larger(0, end - start - first_writing); piece < pieces; ++piece) write(pair - 1, piece);
      } else {
        multiply(product, tiles_of(pair), output_tiles(), [](int) {});
      }
    }
    if (last)
      for (int piece = 0; piece < pieces; ++piece) write(pairs - 1, piece);
  }

  int output_tiles() const { return ceil_div(outputs_, lanes); }
  int tiles_of(int pair) const { return end_ - first_ - 2 * pair < 2 ? 1 : 2; }

  // Sums that need not wait for a next part share two places.
  int32_t* sums_of(int pair) {
    return sums_ + pair % (steps_.count <= depth ? 2 : most_waiting_pairs) * pair_sums;
  }

  // Of tile 0 or 1 of a pair; that of the last one where there is none.
  const uint8_t* first_entry(int pair, int number) const {
    const int tile = first_ + 2 * pair + smaller(number, tiles_of(pair) - 1);
    return copy_ + tile / tiles_.per_image * windows_.image +
           static_cast<ptrdiff_t>(tile % tiles_.per_image * tiles_.rows) * windows_.entry;
  }

  // The weights of a step of the part that starts with step `start`.
  void expand(int start, int step) {
    const int tiles = output_tiles();
    const uint64_t* masks = masks_ + static_cast<ptrdiff_t>(start + step) * tiles * masks_per_tile;
    const uint32_t valid = steps_.valid_quads(start + step);
    uint8_t* to = weights_ + step * tiles * tile_bytes;
    for (int tile = 0; tile < tiles; ++tile, masks += masks_per_tile, to += tile_bytes)
      expand_tile(masks, valid, to);
    written(weights_);
  }

  // One of the pieces of a pair's outputs: a tile of pixels by a tile of outputs.
  void write(int pair, int piece) {
    const int number = piece / 2;
    const int output = piece % 2 * lanes;
    if (piece < 0 || number >= tiles_of(pair) || output >= outputs_) return;
    const int tile = first_ + 2 * pair + number;
    const int image = slab_.first_image + tile / tiles_.per_image;
    if (image != levels_of_) levels_ = image_levels(shape_, image, quantisation_, scratch_);
    levels_of_ = image;
    write_sums(image, tile % tiles_.per_image * tiles_.rows, output,
               sums_of(pair) + piece * tile_sums);
  }

  // Sums of levels to sums of activations, and these to 16 outputs of a tile's pixels. Places behind the pixels of a
  // row are left out.
  __attribute__((noinline)) void write_sums(ptrdiff_t image, int first, int output, const int32_t* sums) const {
    const int count = smaller(lanes, outputs_ - output);
    alignas(64) int32_t weight_sums[lanes] = {};
    std::memcpy(weight_sums, weight_sums_ + output, static_cast<size_t>(count) * sizeof(int32_t));
    const __m512i of_zeros = _mm512_mullo_epi32(_mm512_set1_epi32(static_cast<int>(levels_.zero)),
                                                _mm512_load_si512(weight_sums));
    const __m512 scale = _mm512_set1_ps(levels_.scale);
    const Finish finish(epilogue_, channel_ + output, count);
    const int end = smaller(first + tiles_.rows, tiles_.places);
    const ptrdiff_t distance = shape_.out_channels;
    float* const y = y_;
    for (int place = first; place < end;) {
      const int row = place / windows_.places;
      const int column = place - row * windows_.places;
      const int pixels = smaller(shape_.out_width - column, end - place);
      ptrdiff_t to = ((image * shape_.out_height + slab_.first_row + row) * shape_.out_width + column) *
                         shape_.out_channels +
                     channel_ + output;
      const int32_t* from = sums + (place - first) * lanes;
      for (int pixel = 0; pixel < pixels; ++pixel, from += lanes, to += distance) {
        const __m512i sum = _mm512_sub_epi32(_mm512_load_si512(from), of_zeros);
        finish.store(_mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)), to, y);
      }
      place = (row + 1) * windows_.places;
    }
  }

  const ConvShape& shape_;
  const Windows& windows_;
  const Slab& slab_;
  const Steps steps_;
  const PlaceTiles tiles_;
  const Epilogue& epilogue_;
  const Quantisation& quantisation_;
  float* y_;
  const void* scratch_;
  int first_, end_;  // tiles
  int channel_, outputs_;
  const int32_t* weight_sums_;
  const uint64_t* masks_;
  const uint8_t* copy_;
  int levels_of_ = -1;  // the image whose levels `levels_` are
  Levels levels_{};
  ptrdiff_t places_[depth];
  alignas(64) uint8_t weights_[2 * depth * tile_bytes];
  alignas(64) int32_t sums_[most_waiting_pairs * pair_sums];
};

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  static const bool answer = has_avx512(avx512f + avx512bw) && has_amx();
  return answer;
#endif
}

bool supports(const ConvShape& shape) {
  const bool fills_tiles = shape.out_height * shape.out_width >= least_pixels &&
                           (shape.groups == 1 ||
                            smaller(shape.channels, shape.out_channels) / shape.groups >= least_channels);
  return fills_tiles && slabs_suit(shape, windows_for(shape).image_row(shape.groups), slab_bytes);
}

size_t scratch_bytes(const ConvShape& shape) { return windows_scratch_bytes(shape, tile_rows); }

// Stage 0 finds ranges; slab s is copied in stage 2s + 1 and convolved in stage 2s + 2.
int stages(const ConvShape& shape) { return 1 + 2 * windows_for(shape).slabs.count; }

template <int depth>
Units units_of(const ConvShape& shape, const Windows& windows, const Slab& slab) {
  return units_for(shape, place_tiles(shape, windows, slab), steps_for(shape, windows),
                   output_blocks(shape, block_outputs).per_group * shape.groups, depth);
}

template <int depth>
int tasks(const ConvShape& shape, int stage) {
  if (stage == 0) return shape.batch * range_pieces(shape);
  const Windows windows = windows_for(shape);
  const Slab slab = slab_at(shape, windows.slabs, (stage - 1) / 2);
  if (stage % 2 == 1) return window_tasks(shape, windows, slab).count();
  return units_of<depth>(shape, windows, slab).tasks;
}

template <int depth>
void run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared, const Epilogue& epilogue,
         const Quantisation& quantisation, float* y, void* scratch) {
  if (stage == 0) return find_range<Avx512Levels>(shape, task, x, quantisation, scratch);
  const Windows windows = windows_for(shape);
  const Slab slab = slab_at(shape, windows.slabs, (stage - 1) / 2);
  if (stage % 2 == 1)
    return window_tasks(shape, windows, slab).run(task, [&](int row) {
      write_windows<Avx512Levels>(shape, windows, slab, row, x, quantisation, scratch);
    });
  const Units units = units_of<depth>(shape, windows, slab);
  units.run(task, [&](int unit) {
    Unit<depth>(shape, windows, slab, units.parts, unit, prepared, epilogue, quantisation, y, scratch).run();
  });
}

}  // namespace

// 12 steps are a row of a window of 3x3 and 256 channels; their weights take 24 KiB.
extern const ConvKernel amx_kernel;
const ConvKernel amx_kernel = {"amx",         available, supports,  weight_bytes, prepare,
                               scratch_bytes, stages,    tasks<12>, run<12>,      false,   true};

}  // namespace adaste

#endif

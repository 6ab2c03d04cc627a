// One-bit weights and 8-bit activations with Intel AMX.
//
// tdpbusd multiplies a tile of 16 pixels by 64 unsigned bytes with one of 64 signed bytes by 16 outputs, 16384
// multiply-adds, and adds the products to a tile of 32-bit sums. quantised_windows.h lays activations out so that any
// 16 neighbouring pixels of an image are a tile. A block is two tiles of pixels by two of outputs: four loads for four
// products, whose sums stay in registers.
//
// Weights stay packed, 64 bits for a row of a tile, so that those of a whole network fit into the second cache. A task
// expands them to -1 and +1 for two tiles of outputs and a part of the window (`depth` steps of 64 bytes), and uses
// them for all its pixels. Where the window has more steps, sums wait in memory for the next part.
#if (defined(__AMX_TILE__) && defined(__AMX_INT8__) && defined(__AVX512F__) && defined(__AVX512BW__)) || \
    defined(ADASTE_SIMDE)

#include "amx_product.h"
#include "quantise_avx512.h"
#include "quantised_windows.h"

namespace adaste {
namespace {

constexpr int block_outputs = 2 * lanes;
constexpr int most_pairs = 8;              // of tiles of pixels, in a task
constexpr int masks_per_tile = tile_rows;  // of 64 bits, one for each quad
constexpr int least_pixels = 8;            // with fewer, expanding weights is most of the work
constexpr int least_channels = 8;          // of a group, and outputs: with fewer, tiles are all but empty
constexpr int widest_kernel = 8;           // activations are copied kernel_w / stride_w times

// How pixels are cut into tiles: each within one image, all but an image's last of `rows` pixels.
struct PixelTiles {
  int pixels, per_image, rows;
  ptrdiff_t count, pairs;  // of the whole batch
};

PixelTiles pixel_tiles(const ConvShape& shape) {
  PixelTiles tiles{shape.out_height * shape.out_width, 0, 0, 0, 0};
  tiles.per_image = ceil_div(tiles.pixels, tile_rows);
  tiles.rows = ceil_div(tiles.pixels, tiles.per_image);
  tiles.count = static_cast<ptrdiff_t>(shape.batch) * tiles.per_image;
  tiles.pairs = (tiles.count + 1) / 2;
  return tiles;
}

int parts(const PixelTiles& tiles) { return static_cast<int>((tiles.pairs + most_pairs - 1) / most_pairs); }

// Steps of 64 bytes through the window; each row of the window starts one.
struct Steps {
  int per_row, count, quads;  // quads: of a row

  int valid_quads(int step) const { return smaller(tile_rows, quads - step % per_row * tile_rows); }
  ptrdiff_t place(const Windows& windows, int step) const {
    return windows.row_of_taps(step / per_row) + static_cast<ptrdiff_t>(step % per_row) * tile_row_bytes;
  }
};

Steps steps_for(const ConvShape& shape) {
  const int quads = shape.kernel_w * ceil_div(shape.channels / shape.groups, 4);
  const int per_row = ceil_div(quads, tile_rows);
  return {per_row, per_row * shape.kernel_h, quads};
}

// Masks of so many output channels of a group.
size_t mask_count(const ConvShape& shape, int outputs) {
  return static_cast<size_t>(ceil_div(outputs, lanes)) * static_cast<size_t>(steps_for(shape).count) * masks_per_tile;
}

size_t weight_sum_bytes(const ConvShape& shape) {
  return aligned(static_cast<size_t>(shape.out_channels) * sizeof(int32_t));
}

size_t weight_bytes(const ConvShape& shape) {
  return weight_sum_bytes(shape) + static_cast<size_t>(shape.groups) *
                                       mask_count(shape, shape.out_channels / shape.groups) * sizeof(uint64_t);
}

// In the order of use: (group, block of 32 outputs, step, tile of outputs, quad), behind the sums of weights.
void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  const OutputBlocks blocks = output_blocks(shape, block_outputs);
  const Steps steps = steps_for(shape);
  const int quads = steps.quads / shape.kernel_w;  // of a pixel
  const size_t row_bytes = (window_size(shape) + 7) / 8;
  store_weight_sums(shape, rows, prepared);
  auto* to = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(prepared) + weight_sum_bytes(shape));
  for (int block = 0; block < shape.groups * blocks.per_group; ++block)
    for (int step = 0; step < steps.count; ++step)
      for (int first = 0; first < blocks.count(block); first += lanes) {
        const uint8_t* outputs = rows + static_cast<size_t>(blocks.channel(block) + first) * row_bytes;
        const int count = smaller(lanes, blocks.count(block) - first);
        for (int i = 0; i < tile_rows; ++i, ++to) {
          const int quad = step % steps.per_row * tile_rows + i;
          const int tap = step / steps.per_row * shape.kernel_w + quad / quads;
          *to = i < steps.valid_quads(step) ? quad_mask(shape, outputs, count, tap, quad % quads) : 0;
        }
      }
}

// The weights of one tile as bytes. Quads behind the last of a row of the window meet whatever follows it: they are 0.
void expand_tile(const uint64_t* masks, int quads, uint8_t* to) {
  const __m512i minus = _mm512_set1_epi8(-1);
  const __m512i plus = _mm512_set1_epi8(1);
  for (int i = 0; i < quads; ++i)
    _mm512_store_si512(to + i * tile_row_bytes, _mm512_mask_blend_epi8(masks[i], minus, plus));
  for (int i = quads; i < tile_rows; ++i) _mm512_store_si512(to + i * tile_row_bytes, _mm512_setzero_si512());
}

// All pixels of a task, for one block of outputs.
class Task {
 public:
  Task(const ConvShape& shape, int task, const void* prepared, const Epilogue& epilogue,
       const Quantisation& quantisation, float* y, const void* scratch)
      : shape_(shape),
        windows_(windows_for(shape)),
        steps_(steps_for(shape)),
        tiles_(pixel_tiles(shape)),
        epilogue_(epilogue),
        quantisation_(quantisation),
        y_(y),
        scratch_(scratch) {
    const OutputBlocks blocks = output_blocks(shape, block_outputs);
    const int block = task / parts(tiles_);
    const int part = task % parts(tiles_);
    first_ = 2 * part_start(tiles_.pairs, parts(tiles_), part);
    end_ = 2 * part_start(tiles_.pairs, parts(tiles_), part + 1);
    if (end_ > tiles_.count) end_ = tiles_.count;
    channel_ = blocks.channel(block);
    outputs_ = blocks.count(block);
    weight_sums_ = static_cast<const int32_t*>(prepared) + channel_;
    masks_ = reinterpret_cast<const uint64_t*>(static_cast<const uint8_t*>(prepared) + weight_sum_bytes(shape)) +
             static_cast<size_t>(blocks.group(block)) * mask_count(shape, blocks.outputs) +
             mask_count(shape, blocks.first(block));
    copy_ = static_cast<const uint8_t*>(scratch) + range_bytes(shape) + blocks.group(block) * windows_.group;
  }

  template <int depth>
  void run() {
    alignas(64) uint8_t weights[2 * depth * tile_bytes];
    alignas(64) int32_t sums[most_pairs * pair_sums];
    ptrdiff_t places[depth];
    // Sums that need not wait for a next part share two places, which stay in the first cache.
    const int sums_at_once = steps_.count <= depth ? 2 : most_pairs;
    const auto place = [&](int pair) { return sums + pair % sums_at_once * pair_sums; };
    const int pairs = static_cast<int>((end_ - first_ + 1) / 2);
    configure(tiles_.rows);
    for (int start = 0; start < steps_.count; start += depth) {
      const int steps = smaller(depth, steps_.count - start);
      const bool last = start + steps == steps_.count;
      expand(start, steps, weights, places);
      for (int pair = 0; pair < pairs; ++pair) {
        multiply({{first_entry(pair, 0), first_entry(pair, 1)}, windows_.entry, places, weights, steps, start == 0,
                  place(pair)},
                 tiles_of(pair), ceil_div(outputs_, lanes));
        if (last && pair > 0) write(pair - 1, place(pair - 1));  // while the products above are under way
      }
      if (last) write(pairs - 1, place(pairs - 1));
    }
    _tile_release();
  }

 private:
  int tiles_of(int pair) const { return end_ - first_ - 2 * pair < 2 ? 1 : 2; }

  // Of tile 0 or 1 of a pair; that of the last one where there is none.
  const uint8_t* first_entry(int pair, int number) const {
    const ptrdiff_t tile = first_ + 2 * pair + smaller(number, tiles_of(pair) - 1);
    return copy_ + tile / tiles_.per_image * windows_.image +
           tile % tiles_.per_image * tiles_.rows * windows_.entry;
  }

  void expand(int start, int steps, uint8_t* weights, ptrdiff_t* places) const {
    const int output_tiles = ceil_div(outputs_, lanes);
    const uint64_t* masks = masks_ + static_cast<ptrdiff_t>(start) * output_tiles * masks_per_tile;
    uint8_t* to = weights;
    for (int i = 0; i < steps; ++i) {
      places[i] = steps_.place(windows_, start + i);
      for (int tile = 0; tile < output_tiles; ++tile, masks += masks_per_tile, to += tile_bytes)
        expand_tile(masks, steps_.valid_quads(start + i), to);
    }
    written(weights);
  }

  void write(int pair, const int32_t* sums) {
    for (int i = 0; i < tiles_of(pair); ++i) write_tile(first_ + 2 * pair + i, sums + i * 2 * tile_sums);
  }

  // Sums of levels to sums of activations, and these to outputs.
  void write_tile(ptrdiff_t tile, const int32_t* sums) {
    const ptrdiff_t image = tile / tiles_.per_image;
    if (image != levels_of_) levels_ = image_levels(shape_, image, quantisation_, scratch_);
    levels_of_ = image;
    const int first = static_cast<int>(tile % tiles_.per_image) * tiles_.rows;
    const int pixels = smaller(tiles_.rows, tiles_.pixels - first);
    const __m512i zero = _mm512_set1_epi32(static_cast<int>(levels_.zero));
    const __m512 scale = _mm512_set1_ps(levels_.scale);
    for (int output = 0; output < outputs_; output += lanes, sums += tile_sums) {
      const int count = smaller(lanes, outputs_ - output);
      alignas(64) int32_t weight_sums[lanes] = {};
      std::memcpy(weight_sums, weight_sums_ + output, static_cast<size_t>(count) * sizeof(int32_t));
      const __m512i of_zeros = _mm512_mullo_epi32(zero, _mm512_load_si512(weight_sums));
      const Finish finish(epilogue_, channel_ + output, count);
      ptrdiff_t place = (image * tiles_.pixels + first) * shape_.out_channels + channel_ + output;
      for (int pixel = 0; pixel < pixels; ++pixel, place += shape_.out_channels) {
        const __m512i sum = _mm512_sub_epi32(_mm512_load_si512(sums + pixel * lanes), of_zeros);
        finish.store(_mm512_mul_ps(scale, _mm512_cvtepi32_ps(sum)), place, y_);
      }
    }
  }

  const ConvShape& shape_;
  const Windows windows_;
  const Steps steps_;
  const PixelTiles tiles_;
  const Epilogue& epilogue_;
  const Quantisation& quantisation_;
  float* y_;
  const void* scratch_;
  ptrdiff_t first_, end_;  // tiles
  int channel_, outputs_;
  const int32_t* weight_sums_;
  const uint64_t* masks_;
  const uint8_t* copy_;
  ptrdiff_t levels_of_ = -1;  // the image whose levels `levels_` are
  Levels levels_{};
};

bool available() {
#ifdef ADASTE_SIMDE
  return true;
#else
  static const bool answer =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 && has_amx();
  return answer;
#endif
}

bool supports(const ConvShape& shape) {
  return shape.out_height * shape.out_width >= least_pixels && shape.kernel_w <= widest_kernel &&
         (shape.groups == 1 || smaller(shape.channels, shape.out_channels) / shape.groups >= least_channels);
}

size_t scratch_bytes(const ConvShape& shape) { return windows_scratch_bytes(shape, tile_rows); }

int tasks(const ConvShape& shape, int stage) {
  if (stage == 0) return shape.batch * range_pieces(shape);
  if (stage == 1) return window_rows(shape);
  return output_blocks(shape, block_outputs).per_group * shape.groups * parts(pixel_tiles(shape));
}

template <int depth>
void run(const ConvShape& shape, int stage, int task, const float* x, const void* prepared, const Epilogue& epilogue,
         const Quantisation& quantisation, float* y, void* scratch) {
  if (stage == 0)
    find_range<Avx512Levels>(shape, task, x, quantisation, scratch);
  else if (stage == 1)
    write_windows<Avx512Levels>(shape, task, x, quantisation, scratch);
  else
    Task(shape, task, prepared, epilogue, quantisation, y, scratch).run<depth>();
}

}  // namespace

// 18 steps are a window of 3x3 and 128 channels; their weights take 36 KiB.
extern const ConvKernel amx_kernel;
const ConvKernel amx_kernel = {"amx",         available,  supports, weight_bytes, prepare,
                               scratch_bytes, dot_stages, tasks,    run<18>};

}  // namespace adaste

#endif

// One-bit weights and float32 activations on AVX2: signed_sums.h with strips of 16, 8 or 4 positions.
#include <cstring>

#include "kernels/registry.h"
#include "kernels/x86/cpu.h"
#include "kernels/x86/avx2/signed_sums_float.h"

namespace adaste {
namespace {

constexpr int most_channels = 512;  // output channels per task: their sums take 32 KiB

size_t weight_bytes(const ConvShape& shape) { return word_bytes(shape, window_size(shape)); }

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  prepare_words(shape, window_size(shape), rows, static_cast<uint64_t*>(prepared));
}

size_t scratch_bytes(const ConvShape& /*shape*/) { return 0; }

int stages(const ConvShape& /*shape*/) { return 1; }

int lanes_for(const ConvShape& shape) { return positions(shape) > 8 ? 16 : positions(shape) > 4 ? 8 : 4; }

int tasks(const ConvShape& shape, int /*stage*/) { return cut(shape, lanes_for(shape), most_channels).count; }

// The inputs of a chunk side by side: in place when they belong to one pixel, else in `copy`, followed by zeros. Up to
// seven floats behind the chunk are written, too.
const float* inputs_of(const ConvShape& shape, const Window& window, const Chunk& part, float* copy) {
  if (part.in_one_pixel() && part.count == chunk) {
    const float* pixel = pixel_at(shape, window, part.row, part.column);
    return pixel != nullptr ? pixel + part.channel : zeros;
  }
  copy_inputs(shape, window, part, copy, copy_floats);
  if (part.count < chunk) copy_floats(zeros, chunk - part.count, copy + part.count);
  return copy;
}

template <class Strip>
void convolve(const ConvShape& shape, int task, const float* x, const uint64_t* words, const Epilogue& epilogue,
              float* y) {
  alignas(64) float tables[table_elements<Strip>];
  alignas(64) float sums[most_channels * Strip::lanes];
  alignas(64) float copies[Strip::lanes * chunk + 8];
  const int outputs = shape.out_channels / shape.groups;
  const int window = static_cast<int>(window_size(shape));
  const Piece piece = piece_of(shape, cut(shape, Strip::lanes, most_channels), task);

  std::memset(sums, 0, static_cast<size_t>(piece.channels) * Strip::lanes * sizeof(float));
  Window windows[Strip::lanes];
  for (int lane = 0; lane < Strip::lanes; ++lane)
    windows[lane] = window_at(shape, piece.position + lane, piece.group * (shape.channels / shape.groups), x);
  words += static_cast<ptrdiff_t>(piece.group) * chunks_of(shape, window_size(shape)) * outputs + piece.first_output;
  for (int first = 0; first < window; first += chunk, words += outputs) {
    const Chunk part = chunk_at(shape, first, std::min(chunk, window - first));
    const float* inputs[Strip::lanes];
    for (int lane = 0; lane < Strip::lanes; ++lane)
      inputs[lane] = inputs_of(shape, windows[lane], part, copies + lane * chunk);
    const int groups = groups_of(part.count);
    fill_tables<Strip>(inputs, groups, tables);
    add_channels<Strip>(tables, groups, words, piece.channels, sums);
  }
  ptrdiff_t places[Strip::lanes];
  for (int lane = 0; lane < Strip::lanes; ++lane)
    places[lane] = piece.position + lane < positions(shape) ? piece.position + lane : -1;
  const Channels channels{piece.group * outputs + piece.first_output, piece.channels};
  write_outputs<Strip>(shape, sums, places, channels, epilogue, y);
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* /*scratch*/) {
  const auto* words = static_cast<const uint64_t*>(prepared);
  switch (lanes_for(shape)) {
    case 16: return convolve<Strip16>(shape, task, x, words, epilogue, y);
    case 8: return convolve<Strip8>(shape, task, x, words, epilogue, y);
    default: return convolve<Strip4>(shape, task, x, words, epilogue, y);
  }
}

}  // namespace

const ConvKernel avx2_kernel = {"avx2",        has_avx2, enough_outputs, weight_bytes, prepare,
                                scratch_bytes, stages,   tasks,          run};

}  // namespace adaste

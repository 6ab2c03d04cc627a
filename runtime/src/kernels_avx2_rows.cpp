// One-bit weights and float32 activations on AVX2 for layers with few channels and large images, where making the
// tables of signed sums (signed_sums.h) takes as long as using them: here a table serves all taps of a row of the
// kernel.
//
// A strip is 16 output rows at one column. The table of an input column then serves the output column at its left, its
// right and its own, so a task walks over input columns and adds to as many output columns as the kernel is wide.
#include <cstring>

#include "cpu_x86.h"
#include "kernel_table.h"
#include "signed_sums_float.h"

namespace adaste {
namespace {

using Strip = Strip16;

constexpr int most_part = 128;    // output channels of a task
constexpr int most_columns = 16;  // output columns of a task: more share tables, fewer leave work for threads
constexpr int few_outputs = 192;  // with as many output channels making tables does not matter

// The shape without its batch decides: strips should be full even for one image.
bool worthwhile(const ConvShape& shape) {
  const int outputs = shape.out_channels / shape.groups;
  const int strips = (shape.out_height + Strip::lanes - 1) / Strip::lanes;
  return supports(shape) && outputs < few_outputs && shape.kernel_w > 1 && shape.stride_w == 1 &&
         shape.channels / shape.groups % chunk == 0 && 4 * shape.out_height >= 3 * strips * Strip::lanes;
}

size_t weight_bytes(const ConvShape& shape) { return word_bytes(shape); }

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  prepare_words(shape, rows, static_cast<uint64_t*>(prepared));
}

// How the work is cut: rows of the whole batch, columns, groups, and parts of a group's output channels.
struct Grid {
  ptrdiff_t rows;
  int strips, column_parts, part_size, parts;

  ptrdiff_t sums() const { return static_cast<ptrdiff_t>(most_columns) * part_size * Strip::lanes; }  // of a task
};

Grid grid_of(const ConvShape& shape) {
  const ptrdiff_t rows = static_cast<ptrdiff_t>(shape.batch) * shape.out_height;
  const int outputs = shape.out_channels / shape.groups;
  const int part_size = std::min(outputs, most_part);
  return {rows, static_cast<int>((rows + Strip::lanes - 1) / Strip::lanes),
          (shape.out_width + most_columns - 1) / most_columns, part_size, (outputs + part_size - 1) / part_size};
}

int stages(const ConvShape& /*shape*/) { return 1; }

int tasks(const ConvShape& shape, int /*stage*/) {
  const Grid grid = grid_of(shape);
  return grid.strips * grid.column_parts * shape.groups * grid.parts;
}

size_t scratch_bytes(const ConvShape& shape) {
  return static_cast<size_t>(tasks(shape, 0)) * static_cast<size_t>(grid_of(shape).sums()) * sizeof(float);
}

// The rows of the input that row `tap_row` of the kernel meets, one for each position; null where there is padding.
void find_rows(const ConvShape& shape, ptrdiff_t first_row, ptrdiff_t all_rows, int tap_row, const float* x,
               const float* (&rows)[Strip::lanes]) {
  for (int lane = 0; lane < Strip::lanes; ++lane) {
    const ptrdiff_t row = first_row + lane;
    const int y = static_cast<int>(row % shape.out_height) * shape.stride_h - shape.pad_h + tap_row;
    const bool inside = row < all_rows && y >= 0 && y < shape.height;
    const ptrdiff_t input_row = row / shape.out_height * shape.height + y;
    rows[lane] = inside ? x + input_row * shape.width * shape.channels : nullptr;
  }
}

struct Columns {
  int first, end;
};

// Adds what one row of the kernel and 64 channels contribute. `words` are the weights of the row's first tap, `taps`
// words apart for the next.
void add_row(const ConvShape& shape, const float* const (&rows)[Strip::lanes], ptrdiff_t channel,
             const Columns& columns, int channels, const uint64_t* words, ptrdiff_t taps, float* tables, float* sums) {
  const int first = std::max(0, columns.first - shape.pad_w);
  const int end = std::min(shape.width, columns.end - 1 - shape.pad_w + shape.kernel_w);
  for (int column = first; column < end; ++column) {
    const float* inputs[Strip::lanes];
    for (int lane = 0; lane < Strip::lanes; ++lane)
      inputs[lane] =
          rows[lane] != nullptr ? rows[lane] + static_cast<ptrdiff_t>(column) * shape.channels + channel : zeros;
    fill_tables<Strip>(inputs, all_groups, tables);
    for (int tap = 0; tap < shape.kernel_w; ++tap) {
      const int output = column + shape.pad_w - tap;
      if (output < columns.first || output >= columns.end) continue;
      float* place = sums + static_cast<ptrdiff_t>(output - columns.first) * channels * Strip::lanes;
      add_channels<Strip>(tables, all_groups, words + tap * taps, channels, place);
    }
  }
}

void run(const ConvShape& shape, int /*stage*/, int task, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* scratch) {
  alignas(64) float tables[table_elements<Strip>];
  const Grid grid = grid_of(shape);
  const int inner = shape.channels / shape.groups;
  const int outputs = shape.out_channels / shape.groups;
  float* sums = static_cast<float*>(scratch) + task * grid.sums();
  const int first_output = task % grid.parts * grid.part_size;
  const int group = task / grid.parts % shape.groups;
  const int first_column = task / grid.parts / shape.groups % grid.column_parts * most_columns;
  const Columns columns{first_column, std::min(first_column + most_columns, shape.out_width)};
  const ptrdiff_t first_row =
      static_cast<ptrdiff_t>(task / grid.parts / shape.groups / grid.column_parts) * Strip::lanes;
  const Channels channels{group * outputs + first_output, std::min(grid.part_size, outputs - first_output)};

  std::memset(sums, 0, static_cast<size_t>(grid.sums()) * sizeof(float));
  const auto* words = static_cast<const uint64_t*>(prepared) +
                      static_cast<ptrdiff_t>(group) * chunks_of(shape) * outputs + first_output;
  const ptrdiff_t taps = static_cast<ptrdiff_t>(inner / chunk) * outputs;  // words of a tap
  for (int tap_row = 0; tap_row < shape.kernel_h; ++tap_row) {
    const float* rows[Strip::lanes];
    find_rows(shape, first_row, grid.rows, tap_row, x + static_cast<ptrdiff_t>(group) * inner, rows);
    for (int part = 0; part < inner / chunk; ++part)
      add_row(shape, rows, static_cast<ptrdiff_t>(part) * chunk, columns, channels.count,
              words + tap_row * shape.kernel_w * taps + static_cast<ptrdiff_t>(part) * outputs, taps, tables, sums);
  }
  const auto count = static_cast<int>(std::min<ptrdiff_t>(Strip::lanes, grid.rows - first_row));
  for (int column = columns.first; column < columns.end; ++column)
    write_outputs<Strip>(shape, sums + static_cast<ptrdiff_t>(column - columns.first) * channels.count * Strip::lanes,
                         {first_row * shape.out_width + column, shape.out_width, count}, channels, epilogue, y);
}

}  // namespace

const ConvKernel avx2_rows_kernel = {"avx2-rows",   has_avx2, worthwhile, weight_bytes, prepare,
                                     scratch_bytes, stages,   tasks,      run};

}  // namespace adaste

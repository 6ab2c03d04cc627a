// One-bit weights and float32 activations on AVX2 for convolutions whose windows overlap: a table of signed sums
// (signed_sums.h) serves all taps of the kernel that meet its inputs.
//
// Images are cut into blocks of equal size, and a strip is the same place in 16 blocks. A task walks over the pixels of
// its blocks' inputs; the table of such a pixel is added to all outputs around it, up to nine for a 3x3 kernel. Blocks
// overlap by the kernel's size less one, so large ones have the fewest tables; but 16 of them should cover the image.
//
// An image of few channels is seen as one in which the windows' rows are the pixels, and the kernel is one pixel wide.
#include <cstring>

#include "kernels/registry.h"
#include "kernels/x86/avx2/blocks.h"
#include "kernels/x86/cpu.h"

namespace adaste {
namespace {

constexpr int cached_sums = 1 << 12;  // strips of sums that the second-level cache holds with all else

size_t run_of(const ConvShape& shape) { return static_cast<size_t>(seen(shape).channels / shape.groups); }

size_t weight_bytes(const ConvShape& shape) { return word_bytes(shape, run_of(shape)); }

void prepare(const ConvShape& shape, const uint8_t* rows, void* prepared) {
  prepare_words(shape, run_of(shape), rows, static_cast<uint64_t*>(prepared));
}

// How the work is cut: strips of the whole batch's blocks, parts of the blocks' rows, groups, and parts of a group's
// output channels.
struct Grid {
  Blocks blocks;
  int strips, row_parts, part_rows, channel_parts, part_channels;
  int live_rows;  // rows of outputs that are neither untouched nor done
};

Grid grid_of(const ConvShape& whole) {
  const ConvShape shape = seen(whole);
  const Blocks blocks = best_blocks(shape);
  const int outputs = shape.out_channels / shape.groups;
  const int strips = static_cast<int>((static_cast<ptrdiff_t>(shape.batch) * blocks.of_image() + Strip::lanes - 1) /
                                      Strip::lanes);
  // Too few strips leave threads without work. Parts of rows overlap as blocks do, parts of channels make all tables
  // again.
  const int wanted_parts = ceil_div(shape.threads, strips * shape.groups);
  const int part_rows = ceil_div(blocks.height, std::min(blocks.height, wanted_parts));
  const int row_parts = ceil_div(blocks.height, part_rows);
  const int live_rows = std::min(part_rows, ceil_div(shape.kernel_h, shape.stride_h));
  const int most_channels = std::max(64, cached_sums / (live_rows * blocks.width));
  const ptrdiff_t pieces = static_cast<ptrdiff_t>(strips) * row_parts * shape.groups;
  const int wanted_channels = channels_per_task(shape, outputs, pieces, part_rows * blocks.width * Strip::lanes);
  const int part_channels = ceil_div(outputs, ceil_div(outputs, std::min(most_channels, wanted_channels)));
  return {blocks, strips, row_parts, part_rows, ceil_div(outputs, part_channels), part_channels,
          live_rows};
}

int stages(const ConvShape& /*shape*/) { return 1; }

int tasks_of(const ConvShape& shape, const Grid& grid) {
  return grid.strips * grid.row_parts * shape.groups * grid.channel_parts;
}

int tasks(const ConvShape& shape, int /*stage*/) { return tasks_of(shape, grid_of(shape)); }

// Of a thread: no task has more sums, whatever the number of threads.
size_t scratch_bytes(const ConvShape& whole) {
  const ConvShape shape = seen(whole);
  const Blocks blocks = best_blocks(shape);
  const ptrdiff_t places = std::min(blocks.height, ceil_div(shape.kernel_h, shape.stride_h)) * blocks.width;
  const ptrdiff_t most_sums = std::max<ptrdiff_t>(64 * places, cached_sums);
  const ptrdiff_t sums = std::min(shape.out_channels / shape.groups * places, most_sums);
  return static_cast<size_t>(sums) * Strip::lanes * sizeof(float);
}

// What a task makes: `rows` by `columns` outputs of each of 16 blocks.
struct Task {
  int rows, columns;
  Channels channels;
  const uint64_t* words;  // of the first tap
  ptrdiff_t tap_words;
  int groups;                      // of a chunk
  Window windows[Strip::lanes];    // of each block's first output; no image beyond the last block
  ptrdiff_t places[Strip::lanes];  // of that output, counted in pixels of all images
  int rows_left[Strip::lanes], columns_left[Strip::lanes];  // of each block that are in the image
  float* sums;
  int live_rows;

  int column_sums() const { return channels.count * Strip::lanes; }
  float* sums_of(int row, int column) const {
    return sums + static_cast<ptrdiff_t>(row % live_rows * columns + column) * column_sums();
  }
};

// A block's part of the image.
void place_lane(const ConvShape& shape, const Grid& grid, ptrdiff_t block, int first_row, const float* x, int lane,
                Task& task) {
  const ptrdiff_t image = block / grid.blocks.of_image();
  const int within = static_cast<int>(block % grid.blocks.of_image());
  const int row = within / grid.blocks.columns * grid.blocks.height + first_row;
  const int column = within % grid.blocks.columns * grid.blocks.width;
  const bool exists = image < shape.batch;
  task.windows[lane] = {exists ? x + image * image_size(shape) : nullptr, row * shape.stride_h - shape.pad_h,
                        column * shape.stride_w - shape.pad_w};
  task.places[lane] = (image * shape.out_height + row) * shape.out_width + column;
  task.rows_left[lane] = exists ? shape.out_height - row : 0;
  task.columns_left[lane] = shape.out_width - column;
}

Task task_at(const ConvShape& shape, const Grid& grid, int number, const float* x, const uint64_t* words,
             float* scratch) {
  Task task;
  task.sums = scratch;
  const int outputs = shape.out_channels / shape.groups;
  const int inner = shape.channels / shape.groups;
  const int first_output = number % grid.channel_parts * grid.part_channels;
  number /= grid.channel_parts;
  const int group = number % shape.groups;
  number /= shape.groups;
  const int first_row = number % grid.row_parts * grid.part_rows;
  const ptrdiff_t strip = number / grid.row_parts;

  task.rows = std::min(grid.part_rows, grid.blocks.height - first_row);
  task.columns = grid.blocks.width;
  task.channels = {group * outputs + first_output, std::min(grid.part_channels, outputs - first_output)};
  const auto run = static_cast<int>(run_of(shape));
  task.words = words + static_cast<ptrdiff_t>(group) * chunks_of(shape, run_of(shape)) * outputs + first_output;
  task.tap_words = static_cast<ptrdiff_t>(ceil_div(run, chunk)) * outputs;
  task.groups = groups_of(run);
  task.live_rows = grid.live_rows;
  for (int lane = 0; lane < Strip::lanes; ++lane)
    place_lane(shape, grid, strip * Strip::lanes + lane, first_row, x + static_cast<ptrdiff_t>(group) * inner, lane,
               task);
  return task;
}

// The output that tap `tap` makes of input number `input` along one axis; negative where it makes none.
int output_of(int input, int tap, int stride, int outputs) {
  const int distance = input - tap;
  return distance >= 0 && distance % stride == 0 && distance / stride < outputs ? distance / stride : -1;
}

// Adds a table to all outputs around its pixel; the shape is the one seen.
void add_taps(const ConvShape& shape, const Task& task, int row, int column, const float* tables,
              const uint64_t* words) {
  for (int tap_row = 0; tap_row < shape.kernel_h; ++tap_row) {
    const int out_row = output_of(row, tap_row, shape.stride_h, task.rows);
    if (out_row < 0) continue;
    for (int tap_column = 0; tap_column < shape.kernel_w; ++tap_column) {
      const int out_column = output_of(column, tap_column, shape.stride_w, task.columns);
      if (out_column < 0) continue;
      add_channels<Strip>(tables, task.groups, words + (tap_row * shape.kernel_w + tap_column) * task.tap_words,
                          task.channels.count, task.sums_of(out_row, out_column));
    }
  }
}

// The pixels at one place of all blocks' inputs, null in the padding; false where all are.
bool find_pixels(const ConvShape& shape, const Task& task, int row, int column, const float* (&pixels)[Strip::lanes]) {
  bool any = false;
  for (int lane = 0; lane < Strip::lanes; ++lane) {
    const Window& window = task.windows[lane];
    const auto y = static_cast<unsigned>(window.row + row), x = static_cast<unsigned>(window.column + column);
    const bool inside = window.image != nullptr && y < static_cast<unsigned>(shape.height) &&
                        x < static_cast<unsigned>(shape.width);
    pixels[lane] = inside ? window.image + (static_cast<ptrdiff_t>(y) * shape.width + x) * shape.channels : nullptr;
    any = any || inside;
  }
  return any;
}

// One place of the blocks' inputs with all its channels.
void add_pixel(const ConvShape& shape, const Task& task, int row, int column, float* tables) {
  const float* pixels[Strip::lanes];
  if (!find_pixels(shape, task, row, column, pixels)) return;
  const int outputs = shape.out_channels / shape.groups;
  const uint64_t* words = task.words;
  for (int channel = 0; channel < shape.channels / shape.groups; channel += chunk, words += outputs) {
    const float* inputs[Strip::lanes];
    for (int lane = 0; lane < Strip::lanes; ++lane)
      inputs[lane] = pixels[lane] != nullptr ? pixels[lane] + channel : zeros;
    fill_tables<Strip>(inputs, all_groups, tables);
    add_taps(shape, task, row, column, tables, words);
  }
}

// One place of the blocks' inputs where pixels are rows of windows.
void add_window_row(const ConvShape& shape, const Task& task, int row, int column, float* tables) {
  alignas(64) float copies[Strip::lanes * chunk + 8];
  const float* inputs[Strip::lanes];
  const Chunk part = row_chunk(shape, row);
  for (int lane = 0; lane < Strip::lanes; ++lane) {
    Window window = task.windows[lane];
    window.column += column * shape.stride_w;
    inputs[lane] = copies + lane * chunk;
    copy_inputs(shape, window, part, copies + lane * chunk, copy_floats);
    copy_floats(nullptr, task.groups * group_size - part.count, copies + lane * chunk + part.count);
  }
  fill_tables<Strip>(inputs, task.groups, tables);
  add_taps(seen(shape), task, row, column, tables, task.words);
}

void clear_row(const Task& task, int row) {
  std::memset(task.sums_of(row, 0), 0, static_cast<size_t>(task.columns) * task.column_sums() * sizeof(float));
}

void write_row(const ConvShape& shape, const Task& task, int row, const Epilogue& epilogue, float* y) {
  for (int column = 0; column < task.columns; ++column) {
    ptrdiff_t places[Strip::lanes];
    for (int lane = 0; lane < Strip::lanes; ++lane) {
      const bool inside = row < task.rows_left[lane] && column < task.columns_left[lane];
      places[lane] = inside ? task.places[lane] + static_cast<ptrdiff_t>(row) * shape.out_width + column : -1;
    }
    write_outputs<Strip>(shape, task.sums_of(row, column), places, task.channels, epilogue, y);
  }
}

void run(const ConvShape& shape, int /*stage*/, int number, const float* x, const void* prepared,
         const Epilogue& epilogue, const Quantisation& /*quantisation*/, float* y, void* scratch) {
  alignas(64) float tables[table_elements<Strip>];
  const Grid grid = grid_of(shape);
  const Task task =
      task_at(shape, grid, number, x, static_cast<const uint64_t*>(prepared), static_cast<float*>(scratch));
  const ConvShape inputs = seen(shape);
  for (int row = 0; row < extent(task.rows, inputs.kernel_h, inputs.stride_h); ++row) {
    const int begun = output_of(row, 0, inputs.stride_h, task.rows);
    if (begun >= 0) clear_row(task, begun);
    for (int column = 0; column < extent(task.columns, inputs.kernel_w, inputs.stride_w); ++column)
      few_channels(shape) ? add_window_row(shape, task, row, column, tables)
                          : add_pixel(shape, task, row, column, tables);
    const int done = output_of(row, inputs.kernel_h - 1, inputs.stride_h, task.rows);
    if (done >= 0) write_row(shape, task, done, epilogue, y);
  }
}

}  // namespace

const ConvKernel avx2_blocks_kernel = {"avx2-blocks", has_avx2, worthwhile, weight_bytes, prepare,
                                       scratch_bytes, stages,   tasks,      run,          true};

}  // namespace adaste

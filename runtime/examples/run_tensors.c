/* Runs any packed network once, and prints the first numbers of its outputs:
 *     run_tensors model.safetensors FILE...
 * There is a file for each input, in the order of the network: its numbers as they lie in memory, float32 or int64. */
#include <adaste_runtime.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

/* Memory for a batch of one: the size that is free. NULL where there is none. */
static void* memory_for(adaste_tensor* tensor, size_t* bytes) {
  size_t count = 1;
  for (int i = 0; i < tensor->dimensions; ++i) {
    if (tensor->shape[i] == ADASTE_ANY_SIZE) tensor->shape[i] = 1;
    count *= (size_t)tensor->shape[i];
  }
  *bytes = count * (tensor->type == ADASTE_INT64 ? sizeof(int64_t) : sizeof(float));
  return malloc(*bytes);
}

static int read_file(const char* path, void* data, size_t bytes) {
  FILE* file = fopen(path, "rb");
  const int good = data && file && fread(data, 1, bytes, file) == bytes && fgetc(file) == EOF;
  if (file) fclose(file);
  if (!good) fprintf(stderr, "%s: must be a file of %zu bytes\n", path, bytes);
  return good ? 0 : -1;
}

static void print_output(const adaste_output* output) {
  const float* numbers = output->data;
  printf("%s (", output->tensor.name);
  for (int i = 0; i < output->tensor.dimensions; ++i)
    printf("%s%" PRId64, i > 0 ? ", " : "", output->tensor.shape[i]);
  printf("):");
  for (size_t i = 0; i < output->bytes / sizeof(float) && i < 5; ++i) printf(" %g", numbers[i]);
  printf("\n");
}

static int run(adaste_network* network, char** files, int file_count) {
  adaste_input inputs[MOST];
  adaste_output outputs[MOST];
  memset(inputs, 0, sizeof inputs);
  memset(outputs, 0, sizeof outputs);
  const int input_count = adaste_input_count(network);
  const int output_count = adaste_output_count(network);
  int failed = input_count != file_count || output_count > MOST;
  if (failed) fprintf(stderr, "the network has %d inputs, and needs a file for each\n", input_count);
  for (int i = 0; i < input_count && !failed; ++i) {
    void* data = NULL;
    failed = adaste_describe_input(network, i, &inputs[i].tensor);
    if (!failed) inputs[i].data = data = memory_for(&inputs[i].tensor, &inputs[i].bytes);
    if (!failed) failed = read_file(files[i], data, inputs[i].bytes);
  }
  for (int i = 0; i < output_count && !failed; ++i) {
    failed = adaste_describe_output(network, i, &outputs[i].tensor);
    if (!failed) outputs[i].data = memory_for(&outputs[i].tensor, &outputs[i].bytes);
  }
  if (!failed) {
    failed = adaste_run_tensors(network, inputs, input_count, outputs, output_count);
    if (failed) fprintf(stderr, "%s\n", adaste_last_error());
  }
  for (int i = 0; i < output_count && i < MOST; ++i) {
    if (!failed) print_output(&outputs[i]);
    free(outputs[i].data);
  }
  for (int i = 0; i < input_count && i < MOST; ++i) free((void*)inputs[i].data);
  return failed;
}

int main(int count, char** arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: run_tensors model.safetensors FILE...\n");
    return 2;
  }
  adaste_network* network = adaste_load_file(arguments[1], 0, 0);
  if (!network) {
    fprintf(stderr, "%s\n", adaste_last_error());
    return 1;
  }
  const int failed = run(network, arguments + 2, count - 2);
  adaste_free(network);
  return failed != 0;
}

/* Classifies a picture with a packed network:
 *     classify model.safetensors [pixels]
 * `pixels` is a file of bytes (height, width, channels), as `convert picture.png -resize 32x32! -depth 8 rgb:pixels`
 * makes it. Without it the program prints what the network takes and gives. */
#include <adaste_runtime.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void print_tensor(const char* kind, const adaste_tensor* tensor) {
  printf("%s %s: %s (", kind, tensor->name, tensor->type == ADASTE_INT64 ? "int64" : "float32");
  for (int i = 0; i < tensor->dimensions; ++i) {
    if (i > 0) printf(", ");
    if (tensor->shape[i] == ADASTE_ANY_SIZE)
      printf("any");
    else
      printf("%" PRId64, tensor->shape[i]);
  }
  printf(")\n");
}

static int describe(const adaste_network* network) {
  adaste_tensor tensor;
  for (int i = 0; i < adaste_input_count(network); ++i) {
    if (adaste_describe_input(network, i, &tensor)) return -1;
    print_tensor("input", &tensor);
  }
  for (int i = 0; i < adaste_output_count(network); ++i) {
    if (adaste_describe_output(network, i, &tensor)) return -1;
    print_tensor("output", &tensor);
  }
  return 0;
}

/* The class with the largest output, or -1. */
static int classify(adaste_network* network, const char* path, float* logit) {
  int shape[3];
  adaste_input_shape(network, shape);
  const int size = adaste_output_size(network);
  if (size < 0) return -1;
  const size_t bytes = (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
  uint8_t* pixels = malloc(bytes);
  float* outputs = malloc((size_t)size * sizeof(float));
  FILE* file = fopen(path, "rb");
  int best = -1;
  if (!pixels || !outputs || !file || fread(pixels, 1, bytes, file) != bytes) {
    fprintf(stderr, "%s: cannot read %zu bytes\n", path, bytes);
  } else if (adaste_run_bytes(network, pixels, 1, outputs)) {
    fprintf(stderr, "%s\n", adaste_last_error());
  } else {
    best = 0;
    for (int i = 1; i < size; ++i)
      if (outputs[i] > outputs[best]) best = i;
    *logit = outputs[best];
  }
  if (file) fclose(file);
  free(outputs);
  free(pixels);
  return best;
}

int main(int count, char** arguments) {
  if (count != 2 && count != 3) {
    fprintf(stderr, "usage: classify model.safetensors [pixels]\n");
    return 2;
  }
  adaste_network* network = adaste_load_file(arguments[1], 1, 0);
  if (!network) {
    fprintf(stderr, "%s\n", adaste_last_error());
    return 1;
  }
  int failed = 0;
  if (count == 2) {
    printf("adaste_runtime %s\n", adaste_version());
    failed = describe(network);
  } else {
    float logit = 0;
    const int best = classify(network, arguments[2], &logit);
    const char* name = adaste_class_name(network, best);
    failed = best < 0;
    if (!failed) printf("class %d%s%s: %g\n", best, name ? ", " : "", name ? name : "", logit);
  }
  adaste_free(network);
  return failed != 0;
}

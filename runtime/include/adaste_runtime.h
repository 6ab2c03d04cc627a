/* adaste-runtime: runs packed networks with one-bit weights. A plain C interface.
 *
 *     adaste_network* network = adaste_load_file("model.safetensors", 1, 0);
 *     if (!network) { puts(adaste_last_error()); return 1; }
 *     if (adaste_run(network, images, count, outputs)) puts(adaste_last_error());
 *     adaste_free(network);
 *
 * adaste_run is for networks from one image to one vector; adaste_run_tensors runs any.
 *
 * Several threads may use a network at the same time: they share its weights and threads, and as many calls as there
 * are threads or processors do not wait for each other. A NULL where something must be is a failure of every function
 * but adaste_free, and does no harm. Paths and names are UTF-8, also on Windows; messages, too, without control
 * characters.
 */
#ifndef ADASTE_RUNTIME_H
#define ADASTE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(ADASTE_BUILDS_DLL)
#define ADASTE_API __declspec(dllexport)
#else
#define ADASTE_API
#endif
#elif defined(__GNUC__)
#define ADASTE_API __attribute__((visibility("default")))
#else
#define ADASTE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adaste_network adaste_network;

/* The version of the library, as "0.1.0". */
ADASTE_API const char* adaste_version(void);

/* Why the last call of this thread that failed did so. Valid until this thread's next call that fails. */
ADASTE_API const char* adaste_last_error(void);

/* A network from a file or from the bytes of one, which are not needed afterwards; NULL on failure. `threads` share the
 * work of a call; 0 stands for one on each physical core that the process may use. `int8` other than 0 gives layers
 * with one-bit weights 8-bit activations. */
ADASTE_API adaste_network* adaste_load_file(const char* path, int threads, int int8);
ADASTE_API adaste_network* adaste_load_memory(const void* bytes, size_t size, int threads, int int8);
ADASTE_API void adaste_free(adaste_network* network);

/* An input or output. The name is the network's and valid until that is freed. The batch is the first dimension; a size
 * is ADASTE_ANY_SIZE where the caller chooses it, as that of the batch. The types of descriptions are float32 and
 * int64. */
#define ADASTE_FLOAT32 1
#define ADASTE_INT64 2
#define ADASTE_INT32 3
#define ADASTE_UINT8 4
#define ADASTE_MOST_DIMENSIONS 8
#define ADASTE_ANY_SIZE (-1)
typedef struct adaste_tensor {
  const char* name;
  int type;
  int dimensions;
  int64_t shape[ADASTE_MOST_DIMENSIONS]; /* 0 beyond the dimensions */
} adaste_tensor;

/* How many inputs and outputs there are, -1 on failure; and what they are, 0, or -1 on failure. */
ADASTE_API int adaste_input_count(const adaste_network* network);
ADASTE_API int adaste_output_count(const adaste_network* network);
ADASTE_API int adaste_describe_input(const adaste_network* network, int number, adaste_tensor* input);
ADASTE_API int adaste_describe_output(const adaste_network* network, int number, adaste_tensor* output);

/* Numbers for an input or of an output: a description with a size in place of every ADASTE_ANY_SIZE, and `bytes` bytes
 * of memory at `data`, which hold the numbers without gaps, the last dimension fastest.
 * Inputs are float32, int64 where the description says so, or int32 in its place. Images, inputs of float32 with four
 * dimensions, may also be uint8 (batch, height, width, channels), which are normalised as the file says. */
typedef struct adaste_input {
  adaste_tensor tensor;
  const void* data;
  size_t bytes;
} adaste_input;
typedef struct adaste_output {
  adaste_tensor tensor;
  void* data;
  size_t bytes;
} adaste_output;

/* Writes the descriptions of outputs, as many as there are, for these inputs, whose data may be NULL: their sizes
 * follow from the batch and the free sizes of the inputs. 0, or -1 on failure. */
ADASTE_API int adaste_describe_outputs_for(adaste_network* network, const adaste_input* inputs, int input_count,
                                           adaste_tensor* outputs, int output_count);

/* Computes outputs from inputs; 0, or -1 on failure. They are told apart by name, and may be in any order: every input
 * once, and those outputs that are wanted. All have the same batch; where it is 0, data may be NULL. Real numbers that
 * are not finite and whole numbers that the network does not know are failures. A network plans its memory when it meets
 * inputs of a size, and keeps the plans for the largest size and for four others. */
ADASTE_API int adaste_run_tensors(adaste_network* network, const adaste_input* inputs, int input_count,
                                  const adaste_output* outputs, int output_count);

/* Fixes the ranges of 8-bit activations to those of these inputs; 0, or -1 on failure. They are the ranges of inputs of
 * all sizes, whatever the sizes of these; the last calibration counts. */
ADASTE_API int adaste_calibrate_tensors(adaste_network* network, const adaste_input* inputs, int input_count);

/* Writes the mean and the standard deviation of each channel of an input, with which its bytes are normalised:
 * (byte / 255 - mean) / std. `channels` is the length of both arrays. 1; 0 where the file has none, and nothing is
 * written; -1 on failure. */
ADASTE_API int adaste_input_normalisation(const adaste_network* network, int number, float* mean, float* std,
                                          int channels);

/* All functions below are for networks with one input, images, and one output, a vector for each, and fail for others. */

/* Channels, height and width of its images, 0 on failure; and how many numbers it computes for each, -1 on failure. */
ADASTE_API void adaste_input_shape(const adaste_network* network, int shape[3]);
ADASTE_API int adaste_output_size(const adaste_network* network);

/* As adaste_input_normalisation of the only input. */
ADASTE_API int adaste_normalisation(const adaste_network* network, float* mean, float* std, int channels);

/* How many classes have names: all or 0, -1 on failure; and the name of a class, NULL where there is none. */
ADASTE_API int adaste_class_count(const adaste_network* network);
ADASTE_API const char* adaste_class_name(const adaste_network* network, int number);

/* Writes count * adaste_output_size numbers; 0, or -1 on failure, also where so many images could not be in memory.
 * Images are float32 (count, channels, height, width), already normalised, or bytes (count, height, width, channels),
 * which are normalised as the file says. With a count of 0 images and outputs may be NULL. */
ADASTE_API int adaste_run(adaste_network* network, const float* images, size_t count, float* outputs);
ADASTE_API int adaste_run_bytes(adaste_network* network, const uint8_t* images, size_t count, float* outputs);

/* Fixes the ranges of 8-bit activations to those of these images; 0, or -1 on failure. */
ADASTE_API int adaste_calibrate(adaste_network* network, const float* images, size_t count);

#ifdef __cplusplus
}
#endif

#endif

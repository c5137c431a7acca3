/* SPDX-License-Identifier: MIT
 *
 * What the files of the stand-in runtime share: how a function is exported, the driver's functions,
 * and the calling thread's state. The types are CUDA's, by the names of the public headers.
 * Private to this folder.
 */
#ifndef GPULEAK_STANDIN_RUNTIME_H
#define GPULEAK_STANDIN_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/cuda/cuda_types.h"

/* CUDART_MAJOR: 12 or 13. The file is compiled once for each. */

typedef int cudaError_t; /* since CUDA 10.1 an error has the same number as the driver's */

enum {
	cudaErrorInvalidValue = 1,
	cudaErrorCudartUnloading = 4,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInvalidPitchValue = 12,
	cudaErrorInvalidSymbol = 13,
	cudaErrorInvalidMemcpyDirection = 21,
	cudaErrorInvalidChannelDescriptor = 20,
	cudaErrorInsufficientDriver = 35,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNotSupported = 801,
	MAX_DEVICES = 64,
};

#define PER_THREAD_STREAM ((CUstream)2)
#define EXPORTED __attribute__((visibility("default")))
/* Inlined, so that in a call stack the caller of the driver is the function that the program
 * called. */
#define INLINED static inline __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* gen_exports.py searches the sources for these words, to find the implemented functions. */

/* A function. */
#define CUDART(name) EXPORTED cudaError_t name

/* A function with the parameter `stream`, and its variant for programs that are compiled with
 * --default-stream per-thread. ARGS are the names of PARAMS. */
#define CUDART_STREAM(name, params, args)                      \
	INLINED cudaError_t name##_on params;                  \
	EXPORTED cudaError_t name params                       \
	{                                                      \
		return name##_on args;                         \
	}                                                      \
	EXPORTED cudaError_t name##_ptsz params                \
	{                                                      \
		stream = stream ? stream : PER_THREAD_STREAM;  \
		return name##_on args;                         \
	}                                                      \
	INLINED cudaError_t name##_on params

/* A function that waits, in the legacy default stream or in the thread's own. Its body gets that
 * stream as `stream`. */
#define CUDART_WAITS(name, args, ...)                                  \
	INLINED cudaError_t name##_on(CUstream stream, __VA_ARGS__);   \
	EXPORTED cudaError_t name(__VA_ARGS__)                         \
	{                                                              \
		return name##_on(NULL, CUDART_EACH args);              \
	}                                                              \
	EXPORTED cudaError_t name##_ptds(__VA_ARGS__)                  \
	{                                                              \
		return name##_on(PER_THREAD_STREAM, CUDART_EACH args); \
	}                                                              \
	INLINED cudaError_t name##_on(CUstream stream, __VA_ARGS__)
#define CUDART_EACH(...) __VA_ARGS__

/* A function that needs a GPU and stores no result: it returns the result of unable(). */
#define CUDART_UNABLE(name)           \
	CUDART(name)(void)            \
	{                             \
		return done(unable()); \
	}

/* connect.c: the driver's functions, looked up as NVIDIA's runtime does */
struct driver {
#define DRIVER(name, version, params) CUresult(*name) params;
#include "standin/runtime/driver.def"
#undef DRIVER
};
extern struct driver driver __attribute__((visibility("hidden")));

/* Set by connect_driver(). */
extern struct driver_facts {
	int devices, version;
} driver_facts __attribute__((visibility("hidden")));

/* Connects to the driver. Returns 0, or an error that every call must return. */
cudaError_t connect_driver(void);
/* Does the same, and makes the primary context of the thread's device current if none is. Returns 0
 * or an error. Every call on a device begins with it. */
cudaError_t enter(void);
/* Stores R for cudaGetLastError() if it is an error. Returns R. Every call ends with it. */
cudaError_t done(cudaError_t r);
/* Returns the result of a call that needs a GPU: cudaErrorNotSupported, or 0 with
 * --fake-kernels. */
cudaError_t unable(void);

/* Stores the address of a variable of a registered module in the current context. Returns 0 or an
 * error. */
cudaError_t device_variable(const void *image, const char *name, size_t size, CUdeviceptr *ret);
/* Ends the variables of a module that is unloaded. */
void end_variables(const void *image);

/* Returns a pointer to the calling thread's device. A change has an effect at the thread's next
 * enter(). */
int *thread_device(void);
cudaError_t *thread_last_error(void);
/* Makes the primary context of DEVICE current. */
cudaError_t use_device(int device);
cudaError_t reset_device(int device);
/* Returns 0 with the primary context of DEVICE in *RET. */
cudaError_t primary_context(int device, CUcontext *ret);

typedef struct {
	unsigned int x, y, z;
} dim3;
struct pitched { /* cudaPitchedPtr */
	void *address;
	size_t pitch, width, height;
};
struct extent { /* cudaExtent */
	size_t width, height, depth;
};

/* transfers.c: copies BYTES in STREAM; waits if it is NULL or WAIT is set */
cudaError_t copy_any(CUstream stream, void *to, const void *from, size_t bytes, bool wait);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The way to the driver: finds its functions once, and gives each thread a current context. Owns
 * the primary contexts of the process and the thread's device. Refuses NVIDIA's driver.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "standin/runtime/runtime.h"

struct driver driver;
struct driver_facts driver_facts;

static _Atomic cudaError_t connected = cudaErrorInsufficientDriver;
/* of the stand-in driver only */
static CUresult (*standin_unable)(void);
static CUresult (*standin_variable)(const void *image, const char *name, size_t bytes,
				    CUdeviceptr *ret);
static void (*standin_variables_end)(const void *image);
static pthread_once_t connect_once = PTHREAD_ONCE_INIT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	CUcontext context; /* NULL: never retained */
	bool retained;
} primaries[MAX_DEVICES];

static __thread struct {
	int device;
	cudaError_t last;
} thread;

int *thread_device(void)
{
	return &thread.device;
}

cudaError_t *thread_last_error(void)
{
	return &thread.last;
}

cudaError_t done(cudaError_t r)
{
	if (r)
		thread.last = r;
	return r;
}

cudaError_t unable(void)
{
	cudaError_t r = connect_driver();

	return r ? r : standin_unable();
}

cudaError_t device_variable(const void *image, const char *name, size_t size, CUdeviceptr *ret)
{
	return standin_variable(image, name, size, ret);
}

void end_variables(const void *image)
{
	if (standin_variables_end && !connected)
		standin_variables_end(image);
}

/* NVIDIA's runtime looks up only this name with dlsym, and all other names with the function that
 * dlsym returned. */
static bool look_up(void *library)
{
	CUresult (*get)(const char *, void **, int, cuuint64_t, int *) =
		(CUresult(*)(const char *, void **, int, cuuint64_t, int *))dlsym(
			library, "cuGetProcAddress_v2");

#define DRIVER(name, version, params) \
	if (!get || get(#name, (void **)&driver.name, version, 0, NULL)) \
		return false;
#include "standin/runtime/driver.def"
#undef DRIVER
	return true;
}

/* Ends the runtime as NVIDIA's ends: from here on it does not call the driver. */
static void runtime_exit(void)
{
	connected = cudaErrorCudartUnloading;
}

static void connect_now(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return;
	standin_unable = (CUresult(*)(void))dlsym(library, "standin_unable");
	standin_variable = (CUresult(*)(const void *, const char *, size_t, CUdeviceptr *))dlsym(
		library, "standin_variable");
	standin_variables_end = (void (*)(const void *))dlsym(library, "standin_variables_end");
	if (standin_unable && look_up(library))
		connected = driver.cuInit(0);
	if (!connected)
		connected = driver.cuDeviceGetCount(&driver_facts.devices);
	if (!connected)
		connected = driver.cuDriverGetVersion(&driver_facts.version);
	if (!connected)
		atexit(runtime_exit);
}

cudaError_t connect_driver(void)
{
	pthread_once(&connect_once, connect_now);
	return connected;
}

/* Locking: needs `lock`. */
static cudaError_t retain(int device)
{
	cudaError_t r = CUDA_SUCCESS;

	if (!primaries[device].retained)
		r = driver.cuDevicePrimaryCtxRetain(&primaries[device].context, device);
	primaries[device].retained |= !r;
	return r;
}

cudaError_t primary_context(int device, CUcontext *ret)
{
	cudaError_t r = cudaErrorInvalidDevice;

	if (device < 0 || device >= MAX_DEVICES)
		return r;
	pthread_mutex_lock(&lock);
	r = retain(device);
	if (!r)
		*ret = primaries[device].context;
	pthread_mutex_unlock(&lock);
	return r;
}

cudaError_t use_device(int device)
{
	CUcontext context;
	cudaError_t r = primary_context(device, &context);

	return r ? r : driver.cuCtxSetCurrent(context);
}

/* After the reset the context stays current in threads where it is. Calls there return errors until
 * it is retained again. */
cudaError_t reset_device(int device)
{
	cudaError_t r;

	pthread_mutex_lock(&lock);
	r = driver.cuDevicePrimaryCtxReset(device);
	primaries[device].retained = false;
	pthread_mutex_unlock(&lock);
	return r;
}

/* Returns true if CONTEXT is a primary one that was reset. */
static bool was_reset(CUcontext context)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_DEVICES; i++)
		found |= primaries[i].context == context && !primaries[i].retained;
	pthread_mutex_unlock(&lock);
	return found;
}

cudaError_t enter(void)
{
	CUcontext current = NULL;
	cudaError_t r = connect_driver();

	if (!r)
		r = driver.cuCtxGetCurrent(&current);
	if (!r && (!current || was_reset(current)))
		r = use_device(thread.device);
	return r;
}

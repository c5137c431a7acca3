/* SPDX-License-Identifier: MIT
 *
 * What nvcc emits: a program registers its kernels and variables when it is loaded, and launches
 * kernels by the address of a host function. Owns the list of what is registered. There is no code
 * for a device: the driver decides whether a launch fails or does nothing.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "standin/runtime/runtime.h"

enum { MAX_THREADS = 1024 };

/* A kernel or a variable of a module. */
struct entity {
	struct entity *next;
	void **module;
	const void *host; /* its address in the program */
	const char *name;
	size_t size;      /* of a variable; a kernel has 0 */
	char *bytes;      /* of a __managed__ variable, which the host accesses */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entity *entities;

static void add(void **module, const void *host, const char *name, size_t size, char *bytes)
{
	struct entity *e = malloc(sizeof(*e));

	if (!e)
		return;
	pthread_mutex_lock(&lock);
	*e = (struct entity){ entities, module, host, name, size, bytes };
	entities = e;
	pthread_mutex_unlock(&lock);
}

/* Copies what is registered at HOST, which for a __managed__ variable may be its own address.
 * Returns false if there is nothing. */
static bool find(const void *host, struct entity *ret)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (struct entity *e = entities; e && !found; e = e->next)
		if (e->host == host || (e->bytes && e->bytes == host)) {
			*ret = *e;
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

EXPORTED void **__cudaRegisterFatBinary(void *image)
{
	void **module = malloc(sizeof(*module));

	if (module)
		*module = image;
	return module;
}

EXPORTED void __cudaRegisterFatBinaryEnd(void **module)
{
	(void)module;
}

EXPORTED void __cudaUnregisterFatBinary(void **module)
{
	pthread_mutex_lock(&lock);
	for (struct entity **link = &entities; *link;) {
		struct entity *e = *link;

		if (e->module != module) {
			link = &e->next;
			continue;
		}
		*link = e->next;
		free(e->bytes);
		free(e);
	}
	pthread_mutex_unlock(&lock);
	if (module)
		end_variables(*module);
	free(module);
}

EXPORTED char __cudaInitModule(void **module)
{
	(void)module;
	return 1;
}

EXPORTED void __cudaRegisterFunction(void **module, const char *host, char *device,
				     const char *name, int limit, void *thread, void *block,
				     void *block_size, void *grid_size, int *warp_size)
{
	(void)device, (void)limit, (void)thread, (void)block, (void)block_size, (void)grid_size;
	(void)warp_size;
	add(module, host, name, 0, NULL);
}

EXPORTED void __cudaRegisterVar(void **module, char *host, char *device, const char *name, int ext,
				size_t size, int constant, int global)
{
	(void)device, (void)ext, (void)constant, (void)global;
	add(module, host, name, size, NULL);
}

/* The program reads a __managed__ variable through the pointer at HOST. */
EXPORTED void __cudaRegisterManagedVar(void **module, void **host, char *device, const char *name,
				       int ext, size_t size, int constant, int global)
{
	char *bytes = calloc(1, size ? size : 1);

	(void)device, (void)ext, (void)constant, (void)global;
	*host = bytes;
	add(module, host, name, size, bytes);
}

EXPORTED void __cudaRegisterHostVar(void **module, const char *name, char *host, size_t size)
{
	(void)module, (void)name, (void)host, (void)size;
}

/* ---- launches ---- */

enum { NESTED_MAX = 8 };

/* The parameters of <<<grid, block, shared, stream>>>, until the launch that they belong to. */
static __thread struct {
	struct {
		dim3 grid, block;
		size_t shared;
		CUstream stream;
	} of[NESTED_MAX];
	unsigned int count;
} configured;

EXPORTED unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
						  CUstream stream)
{
	if (configured.count == NESTED_MAX)
		return 1;
	configured.of[configured.count].grid = grid;
	configured.of[configured.count].block = block;
	configured.of[configured.count].shared = shared;
	configured.of[configured.count++].stream = stream;
	return 0;
}

EXPORTED cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
						CUstream *stream)
{
	if (!configured.count)
		return 52; /* cudaErrorMissingConfiguration */
	configured.count--;
	*grid = configured.of[configured.count].grid;
	*block = configured.of[configured.count].block;
	*shared = configured.of[configured.count].shared;
	*stream = configured.of[configured.count].stream;
	return CUDA_SUCCESS;
}

static cudaError_t launch(const void *function, const dim3 *grid, const dim3 *block, void **args,
			  size_t shared, CUstream stream)
{
	cudaError_t r = enter();
	struct entity kernel;

	if (r)
		return r;
	if (!find(function, &kernel) || kernel.size)
		return cudaErrorInvalidDeviceFunction;
	if (!grid->x || !grid->y || !grid->z || !block->x || !block->y || !block->z ||
	    (uint64_t)block->x * block->y * block->z > MAX_THREADS || block->z > 64 ||
	    grid->y > 65535 || grid->z > 65535)
		return cudaErrorInvalidConfiguration;
	return driver.cuLaunchKernel((CUfunction)(uintptr_t)function, grid->x, grid->y, grid->z,
				     block->x, block->y, block->z, (unsigned int)shared, stream,
				     args, NULL);
}

CUDART_STREAM(cudaLaunchKernel,
	      (const void *function, dim3 grid, dim3 block, void **args, size_t shared,
	       CUstream stream),
	      (function, grid, block, args, shared, stream))
{
	return done(launch(function, &grid, &block, args, shared, stream));
}

CUDART_STREAM(cudaLaunchCooperativeKernel,
	      (const void *function, dim3 grid, dim3 block, void **args, size_t shared,
	       CUstream stream),
	      (function, grid, block, args, shared, stream))
{
	return done(launch(function, &grid, &block, args, shared, stream));
}

/* New in CUDA 13. In the stand-in a kernel's handle is the address of its host function. */
CUDART_STREAM(__cudaLaunchKernel,
	      (const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
	       CUstream stream),
	      (kernel, grid, block, args, shared, stream))
{
	return done(launch(kernel, &grid, &block, args, shared, stream));
}

static cudaError_t get_kernel(const void **ret, const void *function)
{
	struct entity kernel;

	if (!ret)
		return cudaErrorInvalidValue;
	if (!find(function, &kernel) || kernel.size)
		return cudaErrorInvalidDeviceFunction;
	*ret = function;
	return CUDA_SUCCESS;
}

CUDART(__cudaGetKernel)(const void **ret, const void *function)
{
	return get_kernel(ret, function);
}

CUDART(cudaGetKernel)(const void **ret, const void *function)
{
	return done(get_kernel(ret, function));
}

CUDART(cudaGetFuncBySymbol)(const void **ret, const void *function)
{
	return done(get_kernel(ret, function));
}

/* cudaLaunchConfig_t */
struct launch_config {
	dim3 grid, block;
	size_t shared;
	CUstream stream;
	void *attributes;
	unsigned int count;
};

CUDART(cudaLaunchKernelExC)
(const struct launch_config *config, const void *function, void **args)
{
	if (!config)
		return done(cudaErrorInvalidValue);
	return done(launch(function, &config->grid, &config->block, args, config->shared,
			   config->stream));
}

CUDART(cudaLaunchKernelExC_ptsz)
(const struct launch_config *config, const void *function, void **args)
{
	if (!config)
		return done(cudaErrorInvalidValue);
	return done(launch(function, &config->grid, &config->block, args, config->shared,
			   config->stream ? config->stream : PER_THREAD_STREAM));
}

/* ---- what a kernel needs: unknown without its code ---- */

/* struct cudaFuncAttributes */
struct function_attributes {
	size_t shared, constant, local;
	int threads, registers, ptx, binary, cache, dynamic, carveout;
	int unused[6 + 16];
};

CUDART(cudaFuncGetAttributes)(struct function_attributes *ret, const void *function)
{
	cudaError_t r = ret ? unable() : cudaErrorInvalidValue;
	struct entity kernel;

	if (!r && (!find(function, &kernel) || kernel.size))
		r = cudaErrorInvalidDeviceFunction;
	if (!r)
		*ret = (struct function_attributes){
			.threads = MAX_THREADS, .registers = 32, .ptx = 90, .binary = 90,
			.dynamic = 48 << 10,
		};
	return done(r);
}

CUDART(cudaFuncGetName)(const char **name, const void *function)
{
	struct entity kernel;

	if (!name)
		return done(cudaErrorInvalidValue);
	if (!find(function, &kernel) || kernel.size)
		return done(cudaErrorInvalidDeviceFunction);
	*name = kernel.name;
	return CUDA_SUCCESS;
}

CUDART_UNABLE(cudaFuncSetAttribute)
CUDART_UNABLE(cudaFuncSetCacheConfig)
CUDART_UNABLE(cudaFuncSetSharedMemConfig)

static cudaError_t occupancy(int *blocks, int threads)
{
	cudaError_t r = blocks && threads > 0 ? unable() : cudaErrorInvalidValue;

	if (!r)
		*blocks = threads > MAX_THREADS ? 0 : 2 * MAX_THREADS / threads;
	return done(r);
}

CUDART(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
(int *blocks, const void *function, int threads, size_t shared)
{
	(void)function, (void)shared;
	return occupancy(blocks, threads);
}

CUDART(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int *blocks, const void *function, int threads, size_t shared, unsigned int flags)
{
	(void)function, (void)shared, (void)flags;
	return occupancy(blocks, threads);
}

/* ---- variables ---- */

/* Stores where the variable at SYMBOL is in the current context. Returns 0 or an error. */
static cudaError_t variable_address(const void *symbol, struct entity *ret, char **address)
{
	cudaError_t r = enter();
	CUdeviceptr got = 0;

	if (r)
		return r;
	if (!find(symbol, ret) || !ret->size)
		return cudaErrorInvalidSymbol;
	if (!ret->bytes)
		r = device_variable(*ret->module, ret->name, ret->size, &got);
	*address = ret->bytes ? ret->bytes : (char *)(uintptr_t)got;
	return r;
}

static cudaError_t copy_variable(const void *symbol, void *other, size_t bytes, size_t offset,
				 bool to_variable, CUstream stream, bool wait)
{
	struct entity variable;
	char *at;
	cudaError_t r = variable_address(symbol, &variable, &at);

	if (r)
		return r;
	if (offset > variable.size || bytes > variable.size - offset)
		return cudaErrorInvalidValue;
	at += offset;
	return copy_any(stream, to_variable ? at : other, to_variable ? other : at, bytes, wait);
}

CUDART_WAITS(cudaMemcpyToSymbol, (symbol, from, bytes, offset, kind), const void *symbol,
	     const void *from, size_t bytes, size_t offset, int kind)
{
	(void)kind;
	return done(copy_variable(symbol, (void *)(uintptr_t)from, bytes, offset, true, stream,
				  true));
}

CUDART_WAITS(cudaMemcpyFromSymbol, (to, symbol, bytes, offset, kind), void *to, const void *symbol,
	     size_t bytes, size_t offset, int kind)
{
	(void)kind;
	return done(copy_variable(symbol, to, bytes, offset, false, stream, true));
}

CUDART_STREAM(cudaMemcpyToSymbolAsync,
	      (const void *symbol, const void *from, size_t bytes, size_t offset, int kind,
	       CUstream stream),
	      (symbol, from, bytes, offset, kind, stream))
{
	(void)kind;
	return done(copy_variable(symbol, (void *)(uintptr_t)from, bytes, offset, true, stream,
				  false));
}

CUDART_STREAM(cudaMemcpyFromSymbolAsync,
	      (void *to, const void *symbol, size_t bytes, size_t offset, int kind,
	       CUstream stream),
	      (to, symbol, bytes, offset, kind, stream))
{
	(void)kind;
	return done(copy_variable(symbol, to, bytes, offset, false, stream, false));
}

CUDART(cudaGetSymbolSize)(size_t *size, const void *symbol)
{
	struct entity variable;

	if (!size)
		return done(cudaErrorInvalidValue);
	if (!find(symbol, &variable) || !variable.size)
		return done(cudaErrorInvalidSymbol);
	*size = variable.size;
	return CUDA_SUCCESS;
}

CUDART(cudaGetSymbolAddress)(void **address, const void *symbol)
{
	struct entity variable;
	char *at;
	cudaError_t r = address ? variable_address(symbol, &variable, &at) : cudaErrorInvalidValue;

	if (!r)
		*address = at;
	return done(r);
}

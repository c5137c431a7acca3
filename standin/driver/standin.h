/* SPDX-License-Identifier: MIT
 *
 * What the stand-in driver's files share: the gate that every call passes, the calling thread's
 * state, and the functions of the files for device memory, host memory and capture. Private to this
 * folder. The prototypes of the calls that gpuleak intercepts are made from its own rows, so that a
 * definition here with another type does not compile.
 */
#ifndef GPULEAK_STANDIN_H
#define GPULEAK_STANDIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/cuda/cuda_types.h"
#include "ledger/no_gpu.h"
#include "standin/driver/families.h"

typedef struct CUlaunchConfig_st CUlaunchConfig;

#define HOOK(name, result, params, ...) result name params;
#define HAND(name, result, params, ...) result name params;
#define MAKES(name, kind)
#define USED(name, result, params) result name params;
#include "interpose/cuda/cuda.def"
#include "interpose/cuda/cuda_contexts.def"
#include "interpose/cuda/cuda_graphs.def"
#include "interpose/cuda/cuda_ipc.def"
#include "interpose/cuda/cuda_lookups.def"
#include "interpose/cuda/cuda_objects.def"
#include "interpose/cuda/cuda_queries.def"
#include "interpose/cuda/cuda_streams.def"
#undef HOOK
#undef HAND
#undef MAKES
#undef USED

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* gen_stubs.py searches the sources for these two words, to find which names are implemented. */
#define STANDIN(name) __attribute__((visibility("default"))) CUresult name
#define NOTHING(name) \
	STANDIN(name)(void) \
	{ \
		return standin_do_nothing(#name); \
	}

/* Only for tests: a real driver does not export these functions. */
#define EXPORTED __attribute__((visibility("default")))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum {
	ERROR_INVALID_DEVICE = 101,
	ERROR_ALREADY_MAPPED = 208,
	ERROR_ALREADY_REGISTERED = 712,
	ERROR_NOT_REGISTERED = 713,
	ERROR_INVALID_HANDLE = 400,
	ERROR_ILLEGAL_STATE = 401,
	ERROR_NOT_PERMITTED = 800,
	ERROR_CAPTURE_UNSUPPORTED = 900,
	ERROR_CAPTURE_INVALIDATED = 901,
	ERROR_NOT_READY = 600,
	ERROR_ILLEGAL_ADDRESS = 700,
	ERROR_CAPTURE_UNMATCHED = 903,
	ERROR_CAPTURE_ISOLATION = 905,
	ERROR_CAPTURE_IMPLICIT = 906,
	ERROR_CAPTURED_EVENT = 907,
	ERROR_CAPTURE_WRONG_THREAD = 908,
	ERROR_UPDATE_FAILURE = 910,
	ERROR_UNKNOWN = 999,
};

enum { MAX_DEVICES = 16, MAX_CONTEXT_STACK = 32, DRIVER_VERSION = 13000 };

/* driver.c: bits of standin_gate. 0: the driver is initialised and has not ended, no fault is to be
 * injected, and nothing is to be logged. */
enum {
	GATE_UNREAD = 1, /* the environment has not been read */
	GATE_CLOSED = 2, /* cuInit has not been called */
	GATE_GONE = 4,   /* the exit handler has run */
	GATE_FORKED = 8, /* the child of an initialised process */
	GATE_FAULTS = 16,
	GATE_LOG = 32,
	GATE_HOST = 64, /* a host function runs, in which most calls are not permitted */
};
extern _Atomic unsigned int standin_gate;
extern int standin_devices;
extern int standin_arena_limit;
extern size_t standin_memory;
extern int standin_version;
CUresult standin_gate_slow(const char *name, bool early);
void standin_log_slow(const char *name, uint64_t address, uint64_t bytes, CUresult result);
CUresult standin_do_nothing(const char *name);
/* The gate of a call that writes something about a device to OUT. Returns an error if OUT is NULL
 * or DEV is invalid. */
CUresult device_call(const char *name, const void *out, CUdevice dev);

/* Every call begins with this function. If it does not return 0, the call must return that
 * value. */
static inline CUresult gate(const char *name)
{
	if (likely(!atomic_load_explicit(&standin_gate, memory_order_acquire)))
		return CUDA_SUCCESS;
	return standin_gate_slow(name, false);
}

static inline CUresult logged(const char *name, uint64_t address, uint64_t bytes, CUresult result)
{
	if (unlikely(atomic_load_explicit(&standin_gate, memory_order_relaxed)))
		standin_log_slow(name, address, bytes, result);
	return result;
}

/* async.c: STANDIN_ASYNC or STANDIN_FAKE_GPU is set */
extern bool standin_async;

/* driver.c: the value of STANDIN_FAKE_GPU */
enum standin_fake {
	FAKE_OFF,    /* it is not set: the program is a test */
	FAKE_REFUSE, /* a kernel launch returns 801 */
	FAKE_SKIP,   /* a kernel launch does nothing and returns 0 */
};
extern enum standin_fake standin_fake;
/* Adds FLAGS (ledger/format.h: enum ledger_no_gpu) to the report of gpuleak, if it is loaded. */
void standin_report(unsigned int flags);
/* Returns the result of a call that needs a GPU: 801, or 0 with FAKE_SKIP. The stand-in runtime
 * recognizes this driver by the name of this function. */
CUresult standin_unable(void);

/* context.c */
enum { CONTEXT_FAULTED = 2 }; /* alive, but each call returns 700 */
struct CUctx_st {
	_Atomic int alive;
	int device;
	unsigned int flags;
	unsigned int api_version;
	unsigned int references; /* of a primary context */
	bool primary;
	/* of a created context: references in addition to that of its creation */
	unsigned int uses;
	/* of a green context: the primary context that owns its memory; else NULL */
	struct CUctx_st *part_of;
	struct CUctx_st *next;
};

struct arena;

struct standin_thread {
	CUcontext current;
	struct arena *arena;
	int capture_mode;
	bool in_host_function;
	int depth;
	CUcontext below[MAX_CONTEXT_STACK];
};
extern __thread struct standin_thread standin_thread __attribute__((tls_model("initial-exec")));

/* Returns the context that owns memory which the calling thread allocates. */
static inline CUcontext memory_context(void)
{
	CUcontext current = standin_thread.current;

	return current && unlikely(current->part_of) ? current->part_of : current;
}

static inline CUresult context_usable(CUcontext context)
{
	int alive;

	if (unlikely(!context))
		return CUDA_ERROR_INVALID_CONTEXT;
	alive = atomic_load_explicit(&context->alive, memory_order_relaxed);
	if (unlikely(alive != 1))
		return alive ? ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return CUDA_SUCCESS;
}

/* Returns 700 if work of the current context accessed an address that is not mapped. */
static inline CUresult context_fault(void)
{
	CUcontext current = memory_context();

	return unlikely(current && atomic_load(&current->alive) == CONTEXT_FAULTED) ?
		       ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static inline bool bad_device(CUdevice dev)
{
	return dev < 0 || dev >= standin_devices;
}

/* heap.c: device memory */
enum block_kind {
	BLOCK_DEVICE,
	BLOCK_MANAGED,
	BLOCK_ASYNC,	/* memory of a pool */
	BLOCK_IPC,	/* another process's block, opened here */
	BLOCK_IMPORTED, /* a block of another process's pool */
	BLOCK_EXTERNAL, /* mapped from an imported object */
	BLOCK_MODULE,	/* a variable */
	/* this and BLOCK_PHYSICAL take device memory at an address that the application does not
	 * get */
	BLOCK_ARRAY,
	BLOCK_PHYSICAL,
	BLOCK_GRAPH, /* the address of a graph node: see struct memory in graph.h */
	BLOCK_LEAVING, /* freed in a stream whose earlier work is not done */
};

struct block {
	CUdeviceptr address;
	size_t bytes;
	CUcontext context;
	enum block_kind kind;
	int device;
	unsigned short pool; /* 0: none */
	unsigned short generation;
};

enum free_by { FREE_AT_ONCE, FREE_IN_STREAM, FREE_BY_OWNER };

void heap_init(void);
CUresult heap_alloc(CUdeviceptr *address, size_t bytes, enum block_kind kind, CUcontext context);
CUresult heap_alloc_low(CUdeviceptr *address, size_t bytes, CUcontext context);
CUresult heap_take(struct block *b);
CUresult heap_free(CUdeviceptr address, enum free_by by);
bool heap_find(CUdeviceptr inside, struct block *found);
size_t heap_used(int device);
/* driver_takes() counts BYTES of DEVICE that the driver itself takes; negative BYTES: that it no
 * longer takes. Only cuMemGetInfo shows them. driver_cost() returns the bytes for a cause
 * (STANDIN_COSTS). */
enum cost { COST_CONTEXT, COST_MODULE, COST_GRAPH, COST_THREADS, COST_STREAM, COST_KERNEL,
	    COST_KINDS };
void driver_takes(int device, int64_t bytes);
int64_t driver_cost(enum cost cost);
int64_t driver_taken(int device);
/* Raises the stack limit to BYTES if it is lower, as a driver does for a kernel that needs more. */
void stack_limit_raise(size_t bytes);
void heap_drop_context(CUcontext context);
/* With STANDIN_ASYNC memory has bytes. heap_leave() makes a block invisible to queries; heap_left()
 * then frees it, once. */
CUresult heap_leave(CUdeviceptr address, unsigned short *generation);
void heap_left(CUdeviceptr address, unsigned short generation);
char *heap_bytes(CUdeviceptr address, size_t bytes, unsigned short *generation);
bool heap_is_heap(CUdeviceptr address);

/* pool.c */
#define POOL_CURRENT ((CUmemoryPool)(uintptr_t)-1)
extern _Atomic bool standin_pool_slack;
void pool_init(void);
CUresult pool_alloc(CUmemoryPool pool, CUdeviceptr *address, size_t bytes, CUcontext context);
void pool_take_back(unsigned short number, size_t bytes);
void pool_trim_all(void);

/* Call at the end of each call that waits for the device: pools then return the memory above their
 * threshold. Returns R, or the error of work that ended meanwhile. */
static inline CUresult waited(CUresult r)
{
	if (likely(!r))
		r = context_fault();
	if (unlikely(!r && atomic_load_explicit(&standin_pool_slack, memory_order_relaxed)))
		pool_trim_all();
	return r;
}

/* array.c */
void array_drop_context(CUcontext context);
CUresult array_map_external(const char *name, CUmipmappedArray *out,
			    const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels, CUresult r);

/* share.c: IPC and external memory */
void share_drop_context(CUcontext context);

/* virtual.c: mapped memory */
bool virtual_is(CUdeviceptr address); /* in the range in which addresses are reserved */
bool virtual_find(CUdeviceptr inside, struct block *found);
/* Stores in *RET the address in the heap of the memory that is mapped at ADDRESS; 0: memory without
 * bytes. Returns false if not all of the range lies in one mapping. */
bool virtual_memory(CUdeviceptr address, size_t bytes, CUdeviceptr *ret);

/* object.c: objects that take no memory here */
enum object_kind {
	OBJECT_MODULE, OBJECT_LIBRARY, OBJECT_TEXTURE, OBJECT_SURFACE, OBJECT_SEMAPHORE, OBJECT_USER
};
/* Stores the new object's handle in *RET. OUT is the application's pointer for it, only checked for
 * NULL. */
CUresult object_make(const char *name, enum object_kind kind, const void *out, uint64_t *ret);
/* Does the same for a module or library with the variables of IMAGE, or of the file PATH. */
CUresult object_load(const char *name, enum object_kind kind, void **out, const void *image,
		     const char *path);
void object_drop_context(CUcontext context);

/* host.c: pinned and registered memory */
bool host_find(CUdeviceptr inside, struct block *found);
void host_drop_context(CUcontext context);
/* Returns true if the whole range lies in a pinned or registered block. Then the block stays until
 * host_unlock(). */
bool host_lock_range(uintptr_t address, size_t bytes);
void host_unlock(void);

/* graph.c: graphs, also those that captures make */
CUgraph graph_begin(void);
void graph_abandon(CUgraph graph);
bool graph_is(CUgraph graph);
CUresult graph_capture_alloc(CUgraph graph, size_t bytes, int device, CUdeviceptr *address);
CUresult graph_capture_free(CUgraph graph, CUdeviceptr address);
bool graph_free(CUdeviceptr address, CUresult *r);

/* stream.c: streams, and what a capture forbids */
extern _Atomic int standin_captures;
CUresult capture_check_slow(bool even_relaxed);
CUresult stream_check(CUstream stream, bool *capturing);
CUgraph stream_graph(CUstream stream);
void stream_drop_context(CUcontext context);
CUresult stream_make(CUstream *out, CUcontext context, unsigned int flags);

/* Returns the error of a call that is not permitted during a capture, and invalidates that capture.
 * Returns 0 if no capture forbids the call. */
static inline CUresult capture_check(void)
{
	if (likely(!atomic_load_explicit(&standin_captures, memory_order_relaxed)))
		return CUDA_SUCCESS;
	return capture_check_slow(false);
}

#endif

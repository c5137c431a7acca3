/* SPDX-License-Identifier: MIT
 *
 * Memory of other processes and APIs: blocks that are opened by an IPC handle, and imported
 * external memory. No memory is really shared. As everywhere in the stand-in, an address is only a
 * number. It takes no memory of the device.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin/driver/standin.h"

#define IPC_MAGIC 0x216e69646e617473ull /* standin! */

/* The content of the 64 bytes of a handle. */
struct ipc_words {
	uint64_t magic;
	uint64_t address, bytes;
	int32_t process;
	int32_t device;
	uint32_t generation; /* so that a block at the address of a freed one has its own handle */
	uint32_t unused[7];
};
_Static_assert(sizeof(struct ipc_words) == sizeof(CUipcMemHandle), "a handle is 64 bytes");

struct opened {
	struct opened *next;
	struct ipc_words of;
	CUcontext context;
	CUdeviceptr address;
	unsigned int references;
};

struct CUextMemory_st {
	struct CUextMemory_st *next;
	CUcontext context;
	uint64_t bytes;
};

static pthread_mutex_t share_lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *opened;
static struct CUextMemory_st *imported;

static void close_ipc(struct opened **link)
{
	struct opened *o = *link;

	*link = o->next;
	heap_free(o->address, FREE_BY_OWNER);
	free(o);
}

static void drop_imported(struct CUextMemory_st **link)
{
	CUexternalMemory e = *link;

	*link = e->next;
	free(e);
}

/* Call before heap_drop_context(), which also drops mapped buffers. */
void share_drop_context(CUcontext context)
{
	struct opened **ipc = &opened;
	struct CUextMemory_st **external = &imported;

	pthread_mutex_lock(&share_lock);
	while (*ipc) {
		if ((*ipc)->context == context)
			close_ipc(ipc);
		else
			ipc = &(*ipc)->next;
	}
	while (*external) {
		if ((*external)->context == context)
			drop_imported(external);
		else
			external = &(*external)->next;
	}
	pthread_mutex_unlock(&share_lock);
}

static CUresult enter(const char *name)
{
	CUresult r = gate(name);

	return r ? r : context_usable(standin_thread.current);
}

/* Any address in a block of cuMemAlloc gives the handle of the whole block. */
STANDIN(cuIpcGetMemHandle)(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	CUresult r = enter("cuIpcGetMemHandle");
	struct ipc_words words = { .magic = IPC_MAGIC };
	struct block b = { .bytes = 0 };

	if (!r && (!pHandle || !heap_find(dptr, &b) || b.kind != BLOCK_DEVICE))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		words.address = b.address;
		words.bytes = b.bytes;
		words.process = (int32_t)getpid();
		words.device = b.device;
		words.generation = b.generation;
		memcpy(pHandle, &words, sizeof(words));
	}
	return logged("cuIpcGetMemHandle", dptr, r ? 0 : b.bytes, r);
}

/* If the context has the block open already: with COUNTS adds a reference, otherwise the call
 * fails. */
static CUresult open_words(CUdeviceptr *address, const struct ipc_words *words, bool counts)
{
	CUcontext current = memory_context();
	struct opened *o;
	CUresult r;

	for (o = opened; o; o = o->next) {
		if (o->context != current || memcmp(&o->of, words, sizeof(*words)))
			continue;
		if (!counts)
			return ERROR_ALREADY_MAPPED;
		o->references++;
		*address = o->address;
		return CUDA_SUCCESS;
	}
	o = malloc(sizeof(*o));
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*o = (struct opened){ opened, *words, current, 0, 1 };
	r = heap_alloc(&o->address, words->bytes, BLOCK_IPC, current);
	if (r) {
		free(o);
		return r;
	}
	opened = o;
	*address = o->address;
	return CUDA_SUCCESS;
}

static CUresult open_ipc(const char *name, CUdeviceptr *out, const CUipcMemHandle *handle,
			 unsigned int flags, bool counts)
{
	CUresult r = enter(name);
	CUdeviceptr address = 0;
	struct ipc_words words;

	memcpy(&words, handle, sizeof(words));
	if (!r && (!out || flags != 1 || words.magic != IPC_MAGIC || !words.bytes))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && words.process == (int32_t)getpid())
		r = CUDA_ERROR_INVALID_CONTEXT; /* a process cannot open its own handle */
	if (!r) {
		pthread_mutex_lock(&share_lock);
		r = open_words(&address, &words, counts);
		pthread_mutex_unlock(&share_lock);
	}
	if (!r)
		*out = address;
	return logged(name, address, r ? 0 : words.bytes, r);
}

STANDIN(cuIpcOpenMemHandle)(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return open_ipc("cuIpcOpenMemHandle", pdptr, &handle, Flags, false);
}

STANDIN(cuIpcOpenMemHandle_v2)(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return open_ipc("cuIpcOpenMemHandle_v2", pdptr, &handle, Flags, true);
}

STANDIN(cuIpcCloseMemHandle)(CUdeviceptr dptr)
{
	CUresult r = enter("cuIpcCloseMemHandle");
	struct opened **link = &opened;

	if (!r) {
		pthread_mutex_lock(&share_lock);
		while (*link && (*link)->address != dptr)
			link = &(*link)->next;
		if (!*link)
			r = CUDA_ERROR_INVALID_VALUE;
		else if (--(*link)->references == 0)
			close_ipc(link);
		pthread_mutex_unlock(&share_lock);
	}
	return logged("cuIpcCloseMemHandle", dptr, 0, r);
}

static CUresult check_import(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	if (!desc || !desc->size || desc->flags > 1) /* 1: DEDICATED */
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->type == 1) /* OPAQUE_FD */
		return CUDA_SUCCESS;
	return desc->type > 1 && desc->type <= 9 ? CUDA_ERROR_NOT_SUPPORTED :
						   CUDA_ERROR_INVALID_VALUE;
}

/* The file descriptor is neither checked nor closed. It still belongs to the caller. */
STANDIN(cuImportExternalMemory)
(CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	CUresult r = enter("cuImportExternalMemory");
	CUexternalMemory e = NULL;

	if (!r)
		r = extMem_out ? check_import(memHandleDesc) : CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		e = malloc(sizeof(*e));
		r = e ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r) {
		pthread_mutex_lock(&share_lock);
		/* under the lock: see share_drop_context() */
		r = context_usable(standin_thread.current);
		if (!r) {
			*e = (struct CUextMemory_st){ imported, memory_context(),
						      memHandleDesc->size };
			imported = e;
		}
		pthread_mutex_unlock(&share_lock);
	}
	if (!r)
		*extMem_out = e;
	else
		free(e);
	return logged("cuImportExternalMemory", r ? 0 : (uintptr_t)e,
		      r ? 0 : memHandleDesc->size, r);
}

static struct CUextMemory_st **find_imported(CUexternalMemory external)
{
	struct CUextMemory_st **link = &imported;

	while (*link && *link != external)
		link = &(*link)->next;
	return link;
}

static CUresult within(CUexternalMemory external, uint64_t offset, uint64_t bytes)
{
	CUresult r = CUDA_SUCCESS;
	CUexternalMemory e;

	pthread_mutex_lock(&share_lock);
	e = external ? *find_imported(external) : NULL;
	if (!e)
		r = ERROR_INVALID_HANDLE;
	else if (offset > e->bytes || bytes > e->bytes - offset)
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&share_lock);
	return r;
}

STANDIN(cuExternalMemoryGetMappedBuffer)
(CUdeviceptr *devPtr, CUexternalMemory extMem, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
	CUresult r = enter("cuExternalMemoryGetMappedBuffer");
	CUdeviceptr address = 0;

	if (!r && (!devPtr || !bufferDesc || !bufferDesc->size || bufferDesc->flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = within(extMem, bufferDesc->offset, bufferDesc->size);
	if (!r)
		r = heap_alloc(&address, bufferDesc->size, BLOCK_EXTERNAL, memory_context());
	if (!r)
		*devPtr = address;
	return logged("cuExternalMemoryGetMappedBuffer", address, r ? 0 : bufferDesc->size, r);
}

STANDIN(cuExternalMemoryGetMappedMipmappedArray)
(CUmipmappedArray *mipmap, CUexternalMemory extMem,
 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
	CUresult r = enter("cuExternalMemoryGetMappedMipmappedArray");

	if (!r && (!mipmap || !mipmapDesc))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = within(extMem, mipmapDesc->offset, 1);
	return array_map_external("cuExternalMemoryGetMappedMipmappedArray", mipmap,
				  r ? NULL : &mipmapDesc->arrayDesc,
				  r ? 0 : mipmapDesc->numLevels, r);
}

/* Buffers and arrays that were mapped from the object stay mapped. */
STANDIN(cuDestroyExternalMemory)(CUexternalMemory extMem)
{
	CUresult r = enter("cuDestroyExternalMemory");
	struct CUextMemory_st **link;

	if (!r) {
		pthread_mutex_lock(&share_lock);
		link = find_imported(extMem);
		if (extMem && *link)
			drop_imported(link);
		else
			r = extMem ? ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
		pthread_mutex_unlock(&share_lock);
	}
	return logged("cuDestroyExternalMemory", (uintptr_t)extMem, 0, r);
}

/* SPDX-License-Identifier: MIT
 *
 * Blocks of device memory that end, or begin, at addresses that are not mapped, so that an access
 * beyond them is an illegal address for the GPU. Freed blocks lose their memory and keep their
 * addresses. Any thread may call any function, with no lock held and outside the recorder. Until
 * the first guarded block exists, each function returns at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/call.h"
#include "interpose/cuda/cuda_types.h"

/* A guarded block, live or freed. */
struct page_place {
	uint64_t address; /* that the application has */
	uint64_t bytes;   /* that the application requested */
	uint64_t start, mapped; /* where its memory is, or was, mapped */
	/* A small block of the driver's own, which has the attributes that the application expects
	 * of the guarded one, and the context. */
	uint64_t companion;
	uint64_t last;    /* number of the last launch before the free, if that is known */
	bool live; /* false: freed, perhaps while work still uses it */
	bool filled; /* its memory held the pattern */
};

/* Stores the guarded block around ADDRESS: one whose memory, or the unmapped addresses beside it,
 * contain ADDRESS. Returns false if no guarded block does. */
bool pages_lookup(uint64_t address, struct page_place *ret);

/* Returns true if ADDRESS may lie in or beside a guarded block, or if there may be any. They take
 * no lock. */
bool pages_may_have(uint64_t address);
bool pages_any(void);

/* Each returns true if a guarded block serves CALL. Otherwise the caller calls the driver. A free's
 * result is in *RET. For cuMemFreeAsync, STREAM is the address of its stream, otherwise NULL.
 * Then, if LEAVES, work may still use the block until pages_end(). */
bool pages_alloc(struct call *call, CUdeviceptr *address, size_t bytes);
bool pages_alloc_pitch(struct call *call, CUdeviceptr *address, size_t *pitch, size_t width,
		       size_t height, unsigned int element);
bool pages_free(void *real, CUdeviceptr address, const CUstream *stream, bool leaves,
		CUresult *ret);
/* The block at ADDRESS is freed after launch LAST, and work may still use it until pages_end().
 * FILLED: its memory holds the pattern then. */
void pages_freed(uint64_t address, uint64_t last);
void pages_end(uint64_t address, bool filled);

/* CONTEXT has ended, and with it its blocks: mappings outlive a context (measured on an H100). */
void pages_context_gone(uint64_t context);

/* Lets devices that the process began to use access the guarded blocks, as they may access those of
 * the driver once peer access is enabled. */
void pages_grant_new_devices(void);

/* Returns the bytes of DEVICE that guarded blocks take beyond what the application requested, those
 * of freed blocks included. */
uint64_t pages_unseen(int device);
/* Call after memory ran out. Returns the memory of freed blocks to the driver. Returns true if that
 * was anything. */
bool pages_relieve(void);

/* SPDX-License-Identifier: MIT
 *
 * gpuleak as the injection library of NVTX, for ranges and for heaps of memory. A program contains
 * NVTX as inline code. At its first call this code loads the library that NVTX_INJECTION64_PATH
 * names, and calls InitializeInjectionNvtx2() in it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/export.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/format.h"
#include "ledger/lock.h"

/* For the constructor. Returns true if NVTX has loaded this library, which was not preloaded. Then
 * it must do nothing. Otherwise, if the process RECORDS, sets NVTX_INJECTION64_PATH to this library
 * unless it is set: replaces `environ`. */
bool nvtx_start(bool records);

/* A lookup found FOUND, the function NAME of another tool. If NVTX starts a tool by this function,
 * returns gpuleak's function that calls FOUND, unless gpuleak was loaded only for NVTX. */
void *nvtx_found(const char *name, void *found);

/* Return the number of a name (see named_ranges.h): of a domain or registered string, 0 for the
 * default domain; of a message of NVTX's TYPE. */
uint32_t nvtx_handle_name(const void *handle);
uint32_t nvtx_message_name(uint32_t type, const void *message);

typedef const void *nvtx_get_export_table(uint32_t table);
EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table *get_export_table);
/* nvtxExtModuleInfo_t */
struct nvtx_extension {
	uint16_t version, size, module, compatible;
	size_t segment_count;
	struct nvtx_segment {
		size_t id, count;
		void **functions;
	} *segments;
};
EXPORT int InitializeInjectionNvtxExtension(struct nvtx_extension *extension);
/* nvtx_memory.c: writes gpuleak's functions into EXTENSION if it is the one for memory. Returns
 * false if it is another one. OTHERS: another tool has written its functions into it before. */
bool nvtx_memory_start(struct nvtx_extension *extension, bool others);

/* Defines the function NAME, which gpuleak writes into NVTX's table. RESULT is an expression with
 * the result R of the other tool's function, whose address is NEXT, or NVTX_NO_RESULT. NVTX's
 * functions return void, an int, a handle or a number: all in the register of a uint64_t. The call
 * in RESULT is no tail call, so that the frame of NAME stays for CALLER. */
#define NVTX_NO_RESULT ((uint64_t)-2) /* also NVTX_NO_PUSH_POP_TRACKING */
#define NVTX_FUNCTION(next, name, parameters, arguments, result)                              \
	static uint64_t name parameters                                                      \
	{                                                                                    \
		uint64_t(*other) parameters =                                                \
			(uint64_t(*) parameters)atomic_load_explicit(&(next),                \
								     memory_order_relaxed);  \
		uint64_t r = other ? other arguments : NVTX_NO_RESULT;                       \
                                                                                             \
		r = result;                                                                  \
		__asm__ volatile("");                                                        \
		return r;                                                                    \
	}

/* Part of the recorder: the heaps that the process has registered. */
#define NVTX_HEAPS 4096u
#define NVTX_HEAP_RECORDS 1020u
struct nvtx_heaps {
	struct lock lock; /* guards the other fields */
	uint64_t devices; /* bit n: device n modulo 64 has had heaps */
	struct nvtx_heap {
		const void *handle; /* NULL: unused */
		uint64_t start, bytes; /* 0 bytes: it was unregistered */
		int device;
		struct hook *hook;
	} heap[NVTX_HEAPS];
	uint32_t record_count;
	struct ledger_heaps *record[NVTX_HEAP_RECORDS];
};

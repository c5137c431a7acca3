/* SPDX-License-Identifier: MIT
 *
 * The last launches of kernels, with the addresses of guarded blocks among their parameters. After
 * a call that returns the error of an illegal address, they name the launch and the block. A copy
 * into a block with patterns is kept as a launch. Any thread may call any function, outside the
 * recorder.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/call.h"
#include "interpose/cuda/cuda_types.h"

#define LAUNCH_WORDS 14u
#define LAUNCH_NUMBERS 8u
#define LAUNCHES_OPENCL 1u /* the `context` of all launches of OpenCL */

/* A launch: what it may access. */
struct guarded_launch {
	_Atomic uint64_t place; /* its number in the ring; 0: a thread writes it */
	uint64_t context;
	uint64_t stream;
	const char *function; /* name of the kernel; NULL: not known. Valid during the call */
	struct hook *hook;
	uint32_t stack, name; /* refs */
	uint8_t words, numbers;
	bool proven;          /* it was synchronized, and failed */
	bool leaving;         /* it was given an address of a freed block that work may still use */
	uint64_t word[LAUNCH_WORDS]; /* addresses in and beside guarded blocks */
	uint32_t number[LAUNCH_NUMBERS]; /* other parameters: perhaps sizes or offsets */
};

/* Before the driver's call that launches F on STREAM: afterwards the driver may return the launch's
 * error instead. PARAMS and EXTRA are the call's arguments. F NULL: the parameters are not known.
 * Returns false if there are no guarded blocks. */
bool launches_look(struct guarded_launch *ret, CUfunction f, CUstream stream, void **params,
		   void **extra);
/* After the call, which returned R: records the launch. Returns R, or with GPULEAK_GUARD_SYNC the
 * error of the launch. */
CUresult launches_note(struct call *call, CUresult r, struct guarded_launch *launch, CUfunction f,
		       CUstream stream);

/* Before CALL copies to ADDRESS, or sets it, on STREAM of the current context (NULL: its default
 * stream): records that as a launch, if a block with patterns may be there. */
void launches_note_copy(struct call *call, const CUstream *stream, uint64_t address);
/* The same for a command of OpenCL in QUEUE: it runs KERNEL, named NAME, or writes the buffer
 * WORD. */
void launches_note_command(struct call *call, const void *queue, const void *kernel,
			   const char *name, uint64_t word);

/* Locking: the caller is inside RECORDER. Stores in RET the launches of CONTEXT after number DONE,
 * up to LAST: first those that were given an address among the SPAN bytes at BASE. */
void launches_suspect(struct recorder *recorder, uint64_t context, uint64_t done, uint64_t last,
		      uint64_t base, uint64_t span, struct ledger_overwrite *ret);
/* Returns the latest number up to which all launches of CONTEXT are done, or forgotten. */
uint64_t launches_finished(uint64_t context);
/* Returns the number of the latest launch. */
uint64_t launches_now(void);
/* All launches in CONTEXT up to NUMBER are done. */
void launches_done_until(uint64_t context, uint64_t number);
/* The same for STREAM of the current context. */
void launches_done_in_stream(CUstream stream, uint64_t number);
void launches_done_in_queue(const void *queue, uint64_t number);

/* CONTEXT has ended. */
void launches_context_gone(uint64_t context);

/* SPDX-License-Identifier: MIT
 *
 * All that a recording process keeps, and the way in: enter, do, leave. One recorder per
 * process image, made at the first GPU call; a forked child finds none and makes its own.
 * Everything below may be called by any thread; nothing here may be called from a lookup.
 */
#ifndef GPULEAK_RECORDER_H
#define GPULEAK_RECORDER_H

#include <errno.h>
#include <stdbool.h>

#include "interpose/base/arena.h"
#include "interpose/base/hot.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/writer.h"

/* What a process keeps. The state of the floors above is behind pointers, so that this header
 * needs none of theirs. process/start.c maps all of it in one piece and sets the pointers before
 * any thread can see the recorder. They do not change after that. */
struct recorder {
	uint32_t generation; /* of the process: goes up with every fork that records */
	int pid;
	unsigned int stack_depth;
	struct ledger_header *header;
	_Atomic(struct pool *) pool; /* NULL: none yet */
	struct modules *modules;
	struct stacks *stacks;
	struct blocks *blocks;
	struct ledger_writer writer;
	struct arena arena;
	struct stripes *stripes;
	struct python_names *python;
	struct free_races *free_races;
	struct facts_written *facts;
	struct modules_looked_at *looked_at;
	struct graphs *graphs;
	struct contexts *contexts;
	struct histories *histories;
	struct vmm *vmm;
	struct deferred_totals *deferred;
	struct ledger_timeline *parts; /* see timeline.h */
	struct holds *holds;
	struct user_events *user_events;
	struct pools_record *pools_record;
	struct limits *limits;
	struct steps *steps;
	struct report_state *report;
	struct cl_pool *cl_pool; /* NULL: no context was made, or no pool is wanted */
	_Atomic uint64_t devices_met; /* a bit each, see driver_growth.c */
	uint32_t errors_retracted;
};

/* Of a thread's call under way: bytes that it may take and that no block has yet (limit.c). */
struct limits_due {
	uint64_t bytes;
	enum api api;
	int device;
};

/* The last release of a watched block (see site.watched) that a thread has under way. A driver
 * mostly calls back inside it: then the table's entry is known, and so is the outcome. */
struct releasing {
	struct entry *entry; /* see entry_is() */
	const struct ledger_block *block;
	uint64_t watched;
	bool gone; /* the driver has called back */
};

/* What a thread keeps; all zero until its first GPU call in this recorder. */
struct thread {
	uint32_t generation;
	/* Not 0: inside gpuleak, entered with this stack pointer. A signal handler's call is passed
	 * on unrecorded meanwhile. */
	uintptr_t busy;
	int saved_errno; /* of the application, while busy */
	int *errno_at;
	struct stripe *stripe;
	uint64_t context; /* CUDA: last current context seen, who owns its memory, its device */
	uint64_t owner;
	uint32_t context_epoch;
	int device;
	uint64_t staying; /* see recorder_stay() */
	struct recorder *stayed_in;
	struct standing *standing; /* of the pooled block that the call under way is about */
	uint64_t now_ns; /* when the free under way began */
	struct pool *pool; /* its context that was met last, and the cache of a space of it */
	struct pool_context *pool_context;
	struct pool_space *pool_space;
	struct pool_cache *pool_cache;
	void *pooled; /* the driver's function behind the pooled call under way */
	uint64_t nested; /* address just recorded by a call inside the present one */
	uintptr_t call_frame; /* of the outermost driver's call under way: its wrapper's; or 0 */
	uintptr_t call_return; /* and return address */
	struct ledger_block *call_block; /* that it frees, out of the table; or NULL */
	uint64_t call_key;
	struct limits_due due;
	uint32_t thread;  /* the kernel's number */
	uint32_t ignored; /* LEDGER_BLOCK_IGNORED between gpuleak_ignore_begin() and _end() */
	unsigned int ignoring; /* how many of them are open */
	struct releasing releasing;
};
extern __thread struct thread thread_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* In a page that a fork wipes: a child, however it came about, finds zeros and starts
 * afresh, with locks that nobody holds. */
struct recorder_page {
	struct recorder *recorder;
	struct recorder *stopped; /* see recorder_stop() */
	struct lock making;
	int impossible; /* why nothing can be recorded: an errno; 0 otherwise */
	int failed_pid; /* the process that found that out */
};
extern struct recorder_page *recorder_page __attribute__((visibility("hidden")));

/* Makes that page if there is none. For process_start(). */
void recorder_make_page(void);

/* The present recorder, or NULL: none yet, or recording is impossible. */
static inline struct recorder *recorder_now(void)
{
	return recorder_page ? __atomic_load_n(&recorder_page->recorder, __ATOMIC_ACQUIRE) : NULL;
}

/* The same, or the one that stopped: for what is reported at the end. */
static inline struct recorder *recorder_last(void)
{
	struct recorder *recorder = recorder_now();

	return recorder || !recorder_page
		       ? recorder
		       : __atomic_load_n(&recorder_page->stopped, __ATOMIC_ACQUIRE);
}

/* A thread left gpuleak in the middle of its work: by a signal handler's longjmp, an exception or
 * cancellation. What it was at may be half done, and it may hold a lock. So nothing is recorded
 * any more in this process; calls pass, and are counted. */
void recorder_stop(void);
/* An allocation or a free is not recorded for that reason, if it is. */
COLD void recorder_missed(void);

/* Returns true if a function that ran at stack pointer THEN has been left, as the caller runs at
 * NOW. If not, that is not known: NOW lies deeper on the same stack, or on another one. */
COLD bool recorder_was_left(uintptr_t then, uintptr_t now);

static HOT uintptr_t recorder_stack_pointer(void)
{
	uintptr_t ret;

#if defined(__x86_64__)
	__asm__("movq %%rsp, %0" : "=r"(ret));
#else
	__asm__("mov %0, sp" : "=r"(ret));
#endif
	return ret;
}

COLD struct recorder *recorder_enter_slowly(void);

/* The present recorder, made if need be, with this thread joined and marked busy; NULL if
 * the call can't be recorded. Every non-NULL result is given back to recorder_leave(). (By
 * name, not by a pointer: gcc 12's -fsanitize=undefined takes that one, inlined, for NULL.) */
static HOT struct recorder *recorder_enter(void)
{
	struct recorder *recorder = recorder_now();

	if (__builtin_expect(thread_self.busy || !recorder ||
				     thread_self.generation != recorder->generation,
			     0))
		return recorder_enter_slowly();
	thread_self.busy = recorder_stack_pointer();
	thread_self.saved_errno = *thread_self.errno_at;
	return recorder;
}

static HOT void recorder_leave(void)
{
	*thread_self.errno_at = thread_self.saved_errno;
	thread_self.busy = 0;
}

/* In place of recorder_leave(), by a step of a call on the block at ADDRESS whose next step goes
 * on by recorder_resume(). Nothing in between enters, but for a signal handler: it finds the
 * thread busy, and its own blocks at other addresses. */
static HOT void recorder_stay(struct recorder *recorder, uint64_t address)
{
	thread_self.stayed_in = recorder;
	thread_self.staying = address;
}

static HOT bool recorder_stayed(uint64_t address)
{
	return thread_self.staying == address && address;
}

static HOT struct recorder *recorder_resume(uint64_t address)
{
	if (__builtin_expect(!recorder_stayed(address), 0))
		return recorder_enter();
	thread_self.staying = 0;
	return thread_self.stayed_in;
}

/* Why this process, which made GPU calls, records nothing: an errno; 0 in any other process. */
int recorder_failure(void);

/* The process made a GPU call: from now on there is something to report. */
void recorder_touch(void);

/* Writes TEXT into the ledger and stores its ref in SLOT. Returns the ref. */
COLD uint32_t recorder_write_text(struct recorder *recorder, _Atomic uint32_t *slot,
				  const char *text);

static HOT uint32_t recorder_text_ref(struct recorder *recorder, _Atomic uint32_t *slot,
				      const char *text)
{
	uint32_t ref = atomic_load_explicit(slot, memory_order_relaxed);

	return __builtin_expect(ref != 0, 1) ? ref : recorder_write_text(recorder, slot, text);
}

/* The ref of a hook's name, kind in the present ledger. */
static HOT uint32_t recorder_name_ref(struct recorder *recorder, struct hook *hook)
{
	return recorder_text_ref(recorder, &hook->name_ref, hook->name);
}

static HOT uint32_t recorder_kind_ref(struct recorder *recorder, struct hook *hook)
{
	return recorder_text_ref(recorder, &hook->kind_ref, hook->kind);
}

#endif

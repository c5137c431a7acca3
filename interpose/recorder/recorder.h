/* SPDX-License-Identifier: MIT
 *
 * The state of a recording process, and how a thread enters and leaves it. There is one recorder
 * per process image, created at the first GPU call. A forked child creates its own.
 *
 * Safe in any thread. Nothing here may be called during a dlsym() lookup.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "interpose/base/arena.h"
#include "interpose/base/at_end.h"
#include "interpose/base/hot.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/clock.h"
#include "ledger/writer.h"
#include "ledger/shared.h"

/* Whether the verdict on the process is taken. From then on gpuleak waits for nothing, and calls no
 * driver by itself. What the driver destroys then was not freed by the application. */
enum ending {
	ENDING_NOT,
	ENDING_DESTRUCTORS, /* gpuleak's own destructor has run: other libraries still may free */
	ENDING_DRIVER,      /* a library of a driver has begun to end */
};

/* The parts of the state of a process, which belong to other folders: PART(struct, name). Each is
 * behind a pointer, so this header does not include their headers. thread_states is last: only
 * `count` elements of its array are mapped. */
#define RECORDER_PARTS(PART)                                                                \
	PART(modules, modules)                                                              \
	PART(stacks, stacks)                                                                \
	PART(blocks, blocks)                                                                \
	PART(suballocations, suballocations)                                                \
	PART(python_names, python)                                                          \
	PART(free_races, free_races)                                                        \
	PART(observations_written, observations)                                            \
	PART(modules_looked_at, looked_at)                                                  \
	PART(graphs, graphs)                                                                \
	PART(contexts, contexts)                                                            \
	PART(histories, histories)                                                          \
	PART(context_ends, context_ends)                                                    \
	PART(refused_frees, refused_frees)                                                  \
	PART(parked, parked)                                                                \
	PART(vmm, vmm)                                                                      \
	PART(deferred_totals, deferred)                                                     \
	PART(ledger_timeline, parts)                                                        \
	PART(kernel_args, kernel_args)                                                      \
	PART(user_events, user_events)                                                      \
	PART(pools_record, pools_record)                                                    \
	PART(limits, limits)                                                                \
	PART(refusals, refusals)                                                            \
	PART(steps, steps)                                                                  \
	PART(recorded_keepers, keepers)                                                     \
	PART(ipc, ipc)                                                                      \
	PART(driver_costs, driver_costs)                                                    \
	PART(named_ranges, named_ranges)                                                    \
	PART(nvtx_heaps, heaps)                                                             \
	PART(block_ranges, ranges)                                                          \
	PART(guard_state, guard)                                                            \
	PART(trace, trace)                                                                  \
	PART(report_state, report)                                                          \
	PART(thread_states, thread_states)

/* `waiting` of a recorder has the number of waiting threads in its upper 16 bits. Below are their
 * ranges (16 bits) and the refs of their Python frames, each combined by exclusive or. So if only
 * one thread waits, these are its range and the ref of its frames. */
#define WAITING_ONE ((uint64_t)1 << 48)
#define WAITING_BITS(range, frames) ((uint64_t)(range) << 32 | (frames))

/* The state of a process. process/start.c maps everything in one piece and sets the pointers to the
 * parts before any thread can see the recorder. These do not change after that. */
struct recorder {
	uint32_t generation; /* number of the recorder; increases with every fork that records */
	int pid;
	unsigned int stack_depth;
	_Atomic(uint32_t) ending; /* enum ending */
	struct ledger_header *header;
	_Atomic(struct pool *) pool; /* NULL: none yet */
#define PART(type, name) struct type *name;
	RECORDER_PARTS(PART)
#undef PART
	struct ledger_writer writer;
	struct arena arena;
	struct cl_pool *cl_pool; /* NULL: no OpenCL context exists yet, or the pool is off */
	_Atomic uint64_t waiting;     /* see stack/waiting.h */
	_Atomic uint64_t devices_met; /* a bit for each device, see driver_growth.c */
	uint32_t errors_retracted;
};

/* Bytes reserved under a limit for the thread's current call, until a block records them
 * (limit.c). */
struct limits_due {
	uint64_t bytes;
	enum api api;
	int device;
};

/* A thread's last request that was refused for want of memory (out_of_memory.c). */
struct refused_request {
	struct ledger_out_of_memory *record; /* NULL: none */
	const struct hook *hook;
	uint64_t number; /* of the refusal; the record may have been reused for another one */
	uint64_t bytes;
	uint32_t generation; /* of the recorder whose ledger has the record */
	uint32_t place;      /* ref that identifies the place in the program */
	int device;
	/* the thread then got a block of that size, but may need more blocks: see needs_pieces() */
	bool recovered;
	bool passed;    /* the thread has got a block since that does not satisfy the request */
};

/* Whether the end of a block was reported inside the call that frees it, on the thread of that
 * call. */
enum gone {
	GONE_NOT,
	GONE_WITH_DRIVER, /* the driver reported it */
	GONE_WITH_POOL,   /* OpenCL's pool did, which does not wait for the driver */
};

/* The block that a thread's driver call frees. The block is not in the table of blocks. */
struct call_free {
	struct ledger_block *block; /* NULL: none */
	uint64_t key;
	uint64_t watched; /* see struct call */
	uint64_t span;    /* see struct entry */
	struct block_hint *hint;
	unsigned char gone; /* enum gone */
};

/* The state of a thread. All zero until the thread's first GPU call in this recorder. */
struct thread {
	uint32_t generation;
	/* Stack pointer at which the thread entered gpuleak, or 0 if it is outside. While it is
	 * inside, a GPU call by a signal handler goes to the driver unrecorded. */
	uintptr_t busy;
	int saved_errno; /* the application's errno, while busy */
	int *errno_at;
	struct thread_state *state;
	/* CUDA: the current context that was seen last, the owner of its memory, its device */
	uint64_t context;
	uint64_t owner;
	uint32_t context_epoch;
	int device;
	/* the pool, context and space that the thread used last, and its cache for that space */
	struct pool *pool;
	struct pool_context *pool_context;
	struct pool_space *pool_space;
	struct pool_cache *pool_cache;
	uint64_t nested; /* address that a nested call just recorded inside the current call */
	/* frame address of the wrapper in the outermost current driver call, or 0 */
	uintptr_t call_frame;
	uintptr_t call_return; /* return address of that wrapper */
	struct call_free call_free; /* by that call */
	struct limits_due due;
	uint32_t thread;  /* thread ID of the operating system */
	bool is_first;    /* it is the thread that the process began with */
	/* named_ranges.c: the number of the range in which the thread is, 0: none. Ranges that are
	 * begun in LEDGER_RANGE_OTHER or too deep are only counted; `range_before` is the range
	 * around them. */
	uint16_t range, range_before;
	uint32_t ranges_uncounted;
	uint32_t range_thread; /* number of a thread that started a range; else 0 */
	uint32_t range_ends_seen;
	uint32_t ignored; /* LEDGER_BLOCK_IGNORED between gpuleak_ignore_begin() and _end() */
	unsigned int ignoring; /* number of gpuleak_ignore_begin() calls without _end() */
	/* stack/waiting.c: number of calls in which the thread waits; the ref of its Python frames;
	 * the recorder that counts it, or 0 */
	uint32_t waiting_depth, waiting_frames, waiting_generation, waiting_range;
	uint64_t waiting_key; /* key of the frames that have the ref waiting_frames */
	uint32_t java_critical; /* how many of JNI's critical regions the thread has entered */
	struct refused_request refused;
	unsigned int refusals; /* frees of live blocks that the driver refused */
	/* `busy` while a signal handler's GPU call is recorded although the thread is inside
	 * gpuleak; else 0. See recorder_pause(). */
	uintptr_t paused;
};
extern __thread struct thread thread_self
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Lies in a page that a fork wipes (MADV_WIPEONFORK). A child finds zeros and free locks, and
 * starts anew. */
struct recorder_page {
	struct recorder *recorder;
	struct recorder *stopped; /* see recorder_stop() */
	struct lock making;
	int impossible; /* errno that explains why nothing can be recorded; 0 otherwise */
	int failed_pid; /* the process in which recording failed */
	/* Guarded by `making`: the named step that begins with the recorder; empty: none */
	char step_name[LEDGER_STEP_NAME];
};
extern struct recorder_page *recorder_page __attribute__((visibility("hidden")));

/* Maps that page if there is none. Called by process_start(). */
void recorder_make_page(void);

/* Returns the current recorder, or NULL if there is none yet or recording is impossible. */
static HOT struct recorder *recorder_now(void)
{
	return recorder_page ? shared_load_acquire(recorder_page->recorder) : NULL;
}

/* Returns the current recorder, or the one that stopped. Used for reports at process exit. */
static inline struct recorder *recorder_last(void)
{
	struct recorder *recorder = recorder_now();

	return recorder || !recorder_page ? recorder : shared_load_acquire(recorder_page->stopped);
}

/* The same if the recorder belongs to this process, else NULL. A vfork child runs in its parent's
 * memory, and the child's end is not the parent's. */
struct recorder *recorder_of_process(void);

static HOT enum ending recorder_ending(const struct recorder *recorder)
{
	return (enum ending)atomic_load_explicit(&recorder->ending, memory_order_relaxed);
}

/* What each allocation has to check besides its own work. Nearly always 0, so that it costs one
 * branch. CHECK_LIMITS: GPULEAK_LIMIT or GPULEAK_FAIL_AT is set (block/limit.h). CHECK_REFUSED: a
 * thread was refused memory, and its next blocks are compared with the refused request.
 * CHECK_ACCUMULATION: live blocks are counted by call site (recorder/live_counts.h). CHECK_PEAK:
 * there is a peak that thread_states->alarm_bytes waits for. CHECK_RANGES: the guard finds blocks
 * by addresses inside them (block/block_ranges.h). CHECK_TRACE: GPULEAK_TRACE is set
 * (recorder/trace.h). */
enum {
	CHECK_LIMITS = 1, CHECK_REFUSED = 2, CHECK_ACCUMULATION = 4, CHECK_PEAK = 8,
	CHECK_RANGES = 16, CHECK_TRACE = 32
};
extern _Atomic unsigned int alloc_checks __attribute__((visibility("hidden")));

/* Stops recording in this process permanently. Called if a thread left gpuleak in the middle of its
 * work: by a signal handler's longjmp, an exception or cancellation. Its update may be incomplete,
 * and it may hold a lock. Later calls go to the driver and are counted. */
void recorder_stop(void);
/* Counts an allocation or a free that is not recorded because recording stopped. Does nothing if
 * recording did not stop. */
COLD void recorder_missed(void);

/* Returns true if a function that ran at stack pointer THEN has certainly been left. NOW is the
 * current stack pointer. Returns false if it may still run: NOW lies deeper on the same stack, or
 * on another stack. */
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

/* Returns the current recorder, and marks the calling thread as inside gpuleak. Creates the
 * recorder and the thread's state if needed. Returns NULL if the call cannot be recorded. Every
 * non-NULL result needs a recorder_leave(). (Accesses thread_self by name, because gcc 12 with
 * -fsanitize=undefined treats an inlined pointer to it as NULL.) */
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

/* Before the declaration of a pointer that is not NULL if the function has entered the recorder:
 * leaves it where the pointer's block ends. A lock of HOLD() behind it is released before that. */
#define LEAVE_AT_END __attribute__((unused, cleanup(recorder_leave_if)))
static HOT void recorder_leave_if(const void *pointer)
{
	const void *entered;

	memcpy(&entered, pointer, sizeof(entered));
	if (entered)
		recorder_leave();
}

/* Declares `recorder`: enters it if WANTED, and takes the lock of its part PART, until the block
 * ends. It is NULL if nothing is recorded. */
#define ENTER_PART(part, wanted)                                                     \
	LEAVE_AT_END struct recorder *recorder = (wanted) ? recorder_enter() : NULL; \
	struct lock *const part_lock __attribute__((unused, cleanup(hold_end))) =  \
		recorder ? hold_begin(&recorder->part->lock) : NULL

struct recorder_paused {
	uintptr_t busy, paused;
	int saved_errno;
};

/* Locking: the caller holds no lock, and is inside the recorder. Until recorder_resume(), GPU calls
 * of the thread's signal handlers are recorded. */
void recorder_pause(struct recorder_paused *ret);
void recorder_resume(const struct recorder_paused *paused);

/* Returns CLOCK_MONOTONIC_COARSE in ns since the ledger's start. */
static HOT uint64_t recorder_time(const struct recorder *recorder)
{
	uint64_t ns = clock_ns(CLOCK_MONOTONIC_COARSE), start = recorder->header->start_mono_ns;

	/* The coarse clock may be a tick behind CLOCK_MONOTONIC, which measured the start. */
	return ns > start ? ns - start : 0;
}

/* Returns CLOCK_MONOTONIC in ns since the ledger's start. For durations, and for times that are
 * compared with those of another process: the coarse clock may be some ms late. */
static inline uint64_t recorder_fine_time(const struct recorder *recorder)
{
	uint64_t ns = clock_ns(CLOCK_MONOTONIC), start = recorder->header->start_mono_ns;

	return ns > start ? ns - start : 0;
}

/* Returns true if the ledger is complete. It must not change any more then, because the reporter at
 * process exit reads it once. */
static inline bool recorder_has_ended(const struct recorder *recorder)
{
	return shared_load_acquire(recorder->header->ended) != LEDGER_RUNNING;
}

/* Returns the errno that explains why this process made GPU calls but records nothing; otherwise
 * 0. */
int recorder_failure(void);

/* Creates the recorder if there is none, because the process made a GPU call. From now on there is
 * something to report. */
void recorder_touch(void);

/* Writes TEXT into the ledger. Returns its ref, or 0 if the ledger is full. */
uint32_t recorder_add_text(struct recorder *recorder, const char *text);

/* Returns true if REF is the ref of a string of the ledger that equals TEXT. */
static inline bool recorder_text_is(const struct recorder *recorder, uint32_t ref, const char *text)
{
	const struct ledger_string *string = ref ? ledger_at(&recorder->writer, ref) : NULL;

	return string && string->length == strlen(text) &&
	       memcmp(string->bytes, text, string->length) == 0;
}

/* Writes TEXT into the ledger and stores its ref in SLOT. Returns the ref. */
COLD uint32_t recorder_write_text(struct recorder *recorder, _Atomic uint32_t *slot,
				  const char *text);

static HOT uint32_t recorder_text_ref(struct recorder *recorder, _Atomic uint32_t *slot,
				      const char *text)
{
	uint32_t ref = atomic_load_explicit(slot, memory_order_relaxed);

	return __builtin_expect(ref != 0, 1) ? ref : recorder_write_text(recorder, slot, text);
}

/* Returns the ref of the hook's name in the current ledger. */
static HOT uint32_t recorder_name_ref(struct recorder *recorder, struct hook *hook)
{
	return recorder_text_ref(recorder, &hook->name_ref, hook->name);
}

/* Returns the ref of the hook's kind in the current ledger. */
static HOT uint32_t recorder_kind_ref(struct recorder *recorder, struct hook *hook)
{
	return recorder_text_ref(recorder, &hook->kind_ref, hook->kind);
}

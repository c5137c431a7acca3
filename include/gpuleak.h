/* SPDX-License-Identifier: MIT
 *
 * The functions that libgpuleak.so offers to a program while it is preloaded. A program can:
 *
 * - sum up the memory that was allocated since a mark and not freed,
 * - find the call that allocated a block, and exclude a block from the report,
 * - return the unused memory of the pool (GPULEAK_POOL) to the driver, and read its counters,
 * - mark a step, and write a report.
 *
 * The functions are declared weak, so the program does not link the library. A function is NULL
 * if the library is not preloaded. Check for NULL before the call. If one function exists, all
 * functions of that library version exist.
 *
 *     if (gpuleak_mark)
 *             mark = gpuleak_mark();
 *
 * Compile position-independent code (-fPIE or -fPIC, the default of most distributions).
 * Otherwise the linker resolves the functions to NULL. Or look them up with dlsym(RTLD_DEFAULT,
 * "gpuleak_mark").
 *
 * Any thread may call each function at any time, with or without a current context. A signal
 * handler may call a function only if its comment says so. Only gpuleak_pool_trim() calls a
 * driver. No function creates a ledger in a process that made no GPU call. See
 * docs/reference/api.md and docs/guides/pool.md.
 *
 * Each struct begins with `size`. The caller sets it to sizeof(the struct), and a newer library
 * fills in only the fields that the caller's header has. The caller sets every other field to 0,
 * except fields marked "in", which it may set. All sizes are in bytes.
 */
#ifndef GPULEAK_H
#define GPULEAK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef GPULEAK_FUNCTION
#define GPULEAK_FUNCTION __attribute__((weak))
#endif

/* ---- leaks between two points of the program ---- */

/* Returns a number that identifies this moment, never 0. A block whose allocation returned before
 * the call is older than the mark. A block whose allocation began after the call returned is newer.
 * Costs one atomic addition. Signal handlers may call it. It also works before the first GPU call
 * and across fork. */
GPULEAK_FUNCTION uint64_t gpuleak_mark(void);

/* Sums of live blocks. Deferred frees (OpenCL) and objects that are not memory are not counted. */
struct gpuleak_sum {
	uint64_t size;
	const char *kind; /* in: count only blocks of this kind ("device"); NULL = all */
	uint32_t thread;  /* in: count only blocks that this thread (gettid()) allocated; 0 = all */
	uint32_t reserved;
	uint64_t blocks;         /* allocated since the mark and not freed */
	uint64_t bytes;          /* of these blocks */
	uint64_t ignored_blocks; /* ignored by gpuleak_ignore(); not in `blocks` */
	uint64_t ignored_bytes;
	/* live bytes of the whole process now; the mark, `thread` and `kind` do not matter */
	uint64_t live_bytes;
	/* blocks of the whole process that are not recorded, because the ledger had no room */
	uint64_t unrecorded_blocks;
	/* Suballocations since the mark that are not freed: what a framework allocated inside
	 * blocks that it caches, for example PyTorch's tensors. They are not in `blocks`, and
	 * `kind` does not select them. Ignored ones are not counted. */
	uint64_t suballocation_blocks;
	uint64_t suballocation_bytes;
	uint64_t unrecorded_suballocations; /* like unrecorded_blocks */
	/* blocks of the whole process that were live when their context was destroyed or reset, and
	 * not ignored; the mark, `thread` and `kind` do not matter */
	uint64_t ended_blocks;
	uint64_t ended_bytes;
};

/* Sums up the blocks that were allocated since MARK (0: since the start) and are not freed. Walks
 * over all block records without a lock. Other threads may allocate and free meanwhile. A block
 * that is live during the whole call is counted once. Signal handlers may call it. Returns 0. On
 * error returns -1 with errno EINVAL: RET is NULL or its `size` is not set; ENODATA: the process
 * cannot record. */
GPULEAK_FUNCTION int gpuleak_leaked_since(uint64_t mark, struct gpuleak_sum *ret);

/* Stores in *RET_BYTES the peak of live bytes since the last call with RESTART not 0 (before such a
 * call: since the start). The value is exact, except if several threads allocate within the same
 * tick of the coarse clock (1-4 ms). Then it may be too low. Returns 0, or -1 with errno EINVAL or
 * ENODATA. */
GPULEAK_FUNCTION int gpuleak_peak(int restart, uint64_t *ret_bytes);

/* ---- blocks ---- */

#define GPULEAK_BLOCK_IGNORED 1u /* bits of `flags` below: the program ignores the block */
#define GPULEAK_BLOCK_INTERIOR 2u /* the requested address is not the block's first one */
#define GPULEAK_BLOCK_OBJECT 4u  /* the block is an OpenCL object that is not memory */

struct gpuleak_block {
	uint64_t size;
	uint64_t *pcs;      /* in: array for return addresses, innermost first, or NULL */
	uint32_t pcs_room;  /* in: number of elements of `pcs` */
	uint32_t pcs_count; /* number of recorded addresses; at most pcs_room of them are written */
	uint64_t address;   /* first address of the block, or its handle */
	uint64_t bytes;     /* bytes that gpuleak counts for the block */
	/* Size of the block's address range. The `bytes` of a CUDA mapping may be 0: then its
	 * physical memory is counted for another block. */
	uint64_t span;
	uint64_t context;   /* the driver's context handle; 0 unknown */
	/* Of a sub-buffer: the handle of the buffer that it belongs to. Of a CUDA mapping: the
	 * handle of its physical memory, if the mapping covers all of that memory. Else 0. */
	uint64_t parent;
	uint64_t time_ns;   /* CLOCK_MONOTONIC at the allocation, accurate to 1-4 ms */
	uint64_t mark;      /* the block is newer than every mark up to this one */
	uint32_t thread;    /* thread (gettid()) that allocated the block */
	uint32_t references; /* reference count of a handle */
	int32_t device;     /* device ordinal; -1 unknown */
	uint32_t flags;     /* GPULEAK_BLOCK_* */
	char api[64];       /* name of the call that allocated it, "cuMemAlloc_v2" */
	char kind[32];      /* "device", "pinned", "cl-buffer" ... */
};

/* Fills in *RET for the live block that contains ADDRESS. ADDRESS is a device or host address
 * anywhere in the block, or a handle (cl_mem, CUarray, CUmemGenericAllocationHandle) cast to a
 * number. If ADDRESS is not the beginning of a block, the call walks over all live blocks. Returns
 * 0. On error returns -1 with errno ENOENT: no live block contains ADDRESS; EINVAL; EBUSY: a signal
 * handler interrupted gpuleak's own work and made the call. Signal handlers may call it. */
GPULEAK_FUNCTION int gpuleak_who(uint64_t address, struct gpuleak_block *ret);

/* Marks the live block that contains ADDRESS (as above) as intended to live until exit. From now on
 * the block is not a leak. Reports list it as suppressed, with the pattern "gpuleak_ignore()".
 * Returns 0, or -1 with errno as above. */
GPULEAK_FUNCTION int gpuleak_ignore(uint64_t address);

/* Ignores all blocks that the calling thread allocates between the two calls, like
 * gpuleak_ignore(). Pairs may nest. Signal handlers may call both functions. */
GPULEAK_FUNCTION void gpuleak_ignore_begin(void);
GPULEAK_FUNCTION void gpuleak_ignore_end(void);

/* ---- the whole report ---- */

/* Write the path of this process's ledger, or of the `gpuleak` command that reads it, to the SIZE
 * bytes at RET. `gpuleak report LEDGER` reports on the running process. Return the length without
 * the final NUL. On error return -1 with errno ENODATA: the process made no GPU call yet, or the
 * ledger is only in memory; ENOENT: the command does not exist; ERANGE: SIZE is too small. */
GPULEAK_FUNCTION int gpuleak_ledger(char *ret, size_t size);
GPULEAK_FUNCTION int gpuleak_command(char *ret, size_t size);

/* ---- the pool ---- */

/* Returns to the driver all memory that the pool has cached and the program does not use, for all
 * devices, contexts and kinds. Returns the number of bytes. Returns 0 if the pool had no unused
 * memory, the pool is off, or a stream is being captured. May wait for the device, as cuMemFree
 * does. Preserves errno and the current context. */
GPULEAK_FUNCTION size_t gpuleak_pool_trim(void);

#define GPULEAK_POOL_OFF 0    /* values of `mode` below */
#define GPULEAK_POOL_STRICT 1
#define GPULEAK_POOL_FAST 2

/* Sums over all pools of the process (one per device, kind of memory and API). `*_ns` are
 * nanoseconds, `*_bytes` are bytes, all others are counts. */
struct gpuleak_pool_stats {
	uint64_t size;
	uint64_t mode; /* GPULEAK_POOL_*, as the user requested it */
	uint64_t turned_off;     /* pools that turned themselves off */

	uint64_t used_bytes;     /* requested bytes that the program uses now */
	uint64_t cached_bytes;   /* bytes now that the pool can reuse at once */
	uint64_t pending_bytes;  /* freed bytes that the device may still be using */
	/* bytes from the driver: the sum of used, cached, pending and waste */
	uint64_t reserved_bytes;
	uint64_t waste_bytes;    /* by how much blocks in use are larger than requested */
	uint64_t peak_used_bytes;     /* sum of the peaks of all pools */
	uint64_t peak_reserved_bytes;

	/* The following counters only increase. */
	uint64_t hits;               /* allocations served from the pool's cache */
	uint64_t native_allocations; /* allocations served by the driver */
	uint64_t native_frees;       /* frees passed to the driver, including trimmed blocks */
	uint64_t frees;              /* frees that the pool did not pass to the driver */
	uint64_t native_calls_saved; /* driver calls that the pool avoided */
	uint64_t tickets;            /* fences: events that mark when a freed block may be reused */
	uint64_t shared_tickets;     /* frees that shared a fence with an earlier free */
	uint64_t waits;              /* frees that waited for the device */
	uint64_t wait_ns;            /* total time of these waits */
	uint64_t trims;              /* how often the pool returned blocks to the driver */
	uint64_t trimmed_blocks;     /* blocks returned to the driver */
	uint64_t trimmed_bytes;      /* bytes returned to the driver */
	uint64_t rescued;            /* allocations that succeeded only after a trim */
	uint64_t refused;            /* allocations refused because of GPULEAK_LIMIT */
	uint64_t injected_failures;  /* allocations failed because of GPULEAK_FAIL_AT */
};

/* Fills in *RET. Fields that this library does not know are set to 0, and `size` is set to the
 * number of bytes that it knows. Returns 0. On error returns -1 with errno EINVAL: RET is NULL, or
 * its `size` is smaller than this struct or larger than 4096; ENODATA: no pool and no limit is on,
 * or the process made no GPU memory call yet. */
GPULEAK_FUNCTION int gpuleak_pool_stats(struct gpuleak_pool_stats *ret);

/* ---- for calls while the program runs: docs/guides/services.md ---- */

/* Marks a step: the end of work that repeats, for example a request or an epoch. From the fourth
 * step on, call sites whose memory increases with each step are reported as growing. LABEL may be
 * NULL; its first 32 bytes are stored. Returns the number of the step, from 1, or 0 if it was not
 * recorded, for example before the first GPU memory call. Walks once over all live blocks. */
GPULEAK_FUNCTION unsigned int gpuleak_step(const char *label);

/* Begins a step with NAME, for example "warm-up". Reports list for each name what the process
 * allocated, freed and left during its steps, and the largest peak. Also marks a step as
 * gpuleak_step() does.
 * - The step ends at the next call of this function or of gpuleak_step(), or with the process.
 *   NAME NULL or "" only ends it. Steps that a signal or an interval marks do not end it.
 * - A step belongs to the process: a call in any thread ends the step before. The step has the
 *   memory of all threads.
 * - The first 64 bytes of NAME are stored, and steps with the same name are added up. After 100
 *   different names the steps of all further names are added up together.
 * - Before the first GPU memory call the name is stored, and the step begins with that call.
 * Any thread may call it, but no signal handler. Returns the number of the step, as gpuleak_step().
 * Walks twice over all live blocks. */
GPULEAK_FUNCTION unsigned int gpuleak_step_named(const char *name);

/* Begins and ends a range of the calling thread, for example "request 17", as nvtxRangePushA() and
 * nvtxRangePop() do. Reports list what was allocated in each range, what was freed of it and what
 * is left. Names that differ only in digits are one range, unless GPULEAK_RANGES_AS_NAMED is 1.
 * Ranges may be begun inside others, and before the first GPU memory call. Any thread may call
 * these functions, also in a signal handler. */
GPULEAK_FUNCTION void gpuleak_range_begin(const char *name);
GPULEAK_FUNCTION void gpuleak_range_end(void);

/* Stores what keeps the live blocks of a call site. Reports print it with the call site. For
 * programs and interpreters that find out themselves what refers to their objects: `gpuleak run
 * --keepers` does it for Python.
 * - SITE is the number `ledger_site` that `gpuleak report --format json --addresses` prints.
 * - TEXT has a line for each keeper: the number of blocks, a space, and words, for example
 *   "50 list `history` in __main__". A line that begins with "0 " is a remark. The first 2008
 *   bytes are stored, in whole lines.
 * - A text replaces the former one of its call site. There is room for 8 call sites: a further one
 *   replaces the oldest.
 * Any thread may call it, but no signal handler. Returns 0. On error returns -1 and sets errno.
 * ENOENT: the process has no such call site. ENODATA: the process made no GPU memory call yet, or
 * recording has stopped. */
GPULEAK_FUNCTION int gpuleak_keepers(uint64_t site, const char *text);

/* Returns a number that increases by one each time that a call site has twice as many live blocks
 * as before: 8, 16, 32 and so on. For programs that search for what keeps memory: what grows is
 * worth a new search. Counts tensors that PyTorch reports, and with GPULEAK_ACCUMULATION all
 * blocks. Frees may decrease it later, so compare it with the largest value so far. Reads
 * one number per call site. Any thread may call it, but no signal handler. Returns 0 if nothing is
 * counted. */
GPULEAK_FUNCTION uint64_t gpuleak_doublings(void);

/* Writes a report on the live memory and returns when it is written. The destination is
 * GPULEAK_REPORT_NOW, or GPULEAK_REPORT if that is unset. If the destination is a file, .1, .2 ...
 * is appended to its name. Returns 0. On error returns -1 and sets errno. ENODATA: the process made
 * no GPU memory call yet. ENOTSUP: the option for the destination is set to "none". */
GPULEAK_FUNCTION int gpuleak_report(void);

/* Writes a report on the live memory to the descriptor FD, and returns when it is written: JSON, as
 * `gpuleak report --format json --addresses` prints it. The process that does it causes no SIGCHLD,
 * and wait() does not find it. Not for signal handlers. Returns 0. On error returns -1 and sets
 * errno. ENODATA: the process made no GPU memory call yet. EIO: the command could not be run, or
 * could not write. */
GPULEAK_FUNCTION int gpuleak_report_live(int fd);

#ifdef __cplusplus
}
#endif

#endif

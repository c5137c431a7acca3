/* SPDX-License-Identifier: MIT
 *
 * What a program may ask of libgpuleak.so while it is preloaded: what was not freed since a
 * mark, who allocated a pointer; to leave a block out of the report; to give back what the pool
 * (GPULEAK_POOL) keeps, and what the pool did; to mark a step; to report now. The functions are
 * declared weak: link nothing, and look first whether they are there. Where one is, all are that
 * its version has.
 *
 *     if (gpuleak_mark)
 *             mark = gpuleak_mark();
 *
 * Compile as position-independent code (-fPIE, -fPIC: what distributions' compilers do), else
 * the linker settles for NULL; or look them up with dlsym(RTLD_DEFAULT, "gpuleak_mark").
 *
 * Any thread may call them at any time, with or without a current context. In a signal handler
 * only those may be called that say so. None makes a call into a driver but gpuleak_pool_trim;
 * none makes a ledger for a process that made no GPU call. See
 * docs/reference/api.md and docs/guides/pool.md.
 *
 * Structs begin with `size`, which the caller sets to sizeof(the struct): a later library fills
 * in what the caller's header has. The rest is set to zero before a call, but for what a comment
 * calls "in".
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

/* A number for this moment. Blocks and marks have an exact order: a block whose allocation
 * returned before gpuleak_mark() was called is older than the mark; one whose allocation was
 * called after it returned is since the mark. Never 0. Costs one atomic addition. Signal handlers
 * may call it; it is also right before the first GPU call and across fork. */
GPULEAK_FUNCTION uint64_t gpuleak_mark(void);

/* Of the blocks that are live now. "Released but still held" ones (OpenCL) are not, nor are
 * other objects than memory. */
struct gpuleak_sum {
	uint64_t size;
	const char *kind; /* in: only of this kind, "device"; NULL = all */
	uint32_t thread;  /* in: only what this thread (gettid()) allocated; 0 = all */
	uint32_t reserved;
	uint64_t blocks;         /* allocated since the mark, and not freed */
	uint64_t bytes;
	uint64_t ignored_blocks; /* besides: gpuleak_ignore() was said of these */
	uint64_t ignored_bytes;
	uint64_t live_bytes;     /* of the whole process now, whatever the mark, thread and kind */
	uint64_t unrecorded_blocks; /* of the whole process: the ledger had no room for them */
};

/* Adds up what was allocated since MARK (0: ever) and is not freed. Looks at all live blocks, and
 * at places of earlier ones, without a lock. Other threads go on meanwhile; a block that is live
 * all the time is counted once. Signal handlers may call it. 0; or -1 with errno EINVAL: RET is
 * NULL or its `size` was not set; ENODATA: nothing can be recorded in this process. */
GPULEAK_FUNCTION int gpuleak_leaked_since(uint64_t mark, struct gpuleak_sum *ret);

/* The most bytes that were live at one moment since this was last called with RESTART not 0
 * (at first: ever). Exact, except among threads that allocate within the same tick of the coarse
 * clock (1-4 ms), where it may come out lower. 0; or -1 with errno EINVAL, ENODATA. */
GPULEAK_FUNCTION int gpuleak_peak(int restart, uint64_t *ret_bytes);

/* ---- blocks ---- */

#define GPULEAK_BLOCK_IGNORED 1u /* of `flags` below */
#define GPULEAK_BLOCK_INTERIOR 2u /* the address asked for is not its beginning */
#define GPULEAK_BLOCK_OBJECT 4u  /* an OpenCL object that is no memory */

struct gpuleak_block {
	uint64_t size;
	uint64_t *pcs;      /* in: room for return addresses, innermost first, or NULL */
	uint32_t pcs_room;  /* in: how many */
	uint32_t pcs_count; /* how many there are; at most pcs_room of them were written */
	uint64_t address;   /* where it begins, or the handle */
	uint64_t bytes;     /* that are counted for it */
	uint64_t span;      /* addresses that it takes; a mapping's bytes may be its handle's */
	uint64_t context;   /* the driver's handle; 0 unknown */
	uint64_t parent;    /* of a sub-buffer: the handle of its buffer */
	uint64_t time_ns;   /* of CLOCK_MONOTONIC when it was allocated, to 1-4 ms */
	uint64_t mark;      /* it is since every mark up to this one */
	uint32_t thread;    /* that allocated it, as gettid() says */
	uint32_t references; /* of a handle */
	int32_t device;     /* -1 unknown */
	uint32_t flags;     /* GPULEAK_BLOCK_ */
	char api[64];       /* the call that allocated it, "cuMemAlloc_v2" */
	char kind[32];      /* "device", "pinned", "cl-buffer" ... */
};

/* Who allocated the live block that ADDRESS is in: a device or host address, its first one or
 * another inside, or a handle (cl_mem, CUarray, CUmemGenericAllocationHandle), each cast to a
 * number. For a number that is not the beginning of a block every live block is looked at.
 * 0; or -1 with errno ENOENT: no live block is there; EINVAL; EBUSY: called by a signal handler
 * that came in the middle of gpuleak's own work. Signal handlers may call it. */
GPULEAK_FUNCTION int gpuleak_who(uint64_t address, struct gpuleak_block *ret);

/* The block that ADDRESS is in (as above) is meant to live to the end: from now on it is no
 * leak, wherever it was allocated. Reports show it as suppressed, by "gpuleak_ignore()". 0; or -1
 * with errno as above. */
GPULEAK_FUNCTION int gpuleak_ignore(uint64_t address);

/* The same for all that the calling thread allocates between the two. They nest. Signal handlers
 * may call them. */
GPULEAK_FUNCTION void gpuleak_ignore_begin(void);
GPULEAK_FUNCTION void gpuleak_ignore_end(void);

/* ---- the whole report ---- */

/* Writes the path of this process's ledger, and of the `gpuleak` command that reads it, into the
 * SIZE bytes at RET: `gpuleak report LEDGER` tells of the living process. The length without
 * the final NUL; or -1 with errno ENODATA: no GPU call was made yet, or the ledger is in memory
 * only; ENOENT: the command is not there; ERANGE: SIZE is too small. */
GPULEAK_FUNCTION int gpuleak_ledger(char *ret, size_t size);
GPULEAK_FUNCTION int gpuleak_command(char *ret, size_t size);

/* ---- the pool ---- */

/* Gives back to the driver all memory that the pool keeps and the program does not use, of all
 * devices, contexts and kinds. Returns how many bytes; 0 if there was nothing, no pool is on,
 * or a stream is being captured. May wait for the device, as cuMemFree does. errno and the
 * current context stay as they are. */
GPULEAK_FUNCTION size_t gpuleak_pool_trim(void);

#define GPULEAK_POOL_OFF 0    /* of `mode` below */
#define GPULEAK_POOL_STRICT 1
#define GPULEAK_POOL_FAST 2

/* Sums over all pools of the process: devices, kinds of memory, APIs. */
struct gpuleak_pool_stats {
	uint64_t size;
	uint64_t mode; /* that was asked for */
	uint64_t turned_off;     /* pools that turned themselves off */

	uint64_t used_bytes;     /* now: the program's, as it asked for them */
	uint64_t cached_bytes;   /* ready to be handed out again */
	uint64_t pending_bytes;  /* freed; the device may still be using them */
	uint64_t reserved_bytes; /* had from the driver: all of these, and the waste */
	uint64_t waste_bytes;    /* by which blocks in use are larger than asked for */
	uint64_t peak_used_bytes;     /* sums of each pool's own peak */
	uint64_t peak_reserved_bytes;

	/* These only go up. */
	uint64_t hits;               /* allocations served without the driver */
	uint64_t native_allocations; /* allocations that the driver served */
	uint64_t native_frees;
	uint64_t frees;              /* kept from the driver */
	uint64_t native_calls_saved;
	uint64_t tickets;
	uint64_t shared_tickets;
	uint64_t waits;              /* frees that waited for the device */
	uint64_t wait_ns;
	uint64_t trims;
	uint64_t trimmed_blocks;
	uint64_t trimmed_bytes;
	uint64_t rescued;            /* allocations that succeeded after a trim only */
	uint64_t refused;            /* for GPULEAK_LIMIT */
	uint64_t injected_failures;  /* for GPULEAK_FAIL_AT */
};

/* Fills in *RET. What a later version has and this library does not is 0, and `size` says how
 * much is known. 0; or -1 with errno EINVAL: RET is NULL, or its `size` was not set (less than
 * that of the first version, which is this one, or absurd); ENODATA: no pool and no limit is on,
 * or the process has made no GPU memory call yet. */
GPULEAK_FUNCTION int gpuleak_pool_stats(struct gpuleak_pool_stats *ret);

/* ---- while it runs: docs/guides/services.md ---- */

/* Marks a step: the end of a piece of work that comes again and again, a request or an epoch. What
 * has more memory after each step is reported as growing, from the fourth step on. LABEL, of which
 * 32 bytes are kept, may be NULL. Returns the number of the step, from 1; 0 if it was not noted:
 * before the first GPU memory call there is nothing to note. Costs one walk over the blocks that
 * live. */
GPULEAK_FUNCTION unsigned int gpuleak_step(const char *label);

/* Writes a report on what lives now where GPULEAK_REPORT_NOW or GPULEAK_REPORT says, a file's name
 * with .1, .2 ... behind it, and returns when that is done. 0; or -1 with errno ENODATA: the
 * process has made no GPU memory call yet; ENOTSUP: GPULEAK_REPORT is none. */
GPULEAK_FUNCTION int gpuleak_report(void);

#ifdef __cplusplus
}
#endif

#endif

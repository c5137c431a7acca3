/* SPDX-License-Identifier: MIT
 *
 * What a program may ask of libgpuleak.so while it is preloaded: to give back what the pool
 * (GPULEAK_POOL) keeps, and what the pool did; to mark a step; to report now. The functions are
 * declared weak: link nothing, and look first whether they are there.
 *
 *     if (gpuleak_pool_trim)
 *             gpuleak_pool_trim();
 *
 * Compile as position-independent code (-fPIE, -fPIC: what distributions' compilers do), else
 * the linker settles for NULL; or look them up with dlsym(RTLD_DEFAULT, "gpuleak_pool_trim").
 *
 * Any thread may call them at any time, with or without a current context; a signal handler
 * may not. See docs/pool.md.
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
	uint64_t size; /* set it to sizeof(struct gpuleak_pool_stats) before the call */
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

/* ---- while it runs: docs/services.md ---- */

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

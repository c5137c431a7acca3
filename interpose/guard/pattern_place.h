/* SPDX-License-Identifier: MIT
 *
 * What gpuleak has in a context: streams that wait for no work of the application unless they must,
 * and pinned memory that blocks are read into. Reads and fills blocks. No lock is held during a
 * driver call. Any thread may call these functions outside the recorder.
 */
#pragma once

#include <stdatomic.h>

#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/guard/leaving.h"

#define REAL(symbol) DRIVER(symbol, resolve_driver(&hooks[HOOK_##symbol]).real)

struct pattern_context {
	_Atomic uint64_t context; /* 0: unused */
	uint64_t share;        /* bytes of its device that freed blocks may take */
	_Atomic bool ready, failed;
	_Atomic bool reading;  /* a thread uses the beginning of `buffer` */
	CUstream stream;       /* for work that begins at once */
	CUstream behind;       /* for work behind that of the application */
	unsigned char *buffer; /* pinned */
	struct leaving leaving;
};

extern struct guarded_table patterns_blocks;

/* Returns the place of CONTEXT; place_for(): of the current CONTEXT, made if it is new. NULL: none,
 * or it has failed. */
struct pattern_context *place_find(uint64_t context);
struct pattern_context *place_for(uint64_t context, int device);
/* Returns the next place after *AT that may have blocks that leave, or NULL. */
struct pattern_context *place_next(unsigned int *at);
void place_end(uint64_t context);

/* Work of gpuleak in a context: no capture of the application is invalidated, and calls that the
 * driver makes meanwhile pass through. */
struct pattern_work {
	int mode;
	bool pushed;
};
/* Returns true if this thread is between the two functions below. */
bool work_is_on(void);
/* Makes CONTEXT current. Returns false if the driver refuses. */
bool work_begin(uint64_t context, struct pattern_work *ret);
void work_end(const struct pattern_work *work);
/* Within them: the driver refuses what it would refuse the application, or does not. */
void unrelax(int mode);
int relax(void);

/* Waits for gpuleak's own work in STREAM, at most PATIENCE_MS. */
bool place_wait(struct pattern_context *place, CUstream stream, unsigned int patience_ms);
/* The milliseconds that a fill of BYTES may take. */
static inline unsigned int place_patience(uint64_t bytes)
{
	return 100 + (unsigned int)(bytes >> 20);
}
/* Begins to fill BYTES at BASE, which are even, in STREAM. */
bool place_set(CUstream stream, uint64_t base, uint64_t bytes);
/* Fills them. Returns false if that does not end in time. */
bool place_fill(struct pattern_context *place, uint64_t base, uint64_t bytes);
/* Begins to read PIECES in STREAM to MEMORY. Returns how many it reads. */
unsigned int place_read(CUstream stream, const struct pieces *pieces, unsigned char *memory);
#define READ_PATIENCE_MS 1000u

/* A guarded_checker: checks what is around each block, or all of a block that is held back: of a
 * large one, the first and the last half MiB. */
guarded_checker place_check_blocks;

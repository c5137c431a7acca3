/* SPDX-License-Identifier: MIT
 *
 * Finds live blocks whose addresses lie in objects that exit() will destroy, or in memory that such
 * an object points to. Only these can be freed by a destructor after the driver has shut down,
 * which a CUDA runtime that is linked statically does not pass on to the driver.
 * Reads memory by a system call, because it may be gone. Must not write to it.
 */
#include "interpose/process/reporter.h"

#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "interpose/block/block_table.h"
#include "interpose/dispatch/observations.h"

#define OBJECTS_MAX 256 /* the latest that were made: the program's are younger than libraries' */
#define READS_MAX 4096u
#define PIECE 512u /* divides a page, so a piece is readable as a whole or not at all */
#define PIECES 8u

static void *_Atomic objects[OBJECTS_MAX];
static _Atomic unsigned int object_count;

void static_object_made(void *object)
{
	atomic_store(&objects[atomic_fetch_add(&object_count, 1) % OBJECTS_MAX], object);
}

/* Searches the piece of memory that begins at AT. POINTED: and what its words point to. */
static void search(struct recorder *recorder, uintptr_t at, bool pointed, unsigned int *reads)
{
	uintptr_t words[PIECE / sizeof(uintptr_t)];
	size_t size = PIECE - at % PIECE;
	struct iovec here = { words, size }, there = { (void *)at, size };
	struct ledger_block block;
	char site[16];

	if (at % sizeof(at) || at < 4096 || (*reads)++ >= READS_MAX ||
	    process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)size)
		return;
	for (size_t i = 0; i < size / sizeof(words[0]); i++) {
		if (words[i] && block_live(recorder, key_in(SPACE_MEMORY, words[i]), &block)) {
			snprintf(site, sizeof(site), "%u", block.site);
			observation_record(OBSERVED_STATIC_OBJECT, site, NULL, NULL);
		} else if (pointed) {
			search(recorder, words[i], false, reads);
		}
	}
}

void static_objects_search(struct recorder *recorder)
{
	unsigned int count = atomic_load(&object_count), reads = 0;

	for (unsigned int i = 1; i <= count && i <= OBJECTS_MAX; i++) {
		uintptr_t object = (uintptr_t)atomic_load(&objects[(count - i) % OBJECTS_MAX]);

		for (unsigned int piece = 0; object && piece < PIECES; piece++)
			search(recorder, piece ? object - object % PIECE + piece * PIECE : object,
			       true, &reads);
	}
}

/* SPDX-License-Identifier: MIT
 *
 * Names of functions that a process compiled while it ran, from the file that its runtime wrote: a
 * perf map or a jitdump file. Trusts nothing in these files. Must not depend on ledgers.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "report/util/report_arena.h"

/* The process whose file is wanted. */
struct jit_process {
	int pid;    /* as the process itself knows it */
	uint64_t start_ticks; /* identifies the process if the pid is reused */
	uid_t owner; /* the user whose files are accepted */
	/* CLOCK_REALTIME: when the process began, and when it ended. A file that was last written
	 * before is ignored, and one that was written after is reported. 0: unknown. */
	uint64_t began_ns, ended_ns;
	const char *cwd; /* NULL unknown */
};

struct jit_name {
	const char *function; /* NULL unknown */
	const char *file;     /* where the function is; NULL unknown */
	unsigned int line;    /* of its first line; 0 unknown */
	/* another function whose code was at the same address earlier; NULL: none */
	const char *earlier;
};

struct jit_map;

/* Reads the file of PROCESS. Returns NULL if it has none that can be used. Then, or if only a part
 * was read, stores the reason in *RET_PROBLEM, else NULL. ARENA owns the reason. */
struct jit_map *jit_map_read(const struct jit_process *process, struct report_arena *arena,
			     const char **ret_problem);
void jit_map_destroy(struct jit_map *map); /* MAP may be NULL */

/* Returns the name of the code at ADDRESS. Its strings are valid as long as MAP. If several
 * functions had code there, the last one is returned. */
struct jit_name jit_map_find(struct jit_map *map, uint64_t address);

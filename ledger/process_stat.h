/* SPDX-License-Identifier: MIT
 *
 * Reads fields of /proc/PID/stat, for the library and the command. No allocation, no stdio, no
 * cancellation point. Any thread and signal handlers may call it.
 */
#pragma once

#include <stdint.h>

struct process_stat {
	char state;           /* 'R', 'S', 'Z' ... as in proc(5) */
	int parent; /* pid */
	unsigned int threads;
	/* start time in clock ticks since boot; together with the pid it identifies one process */
	uint64_t start_ticks;
	/* Differs after an exec: a hash of where code, data, stack and environment are. 0 if the
	 * kernel does not show that to this user. */
	uint64_t image;
};

/* Fills in *RET for process PID; 0 is the calling process. Returns 0 or -errno, -ENODATA if the
 * text has an unexpected form. May change errno. */
int process_stat_read(int pid, struct process_stat *ret);

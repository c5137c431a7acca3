/* SPDX-License-Identifier: MIT
 *
 * Reads fields of /proc/PID/stat, for the library and the command. No allocation, no stdio, no
 * cancellation point. Any thread and signal handlers may call it.
 */
#ifndef GPULEAK_LEDGER_PROCESS_STAT_H
#define GPULEAK_LEDGER_PROCESS_STAT_H

#include <stdint.h>

struct process_stat {
	char state;           /* 'R', 'S', 'Z' ... as in proc(5) */
	unsigned int threads;
	/* start time in clock ticks since boot; together with the pid it identifies one process */
	uint64_t start_ticks;
};

/* Fills in *RET for process PID; 0 is the calling process. Returns 0 or -errno, -ENODATA if the
 * text has an unexpected form. May change errno. */
int process_stat_read(int pid, struct process_stat *ret);

#endif

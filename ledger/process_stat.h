/* SPDX-License-Identifier: MIT
 *
 * What /proc/PID/stat says of a process, for both halves. No allocation, no stdio, no cancellation
 * point; any thread, also in a signal handler.
 */
#ifndef GPULEAK_LEDGER_PROCESS_STAT_H
#define GPULEAK_LEDGER_PROCESS_STAT_H

#include <stdint.h>

struct process_stat {
	char state;           /* 'R', 'S', 'Z' and so on */
	unsigned int threads;
	uint64_t start_ticks; /* since boot: with the number it names one process only */
};

/* Reads it for PID; 0 is the calling process. 0 or -errno: -ENODATA if the text is not as expected.
 * May change errno. */
int process_stat_read(int pid, struct process_stat *ret);

#endif

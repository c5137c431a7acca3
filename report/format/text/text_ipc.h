/* SPDX-License-Identifier: MIT
 *
 * Memory that is shared between processes, in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_IPC_H
#define GPULEAK_REPORT_TEXT_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct report_leak;
struct report_process;

/* Prints "; 4.0 MiB freed at drop (/abs/owner.c:20), still open in worker (pid 4711), opened at
 * main (/abs/worker.c:30)" for the largest such memory of PROCESSES, or nothing. */
void text_ipc_brief(FILE *out, struct report_process *const *processes, size_t count);

/* Prints whose memory LEAK is, which PROCESS has open. Prints nothing for another leak. */
void text_ipc_of_leak(FILE *out, const struct report_process *process,
		      const struct report_leak *leak);

/* Returns true if PROCESS freed memory that another process had open. */
bool text_ipc_is_wrong(const struct report_process *process);
/* Prints that memory with its stacks. */
void text_ipc_freed(FILE *out, const struct report_process *process);

#endif

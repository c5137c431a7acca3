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
 * main (/abs/worker.c:30)" for the largest memory that one of PROCESSES freed while another process
 * had it open. Prints nothing if there is none. */
void text_ipc_brief(FILE *out, struct report_process *const *processes, size_t count);

/* If LEAK is memory of another process that PROCESS has open, prints the process that it belongs
 * to. Prints nothing for any other leak. */
void text_ipc_of_leak(FILE *out, const struct report_process *process,
		      const struct report_leak *leak);

/* Returns true if PROCESS freed memory that another process had open. */
bool text_ipc_is_wrong(const struct report_process *process);
/* Prints the memory that PROCESS freed while another process had it open, with its stacks. */
void text_ipc_freed(FILE *out, const struct report_process *process);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Stacks, places, sizes and processes in the words of the text report: what its parts share.
 */
#ifndef GPULEAK_REPORT_TEXT_STACK_H
#define GPULEAK_REPORT_TEXT_STACK_H

#include <stdint.h>
#include <stdio.h>

struct report_leak;
struct report_process;
struct report_stack;

/* Whether stacks are shown whole from now on. If not, as at the start, frames that are not the
 * application's are folded where several follow each other. */
void text_stack_whole(int whole);

/* One numbered line a frame, or several frames that are folded, down to main or a thread's own
 * function (JSON has what is below, too), or one line that says there is none. */
void text_stack(FILE *out, const struct report_stack *stack);

/* "make_buffer (/abs/app.c:12)": the application's own frame of the stack. */
void text_place(FILE *out, const struct report_stack *stack);

/* The same with its caller: the frame itself is often a helper that all allocations share. */
void text_place_and_caller(FILE *out, const struct report_stack *stack);

/* "8,388,608 bytes (8.0 MiB)" */
void text_bytes(FILE *out, uint64_t bytes);

/* "(device memory, cuMemAlloc_v2, device 0)" */
void text_source(FILE *out, const struct report_leak *leak);

/* "1.25 s", "12.3 ms", "41 us" */
void text_time(FILE *out, uint64_t ns);

/* "device memory" */
void text_kind(FILE *out, const char *kind);

/* "app (pid 12, still running)", "app rank 3 (pid 12, node7)" */
void text_process(FILE *out, const struct report_process *process);

/* "exited with status 0" */
void text_ended(FILE *out, const struct report_process *process);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Stacks, places, sizes and processes in the words of the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_STACK_H
#define GPULEAK_REPORT_TEXT_STACK_H

#include <stdint.h>
#include <stdio.h>

struct report_leak;
struct report_process;
struct report_stack;

/* Sets if whole stacks are printed from now on. Otherwise, and at the start, consecutive frames
 * that are not the application's are folded. */
void text_stack_whole(int whole);

/* Prints a numbered line per frame or folded frames, down to main or a thread's start function.
 * JSON has the frames below, too. Prints one line for an empty stack. */
void text_stack(FILE *out, const struct report_stack *stack);

/* Prints "make_buffer (/abs/app.c:12)": the application's innermost frame. */
void text_place(FILE *out, const struct report_stack *stack);

/* Prints the same with its caller, because many allocations share a helper function. */
void text_place_and_caller(FILE *out, const struct report_stack *stack);

/* Prints "8,388,608 bytes (8.0 MiB)". */
void text_bytes(FILE *out, uint64_t bytes);

/* Prints "(device memory, cuMemAlloc_v2, device 0)". */
void text_source(FILE *out, const struct report_leak *leak);

/* Prints "1.25 s", "12.3 ms" or "41 us". */
void text_time(FILE *out, uint64_t ns);

/* "device memory" */
void text_kind(FILE *out, const char *kind);

/* Prints "app (pid 12, still running)" or "app rank 3 (pid 12, node7)". */
void text_process(FILE *out, const struct report_process *process);

/* "exited with status 0" */
void text_ended(FILE *out, const struct report_process *process);

#endif

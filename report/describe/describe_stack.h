/* SPDX-License-Identifier: MIT
 *
 * Prints stacks, places and processes for the text report.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report/model/model.h"

/* WHOLE: the functions below print whole stacks and whole names. If not, they fold consecutive
 * frames that do not belong to the application into one line, and shorten long C++ names. */

/* Prints one line per frame or per group of folded frames, with numbers. Stops at main or at a
 * thread's start function; JSON has the outer frames, too. Prints one line for an empty stack. */
void describe_stack(FILE *out, const struct report_stack *stack, bool whole);

/* Returns the frame of the application that called the library with FRAME, its innermost one. If
 * FRAME is not in a library, or all of the application is in it, returns FRAME. */
const struct report_frame *report_stack_outside(const struct report_stack *stack,
						const struct report_frame *frame);
/* Prints "make_buffer (/abs/app.c:12)". */
void describe_frame(FILE *out, const struct report_frame *frame, bool whole);

/* Prints the place of an allocation, "make_buffer (/abs/app.c:12)": see
 * report_stack_culprit(). Adds " through pool_alloc" for a function through which most leaks pass.
 * If a framework's thread did the work, prints the thread, too: "PyTorch's autograd engine,
 * at::empty (...)". If the frames of the thread that waits for it are known, prints "the backward
 * pass of step (/abs/train.py:7)". */
void describe_place(FILE *out, const struct report_stack *stack, bool whole);

/* Prints BEFORE and the caller of the function that describe_place() prints, or nothing. */
void describe_caller(FILE *out, const char *before, const struct report_stack *stack, bool whole);

/* Like describe_place(), but also prints the function's caller, because many allocations come from
 * one helper function. */
void describe_place_and_caller(FILE *out, const struct report_stack *stack, bool whole);

/* With --by range, prints ", in the range serve". */
void describe_range(FILE *out, const struct report_site *site);

/* Prints " (device memory, cuMemAlloc_v2, device 0)", without the device if it is -1. */
void describe_source(FILE *out, const char *kind, const char *api, int device);

/* Prints "device memory". */
void describe_kind(FILE *out, const char *kind);

/* Prints "app (pid 12, still running)" or "app rank 3 (pid 12, node7)". */
void describe_process(FILE *out, const struct report_process *process);

/* Prints the line about an attachment to PROCESS, which may be NULL, if there was one. */
void describe_attached(FILE *out, const struct report_process *process);

/* Prints "exited with status 0". */
void describe_ended(FILE *out, const struct report_process *process);

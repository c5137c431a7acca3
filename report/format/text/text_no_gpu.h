/* SPDX-License-Identifier: MIT
 *
 * Prints that the results of a program without a GPU are invalid.
 */
#ifndef GPULEAK_TEXT_NO_GPU_H
#define GPULEAK_TEXT_NO_GPU_H

#include <stddef.h>
#include <stdio.h>

struct report_process;

/* If kernels did nothing in one of the PROCESSES, prints this at the beginning of a first line. */
void text_no_gpu_first(FILE *out, struct report_process *const *processes, size_t count);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Words for the peak of a memory and its largest holder. Prints valid UTF-8 without control
 * characters.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_PEAK_H
#define GPULEAK_REPORT_DESCRIBE_PEAK_H

#include <stdio.h>

struct report_peak;
struct report_process;

/* Returns "device", "host" or "opencl". */
const char *peak_memory_word(const struct report_peak *peak);

/* Prints "device 0", "host memory" or "OpenCL device 0". */
void describe_peak_memory(FILE *out, const struct report_peak *peak);

/* Prints "peak 1000.0 MiB, of which 900.0 MiB by workspace (/abs/solver.c:41)", for the memory of
 * PROCESS with the largest peak. If PROCESS used several memories, names this one: "peak 1000.0 MiB
 * of device 0, of which ...". PROCESS must have a peak. Returns 0 or -ENOMEM. */
int describe_peak(FILE *out, const struct report_process *process);

/* Prints "1000.0 MiB of device 0: 900.0 MiB workspace (/abs/solver.c:41), 100.0 MiB weights
 * (/abs/solver.c:12)". Returns 0 or -ENOMEM. */
int describe_peak_holders(FILE *out, const struct report_peak *peak);

#endif

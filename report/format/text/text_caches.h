/* SPDX-License-Identifier: MIT
 *
 * Memory in frameworks' caches in the text report: as a part of a sentence and as a section.
 */
#ifndef GPULEAK_REPORT_TEXT_CACHES_H
#define GPULEAK_REPORT_TEXT_CACHES_H

#include <stdbool.h>
#include <stdio.h>

struct report_process;

/* Prints ", 3 held by the PyTorch caching allocator (2.0 GiB)", the total of COUNT processes.
 * Prints nothing if no cache has memory. */
void text_caches_brief(FILE *out, struct report_process *const *processes, size_t count);

/* Prints a paragraph per cache. If VERBOSE is set, prints a paragraph per call stack instead, with
 * the stack. */
void text_caches(FILE *out, const struct report_process *process, bool verbose);

#endif

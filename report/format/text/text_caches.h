/* SPDX-License-Identifier: MIT
 *
 * Memory in frameworks' caches, in the text report: as half a sentence and as a section.
 */
#ifndef GPULEAK_REPORT_TEXT_CACHES_H
#define GPULEAK_REPORT_TEXT_CACHES_H

#include <stdio.h>

struct report_process;

/* ", 3 held by the PyTorch caching allocator (2.0 GiB)", or nothing: of COUNT processes. */
void text_caches_brief(FILE *out, struct report_process *const *processes, size_t count);

/* One paragraph a cache; VERBOSE: one a call stack, with the stack. */
void text_caches(FILE *out, const struct report_process *process, int verbose);

#endif

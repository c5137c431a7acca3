/* SPDX-License-Identifier: MIT
 *
 * What frameworks' caches hold, in the words of the text report: in half a sentence, and in
 * a section of its own.
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

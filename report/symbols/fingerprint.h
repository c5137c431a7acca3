/* SPDX-License-Identifier: MIT
 *
 * A number that identifies a leak from run to run, for baselines and CI systems. Version 1
 * ("gpuleakStack/v1") is stored in users' files: its inputs must not change. A change needs a
 * version 2 beside it.
 */
#ifndef GPULEAK_REPORT_FINGERPRINT_H
#define GPULEAK_REPORT_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

struct report_frame;
struct report_stack;

#define FINGERPRINT_NAME "gpuleakStack/v1"
#define FINGERPRINT_TEXT 17

/* Hashes API, KIND (for an error its type) and the application's frames: function and last part of
 * the file name. Leaves out line, directory, address and the suffixes of split or cloned functions;
 * a function that calls itself counts once. So the number survives edits elsewhere in the file,
 * another checkout and a rebuild. Two calls in one function that differ only by line have the same
 * number. A frame without a function counts by module and offset, which a rebuild may change. If no
 * frame is the application's, all frames count. */
uint64_t report_fingerprint(const char *api, const char *kind, const struct report_stack *stack);

/* Hashes the stack alone, for suppressions: as above without call and kind. A frame without a
 * function counts by its module's build id and offset (by name and offset without a build id).
 * Returns 0 with *RET, or -ENOENT if no frame of the application, or else of a framework, is known:
 * many other stacks would have the same hash. */
int report_stack_fingerprint(const struct report_frame *frames, size_t count, uint64_t *ret);

/* Writes 16 hexadecimal digits and a NUL to RET. Returns RET. */
char *report_fingerprint_text(uint64_t value, char ret[FINGERPRINT_TEXT]);

#endif

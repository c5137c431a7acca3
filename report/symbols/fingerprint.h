/* SPDX-License-Identifier: MIT
 *
 * A number for "the same leak as last time": what a baseline accepts and what CI systems
 * follow from run to run. Version 1 ("gpuleakStack/v1") is kept in other people's files: what
 * goes into it may never change, only get a version 2 beside it.
 */
#ifndef GPULEAK_REPORT_FINGERPRINT_H
#define GPULEAK_REPORT_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

struct report_frame;
struct report_stack;

#define FINGERPRINT_NAME "gpuleakStack/v1"
#define FINGERPRINT_TEXT 17

/* Made of API, KIND (for an error its type) and the application's own frames: function and last
 * part of the file's name, without line, directory, address, or how a compiler split or cloned a
 * function; a function that calls itself counts once. So it survives edits elsewhere in the
 * file, another checkout and a rebuild. Two calls in one function that differ only by their
 * line have the same one. A frame without a function counts by module and offset, which a
 * rebuild may change. Where no frame is the application's, all of them count. */
uint64_t report_fingerprint(const char *api, const char *kind, const struct report_stack *stack);

/* The stack alone, for suppressions: as above without call and kind, and a frame without a
 * function counts by its module's build id and offset (by name and offset if the module has no
 * build id). Returns 0 with *RET, or -ENOENT if no frame of the application is known, or, where
 * no frame is the application's, none of a framework: many other stacks would have the same. */
int report_stack_fingerprint(const struct report_frame *frames, size_t count, uint64_t *ret);

/* 16 hexadecimal digits and a NUL in RET, which is returned. */
char *report_fingerprint_text(uint64_t value, char ret[FINGERPRINT_TEXT]);

#endif

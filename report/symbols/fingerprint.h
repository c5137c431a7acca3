/* SPDX-License-Identifier: MIT
 *
 * Computes a number that identifies a leak across runs, for baselines and CI systems. Files of
 * users contain numbers of version 1 ("gpuleakStack/v1"), so the inputs of this version must not
 * change. Version 2 ("gpuleakStack/v2") also leaves out the parts of names that a compiler makes
 * up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_frame;
struct report_stack;

#define FINGERPRINT_NAME "gpuleakStack/v1"
#define FINGERPRINT_NAME2 "gpuleakStack/v2"
#define FINGERPRINT_DIGITS 16
#define FINGERPRINT_PARTIAL "-partial"
#define FINGERPRINT_TEXT (FINGERPRINT_DIGITS + sizeof(FINGERPRINT_PARTIAL))

/* Returns a hash of API, KIND (for an error its type) and the application's frames. A frame counts
 * by function and last component of the file name. Line, directory, address and suffixes of split
 * or cloned functions do not count, and recursive calls count once. So the number does not change
 * after edits elsewhere in the file, in another checkout, or after a rebuild. Two calls in one
 * function that differ only by line have the same number. A frame without a function name counts by
 * module and offset, which a rebuild may change. If no frame belongs to the application, all frames
 * count. A partial stack has another number than the same frames of a stack that is not. */
uint64_t report_fingerprint(const char *api, const char *kind, const struct report_stack *stack);

/* Returns the fingerprint of version 2. It has no hash of Rust in a function's name, no number of a
 * lambda, closure or unnamed type, and the name as Rust, D, Ada and Fortran write it. A frame
 * without a function in a module that is unpacked for each run counts by build id and offset.
 * Without such frames it equals version 1. */
uint64_t report_fingerprint2(const char *api, const char *kind, const struct report_stack *stack);

/* Computes a hash of the stack alone, for suppressions: like report_fingerprint() without call and
 * kind. A frame without a function name counts by the module's build id (or name) and offset.
 * Returns 0 and stores the hash in *RET. Returns -ENOENT if no frame of the application, or
 * otherwise of a framework, is known, because many stacks would have the same hash. */
int report_stack_fingerprint(const struct report_frame *frames, size_t count, uint64_t *ret);

/* Writes 16 hexadecimal digits and a NUL to RET, with FINGERPRINT_PARTIAL between if the
 * fingerprint is that of a PARTIAL stack. Returns RET. FINGERPRINT() is the same as text that is
 * valid until the end of the block. */
char *report_fingerprint_text(uint64_t value, bool partial, char ret[FINGERPRINT_TEXT]);
#define FINGERPRINT(value, partial) \
	report_fingerprint_text(value, (partial) != 0, (char[FINGERPRINT_TEXT]){ 0 })

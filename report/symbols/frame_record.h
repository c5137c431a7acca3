/* SPDX-License-Identifier: MIT
 *
 * Detects functions for aarch64 that keep no frame record (x29 and the return address side by
 * side). Where unwind tables lack too, a walk by frame records leaves out the callers of these.
 */
#ifndef GPULEAK_REPORT_FRAME_RECORD_H
#define GPULEAK_REPORT_FRAME_RECORD_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CODE has the COUNT instructions before a call. Returns true if the last one of them that stores
 * the return address on the stack does not store x29 beside it. */
bool frame_record_is_missing(const uint32_t *code, size_t count);

/* The same for the call at ADDRESS (as in the file's symbols). Returns false for files of other
 * processors, and if the file has no code there. */
bool frame_record_is_missing_at(Elf *file, GElf_Addr address);

#endif

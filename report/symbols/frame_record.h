/* SPDX-License-Identifier: MIT
 *
 * Detects functions for aarch64 that store no frame record (x29 and the return address, side by
 * side on the stack). If unwind tables are missing, too, a walk along frame records leaves out
 * the callers of such functions.
 */
#pragma once

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CODE has the COUNT instructions before a call. Searches backwards for the instruction that stores
 * the return address on the stack. Returns true if it does not also store x29 directly before the
 * return address. Returns false if it does, or if there is no such instruction. */
bool frame_record_is_missing(const uint32_t *code, size_t count);

/* Does the same for the code in front of ADDRESS (as in the file's symbols). Returns false for
 * files of other processors, and if the file has no code there. */
bool frame_record_is_missing_at(Elf *file, GElf_Addr address);

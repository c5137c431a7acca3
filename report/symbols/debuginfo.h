/* SPDX-License-Identifier: MIT
 *
 * Finds in a module's DWARF the functions that contain an address, including inlined functions,
 * and the lines of the calls. Keeps an index of the module's functions. The caller owns the Dwarf
 * handle. Must not depend on paths, processes or reports.
 */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>

/* One function at an address. The strings are valid as long as the Dwarf handle. */
struct debuginfo_frame {
	const char *function;  /* linkage name, or the plain name if there is none; NULL unknown */
	const char *file;      /* as the debug information has it, may be relative; NULL unknown */
	const char *directory; /* directory that a relative FILE refers to; NULL unknown */
	int line;
	bool is_ada; /* the compiler translated Ada */
};

/* if more calls are inlined into each other, the outer frames are left out */
#define DEBUGINFO_FRAMES_MAX 64

/* Returns a new index of DWARF, which must live longer. */
struct debuginfo *debuginfo_create(Dwarf *dwarf);
void debuginfo_destroy(struct debuginfo *index); /* INDEX may be NULL */

/* Writes to RET the frames at PC, innermost first. Returns their number, 0 if PC has no debug
 * information. */
size_t debuginfo_frames(struct debuginfo *index, Dwarf_Addr pc,
			  struct debuginfo_frame ret[DEBUGINFO_FRAMES_MAX]);

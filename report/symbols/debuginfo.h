/* SPDX-License-Identifier: MIT
 *
 * Asks the DWARF of one module which functions, inlined ones included, hold an address,
 * and from which lines they were called. Owns the index over its functions; the Dwarf
 * handle is the caller's. Knows no paths, processes or reports.
 */
#ifndef GPULEAK_REPORT_DEBUGINFO_H
#define GPULEAK_REPORT_DEBUGINFO_H

#include <elfutils/libdw.h>
#include <stddef.h>

struct debuginfo;

/* One function at an address. Strings live as long as the Dwarf handle. */
struct debuginfo_frame {
	const char *function;  /* linkage name where there is one; NULL unknown */
	const char *file;      /* as the compiler wrote it; NULL unknown */
	const char *directory; /* that FILE is relative to, if it is; NULL unknown */
	int line;
};

#define DEBUGINFO_FRAMES_MAX 64 /* deeper inlining is cut at its outer end */

/* 0 and *RET for DWARF, which must live longer; or -ENOMEM. */
int debuginfo_create(Dwarf *dwarf, struct debuginfo **ret);
void debuginfo_destroy(struct debuginfo *index); /* NULL is fine */

/* The frames at PC, innermost first; returns how many (0 = no debug information there). */
size_t debuginfo_frames(struct debuginfo *index, Dwarf_Addr pc,
			  struct debuginfo_frame ret[DEBUGINFO_FRAMES_MAX]);

#endif

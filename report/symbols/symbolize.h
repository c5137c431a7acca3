/* SPDX-License-Identifier: MIT
 *
 * From an address in a module's file to frames with function, file and line. Owns the
 * caches: each module file is opened once and each address looked up once, for all the
 * processes of a report. Never uses the network, never runs anything, reads only regular
 * files; must not know of ledgers.
 */
#ifndef GPULEAK_REPORT_SYMBOLIZE_H
#define GPULEAK_REPORT_SYMBOLIZE_H

#include <stddef.h>
#include <stdint.h>

#include "report/symbols/frame.h"

struct rules;
struct symbolizer;
struct symbol_module;

/* What one call instruction stands for: more than one frame where calls were inlined,
 * innermost first; never none. One struct for each (module, offset), so pointers compare. */
struct symbol_location {
	const struct report_frame *frames;
	size_t count;
};

#define SYMBOLIZER_NO_FILES 1u /* open nothing: every function and line is unknown */

/* 0 and *RET, to be destroyed after everything that holds its frames; or -ENOMEM. */
int symbolizer_create(unsigned int flags, struct symbolizer **ret);
void symbolizer_destroy(struct symbolizer *symbolizer); /* NULL is fine */

/* The rules by which frames are judged (see rules.h): the shipped ones, or those that it was
 * given, which it owns from then on. */
const struct rules *symbolizer_rules(const struct symbolizer *symbolizer);
void symbolizer_set_rules(struct symbolizer *symbolizer, struct rules *rules);

/* The module that had PATH and BUILD_ID (BUILD_ID_BYTES may be 0: not known) when it was
 * mapped. Nothing is opened before its first location is asked for. 0 or -ENOMEM. */
int symbolizer_module(struct symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		      size_t build_id_bytes, struct symbol_module **ret);

/* The frames at OFFSET of MODULE (see struct report_frame); without a module (NULL), OFFSET
 * is an address in memory. The location is the symbolizer's. 0 or -ENOMEM. */
int symbolizer_location(struct symbolizer *symbolizer, struct symbol_module *module,
			uint64_t offset, const struct symbol_location **ret);

/* A sentence about why the module's file was not used, or NULL. Known only after its first
 * location was asked for. */
const char *symbol_module_problem(const struct symbol_module *module);

#endif

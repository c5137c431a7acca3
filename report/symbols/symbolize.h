/* SPDX-License-Identifier: MIT
 *
 * Maps an address in a module's file to frames with function, file and line. Opens each module
 * file once and looks up each address once for all processes of a report. Must not use the
 * network, run programs, read anything but regular files, or know ledgers.
 */
#ifndef GPULEAK_REPORT_SYMBOLIZE_H
#define GPULEAK_REPORT_SYMBOLIZE_H

#include <stddef.h>
#include <stdint.h>

#include "report/symbols/frame.h"

struct rules;
struct symbolizer;
struct symbol_module;

/* The frames of one call instruction, innermost first: several if calls were inlined, at least one.
 * One struct for each (module, offset), so pointers compare. */
struct symbol_location {
	const struct report_frame *frames;
	size_t count;
};

#define SYMBOLIZER_NO_FILES 1u /* open nothing: every function and line is unknown */

/* 0 and *RET, to be destroyed after everything that holds its frames; or -ENOMEM. */
int symbolizer_create(unsigned int flags, struct symbolizer **ret);
void symbolizer_destroy(struct symbolizer *symbolizer); /* NULL is fine */

/* Sets the rules for frames (see rules.h): the shipped ones, or RULES, which the symbolizer then
 * owns. */
const struct rules *symbolizer_rules(const struct symbolizer *symbolizer);
void symbolizer_set_rules(struct symbolizer *symbolizer, struct rules *rules);

/* Adds the module that had PATH and BUILD_ID (BUILD_ID_BYTES 0: unknown) when it was mapped. Opens
 * the file at the first look-up of a location. 0 or -ENOMEM. */
int symbolizer_module(struct symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		      size_t build_id_bytes, struct symbol_module **ret);

/* The frames at OFFSET of MODULE (see struct report_frame); without a module (NULL), OFFSET
 * is an address in memory. The location is the symbolizer's. 0 or -ENOMEM. */
int symbolizer_location(struct symbolizer *symbolizer, struct symbol_module *module,
			uint64_t offset, const struct symbol_location **ret);

/* Returns why the module's file was not used, or NULL. Known after the first look-up of a
 * location. */
const char *symbol_module_problem(const struct symbol_module *module);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Decides the origin of a frame's code and the cache that allocated at a stack, by rules that
 * are data (gpuleak.rules, preceded by a user's file). Must not know anything else of a report,
 * and must not print.
 */
#ifndef GPULEAK_REPORT_RULES_H
#define GPULEAK_REPORT_RULES_H

#include <stddef.h>

#include "report/symbols/frame.h"

struct rules;

/* Limits, so that a wrong file ends in one line of text and no file makes reports slow. */
#define RULES_BYTES_MAX (1u << 20)
#define RULES_MAX 4096
#define RULES_NAME_MAX 64 /* of a cache */

/* Loads the rules that come with the command. 0 with *RET to be destroyed, or -ENOMEM. */
int rules_shipped(struct rules **ret);

/* Parses LENGTH bytes of TEXT, called NAME in errors, followed by the shipped rules. 0 with *RET,
 * or -errno with "NAME:LINE: what" in ERROR and *RET untouched. */
int rules_parse(const char *text, size_t length, const char *name, struct rules **ret,
		char *error, size_t error_size);

/* Parses the file at PATH. */
int rules_load(const char *path, struct rules **ret, char *error, size_t error_size);

/* How many rules there are. */
size_t rules_size(const struct rules *rules);

void rules_destroy(struct rules *rules); /* NULL is fine */

/* Evaluates the rules for FRAME. The result depends only on function, file and module, so it can be
 * cached. */
struct rules_frame {
	enum frame_role role;
	unsigned int keeper; /* 1 + the first rule of a cache or a library that matches; 0 none */
	int in_library;      /* a rule of a library matches */
};
struct rules_frame rules_frame(const struct rules *rules, const struct report_frame *frame);

/* The state of evaluating a stack from the innermost frame outwards. Starts as { 0 }. */
struct rules_stack {
	unsigned int keeper;  /* as above: the first rule that holds so far */
	unsigned int library; /* the one that holds unless the application called the library */
};
void rules_see(const struct rules *rules, struct rules_stack *stack,
	       const struct rules_frame *frame);

/* Returns the name of the cache that has the memory, after rules_see() of the outermost frame, or
 * NULL. The name lives as long as RULES. */
const char *rules_cache(const struct rules *rules, const struct rules_stack *stack);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Decides the origin of a frame's code, and which cache allocated at a stack. The rules are
 * data: a user's file, followed by gpuleak.rules. Must not depend on other parts of a report,
 * and must not print.
 */
#ifndef GPULEAK_REPORT_RULES_H
#define GPULEAK_REPORT_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "report/symbols/frame.h"

struct rule;
struct rules;

/* Limits, so that a wrong file causes one error line, and no file makes reports slow. */
#define RULES_BYTES_MAX (1u << 20)
#define RULES_MAX 4096 /* of a user */
#define RULES_NAME_MAX 64 /* of a cache's name */

/* Loads the rules that are part of the command. Returns 0 or -ENOMEM. The caller destroys *RET. */
int rules_shipped(struct rules **ret);

/* Parses the LENGTH bytes of TEXT and appends the rules of the command. NAME describes TEXT in
 * errors. Returns 0, or -errno with "NAME:LINE: ..." in ERROR and *RET unchanged. */
int rules_parse(const char *text, size_t length, const char *name, struct rules **ret,
		char *error, size_t error_size);

/* Does the same for the file at PATH. */
int rules_load(const char *path, struct rules **ret, char *error, size_t error_size);

/* Returns the number of rules. */
size_t rules_size(const struct rules *rules);

/* Returns rule I, which is valid as long as RULES. The user's rules come first. */
const struct rule *rules_at(const struct rules *rules, size_t i);

void rules_destroy(struct rules *rules); /* RULES may be NULL */

/* Applies the rules to FRAME. The result depends only on function, file and module, so callers may
 * cache it. */
struct rules_frame {
	enum frame_role role;
	/* 1 + index of the first matching rule for a cache or a library; 0: no rule matches */
	unsigned int cache_rule;
	bool in_library;     /* a rule for a library matches */
	unsigned int thread_rule; /* likewise, of the first matching rule for a thread */
};
struct rules_frame rules_frame(const struct rules *rules, const struct report_frame *frame);

/* The state of applying the rules to a stack, from the innermost frame outwards. Starts as { 0 }.
 * Call rules_add_frame() for each frame. */
struct rules_stack {
	unsigned int cache_rule;  /* first matching rule until now, as in struct rules_frame */
	/* rule that applies unless the application itself called the library */
	unsigned int library;
};
void rules_add_frame(const struct rules *rules, struct rules_stack *stack,
		     const struct rules_frame *frame);

/* Returns the name of the cache that allocated the memory, or NULL. Call it after rules_add_frame()
 * of the outermost frame. The name is valid as long as RULES. */
const char *rules_cache(const struct rules *rules, const struct rules_stack *stack);

/* Returns the name of the framework's thread that the frame runs, or NULL. The name is valid as
 * long as RULES. */
const char *rules_thread(const struct rules *rules, const struct rules_frame *frame);

#endif

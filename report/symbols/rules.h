/* SPDX-License-Identifier: MIT
 *
 * Decides the origin of a frame's code, and which cache allocated at a stack. The rules are
 * data: a user's file, followed by gpuleak.rules. Must not depend on other parts of a report,
 * and must not print.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "report/symbols/frame.h"
#include "report/util/report_arena.h"

/* Limits. A file that is no rule file then causes one error line, and no file makes reports
 * slow. */
#define RULES_BYTES_MAX (1u << 20)
#define RULES_MAX 4096 /* of a user */
#define RULES_NAME_MAX 64 /* of a cache's name */

/* Returns the rules that are part of the command. The caller destroys them. */
struct rules *rules_shipped(void);

/* Parses the LENGTH bytes of TEXT, or the file NAME if TEXT is NULL, and appends the rules of the
 * command. Returns 0, or -errno with "NAME:LINE: ..." in ERROR and *RET unchanged. */
int rules_parse(const char *text, size_t length, const char *name, struct rules **ret,
		char *error, size_t error_size);

/* Returns the number of rules. */
size_t rules_size(const struct rules *rules);

/* Returns rule I, which is valid as long as RULES. The user's rules come first. */
const struct rule *rules_at(const struct rules *rules, size_t i);

/* Makes each rule with NAME say "none". */
void rules_drop(struct rules *rules, const char *name);

void rules_destroy(struct rules *rules); /* RULES may be NULL */

/* Sets role, code, thread and interpreter of each of the COUNT FRAMES of a stack, innermost first.
 * Returns the rule for the cache that allocated at this stack, or NULL. Names are valid as long as
 * RULES. Many stacks share few different frames, so KNOWN, at first { 0 }, stores the decision for
 * each function, file and module; it is allocated from ARENA. KNOWN compares these strings by their
 * addresses, so they must live as long as KNOWN. */
const struct rule *rules_apply(const struct rules *rules, struct table *known,
			       struct report_arena *arena, struct report_frame *frames,
			       size_t count);

/* Returns what a rule says about the functions without names of a process that has the module with
 * the path MODULE, or NULL. */
const char *rules_managed(const struct rules *rules, const char *module);

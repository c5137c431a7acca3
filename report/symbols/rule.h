/* SPDX-License-Identifier: MIT
 *
 * One parsed rule, and the table of the rules that are built into the command. The build makes
 * this table from gpuleak.rules (compile_rules.py), so the command need not find or parse the
 * file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum rule_verb {
	RULE_APPLICATION,
	RULE_RUNTIME,
	RULE_FRAMEWORK,
	RULE_INTERPRETER,
	RULE_PACKAGE,
	RULE_CACHE, /* a rule with this verb or a later one has a name */
	RULE_LIBRARY,
	RULE_THREAD,
	RULE_MANAGED,
	RULE_VERBS
};

/* What a pattern applies to. The text of a rule contains only the first RULE_FIELDS of these. */
enum rule_field {
	RULE_MODULE, /* the last component of the module's path */
	RULE_FUNCTION,
	RULE_FILE,
	RULE_PATH,   /* source file or module */
	RULE_FIELDS,
	RULE_MODULE_PATH = RULE_FIELDS, /* RULE_MODULE, if the pattern has a slash */
	RULE_TARGETS
};

/* A rule matches if all its patterns match. */
struct rule {
	enum rule_verb verb;
	/* name of a cache, a library or a thread, or the text of a note; NULL: the rule says
	 * "none", or it gives a role */
	const char *name;
	/* NULL: the rule has no such pattern; "" is a pattern */
	const char *patterns[RULE_TARGETS];
	/* of a list of pending frees: at most so many blocks of a device; 0: it is no such list */
	uint32_t limit;
};

#define RULES_SHIPPED_MAX 512
extern const struct rule shipped_rules[];
extern const size_t shipped_rule_count; /* at most RULES_SHIPPED_MAX */

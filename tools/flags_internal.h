/* SPDX-License-Identifier: MIT
 *
 * What flags.c and flags_help.c share: the flags that are not options of options.def.
 */
#ifndef GPULEAK_TOOLS_FLAGS_INTERNAL_H
#define GPULEAK_TOOLS_FLAGS_INTERNAL_H

#include "tools/flags.h"

struct flags_extra_row {
	enum flags_extra bit;
	const char *flag;
	int *target;
	enum option_group group;
	enum option_rank rank;
	const char *what; /* help text; NULL: the help does not list the flag */
	/* parses the flag's value, returns 0 or -1; NULL: the flag has no value */
	int (*set)(const char *text);
	const char *metavar, *expects;
};
extern const struct flags_extra_row flags_extras[];
extern const size_t flags_extra_count;

/* Returns a description of the values that COMMAND accepts for option ID. */
const char *flags_expects(const struct flags_command *command, int id);

#endif

/* SPDX-License-Identifier: MIT
 *
 * Parses the command line of each subcommand: flags made from ledger/options.def, the same
 * options as GPULEAK_* variables, --help and --help-all. Prints errors. Not thread-safe: results
 * are global variables.
 */
#pragma once

#include <stdbool.h>

#include "ledger/options.h"

/* A flag of a command that is not an option of options.def. */
struct flags_extra {
	const char *flag; /* "--gate" */
	enum option_group group;
	enum option_rank rank;
	const char *what; /* help text; NULL: the help does not list the flag */
	bool *target;     /* the flag has no value and sets this to 1; or NULL, and: */
	/* parses the flag's value, returns 0 or -1 */
	int (*set)(const char *text);
	const char *metavar, *expects;
};
/* Rows that several commands have. */
#define FLAG_GATE                                                              \
	{ "--gate", OPTION_GROUP_GATE, OPTION_RANK_FIRST,                      \
	  "end with 23 if the gate fails, with 24 if there was nothing to judge", &opt_gate }
#define FLAG_UPDATE_BASELINE                                                   \
	{ "--update-baseline", OPTION_GROUP_GATE, OPTION_RANK_MORE,            \
	  "write the current leaks to the file of --baseline", &opt_update_baseline }

/* A subcommand. */
struct flags_command {
	const char *name;      /* "run" */
	const char *summary;   /* one line of `gpuleak --help` */
	const char *synopsis;  /* text after "gpuleak run" in the help */
	const char *prose;     /* description in the help, complete lines */
	uint64_t options;      /* OPTION_BIT() of the options that the subcommand accepts */
	const struct flags_extra *extras; /* other flags, and a row without a flag; NULL: none */
	/* values that --format accepts, with a final NULL; NULL: all formats */
	const char *const *formats;
	const char *report_to; /* default of --report */
	bool stop_at_operand;   /* words after the first operand are not flags */
	const char *tail;      /* end of the help: exit status, examples */
	const char *tail_of_all; /* end of the help of all options, after TAIL; NULL: nothing */
	int operands_min, operands_max; /* number of operands; operands_max 0: any number */
	const char *wanted; /* error message if their number is another one */
	int usage_status;   /* exit status after wrong usage */
	/* Runs the subcommand with its operands. Returns the exit status. */
	int (*main)(char **operands, int count);
};

extern struct options opt_values;
extern const char *opt_text[OPTION_COUNT]; /* value from a flag or variable; NULL: not set */
extern bool opt_format_implied; /* the format is that of the end of the path of --report */
extern bool opt_gate;
extern bool opt_update_baseline;

enum { FLAGS_WRONG = -1, FLAGS_HELPED = -2 };

/* Sets the opt_* variables from ARGV[1..]. Moves the operands to ARGV[1..], in their order. Returns
 * their number. Returns FLAGS_WRONG after an error, which it prints, and FLAGS_HELPED after it
 * printed --help or --help-all. */
int flags_parse(const struct flags_command *command, int argc, char **argv);

/* Sets each option of MASK that no flag has set from its GPULEAK_* variable. Prints one line for
 * each invalid value and ignores it. Returns the OPTION_BIT()s of invalid values. */
uint64_t flags_environment(uint64_t mask);

/* Parses TEXT as a number of BASE from 1 to MOST. Returns 0, or -1 and leaves *RET unchanged. */
int flags_number(const char *text, int base, uint64_t most, uint64_t *ret);

/* Returns true if --color and the destination WHERE (see output_takes_colors()) allow colours. */
bool flags_wants_colors(const char *where);

/* Prints a subcommand's help on stdout. Explains the options that matter most and names the others,
 * or, if ALL is set, explains all in groups. */
void flags_help(const struct flags_command *command, bool all);

/* Returns a description of the values that COMMAND accepts for option ID. */
const char *flags_expects(const struct flags_command *command, int id);
